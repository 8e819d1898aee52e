# SPDX-License-Identifier: MIT
# small - 4 KiB files, one after the other over one connection to the local daemon, to a store in memory.
# shellcheck shell=bash

SMALL_PORT=17510
SMALL_COUNT=10000
SMALL_WAKES_MAX=14.75	# half of what it was when it was counted first

bench_small() {
	local i pids before woken

	node_pair "$memory/small" $SMALL_PORT
	node_wait "$memory/small/n1" tcp 1 all
	head -c 4096 /dev/urandom > "$memory/small/file"
	pids="$(cat "$memory/small/n1/pid") $(cat "$memory/small/n2/pid")"
	: > "$work/small"
	for ((i = 0; i < pairs; i++)); do
		# shellcheck disable=SC2086
		before=$(wakes $pids)
		woken=$("$FMOVE_BIN/put_load" "$memory/small/n1/sock" n2 s small 4096 $SMALL_COUNT \
			"$memory/small/file")
		# shellcheck disable=SC2086
		woken+=" $(calc "($(wakes $pids) - $before) / $SMALL_COUNT" %.2f)"
		echo "$woken" >> "$work/small"
		rm -rf "$memory/small/n2/s"/*
		say "   $woken"
	done
	absolute "4 KiB puts to a store in memory, one after the other, one API connection" "$(median "$work/small" 2)" "a second" ">=" 2000
	absolute "threads of both daemons that one of them wakes" "$(median "$work/small" 4)" \
		"" "<=" $SMALL_WAKES_MAX
	node_stop "$memory/small/n1"
	node_stop "$memory/small/n2"
}
