#!/bin/bash
# Goal:   what gets that were cut off left in a directory of the caller's is seen, and goes when he says so: nothing that a get
#         works on, nothing that is nowhere else, nothing of the user's own.
# Method: gets of a file and of a directory, killed; others that run; things of the same names that are none of these.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
up 2

src=$(store 2)
mkdir "$src/tree" && random 20000000 "$src/file" && random 20000000 "$src/tree/f" && mkdir d

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
	no 3 "\.new\" may be the version that this get replaced" fmove purge --unfinished $how --json d
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
# Of a store this is the store's affair; what cannot be is refused.
no 2 'partial_keep' fmove purge --unfinished n2:s
no 1 'nowhere' fmove df ./nowhere
no 1 'no node d in .*; the directory here is \./d$' fmove df d
