#!/bin/bash
# Goal:   fmove bench measures a device, a rail, and a number of connections alone: no other carries a
#         byte of it, by the daemon's counters; what is not there is told, with what there is.
# Method: two nodes with two wires, over TCP. Repeats are too short to be valid, so that the status
#         says so whatever the machine is doing.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns_lib.sh"
netns_begin br 'netns_down 1 2' 1 2
node_peer_extra='bench = true; ' netns_pair 10.84 </dev/null

# bench ARGUMENT...: of n1, in its namespace. What it computes goes by how long a repeat is.
seconds=0.1
bench() {
	ip netns exec "${id}1" "$FMOVE_BIN/fmove" --socket "$dir/n1/sock" bench "$@" --peer n2 --config "$dir/n1/conf" \
		--seconds $seconds --quiet >out 2>err
}
# invalid ARGUMENT...: it ends with 3, and says nothing on standard error.
invalid() {
	local got

	bench "$@"
	got=$?
	[ $got -eq 3 ] || bad "$*: status $got, not 3: $(cat err) $(head -c 1500 out)"
	[ ! -s err ] || bad "$* says: $(cat err)"
}
# refuses STATUS PATTERN ARGUMENT...
refuses() {
	local wanted=$1 pattern=$2 got

	shift 2
	bench "$@"
	got=$?
	[ $got -eq "$wanted" ] || bad "$*: status $got, not $wanted: $(cat err)"
	grep -qE -- "$pattern" err || bad "$*: no \"$pattern\" in: $(cat err)"
}
# carriers OP COUNTER: of the paths in the document, of those of this OP, the devices over which 64 KiB and more were counted. Less of what
# is received is the peer's account of its processors.
carriers() {
	sed 's/"facts":.*//' out | sed 's/"kind":"tcp","op":/\n&/g' | grep "\"op\":\"$1\"" | grep -o '"kind":"tcp","device":"[^}]*}' |
		grep -E "\"$2\":[0-9]{6,}" | sed 's/.*"device":"\([^"]*\)".*/\1/' | tr '\n' ' ' | sed 's/ $//'
}
# sent WIRE, received WIRE: bytes over it since the nodes began.
sent() {
	node_rails "$dir/n1" tcp | grep "10.84.$1" | sed 's/.*"sent_bytes":\([0-9]*\).*/\1/'
}
received() {
	node_rails "$dir/n1" tcp | grep "10.84.$1" | sed 's/.*"received_bytes":\([0-9]*\).*/\1/'
}
look() {
	before=(0 "$(sent 1)" "$(sent 2)")
	had=(0 "$(received 1)" "$(received 2)")
}
# only WIRE: since look() that one carried something both ways, and the other nothing but what a peer says of its processors.
only() {
	[ "$(sent "$1")" -gt "${before[$1]}" ] || bad "w$1 carried nothing"
	[ "$(sent $((3 - $1)))" -eq "${before[3 - $1]}" ] || bad "w$((3 - $1)) carried something"
	[ "$(received "$1")" -ge $((had[$1] + 4194304)) ] || bad "nothing came over w$1"
	[ "$(received $((3 - $1)))" -lt $((had[3 - $1] + 1048576)) ] || bad "something came over w$((3 - $1))"
}

# measure WIRE ARGUMENT...: enough comes over that one to be told from what a peer says of its processors, however slow this machine is.
measure() {
	local wire=$1

	shift
	for seconds in 0.1 0.5 2.5 12.5; do
		look
		invalid "$@"
		[ "$(received "$wire")" -lt $((had[wire] + 4194304)) ] || break
	done
	only "$wire"
	seconds=0.1
}

# By its device, an address at either end, its number; the document says which.
for way in "1 --device w1" "2 --device w2" "1 --rail 10.84.1.1" "2 --rail 10.84.2.2"; do
	# shellcheck disable=SC2086
	measure "${way%% *}" tcp ${way#* } --json
	[ "$(grep -o '"op":"[a-z]*"' out | tr -d '\n')" = '"op":"send""op":"receive"' ] || bad "$way: not a row each way: $(head -c 1500 out)"
	[ "$(carriers send sent_bytes)" = "w${way%% *}" ] || bad "$way: \"$(carriers send sent_bytes)\" sent: $(head -c 1500 out)"
	[ "$(carriers receive received_bytes)" = "w${way%% *}" ] || bad "$way: \"$(carriers receive received_bytes)\" received: $(head -c 1500 out)"
done
grep -q '"only":{"local":"10.84.2.1","remote":"10.84.2.2"}' out || bad "a rail is not named: $(head -c 1500 out)"
first=$(node_rails "$dir/n1" tcp | head -n 1 | grep -o '10\.84\.[12]' | head -n 1)
measure "${first##*.}" tcp --rail 1
grep -q "^tcp send n2 over $first.1 - $first.2 " out || bad "the table: $(cat out)"

# So many connections of a transfer, and no more; of one device, too.
for n in 1 2 3; do
	invalid tcp --connections $n --json
	grep -q "\"only\":{\"connections\":$n}" out || bad "$n connections: $(head -c 1500 out)"
	carried=$(grep -o '"connections":[0-9]*,"rdma_bytes"' out | grep -o '[0-9][0-9]*')
	[ "$(wc -l <<< "$carried")" = 2 ] || bad "$n connections: not a row each way: $(head -c 1500 out)"
	for carriers in $carried; do
		[ "$carriers" -ge 1 ] && [ "$carriers" -le $n ] || bad "$carriers connections carried it, not $n"
	done
done

measure 2 tcp --device w2 --connections 2

# By default all together first, then each device, and 1, 2, ... connections, each both ways. Both rails have one device each. Which rows
# there are does not go by how much they carried.
seconds=0.02
invalid tcp --json
first='"only":{"device":"w1"}' second='"only":{"device":"w2"}'
numbers='"only":{"connections":1} "only":{"connections":1} "only":{"connections":2} "only":{"connections":2} '
rows=$(grep -o '"only":{[^}]*}' out | tr '\n' ' ')
[ "$rows" = "$first $first $second $second $numbers" ] || [ "$rows" = "$second $second $first $first $numbers" ] || bad "rows: $rows"
part='"op":"send""op":"receive"'
[ "$(grep -o '"op":"[a-z]*"' out | tr -d '\n')" = "$part\"op\":\"both\"\"op\":\"send\"$part$part$part$part" ] ||
	bad "rows: $(grep -o '"op":"[a-z]*"' out)"
invalid tcp --csv
head -n 1 out | grep -q ',only_device,only_local,only_remote,only_connections$' || bad "csv: $(head -n 1 out)"
grep -q ',"w1","","",0$' out || bad "csv: $(cat out)"
[ "$(sed -n 's/[^,]//gp' out | sort -u | wc -l)" -eq 1 ] || bad "csv: rows of another length: $(cat out)"

# What is not there.
refuses 1 'tcp send n2: no rail goes over w9; there are w[12], w[12]' tcp --device w9
refuses 1 'tcp send n2: no rail is 10.84.3.1; there are 1: 10\.84\.[12]\.1 - 10\.84\.[12]\.2, 2: ' tcp --rail 10.84.3.1
refuses 1 'no rail is 3;' tcp --rail 3
refuses 4 'there are no 5 connections among its 4 of tcp' tcp --connections 5
refuses 4 'there are no 3 connections of w1 among its 4 of tcp' tcp --connections 3 --device w1
refuses 4 'no rail of rdma is up' rdma --device w1
refuses 2 'must be 1 to 64' tcp --connections 65
refuses 2 'are for rdma and tcp' put --device w1
refuses 2 'are for rdma and tcp' all --rail 1
