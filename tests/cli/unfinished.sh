#!/bin/bash
# Goal:   what transfers that were cut off left in a directory of the caller's, or in a store, is seen, and goes when he says so: nothing that a transfer
#         works on, nothing that is nowhere else, nothing of the user's own.
# Method: gets of a file and of a directory, killed; others that run; things of the same names that are none of these.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
up 2

src=$(store 2)
mkdir "$src/tree" && random 40000000 "$src/file" && random 40000000 "$src/tree/f" && mkdir d

# value KEY: of `out`.
value() {
	grep -o "\"$1\":[^,}]*" out | head -n 1 | sed 's/.*://'
}

is_coming() {
	[ -n "$(find d -name "$pattern" -size +0 | head -n 1)" ]
}

# What the lock of a directory that comes says of it.
is_made() {
	[ "$(head -c 16 d/.fmove.*.tree/lock)" = "$(printf %016x "$(stat -c %i d/.fmove.*.tree/data)")" ]
}

# begun PATTERN ARGS...: a get that is slow, and has brought something.
begun() {
	pattern=$1
	shift
	slow 2
	fmove get --quiet "$@" 2>/dev/null &
	get=$!
	await is_coming || bad "nothing comes: $(find d -ls)"
}

cut_off() {
	kill -KILL $get
	wait $get 2>/dev/null
	fast 2
}

ok fmove df --json ./d
[ "$(value unfinished)" = 0 ] && [ "$(value unfinished_transfers)" = 0 ] || bad "an empty directory: $(cat out)"
begun '.fmove.*.journal' n2:s/file d/file
ok fmove df --json ./d
[ "$(value unfinished)" -gt 1000000 ] && [ "$(value unfinished_transfers)" = 1 ] || bad "one that runs: $(cat out)"
no 1 'stays: a transfer works on it' fmove purge --unfinished d
no 1 'stays: a transfer works on it' fmove purge --unfinished -n d
cut_off
begun journal -r n2:s/tree d/tree
no 3 'stays: a transfer works on it' fmove purge --unfinished -n d
cut_off
# One that was cut off between the exchange and what follows: the other name is the replaced version's.
tree=$(echo d/.fmove.*.tree)
mkdir "${tree%.tree}.new" && echo saved >"${tree%.tree}.new/saved"
for how in '' -n; do
	no 3 "\.new\" may be the version that this transfer replaced" fmove purge --unfinished $how --json d
	[ "$(cat d/.fmove.*.new/saved)" = saved ] && [ -e "$tree/data" ] || bad "purge $how: it went: $(ls -lA d)"
	[ -n "$how" ] || begun '.fmove.*.journal' n2:s/file d/file
	[ -n "$how" ] || cut_off
done
rm -r "${tree%.tree}.new"
journal=$(find d -maxdepth 1 -name '.fmove.*.journal')
find d -name '.fmove.*' >there
ok fmove df d/
grep -q 'unfinished: 2 ' out || bad "df: $(cat out)"
ok fmove purge d
ok fmove purge --unfinished -n d
grep -q ' unfinished .* \.fmove\..*\.part$' out && grep -q ' tree (\.fmove\..*\.tree)$' out && grep -q 'would remove 2 unfinished' out ||
	bad "purge -n: $(cat out)"
find d -name '.fmove.*' | diff there - || bad "purge, or purge -n, removed something"
# What only has such a name, and what is nowhere else.
mkdir d/.fmove.00000000000000aa.tree && echo mine >d/.fmove.00000000000000aa.tree/f
mkdir d/.fmove.00000000000000ab.kept && echo mine >d/.fmove.00000000000000ab.kept/f
mkdir d/.fmove.00000000000000ac.new && echo mine >d/.fmove.00000000000000ac.new/f
echo mine >d/.fmove.00000000000000ad.part
echo mine >d/.fmove.00000000000000ae.part && echo no >d/.fmove.00000000000000ae.journal
# A journal that is of another file.
cp "$journal" d/.fmove.00000000000000af.journal && echo mine >d/.fmove.00000000000000af.part
no 3 'stays: .*; [0-9]+ more stay' fmove purge --unfinished --json d
[ "$(grep -o '"path":' out | wc -l)" -eq 2 ] && grep -q '"unfinished":\[{"path":' out || bad "purge --json: $(cat out)"
[ "$(cat d/.fmove.00000000000000a*/f d/.fmove.00000000000000a*.part | sort -u)" = mine ] || bad "something else went: $(ls -lAR d)"
[ "$(cat d/.fmove.00000000000000a*/f d/.fmove.00000000000000a*.part | wc -l)" -eq 6 ] || bad "something else went: $(ls -lAR d)"
rm -r d/.fmove.00000000000000a*
[ -z "$(ls -A d)" ] || bad "something is left: $(ls -lAR d)"
# What a power cut left: zeros in the place of what the lock said, with and without a tree of which nobody can say whose it is.
begun journal -r n2:s/tree d/tree
cut_off
tree=$(echo d/.fmove.*.tree)
dd if=/dev/zero of="$tree/lock" bs=50 count=1 conv=notrunc status=none
mkdir "${tree%.tree}.new"
for how in '' -n; do
	no 1 "\.new\" may be the version that this transfer replaced" fmove purge --unfinished $how d
done
[ -e "$tree/data" ] || bad "it went though nobody can say what the other is: $(ls -lAR d)"
rmdir "${tree%.tree}.new"
ok fmove purge --unfinished d
[ -z "$(ls -A d)" ] || bad "something is left of it: $(ls -lAR d)"
# Of a file that was cut off before its first record, or of whose journal a power cut left zeros; not what somebody else wrote there.
for i in 1 2 3; do
	echo came >d/.fmove.00000000000000b$i.part
done
: >d/.fmove.00000000000000b1.journal
truncate -s 100 d/.fmove.00000000000000b2.journal
truncate -s 5000 d/.fmove.00000000000000b3.journal
ok fmove purge --unfinished -n d
grep -q 'would remove 3 unfinished' out && [ "$(ls -A d | wc -l)" -eq 6 ] || bad "purge -n of empty journals: $(cat out; ls -lA d)"
ok fmove purge --unfinished d
[ -z "$(ls -A d)" ] || bad "something is left of them: $(ls -lA d)"
echo mine >d/.fmove.00000000000000b4.part
truncate -s 100 d/.fmove.00000000000000b4.journal
echo no >>d/.fmove.00000000000000b4.journal
no 6 'stays: nothing says' fmove purge --unfinished d
[ "$(ls -A d | wc -l)" -eq 2 ] || bad "something else went: $(ls -lA d)"
rm d/.fmove.00000000000000b4.*
# What a get kept, under the name that it had.
mkdir -m 700 d/.fmove.00000000000000ab.kept && mkdir d/.fmove.00000000000000ab.kept/tree
touch "d/.fmove.00000000000000ab.kept/.fmove.held.$(printf %016x "$(stat -c %i d/.fmove.00000000000000ab.kept/tree)")"
no 6 '"\.fmove\.00000000000000ab\.kept/tree" stays: .* nowhere else' fmove purge --unfinished d
rm -r d/.fmove.00000000000000ab.kept
ok fmove get -q n2:s/file d/file
same "$src/file" d/file
# What is unfinished in a directory that is replaced goes with that; the next get begins anew.
mkdir "$src/small" && echo 1 >"$src/small/version"
ok fmove get -r n2:s/small d/around
begun '.fmove.*.journal' n2:s/file d/around/file
cut_off
echo 2 >"$src/small/version"
ok fmove get -r --update n2:s/small d/around
ok fmove get --json n2:s/file d/around/file
[ "$(value resumed_bytes)" = 0 ] || bad "it went on with what is in the version that was replaced: $(cat out)"
same "$src/file" d/around/file
ok fmove purge d
[ "$(ls -A d)" = "around
file" ] || bad "something is left: $(ls -lAR d)"
# ---- in a store, wherever it lies

# left NAME ARGS...: a put that is killed when something of it was written down.
left() {
	local name=$1

	shift
	slow 1
	fmove put --quiet "$@" 2>/dev/null &
	get=$!
	pattern=$name
	await is_there_unfinished || bad "nothing of $name comes: $(find "$src" -name '.fmove.*')"
}

is_there_unfinished() {
	[ -n "$(find "$src" -type f -path "$pattern" -size +0 | head -n 1)" ]
}

still() {
	kill -KILL $get
	wait $get 2>/dev/null
	ended "$1"
	fast 1
}

how_many() {
	find "$src" -name '.fmove.*.part' -o -name '.fmove.*.tree' | wc -l
}

rm -rf big && mkdir big && cp "$src/file" big/f
left '*/deep/er/.fmove.*.journal' "$src/file" n2:s/deep/er/one
no 1 'stays: a transfer works on it' fmove purge --unfinished n2:s
no 1 'stays: a transfer works on it' fmove purge --unfinished -n n2:s
ok_room fmove df --unfinished --json n2:s
[ "$(value unfinished)" = 0 ] && [ "$(value unfinished_transfers)" = 0 ] || bad "df counts one that runs: $(cat out)"
still deep/er/one
left '*/.fmove.*.tree/journal' -r big n2:s/two
still two
# What purge would remove, no more and no less; and it is not looked for unasked.
ok fmove purge --unfinished -n --json n2:s
bytes=$(grep -o '"bytes":[0-9]*' out | tail -n 1 | sed 's/.*://')
ok_room fmove df --unfinished --json n2
[ "$(value unfinished)" = "$bytes" ] && [ "$bytes" -gt 0 ] && [ "$(value unfinished_transfers)" = 2 ] || bad "df says not what purge does ($bytes): $(cat out)"
ok_room fmove df --unfinished n2:s
grep -q ' unfinished ' out && [ "$(wc -l <out)" -eq 2 ] || bad "df has no column: $(cat out)"
ok_room fmove df --unfinished --json
[ "$(value unfinished)" = 0 ] || bad "df of this node: $(cat out)"
ok_room fmove df --json n2
grep -q unfinished out && bad "df looks through the store unasked: $(cat out)"
no 1 'no store x' fmove df --unfinished n2:x
# Who may not write there is not told, of what he may read.
cp "$dir/c/n2/fmove.conf" conf2
sed -i 's/name = "s";/name = "s"; write = [ ];/' "$dir/c/n2/fmove.conf"
take_over 2
ok_room fmove df --unfinished --json n2:s
grep -q '"unfinished":null,"unfinished_transfers":null' out || bad "df tells who may not: $(cat out)"
cp conf2 "$dir/c/n2/fmove.conf"
take_over 2
[ "$(how_many)" -eq 2 ] || bad "not two are left: $(find "$src" -name '.fmove.*')"
mkdir "$src/own" && echo mine >"$src/own/f"
ok fmove purge --unfinished -n n2:s
grep -q ' deep/er/one (deep/er/\.fmove\.[0-9a-f]*\.part)$' out && grep -q ' two (\.fmove\.[0-9a-f]*\.tree)$' out &&
	grep -q 'would remove 2 unfinished' out || bad "purge -n of a store: $(cat out)"
ok fmove purge n2:s
[ "$(how_many)" -eq 2 ] || bad "purge, or purge -n, removed what is unfinished"
ok fmove purge --unfinished --json n2:s
grep -q '"unfinished":\[{"path":' out && [ "$(value bytes)" -gt 0 ] && [ "$(grep -o '"path":' out | wc -l)" -eq 2 ] || bad "purge --json of a store: $(cat out)"
[ -z "$(find "$src" -name '.fmove.*')" ] || bad "something is left: $(find "$src" -name '.fmove.*')"
[ "$(cat "$src/own/f")" = mine ] || bad "something of the user's went"
ok fmove put --json "$src/file" n2:s/deep/er/one
[ "$(value resumed_bytes)" = 0 ] || bad "it went on with what went: $(cat out)"
# More than a page of them, and one of somebody else's.
left '*/.fmove.*.journal' "$src/file" n2:s/three
still three
part=$(find "$src" -maxdepth 1 -name '.fmove.*.part')
for i in $(seq 20); do
	mkdir "$src/dir$i" && ln "$part" "$src/dir$i/${part##*/}" && cp "${part%.part}.journal" "$src/dir$i/"
done
echo mine >"$src/own/.fmove.00000000000000ad.part"
echo no >"$src/own/.fmove.00000000000000ad.journal"
no 3 'stays: nothing says' fmove purge --unfinished -n n2:s
[ "$(grep -c '[ /]three (' out)" -eq 21 ] || bad "pages: $(cat out)"
no 3 'stays: nothing says' fmove purge --unfinished n2:s
[ "$(find "$src" -name '.fmove.*.part')" = "$src/own/.fmove.00000000000000ad.part" ] || bad "pages: $(find "$src" -name '.fmove.*')"
rm "$src"/own/.fmove.*
# What came before a node is killed, and nobody can go on with: from a pipe, without a journal; or with one in which nothing is, or zeros.
slow 1
cat "$src/file" | fmove put --quiet - n2:s/piped 2>/dev/null &
get=$!
pattern='*/.fmove.*.part'
await is_there_unfinished || bad "nothing of a pipe comes"
no 1 'stays: ' fmove purge --unfinished n2:s
crash n2
wait $get 2>/dev/null
fast 1
cp "$src/file" "$src/own/.fmove.00000000000000ad.part"
: >"$src/own/.fmove.00000000000000ad.journal"
cp "$src/file" "$src/own/.fmove.00000000000000ae.part"
truncate -s 5000 "$src/own/.fmove.00000000000000ae.journal"
start_again n2
reachable 2
[ "$(how_many)" -eq 3 ] || bad "not three are left: $(find "$src" -name '.fmove.*')"
ok fmove purge --unfinished -n n2:s
grep -q 'would remove 3 unfinished' out || bad "purge -n of what nobody goes on with: $(cat out)"
[ "$(how_many)" -eq 3 ] || bad "purge -n removed something"
ok fmove purge --unfinished n2:s
[ -z "$(find "$src" -name '.fmove.*')" ] || bad "something is left: $(find "$src" -name '.fmove.*')"
no 2 'leave out the path' fmove purge --unfinished n2:s/deep
no 1 'no store x' fmove purge --unfinished n2:x
no 1 'nowhere' fmove df ./nowhere
no 1 'no node d in .*; the directory here is \./d$' fmove df d
