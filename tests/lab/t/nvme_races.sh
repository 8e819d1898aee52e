# about: races of two nodes while the network is cut at random moments
# guests: 3
# net: star
# disks: 1 128M
# mem: 1G
# returns: saved
# when: soak
#
# Goal:   never two nodes that write to a volume, never a reader beside a writer, whenever the
#         network is cut; everything wanted is mounted in the end, the same on both.
# Method: guard_races.sh. LAB_ROUNDS: races; LAB_SEED: their chances.

# shellcheck source=tests/lab/guard.sh
. "$LAB_TOP/tests/lab/guard.sh"
# shellcheck source=tests/lab/guard_races.sh
. "$LAB_TOP/tests/lab/guard_races.sh"

plan() {
	races "${LAB_ROUNDS:-50}"
}

guard_run plan
