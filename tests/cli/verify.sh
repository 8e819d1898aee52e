#!/bin/bash
# Goal:   what is stored can be read again, and a flipped bit is found with its file and place; what was changed on purpose is no damage.
# Method: put a file and a tree, verify; flip a bit in the store without touching the time; change a file; remove a digest; ask for nonsense.
. "$(dirname "$0")/lib.sh"
# The store needs extended attributes of users, which not every /tmp has.
[ -n "${FM_BUILD:-}" ] && export TMPDIR=$FM_BUILD
up 2

# flip FILE OFFSET: one bit there, the time as it was.
flip() {
	touch -r "$1" time
	printf "\\$(printf %o $(($(od -An -tu1 -j "$2" -N 1 "$1") ^ 4)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
	touch -r time "$1"
}

random 11000000 f
ok fmove put f n2:s/a/f
if command -v getfattr >/dev/null && ! getfattr -n user.fmove.crc32c "$(store 2)/a/f" >/dev/null 2>&1; then
	skip "no extended attributes of users in $TMPDIR"
fi
fmove verify n2:s/a/f >out 2>err
[ $? -eq 1 ] && grep -q 'nothing could be compared' err && skip "no extended attributes of users in $TMPDIR"

ok fmove verify n2:s/a/f
[ ! -s out ] || bad "something was found in a good file: $(cat out)"
grep -q '1 file, 11.0 MB read again in .*: all as they came$' err || bad "a good file: $(cat err)"
ok fmove verify --json n2:s/a/f
[ "$(json files out) $(json bytes out) $(json corrupt out) $(json exit out)" = "1 11000000 0 0" ] || bad "json of a good file: $(cat out)"
ok fmove verify -q n2:s/a/f
[ ! -s err ] || bad "-q says $(cat err)"

# A tree: small files, a large one.
mkdir -p t/sub
for i in $(seq 20); do
	random $((i * 1000)) t/sub/$i
done
random 9000000 t/large
ok fmove put -r t n2:s/t
ok fmove verify n2:s/t
grep -q '21 files, .* all as they came$' err || bad "a good tree: $(cat err)"
ok fmove verify n2:s
grep -q '22 files' err || bad "a whole store: $(cat err)"

# The node's own store.
use 2
ok fmove verify n2:s/t
grep -q '21 files' err || bad "the own store: $(cat err)"
use 1

# Damage: found with file and place, at the file's node and from elsewhere.
flip "$(store 2)/a/f" 9000000
flip "$(store 2)/t/sub/7" 5000
for node in 1 2; do
	use $node
	fmove verify n2:s >out 2>err
	[ $? -eq 5 ] || bad "damage: status is not 5: $(cat out err)"
	grep -Eq '^corrupt: a/f at byte 8,388,608, somewhere in 2,611,392 bytes$' out || bad "the damage of a/f is not found where it is: $(cat out)"
	grep -Eq '^corrupt: t/sub/7 at byte 0, somewhere in 7,000 bytes$' out || bad "the damage of t/sub/7 is not found: $(cat out)"
	[ "$(wc -l <out)" -eq 2 ] || bad "something else is found: $(cat out)"
	grep -q '22 files, .*: 2 corrupt, 0 unreadable' err || bad "damage, the last line: $(cat err)"
done
use 1
fmove verify --json n2:s >out 2>err
[ "$(json corrupt out) $(json exit out)" = "2 5" ] || bad "json of damage: $(cat out)"
grep -q '{"kind":"corrupt","path":"a/f","offset":8388608,"length":2611392}' out || bad "json of damage: $(cat out)"
fmove verify n2:s/t/sub/8 >out 2>err || bad "the file beside it: $(cat out err)"

# Flipped back it is well again.
flip "$(store 2)/a/f" 9000000
flip "$(store 2)/t/sub/7" 5000
ok fmove verify n2:s

# Changed on purpose, or not ours: counted, no damage.
echo more >>"$(store 2)/t/sub/3"
touch "$(store 2)/t/sub/4"
echo new >"$(store 2)/t/new"
ok fmove verify n2:s/t
grep -q '22 files, .*: all as they came; 2 changed since, 1 without digest$' err || bad "changed: $(cat err)"
no 1 'nothing could be compared' fmove verify n2:s/t/new
no 1 'nothing could be compared' fmove verify n2:s/t/sub/3
ok mkdir "$(store 2)/empty"
ok fmove verify n2:s/empty
grep -q '0 files' err || bad "an empty directory: $(cat err)"

# A name that is no UTF-8.
printf 'x' >x
ok fmove put x "n2:s/$(printf 'a\377b')"
flip "$(store 2)/$(printf 'a\377b')" 0
fmove verify n2:s >out 2>err
[ $? -eq 5 ] || bad "a name that is no UTF-8: $(cat out err)"
grep -Fq 'corrupt: a\xffb at byte 0' out || bad "a name that is no UTF-8: $(cat out)"
rm -f "$(store 2)/$(printf 'a\377b')"

# Mistakes.
no 1 'nostore' fmove verify n2:nostore/x
no 1 'nostore' fmove --socket "$dir/c/n2/fmoved.sock" verify n2:nostore/x
no 1 'n9' fmove verify n9:s/x
no 1 'nothing' fmove verify n2:s/nothing
no 2 'NODE:STORE' fmove verify here
fmove verify n2:s n2:s >out 2>err
[ $? -eq 2 ] || bad "two names are taken"
if [ "$(id -u)" -ne 0 ]; then
	chmod 000 "$(store 2)/t/sub/9"
	fmove verify n2:s/t >out 2>err
	[ $? -eq 5 ] && grep -q '^unreadable: t/sub/9' out || bad "a file that cannot be read: $(cat out err)"
	chmod 600 "$(store 2)/t/sub/9"
fi

# Many findings at once, more than one message holds.
mkdir -p many
for i in $(seq 300); do
	echo "$i" >many/$i
done
ok fmove put -r many n2:s/many
for i in $(seq 300); do
	flip "$(store 2)/many/$i" 0
done
fmove verify n2:s/many >out 2>err
[ $? -eq 5 ] || bad "300 damaged files: $(cat err)"
[ "$(grep -c '^corrupt: many/' out)" -eq 300 ] || bad "of 300 damaged files $(wc -l <out) are said"
[ "$(sort -u out | wc -l)" -eq 300 ] || bad "a damaged file is said twice"

# Cancelled: at once, and the daemons go on.
head -c 300000000 /dev/zero | fmove put - n2:s/big 2>err || bad "big: $(cat err)"
env --default-signal=INT fmove verify n2:s/big >out 2>err &
pid=$!
kill -INT $pid
wait $pid
status=$?
[ $status -eq 130 ] || [ $status -eq 0 ] || bad "SIGINT ended it with $status: $(cat err)"
ok fmove verify n2:s/a

# Its node goes away in the middle.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2 || bad "n2 does not stop"
no 4 'n2' fmove verify n2:s
"$FM_SOURCE/tests/cluster" start "$dir/c" n2 || bad "n2 does not start again"
