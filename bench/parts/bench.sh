# SPDX-License-Identifier: MIT
# bench - what `fmove bench` says against what iperf3, fio and the kernel's own accounts say; how long it and `fmove doctor` take.
# shellcheck shell=bash

BENCH_PORT=17600
BENCH_IPERF_PORT=17620
BENCH_SECONDS=${FM_BENCH_SECONDS:-2}	# of a repeat; a path has three

bench_bench() {
	need iperf3 fio
	bench_against_iperf
	bench_against_fio
	bench_against_accounts
	bench_durations
}

# bench_pair NAME [FMOVED_OPTION...]: two nodes over TCP that let each other measure.
bench_pair() {
	local name=$1 node_peer_extra='bench = true;' node_extra='mover = { transports = [ "tcp" ]; };'
	shift

	node_pair "$memory/bench-$name" "$BENCH_PORT" "$@"
	node_wait "$memory/bench-$name/n1" tcp 1 all
}

bench_pair_end() {
	node_stop "$memory/bench-$1/n1"
	node_stop "$memory/bench-$1/n2"
	rm -rf "$memory/bench-$1"
}

# bench_of NAME ARGUMENT...: what fmove bench prints at n1 of a pair. 3 is no failure: this machine is noisy.
bench_of() {
	local at=$memory/bench-$1/n1 status=0
	shift

	"$FMOVE_BIN/fmove" --socket "$at/sock" bench "$@" --quiet --config "$at/conf" > "$work/bench.out" || status=$?
	[ $status = 0 ] || [ $status = 3 ] || die "fmove bench $*: status $status"
	cat "$work/bench.out"
}

# bench_row KIND OP DEPTH: the median of that row of a table in CSV on standard input, in GB/s; of all connections together.
bench_row() {
	awk -F, -v kind="$1" -v op="$2" -v depth="$3" \
		'$1 == kind && $2 == op && $5 == depth && /,"","","",0$/ { printf "%.4f\n", $9 / 1e9; n++ } END { exit n != 1 }'
}

# --- over TCP --------------------------------------------------------------------------------------------------------------------

bench_against_iperf() {
	local checks

	for checks in off on; do
		if [ $checks = off ]; then
			bench_pair tcp --measure-unchecked
		else
			bench_pair tcp
		fi
		bench_conns=$(node_status "$memory/bench-tcp/n1" | json tcp_conns)
		bench_iperf_start
		in_turn "$work/bench-tcp-$checks" bench_tcp bench_iperf
		bench_iperf_end
		bench_pair_end tcp
	done
	compare "bench tcp, send, checksums off" "$work/bench-tcp-off" 1 2 GB/s "iperf3 -P $bench_conns" ">=" 1.0
	compare "the same" "$work/bench-tcp-off" 1 3 GB/s "$bench_conns iperf3 processes" - 0
	compare "the same with checksums" "$work/bench-tcp-on" 1 2 GB/s "iperf3 -P $bench_conns" - 0
}

bench_tcp() {
	bench_of tcp tcp --peer n2 --seconds $BENCH_SECONDS --csv | bench_row tcp send 0
}

# One server for each stream; the first serves all of them at once, too.
bench_iperf_start() {
	local i

	for ((i = 0; i < bench_conns; i++)); do
		iperf3 -s -B 127.0.0.1 -p $((BENCH_IPERF_PORT + i)) > /dev/null 2>&1 &
		echo $! > "$work/bench-iperf-$i.pid"
	done
}

bench_iperf_end() {
	local i

	for ((i = 0; i < bench_conns; i++)); do
		kill "$(cat "$work/bench-iperf-$i.pid")"
		rm "$work/bench-iperf-$i.pid"
	done
}

# bench_iperf_one SERVER STREAMS: GB/s. Its server may still be starting, or ending the last one.
bench_iperf_one() {
	local tries=0

	until iperf3 -c 127.0.0.1 -p $((BENCH_IPERF_PORT + $1)) -P "$2" -t $BENCH_SECONDS --json > "$work/bench-iperf.$1" 2>&1; do
		((++tries < 25)) || die "iperf3: $(tail -n 3 "$work/bench-iperf.$1")"
		sleep 0.2
	done
	awk '/"sum_received"/ { is = 1 } is && /"bits_per_second"/ { gsub(/,/, ""); printf "%.4f\n", $2 / 8e9; exit }' \
		"$work/bench-iperf.$1"
}

# One process with so many streams, then so many processes with one each.
bench_iperf() {
	local i pids=() one

	one=$(bench_iperf_one 0 "$bench_conns") || return 1
	for ((i = 0; i < bench_conns; i++)); do
		bench_iperf_one "$i" 1 > "$work/bench-iperf-rate.$i" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || return 1
	done
	echo "$one $(cat "$work"/bench-iperf-rate.* | awk '{ s += $1 } END { print s }')"
	rm "$work"/bench-iperf-rate.*
}

# --- disks -----------------------------------------------------------------------------------------------------------------------

bench_against_fio() {
	mkdir "$disk/bench"
	bench_pair disk
	in_turn "$work/bench-disk" bench_disk bench_fio
	bench_pair_end disk
	rm -rf "$disk/bench"
	compare "bench disk, read, depth 1" "$work/bench-disk" 1 5 GB/s "fio, O_DIRECT, 1 MiB" +- 0.05
	compare "the same, write" "$work/bench-disk" 2 6 GB/s "the same" +- 0.05
	compare "bench disk, read, depth 16" "$work/bench-disk" 3 7 GB/s "the same" +- 0.05
	compare "the same, write" "$work/bench-disk" 4 8 GB/s "the same" +- 0.05
}

# Four rates: read and write at depth 1, then at depth 16, as bench goes.
bench_disk() {
	local depth op rates=()

	bench_of disk disk --path "$disk/bench" --size "${gib}GiB" --seconds $BENCH_SECONDS --csv > "$work/bench-disk.csv"
	for depth in 1 16; do
		for op in read write; do
			rates+=("$(bench_row disk $op $depth < "$work/bench-disk.csv")")
		done
	done
	echo "${rates[*]}"
}

# As bench does: a file that was written once, three times so long each, the median counts.
bench_fio() {
	local depth op rates=()

	fio --name=fill --filename="$disk/bench/fio" --rw=write --ioengine=io_uring --direct=1 --bs=1M --iodepth=16 \
		--size="${gib}G" > /dev/null
	for depth in 1 16; do
		for op in read write; do
			rates+=("$(bench_fio_one $op $depth; bench_fio_one $op $depth; bench_fio_one $op $depth)")
			rates[-1]=$(sort -g <<< "${rates[-1]}" | sed -n 2p)
		done
	done
	rm "$disk/bench/fio"
	echo "${rates[*]}"
}

# bench_fio_one OP DEPTH: KiB per second is field 7 of a reader, field 48 of a writer.
bench_fio_one() {
	fio --name=one --filename="$disk/bench/fio" --rw="$1" --ioengine=io_uring --direct=1 --fixedbufs=1 --bs=1M --iodepth="$2" \
		--size="${gib}G" --time_based --runtime=$BENCH_SECONDS --output-format=terse |
		awk -F';' -v op="$1" '{ printf "%.4f\n", (op == "read" ? $7 : $48) * 1024 / 1e9 }'
}

# --- processors ------------------------------------------------------------------------------------------------------------------

# What is reported for each end against the account of that daemon's control group and the machine's softirqs, beside a process that
# spins, which neither may count. A put of a file needs no transfer that finds out how large it has to be: all that a daemon does counts.
bench_against_accounts() {
	local i

	if ! bench_groups=$(bench_make_groups); then
		say "   no control groups here: CPU is not compared"
		return
	fi
	bench_pair cpu
	bench_group n1
	bench_group n2
	mkdir "$memory/bench-cpu/from"
	(while :; do :; done) &
	echo $! > "$work/bench-spinner.pid"
	: > "$work/bench-cpu"
	for ((i = 0; i < pairs; i++)); do
		bench_cpu_once >> "$work/bench-cpu"
		say "   reported, accounted: $(tail -n 1 "$work/bench-cpu")"
	done
	kill "$(cat "$work/bench-spinner.pid")"
	rm "$work/bench-spinner.pid"
	bench_pair_end cpu
	rmdir "$bench_groups/n1" "$bench_groups/n2" "$bench_groups"
	compare "CPU that bench put reports for this end" "$work/bench-cpu" 1 3 s "cpu.stat of its group, softirqs" +- 0.05
	compare "the same for the other end" "$work/bench-cpu" 2 4 s "the same" +- 0.05
}

# A group with two below it. Its name; 1: there is no place for it.
bench_make_groups() {
	local mount

	mount=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	[ -n "$mount" ] && mkdir "$mount/fmove-bench.$$" "$mount/fmove-bench.$$/n1" "$mount/fmove-bench.$$/n2" 2>/dev/null || return 1
	[ -e "$mount/fmove-bench.$$/n1/cpu.stat" ] || return 1
	echo "$mount/fmove-bench.$$"
}

# bench_group NODE: it and its children go into their group.
bench_group() {
	local pid daemon

	daemon=$(cat "$memory/bench-cpu/$1/pid")
	for pid in "$daemon" $(cat "/proc/$daemon/task"/*/children); do
		echo "$pid" > "$bench_groups/$1/cgroup.procs"
	done
}

# Seconds that a group has used.
bench_account() {
	awk '$1 == "usage_usec" { print $2 / 1e6 }' "$bench_groups/$1/cpu.stat"
}

# Seconds of interrupts and softirqs.
bench_softirqs() {
	awk -v hz="$(getconf CLK_TCK)" '$1 == "cpu" { print ($7 + $8) / hz }' /proc/stat
}

# One line: reported here and there, accounted here and there.
bench_cpu_once() {
	local before after said

	before="$(bench_account n1) $(bench_account n2) $(bench_softirqs)"
	said=$(bench_of cpu put --peer n2 --path "$memory/bench-cpu/from" --size 1GiB --seconds $BENCH_SECONDS --json |
		grep -o '"cpu_here":{[^}]*}\|"cpu_there":{[^}]*}' |
		sed 's/.*"process_s":\([^,]*\),.*"softirq_s":\([^,]*\),.*/\1 \2/' | awk '{ print $1 + $2 }' | tr '\n' ' ')
	after="$(bench_account n1) $(bench_account n2) $(bench_softirqs)"
	echo "$before $after" | awk -v said="$said" '{ print said, $4 - $1 + $6 - $3, $5 - $2 + $6 - $3 }'
}

# --- how long it takes -----------------------------------------------------------------------------------------------------------

bench_durations() {
	local seconds

	mkdir "$disk/bench"
	bench_pair all
	seconds=$(bench_seconds bench_of all all --peer n2 --path "$disk/bench")
	absolute "bench all, quick, one peer and one disk" "$seconds" s "<=" 60
	seconds=$(bench_seconds bench_doctor "$memory/bench-all/n1/sock")
	absolute "doctor alone" "$seconds" s "<=" 3
	bench_pair_end all
	rm -rf "$disk/bench"
	FM_CLUSTER_CONF='memory = { arena = "64MiB"; total = "256MiB"; };' "$top_dir/tests/cluster" up "$memory/bench-ten" 10
	seconds=$(bench_seconds bench_doctor "$memory/bench-ten/n1/fmoved.sock" --all)
	absolute "doctor with 9 peers" "$seconds" s "<=" 5
	"$top_dir/tests/cluster" down "$memory/bench-ten"
	rm -rf "$memory/bench-ten"
}

# What it finds is this machine's business: 3 is no failure.
bench_doctor() {
	local socket=$1 status=0
	shift

	"$FMOVE_BIN/fmove" --socket "$socket" doctor "$@" || status=$?
	[ $status = 0 ] || [ $status = 3 ]
}

# bench_seconds CMD...: how long it takes.
bench_seconds() {
	local TIMEFORMAT=%R

	{ time "$@" > "$work/bench-timed" 2>&1; } 2>&1 || { cat "$work/bench-timed" >&2; return 1; }
}
