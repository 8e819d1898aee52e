# SPDX-License-Identifier: MIT
# orders.sh - for lab tests with several guests: guest 1 says what the others shall do. Sourced by
# a test after guest.sh.
# shellcheck shell=bash
#
# An order is for one boot of a guest: one that was not done when the power went is not done by
# the next.

declare -A boots asked

# ask GUEST COMMAND [ARGUMENT...]: that guest does so, functions of the test included. answer
# GUEST: its status; what it printed is in /out/said.GUEST. Only one thing is asked of a guest at
# a time.
ask() {
	local to=$1 name
	shift

	asked[$to]=$((${asked[$to]:-0} + 1))
	name=/out/order.$to.${boots[$to]:-1}.${asked[$to]}
	printf '%q ' "$@" > "$name.new"
	mv "$name.new" "$name"
}

answer() {
	local done=/out/ordered.$1.${boots[$1]:-1}.${asked[$1]}

	wait_for test -e "$done"
	return "$(cat "$done")"
}

tell() {
	ask "$@"
	answer "$1"
}

# peer COMMAND [ARGUMENT...]: tell guest 2, of two.
peer() {
	tell 2 "$@"
}

# boots_again GUEST: before its power comes back.
boots_again() {
	boots[$1]=$((${boots[$1]:-1} + 1))
	asked[$1]=0
}

# serve_orders: in each other guest, until the order is `true end`.
serve_orders() {
	local n status order

	for ((n = 1; ; n++)); do
		order=/out/order.$GUEST.$LAB_BOOT.$n
		until [ -e "$order" ]; do
			[ ! -e /out/status.1 ] || fail "guest 1 has ended"
			pause 0.1
		done
		status=0
		eval "$(cat "$order")" > "/out/said.$GUEST" 2>&1 || status=$?
		cat "/out/said.$GUEST"
		echo $status > "/out/ordered.$GUEST"
		mv "/out/ordered.$GUEST" "/out/ordered.$GUEST.$LAB_BOOT.$n"
		[ "$(cat "$order")" != "true end " ] || return 0
	done
}
