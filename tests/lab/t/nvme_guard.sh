# about: the guard of shared volumes: an unseal and silence, a power cut, a race, two that write
# guests: 3
# net: star
# disks: 1 128M
# mem: 1G
# returns: saved
# eighths: 4
#
# Goal:   never two nodes that write to a volume, never a reader beside a writer, whatever is
#         restarted, cut off or without power; what waits for a word is mounted when it comes; and
#         a person can force, and forget. Two that write all the same are an alarm.
# Method: guard.sh. A sample: soak has nvme_power, nvme_fmoved and nvme_races. What else once broke the
#         guard (guard_restarts.sh) is in nvme_fmoved; sim.nvme_mutants puts the same mistakes into the
#         supervisor. LAB_ROUNDS: races.

VOLUMES='own_mmp own_xfs shared_ext4'

# shellcheck source=tests/lab/guard.sh
. "$LAB_TOP/tests/lab/guard.sh"
# shellcheck source=tests/lab/guard_power.sh
. "$LAB_TOP/tests/lab/guard_power.sh"
# shellcheck source=tests/lab/guard_restarts.sh
. "$LAB_TOP/tests/lab/guard_restarts.sh"
# shellcheck source=tests/lab/guard_races.sh
. "$LAB_TOP/tests/lab/guard_races.sh"
# shellcheck source=tests/lab/guard_hands.sh
. "$LAB_TOP/tests/lab/guard_hands.sh"

plan() {
	released_unseal
	power open 2 1
	races "${LAB_ROUNDS:-1}"
}

guard_run plan two_writers
