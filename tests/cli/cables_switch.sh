#!/bin/bash
# Goal:   cables that go to switches: what dies in the middle leaves the carriers of both nodes up. Both
#         switches out for a while, or carriers that come and go in turn, each seen at one end only, end no
#         put; nor does an address that moves to the other port. What begins in the moment in which the
#         switches are back waits for the next connection.
# Method: two nodes with two slow ports each, in a third namespace a bridge for each pair of ports. The
#         waits between faults are what is tried: nothing is judged by a clock. A node that gets no processor
#         for seconds is not taken for a silent one. What is to be noticed of such wires is in cables_session.sh.
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/cli/netns_lib.sh
. "$FM_SOURCE/tests/cli/netns_lib.sh"
# shellcheck source=tests/wires.sh
. "$FM_SOURCE/tests/wires.sh"
command -v tc >/dev/null || skip "no program tc"
net=10.77

switch_down() {
	netns_down 1 2
	ip netns del "${id}3"
}

# plug NODE WIRE: its port into that bridge, with its address.
plug() {
	ip link add "w$2" netns "$id$1" type veth peer name "p$2$1" netns "${id}3"
	ip -n "${id}3" link set "p$2$1" master "b$2" up
	ip -n "$id$1" addr add "$net.$2.$1/24" dev "w$2"
	ip -n "$id$1" link set "w$2" up
	netns_slow switch_down "$1" "w$2" 16mbit
}

switches() {
	ip -n "${id}3" link set b1 "$1"
	ip -n "${id}3" link set b2 "$1"
}

both_used() {
	node_wait "$dir/n1" tcp 2 1 && node_wait "$dir/n2" tcp 2 1 ||
		bad "both wires are not used: $(fmove status)"
}

# put_amid NAME FAULT...: a put in whose midst that is done.
put_amid() {
	local name=$1 before pid
	shift

	before=$(sent)
	fmove put -q -f f "n2:s/$name" 2>"err-$name" &
	pid=$!
	await has_sent "$before" || bad "$name: nothing is sent: $(fmove status)"
	"$@"
	wait $pid || bad "$name: $(cat "err-$name")"
	same f "$dir/n2/s/$name"
}

sent() {
	node_rails "$dir/n1" tcp | grep -o '"sent_bytes":[0-9]*' | awk -F: '{ n += $2 } END { print n + 0 }'
}

has_sent() {
	[ "$(sent)" -gt $(($1 + 1000000)) ]
}

# On a machine without time for us they are away for longer, and what begins then may be told that nothing leads there.
switches_die() {
	local began=$SECONDS away

	switches down
	sleep 6
	switches up
	away=$((SECONDS - began))
	until fmove put -q -f small n2:s/small 2>err; do
		[ $away -gt 6 ] && grep -q 'nothing leads there now' err ||
			{ bad "a put when the switches are back: $(cat err)"; return; }
		sleep 0.5
	done
}

# At one end each: the other has its carrier from the switch.
carriers_flap() {
	local i

	for i in 1 2 3 4; do
		wire=1
		pull 1
		sleep 2
		plug_in 1
		wire=2
		pull 2
		sleep 2
		plug_in 2
	done
}

address_moves() {
	ip -n "${id}1" addr del $net.1.1/24 dev w1
	ip -n "${id}1" addr add $net.1.1/24 dev w2
}

netns_begin fms switch_down 1 2 3
for wire in 1 2; do
	ip -n "${id}3" link add "b$wire" type bridge
	plug 1 $wire
	plug 2 $wire
done
switches up
node_key "$dir/n1"
node_key "$dir/n2"
for i in 1 2; do
	peer=$(node_peer "n$((3 - i))" "$net.1.$((3 - i)):7471" "$dir/n$((3 - i))/pub")
	node_conf "$dir/n$i" "n$i" "0.0.0.0:7471" "$peer" \
		<<<"mover = { stall_timeout = \"30s\"; tcp_conns = 2; private_networks = [ \"$net.0.0/16\" ]; };"
	node_wrap=(ip netns exec "$id$i")
	node_start "$dir/n$i"
done
unset node_wrap
export FMOVE_SOCKET=$dir/n1/sock
random 12000000 f
random 1000 small
both_used
put_amid switches_die switches_die
both_used
put_amid carriers_flap carriers_flap
both_used
ip -n "${id}3" link set p22 master b1		# one network for all, from here on
ip -n "${id}3" link set p21 master b1
put_amid address_moves address_moves
