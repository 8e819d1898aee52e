# SPDX-License-Identifier: MIT
# disk - put from disk to the same disk, durable, against fio that reads and writes there at once with O_DIRECT.
# shellcheck shell=bash

DISK_PORT=17490

bench_disk() {
	local node_stores

	need fio
	mkdir "$disk/store"
	node_stores="{ name = \"disk\"; directory = \"$disk/store\"; },"
	node_pair "$memory/disk" $DISK_PORT
	node_wait "$memory/disk/n1" tcp 1 all
	dd if=/dev/urandom of="$disk/source" bs=1M count=$((gib << 10)) oflag=direct status=none
	in_turn "$work/disk" disk_fmove disk_fio
	compare "put, disk to the same disk, $gib GiB, durable" "$work/disk" 1 2 GB/s \
		"the slower of fio's O_DIRECT read and write at once" ">=" 0.9
	rm -rf "$disk/store" "$disk/source" "$disk/fio"
	node_stop "$memory/disk/n1"
	node_stop "$memory/disk/n2"
}

disk_fmove() {
	local result

	rm -f "$disk/store"/*
	result=$("$FMOVE_BIN/fmove" --socket "$memory/disk/n1/sock" put --quiet --json --durability disk \
		"$disk/source" n2:disk/target) || { echo "$result" >&2; return 1; }
	[ -z "$(json note <<< "$result")" ] || say "   note: $(json note <<< "$result")"
	json gb_per_s <<< "$result"
	rm -f "$disk/store"/*
}

# Both halves move as much as fmove does; each has its own time.
disk_fio() {
	rm -f "$disk/fio"
	fio --ioengine=io_uring --direct=1 --bs=1M --iodepth=16 --size="${gib}G" --fallocate=native --output-format=terse \
		--name=read --rw=read --filename="$disk/source" \
		--name=write --rw=write --filename="$disk/fio" --end_fsync=1 > "$work/fio" || return 1
	# KiB per second: field 7 of the reader, field 48 of the writer.
	awk -F';' '$3 == "read" { r = $7 } $3 == "write" { w = $48 } END { printf "%.4f\n", (r < w ? r : w) * 1024 / 1e9 }' "$work/fio"
	rm -f "$disk/fio"
}
