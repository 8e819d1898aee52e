# SPDX-License-Identifier: MIT
# wires.sh - what can become of a wire between two nodes in network namespaces, and how it is undone; sourced.
#
# Node N is in the namespace "$id"N, its end of wire W is the device wW with the address $net.W.N/24. `wire` is the wire that is
# cut or mended.
# shellcheck shell=bash disable=SC2154 # id, net and wire are the caller's

# HOW: what cuts it, what mends it, at which nodes. `here` is node 1.
declare -gA wire_cuts=(
	[carrier_here]="pull plug_in 2"
	[carrier_there]="pull plug_in 1"
	[address_here]="take_address give_address 1"
	[address_there]="take_address give_address 2"
	[lost_there]="lose find_again 1"
	[lost_back]="lose find_again 2"
	[lost_both]="lose find_again 1 2"
)

# Each for one node. The other end has no carrier then.
pull() {
	ip -n "$id$1" link set "w$wire" down
}

# A link that was down has lost nothing but what it had learned.
plug_in() {
	ip -n "$id$1" link set "w$wire" up
}

take_address() {
	ip -n "$id$1" addr del "$net.$wire.$1/24" dev "w$wire"
}

give_address() {
	ip -n "$id$1" addr replace "$net.$wire.$1/24" dev "w$wire"
}

# What it sends over the wire reaches nobody: it goes to a station that does not exist.
lose() {
	ip -n "$id$1" neigh replace "$net.$wire.$((3 - $1))" lladdr 02:00:00:00:00:01 dev "w$wire" nud permanent
}

find_again() {
	ip -n "$id$1" neigh del "$net.$wire.$((3 - $1))" dev "w$wire"
}

at_nodes() {
	local do=$1 node
	shift

	for node; do
		"$do" "$node"
	done
}

cut_wire() {
	local cut mend nodes

	read -r cut mend nodes <<< "${wire_cuts[$1]}"
	# shellcheck disable=SC2086 # words
	at_nodes "$cut" $nodes
}

mend_wire() {
	local cut mend nodes

	read -r cut mend nodes <<< "${wire_cuts[$1]}"
	# shellcheck disable=SC2086 # words
	at_nodes "$mend" $nodes
}
