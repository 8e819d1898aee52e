#!/bin/bash
# Goal:   a file name is bytes: what a file system takes travels both ways and is listed as it is.
# Method: names with blanks, UTF-8, newlines, no UTF-8 at all, quotes, 255 bytes; put, list, get, remove each.
. "$(dirname "$0")/lib.sh"
up 2

long=$(printf 'n%.0s' $(seq 255))
names=('two words' 'Grüße 🚀' $'line\nbreak' $'tab\tand\rreturn' $'\xff\xfe\x80' '"quoted" \back' '-dash' '--force' '~' '*' 'a:b' "$long"
       $'\x1b[31mred' '...' '.hidden')
for name in "${names[@]}"; do
	random 5000 src
	ok fmove put -- src "n2:s/d/$name"
	same src "$(store 2)/d/$name"
	rm -f back
	ok fmove get "n2:s/d/$name" back
	same src back
	ok fmove stat "n2:s/d/$name"
done
fmove ls n2:s/d >raw 2>err || bad "ls: $(cat err)"
ls -A "$(store 2)/d" | LC_ALL=C sort >raw.want
LC_ALL=C sort raw | cmp - raw.want || bad "ls does not show the names as they are"
ok fmove ls --json n2:s/d
grep -q '"bytes":"//6A"' out || bad "a name that is no UTF-8 is not shown as its bytes"
grep -q 'line\\nbreak' out || bad "a line break is not escaped in JSON"
grep -q $'\x1b' out && bad "an escape character went through JSON"
for name in "${names[@]}"; do
	ok fmove rm "n2:s/d/$name"
done
[ -z "$(ls -A "$(store 2)/d")" ] || bad "not removed: $(ls -A "$(store 2)/d")"

# A source's own name is taken when the target is a directory.
random 100 'own name'
ok fmove put 'own name' n2:s/into/
same 'own name' "$(store 2)/into/own name"
ok fmove put -f 'own name' n2:s/into
mkdir here
ok fmove get 'n2:s/into/own name' here
same 'own name' 'here/own name'
ok fmove get -f 'n2:s/into/own name' here/

# Too long is said, whoever finds it.
no 1 'name of 256 bytes' fmove put src "n2:s/${long}n"
no 2 'longer than 4095' fmove put src "n2:s/$(printf 'a/%.0s' $(seq 2100))x"
deep=$(printf 'd%.0s/' $(seq 200))
ok fmove put src "n2:s/${deep}x"
same src "$(store 2)/${deep}x"
no_partials

# A directory that the spelling does not show: the file goes into it; what has no name cannot.
ok fmove mkdir n2:s/plain
ok fmove put src n2:s/plain
same src "$(store 2)/plain/src"
no 6 'exists' fmove put src n2:s/plain
no 2 'irectory' fmove put - n2:s/plain

# A file goes into the directory that was named, and no deeper: a directory there that has its name keeps what is in it.
into=$(store 2)/deeper
mkdir -p "$into/src/src.d" "$into/there/src" "$into/empty/src"
echo kept >"$into/src/src.d/f"
echo kept >"$into/there/src/src"
chmod 777 "$into" "$into"/* "$into"/*/src
for path in there/ there empty/ empty; do
	no 2 'is a directory; name a file in it' fmove put src n2:s/deeper/$path
	no 2 'is a directory; name a file in it' fmove put -f src n2:s/deeper/$path
	no 2 'a directory is there' fmove put -fn src n2:s/deeper/$path
	no 2 'is a directory; name a file in it' fmove put -r --update src n2:s/deeper/$path
	no 2 'is a directory; name a file in it' fmove put -fv src n2:s/deeper/$path
done
fmove put -f src 'own name' n2:s/deeper/there 2>err
[ $? -eq 3 ] && same 'own name' "$into/there/own name" || bad "one of two is in the way: $(cat err)"
[ "$(cat "$into/there/src/src")" = kept ] || bad "what nobody named was replaced"
[ -z "$(ls -A "$into/empty/src")" ] || bad "a file went deeper than was named: $(ls -A "$into/empty/src")"
no 2 'is a directory; name a file in it' fmove put --latest last src n2:s/deeper/there
[ -z "$(find "$into" -name last)" ] || bad "a link leads to what was not put: $(find "$into" -name last)"

# What can be read once only goes into a directory, too, and is not read before that is known.
mkfifo fifo
cat src >fifo &
ok fmove put fifo n2:s/deeper/empty
same src "$into/empty/fifo"
wait

# Between a store of this node and another one it is the same.
cp src "$(store 1)/own"
mkdir -p "$(store 1)/into/own"
mkdir "$into/taken" "$into/taken/own" "$into/free"
chmod 777 "$(store 1)/into" "$(store 1)/into/own" "$into"/{taken,free} "$into/taken/own"
ok fmove put n1:s/own n2:s/deeper/free
same src "$into/free/own"
ok fmove put --update -r n1:s/own n2:s/deeper/free
no 6 'exists' fmove put n1:s/own n2:s/deeper/free
no 2 'is a directory; name a file in it' fmove put n1:s/own n2:s/deeper/taken
no 2 'is a directory; name a file in it' fmove put -f n1:s/own n2:s/deeper/taken/
[ -z "$(ls -A "$into/taken/own")" ] || bad "a file between stores went deeper than was named"
ok fmove get n2:s/deeper/empty/fifo n1:s/into
same src "$(store 1)/into/fifo"
no 2 'is a directory' fmove get n2:s/deeper/free/own n1:s/into
ok fmove get --detach -f n2:s/deeper/empty/fifo n1:s/into
ok fmove wait -q "$(cat out)"

# A directory of the caller's that has the name is told as that, and not as the source.
mkdir -p mine/own
no 2 'mine/own is a directory' fmove get n2:s/deeper/free/own mine/
grep -q 'get -r' err && bad "the source is called a directory: $(cat err)"
no 2 'mine/own is a directory' fmove get --range 0:1 n2:s/deeper/free/own mine
no 2 'mine/own is a directory' fmove get --detach n2:s/deeper/free/own mine
no 2 'deeper is a directory, which moves with all that is in it by: fmove get -r' fmove get n2:s/deeper mine
