#!/bin/bash
# Goal:   fmove bench measures a device, a rail, and a number of connections alone: no other carries a
#         byte of it, by the daemon's counters; what is not there is told, with what there is.
# Method: two nodes with two wires, over TCP. Repeats are too short to be valid, so that the status
#         says so whatever the machine is doing.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns_lib.sh"
netns_begin br 'netns_down 1 2' 1 2
for wire in 1 2; do
	netns_wire 1 w$wire 10.84.$wire.1/24 2 w$wire 10.84.$wire.2/24
done
for i in 1 2; do
	node_key "$dir/n$i"
done
for i in 1 2; do
	other=$((3 - i))
	node_peer_extra='bench = true; ' node_conf "$dir/n$i" "n$i" "0.0.0.0:7471" \
		"$(node_peer_extra='bench = true; ' node_peer n$other 10.84.1.$other:7471 "$dir/n$other/pub")" \
		<<<'mover = { tcp_conns = 2; private_networks = [ "10.84.0.0/16" ]; };'
	node_wrap=(ip netns exec "$id$i")
	node_start "$dir/n$i"
done
unset node_wrap
node_wait "$dir/n1" tcp 2 2

# bench ARGUMENT...: of n1, in its namespace.
bench() {
	ip netns exec "${id}1" "$FMOVE_BIN/fmove" --socket "$dir/n1/sock" bench "$@" --peer n2 --config "$dir/n1/conf" \
		--seconds 0.1 --quiet >out 2>err
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
# senders: of the document of one path, the devices over which something was sent. What is received meanwhile is the peer's account
# of its processors.
senders() {
	sed 's/"facts":.*//' out | grep -o '"kind":"tcp","device":"[^}]*}' | grep -v '"sent_bytes":0,' | sed 's/.*"device":"\([^"]*\)".*/\1/' | tr '\n' ' ' |
		sed 's/ $//'
}
# sent WIRE: bytes over it since the nodes began.
sent() {
	node_rails "$dir/n1" tcp | grep "10.84.$1" | sed 's/.*"sent_bytes":\([0-9]*\).*/\1/'
}
# only WIRE: since `before` of both wires that one carried something, and the other nothing.
only() {
	[ "$(sent "$1")" -gt "${before[$1]}" ] || bad "w$1 carried nothing"
	[ "$(sent $((3 - $1)))" -eq "${before[3 - $1]}" ] || bad "w$((3 - $1)) carried something"
}

# By its device, an address at either end, its number; the document says which.
for way in "1 --device w1" "2 --device w2" "1 --rail 10.84.1.1" "2 --rail 10.84.2.2"; do
	before=(0 "$(sent 1)" "$(sent 2)")
	# shellcheck disable=SC2086
	invalid tcp ${way#* } --json
	only "${way%% *}"
	[ "$(grep -o '"op":"[a-z]*"' out)" = '"op":"send"' ] || bad "$way: not one row of what is sent: $(head -c 1500 out)"
	[ "$(senders)" = "w${way%% *}" ] || bad "$way: \"$(senders)\" sent: $(head -c 1500 out)"
done
grep -q '"only":{"local":"10.84.2.1","remote":"10.84.2.2"}' out || bad "a rail is not named: $(head -c 1500 out)"
first=$(node_rails "$dir/n1" tcp | head -n 1 | grep -o '10\.84\.[12]' | head -n 1)
before=(0 "$(sent 1)" "$(sent 2)")
invalid tcp --rail 1
only "${first##*.}"
grep -q "^tcp send n2 over $first.1 - $first.2 " out || bad "the table: $(cat out)"

# So many connections of a transfer, and no more; of one device, too.
for n in 1 2 3; do
	invalid tcp --connections $n --json
	grep -q "\"only\":{\"connections\":$n}" out || bad "$n connections: $(head -c 1500 out)"
	carried=$(grep -o '"connections":[0-9]*,"rdma_bytes"' out | tr -dc 0-9)
	[ "$carried" -ge 1 ] && [ "$carried" -le $n ] || bad "$carried connections carried it, not $n"
done

before=(0 "$(sent 1)" "$(sent 2)")
invalid tcp --device w2 --connections 2
only 2

# By default all together first, then each device, and 1, 2, ... connections. Both rails have one device each.
invalid tcp --json
[ "$(grep -o '"only":{[^}]*}' out | tr '\n' ' ')" = \
	'"only":{"device":"w1"} "only":{"device":"w2"} "only":{"connections":1} "only":{"connections":2} ' ] ||
	[ "$(grep -o '"only":{[^}]*}' out | tr '\n' ' ')" = \
		'"only":{"device":"w2"} "only":{"device":"w1"} "only":{"connections":1} "only":{"connections":2} ' ] ||
	bad "rows: $(grep -o '"only":{[^}]*}' out)"
[ "$(grep -o '"op":"[a-z]*"' out | tr -d '\n')" = \
	'"op":"send""op":"receive""op":"both""op":"send""op":"send""op":"send""op":"send""op":"send"' ] || bad "rows: $(grep -o '"op":"[a-z]*"' out)"
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
