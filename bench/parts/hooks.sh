# SPDX-License-Identifier: MIT
# hooks - what a checkpoint's hooks do: ranges of a file in memory, read into memory over TCP loopback, against one get of as many bytes.
# shellcheck shell=bash

HOOKS_PORT=17540
HOOKS_BYTES=65536

bench_hooks() {
	local count=${FM_BENCH_RANGES:-10000}

	node_pair "$memory/hooks" $HOOKS_PORT
	node_wait "$memory/hooks/n1" tcp 1 all
	head -c "${gib}G" /dev/urandom > "$memory/hooks/n2/s/file"
	head -c $((count * HOOKS_BYTES)) "$memory/hooks/n2/s/file" > "$memory/hooks/n2/s/whole"
	in_turn "$work/hooks" hooks_ranges hooks_whole
	compare "$count ranges of 64 KiB at random offsets of $gib GiB in memory, into memory, one call" "$work/hooks" 1 3 GB/s \
		"one get of as many bytes" ">=" 0.7
	compare "their CPU per GiB: both daemons and the caller" "$work/hooks" 2 4 s "one get of as many bytes" - 0
	node_stop "$memory/hooks/n1"
	node_stop "$memory/hooks/n2"
	rm -rf "$memory/hooks"
}

# hooks_read PATH SIZE COUNT: GB/s, and CPU seconds per GiB.
hooks_read() {
	local pids before line seconds rate cpu

	pids="$(cat "$memory/hooks/n1/pid") $(cat "$memory/hooks/n2/pid")"
	# shellcheck disable=SC2086
	before=$(cpu_ticks $pids)
	line=$("$FMOVE_BIN/range_load" "$memory/hooks/n1/sock" n2 s "$1" "$2" "$3" $HOOKS_BYTES) || return 1
	read -r seconds rate cpu <<< "$line"
	# shellcheck disable=SC2086
	echo "$rate $(calc "(($(cpu_ticks $pids) - $before) / $(getconf CLK_TCK) + $cpu) / ($seconds * $rate / 1.073741824)")"
}

hooks_ranges() {
	hooks_read file "$(stat -c %s "$memory/hooks/n2/s/file")" "${FM_BENCH_RANGES:-10000}"
}

hooks_whole() {
	hooks_read whole "$(stat -c %s "$memory/hooks/n2/s/whole")" 0
}
