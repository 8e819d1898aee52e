#!/bin/bash
# Goal:   an update refuses by name, before its first byte, what it could not keep: another user's file that may be
#         neither linked nor read, his links, fifos and directories; in a store and in a directory of the caller's,
#         at once, detached and in a dry run. What the source has under such a name, and --delete, pass.
# Method: root without its rights over other users' files, so that nobody's are another user's for command and daemons
#         alike. Nothing has come by then: all of it would take minutes.
if [ "$(id -u)" -eq 0 ] && [ -z "${FM_FOREIGN:-}" ] && command -v setpriv >/dev/null; then
	FM_FOREIGN=1 exec setpriv --bounding-set -fowner,-chown,-dac_override,-dac_read_search bash "$0"
fi
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
[ -n "${FM_FOREIGN:-}" ] || skip 'needs root, and setpriv'
need_nobody
[ "$(cat /proc/sys/fs/protected_hardlinks)" = 1 ] || skip 'any file may be linked here'
export FM_CLUSTER_STORE='old_keep = "0s";'
up 2
chmod 755 "$dir/c" "$dir"/c/n? "$dir"/c/n?/s "$dir/w"
random 50000000 large

# Everything of the target but the number of its links.
looks() {
	find "$target" -printf '%y %m %u %T@ %i %l %p\n' | sort
}

# move OPTION...: the source to the target; limited, so that what waits for the bytes ends by timeout.
move() {
	timeout "$HANG_S" fmove "$way" -r --limit 50kB/s --update "$@" "$from" "$to"
}

# A target in which everybody may make names.
scene() {
	rm -rf "$source" "$target"
	mkdir -p "$source/sub" "$target/sub"
	echo 1 >"$source/f"
	echo old >"$target/f"
	ln large "$source/large"
	chmod 777 "$target" "$target/sub"
}

detached() {
	local id

	id=$(move --detach) && timeout "$HANG_S" fmove wait "$id"
}

# refused PATTERN: however it is asked for, and the target is as it was.
refused() {
	looks >before
	no 6 "$1" move -n
	no 6 "$1" move
	no 6 "$1" detached
	looks | diff before - >diff.out || bad "$way: refused, and the target is another: $(head -n 4 diff.out)"
	has_no_tree "$(dirname "$target")" || bad "$way: refused, and something is left: $left"
}

# What only the target has, one after the other; and what the source has, too.
refuses() {
	scene
	as_nobody sh -c "umask 077; echo secret >'$target/sub/secret'"
	refused 'sub/secret" is only there, and cannot be kept: it is another user.s, and may be neither linked nor read'
	rm "$source/large"
	echo ours >"$source/sub/secret"
	for how in move detached; do
		ok $how
		[ "$(cat "$target/sub/secret")" = ours ] || bad "$way, $how: what the source has as well did not come"
		chmod 777 "$target/sub"
		rm "$target/sub/secret"
		as_nobody sh -c "umask 077; echo secret >'$target/sub/secret'"
	done
	scene
	as_nobody ln -s nowhere "$target/sub/link"
	refused 'sub/link" is only there, .* may not be linked'
	scene
	as_nobody mkfifo "$target/fifo"
	refused 'fifo" is only there, .* special file'
	scene
	as_nobody mkdir "$target/theirs"
	refused 'theirs" is only there, .* directory, which only root'
	rm "$source/large"
	ok move --delete
	[ ! -e "$target/theirs" ] && [ "$(cat "$target/f")" = 1 ] || bad "$way: --delete keeps it: $(ls -lR "$target")"

	# What may be read is kept.
	scene
	rm "$source/large"
	as_nobody sh -c "umask 022; echo readable >'$target/readable'"
	ok move
	[ "$(cat "$target/readable" "$target/f")" = "readable
1" ] || bad "$way: what may be read is gone: $(ls -l "$target")"
}

way=put source=$dir/w/source target=$(store 2)/target from=source to=n2:s/target
refuses
way=get source=$(store 2)/source target=$dir/w/t/target from=n2:s/source to=t/target
mkdir t
refuses
way=put source=$(store 1)/source target=$(store 2)/target from=n1:s/source to=n2:s/target
refuses
way=get source=$(store 2)/source target=$(store 1)/target from=n2:s/source to=n1:s/target
refuses
