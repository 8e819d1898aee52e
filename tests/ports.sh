# SPDX-License-Identifier: MIT
# ports.sh - ports that no other test on this machine takes meanwhile; sourced.
# shellcheck shell=bash disable=SC2034
#
# A daemon that is stopped and started again wants its port once more, and in between it is anybody's. So each test has a block of ports of
# its own, as long as it lives, or anything that it began: whoever has the lock of a block has its ports.
PORTS_EACH=20
PORTS_BLOCKS=600		# from 20000 on, below those that the kernel gives to clients

# own_ports: sets ports_from, the first of PORTS_EACH. Not in a subshell, whose end gives them back.
own_ports() {
	local locks=/tmp/fm-ports.$UID block=0

	[ -z "${ports_from:-}" ] || return 0
	[ -d "$locks" ] || mkdir -p -m 700 "$locks"
	while :; do
		block=$((RANDOM % PORTS_BLOCKS))
		exec {ports_lock}> "$locks/$block"
		! flock -n "$ports_lock" || break
		exec {ports_lock}>&-
	done
	ports_from=$((20000 + block * PORTS_EACH))
}
