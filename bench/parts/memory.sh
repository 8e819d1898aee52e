# SPDX-License-Identifier: MIT
# memory - what two daemons use at rest, and at most while 64 GiB of generated data go to a null
# store: never more than memory.total.
# shellcheck shell=bash

MEMORY_PORT=17500
MEMORY_TOTAL=$((512 << 20))	# both are the defaults, written out
MEMORY_ARENA=$((256 << 20))
MEMORY_AT_ONCE=16

bench_memory() {
	local node_extra="memory = { arena = $MEMORY_ARENA; total = $MEMORY_TOTAL; };" i pids=()

	node_pair "$memory/memory" $MEMORY_PORT
	node_wait "$memory/memory/n1" tcp 1 all
	memory_row n1 "at rest, a peer being connected"
	say "   32 GiB at once, then $MEMORY_AT_ONCE times 2 GiB together"
	memory_put 32 1 > /dev/null
	for ((i = 0; i < MEMORY_AT_ONCE; i++)); do
		memory_put 2 1 > /dev/null &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i"
	done
	memory_row n1 "sending 64 GiB of generated data"
	memory_row n2 "receiving them into a null store"
	node_stop "$memory/memory/n1"
	node_stop "$memory/memory/n2"
}

memory_put() {
	"$FMOVE_BIN/put_load" "$memory/memory/n1/sock" n2 null "x$BASHPID" $(($1 << 30)) "$2"
}

# Resident at its highest, huge pages beside it.
memory_row() {
	local kib

	kib=$(awk '/^VmHWM|^HugetlbPages/ { s += $2 } END { print s }' "/proc/$(cat "$memory/memory/$1/pid")/status")
	absolute "resident memory and huge pages of the node $2" "$((kib >> 10))" \
		"MiB, memory.total being $((MEMORY_TOTAL >> 20))" "<=" $((MEMORY_TOTAL >> 20))
}
