# SPDX-License-Identifier: MIT
# scale - generated data to a null store over TCP loopback on 2, 4, 8, ... processors: the settings that fmoved chooses
# against the best of a sweep, and against as many iperf3 processes as it makes connections. For the record: it decides nothing.
# shellcheck shell=bash

SCALE_PORT=17560
SCALE_BEST_PORT=17570
SCALE_IPERF_PORT=17580

bench_scale() {
	local cores

	need taskset
	read -ra scale_cpus <<< "$(scale_allowed)"
	[ ${#scale_cpus[@]} -ge 2 ] || die "scale needs two processors"
	for ((cores = 2; cores <= ${#scale_cpus[@]}; cores *= 2)); do
		[[ " ${FM_BENCH_CORES:-$cores} " != *" $cores "* ]] || scale_on $cores
	done
}

# The processors that this process may use: "0-2,8" becomes "0 1 2 8".
scale_allowed() {
	taskset -cp $BASHPID | sed 's/.*: //' | tr , '\n' | awk -F- '{ for (i = $1; i <= $NF; i++) printf "%d ", i }'
}

# scale_on CORES: everything runs on the first so many processors, both daemons, clients and iperf3 together.
scale_on() {
	local cores=$1 what

	scale_on_cpus=(taskset -c "$(IFS=,; echo "${scale_cpus[*]:0:cores}")")
	scale_bytes=$((gib * cores / 2 << 30))
	scale_find_best "$cores"
	scale_start default $SCALE_PORT
	scale_start best $SCALE_BEST_PORT "$scale_best"
	what="generated data, $cores processors, default ($(scale_numbers default))"
	in_turn "$work/scale-$cores" scale_put_default scale_put_best
	compare "$what" "$work/scale-$cores" 1 3 GB/s "best of a sweep ($(scale_numbers best))" - 0
	compare "its CPU, both daemons" "$work/scale-$cores" 2 4 s/GiB "the same" - 0
	scale_stop best
	if command -v iperf3 > /dev/null; then
		scale_against_iperf "$cores" "$what"
	else
		say "   no iperf3 here: nothing to compare with"
	fi
	scale_stop default
}

# scale_start NAME PORT [SETTINGS]: a pair of nodes, all of whose connections are up. The settings are sections of a configuration's mover and memory.
scale_start() {
	local at=$memory/scale-$1 settings=${3:-} node_wrap=("${scale_on_cpus[@]}") node_extra

	node_extra="mover = { transports = [ \"tcp\" ]; ${settings%;;*} }; memory = { ${settings##*;;} };"
	node_pair "$at" "$2"
	node_wait "$at/n1" tcp 1 all
}

scale_stop() {
	node_stop "$memory/scale-$1/n1"
	node_stop "$memory/scale-$1/n2"
	rm -rf "$memory/scale-$1"
}

# scale_number NAME KEY: what the status of a pair says.
scale_number() {
	node_status "$memory/scale-$1/n1" | json "$2"
}

scale_numbers() {
	local lanes

	lanes=$(node_status "$memory/scale-$1/n1" | grep -o '"lanes":\[[^]]*' | grep -o io_uring\\\|threads | wc -l)
	echo "$lanes lanes, $(scale_number "$1" tcp_conns) connections, $(($(scale_number "$1" slab_bytes) >> 20)) MiB slabs"
}

# scale_put NAME: GB/s and CPU seconds a GiB of both daemons.
scale_put() {
	local at=$memory/scale-$1 pids before line

	pids="$(cat "$at/n1/pid") $(cat "$at/n2/pid")"
	# shellcheck disable=SC2086
	before=$(cpu_ticks $pids)
	line=$("${scale_on_cpus[@]}" "$FMOVE_BIN/put_load" "$at/n1/sock" n2 null x "$scale_bytes" 1) || return 1
	# shellcheck disable=SC2086
	echo "${line##* } $(calc "($(cpu_ticks $pids) - $before) / $(getconf CLK_TCK) / ($scale_bytes / 1073741824)")"
}

scale_put_default() {
	scale_put default
}

scale_put_best() {
	scale_put best
}

# scale_settings CORES: what is tried, a line each. Lanes without a connection do nothing: they are tried only with as few
# connections as fmoved ever chooses.
scale_settings() {
	local lanes conns slab

	for lanes in 1 2 4 8 16; do
		((lanes >= $1 / 4 && lanes <= $1)) || continue
		for conns in 1 2 4 8 16; do
			((conns >= lanes || conns >= 4)) && ((conns <= 2 * lanes)) || continue
			for slab in 2 4 8 16; do
				echo "lanes = $lanes; tcp_conns = $conns;; slab = \"${slab}MiB\";"
			done
		done
	done
}

# scale_find_best CORES: sets scale_best. Each is tried three times, its median counts.
scale_find_best() {
	local setting line

	: > "$work/scale-sweep"
	while read -r setting; do
		scale_start sweep $SCALE_BEST_PORT "$setting"
		for _ in 1 2 3; do
			line=$(scale_put sweep) || return 1
			echo "${line%% *}"
		done | sort -g | sed -n 2p > "$work/scale-median"
		scale_stop sweep
		say "   $1 processors: $setting $(cat "$work/scale-median") GB/s"
		echo "$(cat "$work/scale-median") $setting" >> "$work/scale-sweep"
	done < <(scale_settings "$1")
	scale_best=$(sort -gr "$work/scale-sweep" | head -n 1 | cut -d' ' -f2-)
}

# As many processes as the default has connections: each end of each is a process of its own.
scale_against_iperf() {
	local i

	scale_conns=$(scale_number default tcp_conns)
	for ((i = 0; i < scale_conns; i++)); do
		"${scale_on_cpus[@]}" iperf3 -s -B 127.0.0.1 -p $((SCALE_IPERF_PORT + i)) > /dev/null 2>&1 &
		echo $! > "$work/scale-iperf-$i.pid"
	done
	in_turn "$work/scale-iperf-$1" scale_put_rate scale_iperf
	for ((i = 0; i < scale_conns; i++)); do
		kill "$(cat "$work/scale-iperf-$i.pid")"
		rm "$work/scale-iperf-$i.pid"
	done
	compare "$2" "$work/scale-iperf-$1" 1 2 GB/s "$scale_conns iperf3 processes, which check nothing" - 0
}

scale_put_rate() {
	local line

	line=$(scale_put default) || return 1
	echo "${line%% *}"
}

# GB/s of all of them, for three seconds.
scale_iperf() {
	local i pids=()

	for ((i = 0; i < scale_conns; i++)); do
		scale_iperf_one "$i" > "$work/scale-iperf.$i" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i"
	done
	cat "$work"/scale-iperf.* | awk '{ s += $1 } END { print s }'
}

# Its server may still be starting.
scale_iperf_one() {
	local tries=0

	until "${scale_on_cpus[@]}" iperf3 -c 127.0.0.1 -p $((SCALE_IPERF_PORT + $1)) -t 3 -f g > "$work/scale-iperf-$1.out" 2>&1; do
		((++tries < 25)) || die "iperf3: $(cat "$work/scale-iperf-$1.out")"
		sleep 0.2
	done
	awk '/receiver/ { print $7 / 8 }' "$work/scale-iperf-$1.out"
}
