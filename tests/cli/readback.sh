#!/bin/bash
# Goal:   put --verify readback finds bytes that the disk gives back other than they were written, and mends them.
# Method: files of all kinds of sizes, a tree; then a far node whose first chunk read back is made to differ.
. "$(dirname "$0")/lib.sh"
[ -n "${FM_BUILD:-}" ] && export TMPDIR=$FM_BUILD
up 2

for size in 0 1 4095 4097 1048576 5000001; do
	random $size f
	ok fmove put -f --verify readback --json f n2:s/f
	same f "$(store 2)/f"
	[ "$(json corrupt_chunks out)" = 0 ] || bad "$size bytes: corrupt chunks: $(cat out)"
done
cat f | fmove put --verify readback - n2:s/pipe 2>err || bad "a pipe: $(cat err)"
same f "$(store 2)/pipe"
mkdir -p t/sub
random 9000000 t/large
random 1000 t/sub/small
ok fmove put -r --verify readback t n2:s/t
grep -q 'small files are not read back' err || bad "a tree: $(cat err)"
same t/large "$(store 2)/t/large"
same t/sub/small "$(store 2)/t/sub/small"

no 2 'must be readback' fmove put --verify twice f n2:s/x

# The far disk lies once. Faults are in no release.
grep -q store.readback "$FMOVE_BIN/fmoved" || exit
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2 || bad "n2 does not stop"
FMOVE_FAULT=store.readback:1 "$FM_SOURCE/tests/cluster" start "$dir/c" n2 || bad "n2 does not start"
reachable 2
ok fmove put --verify readback --json f n2:s/lied
[ "$(json corrupt_chunks out)" = 1 ] || bad "the lie was not found: $(cat out)"
same f "$(store 2)/lied"
is_logged 'gave back other bytes' "$dir/c/n2/log" || bad "the far node does not say so"
