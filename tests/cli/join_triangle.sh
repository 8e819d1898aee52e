#!/bin/bash
# Goal:   three nodes, a cable between each two, small networks, no route that leads out: init, join
#         and invite make a cluster of them in which each reaches each, and nobody edits a file.
# Method: three network namespaces; the lines that are printed are said as they stand. The line of n1
#         has both its addresses: at the third node the first leads nowhere, so join takes the second.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns_lib.sh"
. "$(dirname "$0")/join_lib.sh"

# wire I J NETWORK
wire() {
	netns_wire "$1" "to$2" "$3.1/30" "$2" "to$1" "$3.2/30"
	ip -n "$id$1" link set "to$2" mtu 9000
	ip -n "$id$2" link set "to$1" mtu 9000
	await is_up "$1" "to$2" && await is_up "$2" "to$1" || bad "the wire from n$1 to n$2 does not come up"
}

# joins I: with the line that was printed last.
joins() {
	local i=$1 address token

	read -r _ _ address token <out
	shift
	ok in_ns "$i" fmove join "$address" "$token" --dir "$dir/c/n$i" "$@"
}

has_peers() {
	[ "$(fmove --socket "$dir/c/n$1/fmoved.sock" status --json | grep -o '"connected":true' | wc -l)" -eq 2 ]
}

netns_begin fmt "join_down 1 2 3" 1 2 3
mkdir "$dir/c"
wire 1 2 10.81.12
wire 1 3 10.81.13
wire 2 3 10.81.23

ok in_ns 1 fmove init --dir "$dir/c/n1" --node n1 --store "s=$dir/c/n1/files"
grep -q '^fmove join 10.81.12.1:7471,10.81.13.1:7471 ' out || bad "the line: $(cat out)"
cp out line
serve 1
cp line out
joins 2 --node n2 --store "s=$dir/c/n2/files"
serve 2
ok in_ns 1 fmove invite --dir "$dir/c/n1"
joins 3 --node n3 --store "s=$dir/c/n3/files"
ok in_ns 2 fmove invite --dir "$dir/c/n2" --address 10.81.23.1
joins 3
serve 3
for i in 1 2 3; do
	await has_peers $i || bad "n$i has not two peers: $(fmove --socket "$dir/c/n$i/fmoved.sock" status)"
done
random 300000 f
for i in 1 2 3; do
	to=$((i % 3 + 1))
	ok fmove --socket "$dir/c/n$i/fmoved.sock" put f "n$to:s/from$i"
	same f "$dir/c/n$to/files/from$i"
done
end_well
