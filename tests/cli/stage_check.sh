#!/bin/bash
# Goal:   fmove datasets check finds what is damaged in a dataset, says where, mends what its source still has, and says when all is right.
# Method: a real daemon. Bytes of a file are changed behind its back with its time put back, a file is removed, one is added, one is
#         cut, the manifest is changed; each is told, by a tree and by a single file. Where the source has other bytes by now nothing is
#         written. Who did not stage it may not ask.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; grace = "0s"; };'
up 1

mkdir -p "$(store 1)/set/d"
random 9000000 "$(store 1)/set/d/large"
for i in 1 2 3 4; do echo $i >"$(store 1)/set/f$i"; done
random 5000000 "$(store 1)/file"
data=$(fmove stage s/set 2>err) || bad "stage: $(cat err)"
file=$(fmove stage s/file -- sh -c 'echo "$FMOVE_STAGED"' 2>err) || bad "stage: $(cat err)"

# verified NAME: when it was, in ms; 0: never.
verified() {
	fmove datasets --json | grep -o "\"name\":\"$1\"[^}]*" | grep -o '"verified_ms":[0-9]*' | grep -o '[0-9]*$'
}

[ "$(verified set)" = 0 ] || bad "it was verified already"
for name in set file; do
	fmove datasets check $name >out 2>err || bad "check $name: $(cat out err)"
	[ ! -s out ] && grep -q "$name: .* read again: all as its manifest says" err || bad "check $name says: $(cat out err)"
	[ "$(verified $name)" -gt 1600000000000 ] || bad "it is not written down: $(fmove datasets --json)"
	fmove datasets | grep -q "checked $(date +%Y).* $name " || bad "it is not shown: $(fmove datasets)"
done
# All that is known of one, by its name or its source: lines of at most 80 columns but for paths.
ok fmove datasets set
[ "$(grep -v '/' out | wc -L)" -le 80 ] && grep -q "^  path       $data\$" out || bad "set: $(cat out)"
for line in 'state      ready' 'size       .* bytes)' 'made       20.*s ago' 'asked for  20.*s ago' 'used       20.*s ago' 'checked    20.*s ago' 'pins       0' \
	'holds      1' 'held by    process [0-9]* (uid 0)'; do
	grep -q "^  $line\$" out || bad "set: no $line: $(cat out)"
done
ok fmove datasets --json n1:s/set
! grep -q '"name":"file"' out && grep -q '"name":"set"' out || bad "by its source: $(cat out)"
no 1 'datasets: nothing: no dataset here is called so' fmove datasets nothing
ok fmove datasets
grep -q '^ready .*  1 held  *0 pinned  age  *[0-9]*[sm]  used  *[0-9]*[sm]  checked 20.*  set ' out || bad "the list: $(cat out)"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
start_again n1
[ "$(verified set)" -gt 1600000000000 ] || bad "a daemon that starts does not know it: $(fmove datasets --json)"
before=$(verified set)

# Each kind of damage, and only that. The source has other bytes by now.
spoil "$(store 1)/set/d/large" 5000001
spoil "$(store 1)/file" 101
spoil "$data/d/large" 5000000
spoil "$file" 100
fmove datasets check set >out 2>err
[ $? -eq 5 ] || bad "a byte that is another: $(cat out err)"
grep -qx 'corrupt: d/large at byte 4,194,304, 4,194,304 bytes' out && [ "$(wc -l <out)" -eq 1 ] || bad "where: $(cat out)"
grep -q 'set: 1 places were not as.*set/d/large has other bytes by now; fmove unstage set' err || bad "what to do: $(cat err)"
fmove datasets check file >out 2>err
[ $? -eq 5 ] && grep -qx 'corrupt: file at byte 0, 4,194,304 bytes' out || bad "of a file: $(cat out err)"
chmod u+w "$data" "$data/f2"
rm -f "$data/f1"
echo longer >>"$data/f2"
: >"$data/extra"
fmove datasets check --json set >out 2>err
[ $? -eq 5 ] || bad "damage of all kinds: $(cat out err)"
for f in '"corrupt","path":"d/large","offset":4194304,"length":4194304,"mended":false' '"missing","path":"f1"' '"changed","path":"f2"' \
	'"extra","path":"extra"'; do
	grep -qF "{\"kind\":$f" out || bad "no $f: $(cat out)"
done
[ "$(grep -o '"kind"' out | wc -l)" -eq 4 ] && grep -q '"exit":5}' out || bad "not four: $(cat out)"
[ "$(verified set)" = "$before" ] || bad "what is damaged was verified"

# Staged again it is right.
await fmove unstage file 2>/dev/null || bad "it stays: $(fmove datasets)"
ok fmove stage s/file
ok fmove datasets check file

# A manifest that is another one.
manifest=$(dirname "$data")/.manifest
spoil "$manifest" 100
no 5 'manifest of set is damaged' fmove datasets check set

# What a hand wrote has another time: it is not mended in place, and what the line says instead brings it back.
written() { echo other | dd of="$1" conv=notrunc status=none; }
shortened() { truncate -s 4000000 "$1"; }
removed() { rm -f "$1"; }
linked() { ln -sf /etc/passwd "$1"; }
piped() { rm -f "$1" && mkfifo "$1"; }
mkdir "$(store 1)/hand"
random 5000000 "$(store 1)/hand/f"

# by HAND: a dataset, spoiled so, held by nobody.
by() {
	ok fmove stage s/hand -- true
	hand=$(echo "$dir"/c/n1/cache/ready/*/hand)
	chmod u+w "$hand" "$hand/f"
	"$1" "$hand/f"
}

for how in written shortened removed linked piped; do
	by $how
	no 5 'hand: 1 places .*: only what is corrupt in a file of the right size and time is mended; fmove unstage hand, and stage it again' \
		fmove datasets check hand
	grep -Eqx '(missing|changed): f at byte 0, 5,000,000 bytes' out || bad "$how: $(cat out)"
	await fmove unstage hand 2>/dev/null || bad "$how: it stays: $(fmove datasets)"
done
ok fmove stage s/hand -- true
ok fmove datasets check hand
same "$(store 1)/hand/f" "$hand/f"

# What is no file at all does not belong there, and is not opened.
by true
mkfifo "$hand/fifo"
no 5 'hand: 1 places' fmove datasets check hand
grep -qx 'extra: fifo' out || bad "a pipe: $(cat out)"
rm "$hand/fifo"
manifest=$(dirname "$hand")/.manifest
rm "$manifest" && mkfifo "$manifest"
no 5 'manifest of hand is damaged' fmove datasets check hand

no 1 'no dataset here is called "none"' fmove datasets check none
no 2 'check NAME' fmove datasets check
no 2 'check NAME' fmove datasets look set
need_nobody
chmod 755 "$dir/c" "$dir/c/n1"
no 6 'only who staged it' as_nobody fmove datasets check file
exit
