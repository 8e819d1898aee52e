# SPDX-License-Identifier: MIT
# engine - what the engine alone can do, without wire and disk; and ISA-L's own rate.
# shellcheck shell=bash

bench_engine() {
	local i line

	: > "$work/engine"
	for ((i = 0; i < pairs; i++)); do
		line=$("$FMOVE_BIN/engine_alone" 16 2> "$work/engine.err") || die "engine_alone: $(cat "$work/engine.err")"
		say "   $line"
		sed -n 's/.*engine alone \([0-9.]*\) .*CRC \([0-9.]*\) .*alone \([0-9.]*\) .*/\1 \2 \3/p' <<< "$line" >> "$work/engine"
	done
	absolute "engine alone (no wire, store or CRC), 1 MiB chunks, one lane" "$(median "$work/engine" 1)" GB/s ">=" 50
	compare "engine with CRC at both ends" "$work/engine" 2 3 GB/s "ISA-L alone" ">=" 0.9
}
