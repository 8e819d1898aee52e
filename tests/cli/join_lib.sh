# SPDX-License-Identifier: MIT
# join_lib.sh - nodes in network namespaces that init and join made, each in $dir/c/nI; sourced behind netns_lib.sh.
# shellcheck shell=bash

pids=

# join_down I...: the daemons that serve began stop; if the test failed, with the ends of their logs.
join_down() {
	local i

	for i in $pids; do
		kill "$i" 2>/dev/null
	done
	for i in "$@"; do
		[ "$fails" -eq 0 ] || { echo "-- log of n$i"; tail -n 25 "$dir/c/n$i/log"; } >&2
	done
	netns_down "$@"
}

# in_ns I CMD...: in the namespace of node i.
in_ns() {
	local i=$1
	shift

	ip netns exec "$id$i" "$@"
}

# is_up I PORT
is_up() {
	ip -n "$id$1" link show "$2" | grep -q ' state UP '
}

# serve I: its daemon begins.
serve() {
	use_little "$dir/c/n$1/fmove.conf"
	ip netns exec "$id$1" fmoved --config "$dir/c/n$1/fmove.conf" 2>>"$dir/c/n$1/log" &
	pids="$pids $!"
	await answers "$dir/c/n$1/fmoved.sock" || bad "n$1 does not start: $(cat "$dir/c/n$1/log")"
}

# end_well: the daemons that serve began end, without a complaint.
end_well() {
	local i

	for i in $pids; do
		kill "$i" && wait "$i" || bad "a daemon does not end well: $(tail -n 3 "$dir"/c/n?/log)"
	done
	pids=
}
