#!/bin/bash
# Goal:   a terminal sees how far a transfer is, a file does not; nothing that a peer named moves the cursor.
# Method: run under script(1), which gives a terminal.
. "$(dirname "$0")/lib.sh"
command -v script >/dev/null || skip "script(1) is not installed"
up 2
random 6000000 big

script -qec "fmove put --limit 4MB/s big n2:s/big" typescript </dev/null >/dev/null || bad "put on a terminal: $(cat typescript)"
grep -q ' of 6.00 MB ' typescript || bad "no progress on a terminal: $(cat typescript)"
grep -q 'rail' typescript || bad "the progress does not name the rails"
grep -q 'big -> n2:s/big: 6,000,000 bytes' typescript || bad "no last line on a terminal"
script -qec "fmove put --quiet --limit 4MB/s --force big n2:s/big" typescript </dev/null >/dev/null
grep -q 'of 6.00 MB' typescript && bad "--quiet talks: $(cat typescript)"
fmove put --limit 4MB/s --force big n2:s/big >out 2>err || bad "put into a file: $(cat err)"
[ "$(wc -l <err)" -eq 1 ] && ! grep -q $'\r' err || bad "progress went into a file: $(cat err)"
[ -s out ] && bad "standard output has: $(cat out)"

# What is shown of names is harmless.
touch "$(store 2)/$(printf 'a\033[2Jb')"
script -qec "fmove ls n2:s" typescript </dev/null >/dev/null
grep -q $'\033\\[2J' typescript && bad "ls sends a terminal what a name says"
grep -qF 'a\x1b[2Jb' typescript || bad "ls does not show the name: $(cat typescript)"
fmove get "n2:s/$(printf '\033[2Jc')" x 2>err
grep -q $'\033' err && bad "an error sends a terminal what a name says"

# The status of a transfer under way, as a person reads it.
fmove put -q --limit 2MB/s --force big n2:s/big &
sleep 1
fmove status >out || bad "status"
grep -Eq '^  put n2:s/big, copying, .* of 6.00 MB' out || bad "status does not show the transfer: $(cat out)"
grep -Eq 'out [0-9.]+ [kM]B/s' out || bad "status shows no rate: $(cat out)"
grep -q '^node    n1' out || bad "status does not name the node"
fmove --socket "$dir/c/n2/fmoved.sock" status >out || bad "status at the far end"
grep -q '(for the peer)' out || bad "the far end does not show it: $(cat out)"
wait
