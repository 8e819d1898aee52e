# SPDX-License-Identifier: MIT
# metrics - what watching costs: a scrape of a daemon that sends, the sending beside a scrape of it every 50 ms and every second, and fmove top
# that shows an idle node.
# shellcheck shell=bash

METRICS_PORT=17650
METRICS_WEB=17655
METRICS_NODES=3		# n1 sends to n2; n3 has a page of the same size, and nothing to do
METRICS_TOP_S=20

bench_metrics() {
	local i

	need python3 script
	metrics_at=$memory/metrics
	metrics_nodes
	: > "$work/metrics-scrapes"
	in_turn "$work/metrics" metrics_watched metrics_idle_watched
	in_turn "$work/metrics-seconds" metrics_watched_each_second metrics_alone
	[ -s "$work/metrics-scrapes" ] || die "no scrape came while data was sent: give it more (FM_BENCH_GIB)"
	absolute "a scrape of a daemon that sends" "$(median "$work/metrics-scrapes" 1)" "ms, median of $(wc -l < "$work/metrics-scrapes")" "<=" 5
	compare "generated data while a scrape of its daemon comes every 50 ms" "$work/metrics" 1 2 GB/s "of an idle third one" ">=" 0.97
	compare "generated data while a scrape comes every second" "$work/metrics-seconds" 1 2 GB/s "without" ">=" 0.97
	absolute "fmove top on an idle node for $METRICS_TOP_S s" "$(metrics_top)" "of a processor" "<=" 0.005
	for ((i = 1; i <= METRICS_NODES; i++)); do
		node_stop "$metrics_at/n$i"
	done
	rm -rf "$metrics_at"
}

metrics_nodes() {
	local i j peers

	for ((i = 1; i <= METRICS_NODES; i++)); do
		node_key "$metrics_at/n$i"
	done
	for ((i = 1; i <= METRICS_NODES; i++)); do
		peers=()
		for ((j = 1; j <= METRICS_NODES; j++)); do
			((j == i)) || peers+=("$(node_peer n$j "127.0.0.1:$((METRICS_PORT + j))" "$metrics_at/n$j/pub")")
		done
		node_conf "$metrics_at/n$i" n$i "127.0.0.1:$((METRICS_PORT + i))" "${peers[@]}" <<< "mover = { transports = [ \"tcp\" ]; };
			metrics = { listen = \"127.0.0.1:$((METRICS_WEB + i))\"; };"
	done
	for ((i = 1; i <= METRICS_NODES; i++)); do
		node_start "$metrics_at/n$i"
	done
	for i in 1 3; do
		node_wait "$metrics_at/n$i" tcp 2 all
	done
}

# GB/s
metrics_alone() {
	local line

	line=$("$FMOVE_BIN/put_load" "$metrics_at/n1/sock" n2 null x $((gib << 30)) 1) || return 1
	echo "${line##* }"
}

# metrics_beside I SECONDS FILE: the same while nI is asked so often; how long each answer took goes to FILE.
metrics_beside() {
	local scraper

	rm -f "$work/metrics.asked"
	metrics_scrape $((METRICS_WEB + $1)) "$2" "$work/metrics.asked" >> "$3" &
	scraper=$!
	echo $scraper > "$work/metrics.pid"
	while [ ! -e "$work/metrics.asked" ]; do
		kill -0 $scraper 2> /dev/null || return 1
		sleep 0.05
	done
	metrics_alone || return 1
	kill $scraper
	wait $scraper 2> /dev/null || true
	rm "$work/metrics.pid"
}

metrics_watched() {
	metrics_beside 1 0.05 "$work/metrics-scrapes"
}

# The scraper and the page that it gets take as much of the processors, but not from the daemon that sends.
metrics_idle_watched() {
	metrics_beside 3 0.05 /dev/null
}

metrics_watched_each_second() {
	metrics_beside 1 1 /dev/null
}

# metrics_scrape PORT SECONDS FILE: so often, until it is killed; prints the milliseconds of each but the first, which opens the connection, and makes
# the file then.
metrics_scrape() {
	exec python3 - "$@" <<- 'P'
	import http.client, sys, time
	server = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
	pause = float(sys.argv[2])
	is_first = True
	while True:
	    begin = time.perf_counter()
	    server.request("GET", "/metrics")
	    if not server.getresponse().read().startswith(b"#"):
	        sys.exit("not a page of metrics")
	    if not is_first:
	        print(f"{(time.perf_counter() - begin) * 1000:.3f}", flush=True)
	    else:
	        open(sys.argv[3], "w").close()
	    is_first = False
	    time.sleep(pause)
	P
}

# The share of a processor that it takes while it shows, its start left out.
metrics_top() {
	local pid before

	script -qfec "$FMOVE_BIN/fmove --socket $metrics_at/n1/sock top" /dev/null > "$work/metrics.top" < <(sleep $((METRICS_TOP_S + 5))) &
	sleep 2
	pid=$(pgrep -f "^[^ ]*fmove[^ ]* --socket $metrics_at/n1/sock top" | tail -n 1) || die "fmove top does not run: $(cat "$work/metrics.top")"
	before=$(cpu_ticks "$pid")
	sleep $METRICS_TOP_S
	[ -e "/proc/$pid" ] || die "fmove top has ended: $(cat "$work/metrics.top")"
	calc "($(cpu_ticks "$pid") - $before) / $(getconf CLK_TCK) / $METRICS_TOP_S" '%.4f\n'
	kill "$pid"
	wait
}
