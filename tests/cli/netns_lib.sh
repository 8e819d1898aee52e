# SPDX-License-Identifier: MIT
# netns_lib.sh - nodes in network namespaces of their own; sourced behind lib.sh. Order: netns_begin, netns_wire, nodes of nodes.sh in
# $dir/nI, netns_down from DOWN.
# shellcheck shell=bash

. "$FM_SOURCE/tests/nodes.sh"

# netns_begin PREFIX DOWN I...: a namespace "$id$I" for each, with loopback. Sets id and dir, and goes to $dir/w. DOWN, a function, is called
# at the end.
netns_begin() {
	local down=$2 i

	[ "$(id -u)" = 0 ] || skip "network namespaces take root"
	command -v ip >/dev/null || skip "no program ip"
	id=$1$$
	shift 2
	dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cli.XXXXXX") || exit 1
	# shellcheck disable=SC2064
	trap "$down; down" EXIT
	mkdir "$dir/w"
	cd "$dir/w" || exit 1
	for i in "$@"; do
		ip netns add "$id$i" 2>/dev/null || { trap - EXIT; rm -rf "$dir"; skip "no network namespaces here"; }
		ip -n "$id$i" link set lo up
	done
}

# netns_down I...: their nodes stop; if the test failed, with the ends of their logs.
netns_down() {
	local i

	for i in "$@"; do
		[ ! -e "$dir/n$i/pid" ] || node_stop "$dir/n$i" || bad "n$i does not end"
		[ "$fails" -eq 0 ] || [ ! -e "$dir/n$i/log" ] || { echo "-- log of n$i"; tail -n 25 "$dir/n$i/log"; } >&2
	done
	for i in "$@"; do
		ip netns del "$id$i"
	done
}

# netns_wire I PORT ADDRESS I PORT ADDRESS
netns_wire() {
	ip link add "$2" netns "$id$1" type veth peer name "$5" netns "$id$4"
	ip -n "$id$1" addr add "$3" dev "$2"
	ip -n "$id$4" addr add "$6" dev "$5"
	ip -n "$id$1" link set "$2" up
	ip -n "$id$4" link set "$5" up
}

# netns_slow DOWN I PORT RATE: what goes out there. Without that in this kernel the test is skipped, after DOWN.
netns_slow() {
	tc -n "$id$2" qdisc add dev "$3" root tbf rate "$4" burst 64kb latency 100ms 2>/dev/null && return
	"$1"
	trap - EXIT
	rm -rf "$dir"
	skip "no slow wires: this kernel has no sch_tbf"
}

# netns_pair NET: nodes n1 and n2, joined by two wires, w1 and w2, of NET.1.0/24 and NET.2.0/24, over TCP. What comes on standard input
# is in both configurations, and what node_conf takes from variables.
netns_pair() {
	local conf wire i other node_wrap

	IFS= read -r -d '' conf || true
	for wire in 1 2; do
		netns_wire 1 w$wire "$1.$wire.1/24" 2 w$wire "$1.$wire.2/24"
	done
	for i in 1 2; do
		node_key "$dir/n$i"
	done
	for i in 1 2; do
		other=$((3 - i))
		node_conf "$dir/n$i" "n$i" "0.0.0.0:7471" "$(node_peer n$other "$1.1.$other:7471" "$dir/n$other/pub")" \
			<<<"mover = { tcp_conns = 2; private_networks = [ \"$1.0.0/16\" ]; }; $conf"
		node_wrap=(ip netns exec "$id$i")
		node_start "$dir/n$i"
	done
	node_wait "$dir/n1" tcp 2 2
}
