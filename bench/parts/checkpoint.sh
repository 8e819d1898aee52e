# SPDX-License-Identifier: MIT
# checkpoint - a training's state, FM_BENCH_CHECKPOINT MiB on the first GPU if there is one, saved to another node's store in memory and
# loaded from it, against what PyTorch does by itself with a directory in memory; then, 2 GiB at most, saved to a store on disk, against
# torch.save() with fsync, the same with rsync, and what fio writes there. FM_PYTHON is a python3 with torch 2.9 or newer.
# shellcheck shell=bash

CHECKPOINT_PORT=17560

bench_checkpoint() {
	local mib=${FM_BENCH_CHECKPOINT:-2048} at=$memory/checkpoint

	checkpoint_nodes "$at"
	checkpoint_load "$at" "$mib" "$pairs" save > "$work/save"
	compare "save, $mib MiB: until training may change them" "$work/save" 2 1 s "a copy to pinned memory" "<=" 1.25
	compare "the same" "$work/save" 2 4 s "dcp.async_save to memory" - 0
	compare "save: until whole on the other node, in memory" "$work/save" 3 5 s "dcp.async_save to memory" "<=" 0.25
	compare "the same" "$work/save" 3 6 s "torch.save to memory" "<=" 0.25
	if awk '$8 == 0 { none = 1 } END { exit none }' "$work/save"; then
		compare "dcp.async_save with Stager and FmoveWriter: until training may change them" "$work/save" 8 1 s "a copy to pinned memory" "<=" 1.25
		compare "the same: until whole on the other node, in memory" "$work/save" 9 5 s "dcp.async_save to memory" "<=" 0.25
	else
		say "this torch takes no stager"
	fi
	checkpoint_engine "$at" "$mib"
	compare "save: until whole, against the slower of the copy and a put of as much" "$work/limits" 1 2 s "that" "<=" 1.18
	mkdir -p "$disk/cold"
	checkpoint_load "$at" "$mib" "$pairs" load "$at/local" "$disk/cold" > "$work/load"
	rm -rf "$disk/cold"
	compare "load from the other node's memory" "$work/load" 1 2 s "torch.load, mapped and warm" "<=" 1
	compare "the same" "$work/load" 1 3 s "torch.load of a cold file on the disk" "<=" 0.33
	checkpoint_many "$at"
	node_stop "$at/n1"
	node_stop "$at/n2"
	rm -rf "$at"
	[ "$mib" -le 2048 ] || mib=2048
	checkpoint_disk "$mib"
}

# checkpoint_nodes AT: a pair whose buffers may hold the state as often as it is saved here, and the directory for the others.
checkpoint_nodes() {
	local node_extra="memory = { total = \"$((mib / 1024 + 2))GiB\"; buffers = \"$((3 * mib))MiB\"; };"

	node_pair "$1" $CHECKPOINT_PORT
	node_wait "$1/n1" tcp 1 all
	mkdir "$1/local"
}

# checkpoint_load AT MIB ROUNDS WHAT [LOCAL [COLD]]: its lines.
checkpoint_load() {
	local lines

	lines=$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$bench_dir/../client/python \
		"${FM_PYTHON:-python3}" "$bench_dir/checkpoint_load.py" "$1/n1/sock" n2:s/saved "${5:-$1/local}" "$2" "$3" "$4" ${6:+"$6"}) || return 1
	say "${lines//$'\n'/; }"
	printf '%s\n' "$lines"
}

# Into work/limits: seconds of the save, and of the slower of its two parts.
checkpoint_engine() {
	local i seconds copy whole pid

	pid=$(cat "$1/n1/pid")
	: > "$work/limits"
	while read -r copy _ whole _; do
		read -r seconds _ < <("$FMOVE_BIN/memory_load" "$1/n1/sock" n2 s engine $(($2 << 20)) "$pid" buffer)
		awk -v w="$whole" -v c="$copy" -v s="$seconds" 'BEGIN { print w, (c > s ? c : s) }' >> "$work/limits"
	done < "$work/save"
	rm -f "$1/n2/s/engine"
}

# 200 saves leave nothing.
checkpoint_many() {
	checkpoint_load "$1" 16 200 many | awk 'NR == 1 { kib = $1; fds = $2 } NR == 2 { print $1 / kib, $2 - fds }' > "$work/many"
	absolute "resident memory after 200 saves of 16 MiB, as a part of that after 10" "$(median "$work/many" 1)" "" "<=" 1.02
	absolute "descriptors that the 190 saves left open" "$(median "$work/many" 2)" "" "<=" 0
}

# To a store on the disk, durable; torch.save() there, synced, rsync of it with --fsync, and fio, which writes as much there.
checkpoint_disk() {
	local at=$disk/checkpoint copy changes whole plain synced rsync

	need rsync fio
	checkpoint_nodes "$at"
	checkpoint_load "$at" "$1" "$pairs" save > "$work/disk"
	: > "$work/rsync"
	: > "$work/fio-rates"
	while read -r copy changes whole _ _ plain synced _; do
		rm -rf "$at/copy"
		rsync=$({ TIMEFORMAT=%R; time rsync --whole-file --fsync "$at/local/file" "$at/copy"; } 2>&1) || return 1
		echo "$whole $synced $(calc "$synced + $rsync")" >> "$work/rsync"
		echo "$(calc "$1 / $whole") $(checkpoint_fio "$1" "$at/fio")" >> "$work/fio-rates"
	done < "$work/disk"
	compare "save, $1 MiB: until durable on the other node's disk" "$work/rsync" 1 2 s "torch.save to the same disk, fsync" "<=" 1.2
	compare "the same" "$work/rsync" 1 3 s "the same and rsync --fsync" "<=" 0.33
	compare "its rate" "$work/fio-rates" 1 2 MiB/s "fio, as much to a new file on that disk" ">=" 0.9
	node_stop "$at/n1"
	node_stop "$at/n2"
	rm -rf "$at"
}

# checkpoint_fio MIB FILE: MiB a second, of blocks of 1 MiB past the page cache, until they are synced.
checkpoint_fio() {
	rm -f "$2"
	fio --name=write --rw=write --ioengine=io_uring --direct=1 --bs=1M --iodepth=16 --size="$1M" --fallocate=native --end_fsync=1 \
		--filename="$2" --output-format=terse > "$work/fio" || return 1
	awk -F';' '{ printf "%.1f\n", $48 / 1024 }' "$work/fio"
	rm -f "$2"
}
