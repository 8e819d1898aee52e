# SPDX-License-Identifier: MIT
# tcp - put from tmpfs to tmpfs over TCP loopback: against the bare loop, rsync's daemon, socat; iperf3 for the record.
# shellcheck shell=bash

TCP_PORT=17480

bench_tcp() {
	need rsync socat iperf3
	tcp_target=$memory/tcp/n2/s
	node_pair "$memory/tcp" $TCP_PORT
	node_wait "$memory/tcp/n1" tcp 1 all
	tcp_source=$memory/tcp/source
	head -c "${gib}G" /dev/urandom > "$tcp_source"
	tcp_find_best
	tcp_against_bare_loop
	tcp_against_rsync
	tcp_against_socat
	tcp_iperf
	rm -f "$tcp_source" "$tcp_target"/*
	node_stop "$memory/tcp/n1"
	node_stop "$memory/tcp/n2"
}

tcp_fmove() {
	rm -f "$tcp_target"/*
	put_cost "$memory/tcp" "$work/result" "$tcp_source" n2:s/target || return 1
	rm -f "$tcp_target"/*
}

tcp_bare_loop() {
	local line

	rm -f "$tcp_target"/*
	line=$("$FMOVE_BIN/bare_loop" "$tcp_source" "$tcp_target/bare" "$best_chunk" "$best_threads") || return 1
	rm -f "$tcp_target"/*
	read -r seconds cpu _ <<< "$line"
	echo "$(gbps "$seconds") $cpu"
}

# Sets best_chunk and best_threads: the fastest of all, each tried three times, its median counting.
tcp_find_best() {
	local round

	: > "$work/sweep"
	for round in 1 2 3; do
		for best_chunk in 131072 262144 524288 1048576 2097152 4194304; do
			for best_threads in 1 2 4 8; do
				echo "$best_chunk $best_threads $(tcp_bare_loop)" >> "$work/sweep"
			done
		done
	done
	read -r best_chunk best_threads _ <<< "$(sort -k 1,1n -k 2,2n -k 3,3g "$work/sweep" |
		awk '{ k = $1 " " $2; if (++n[k] == 2) print k, $3 }' | sort -k 3,3gr | head -n 1)"
	say "bare loop: best with chunks of $((best_chunk >> 10)) KiB and $best_threads threads"
}

tcp_against_bare_loop() {
	in_turn "$work/bare" tcp_fmove tcp_bare_loop
	compare "put, tmpfs to tmpfs, $gib GiB, TCP loopback, verified" "$work/bare" 1 3 GB/s \
		"bare loop, $((best_chunk >> 10)) KiB, $best_threads threads" ">=" 0.95
	compare "its CPU: both daemons and the command" "$work/bare" 2 4 s "bare loop" "<=" 1.1
}

tcp_rsync_start() {
	cat > "$work/rsyncd.conf" <<-C
	use chroot = no
	uid = $(id -un)
	gid = $(id -gn)
	[m]
	path = $tcp_target
	read only = false
	C
	rsync --daemon --no-detach --config="$work/rsyncd.conf" --address=127.0.0.1 --port=$((TCP_PORT + 3)) &
	echo $! > "$work/rsync.pid"
	until rsync "rsync://127.0.0.1:$((TCP_PORT + 3))/m/" > /dev/null 2>&1; do
		kill -0 "$(cat "$work/rsync.pid")" || die "rsync's daemon did not start"
		sleep 0.1
	done
}

tcp_rsync() {
	timed rsync --whole-file "$tcp_source" "rsync://127.0.0.1:$((TCP_PORT + 3))/m/rsync"
}

# timed CMD...: GB/s of a command that moves the source into the target directory.
timed() {
	local TIMEFORMAT=%R seconds

	rm -f "$tcp_target"/*
	seconds=$({ time "$@" > "$work/timed.out" 2>&1; } 2>&1) || { cat "$work/timed.out" >&2; return 1; }
	gbps "$seconds"
	rm -f "$tcp_target"/*
}

tcp_fmove_rate() {
	local line

	line=$(tcp_fmove) || return 1
	echo "${line% *}"
}

tcp_against_rsync() {
	tcp_rsync_start
	in_turn "$work/rsync" tcp_fmove_rate tcp_rsync
	kill "$(cat "$work/rsync.pid")"
	rm "$work/rsync.pid"
	compare "the same, against rsync" "$work/rsync" 1 2 GB/s "rsync daemon, whole file" ">=" 1.7
}

# The receiver's end is the end: socat's sender is done earlier.
socat_copy() {
	local receiver

	socat -u -b 1048576 "TCP-LISTEN:$((TCP_PORT + 4)),bind=127.0.0.1,reuseaddr" "OPEN:$tcp_target/socat,creat,trunc" &
	receiver=$!
	socat -u -b 1048576 "FILE:$tcp_source" "TCP:127.0.0.1:$((TCP_PORT + 4)),retry=50,interval=0.01"
	wait $receiver
}

tcp_socat() {
	timed socat_copy
}

tcp_against_socat() {
	in_turn "$work/socat" tcp_fmove_rate tcp_socat
	compare "the same, against socat" "$work/socat" 1 2 GB/s "socat, 1 MiB, checks nothing" ">=" 1.1
}

tcp_iperf() {
	local i

	iperf3 -s -B 127.0.0.1 -p $((TCP_PORT + 5)) > /dev/null 2>&1 &
	echo $! > "$work/iperf.pid"
	: > "$work/iperf"
	for ((i = 0; i < pairs; i++)); do
		until iperf3 -c 127.0.0.1 -p $((TCP_PORT + 5)) -P 4 -t 3 -f g > "$work/iperf.out" 2>&1; do
			sleep 0.2
		done
		awk '/SUM.*receiver/ { print $6 / 8 }' "$work/iperf.out" >> "$work/iperf"
	done
	kill "$(cat "$work/iperf.pid")"
	rm "$work/iperf.pid"
	absolute "iperf3, 4 streams, moves and checks nothing" "$(median "$work/iperf" 1)" GB/s - 0
}
