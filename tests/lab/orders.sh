# SPDX-License-Identifier: MIT
# orders.sh - for lab tests with two guests: guest 1 says what guest 2 shall do. Sourced by a test after guest.sh.
# shellcheck shell=bash

orders=0

# peer COMMAND [ARGUMENT...]: guest 2 does that, functions of the test included; its status comes back, what it printed is in /out/said.
peer() {
	orders=$((orders + 1))
	printf '%q ' "$@" > /out/order.new
	mv /out/order.new "/out/order.$orders"
	wait_for test -e "/out/ordered.$orders"
	return "$(cat "/out/ordered.$orders")"
}

# serve_orders: in guest 2, until the order is `true end`.
serve_orders() {
	local n status

	for ((n = 1; ; n++)); do
		until [ -e "/out/order.$n" ]; do
			[ ! -e /out/status.1 ] || fail "guest 1 has ended"
			pause 0.1
		done
		status=0
		eval "$(cat "/out/order.$n")" > /out/said 2>&1 || status=$?
		cat /out/said
		echo $status > /out/ordered.new
		mv /out/ordered.new "/out/ordered.$n"
		[ "$(cat "/out/order.$n")" != "true end " ] || return 0
	done
}
