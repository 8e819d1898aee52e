# about: fmoved restarted in each state of a shared volume; what once broke the guard
# guests: 3
# net: star
# disks: 1 128M
# mem: 1G
# returns: saved
# when: soak
#
# Goal:   a restart of fmoved, whenever it comes, neither lets a second node write nor a reader
#         read beside the writer, and everything that is wanted is mounted in the end.
# Method: guard_restarts.sh. LAB_ROUNDS: how often all of it.

# shellcheck source=tests/lab/guard.sh
. "$LAB_TOP/tests/lab/guard.sh"
# shellcheck source=tests/lab/guard_restarts.sh
. "$LAB_TOP/tests/lab/guard_restarts.sh"

plan() {
	rounds=${LAB_ROUNDS:-1}
	for ((round = 1; round <= rounds; round++)); do
		for state in open sealed sealing unsealing waiting; do
			restart $state 1
			restart $state 2
		done
		lapsed_refusal
		released_unseal
		remembered_seal
	done
	say "$rounds rounds, fmoved restarted ten times in each: all as it should be"
}

guard_run plan
