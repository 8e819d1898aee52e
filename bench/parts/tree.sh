# SPDX-License-Identifier: MIT
# tree - put -r of many files between two local nodes, against rsync -a, tar piped into tar, and tar piped into fmove put; put -r --update of what did not change,
# against rsync -a.
# shellcheck shell=bash

TREE_PORT=17520
TREE_FILES=${FM_BENCH_TREE_FILES:-50000}	# of 100 KiB on average, on disk
TREE_SMALL_FILES=${FM_BENCH_TREE_SMALL:-200000}	# of 4 KiB, in memory and on disk
TREE_SAME_FILES=${FM_BENCH_TREE_SAME:-15000}	# of 10 KiB on average, on disk, at both ends

bench_tree() {
	need rsync tar
	[ "$(id -u)" = 0 ] || say "   not root: caches stay warm"
	tree_memory
	tree_on_disk big "$TREE_FILES" 102400 "$TREE_FILES files of 100 KiB" 2.5 2 1
	tree_on_disk small "$TREE_SMALL_FILES" =4096 "$TREE_SMALL_FILES files of 4 KiB" 2 - -
	tree_unchanged
}

tree_cold() {
	sync -f "$disk"
	[ "$(id -u)" != 0 ] || echo 3 > /proc/sys/vm/drop_caches
}

# tree_seconds CMD...
tree_seconds() {
	local TIMEFORMAT=%R

	{ time "$@" > "$work/tree.out" 2>&1; } 2>&1 || { cat "$work/tree.out" >&2; return 1; }
}

# The copy of the run before goes. On a disk it is only emptied and put aside until the end: ext4 without a journal passes over inodes
# that were deleted a minute ago, one by one, which would be most of what a run costs then, whoever runs.
tree_put_away() {
	local aside

	if [ -n "$tree_is_cold" ] && [ -e "$tree_target/copy" ]; then
		aside=$(mktemp -d "$disk/tree-aside.XXXXXX")
		mv "$tree_target/copy" "$aside"
		find "$aside" -type f -exec truncate -s 0 {} +
	fi
	rm -rf "${tree_target:?}"/*
}

# What three of the functions below share: tree_source, tree_target (a directory that is the store), tree_socket, tree_durable.
tree_fmove() {
	local result

	tree_put_away
	[ -z "$tree_is_cold" ] || tree_cold
	result=$(tree_seconds "$FMOVE_BIN/fmove" --socket "$tree_socket" put -r --quiet --durability "$tree_durable" "$tree_source" n2:t/copy) ||
		return 1
	tree_put_away
	echo "$result"
}

tree_rsync_run() {
	rsync -a "$tree_source/" "$tree_target/copy/" && tree_sync
}

tree_tar_run() {
	mkdir "$tree_target/copy"
	tar -C "$tree_source" -cf - . | tar -C "$tree_target/copy" -xf - && tree_sync
}

tree_sync() {
	[ "$tree_durable" = memory ] || sync -f "$tree_target"
}

# The same files as one stream into a file of the store: nothing but their bytes.
tree_stream_run() {
	tar -C "$tree_source" -cf - . |
		"$FMOVE_BIN/fmove" --socket "$tree_socket" put --quiet --durability "$tree_durable" - n2:t/copy
}

tree_stream() {
	tree_other tree_stream_run
}

tree_other() {
	local result

	tree_put_away
	[ -z "$tree_is_cold" ] || tree_cold
	result=$(tree_seconds "$1") || return 1
	tree_put_away
	echo "$result"
}

tree_rsync() {
	tree_other tree_rsync_run
}

tree_tar() {
	tree_other tree_tar_run
}

# tree_compare WHAT NAME AGAINST WANTED: how many times faster, so the other's time over ours.
tree_compare() {
	local wanted=$4 relation='>='

	[ "$wanted" != - ] || { relation=-; wanted=0; }
	in_turn "$work/tree.$2" tree_fmove "$3"
	compare "$1" "$work/tree.$2" 2 1 s "fmove's seconds under the other's" "$relation" "$wanted"
}

tree_nodes() {
	local node_stores="{ name = \"t\"; directory = \"$tree_target\"; },"

	mkdir -p "$tree_target"
	node_pair "$1" $TREE_PORT
	node_wait "$1/n1" tcp 1 all
	tree_socket=$1/n1/sock
}

tree_memory() {
	tree_source=$memory/tree-source tree_target=$memory/tree-target tree_durable=memory tree_is_cold=''
	"$FMOVE_BIN/make_tree" "$tree_source" "$TREE_SMALL_FILES" =4096
	tree_nodes "$memory/tree"
	tree_compare "rsync -a, $TREE_SMALL_FILES files of 4 KiB, tmpfs to tmpfs, seconds; put -r: below" memory_rsync tree_rsync 4
	tree_compare "tar | tar, the same" memory_tar tree_tar 1.5
	rm -rf "$tree_source" "$tree_target"
	node_stop "$memory/tree/n1"
	node_stop "$memory/tree/n2"
}

tree_on_disk() {
	local name=$1 count=$2 size=$3 what=$4

	tree_source=$disk/tree-source-$name tree_target=$disk/tree-target-$name tree_durable=disk tree_is_cold=1
	"$FMOVE_BIN/make_tree" "$tree_source" "$count" "$size"
	tree_nodes "$memory/tree-$name"
	tree_compare "rsync -a and sync, $what, disk to disk, cold cache, seconds; put -r, durable: below" "${name}_rsync" tree_rsync "$5"
	tree_compare "tar | tar and sync, the same" "${name}_tar" tree_tar "$6"
	tree_compare "tar | fmove put -, one file at the target, the same" "${name}_stream" tree_stream "$7"
	node_stop "$memory/tree-$name/n1"
	node_stop "$memory/tree-$name/n2"
}

# ---- a tree that did not change ----

# tree_same CMD...: the seconds of a command that finds both trees alike and copies nothing.
tree_same() {
	[ -z "$tree_is_cold" ] || tree_cold
	tree_seconds "$@"
}

tree_update() {
	tree_same "$FMOVE_BIN/fmove" --socket "$tree_socket" put -r --update --quiet "$tree_source" n2:t/copy
}

tree_rsync_same() {
	tree_same rsync -a "$tree_source/" "$tree_target/copy/"
}

tree_unchanged() {
	local what="rsync -a of $TREE_SAME_FILES files of 10 KiB that did not change, disk to disk"

	tree_source=$disk/tree-source-same tree_target=$disk/tree-target-same tree_durable=disk tree_is_cold=''
	"$FMOVE_BIN/make_tree" "$tree_source" "$TREE_SAME_FILES" 10240
	tree_nodes "$memory/tree-same"
	"$FMOVE_BIN/fmove" --socket "$tree_socket" put -r --quiet "$tree_source" n2:t/copy
	tree_versus_rsync "$what, warm cache" same_warm
	tree_is_cold=1
	[ "$(id -u)" != 0 ] || tree_versus_rsync "$what, cold cache" same_cold
	node_stop "$memory/tree-same/n1"
	node_stop "$memory/tree-same/n2"
}

# tree_versus_rsync WHAT NAME: our seconds over those of rsync.
tree_versus_rsync() {
	in_turn "$work/tree.$2" tree_update tree_rsync_same
	compare "$1, seconds; put -r --update: left" "$work/tree.$2" 1 2 s rsync '<=' 0.7
}
