#!/bin/bash
# Goal:   what fmoved counts is served for Prometheus while files move, in both formats; slow and senseless clients keep nobody out and cost
#         the daemon nothing; a port that is taken is said at the start.
# Method: a cluster with metrics, scraped with a client of python3; its own page of the manual, the dashboard and the rules name what is served;
#         Debian's promtool and Prometheus where they can be had.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/metrics_lib.sh"
need_scraper
up 2
conf=$dir/c/n1/fmove.conf
# Two of this test's ports, which no node has.
for port in $(seq "$ports_from" $((ports_from + PORTS_EACH - 1))); do
	grep -q ":$port\"" "$dir"/c/n*/fmove.conf || ports="${ports:-} $port"
done
read -r port web _ <<<"$ports"

restart() {
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n1 || bad "n1 does not stop"
	start_again n1
}

# --- off unless it is said; an address that was left out is refused ---

get >/dev/null 2>&1 && bad "something listens without being told to"
for wrong in ':7472' 'localhost:7472' '127.0.0.1:0' 'run/socket' '/run/socket' 'unix:' 'unix:run/socket' "unix:/$(printf 'n%.0s' {1..107})"; do
	{ cat "$conf"; echo "metrics = { listen = \"$wrong\"; };"; } >wrong.conf
	no 2 'metrics.listen.*must be.*ADDRESS:PORT' fmoved --config wrong.conf --check
done

# --- and on when it is, after any end ---

echo "metrics = { listen = \"127.0.0.1:$port\"; };" >>"$conf"
# A second store, on a volume; what fmove-nvmed would say of it is written by hand below.
mkdir "$dir/v" "$dir/nvmed"
sed -i "s|stores = ( {|stores = ( { name = \"v\"; directory = \"$dir/v\"; volume = \"data\"; }, {|" "$conf"
cat >>"$conf" <<END
nvme = { socket = "$dir/nvmed/sock"; };
volumes = ( { name = "data"; subsystem = "disk1"; address = "127.0.0.1:1"; writer = "n1"; mount = "$dir/v"; } );
END
restart
get_page page
grep -q '^fmove_build_info{node="n1",version="[0-9.]*"} 1$' page || bad "no fmove_build_info: $(head -n 3 page)"
crash n1
start_again n1
await page_to page || { bad "no page behind a crash"; exit; }	# nothing below has any sense then

# --- both formats; what is no metric ---

get_page page
grep -q '^Content-Type: text/plain; version=0.0.4' headers || bad "the text format: $(cat headers)"
get_page open 'application/openmetrics-text; version=1.0.0'
grep -q '^Content-Type: application/openmetrics-text; version=1.0.0' headers || bad "OpenMetrics: $(cat headers)"
[ "$(tail -n 1 open)" = '# EOF' ] || bad "OpenMetrics does not end"
get '' /other 404 >/dev/null || bad "another path: $(cat headers)"

# --- a page is whole while a put runs, and counts it ---

bytes=$((64 << 20))	# a minute at the rate of slow; it is quick once the page was taken
random $bytes f
slow 1
reachable 2
fmove put f n2:s/f >/dev/null 2>&1 &
moved f 0
get_page page
[ "$(value 'fmove_transfers_running{direction="send"}' page)" = 1 ] || bad "no transfer runs: $(grep running page)"
[ "$(value 'fmove_jobs{state="running"}' page)" = 1 ] || bad "no job runs: $(grep fmove_jobs page)"
[ "$(value 'fmove_slabs_used' page)" -gt 0 ] || bad "no slot is used"
fast 1
wait $!
ok fmove get n2:s/f g
idle
get_page page
for direction in send receive; do
	sum=0
	for transport in tcp rdma; do
		sum=$((sum + $(value "fmove_transfer_bytes_total{direction=\"$direction\",transport=\"$transport\"}" page)))
	done
	[ $sum -eq $bytes ] || bad "$direction: $sum bytes are counted"
	[ "$(value "fmove_transfer_duration_seconds_count{direction=\"$direction\",result=\"done\"}" page)" = 1 ] || bad "$direction: no duration"
	[ "$(value "fmove_transfers_running{direction=\"$direction\"}" page)" = 0 ] || bad "$direction: a transfer runs on"
done
[ "$(value 'fmove_peer_sent_bytes_total{peer="n2"}' page)" -ge $bytes ] || bad "the peer: $(grep fmove_peer_ page)"
ports_sent() {
	awk -F '} ' '/^fmove_port_sent_bytes_total[{]peer="n2",transport="tcp",port="/ { sum += $2 } END { printf "%.0f", sum }' page
}
[ "$(ports_sent)" = "$(value 'fmove_peer_sent_bytes_total{peer="n2"}' page)" ] || bad "the ports: $(grep -E 'fmove_(port|peer)_sent' page)"
[ "$(value 'fmove_peer_connected{peer="n2"}' page)" = 1 ] || bad "the peer is not connected"
grep -q '^fmove_rail_up{peer="n2",.*} 1$' page || bad "no rail is up: $(grep fmove_rail page)"
[ "$(value 'fmove_jobs_ended_total{state="done"}' page)" = 2 ] || bad "jobs that are done: $(grep jobs_ended page)"
[ "$(value 'fmove_metrics_left_out' page)" = 0 ] || bad "something is left out"
[ "$(value process_resident_memory_bytes page)" -gt 1000000 ] || bad "no memory: $(grep ^process page)"

# --- a store on a volume that comes; threads for calls that wait ---

[ "$(value 'fmove_store_on_volume{store="v",volume="data"}' page)" = 0 ] || bad "a volume that is not mounted: $(grep store page)"
cat >volumes.new <<END
{"volumes":[{"name":"data","subsystem":"disk1","wwid":"uuid.test","writer":"n1","mounted":true,"read_write":true,"sealed":false,"epoch":0,
"device":$(stat -c %d "$dir/v"),"mounted_epoch":0,"written_by":""}]}
END
mv volumes.new "$dir/nvmed/volumes.json"
on_volume() {
	get >page && [ "$(value 'fmove_store_on_volume{store="v",volume="data"}' page)" = 1 ]
}
await on_volume || bad "a volume that is mounted: $(grep store page)"
[ "$(value fmove_stores page)" = 2 ] || bad "stores: $(grep store page)"
[ "$(value fmove_workers page)" -gt 0 ] || bad "workers: $(grep worker page)"
grep -q '^fmove_worker_calls_waiting [0-9]' page || bad "no queue of workers: $(grep worker page)"

# --- a transfer that fails, and the bytes of a peer when its connections have gone, stay counted ---

before=$(value 'fmove_peer_sent_bytes_total{peer="n2"}' page)
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2 || bad "n2 does not stop"
cut_off() {
	get >page && [ "$(value 'fmove_peer_connected{peer="n2"}' page)" = 0 ]
}
await cut_off || bad "n2 is still connected"
[ "$(value 'fmove_peer_sent_bytes_total{peer="n2"}' page)" -ge "$before" ] || bad "what was sent to n2 got less"
[ "$(ports_sent)" = "$(value 'fmove_peer_sent_bytes_total{peer="n2"}' page)" ] || bad "the ports: $(grep -E 'fmove_(port|peer)_sent' page)"
start_again n2

# --- the page of the manual has each metric, with the words that are served, and no other ---

is_paged page FMOVED

# --- the alert rules and the dashboard ask for nothing else ---

shipped=$FM_SOURCE/config/prometheus
python3 -m json.tool "$shipped/fmove.dashboard.json" >/dev/null || bad "the dashboard is no JSON"
for name in $(grep -ohE '\b(fmove|process)_[a-z_]+' "$shipped/fmove.rules.yml" "$shipped/fmove.dashboard.json" | sort -u); do
	grep -q "^\.B ${name%_bucket}\$" "$FM_SOURCE/mover/metrics/fmove-metrics.7" || bad "$name is asked for, and not served"
done

python3 "$FM_SOURCE/tests/cli/panels.py" page "$shipped/fmove.dashboard.json" "$shipped/fmove.rules.yml" >out || bad "labels: $(cat out)"

# --- random bytes, and 100 clients that are slow: who comes then is served, and all of them go ---

cat >slow.py <<'P'
import os, socket, sys
port, kept = int(sys.argv[1]), []
for i in range(20):
    s = socket.create_connection(("127.0.0.1", port), timeout=60)
    try:
        s.sendall(os.urandom(4096) + b"\r\n\r\n")
        while s.recv(4096):
            pass
    except OSError:
        pass
s = socket.create_connection(("127.0.0.1", port), timeout=60)
try:
    s.sendall(b"GET /metrics HTTP/1.1\r\n" + b"A: " + b"x" * (1 << 20) + b"\r\n\r\n")
    said = s.recv(12)
except OSError:
    said = b""
assert not said.endswith(b"200"), said
for i in range(100):
    s = socket.create_connection(("127.0.0.1", port), timeout=60)
    s.sendall(b"GET /metrics HT")
    kept.append(s)
print("slow", flush=True)
sys.stdin.readline()
ended = 0
for s in kept:
    try:
        while s.recv(4096):
            pass
        ended += 1
    except OSError as e:
        ended += not isinstance(e, TimeoutError)
print(ended)
P
mkfifo go
python3 slow.py "$port" <go >said &
slow=$!
exec {go}>go
is_slow() {
	grep -q slow said
}
await is_slow || bad "slow.py: $(cat said)"
await page_to page || bad "slow clients keep others out"
[ "$(value process_open_fds page)" -lt 200 ] || bad "descriptors: $(value process_open_fds page)"
echo >&"$go"
wait $slow
[ "$(tail -n 1 said)" = 100 ] || bad "of 100 slow clients $(tail -n 1 said) were ended"

# --- a port that is taken is said at the start ---

"$FM_SOURCE/tests/cluster" stop "$dir/c" n2 || bad "n2 does not stop"
echo "metrics = { listen = \"127.0.0.1:$port\"; };" >>"$dir/c/n2/fmove.conf"
no 1 "metrics.listen: port $port of 127.0.0.1 is taken" fmoved --config "$dir/c/n2/fmove.conf" --log-level error
sed -i '/^metrics/d' "$dir/c/n2/fmove.conf"

# --- a UNIX socket: nothing else is replaced by it but what a dead daemon left, and it goes with the daemon ---

tcp=$port port=$dir/c/n2/metrics.sock
echo kept >"$port"
cp "$dir/c/n2/fmove.conf" plain.conf
for taken in "$port" "$dir/c/n1/fmoved.sock"; do
	{ cat plain.conf; echo "metrics = { listen = \"unix:$taken\"; };"; } >"$dir/c/n2/fmove.conf"
	no 1 "metrics.listen: socket $taken: another fmoved serves it, or it is no socket" fmoved --config "$dir/c/n2/fmove.conf" --log-level error
done
[ "$(cat "$port")" = kept ] && rm "$port" || bad "a file that is no socket went"
alive_1() {
	fmove status >out 2>&1 || bad "another daemon's socket went: $(cat out)"
}
alive_1
{ cat plain.conf; echo "metrics = { listen = \"unix:$port\"; };"; } >"$dir/c/n2/fmove.conf"
start_again n2
await page_to unix || bad "no answer at a UNIX socket"
grep -q '^fmove_build_info{node="n2",' unix || bad "its page: $(head -n 3 unix)"
is_guarded "$port" || bad "strangers may use it: $(ls -l "$port")"
grep -q "metrics at unix:$port, with mode 0$(stat -c %a "$port")\$" "$dir/c/n2/log" || bad "its mode is not in the log: $(grep metrics "$dir/c/n2/log")"
if command -v curl >/dev/null; then
	curl -s --unix-socket "$port" http://localhost/metrics | grep -q '^fmove_build_info' || bad "curl --unix-socket has no answer"
fi
crash n2
[ -S "$port" ] || bad "nothing is left to be replaced"
start_again n2
await page_to unix || bad "no answer where a dead daemon left a socket"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2 || bad "n2 does not stop"
[ ! -e "$port" ] || bad "its socket is there still"
cp plain.conf "$dir/c/n2/fmove.conf"
port=$tcp
start_again n2

# --- as Debian's Prometheus sees it ---

find_prometheus || { [ $fails -gt 0 ] || skip "all but promtool and Prometheus: ${why#SKIP: }"; exit; }
promtool check rules "$shipped/fmove.rules.yml" >out 2>&1 || bad "the rules: $(cat out)"
promtool test rules "$shipped/fmove.rules.test.yml" >out 2>&1 || bad "the rules: $(cat out)"
for alert in $(sed -n 's/.*- alert: //p' "$shipped/fmove.rules.yml"); do
	grep -q "alertname: $alert\$" "$shipped/fmove.rules.test.yml" || bad "$alert has no test"
done
promtool check metrics <page >out 2>&1 || bad "promtool: $(cat out)"
cat >prometheus.yml <<END
global: { scrape_interval: 1s }
scrape_configs: [ { job_name: fmove, static_configs: [ { targets: [ "127.0.0.1:$port" ] } ] } ]
END
prometheus --config.file=prometheus.yml --storage.tsdb.path=tsdb --web.listen-address=127.0.0.1:$web >prometheus.log 2>&1 &
prometheus=$!
has_scraped() {
	promtool query instant "http://127.0.0.1:$web" 'fmove_build_info{node="n1"} and on (instance) up == 1' | grep -q fmove_build_info
}
await has_scraped || bad "Prometheus does not scrape: $(tail -n 3 prometheus.log)"
kill $prometheus
wait $prometheus
