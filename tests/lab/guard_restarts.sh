# SPDX-License-Identifier: MIT
# guard_restarts.sh - fmoved is restarted, and the network cut, in each state of a volume; sourced
# after guard.sh, for two nodes: n1 writes.
# shellcheck shell=bash disable=SC2046

# restart STATE NODE: fmoved of that node, while the volumes are: open (the writer has them),
# sealed (both read), sealing (the writer has a file open), unsealing (the reader has), waiting
# (the writer's own, for the word of n2).
restart() {
	what="fmoved of n$2 restarted while $1"
	trace_says "$what"
	"restart_$1" "$2"
}

restart_open() {
	make_well open
	node "$1" fmoved_again
	well open
	node 1 reads $generations
}

restart_sealed() {
	make_well sealed
	node "$1" fmoved_again
	well sealed
	each_node reads $generations
}

restart_sealing() {
	make_well open
	node 1 hold
	node 1 all seal
	node "$1" fmoved_again
	node 1 are $(volumes 'shared_*' rw)
	node 2 are $(volumes 'shared_*' gone)
	node 1 release
	well sealed
	each_node reads $generations
}

# The reader has a file open, and says so: nobody writes.
unsealing() {
	make_well sealed
	node 2 hold
	node 1 unseal_all
	node 1 become $(volumes 'shared_*' gone)
}

# What is accepted waits for the reader, whoever is silent meanwhile.
still_unsealing() {
	pause $HOLD_S
	node 1 are $(volumes 'shared_*' gone)
	node 2 are $(volumes 'shared_*' ro)
	node 2 reads $generations
}

restart_unsealing() {
	unsealing
	node "$1" fmoved_again
	still_unsealing
	node 2 release
	well open
}

restart_waiting() {
	make_well open
	node 1 all_unprotected down --timeout ${HANG_S}s
	node 2 fmoved_stop
	node 1 supervisor_again TERM
	node 1 all_unprotected up --wait 0
	node 1 become $(volumes 'own_[ex]*' waiting:n2)
	if [ "$1" = 1 ]; then
		node 1 fmoved_again
		pause $HOLD_S
		node 1 become $(volumes 'own_[ex]*' waiting:n2)
	fi
	node 2 fmoved_start
	well open
}

# At a node: all_unprotected COMMAND OPTION...
all_unprotected() {
	local name

	for name in $UNPROTECTED; do
		fmn "$1" "$name" "${@:2}" || return
	done
}

# --- what once broke it ---------------------------------------------------------------------------

# A refusal lapsed after 6 s of silence, and at once when fmoved started anew: ordinary where
# another writer is configured, one node after the other.
lapsed_refusal() {
	what="a refusal, and fmoved restarted"
	trace_says "$what"
	make_well open
	node 2 configure 2
	node 2 become $(volumes 'own_*' refused)
	node 2 fmoved_again
	net_split
	node 2 supervisor_again TERM
	pause $HOLD_S
	node 2 are $(volumes '*' gone)
	node 1 are $(volumes 'own_*' rw)
	net_join
	node 2 configure 1
	well open
}

# An unseal that was accepted was let go when its reader, with files open, fell silent.
released_unseal() {
	what="an unseal, and its reader out of reach"
	trace_says "$what"
	unsealing
	net_split
	node 1 supervisor_again KILL
	still_unsealing
	net_join
	node 2 release
	well open
}

# A reader out of reach mounted the seal that it remembered, which its writer had taken back.
remembered_seal() {
	what="a seal that was taken back, and its reader out of reach"
	trace_says "$what"
	make_well sealed
	net_split
	off 2
	node 1 wait_for misses_other
	node 1 unseal_by_force
	node 1 become $(volumes 'shared_*' rw)
	on 2
	pause $HOLD_S
	node 2 are $(volumes 'shared_*' gone)
	node 2 become $(volumes 'shared_*' waiting:n1)
	net_join
	well open
}
