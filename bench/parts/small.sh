# SPDX-License-Identifier: MIT
# small - 4 KiB files, one after the other over one connection to the local daemon, to a store in memory.
# shellcheck shell=bash

SMALL_PORT=17510
SMALL_COUNT=10000

bench_small() {
	local i

	node_pair "$memory/small" $SMALL_PORT
	node_wait "$memory/small/n1" tcp 1 all
	head -c 4096 /dev/urandom > "$memory/small/file"
	: > "$work/small"
	for ((i = 0; i < pairs; i++)); do
		"$FMOVE_BIN/put_load" "$memory/small/n1/sock" n2 s small 4096 $SMALL_COUNT "$memory/small/file" >> "$work/small"
		rm -rf "$memory/small/n2/s"/*
		say "   $(tail -n 1 "$work/small")"
	done
	absolute "4 KiB puts to a store in memory, one after the other, one API connection" "$(median "$work/small" 2)" "a second" ">=" 2000
	node_stop "$memory/small/n1"
	node_stop "$memory/small/n2"
}
