#!/bin/bash
# Goal:   as cables.sh; the cable that is cut is the one on which the session of the nodes is, which goes on over the other.
# Method: the first of two wires is cut in each of four ways (cables_lib.sh). Then what one node sends over the session's wire is lost,
#         where routes have their kernels repeat after two minutes.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables_lib.sh"

wire=1
files_survive
is_logged 'session with n[12] goes on over 10.78.2' "$dir"/n?/log || bad "the session never left its cable"

# One way only, and the kernels repeat so rarely that they would count no repeats: what still comes from the other node says
# nothing of what goes there. Each node once more than needed, whoever dialled the session, and whatever its first connection had
# measured.
session_somewhere() {
	for wire in 1 2; do
		! session_on $wire || return 0
	done
	return 1
}

ended() {
	cat "$dir"/n?/log | grep -c 'session with n[12] ended'
}

for wire in 1 2; do
	for i in 1 2; do
		ip -n "$id$i" route change $net.$wire.0/24 dev w$wire proto kernel scope link src $net.$wire.$i rto_min 120s
	done
done
before=$(ended)
for node in 1 2 1; do
	await session_somewhere || bad "no session: $(fmove status)"
	lose "$node"
	await session_on $((3 - wire)) || bad "the session stays on wire $wire, over which n$node sends in vain: $(fmove status)"
	find_again "$node"
	await is true $wire || bad "wire $wire is not used again: $(fmove status)"
done
[ "$(ended)" = "$before" ] || bad "a session ended while one wire was whole"
