#!/bin/bash
# Goal:   what a store gives is what was put there: where a digest was kept, a get compares, says which file is corrupt and where, and publishes nothing.
# Method: flip bits in the store without touching the time; get files, trees, ranges of both ends; put between stores; a file written to on purpose.
. "$(dirname "$0")/lib.sh"
# The store needs extended attributes of users, which not every /tmp has.
[ -n "${FM_BUILD:-}" ] && export TMPDIR=$FM_BUILD
up 2

random 11000000 f
ok fmove put f n2:s/a/f
fmove verify n2:s/a/f >out 2>err
[ $? -eq 1 ] && grep -q 'nothing could be compared' err && skip "no extended attributes of users in $TMPDIR"
ok fmove get n2:s/a/f good
cmp -s f good || bad "a good file is another now"

# A file.
flip "$(store 2)/a/f" 9000000
no 5 '"a/f" is corrupt from byte 8388608 on, somewhere in 2611392 bytes' fmove get n2:s/a/f got
[ ! -e got ] || bad "a corrupt file was given its name"
[ -z "$(find . -name '.fmove*')" ] || bad "a corrupt file left $(find . -name '.fmove*')"
no 5 'is corrupt' fmove get -f n2:s/a/f good
cmp -s f good || bad "a corrupt file took the place of a good one"
fmove get --json n2:s/a/f got >out 2>err
[ $? -eq 5 ] || bad "--json: the status is not 5"
grep -q 'EBADMSG' out && grep -q '8388608' out || bad "--json does not say it: $(cat out)"
fmove get n2:s/a/f - >piped 2>err
[ $? -eq 5 ] || bad "to standard output: the status is not 5: $(cat err)"
ok fmove get --accept-corrupt n2:s/a/f got
cmp -s "$(store 2)/a/f" got || bad "--accept-corrupt gives something else than there is"
grep -q 'its source is corrupt' err || bad "--accept-corrupt does not say so: $(cat err)"

# Between stores: what arrives has no digest that would call it good.
use 2
no 5 'the source is corrupt from byte 8388608 on' fmove put n2:s/a/f n1:s/b
ok fmove put --accept-corrupt n2:s/a/f n1:s/b
grep -q 'its source is corrupt' err || bad "a put that accepts it does not say so: $(cat err)"
no 1 'nothing could be compared' fmove verify n1:s/b
use 1
no 5 '"a/f" is corrupt' fmove get n2:s/a/f n1:s/c
[ ! -e "$(store 1)/c" ] || bad "a corrupt file was given its name in a store"

# Written to on purpose: as it is.
echo more >>"$(store 2)/a/f"
ok fmove get -f n2:s/a/f got
cmp -s "$(store 2)/a/f" got || bad "a file that was written to is another"
flip "$(store 2)/a/f" 5
touch "$(store 2)/a/f"
ok fmove get -f n2:s/a/f got

# A tree: a small file, one of several packs' size, a large one.
mkdir -p t/sub
for i in $(seq 20); do
	random $((i * 1000)) t/sub/$i
done
random 3500000 t/middle
random 9000000 t/large
ok fmove put -r t n2:s/t
ok fmove get -r n2:s/t back
diff -r t back >/dev/null || bad "a good tree is another"
for case in 'sub/7 5000 byte 0' 'middle 3000000 byte 0' 'large 8999999 byte 8388608'; do
	read -r name at what <<<"$case"
	flip "$(store 2)/t/$name" "$at"
	no 5 "$name.* is corrupt from $what on" fmove get -r n2:s/t new
	[ ! -e new ] || bad "$name: a tree with a corrupt file was published"
	ok fmove get -r --accept-corrupt n2:s/t new
	grep -q 'its source is corrupt' err || bad "$name: --accept-corrupt does not say so: $(cat err)"
	diff -r "$(store 2)/t" new >/dev/null || bad "$name: --accept-corrupt gives something else than there is"
	rm -r new
	# No digest says of it that it is as it was: not the file's own, and not the tree's.
	ok fmove get -r --accept-corrupt n2:s/t n1:s/taken
	ok fmove verify n1:s/taken
	grep -q 'all as they came; 1 without digest$' err || bad "$name: a digest is kept of what is corrupt: $(cat err)"
	ok fmove rm -r n1:s/taken
	flip "$(store 2)/t/$name" "$at"
done
ok fmove get -r n2:s/t new
diff -r t new >/dev/null || bad "a tree that is good again is another"
echo more >>"$(store 2)/t/sub/3"
ok fmove get -r --update n2:s/t new

# The checksum itself is damaged, so nobody knows what was put there: as what differs.
damage() {
	python3 -c 'import os, sys; [os.setxattr(p, "user.fmove.crc32c", b"\1\1") for p in sys.argv[1:]]' "$@"
}
told='the checksum that was kept with it is damaged, so that nobody knows'
ok fmove put f n2:s/dam/f
ok fmove put -r t n2:s/dam/t
damage "$(store 2)/dam/f"
no 5 "\"dam/f\": $told" fmove get n2:s/dam/f none
no 5 "$told" fmove get --range 5:10 n2:s/dam/f none
no 5 "$told" fmove get n2:s/dam/f n1:s/none
[ ! -e none ] && [ ! -e "$(store 1)/none" ] || bad "a file of which nobody knows what it was was given its name"
ok fmove get --accept-corrupt n2:s/dam/f n1:s/dam
grep -q 'its source is corrupt' err || bad "a damaged checksum is accepted, and nobody says so: $(cat err)"
cmp -s f "$(store 1)/dam" || bad "--accept-corrupt gives something else than there is"
no 1 'nothing could be compared' fmove verify n1:s/dam
ok fmove get --accept-corrupt --range 5:10 n2:s/dam/f got2
cmp -s got2 <(tail -c +6 f | head -c 10) || bad "a range that is accepted is something else"
for name in sub/7 middle large; do
	damage "$(store 2)/dam/t/$name"
	no 5 "$name.*$told" fmove get -r n2:s/dam/t new2
	[ ! -e new2 ] || bad "$name: a tree with such a file was published"
	ok fmove get -r --accept-corrupt n2:s/dam/t new2
	grep -q 'its source is corrupt' err || bad "$name: --accept-corrupt does not say so: $(cat err)"
	diff -r t new2 >/dev/null || bad "$name: --accept-corrupt gives something else than there is"
	rm -r new2
	ok fmove put -f "t/$name" "n2:s/dam/t/$name"
done
ok fmove get -r n2:s/dam/t new2

# A directory of a user has no digests that count: what somebody made of it with the times as they were is theirs.
ok fmove get n2:s/t/large mine
flip mine 100
ok fmove put -f mine n2:s/mine
cmp -s mine "$(store 2)/mine" || bad "a user's file is another"
