#!/bin/bash
# Goal:   ls, stat, rm and mkdir do what they say, also where there is much, and at our own node.
# Method: a directory of several pages; JSON; every kind of entry; several names in one command.
. "$(dirname "$0")/lib.sh"
up 2

ok fmove mkdir n2:s/a/b/c n2:s/e
[ -d "$(store 2)/a/b/c" ] && [ -d "$(store 2)/e" ] || bad "mkdir made nothing"
no 6 'exists' fmove mkdir n2:s/e
ok fmove mkdir -p n2:s/e n2:s/e/f n2:s
[ -d "$(store 2)/e/f" ] || bad "mkdir -p made nothing"
echo >"$(store 2)/file"
no 6 'exists' fmove mkdir -p n2:s/file
rm "$(store 2)/file"
rmdir "$(store 2)/e/f"

# 1000 names, in order, once each, by page and at once.
mkdir "$(store 2)/many"
(cd "$(store 2)/many" && seq -f 'name %04g' 1000 | tr '\n' '\0' | xargs -0 touch)
fmove ls n2:s/many >list || bad "ls of 1000"
seq -f 'name %04g' 1000 | cmp - list || bad "ls of 1000 shows other names"
after= pages=0
: >paged
while fmove ls --max 300 --after "$after" n2:s/many >page && [ -s page ]; do
	cat page >>paged
	after=$(tail -n 1 page)
	pages=$((pages + 1))
done
cmp list paged || bad "ls by pages shows other names"
[ $pages -eq 4 ] || bad "1000 names by 300 make $pages pages"
ok fmove ls --json n2:s/many
[ "$(grep -o '"name":' out | wc -l)" -eq 1000 ] || bad "ls --json of 1000"
tail -c 12 out | grep -q '"exit":0}' || bad "the end of ls --json: $(tail -c 50 out)"

# Long listing, kinds, one file.
random 12345 f
chmod 600 f
ok fmove put f n2:s/f
ok fmove ls --long n2:s
grep -Eq '^-rw------- +12345 20[0-9-]+ [0-9:]+ f$' out || bad "ls --long: $(cat out)"
grep -Eq '^drwx.* many/$' out || bad "ls --long of a directory: $(cat out)"
ok fmove ls n2:s/f
[ "$(cat out)" = f ] || bad "ls of a file: $(cat out)"
ok fmove ls n2:s/
ok fmove ls n2:s/e
[ -s out ] && bad "an empty directory shows $(cat out)"
ok fmove stat --json n2:s/f
[ "$(json type out)" = file ] && [ "$(json size out)" = 12345 ] && [ "$(json mode out)" = 0600 ] || bad "stat --json: $(cat out)"
ok fmove stat n2:s
grep -q directory out || bad "stat of the store: $(cat out)"
no 1 'no|No' fmove stat n2:s/nothing
no 1 'no|No' fmove ls n2:s/nothing

# Removing.
no 2 'is a directory.*-r' fmove rm n2:s/many
[ -d "$(store 2)/many" ] || bad "rm without -r removed a directory"
ok fmove rm -r n2:s/many
[ -e "$(store 2)/many" ] && bad "rm -r left the directory"
no 1 'no|No' fmove rm n2:s/nothing
no 3 'nothing' fmove rm n2:s/f n2:s/nothing
[ -e "$(store 2)/f" ] && bad "rm of several stopped early"
ok fmove rm -r --json n2:s/a n2:s/e
grep -q '"exit":0}' out || bad "rm --json: $(cat out)"

# A removal that is cut off in its midst: nobody finds a part of the directory under its name.
mkdir "$(store 2)/half"
touch "$(store 2)"/half/{1..9}
crash n2
FMOVE_FAULT=store.unlink:3+2 start_again n2
reachable 2
fmove rm -r n2:s/half >out 2>err &
remover=$!
is_begun() {
	[ "$(find "$(store 2)" -name '[1-9]' | wc -l)" -le 7 ]
}
await is_begun || bad "rm -r removes nothing"
crash n2
wait $remover
[ ! -e "$(store 2)/half" ] || bad "a removal that was cut off left $(ls "$(store 2)/half") under the name"
start_again n2
reachable 2

# Our own stores are asked for in the same way.
ok fmove mkdir n1:s/own
[ -d "$(store 1)/own" ] || bad "mkdir at our own node"
ok fmove ls n1:s
[ "$(cat out)" = own/ ] || bad "ls of our own store: $(cat out)"
ok fmove rm -r n1:s/own
