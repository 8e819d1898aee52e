# SPDX-License-Identifier: MIT
# guard_races.sh - something is under way when the network is cut, and something else meanwhile;
# sourced after guard.sh, for two nodes. Chance is LAB_SEED's.
# shellcheck shell=bash

ACTS='seal unseal flip up_both kill fmoved reboot'
# No word passes; none of one node's; one node reaches nothing at all.
CUTS='split mute_1 mute_2 cable_1 cable_2'
MEANWHILE='nothing fmoved kill unseal up_both flip'

# one_of WORD...: sets `picked`.
one_of() {
	local words=("$@")

	picked=${words[RANDOM % $#]}
}

# Up to that many milliseconds.
some_time() {
	local ms=$((RANDOM % $1)) seconds

	printf -v seconds '%d.%03d' $((ms / 1000)) $((ms % 1000))
	pause "$seconds"
}

cut_net() {
	case $1 in
	split)		net_split ;;
	mute_*)		net_mute "${1#*_}" ;;
	cable_*)	cable $((${1#*_} - 1)) off ;;
	esac
}

mend_net() {
	case $1 in
	cable_*)	cable $((${1#*_} - 1)) on ;;
	*)		net_join ;;
	esac
}

# At a node: whatever comes of it.
down_up() {
	local name

	for name in $VOLUMES; do
		fmn down "$name" --timeout 0 || true
		fmn up "$name" --wait 0
	done
}

# Another writer is configured, at one node and then at the other. What is sealed its writer alone
# opens.
flip() {
	local first=$((1 + RANDOM % 2))

	[ "$settled_kind$kind" = openopen ] || return 0
	writer=$((3 - writer))
	node $first configure $writer
	some_time 2000
	node $((3 - first)) configure $writer
}

# May be refused, which is as good.
act() {
	local either=$((1 + RANDOM % 2))

	case $1 in
	nothing)	;;
	seal)		kind=sealed; tell $((writer + 1)) all seal || true ;;
	unseal)		kind=open; tell $((writer + 1)) all unseal || true ;;
	flip)		flip ;;
	up_both)	each_node down_up ;;
	kill)		node $either supervisor_again KILL ;;
	fmoved)		node $either fmoved_again ;;
	reboot)		off $either; on $either ;;
	esac
}

# Whatever was refused meanwhile is said again, and then everything wanted is mounted, on each
# node the same.
settle() {
	case $kind in
	open)	node $writer unseal_all ;;
	sealed)	node $writer all seal ;;
	esac
	well "$kind"
	if [ "$kind" = sealed ]; then
		each_node reads $generations
	else
		generations=$((generations + 1))
		node $writer generation $generations
	fi
}

# race NUMBER
race() {
	local first cut settled_kind=$kind second

	one_of $ACTS; first=$picked
	one_of $CUTS; cut=$picked
	one_of $MEANWHILE; second=$picked
	what="race $1, seed $LAB_SEED: n$writer writes, $kind: $first, $cut, $second"
	trace_says "$what"
	act "$first"
	some_time 3000
	cut_net "$cut"
	some_time 4000
	act "$second"
	some_time 6000
	mend_net "$cut"
	settle
}

races() {
	local i kind=open

	RANDOM=$LAB_SEED
	make_well open
	for ((i = 1; i <= $1; i++)); do
		race $i
	done
	if [ $writer != 1 ]; then
		[ $kind = open ] || { kind=open; settle; }
		writer=1
		each_node configure 1
		settle
	fi
	say "$1 races: all as it should be after each"
}
