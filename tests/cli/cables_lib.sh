# SPDX-License-Identifier: MIT
# cables_lib.sh - two nodes with two cables, for tests that cut one; sourced behind lib.sh.
#
# Two network namespaces and two slow wires, 10.78.1.0/24 and 10.78.2.0/24, so that both are needed. The session begins on the
# first, and the configuration names no other address. How a wire is cut: wires.sh. What TCP itself says of a cable that is cut
# comes after half a minute, and in other words. A node that gets no processor for seconds is not taken for a silent one. `f` is a file
# to move.
# shellcheck shell=bash

# shellcheck source=tests/cli/netns_lib.sh
. "$FM_SOURCE/tests/cli/netns_lib.sh"
# shellcheck source=tests/wires.sh
. "$FM_SOURCE/tests/wires.sh"
net=10.78
command -v tc >/dev/null || skip "no program tc"

cables_down() {
	netns_down 1 2
}

# start I...: these nodes.
start() {
	local i

	for i; do
		node_wrap=(ip netns exec "$id$i")
		node_start "$dir/n$i"
	done
	unset node_wrap
}

# rail I WIRE: what node i says of the rail over that wire, as JSON.
rail() {
	node_rails "$dir/n$1" tcp | grep "10.78.$2"
}

# is true|false WIRE: whether it is up; both nodes say so.
is() {
	local i

	for i in 1 2; do
		rail "$i" "$2" | grep -q "\"up\":$1" || return 1
	done
}

# sent_over NODE WIRE: bytes, since the nodes began.
sent_over() {
	rail "$1" "$2" | sed 's/.*"sent_bytes":\([0-9]*\).*/\1/'
}

# one_carries NODE WIRE...: one of these wires carries more than before; that is `wire` then.
one_carries() {
	local node=$1
	shift

	for wire; do
		[ "$(sent_over "$node" "$wire")" -le "${before[wire]}" ] || return 0
	done
	return 1
}

# session_on WIRE: status says that the nodes talk over that wire.
session_on() {
	fmove status >out && grep -q "^ *session w$1 10\.78\.$1\.1 -> 10\.78\.$1\.2$" out &&
		fmove status --json | grep -q "\"session\":{\"device\":\"w$1\",\"local\":\"10.78.$1.1\",\"remote\":\"10.78.$1.2\""
}

# noticed: how often a node has noticed by itself what became of a wire.
noticed() {
	cat "$dir"/n?/log | grep -cE 'plugged in|carrier is gone'
}

# has_noticed BEFORE: more often than so often.
has_noticed() {
	[ "$(noticed)" -gt "$1" ]
}

# survives NAME HOW SENDER WIRES COMMAND...: of these wires one that carries what the command moves is cut.
survives() {
	local name=$1 how=$2 sender=$3 wires=$4 before seen
	shift 4

	before=(0 "$(sent_over "$sender" 1)" "$(sent_over "$sender" 2)")
	seen=$(noticed)
	"$@" <f >"out-$name" 2>err &
	# shellcheck disable=SC2086 # words
	await one_carries "$sender" $wires || bad "$name: nothing goes over wire $wires: $(fmove status)"
	cut_wire "$how"
	await is false "$wire" || bad "$name, $how: status does not say what is down: $(fmove status)"
	wait $! || bad "$name, $how: $(cat err)"
	await has_noticed "$seen" || bad "$name, $how: nobody noticed by himself what became of the wire"
	mend_wire "$how"
	await is true "$wire" || bad "$name, $how: wire $wire is not used again: $(fmove status)"
}

# files_survive: a put, a get and a put of a file as standard input, whichever way the wire is cut.
files_survive() {
	survives put lost_there 1 "$wire" fmove put -q -f f n2:s/put
	same f "$dir/n2/s/put"
	survives get lost_back 2 "$wire" fmove get -q -f n2:s/put got
	same f got
	survives stdin lost_both 1 "$wire" fmove put -q -f - n2:s/stdin
	same f "$dir/n2/s/stdin"
	survives put carrier_here 1 "$wire" fmove put -q -f f n2:s/put
	same f "$dir/n2/s/put"
}

netns_begin fmc cables_down 1 2
for wire in 1 2; do
	netns_wire 1 w$wire $net.$wire.1/24 2 w$wire $net.$wire.2/24
	for i in 1 2; do
		netns_slow cables_down "$i" w$wire 16mbit
	done
done
node_key "$dir/n1"
node_key "$dir/n2"
for i in 1 2; do
	node_conf "$dir/n$i" "n$i" "0.0.0.0:7471" "$(node_peer "n$((3 - i))" "10.78.1.$((3 - i)):7471" "$dir/n$((3 - i))/pub")" \
		<<<'mover = { stall_timeout = "20s"; tcp_conns = 2; private_networks = [ "10.78.0.0/16" ]; };'
done
start 1 2
export FMOVE_SOCKET=$dir/n1/sock
random 12000000 f
for wire in 1 2; do
	await is true $wire || bad "wire $wire is not used: $(fmove status)"
done
session_on 1 || bad "the session is not on the first wire: $(fmove status)"
