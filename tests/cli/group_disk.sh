#!/bin/bash
# Goal:   where the disk of a group's members is full, stops answering, or is gone with its node, puts and commits end with an error; the link leads to
#         what it led to, which is whole; and the group goes on once there is room, or the node is back. Groups of other stores feel nothing.
# Method: n2 has a store on a small file system in memory and one on a file system that stops answering (hang_fs, FUSE); n2 is killed.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root to mount"
hung=$(mktemp -d "${TMPDIR:-/tmp}/fm-hang.XXXXXX") || exit 1
small=$(mktemp -d "${TMPDIR:-/tmp}/fm-small.XXXXXX") || exit 1
mount -t tmpfs -o size=3m tmpfs "$small" 2>/dev/null || { rmdir "$hung" "$small"; skip "may not mount"; }
coproc HANG { exec "$FM_BUILD/bin/hang_fs" "$hung" 1 1000 0; }
fs_pid=$HANG_PID
read -r said <&"${HANG[0]}"
end_fs() {
	kill -KILL "$fs_pid" 2>/dev/null
	umount -l "$hung" 2>/dev/null
	umount -l "$small" 2>/dev/null
	rmdir "$hung" "$small" 2>/dev/null
}
[ "$said" = mounted ] || { end_fs; skip "${said#SKIP: }"; }
up 2
trap 'status=$?; end_fs; (exit $status); down' EXIT
rights='read = [ "*" ]; write = [ "*" ];'
sed -i "s|stores = ( {|stores = ( { name = \"hung\"; directory = \"$hung\"; $rights }, { name = \"small\"; directory = \"$small\"; $rights }, {|" \
	"$dir/c/n2/fmove.conf"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
start_again n2
reachable 2
random 5000 a
random 5000000 large

# begun NAME: a group of two members, of which the first is there; $id.
begun() {
	id=$(fmove group begin --members 2 "$1") || bad "no group at $1"
	ok fmove put -q --group "$id" a "$1/a"
}

# leads DIRECTORY TARGET: the link there does, and that is whole.
leads() {
	[ "$(readlink "$1/last")" = "$2" ] && cmp -s a "$1/last/a" && cmp -s a "$1/last/b" || bad "$1/last leads to $(readlink "$1/last"), not to $2"
}

committed() {
	begun "$1"
	ok fmove put -q --group "$id" a "$1/b"
	ok fmove group commit --latest last "$id" "$1"
}

# ---- full

committed n2:small/1
begun n2:small/2
no 1 'no space' fmove put --group "$id" large n2:small/2/b
no 1 '1 of 2 members' fmove group commit --latest last "$id" n2:small/2
leads "$small" 1
ok fmove put -q --group "$id" a n2:small/2/b
ok fmove group commit --latest last "$id" n2:small/2
leads "$small" 2

# ---- gone

committed n2:s/1
begun n2:s/2
crash n2
no 4 . fmove put --timeout 1s --group "$id" a n2:s/2/b
fmove group commit --latest last "$id" n2:s/2 2>err && bad "it is committed at a node that is gone"
leads "$(store 2)" 1
start_again n2
reachable 2
ok fmove put -q --group "$id" a n2:s/2/b
ok fmove group commit --latest last "$id" n2:s/2
leads "$(store 2)" 2

# ---- its machine starts anew, and a member had come without a sync: its name may be there, and its bytes are not

begun n2:s/5
note=("$(store 2)"/.fmove.*.group/.fmove.unsynced)
[ ! -e "${note[0]}" ] || bad "a member that is on the disk is noted as one that may not be"
ok fmove put -q --durability memory --group "$id" a n2:s/5/b
note=("$(store 2)"/.fmove.*.group/.fmove.unsynced)
[ -s "${note[0]}" ] || bad "nothing says that a member came without a sync"
printf 'another boot id.' >"${note[0]}"
no 1 'discard the group' fmove group commit --latest last "$id" n2:s/5
leads "$(store 2)" 2
no 1 'discard the group' fmove put --group "$id" a n2:s/5/c
ok fmove group discard "$id" n2:s/5

# ---- it stops answering

begun n2:hung/1
kill -USR1 "$fs_pid"
no 4 . fmove put --timeout 2s --group "$id" a n2:hung/1/b
fmove group commit "$id" n2:hung/1 2>hung.err >&2 &
pid=$!
committed n2:s/3
leads "$(store 2)" 3
kill -TERM $pid 2>/dev/null
wait $pid && bad "it is committed on a disk that does not answer"
kill -0 "$fs_pid" || bad "the file system is gone: nothing hung"
end_fs
committed n2:s/4
leads "$(store 2)" 4
