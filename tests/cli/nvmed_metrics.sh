#!/bin/bash
# Goal:   what fmove-nvmed counts is served for Prometheus by its one thread, in both formats; slow clients keep nobody out, are ended, and
#         keep it from nothing; a port that is taken is said, and served when it is free.
# Method: the program itself, with a volume whose target is not there; the section of the manual names what is served.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../ports.sh"
. "$(dirname "$0")/metrics_lib.sh"
need_scraper
[ "$(id -u)" -eq 0 ] || skip "fmove-nvmed is for root"
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cli.XXXXXX") && cd "$dir" || exit 1
pid='' late=''
trap 'kill $pid $late 2>/dev/null; down' EXIT
own_ports
port=$ports_from
export FMOVE_NVMED_SOCKET=$dir/run/sock

# conf LISTEN
conf() {
	cat <<-C
	node = { name = "n1"; state_directory = "null:"; };
	nvme = { host_nqn = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"; host_id = "11111111-2222-3333-4444-555555555555";
		socket = "$dir/run/sock"; state_directory = "$dir/state"; metrics_listen = "$1"; };
	volumes = ( { name = "data"; subsystem = "disk1"; address = "127.0.0.1:1"; mount = "$dir/mnt"; writer = "n1"; } );
	C
}

begin() {
	fmove-nvmed --config conf >log 2>&1 &
	pid=$!
}

# is_value SAMPLE VALUE: of a page that is asked for now; or the daemon has ended.
is_value() {
	kill -0 $pid 2>/dev/null || return 0
	get >page 2>/dev/null && [ "$(value "$1" page)" = "$2" ]
}

# --- an address that makes no sense; off unless it is said ---

conf ':7473' >conf
no 2 'nvme.metrics_listen.*must be.*ADDRESS:PORT' fmove-nvmed --config conf --check
conf '' >conf
begin
answers() {
	kill -0 $pid 2>/dev/null || return 0
	fmove nvme status data >out 2>&1
}
await answers || bad "it does not answer: $(cat log)"
get >page 2>/dev/null && bad "something listens without being told to"
kill -TERM $pid
wait $pid || bad "it ends with status $?: $(cat log)"

# --- both formats, and what becomes of the volume ---

conf "127.0.0.1:$port" >conf
begin
await is_value 'fmove_volume_state{volume="data",state="waiting"}' 1 || bad "its state: $(cat page log)"
grep -q '^fmove_nvmed_build_info{node="n1",version="[0-9.]*"} 1$' page || bad "no fmove_nvmed_build_info: $(head -n 3 page)"
grep -q '^Content-Type: text/plain; version=0.0.4' headers || bad "the text format: $(cat headers)"
for sample in 'fmove_nvmed_volumes 1' 'fmove_volume_as_wanted{volume="data"} 0' 'fmove_volume_mounted{volume="data"} 0' \
	'fmove_volume_paths{volume="data"} 1' 'fmove_volume_paths_live{volume="data"} 0' 'fmove_volume_mounts_total{volume="data"} 0' \
	'fmove_nvmed_calls_stuck 0' 'fmove_nvmed_config_refused 0' 'fmove_nvmed_metrics_left_out 0'; do
	grep -qFx "$sample" page || bad "no \"$sample\": $(cat page)"
done
[ "$(value process_resident_memory_bytes page)" -gt 1000000 ] || bad "no memory: $(grep ^process page)"
since=$(value 'fmove_volume_changed_timestamp_seconds{volume="data"}' page)
[ "${since%.*}" -gt $(($(date +%s) - 3600)) ] || bad "it changed at $since"
is_paged page FMOVE-NVMED
! find_prometheus || promtool check metrics <page >out 2>&1 || bad "promtool: $(cat out)"
get_page open 'application/openmetrics-text; version=1.0.0'
[ "$(tail -n 1 open)" = '# EOF' ] || bad "OpenMetrics: $(cat headers)"
fmove nvme down data >out 2>&1 || bad "down: $(cat out)"
await is_value 'fmove_volume_as_wanted{volume="data"}' 1 || bad "down: $(cat page log)"
[ "$(value 'fmove_volume_state{volume="data",state="down"}' page)" = 1 ] || bad "it is not down: $(cat page)"
grep -qFx 'fmove_volume_paths{volume="data"} 0' page || bad "one that is down is to have connections: $(cat page)"
cp conf good && echo nonsense >>conf
kill -HUP $pid
await is_value fmove_nvmed_config_refused 1 || bad "a refused configuration: $(cat page log)"
cp good conf

# --- slow clients ---

cat >slow.py <<'P'
import socket, sys
kept = []
for i in range(60):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
    s.sendall(b"GET /metrics HT")
    kept.append(s)
print("slow", flush=True)
for s in kept:
    try:
        while s.recv(4096):
            pass
    except ConnectionResetError:
        pass
print("all ended")
P
python3 slow.py "$port" >said 2>&1 &
slow=$!
is_slow() {
	grep -q slow said
}
await is_slow || bad "slow.py: $(cat said)"
await page_to page || bad "slow clients keep others out"
fmove nvme status data >out 2>&1 || bad "slow clients keep fmove out: $(cat out)"
[ "$(ls /proc/$pid/task | wc -l)" -eq 1 ] || bad "it has more than one thread"
wait $slow || bad "slow clients are not ended: $(cat said)"

# --- a port that is taken; the same port again, after any end ---

kill -KILL $pid
wait $pid 2>/dev/null
begin
await is_value fmove_nvmed_volumes 1 || bad "not again at the same port: $(cat log)"
sed "s|$dir/run/sock|$dir/run/other|; s|$dir/state|$dir/state2|" conf >taken
"$FMOVE_BIN/fmove-nvmed" --config taken >late 2>&1 &
late=$!
await grep -q "nvme.metrics_listen: port $port of 127.0.0.1 is taken" late || bad "it does not say that the port is taken: $(cat late)"
kill -TERM $pid
wait $pid || bad "it ends with status $?: $(cat log)"
pid=$late
await grep -q "info: metrics at 127.0.0.1:$port\$" late || bad "not when the port is free: $(cat late)"
await is_value fmove_nvmed_volumes 1 || bad "no page when the port is free: $(cat late)"
kill -TERM $late
wait $late || bad "the one that waited ends with status $?: $(cat late)"

# --- a UNIX socket, again where one is left of a daemon that was killed ---

port=$dir/run/metrics.sock
conf "unix:$port" >conf
begin
await is_value fmove_nvmed_volumes 1 || bad "no page at a UNIX socket: $(cat log)"
is_guarded "$port" || bad "strangers may use it: $(ls -l "$port")"
kill -KILL $pid
wait $pid 2>/dev/null
[ -S "$port" ] || bad "nothing is left to be replaced"
begin
await is_value fmove_nvmed_volumes 1 || bad "no page where a socket was left: $(cat log)"
kill -TERM $pid
wait $pid || bad "it ends with status $?: $(cat log)"
[ ! -e "$port" ] || bad "its socket is there still"
