#!/bin/bash
# Goal:   a daemon that stands still and a store whose file system is dead are facts that are unknown,
#         and no reason to wait for ever.
# Method: a daemon that is stopped; a file system of hang_fs.c, which is told to answer no more. With
#         both well before, the same command reads them.
. "$(dirname "$0")/lib.sh"
. "$FM_SOURCE/tests/hang.sh"
hung=$(mktemp -d "${TMPDIR:-/tmp}/fm-hang.XXXXXX") || exit 1

# fd 3 is what it says.
coproc HANG { exec "$FM_BUILD/bin/hang_fs" "$hung" 1 1000000 "$(id -u)"; }
fs_pid=$HANG_PID
read -r said <&"${HANG[0]}"
[ "$said" = mounted ] || { rmdir "$hung"; skip "${said#SKIP: }"; }
end() {
	kill -KILL "$fs_pid" 2>/dev/null
	umount -l "$hung" 2>/dev/null
	rmdir "$hung" 2>/dev/null
}
up 1
trap 'status=$?; end; (exit $status); down' EXIT
pid=$(cat "$dir/c/n1/pid")
cat >conf <<C
node = { name = "n1"; key_file = "$dir/c/n1/node.key"; };
stores = ( { name = "dead"; directory = "$hung"; } );
C

doctor() {
	timeout "$HANG_S" fmove doctor --config conf --save - >facts || bad "doctor: status $?"
}
has() {
	grep -qE -- "$1" facts || bad "facts lack $1: $(cat facts)"
}
doctor
has '"rails":\['
has '"name":"dead".*"size_bytes":[0-9]'

kill -STOP "$pid"
kill -USR1 "$fs_pid"
doctor
kill -CONT "$pid"
has '"rails":\{"unknown":"ask fmoved: Connection timed out"'
has "\"name\":\"dead\".*\"size_bytes\":\{\"unknown\":\"$hung: Connection timed out\""
has '"kernel":"'
