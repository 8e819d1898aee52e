#!/bin/bash
# Goal:   fmove bench measures peers and disks through the real daemons, says what is not to be
#         believed, leaves nothing behind, and refuses what it cannot measure.
# Method: two daemons, of which n2 lets n1 measure. Repeats far too short to be valid, so that the
#         status says so whatever the machine is doing; what is measured is not judged.
. "$(dirname "$0")/lib.sh"
up 2
conf=$dir/c/n1/fmove.conf
short="--seconds 0.1 --size 4MiB --quiet --config $conf"
shorter=${short/0.1/0.02}		# where nobody asks whether a byte was moved

# json_has PATTERN: the document in out has it.
json_has() {
	grep -q -- "$1" out || bad "the document lacks $1: $(head -c 1500 out) $(cat err)"
}
# invalid CMD...: it ends with 3, and says nothing on standard error.
invalid() {
	local got

	"$@" >out 2>err
	got=$?
	[ $got -eq 3 ] || bad "$*: status $got, not 3: $(cat err) $(head -c 600 out)"
	[ ! -s err ] || bad "$* says: $(cat err)"
}

# Not allowed by n2: the line that allows it, and nothing is made there.
no 6 'n2 does not let this node measure: write bench = true .*, and reload fmoved$' fmove bench tcp --peer n2 $short
[ -z "$(ls -A "$(store 2)")" ] || bad "something was written into a store of n2"

# Who may not put into it by name, either: it is no store of people.
no 2 'NODE:STORE/PATH' fmove put "$conf" n2:.bench/x
sed -i 's/{ name = "n1";/{ name = "n1"; bench = true;/' "$dir/c/n2/fmove.conf"
fmove config check "$dir/c/n2/fmove.conf" >out
grep -q ' 1 store,' out || bad "a store that nobody declared is counted: $(cat out)"
take_over 2

# Both directions, both at once, and latency; each over TCP, every byte.
invalid fmove bench tcp --peer n2 $short --json
json_has '"fmove_bench":2,'
json_has '"label":"quick"'
for op in send receive; do
	json_has "\"kind\":\"tcp\",\"op\":\"$op\",\"where\":\"n2\",\"repeats\":\[{\"bytes\":[1-9]"
done
# What is so short may not overlap.
json_has '"kind":"tcp","op":"both","where":"n2","repeats":\[{"bytes":[0-9]'
json_has '"rdma_bytes":0,"tcp_bytes":[1-9]'
json_has '"cpu_there":{"process_s"'
json_has '"cpu_here":{"process_s"'
json_has '"latency":{"count":[1-9]'
json_has '"invalid":\["too short'
json_has '"facts":{"fmove_facts":1'
json_has '"exit":3}'
[ "$(wc -l <out)" -eq 1 ] || bad "--json prints more than the document"
[ -z "$(ls -A "$(store 2)")" ] || bad "something was written into a store of n2"

# Over a part of the connections, if there are so many, and nothing else then (bench_rails.sh has several rails).
invalid fmove bench tcp --peer n2 --connections 1 $short --json
for op in send receive; do
	json_has "\"op\":\"$op\",\"where\":\"n2\",\"only\":{\"connections\":1},\"repeats\":\[{\"bytes\":[1-9]"
done
no 4 'tcp send n2, 64 connections: n2: no connection for the data: there are no 64 connections among its [0-9]* of tcp' \
	fmove bench tcp --peer n2 --connections 64 $short
no 1 'no rail goes over nothere; there are lo' fmove bench tcp --peer n2 --device nothere $short
no 2 'must be 1 to 64' fmove bench tcp --peer n2 --connections 0 $short
no 2 'are for rdma and tcp' fmove bench put --peer n2 --device lo $short

# A transport that is not there is an error, never a number of another one.
no 4 'rdma send n2.*no RDMA' fmove bench rdma --peer n2 $short
grep -q '"repeats":\[{' out && bad "rdma has numbers"

# Disks: from a path, from a store, each without a name of its own.
mkdir place
invalid fmove bench disk --path place $short --json
for op in read write; do
	json_has "\"kind\":\"disk\",\"op\":\"$op\",\"where\":\"place\",\"block_bytes\":1048576,\"depth\":16,\"repeats\":\[{\"bytes\":[1-9]"
done
json_has '"p999_s"'
[ -z "$(ls -A place)" ] || bad "left in place: $(ls -A place)"
invalid fmove bench disk --store s $shorter
grep -q "^disk read $(store 1)" out || bad "no row of the store: $(cat out)"
grep -q 'too short' out || bad "no word beside a number: $(cat out)"
[ -z "$(ls -A "$(store 1)")" ] || bad "left in the store: $(ls -A "$(store 1)")"
invalid fmove bench disk --path place $shorter --csv
[ "$(wc -l <out)" -eq 5 ] || bad "csv: $(cat out)"
[ "$(head -n 1 out | tr -cd , | wc -c)" = "$(sed -n 2p out | tr -cd , | wc -c)" ] || bad "csv: $(cat out)"

# A put from a file, with the disk and the wire beside it.
invalid fmove bench put --peer n2 --path place $short --json
json_has '"kind":"put","op":"send","where":"n2","from":"place","repeats":\[{"bytes":[1-9]'
invalid fmove bench put --peer n2 --transport tcp $shorter --json
json_has '"kind":"put","op":"both"'

# All of it: two disks' directions and every transport that there is.
fmove bench --peer n2 --path place $shorter --json >out 2>err
[ $? -eq 3 ] || bad "bench all: $(cat err)"
grep -q 'rdma is left out: no rail of it goes to n2' err || bad "nothing is said of rdma: $(cat err)"
json_has '"kind":"tcp"'
json_has '"kind":"disk"'
json_has '"kind":"put"'

# Interrupted: no file, no number, 130.
mkdir held
for signal in INT TERM; do
	env --default-signal=INT fmove bench disk --path held --seconds 500 --size 4MiB --quiet --config "$conf" >out 2>err &
	pid=$!
	await test -e "/proc/$pid/fd" && await sh -c "ls -l /proc/$pid/fd | grep -q '$dir.*held.*deleted'" ||
		bad "it opened no file"
	kill -$signal $pid
	wait $pid
	[ $? -eq 130 ] || bad "SIG$signal: $(cat err)"
	[ -z "$(ls -A held)" ] || bad "left after SIG$signal: $(ls -A held)"
done
fmove bench disk --path held --seconds 500 --size 4MiB --quiet --config "$conf" >out 2>err &
pid=$!
await sh -c "ls -l /proc/$pid/fd | grep -q '$dir.*held.*deleted'" || bad "it opened no file"
kill -KILL $pid
wait $pid 2>/dev/null
[ -z "$(ls -A held)" ] || bad "left after SIGKILL: $(ls -A held)"

# Beside a transfer it says so and waits. That has more than a minute left, until it is fast again.
random 100000000 slow
slow 1
fmove put slow n2:s/slow >/dev/null 2>&1 &
put=$!
moved slow 0
fmove bench tcp --peer n2 $short >out 2>err &
pid=$!
await grep -q 'waiting until no transfer runs here' err || bad "it does not say that it waits"
has_ended slow && bad "the transfer ended before it was waited for"
kill -TERM $pid
wait $pid
[ $? -eq 130 ] || bad "waiting, interrupted: $(cat err)"
fast 1
wait $put || bad "the transfer beside it failed"

# So it does beside one that a peer began.
slow 2
FMOVE_SOCKET=$dir/c/n2/fmoved.sock fmove put slow n1:s/theirs >/dev/null 2>&1 &
put=$!
moved theirs 0
fmove bench tcp --peer n2 $short >out 2>err &
pid=$!
await grep -q 'waiting until no transfer runs here' err || bad "it does not wait for what a peer began: $(cat err)"
has_ended theirs && bad "the transfer of the peer ended before it was waited for"
kill -TERM $pid
wait $pid
fast 2
wait $put || bad "the peer's transfer beside it failed"

# Side by side: what is valid, what is not, what is unlike, what is no measurement.
corpus=$FM_SOURCE/tests/fuzz/corpus/bench
one() {
	printf '{"fmove_bench":1,"label":"quick","wanted_s":2,"paths":[{"kind":"tcp","op":"send","where":"n2","repeats":['
	printf '{"bytes":%s,"seconds":2},{"bytes":%s,"seconds":2}]}]}' "$1" "$1"
}
one 2000000000 >a
one 3000000000 >b
ok fmove bench compare a b a
grep -q '+50.0 %, faster' out || bad "compare: $(cat out)"
grep -q '+0.0 %, no more than noise' out || bad "compare: $(cat out)"
ok fmove bench compare b a
grep -q -- '-33.3 %, slower' out || bad "compare: $(cat out)"
invalid fmove bench compare "$corpus/quick.json" "$corpus/quick.json"
grep -q 'not to be compared: too short' out || bad "compare: $(cat out)"
no 1 'one run is quick and the other thorough' fmove bench compare a "$corpus/limits.json"
no 1 'of version 3, this fmove knows 2' fmove bench compare a "$corpus/newer.json"
no 1 'no measurement of fmove bench' fmove bench compare "$corpus/facts.json" a
no 1 'nothing: open' fmove bench compare a nothing
no 2 'give 2 to 16 files' fmove bench compare a
no 2 'one mode at a time' fmove bench tcp disk

# As a page: whole by itself, well formed, every figure of the documents in it, and no name that a browser would take for markup.
page_is_whole() {
	local what

	for what in '<script' '</pre><b>' 'src=' 'href=' 'url(' '@import'; do
		grep -qiF -- "$what" out && bad "the page has $what: $(grep -iF -- "$what" out | head -c 300)"
	done
	python3 -c 'import sys, xml.dom.minidom
xml.dom.minidom.parseString(sys.stdin.read().replace("<!DOCTYPE html>", "", 1).encode())' <out || bad "the page is not well formed"
}
invalid fmove bench tcp --peer n2 $shorter --html
page_is_whole
grep -q '<svg' out || bad "no plot in the page"
grep -q 'tcp receive n2' out || bad "the page lacks a path"
hostile='<script>alert(1)</script>&\"'"'"'</pre><b>'
sed "s|\"where\":\"n2\"|\"where\":\"$(sed 's/[&\\]/\\&/g' <<<"$hostile")\"|" a >hostile
grep -qF '<script>' hostile || bad "no hostile name was made: $(cat hostile)"
ok fmove bench compare --html hostile hostile
page_is_whole
grep -qF '&lt;script&gt;alert(1)&lt;/script&gt;&amp;' out || bad "the name is not shown: $(head -c 600 out)"
ok fmove bench compare --html b a
page_is_whole
grep -q -- '-33.3 %, slower' out || bad "the page does not compare"
invalid fmove bench compare --html "$corpus/quick.json" "$corpus/quick.json"
page_is_whole
for figure in $(grep -oE '[0-9]+(\.[0-9]+)?' "$corpus/quick.json"); do
	grep -qF -- "${figure%.0}" out || bad "the page lacks $figure"
done
no 2 'prints a table, or with --html a page' fmove bench compare --json a b
sed 's/"op":"send",/&"hardware_bytes_per_s":4000000000,/' a >ports
ok fmove bench compare --html ports a
page_is_whole
grep -qF '1.00 GB/s, 25 % of 4.00 GB/s' out || bad "the page lacks what the ports allow: $(grep -o '1.00 GB/s[^<]*' out)"
[ "$(grep -c '1V19' out)" -eq 1 ] || bad "not one mark of hardware"

# What cannot be measured.
no 2 'with whom' fmove bench tcp $short
no 2 'must be rdma, tcp' fmove bench carrier-pigeon $short
no 2 'no other node takes part' fmove bench disk --peer n2 $short
no 2 'nvme-tcp: give --volume' fmove bench nvme-tcp $short
no 2 '--seconds' fmove bench disk --seconds 0
no 2 '--size' fmove bench disk --size 5
no 2 '--json, --csv or --html' fmove bench disk --json --csv
no 1 'n9: no peer of this node' fmove bench tcp --peer n9 $short
no 1 'store nothing: this node has none' fmove bench disk --store nothing $short
no 1 'volume v: the configuration has none' fmove bench nvme-tcp --volume v $short
no 1 'nowhere: No such file' fmove bench disk --path nowhere $short
no 1 'must leave' fmove bench disk --path place --size 900TiB --seconds 0.1 --config "$conf"
no 1 'give --path DIR.*nothing.conf' fmove bench disk --config nothing.conf
echo 'volumes = ( { name = "v"; subsystem = "d"; address = "h:4420"; writer = "n1"; mount = "/nowhere/v"; } );' >>"$conf"
no 4 'volume v: not mounted at /nowhere/v; "fmove nvme up v"' fmove bench nvme-tcp --volume v $short
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	# a read-only directory; memory in place of a disk
	mkdir memory
	unshare -m sh -c "mount --bind place place && mount -o remount,bind,ro place && exec fmove bench disk --path place $short" >out 2>err
	[ $? -ne 0 ] && grep -q 'Read-only file system' err || bad "read-only: $(cat err)"
	unshare -m sh -c "mount -t tmpfs none memory && exec fmove bench disk --path memory --json $short" >out 2>err
	[ $? -ne 0 ] && grep -q 'cached: no O_DIRECT' err || bad "tmpfs: $(cat err)"
	json_has '"cached":true'
	json_has '"invalid":\["too short"\?,\?"cached","failed"\]\|"invalid":\["cached","failed"\]'
fi

# A peer that goes away while it is measured, and one that is not there at all: no number, and an end.
fmove bench tcp --peer n2 --seconds 500 --quiet --config "$conf" --json >out 2>err &
pid=$!
moved data 0
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
wait $pid
got=$?
[ $got -ne 0 ] && [ $got -ne 3 ] || bad "the peer went away: status $got: $(head -c 600 err out)"
grep -q 'bench: tcp send n2: ' err || bad "the peer went away: $(cat err)"
no 4 'tcp send n2' fmove bench tcp --peer n2 $short
"$FM_SOURCE/tests/cluster" start "$dir/c" n2
reachable 2

# Without a daemon disks can be measured.
FMOVE_SOCKET=$dir/nobody invalid fmove bench disk --path place $shorter
no 4 'nobody' env FMOVE_SOCKET="$dir/nobody" fmove bench tcp --peer n2 $short
