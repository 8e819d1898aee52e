# SPDX-License-Identifier: MIT
# hooks - what a checkpoint's hooks do, over TCP loopback: ranges of a file in memory, read into memory, against one get of as many bytes;
# a put from memory that the daemon maps, against one from other memory; small puts by Python against those by C.
# shellcheck shell=bash

HOOKS_PORT=17540
HOOKS_BYTES=65536
HOOKS_PUT=$((1 << 30))

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
	in_turn "$work/buffers" hooks_buffer hooks_plain
	compare "a put of 1 GiB from a buffer, its CPU per GiB: both daemons and the caller" "$work/buffers" 2 5 s "from plain memory" "<=" 0.85
	compare "its rate" "$work/buffers" 1 4 GB/s "from plain memory" - 0
	absolute "what that put takes of memory beside the buffer" "$(median "$work/buffers" 3)" MiB "<=" 8
	hooks_python
	node_stop "$memory/hooks/n1"
	node_stop "$memory/hooks/n2"
	rm -rf "$memory/hooks"
}

# hooks_cpu COMMAND...: GB/s, and CPU seconds per GiB, of a command that prints seconds, GB/s, its own CPU seconds, and what follows.
hooks_cpu() {
	local pids before line seconds rate cpu rest

	pids="$(cat "$memory/hooks/n1/pid") $(cat "$memory/hooks/n2/pid")"
	# shellcheck disable=SC2086
	before=$(cpu_ticks $pids)
	line=$("$@") || return 1
	read -r seconds rate cpu rest <<< "$line"
	# shellcheck disable=SC2086
	echo "$rate $(calc "(($(cpu_ticks $pids) - $before) / $(getconf CLK_TCK) + $cpu) / ($seconds * $rate / 1.073741824)") $rest"
}

# hooks_put HOW: the same, and MiB beside the bytes.
hooks_put() {
	hooks_cpu "$FMOVE_BIN/memory_load" "$memory/hooks/n1/sock" n2 s put $HOOKS_PUT "$(cat "$memory/hooks/n1/pid")" "$1"
}

hooks_buffer() {
	hooks_put buffer
}

hooks_plain() {
	hooks_put plain
}

# hooks_read PATH SIZE COUNT: the same.
hooks_read() {
	hooks_cpu "$FMOVE_BIN/range_load" "$memory/hooks/n1/sock" n2 s "$1" "$2" "$3" $HOOKS_BYTES
}

hooks_ranges() {
	hooks_read file "$(stat -c %s "$memory/hooks/n2/s/file")" "${FM_BENCH_RANGES:-10000}"
}

hooks_whole() {
	hooks_read whole "$(stat -c %s "$memory/hooks/n2/s/whole")" 0
}

# What a put of 4 KiB takes more by Python than by C, over one connection each.
hooks_python() {
	local i c python where=("$memory/hooks/n1/sock" n2 s small)

	head -c 4096 /dev/urandom > "$memory/hooks/4k"
	: > "$work/hooks_python"
	for ((i = 0; i < pairs; i++)); do
		c=$("$FMOVE_BIN/put_load" "${where[@]}" 4096 2000 "$memory/hooks/4k") || return 1
		python=$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$bench_dir/../client/python \
			python3 "$bench_dir/put_load.py" "${where[@]}" 2000 "$memory/hooks/4k") || return 1
		calc "(${python%% *} - ${c%% *}) / 2000 * 1e6" '%.0f\n' >> "$work/hooks_python"
	done
	absolute "4 KiB puts to a store in memory: what one takes more by Python than by C" "$(median "$work/hooks_python" 1)" us "<=" 200
}
