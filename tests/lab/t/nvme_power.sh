# about: all nodes lose their power, boot in every order, one never: ext4, mmp, XFS, force, forget
# guests: 4
# net: star
# disks: 1 128M
# mem: 1G
# returns: saved
# when: soak
#
# Goal:   after a power cut of all nodes each volume is mounted, waiting for exactly those that
#         are away, or refused, as guard.h says, whoever boots first and whoever never returns;
#         force and forget do what the manual says; and nobody ever writes beside another one.
# Method: guard_power.sh. Three nodes, the shared volumes sealed and not: each order of all three,
#         and of two while the third stays off, which comes back at the end. LAB_ROUNDS: how many
#         of the 24 (default: all), from number LAB_SEED on, so that machines can share them.

# shellcheck source=tests/lab/guard.sh
. "$LAB_TOP/tests/lab/guard.sh"
# shellcheck source=tests/lab/guard_power.sh
. "$LAB_TOP/tests/lab/guard_power.sh"

# Lines KIND ABSENT ORDER...
every_order() {
	local order

	for order in '0 1 2 3' '0 1 3 2' '0 2 1 3' '0 2 3 1' '0 3 1 2' '0 3 2 1' \
		'1 2 3' '1 3 2' '2 1 3' '2 3 1' '3 1 2' '3 2 1'; do
		printf '%s\n' "open $order" "sealed $order"
	done
}

plan() {
	local all i cuts=${LAB_ROUNDS:-24}

	mapfile -t all < <(every_order)
	for ((i = 0; i < cuts; i++)); do
		# shellcheck disable=SC2086
		power ${all[(LAB_SEED + i) % ${#all[@]}]}
	done
	say "$cuts rounds, all nodes without power in each: mounted, waiting and refused as it should be"
}

guard_run plan
