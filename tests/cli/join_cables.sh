#!/bin/bash
# Goal:   init finds addresses where no route leads out, and names all of them;
#         join tells both nodes all addresses of the other, so that a node that joined over one
#         cable is reached over the other when the first is cut before the two daemons ever met.
# Method: two network namespaces with two wires; init in the one, join in the other over the first
#         wire. What both configurations say of the other is compared with the addresses there are:
#         a bridge with the same address at both ends is in neither. Then the first wire is cut,
#         and only then the second daemon starts.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns_lib.sh"
. "$(dirname "$0")/join_lib.sh"

netns_begin fmj "join_down 1 2" 1 2
mkdir "$dir/c"
for wire in 1 2; do
	netns_wire 1 w$wire 10.78.$wire.1/24 2 w$wire 10.78.$wire.2/24
	for i in 1 2; do
		ip -n "$id$i" addr add fd00:78:$wire::$i/64 dev w$wire nodad
	done
done
for i in 1 2; do
	ip -n "$id$i" link add c0 type veth peer name c1
	ip -n "$id$i" addr add 172.17.0.1/16 dev c0
	ip -n "$id$i" link set c0 up
	ip -n "$id$i" link set c1 up
done

# A port is up a moment after it was told to be; until then its addresses are not counted.
for port in w1 w2 c0; do
	for i in 1 2; do
		await is_up $i $port || bad "$port of n$i does not come up"
	done
done

# No route leads out of these machines: the line has the addresses of all interfaces, and join takes
# the first that it reaches.
ok in_ns 1 fmove init --dir "$dir/c/n1" --node n1 --store "s=$dir/c/n1/files"
read -r _ _ address token <out
[ "$address" = 10.78.1.1:7471,10.78.2.1:7471,172.17.0.1:7471 ] || bad "the line names $address"
serve 1
ok in_ns 2 fmove join --dir "$dir/c/n2" --node n2 --store "s=$dir/c/n2/files" "$address" "$token"

# addresses I: what node i's configuration says of the other, sorted.
addresses() {
	grep -h '^address' "$dir/c/n$1/peers.d/n$((3 - $1)).conf" | grep -o '"[^"]*"' | tr -d '"' | sort | tr '\n' ' '
}

for i in 1 2; do
	other=$((3 - i))
	expected=$(printf '%s\n' "10.78.1.$other:7471" "10.78.2.$other:7471" "[fd00:78:1::$other]:7471" "[fd00:78:2::$other]:7471" |
		sort | tr '\n' ' ')
	[ "$(addresses $i)" = "$expected" ] || bad "n$i has $(addresses $i) of n$other, not $expected"
	grep -q "^address = \"10.78.1.$other:7471\";$" "$dir/c/n$i/peers.d/n$other.conf" ||
		bad "the address that join went over is not the first: $(cat "$dir/c/n$i/peers.d/n$other.conf")"
	ok fmove config check "$dir/c/n$i/fmove.conf"
done

# The first wire is cut before the second daemon starts.
ip -n "${id}2" link set w1 down
serve 2

session_over_second() {
	fmove --socket "$dir/c/n$1/fmoved.sock" status | grep -q '^ *session w2 '
}

for i in 1 2; do
	await session_over_second $i || bad "n$i does not reach the other over the second wire: $(fmove --socket "$dir/c/n$i/fmoved.sock" status)"
done
random 100000 f
ok fmove --socket "$dir/c/n1/fmoved.sock" put --retry "${HANG_S}s" f n2:s/f
same f "$dir/c/n2/files/f"
end_well
