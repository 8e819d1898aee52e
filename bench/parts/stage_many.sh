# SPDX-License-Identifier: MIT
# stage_many - a dataset of a million files: staged again from a sealed volume, the start of a daemon that has it, and the memory that it took.
# What fmove-nvmed would say of the volume is written by hand, as it says it: the volume is a directory here.
# shellcheck shell=bash

STAGE_MANY=${FM_BENCH_STAGE_MANY:-1000000}	# files; empty, so that their number is what is measured
STAGE_MANY_PORT=17640
STAGE_MANY_TOTAL_MIB=$(((STAGE_MANY + 999999) / 1000000 * 512))	# memory.total: the default for each million

bench_stage_many() {
	local i kib seconds

	many_at=$memory/stage-many many_disk=$disk/stage-many
	mkdir -p "$many_disk"/{volume,cache} "$many_at"
	"$FMOVE_BIN/make_tree" "$many_disk/volume/set" "$STAGE_MANY" =0
	many_nodes
	: > "$work/many-again"
	seconds=$(many_seconds) || exit 1
	say "   the first one: $seconds s"
	kib=$(awk '/^VmHWM|^HugetlbPages/ { s += $2 } END { print s }' "/proc/$(cat "$many_at/n1/pid")/status")
	for ((i = 0; i < pairs; i++)); do
		seconds=$(many_again) || exit 1
		calc "$seconds * 1000" '%.1f\n' >> "$work/many-again"
		say "   again: $(tail -n 1 "$work/many-again") ms"
	done
	absolute "second stage of $STAGE_MANY files of a sealed volume" "$(median "$work/many-again" 1)" ms "<" 50
	many_cold_start
	absolute "resident memory and huge pages of fmoved that staged them" "$((kib >> 10))" \
		"MiB, memory.total being $STAGE_MANY_TOTAL_MIB" "<=" $STAGE_MANY_TOTAL_MIB
	node_stop "$many_at/n1"
	node_stop "$many_at/n2"
	rm -rf "$many_disk"
}

many_nodes() {
	node_key "$many_at/n1"
	mkdir "$many_at/n1/nvmed"
	printf '{"volumes":[{"name":"data","subsystem":"disk1","wwid":"uuid.bench","writer":"n1","mounted":true,"read_write":false,"sealed":true,%s' \
		"\"epoch\":1,\"device\":$(stat -c %d "$many_disk/volume"),\"mounted_epoch\":1,\"written_by\":\"\"}]}" > "$many_at/n1/nvmed/volumes.json"
	node_stores="{ name = \"v\"; directory = \"$many_disk/volume\"; volume = \"data\"; }," \
		node_conf "$many_at/n1" n1 "127.0.0.1:$STAGE_MANY_PORT" <<-C
	staging = { directory = "$many_disk/cache"; size = "1TiB"; };
	memory = { total = "${STAGE_MANY_TOTAL_MIB}MiB"; };
	nvme = { socket = "$many_at/n1/nvmed/sock"; };
	volumes = ( { name = "data"; subsystem = "disk1"; address = "127.0.0.1:1"; mode = "shared-read"; writer = "n1";
		mount = "$many_disk/volume"; } );
	C
	node_key "$many_at/n2"
	node_conf "$many_at/n2" n2 "127.0.0.1:$((STAGE_MANY_PORT + 1))" <<< "staging = { directory = \"$many_disk/empty\"; size = \"1TiB\"; };"
	node_start "$many_at/n1"
	node_start "$many_at/n2"
	node_until "$many_at/n1" "$FMOVE_BIN/fmove" --socket "$many_at/n1/sock" ls n1:v
}

many_seconds() {
	local TIMEFORMAT=%R

	{ time "$FMOVE_BIN/fmove" --socket "$many_at/n1/sock" stage v/set -- true > "$work/stage.out" 2>&1; } 2>&1 || die "stage: $(cat "$work/stage.out")"
}

many_again() {
	many_seconds
	grep -q 'its volume sealed since' "$work/stage.out" || die "it was looked at: $(cat "$work/stage.out")"
}

# Only root may empty the page cache, and a warm start is not what is asked for.
many_cold_start() {
	[ "$(id -u)" = 0 ] || { say "   left out: the start from a cold cache, which takes root"; return; }
	in_turn "$work/many-start" many_start many_start_empty
	absolute "a start of fmoved with $STAGE_MANY cached files, from a cold cache, until it tells of them" \
		"$(median "$work/many-start" 1)" s "<=" 1
	compare "the same" "$work/many-start" 1 2 s "one that has none" - 0
}

many_start() {
	many_starts n1 set
	node_until "$many_at/n1" "$FMOVE_BIN/fmove" --socket "$many_at/n1/sock" ls n1:v
}

many_start_empty() {
	many_starts n2 ""
}

# many_starts NODE NAMES: seconds from the start of the program until it tells which datasets it has.
many_starts() {
	local begin

	node_stop "$many_at/$1"
	echo 3 > /proc/sys/vm/drop_caches
	begin=$EPOCHREALTIME
	node_start "$many_at/$1"
	[ "$("$FMOVE_BIN/fmove" --socket "$many_at/$1/sock" datasets --quiet)" = "$2" ] || die "fmoved of $1 tells of something else than '$2'"
	calc "$EPOCHREALTIME - $begin" '%.3f\n'
}
