#!/bin/bash
# Goal:   files that never answer are their user's trouble and nobody else's: not when they are read, looked at or closed, and not when the
#         daemon is killed meanwhile; what waits for them then has no arena.
# Method: a file system that stops answering (hang_fs, FUSE) in the midst of 16 puts of one user and as many gets.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hang_lib.sh"

descriptors() {
	find "/proc/$pid/fd" -mindepth 1 | wc -l
}

begin_puts
random 3000000 file
as_nobody "$FMOVE_BIN/hold" "$FMOVE_SOCKET" -3000 0 '{"op":"ping","id":1}' "$hung/0" "$PWD/go" >left &
await grep -q open left || bad "no file of $hung is opened"
before=$(descriptors)
stop_fs
await_hung

# Others go on: at this node, and at the other one with it.
others() {
	ok fmove status
	ok fmove ls n2:s
	ok fmove put file "n2:s/$1-mine"
	same file "$(store 2)/$1-mine"
	ok fmove --socket "$dir/c/n2/fmoved.sock" put file "n1:s/$1-theirs"
	same file "$(store 1)/$1-theirs"
	ok fmove --socket "$dir/c/n2/fmoved.sock" get "n1:s/$1-theirs" "$1-got"
	# Who has taken all his connections waits for himself.
	[ "$1" = leaving ] || ok as_nobody fmove status
}
others reading

# Their commands go: what is left of them is closed, or so one tries.
# shellcheck disable=SC2086
kill -KILL $puts 2>/dev/null
others closing

# So does who knocks, hands over a file and leaves, for ever: the daemon's own table of descriptors does not fill.
few() {
	[ "$(descriptors)" -lt $((before + 500)) ]
}
: >go
await grep -q left left || bad "nobody leaves"
others leaving
await few || bad "the daemon had $before descriptors open, and has $(descriptors) now that a user left 3000 connections behind"

# Killed: its successor serves at once.
begun=$SECONDS
look_at_children
kill -KILL "$pid"
await test -s "$dir/c/n1/exit" || bad "the daemon that was killed does not end"
"$FM_SOURCE/tests/cluster" start "$dir/c" n1 || bad "no daemon starts after that one"
await fmove status || bad "it does not answer"
echo "a new daemon serves $((SECONDS - begun)) s after the kill"
await are_without_arena || bad "of $rss_before kB those that wait for files have $(left_over)"
reachable 2
others afterwards
end_fs
