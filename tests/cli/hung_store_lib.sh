# hung_store_lib.sh - a small file system of the caller's at $hung, which answers until HANG is told to stop (hang_fs, FUSE), as the place of
# stores; sourced behind lib.sh. What waits there is told in $heard, where that is set.

hung=$(mktemp -d "${TMPDIR:-/tmp}/fm-hang.XXXXXX") || exit 1
coproc HANG { exec "$FM_BUILD/bin/hang_fs" "$hung" 1 1000 "$(id -u)" 2>"${heard:-/dev/null}"; }
fs_pid=$HANG_PID
read -r said <&"${HANG[0]}"
[ "$said" = mounted ] || { rmdir "$hung"; skip "${said#SKIP: }"; }

# Its end lets go of everything that waits for it.
end_fs() {
	kill -KILL "$fs_pid" 2>/dev/null
	umount -l "$hung" 2>/dev/null
	rmdir "$hung" 2>/dev/null
}
