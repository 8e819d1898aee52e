# SPDX-License-Identifier: MIT
# hooks - what a checkpoint's hooks do, over TCP loopback: ranges of a file in memory, read into memory, against one get of as many bytes;
# a put from memory that the daemon maps, against one from other memory; small puts by Python against those by C; a publication group that
# several processes fill, against one put -r; and what many groups, one behind the other, leave.
# shellcheck shell=bash

HOOKS_PORT=17540
HOOKS_BYTES=65536
HOOKS_PUT=$((1 << 30))
HOOKS_FILES=64
HOOKS_PUTTERS=8

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
	hooks_group
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

# Three nodes in memory: n1 and n3 put to n2.
hooks_group_nodes() {
	local at=$memory/groups i peers

	for i in 1 2 3; do
		node_key "$at/n$i"
	done
	for i in 1 2 3; do
		peers=("$(node_peer n2 "127.0.0.1:$((HOOKS_PORT + 2))" "$at/n2/pub")")
		[ $i -ne 2 ] || peers=("$(node_peer n1 "127.0.0.1:$((HOOKS_PORT + 1))" "$at/n1/pub")"
			"$(node_peer n3 "127.0.0.1:$((HOOKS_PORT + 3))" "$at/n3/pub")")
		node_conf "$at/n$i" "n$i" "127.0.0.1:$((HOOKS_PORT + i))" "${peers[@]}" <<< ""
	done
	for i in 1 2 3; do
		node_start "$at/n$i"
	done
	node_wait "$at/n1" tcp 1 all
	node_wait "$at/n3" tcp 1 all
}

hooks_group() {
	local i at=$memory/groups

	hooks_group_nodes
	mkdir "$at/files"
	for ((i = 0; i < HOOKS_FILES; i++)); do
		head -c $((gib * (1 << 30) / HOOKS_FILES)) /dev/urandom > "$at/files/$i"
	done
	in_turn "$work/group" hooks_group_put hooks_tree_put
	compare "a group of $HOOKS_FILES files, $gib GiB, from $HOOKS_PUTTERS processes on 2 nodes, begun, put and committed, memory to memory" \
		"$work/group" 1 2 GB/s "one put -r of the same" ">=" 0.9
	rm -rf "$at/files"
	hooks_many
	for i in 1 2 3; do
		node_stop "$at/n$i"
	done
	rm -rf "$at"
}

# hooks_put_part ID I: what process I of a group puts.
hooks_put_part() {
	local at=$memory/groups i files=()

	for ((i = $2; i < HOOKS_FILES; i += HOOKS_PUTTERS)); do
		files+=("$at/files/$i")
	done
	"$FMOVE_BIN/fmove" --socket "$at/n$(($2 % 2 * 2 + 1))/sock" put --quiet --group "$1" "${files[@]}" n2:s/group/
}

hooks_group_put() {
	local id i pid pids=() begin=$EPOCHREALTIME fmove=("$FMOVE_BIN/fmove" --socket "$memory/groups/n1/sock")

	id=$("${fmove[@]}" group begin --members $HOOKS_FILES n2:s/group) || return 1
	for ((i = 0; i < HOOKS_PUTTERS; i++)); do
		hooks_put_part "$id" "$i" >&2 &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || return 1
	done
	"${fmove[@]}" group commit "$id" n2:s/group || return 1
	gbps "($EPOCHREALTIME - $begin)"
	"${fmove[@]}" rm -r n2:s/group
}

hooks_tree_put() {
	local begin=$EPOCHREALTIME fmove=("$FMOVE_BIN/fmove" --socket "$memory/groups/n1/sock")

	"${fmove[@]}" put --quiet -r "$memory/groups/files" n2:s/tree >&2 || return 1
	gbps "($EPOCHREALTIME - $begin)"
	"${fmove[@]}" rm -r n2:s/tree
}

# What the node that has groups has more of when all are through than behind the first tenth: MiB of memory, descriptors, names, KiB on disk.
hooks_many() {
	local count=${FM_BENCH_GROUPS:-1000} i first

	for ((i = 1; i <= count; i++)); do
		hooks_one_of_many $i || die "group $i of $count"
		[ $i -ne $(((count + 9) / 10)) ] || first=$(hooks_left)
	done
	# shellcheck disable=SC2046
	set -- $first $(hooks_left)
	absolute "$count groups of one file of 4 KiB, begun, put, committed (--keep-last 3): memory that they leave" \
		"$(calc "($5 - $1) / 1024" %.2f)" MiB "<=" 1
	absolute "descriptors that they leave" $(($6 - $2)) "" "<=" 0
	absolute "names that they leave in the store" $(($7 - $3)) "" "<=" 0
	absolute "what they leave on disk" $(($8 - $4)) KiB "<=" 0
}

hooks_one_of_many() {
	local id fmove=("$FMOVE_BIN/fmove" --socket "$memory/groups/n1/sock")

	id=$("${fmove[@]}" group begin --members 1 "n2:s/many/$1") || return 1
	head -c 4096 /dev/zero | "${fmove[@]}" put --quiet --group "$id" - "n2:s/many/$1/m" || return 1
	"${fmove[@]}" group commit --latest last --keep-last 3 "$id" "n2:s/many/$1" 2> /dev/null
}

hooks_left() {
	local at=$memory/groups/n2 pid

	pid=$(cat "$at/pid")
	echo "$(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status") $(find "/proc/$pid/fd" -type l | wc -l)" \
		"$(find "$at/s" | wc -l) $(du -s "$at/s" | cut -f1)"
}
