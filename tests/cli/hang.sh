#!/bin/bash
# Goal:   files that never answer are their user's trouble and nobody else's: not when they are read, looked at or closed, and not when the
#         daemon is killed meanwhile.
# Method: a file system that stops answering (hang_fs, FUSE) in the midst of 16 puts of one user and as many gets.
. "$(dirname "$0")/lib.sh"
need_nobody
hang_fs=$FM_BUILD/bin/hang_fs
files=16
hung=$(mktemp -d "${TMPDIR:-/tmp}/fm-hang.XXXXXX") || exit 1

# fd 3 is what it says.
coproc HANG { exec "$hang_fs" "$hung" "$files" $((64 << 20)) "$(id -u nobody)"; }
fs_pid=$HANG_PID
read -r said <&"${HANG[0]}"
[ "$said" = mounted ] || { rmdir "$hung"; skip "${said#SKIP: }"; }

# Its end lets go of everything that waits for it.
end_fs() {
	[ -z "$fs_pid" ] || kill -KILL "$fs_pid" 2>/dev/null
	fs_pid=
	umount -l "$hung" 2>/dev/null
	rmdir "$hung" 2>/dev/null
}

descriptors() {
	find "/proc/$pid/fd" -mindepth 1 | wc -l
}

up 2
trap 'status=$?; end_fs; (exit $status); down' EXIT
pid=$(cat "$dir/c/n1/pid")
chmod 755 "$dir/c" "$dir/c/n1" "$dir/w"
chmod 666 "$dir"/c/n1/fmoved.sock
random 3000000 file

# Slow, so that all of them are under way when it stops; some wait for a place, and are looked at then.
slow 1
puts=
for i in $(seq 0 $((files - 1))); do
	as_nobody fmove put "$hung/$i" "n2:s/hung$i" >/dev/null 2>&1 &
	puts="$puts $!"
done
await sh -c 'fmove status --json | grep -q "\"path\":\"hung"' || bad "no put of $hung begins"
as_nobody "$FMOVE_BIN/hold" "$FMOVE_SOCKET" -3000 0 '{"op":"ping","id":1}' "$hung/0" "$PWD/go" >left &
await grep -q open left || bad "no file of $hung is opened"
before=$(descriptors)
kill -USR1 "$fs_pid"
fast 1

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
kill -KILL "$pid"
await test -e "$dir/c/n1/exit" || bad "the daemon that was killed does not end"
"$FM_SOURCE/tests/cluster" start "$dir/c" n1 || bad "no daemon starts after that one"
await fmove status || bad "it does not answer"
echo "a new daemon serves $((SECONDS - begun)) s after the kill"
reachable 2
others afterwards
end_fs
