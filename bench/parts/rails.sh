# SPDX-License-Identifier: MIT
# rails - two rate-limited TCP rails between two network namespaces, against one.
# shellcheck shell=bash

RAILS_RATE=${FM_BENCH_RAIL_RATE:-1600mbit}	# of each rail: low enough that two do not keep the CPU busy
RAILS_MIB=1024

bench_rails() {
	need ip tc
	[ "$(id -u)" = 0 ] || die "rails needs root, for network namespaces"
	rails_node_pair two 0 1
	rails_node_pair one 0
	in_turn "$work/rails" rails_two rails_one
	compare "put over two TCP rails of $RAILS_RATE each, null store" "$work/rails" 3 6 GB/s "one such rail" ">=" 1.8
	rails_end two
	rails_end one
}

# rails_node_pair NAME RAIL...: nodes n1 and n2 in namespaces of their own, joined by that many wires.
rails_node_pair() {
	local name=$1 i rail
	shift

	for i in 1 2; do
		ip netns add "fmb-$name$i"
		ip -n "fmb-$name$i" link set lo up
	done
	for rail in "$@"; do
		ip link add "fmb0" netns "fmb-${name}1" type veth peer name "fmb0" netns "fmb-${name}2"
		for i in 1 2; do
			rails_wire "fmb-$name$i" "$rail" "10.98.$rail.$i/24"
		done
	done
	for i in 1 2; do
		node_key "$memory/$name/n$i"
	done
	for i in 1 2; do
		node_conf "$memory/$name/n$i" "n$i" "[::]:7471" \
			"$(node_peer "n$((3 - i))" "10.98.0.$((3 - i)):7471" "$memory/$name/n$((3 - i))/pub")" < /dev/null
	done
	for i in 1 2; do
		node_wrap=(ip netns exec "fmb-$name$i")
		node_start "$memory/$name/n$i"
	done
	unset node_wrap
	node_wait "$memory/$name/n1" tcp $# 4
}

rails_wire() {
	local ns=$1 rail=$2 addr=$3

	ip -n "$ns" link set fmb0 name "rail$rail"
	ip -n "$ns" addr add "$addr" dev "rail$rail"
	ip -n "$ns" link set "rail$rail" up
	tc -n "$ns" qdisc add dev "rail$rail" root tbf rate "$RAILS_RATE" burst 512k latency 20ms
}

rails_put() {
	"$FMOVE_BIN/put_load" "$memory/$1/n1/sock" n2 null x $((RAILS_MIB << 20)) 1
}

rails_two() {
	rails_put two
}

rails_one() {
	rails_put one
}

rails_end() {
	local i

	for i in 1 2; do
		node_stop "$memory/$1/n$i"
		ip netns del "fmb-$1$i"
	done
}
