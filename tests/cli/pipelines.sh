#!/bin/bash
# Goal:   pipes of one user that stand still keep neither his other transfers from anything, pipes included, nor each other from going on.
# Method: one connection, so that all share it, and more pipes than it has slots. Silent ones, from and to which nothing goes, and
#         puts and gets of files and of pipes get past them; then pipelines of get and put whose puts all wait for their gets, and whose
#         gets come last where the put came first.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF='mover = { tcp_conns = 1; };'
STILL=12
up 2
random 20000000 big
cp big "$(store 2)/big"
random 3000000 f

are_copying() {
	[ "$(fmove status --json | grep -o '"state":"copying"' | wc -l)" -eq "$1" ]
}

get_past() {
	ok timeout "$HANG_S" fmove put --force --quiet f n2:s/passed
	same f "$(store 2)/passed"
	ok timeout "$HANG_S" fmove get --force --quiet n2:s/passed back
	same f back
	timeout "$HANG_S" fmove put --force --quiet - n2:s/passed <"$1" || bad "a put from a pipe does not get past $STILL that are silent"
	timeout "$HANG_S" fmove get --quiet n2:s/passed - | cmp - f || bad "a get into a pipe does not get past $STILL that are silent"
	await are_copying $STILL || bad "they did not stand still: $(fmove status)"
}

end_them() {
	kill "${pids[@]}"
	wait "${pids[@]}" 2>/dev/null
	await are_copying 0 || bad "killed, and still under way: $(fmove status)"
}

# Silent, all of one user.
mkfifo fifo
exec 9<>fifo		# a pipe that is open at both ends, and silent
pids=()
for ((i = 0; i < STILL; i++)); do
	fmove put --quiet - n2:s/still$i <fifo 9<&- &
	pids+=($!)
done
await are_copying $STILL || bad "not all of $STILL puts are under way: $(fmove status)"
get_past <(cat f)
end_them
pids=()
for ((i = 0; i < STILL; i++)); do
	fmove get --quiet n2:s/big - >fifo 9<&- &
	pids+=($!)
done
await are_copying $STILL || bad "not all of $STILL gets are under way: $(fmove status)"
get_past <(cat f)
end_them
exec 9<&-

# Pipelines. A descriptor of ours keeps each pipe open until its get has it.
aside() {
	(
		for fd in "${fds[@]}"; do exec {fd}<&-; done
		exec timeout "$HANG_S" fmove "$@"
	) <&0 &	# else it has no standard input
	pids+=($!)
}

pids=()
fds=()
for ((i = 0; i < STILL; i++)); do
	mkfifo "p$i"
	exec {fd}<>"p$i"
	fds+=("$fd")
	aside put --quiet - "n2:s/piped$i" <"p$i"
	await are_copying $((i + 1)) || bad "put $i does not begin: $(fmove status)"
done
for ((i = STILL - 1; i >= 0; i--)); do
	aside get --quiet n2:s/big - >"p$i"
	sleep 0.2	# no more than a likelier order: whatever it is, all of them end
done
for fd in "${fds[@]}"; do exec {fd}<&-; done
for pid in "${pids[@]}"; do
	wait "$pid" || bad "a pipeline stands still, or failed: exit $?"
done
for ((i = 0; i < STILL; i++)); do
	same big "$(store 2)/piped$i"
done
no_partials
