#!/bin/bash
# Goal:   a wire that drops what is as large as the MTU is found, though all that fmove and ping do
#         by default goes over it; a wire that does not is no finding, nor a peer that answers none.
# Method: two nodes with a veth between them, of which one end has a smaller MTU than the other: what
#         is longer is dropped without a word, as a switch does it.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns_lib.sh"
netns_begin dm 'netns_down 1 2' 1 2
netns_wire 1 w0 10.88.0.1/24 2 w0 10.88.0.2/24
for i in 1 2; do
	ip -n "$id$i" link set w0 mtu 9000
	node_key "$dir/n$i"
done
for i in 1 2; do
	other=$((3 - i))
	node_conf "$dir/n$i" "n$i" "10.88.0.$i:7471" "$(node_peer n$other 10.88.0.$other:7471 "$dir/n$other/pub")" <<<''
	node_wrap=(ip netns exec "$id$i")
	node_start "$dir/n$i"
done
node_wait "$dir/n1" tcp 1 1

# facts KEY: what n1 has of its rail.
facts() {
	ip netns exec "${id}1" "$FMOVE_BIN/fmove" --socket "$dir/n1/sock" doctor --config "$dir/n1/conf" --save facts >out 2>err
	grep -o "\"$1\":[^,}]*" facts | head -n 1
}
[ "$(facts packet_passes)" = '"packet_passes":true' ] || bad "a wire that is whole: $(facts packet_passes)"
grep -q mtu-black-hole out && bad "a false alarm: $(cat out)"

ip -n "${id}2" link set w0 mtu 1500
[ "$(facts packet_passes)" = '"packet_passes":false' ] || bad "what is large does not arrive: $(facts packet_passes)"
grep -q '"packet_bytes":9000' facts || bad "of which size: $(facts packet_bytes)"
ip netns exec "${id}1" "$FMOVE_BIN/fmove" doctor --from facts >out 2>err
grep -q 'From 10.88.0.1 to 10.88.0.2 of n2 a packet of 9000 bytes does not arrive, a small one' out ||
	bad "it is not told: $(cat out)"
grep -q 'ping -M do -s 8972 10.88.0.2' out || bad "no line that shows it: $(cat out)"

# Who answers no datagram says nothing. "ldb ip[9]; jeq icmp, drop it; else let it go", where it goes out.
if tc -n "${id}2" qdisc add dev w0 clsact 2>/dev/null &&
	tc -n "${id}2" filter add dev w0 egress bpf da bytecode '4,48 0 0 23,21 0 1 1,6 0 0 2,6 0 0 0,' 2>/dev/null; then
	facts packet_passes >said
	grep -q '"packet_passes":{"unknown":"its peer answers no datagram' said || bad "silence is taken for something: $(cat said)"
else
	echo "not tried: a peer that answers none (no filters of tc here)"
fi
