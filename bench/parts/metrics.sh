# SPDX-License-Identifier: MIT
# metrics - what watching costs: a scrape of a daemon that sends, the sending beside a scrape every 50 ms, and fmove top that shows an idle node.
# shellcheck shell=bash

METRICS_PORT=17650
METRICS_WEB=17655
METRICS_TOP_S=20

bench_metrics() {
	need python3 script
	metrics_at=$memory/metrics
	metrics_nodes
	: > "$work/metrics-scrapes"
	in_turn "$work/metrics" metrics_watched metrics_alone
	absolute "a scrape of a daemon that sends" "$(median "$work/metrics-scrapes" 1)" "ms, median of $(wc -l < "$work/metrics-scrapes")" "<=" 5
	compare "generated data while a scrape comes every 50 ms" "$work/metrics" 1 2 GB/s "without" ">=" 0.97
	absolute "fmove top on an idle node for $METRICS_TOP_S s" "$(metrics_top)" "of a processor" "<=" 0.005
	node_stop "$metrics_at/n1"
	node_stop "$metrics_at/n2"
	rm -rf "$metrics_at"
}

metrics_nodes() {
	local i

	for i in 1 2; do
		node_key "$metrics_at/n$i"
	done
	for i in 1 2; do
		node_conf "$metrics_at/n$i" n$i "127.0.0.1:$((METRICS_PORT + i))" \
			"$(node_peer n$((3 - i)) "127.0.0.1:$((METRICS_PORT + 3 - i))" "$metrics_at/n$((3 - i))/pub")" <<< 'mover = { transports = [ "tcp" ]; };'
	done
	echo "metrics = { listen = \"127.0.0.1:$METRICS_WEB\"; };" >> "$metrics_at/n1/conf"
	node_start "$metrics_at/n1"
	node_start "$metrics_at/n2"
	node_wait "$metrics_at/n1" tcp 1 all
}

# GB/s
metrics_alone() {
	local line

	line=$("$FMOVE_BIN/put_load" "$metrics_at/n1/sock" n2 null x $((gib << 30)) 1) || return 1
	echo "${line##* }"
}

metrics_watched() {
	local scraper

	metrics_scrape >> "$work/metrics-scrapes" &
	scraper=$!
	echo $scraper > "$work/metrics.pid"
	metrics_alone || return 1
	kill $scraper
	wait $scraper 2> /dev/null || true
	rm "$work/metrics.pid"
}

# Scrapes until it is killed; prints the milliseconds of each but the first, which opens the connection.
metrics_scrape() {
	exec python3 - $METRICS_WEB <<- 'P'
	import http.client, sys, time
	server = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
	is_first = True
	while True:
	    begin = time.perf_counter()
	    server.request("GET", "/metrics")
	    if not server.getresponse().read().startswith(b"#"):
	        sys.exit("not a page of metrics")
	    if not is_first:
	        print(f"{(time.perf_counter() - begin) * 1000:.3f}", flush=True)
	    is_first = False
	    time.sleep(0.05)
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
