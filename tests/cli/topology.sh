#!/bin/bash
# Goal:   fmove topology knows every leg of a triangle, also that of its two peers, who says what, and
#         who says nothing; doctor looks at peers; a peer whose configuration says no, that is off, or
#         that is no peer is told in a line.
# Method: three network namespaces with a cable between each two, real daemons. A cable is cut, the
#         setting is changed by a reload, a daemon is stopped. Saved documents are drawn and refused.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns_lib.sh"
documents=$FM_SOURCE/tests/fuzz/corpus/topology

# What needs no daemon.
drawn=$(mktemp) || exit 1
for name in pair triangle ring switch mixture alone; do
	for how in txt dot nccl; do
		option=--$how
		fmove topology --from "$documents/$name.json" ${option#--txt} >"$drawn" || bad "$name: status $?"
		cmp -s "$drawn" "$FM_SOURCE/tests/unit/topology/$name.$how" || bad "$name.$how is drawn otherwise"
	done
	if command -v dot >/dev/null; then
		dot -Tsvg -o /dev/null "$FM_SOURCE/tests/unit/topology/$name.dot" || bad "dot refuses $name"
	fi
	sh -n "$FM_SOURCE/tests/unit/topology/$name.nccl" || bad "a shell refuses $name.nccl"
	fmove topology --json --from "$documents/$name.json" >"$drawn"
	fmove topology --from "$drawn" | cmp -s - "$FM_SOURCE/tests/unit/topology/$name.txt" || bad "$name: not the same after --json"
done
rm -f "$drawn"
# shellcheck disable=SC2016
(
	export NCCL_IB_HCA='' NCCL_SOCKET_IFNAME=''
	. "$FM_SOURCE/tests/unit/topology/pair.nccl"
	[ "$NCCL_IB_HCA" = "=rocep1s0f0:1,roceP2p1s0f0:1" ] && [ "$NCCL_SOCKET_IFNAME" = "=enp1s0f0np0" ] &&
		[ "$NCCL_IB_GID_INDEX" = 3 ]
) || bad "pair.nccl does not set what it says"

all_down() {
	netns_down 1 2 3
}
netns_begin fmy all_down 1 2 3
no 1 'version 2, this fmove knows 1' fmove topology --from "$documents/newer.json"
no 1 'not a name of a device' fmove topology --from "$documents/command.json"
no 1 'nowhere: open: No such file' fmove topology --from nowhere
no 2 'one of --json, --dot and --nccl' fmove topology --json --dot
no 2 'no --config with it' fmove topology --from x --config y

for leg in 12 13 23; do
	a=${leg:0:1} b=${leg:1:1}
	netns_wire "$a" w$leg 10.82.$leg.$a/24 "$b" w$leg 10.82.$leg.$b/24
done
for i in 1 2 3; do
	node_key "$dir/n$i"
done
# peer_of I OTHER
peer_of() {
	local leg=$1$2

	[ "$1" -lt "$2" ] || leg=$2$1
	printf '{ name = "n%s"; address = "10.82.%s.%s:7471"; key = "%s"; }' "$2" "$leg" "$2" "$(cat "$dir/n$2/pub")"
}
for i in 1 2 3; do
	others=()
	for other in 1 2 3; do
		[ "$other" = "$i" ] || others+=("$(peer_of "$i" "$other")")
	done
	node_conf "$dir/n$i" "n$i" "0.0.0.0:7471" "${others[@]}" <<<'mover = { stall_timeout = "20s"; tcp_conns = 2; private_networks = [ "10.82.0.0/16" ]; };'
	node_wrap=(ip netns exec "$id$i")
	node_start "$dir/n$i"
done
unset node_wrap
export FMOVE_SOCKET=$dir/n1/sock
conf=$dir/n1/conf

# look STATUS ARGUMENT...: fmove at n1, within its namespace, since it reads its own facts itself.
look() {
	local wanted=$1 got

	shift
	ip netns exec "${id}1" "$FMOVE_BIN/fmove" "$@" --config "$conf" >out 2>err
	got=$?
	[ $got -eq "$wanted" ] || bad "$*: status $got, not $wanted: $(cat out err)"
}
has() {
	grep -qE -- "$1" out || bad "no \"$1\" in: $(cat out)"
}
# shows PATTERN: topology of n1 has it.
shows() {
	ip netns exec "${id}1" "$FMOVE_BIN/fmove" topology --config "$conf" >out 2>err
	grep -qE -- "$1" out
}

for leg in 'n1 w12 - n2 w12' 'n1 w13 - n3 w13' 'n2 w23 - n3 w23'; do
	await shows "^  $leg: TCP; 1 of 1 rail up; round trip [0-9.]+ ms" || bad "no leg $leg: $(cat out err)"
done
look 0 topology
[ "$(grep -c ' o-' out)" -eq 6 ] || bad "not six ends: $(cat out)"
grep -q switch out && bad "a switch in a triangle: $(cat out)"
look 0 topology --dot
has '"n2/w23" -- "n3/w23"'
look 0 topology --nccl
has 'no interface of this node has connections to every node'
look 0 doctor --all --json
has '"nodes":\["n1","n[23]","n[23]"\],"missing":\[\]'
look 0 doctor --peer n3 --json
has '"nodes":\["n1","n3"\]'
look 3 doctor --peer n3 --peer n9
has '^no facts of n9: is no peer of this node'
look 3 doctor --peer n9
has '^no facts of n9: n1 has no peer "n9"'

# The far leg is cut.
ip -n "${id}3" link set w23 down
await shows '^  n[23] has no session with n[23]: .*10\.82\.23\.' || bad "the far leg is not told: $(cat out)"
grep -q 'n2 w23 - n3 w23: TCP' out && bad "the far leg is up: $(cat out)"

# Its configuration says no, from a reload on.
sed -i 's/^node = {/node = { show_facts = false;/' "$dir/n3/conf"
grep -q 'show_facts = false' "$dir/n3/conf" || bad "the configuration has no line for node: $(head -n 5 "$dir/n3/conf")"
kill -HUP "$(cat "$dir/n3/pid")"
await shows '^n3  \(n3 tells nobody its facts \(node\.show_facts\)\)' || bad "n3 says its facts: $(cat out)"
has '^  n1 w13 - n3 10\.82\.13\.3: TCP'
look 3 doctor --all
has '^no facts of n3: n3 tells nobody its facts'

# It is off.
node_stop "$dir/n3"
await shows '^n3  \(is not connected' || bad "n3 is connected: $(cat out)"
look 3 topology --json
has '"name":"n3","unknown":"is not connected'

# Without a daemon nothing is known of anybody.
FMOVE_SOCKET=$dir/nobody ip netns exec "${id}1" "$FMOVE_BIN/fmove" topology --config "$conf" >out 2>err
[ $? -eq 3 ] || bad "no daemon: $(cat out err)"
has 'the peers .*no fmoved listens'
