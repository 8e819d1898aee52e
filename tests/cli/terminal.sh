#!/bin/bash
# Goal:   a terminal sees how far a transfer is, a file does not; nothing that a peer named moves the cursor.
# Method: run under script(1), which gives a terminal.
. "$(dirname "$0")/lib.sh"
command -v script >/dev/null || skip "script(1) is not installed"
up 2
random 3000000 big

on_terminal() {
	script -qec "fmove put --limit 500kB/s ../big n2:s/shown" typescript </dev/null >/dev/null || bad "put on a terminal: $(cat typescript)"
	grep -q ' of 3.00 MB ' typescript || bad "no progress on a terminal: $(cat typescript)"
	grep -Eq '[0-9] connections?' typescript || bad "the progress does not count connections: $(cat typescript)"
	grep -q 'rail' typescript && bad "the progress calls connections rails"
	grep -q 'big -> n2:s/shown: 3,000,000 bytes' typescript || bad "no last line on a terminal"
}

# In few columns no line wraps: what has wrapped stays, and each new line adds to it.
in_few_columns() {
	local columns=$1 widest

	script -qec "stty cols $columns; fmove put --limit 500kB/s ../big n2:s/in$columns" typescript </dev/null >/dev/null || bad "put: $(cat typescript)"
	# Only what stands between two carriage returns: the last line of all is for a file, too.
	widest=$(tr '\r' '\n' <typescript | sed -n 's/\x1b\[K$//p' | wc -L)
	[ "$widest" -gt 0 ] && [ "$widest" -lt "$columns" ] || bad "$columns columns: a line has $widest: $(cat -v typescript)"
}
in_20() { in_few_columns 20; }
in_5() { in_few_columns 5; }

quietly() {
	script -qec "fmove put --quiet --limit 500kB/s ../big n2:s/quiet" typescript </dev/null >/dev/null
	same ../big "$(store 2)/quiet"
	grep -q 'of 3.00 MB' typescript && bad "--quiet talks: $(cat typescript)"
}

into_file() {
	fmove put --limit 500kB/s ../big n2:s/file >out 2>err || bad "put into a file: $(cat err)"
	[ "$(wc -l <err)" -eq 1 ] && ! grep -q $'\r' err || bad "progress went into a file: $(cat err)"
	[ -s out ] && bad "standard output has: $(cat out)"
}

for story in on_terminal in_20 in_5 quietly into_file; do
	aside $story
done
together

# What is shown of names is harmless.
touch "$(store 2)/$(printf 'a\033[2Jb')"
script -qec "fmove ls n2:s" typescript </dev/null >/dev/null
grep -q $'\033\\[2J' typescript && bad "ls sends a terminal what a name says"
grep -qF 'a\x1b[2Jb' typescript || bad "ls does not show the name: $(cat typescript)"
fmove get "n2:s/$(printf '\033[2Jc')" x 2>err
grep -q $'\033' err && bad "an error sends a terminal what a name says"

# The status of a transfer under way, as a person reads it.
random 40000000 larger
slow 1
fmove put -q larger n2:s/larger 2>err &
pid=$!
moved larger 0
fmove status >out || bad "status"
grep -Eq '^  put n2:s/larger, copying, .* of 40.0 MB' out || bad "status does not show the transfer: $(cat out)"
grep -Eq '^  put n2:s/larger, .*, [0-9]+ connections?$' out || bad "status does not count the connections of the transfer: $(cat out)"
grep -q '^node    n1' out || bad "status does not name the node"
# A rate is what was sent between two looks, which may fall between two chunks.
shows_rate() {
	fmove status >out && grep -Eq 'out [0-9.]+ [kM]B/s' out
}
await shows_rate || bad "status shows no rate: $(cat out)"
fmove --socket "$dir/c/n2/fmoved.sock" status >out || bad "status at the far end"
grep -q '(for the peer)' out || bad "the far end does not show it: $(cat out)"
fast 1
wait $pid || bad "put: $(cat err)"

# A tree, too, has a size from the beginning, so that what is left of it can be told.
mkdir tree
random 20000000 tree/a
slow 1
fmove put -qr tree n2:s/tree 2>err &
pid=$!
moved tree 0
fmove status >out || bad "status of a tree"
grep -Eq '^  put n2:s/tree, copying, .* of 20.0 MB' out || bad "status does not say how large the tree is: $(cat out)"
fast 1
wait $pid || bad "put of a tree: $(cat err)"
