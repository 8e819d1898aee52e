# SPDX-License-Identifier: MIT
# before - these programs against those of another build, by turns: what a change costs.
# shellcheck shell=bash

BEFORE_PORT=17530
BEFORE_FILES=${FM_BENCH_BEFORE_FILES:-20000}	# of the tree
BEFORE_SMALL=2000

bench_before() {
	local side node_stores now_bin=$FMOVE_BIN then_bin=${FM_BENCH_BEFORE:-}

	if [ -z "$then_bin" ]; then
		say "   left out: FM_BENCH_BEFORE, the programs of another build, is not set (bench/against COMMIT sets it)"
		return
	fi
	then_bin=$(realpath -m "$then_bin")
	[ -x "$then_bin/put_load" ] || die "no put_load in $then_bin: build programs and bench-programs there"
	for side in now then; do
		mkdir -p "$disk/before-$side"
		node_stores="{ name = \"disk\"; directory = \"$disk/before-$side\"; },"
		before_on $side node_pair "$memory/before-$side" $((BEFORE_PORT + (${#side} - 3) * 4))
		before_on $side node_wait "$memory/before-$side/n1" tcp 1 all
	done
	head -c "${gib}G" /dev/urandom > "$memory/before-file"
	head -c 4096 /dev/urandom > "$memory/before-small"
	"$now_bin/make_tree" "$memory/before-tree" "$BEFORE_FILES" =4096
	before_compare put "put, tmpfs to tmpfs, $gib GiB" 1 GB/s ">=" 0.97
	before_figure put "its CPU: both daemons and the command" 2 s "<=" 1.03
	before_compare get "get, the same" 1 GB/s ">=" 0.97
	before_compare durable "durable put, tmpfs to disk" 1 GB/s ">=" 0.97
	before_compare small "4 KiB puts, one after the other" 1 "a second" ">=" 0.97
	before_figure small "threads of both daemons that one of them wakes" 2 "" "<=" 1.03
	before_compare tree "put -r of $BEFORE_FILES files of 4 KiB, tmpfs to tmpfs" 1 s "<=" 1.03
	for side in now then; do
		node_stop "$memory/before-$side/n1"
		node_stop "$memory/before-$side/n2"
	done
	rm -rf "$memory/before-file" "$memory/before-small" "$memory/before-tree"
}

# before_on now|then COMMAND...: with the programs of that side.
before_on() {
	local side=$1
	local -x FMOVE_BIN=$now_bin
	shift

	[ "$side" = now ] || FMOVE_BIN=$then_bin
	"$@"
}

# in_turn calls these.
before_now() {
	before_on now "before_$before_what" "$memory/before-now" "$disk/before-now"
}

before_then() {
	before_on then "before_$before_what" "$memory/before-then" "$disk/before-then"
}

# before_compare WHAT ROW COLUMN UNIT RELATION WANTED: measure, and the first figure of it.
before_compare() {
	before_what=$1
	in_turn "$work/before-$1" before_now before_then
	before_figure "$@"
}

before_figure() {
	local columns

	read -ra columns < "$work/before-$1"
	compare "$2" "$work/before-$1" "$3" $(($3 + ${#columns[@]} / 2)) "$4" before "$5" "$6"
}

# ---- what is measured, each with the directory of a pair of nodes and one on the disk ----

before_put() {
	rm -rf "${1:?}/n2/s"/*
	put_cost "$1" "$work/result" "$memory/before-file" n2:s/target || return 1
	rm -rf "${1:?}/n2/s"/*
}

before_get() {
	local TIMEFORMAT=%R seconds

	ln "$memory/before-file" "$1/n2/s/source"
	seconds=$({ time "$FMOVE_BIN/fmove" --socket "$1/n1/sock" get --quiet n2:s/source "$memory/before-got" > "$work/result"; } 2>&1) ||
		{ echo "$seconds" >&2; return 1; }
	rm -f "$memory/before-got" "$1/n2/s/source"
	gbps "$seconds"
}

before_durable() {
	local TIMEFORMAT=%R seconds

	seconds=$({ time "$FMOVE_BIN/fmove" --socket "$1/n1/sock" put --quiet --durability disk "$memory/before-file" \
		n2:disk/target > "$work/result"; } 2>&1) || { echo "$seconds" >&2; return 1; }
	rm -f "$2"/*
	sync -f "$2"
	gbps "$seconds"
}

before_small() {
	local pids woken line rate

	pids="$(cat "$1/n1/pid") $(cat "$1/n2/pid")"
	# shellcheck disable=SC2086
	woken=$(wakes $pids)
	line=$("$FMOVE_BIN/put_load" "$1/n1/sock" n2 s small 4096 $BEFORE_SMALL "$memory/before-small") || return 1
	read -r _ rate _ <<< "$line"
	# shellcheck disable=SC2086
	echo "$rate $(calc "($(wakes $pids) - $woken) / $BEFORE_SMALL" %.2f)"
	rm -rf "${1:?}/n2/s"/*
}

before_tree() {
	local TIMEFORMAT=%R seconds

	seconds=$({ time "$FMOVE_BIN/fmove" --socket "$1/n1/sock" put -r --quiet --durability memory "$memory/before-tree" \
		n2:s/copy > "$work/result"; } 2>&1) || { echo "$seconds" >&2; return 1; }
	rm -rf "${1:?}/n2/s"/*
	echo "$seconds"
}
