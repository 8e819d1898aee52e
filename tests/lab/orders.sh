# SPDX-License-Identifier: MIT
# orders.sh - for lab tests with several guests: guest 1 says what the others shall do. Sourced by
# a test after guest.sh.
# shellcheck shell=bash
#
# An order is for one boot of a guest: one that was not done when the power went is not done by
# the next.
#
# Orders and answers are files of one line in /out, which only the shell writes and reads: a program takes an emulated processor as much
# as the rest of an order. What has no end of line yet is not all there.

declare -A boots asked

# ask GUEST COMMAND [ARGUMENT...]: that guest does so, functions of the test included. answer
# GUEST: its status; what it printed is in /out/said.GUEST. Only one thing is asked of a guest at
# a time.
ask() {
	local to=$1 words
	shift

	asked[$to]=$((${asked[$to]:-0} + 1))
	printf -v words '%q ' "$@"
	echo "$words" > "/out/order.$to.${boots[$to]:-1}.${asked[$to]}"
}

# has_line FILE VARIABLE: it gets the line.
has_line() {
	{ IFS= read -r "$2" < "$1"; } 2> /dev/null
}

answer() {
	local status

	wait_for has_line "/out/ordered.$1.${boots[$1]:-1}.${asked[$1]}" status
	return "$status"
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

# serve_orders: in each other guest, until the order is `true end`. Mostly the next one comes at once; where it does not the guest is one of those
# that nobody asks anything, and looks less often.
serve_orders() {
	local n status order said pause_ms

	for ((n = 1; ; n++)); do
		pause_ms=100
		until has_line "/out/order.$GUEST.$LAB_BOOT.$n" order; do
			[ ! -e /out/status.1 ] || fail "guest 1 has ended"
			rest
		done
		status=0
		eval "$order" > "/out/said.$GUEST" 2>&1 || status=$?
		IFS= read -r -d '' said < "/out/said.$GUEST" || true
		printf '%s' "$said"
		echo $status > "/out/ordered.$GUEST.$LAB_BOOT.$n"
		[ "$order" != "true end " ] || return 0
	done
}
