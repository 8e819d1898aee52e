# SPDX-License-Identifier: MIT
# resume - a put that was cut off at half: what is left of it against the whole, and against fio
# that reads and writes as much; and what journal and checks cost.
# shellcheck shell=bash

RESUME_PORT=17530

bench_resume() {
	local node_stores="{ name = \"disk\"; directory = \"$disk/store\"; },"

	need fio
	mkdir -p "$disk/store"
	dd if=/dev/urandom of="$disk/source" bs=1M count=$((gib << 10)) oflag=direct status=none
	node_pair "$memory/resume" $RESUME_PORT
	node_wait "$memory/resume/n1" tcp 1 all
	in_turn "$work/resume" resume_rest resume_whole
	compare "put, disk to disk, $gib GiB, durable, the rest after SIGKILL of the command at 50 %" "$work/resume" 1 2 s "the whole" "<=" 0.7
	in_turn "$work/least" resume_rest resume_fio
	compare "the same rest" "$work/least" 1 2 s \
		"fio's O_DIRECT: read half, read the other half, write half, at once" "<=" 1.1
	node_stop "$memory/resume/n1"
	node_stop "$memory/resume/n2"
	node_pair "$memory/bare" $((RESUME_PORT + 5)) --measure-unchecked
	node_pair "$memory/resume" $RESUME_PORT
	node_wait "$memory/bare/n1" tcp 1 all
	node_wait "$memory/resume/n1" tcp 1 all
	in_turn "$work/journal" resume_journal_off resume_whole
	compare "put, disk to disk, $gib GiB, without journal and checks" "$work/journal" 1 2 s "with them" ">=" 0.97
	for pair in bare resume; do
		node_stop "$memory/$pair/n1"
		node_stop "$memory/$pair/n2"
	done
	rm -rf "$disk/store" "$disk/source"
}

# resume_put NODES: seconds as the result states them.
resume_put() {
	local result

	result=$("$FMOVE_BIN/fmove" --socket "$memory/$1/n1/sock" put --quiet --json --force --durability disk \
		"$disk/source" n2:disk/target) || { echo "$result" >&2; return 1; }
	echo "$result" > "$work/resume.json"
	json seconds <<< "$result"
}

resume_whole() {
	rm -f "$disk/store"/.fmove.* "$disk/store"/*
	resume_put resume
	rm -f "$disk/store"/*
}

resume_journal_off() {
	rm -f "$disk/store"/.fmove.* "$disk/store"/*
	resume_put bare
	rm -f "$disk/store"/*
}

# The partial file's blocks say how far it is: it is reserved before, so its size does not.
resume_is_half() {
	[ "$("$FMOVE_BIN/fmove" --socket "$memory/resume/n2/sock" status --json |
		sed -n 's/.*"bytes": *\([0-9]*\).*/\1/p' | head -n 1)" -ge $((gib << 29)) ] 2>/dev/null
}

resume_rest() {
	local pid

	rm -f "$disk/store"/.fmove.* "$disk/store"/*
	"$FMOVE_BIN/fmove" --socket "$memory/resume/n1/sock" put --quiet --durability disk "$disk/source" n2:disk/target &
	pid=$!
	until resume_is_half; do
		kill -0 $pid 2>/dev/null || { echo "the put ended before it could be cut off" >&2; return 1; }
		sleep 0.05
	done
	kill -9 $pid
	wait $pid 2>/dev/null || true
	resume_put resume
	say "   resumed: $(json resumed_bytes < "$work/resume.json") bytes"
	rm -f "$disk/store"/*
}

# What is left cannot be done in less: read what is there, and read and write what is not.
resume_fio() {
	local half=$((gib << 9))

	rm -f "$disk/store"/.fmove.* "$disk/store"/*
	fio --ioengine=io_uring --direct=1 --bs=1M --iodepth=16 --size="${half}M" --fallocate=native --output-format=terse \
		--name=there --rw=read --filename="$disk/source" \
		--name=read --rw=read --filename="$disk/source" --offset="${half}M" \
		--name=write --rw=write --filename="$disk/store/fio" --end_fsync=1 > "$work/fio" || return 1
	# Milliseconds: field 9 of a reader, field 50 of a writer.
	awk -F';' '{ t = $9 + $50; if (t > most) most = t } END { printf "%.3f\n", most / 1000 }' "$work/fio"
	rm -f "$disk/store/fio"
}
