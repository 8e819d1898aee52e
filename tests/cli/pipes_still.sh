#!/bin/bash
# Goal:   a user whose pipes stand still, because nobody writes to them or nobody reads from them, keeps no other user from anything.
# Method: one connection, so that all share it; a dozen pipes of nobody's stand still, and files in memory of another user, and a pipe,
#         get past them both ways. Several files: only what comes after the first one could be kept waiting.
. "$(dirname "$0")/lib.sh"
need_nobody
memory=$(mktemp -d /dev/shm/fm-cli.XXXXXX) || skip "no files in memory: /dev/shm"
export FM_CLUSTER_CONF='mover = { tcp_conns = 1; };'
STILL=12
up 2
trap 'rm -rf "$memory"; down' EXIT
chmod 666 "$dir/c/n1/fmoved.sock"
chmod 755 "$dir/c" "$dir/c/n1" "$dir/w"
random 20000000 big
cp big "$(store 2)/big"
random 5000000 "$memory/f"

are_copying() {
	[ "$(fmove status --json | grep -o '"state":"copying"' | wc -l)" -eq "$1" ]
}

# stand_still COMMAND...: begin it STILL times, as nobody; "%" in it is a number of each.
stand_still() {
	local i

	pids=()
	for ((i = 0; i < STILL; i++)); do
		setpriv --reuid nobody --regid "$(id -gn nobody)" --clear-groups "${@//%/$i}" <&0 9<&- 2>/dev/null &
		pids+=($!)
	done
	await are_copying $STILL || bad "not all of $STILL are under way: $(fmove status)"
}

get_past() {
	local i

	for i in 1 2 3; do
		ok timeout "$HANG_S" fmove put --force --quiet "$memory/f" n2:s/passed
		same "$memory/f" "$(store 2)/passed"
		ok timeout "$HANG_S" fmove get --force --quiet n2:s/passed "$memory/back"
		same "$memory/f" "$memory/back"
		timeout "$HANG_S" fmove get --quiet n2:s/passed - | cmp - "$memory/f" || bad "a get into a pipe does not get past them"
	done
	await are_copying $STILL || bad "they did not stand still: $(fmove status)"
}

end_them() {
	kill "${pids[@]}"
	wait "${pids[@]}"
	await are_copying 0 || bad "killed, and still under way: $(fmove status)"
}

mkfifo fifo
exec 9<>fifo		# a pipe that is open at both ends, and silent
stand_still fmove put --quiet - n2:s/still% <fifo
get_past
end_them
stand_still fmove get --quiet n2:s/big - >fifo
get_past
end_them
no_partials
