# hang_lib.sh - a file system of nobody's that stops answering, with $files files; sourced by the tests of it, behind lib.sh.

need_nobody
files=16
arena_kb=$((64 << 10))
export FM_CLUSTER_CONF='memory = { arena = "64MiB"; huge_pages = "never"; };'
hung=$(mktemp -d "${TMPDIR:-/tmp}/fm-hang.XXXXXX") || exit 1
heard=$(mktemp "${TMPDIR:-/tmp}/fm-heard.XXXXXX") || exit 1

# fd 3 is what it says.
coproc HANG { exec "$FM_BUILD/bin/hang_fs" "$hung" "$files" $((64 << 20)) "$(id -u nobody)" 2>"$heard"; }
fs_pid=$HANG_PID
read -r said <&"${HANG[0]}"
[ "$said" = mounted ] || { rmdir "$hung"; rm "$heard"; skip "${said#SKIP: }"; }

# Its end lets go of everything that waits for it.
end_fs() {
	[ -z "$fs_pid" ] || kill -KILL "$fs_pid" 2>/dev/null
	fs_pid=
	umount -l "$hung" 2>/dev/null
	rmdir "$hung" 2>/dev/null
	rm -f "$heard"
}

# One that has read something reads on. One that only begins may wait for its file to be opened when it stops, and never come to read.
is_reading() {
	fmove status --json | grep -q '"path":"hung[0-9]*","state":"copying",[^}]*"bytes":[1-9]'
}

# Two nodes, and a put of each of its files by nobody; slow, so that all of them are under way when it stops. Some wait for a place, and are
# looked at then.
begin_puts() {
	up 2
	trap 'status=$?; end_fs; (exit $status); down' EXIT
	pid=$(cat "$dir/c/n1/pid")
	chmod 755 "$dir/c" "$dir/c/n1" "$dir/w"
	chmod 666 "$dir"/c/n1/fmoved.sock
	slow 1
	puts=
	for i in $(seq 0 $((files - 1))); do
		as_nobody fmove put "$hung/$i" "n2:s/hung$i" >/dev/null 2>&1 &
		puts="$puts $!"
	done
	await is_reading || bad "no put of $hung begins"
}

stop_fs() {
	kill -USR1 "$fs_pid"
}

# The puts go on as fast as they can, and one of them waits for bytes that never come.
await_hung() {
	fast 1
	await grep -q read "$heard" || bad "no put waits for $hung"
}

# rss PID: kB of memory that a process has, as the first of its threads that still has any says.
rss() {
	cat "/proc/$1"/task/*/status 2>/dev/null | awk '/^VmRSS:/ { print $2; exit }'
}

# What waits for callers' files are children of the daemon, which have its memory.
look_at_children() {
	children=$(cat "/proc/$pid"/task/*/children)
	[ -n "$children" ] || bad "nobody has nobody's files"
	rss_before=$(rss "$pid")
}

left_over() {
	local child

	for child in $children; do
		rss "$child"
	done
}

# Some are left, and none of them has the arena.
are_without_arena() {
	local most

	most=$(left_over | sort -n | tail -n 1)
	[ -n "$most" ] && [ "$most" -lt $((rss_before - arena_kb * 3 / 4)) ]
}
