# about: the guard of shared volumes: what once broke it, a power cut, fmoved restarted, a race
# guests: 3
# net: star
# disks: 1 128M
# mem: 1G
# eighths: 4
#
# Goal:   never two nodes that write to a volume, never a reader beside a writer, whatever is
#         restarted, cut off or without power; what waits for a word is mounted when it comes; and
#         a person can force, and forget. Two that write all the same are an alarm.
# Method: guard.sh. A sample: soak has nvme_power, nvme_fmoved and nvme_races. LAB_ROUNDS: races.

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
	lapsed_refusal
	released_unseal
	remembered_seal
	power open 2 1
	races "${LAB_ROUNDS:-1}"
}

guard_run plan two_writers
