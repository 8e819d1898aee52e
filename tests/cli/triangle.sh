#!/bin/bash
# Goal:   three nodes, a cable between each two. Where the direct leg is cut and nothing else leads
#         there, the error names that leg: our address and port, the peer's address, and what to
#         look at; the others go on. Where the other two legs do lead there, what is under way goes
#         on over them.
# Method: three network namespaces and three slow wires. The leg of n1 and n3 loses its carrier,
#         in the midst of a put, then everything without a word, while nobody forwards: that put
#         fails, and what begins meanwhile; what goes to n2 does not.
#         Then n2 forwards, routes lead around, and both configurations name further addresses, as
#         "fmove join" writes them: the leg is taken down in the midst of a put.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns_lib.sh"
command -v tc >/dev/null || skip "no program tc"

all_down() {
	netns_down 1 2 3
}

netns_begin fmt all_down 1 2 3
for leg in 12 13 23; do
	a=${leg:0:1} b=${leg:1:1}
	netns_wire "$a" w$leg 10.81.$leg.$a/24 "$b" w$leg 10.81.$leg.$b/24
	for i in "$a" "$b"; do
		netns_slow all_down "$i" w$leg 40mbit
	done
done

leg_of() {
	[ "$1" -lt "$2" ] && echo "$1$2" || echo "$2$1"
}

# peer_of I OTHER: what node i's configuration says of the other: the direct leg, then the other's end of its other leg.
peer_of() {
	local third=$((6 - $1 - $2))

	printf '{ name = "n%s"; address = "10.81.%s.%s:7471"; addresses = [ "10.81.%s.%s:7471" ]; key = "%s"; }' "$2" \
		"$(leg_of "$1" "$2")" "$2" "$(leg_of "$2" $third)" "$2" "$(cat "$dir/n$2/pub")"
}

for i in 1 2 3; do
	node_key "$dir/n$i"
done
for i in 1 2 3; do
	others=()
	for other in 1 2 3; do
		[ "$other" = "$i" ] || others+=("$(peer_of "$i" "$other")")
	done
	node_conf "$dir/n$i" "n$i" "0.0.0.0:7471" "${others[@]}" <<<'mover = { stall_timeout = "20s"; tcp_conns = 2; private_networks = [ "10.81.0.0/16" ]; };'
	node_wrap=(ip netns exec "$id$i")
	node_start "$dir/n$i"
done
unset node_wrap
export FMOVE_SOCKET=$dir/n1/sock

# has_peers N: n1 has so many sessions.
has_peers() {
	[ "$(fmove status --json | grep -o '"connected":true' | wc -l)" -eq "$1" ]
}

random 200000 small
random 50000000 f
await has_peers 2 || bad "n1 does not reach both: $(fmove status)"
ok fmove put small n3:s/small

# names_leg: what fmove said names the leg of n1 and n3, at both ends.
names_leg() {
	grep -q "from 10\.81\.13\.1 over w13.*10\.81\.13\.3:7471" err || bad "$1: the error does not name the leg: $(cat err)"
}

cut_leg='from 10\.81\.13\.1 over w13, which carries nothing: 10\.81\.13\.3.*; look at that cable'

is_moving() {
	fmove status --json | grep -q '"bytes":[1-9]'
}

# ---- nothing else leads there

fmove put -q -f f n3:s/f 2>err-put &
put=$!
await is_moving || bad "nothing moves: $(fmove status)"
ip -n "${id}3" link set w13 down
# What begins now is told the same, while the other waits for the leg.
await grep -q 'connection 10.81.13.1 -> 10.81.13.3 broke: its address or its carrier is gone here' "$dir/n1/log" ||
	bad "n1 does not notice: $(fmove status)"
no 4 "$cut_leg" fmove put -q -f small n3:s/small
no 4 "$cut_leg" fmove ls n3:s
# It stands still for a moment, which it takes from the silence of n3, not from what the put has waited: who says why is the session all the same.
kill -STOP "$(<"$dir/n1/pid")"
pause 2
kill -CONT "$(<"$dir/n1/pid")"
wait $put && bad "a put over no leg at all"
grep -q "$cut_leg" err-put || bad "what was under way does not name the leg: $(cat err-put)"
await has_peers 1 || bad "n1 does not notice: $(fmove status)"
no 4 'n3: ' fmove put -q -f small n3:s/small
names_leg "no carrier"
grep -q 'which carries nothing' err && grep -q 'look at that cable' err || bad "no next step: $(cat err)"
ok fmove put -q -f small n2:s/small
ip -n "${id}3" link set w13 up
await has_peers 2 || bad "n1 does not reach n3 again: $(fmove status)"
for i in 1 3; do
	ip -n "$id$i" neigh replace 10.81.13.$((4 - i)) lladdr 02:00:00:00:00:01 dev w13 nud permanent
done
await has_peers 1 || bad "n1 does not notice what is lost: $(fmove status)"
no 4 'n3: ' fmove put -q -f small n3:s/small
names_leg "all is lost"
ok fmove put -q -f small n2:s/small
for i in 1 3; do
	ip -n "$id$i" neigh del 10.81.13.$((4 - i)) dev w13
done
await has_peers 2 || bad "n1 does not reach n3 again: $(fmove status)"

# ---- n2 forwards

ip netns exec "${id}2" sysctl -q -w net.ipv4.ip_forward=1
ip -n "${id}1" route add 10.81.23.0/24 via 10.81.12.2
ip -n "${id}3" route add 10.81.12.0/24 via 10.81.23.2
fmove put -q -f f n3:s/f 2>err &
put=$!
await is_moving || bad "nothing moves: $(fmove status)"
ip -n "${id}1" link set w13 down
wait $put || bad "the put did not survive: $(cat err)"
same f "$dir/n3/s/f"
around() {
	fmove status | grep -q '^ *session w12 10\.81\.12\.1 -> 10\.81\.23\.3$'
}
await around || bad "status does not say that the session goes around: $(fmove status)"
