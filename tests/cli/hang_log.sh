#!/bin/bash
# Goal:   a daemon whose log is a file on a disk that hangs serves on, ends when it is killed, and leaves nothing that its successor needs.
# Method: the log is a file of a file system that stops answering (hang_fs, FUSE) before the daemon has more to say.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hang_lib.sh"

up 2
trap 'status=$?; end_fs; [ ! -h "$dir/c/n1/log" ] || rm "$dir/c/n1/log"; (exit $status); down' EXIT
random 3000000 file
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
mv "$dir/c/n1/log" log.before && ln -s "$hung/0" "$dir/c/n1/log"
start_again n1
reachable 2
stop_fs

# It says a line of each.
pid=$(cat "$dir/c/n1/pid")
for i in 1 2 3; do
	kill -HUP "$pid"
	ok timeout $HANG_S fmove status
	ok timeout $HANG_S fmove put file "n2:s/mine$i"
	ok timeout $HANG_S fmove --socket "$dir/c/n2/fmoved.sock" put file "n1:s/theirs$i"
done

kill -KILL "$pid"
await test -s "$dir/c/n1/exit" || bad "the daemon that was killed does not end"
rm "$dir/c/n1/log"
[ -s "$dir/c/n1/exit" ] || end_fs
start_again n1
reachable 2
ok fmove put file n2:s/afterwards

# Asked to end, it has written all that it said.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
tail -n 1 "$dir/c/n1/log" | grep -q 'info: stopped$' || bad "the last line of its log: $(tail -n 1 "$dir/c/n1/log")"
start_again n1
