#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Goal:   whatever call fails first in a daemon - while it starts, connects, sends or receives - it either does not start and says why, or
#         goes on, and does again what failed; nothing half-done is seen; it stops cleanly and leaks nothing (sanitizers watch).
# Method: node a is started again and again with its n-th fault point failing, n growing until no fault happens any more; each time
#         a put from it, a get to it and a put to it are tried against a healthy node b.
#
#   FM_FAULT_STEP   try every so many-th point (default 4, 8 in check-fast; 1 is all of them, make soak)
#   FM_FAULT_FIRST  the first one (default 1)
#
# Two processes share the points, each takes every second one: most of the time is spent waiting.
set -euo pipefail
. "$(dirname "$0")/../nodes.sh"
PATH=$FMOVE_BIN:$PATH
quick_client

dir=$(mktemp -d)
step=${FM_FAULT_STEP:-$((4 * ${FM_SAMPLE:-1}))}
first=${FM_FAULT_FIRST:-1}
size=3000000		# a dozen chunks, the last one odd
tried=0 refused=0 failed=0

die() {
	echo "FAIL at point $n ($(sed -n 's/^fault: //p' "$dir/a/log" 2>/dev/null)): $*" >&2
	tail -n 30 "$dir/a/log" >&2
	kept=$(mktemp "${TMPDIR:-/tmp}/fmove-fault-$n.XXXXXX") && cp "$dir/a/log" "$kept" && echo "The log: $kept" >&2
	exit 1
}

cleanup() {
	local node

	for node in a b; do
		[ ! -e "$dir/$node/pid" ] || kill -KILL "$(cat "$dir/$node/pid")" 2>/dev/null || true
	done
	rm -rf "$dir"
}

pids=()

both_sides() {
	local side status=0

	trap 'kill "${pids[@]}" 2>/dev/null || true; exit 130' INT TERM
	for side in 0 1; do
		FM_FAULT_SIDE=$side FM_FAULT_FIRST=$((first + side * step)) FM_FAULT_STEP=$((2 * step)) bash "${BASH_SOURCE[0]}" &
		pids+=($!)
	done
	for side in 0 1; do
		wait "${pids[side]}" || status=1
	done
	return $status
}

trap cleanup EXIT
if [ -z "${FM_FAULT_SIDE:-}" ]; then
	both_sides
	exit
fi

make_nodes() {
	local port memory='memory = { arena = "32MiB"; total = "128MiB"; slab = "4MiB"; };'

	own_ports
	port=$(node_ports 2)
	node_key "$dir/a"
	node_key "$dir/b"
	node_conf "$dir/a" a "127.0.0.1:$port" "$(node_peer b "127.0.0.1:$((port + 1))" "$dir/b/pub")" <<<"$memory"
	node_conf "$dir/b" b "127.0.0.1:$((port + 1))" "$(node_peer a "127.0.0.1:$port" "$dir/a/pub")" <<<"$memory"
	head -c "$size" /dev/urandom > "$dir/src"
}

# It says so when nothing can keep it from starting any more. Its socket listens before that. Whoever asked the daemon itself would pass
# its fault points.
has_started() {
	local said=

	read -r -d '' said < "$dir/a/log" || true
	[[ $said == *" info: node a: port "* ]]
}

# 0: it runs. 1: it ended first.
start_a() {
	[ ! -e "$dir/a/sock" ] || rm -f "$dir/a/sock"
	: > "$dir/a/log"
	FMOVE_FAULT=$n "$FMOVE_BIN/fmoved" --config "$dir/a/conf" >> "$dir/a/log" 2>&1 &
	pid=$!
	echo $pid > "$dir/a/pid"
	local end=$((SECONDS + HANG_S))

	while ((SECONDS < end)); do
		! has_started || return 0
		kill -0 $pid 2>/dev/null || return 1
		pause 0.02
	done
	die "neither started nor ended"
}

# One line on standard error and a status that is no crash.
try() {
	local status=0

	fmove "$@" > "$dir/out" 2> "$dir/err" || status=$?
	[ "$status" -lt 126 ] || die "fmove $* ended with status $status: $(cat "$dir/err")"
	[ "$status" = 0 ] || [ -s "$dir/err" ] || die "fmove $* failed ($status) and said nothing"
	return "$status"
}

# Whole or not there.
check_file() {
	[ ! -e "$1" ] || cmp -s "$dir/src" "$1" || die "$1 holds something else"
}

# A partial file without its journal is of no use to anybody: it goes when its transfer has ended, which may be a moment after its
# caller heard so. One with a journal stays for the next try.
useless_partials() {
	local part

	for part in "$dir"{/a/s,/b/s,}/.fmove.*.part; do
		[ ! -e "$part" ] || [ -s "${part%.part}.journal" ] || echo "$part"
	done
}

is_any_partial() {
	local part

	for part in "$dir"{/a/s,/b/s,}/.fmove.*; do
		[ ! -e "$part" ] || return 0
	done
	return 1
}

check_no_partial() {
	local end=$((SECONDS + HANG_S)) left

	is_any_partial || return 0
	while left=$(useless_partials) && [ -n "$left" ] && ((SECONDS < end)); do
		pause 0.05
	done
	[ -z "$left" ] || die "a partial file of no use stayed: $left"
	rm -f "$dir"/.fmove.* "$dir/a/s"/.fmove.* "$dir/b/s"/.fmove.*
}

# Each fault happens once: what failed for it succeeds when it is done again.
twice() {
	! try "$@" --timeout 20s || return 0
	failed=$((failed + 1))
	try "$@" --force --timeout "$HANG_S" || die "fmove $* failed again: $(cat "$dir/err")"
}

work() {
	rm -f "$dir/a/s/"* "$dir/b/s/"* "$dir/back"
	twice --socket "$dir/a/sock" put --quiet "$dir/src" b:s/x
	twice --socket "$dir/b/sock" put --quiet "$dir/src" a:s/y
	twice --socket "$dir/a/sock" get --quiet b:s/x "$dir/back"
	kill -0 $pid 2>/dev/null || die "the daemon died"
	check_file "$dir/b/s/x"
	check_file "$dir/a/s/y"
	check_file "$dir/back"
	check_no_partial
}

stop_a() {
	local status=0

	kill -TERM $pid
	wait $pid || status=$?
	[ "$status" = 0 ] || die "it ended with status $status"
}

# Without a program where there is none, as at nearly each point.
no_report() {
	local said=

	read -r -d '' said < "$1" || true
	[[ $said =~ ERROR:\ [A-Za-z]*Sanitizer|runtime\ error:|Assertion\ .*\ failed ]] || return 0
	! grep -qE 'ERROR: [A-Za-z]*Sanitizer|runtime error:|Assertion .* failed' "$1" || die "a report in $1"
}

make_nodes
node_start "$dir/b"
disown -a		# its end is ours to make, not the shell's to announce
for ((n = first; ; n += step)); do
	tried=$((tried + 1))
	if start_a; then
		work
		stop_a
	else
		status=0
		wait $pid || status=$?
		[ "$status" -gt 0 ] && [ "$status" -lt 126 ] || die "it did not start, and ended with status $status"
		grep -qiE 'error|fmoved:' "$dir/a/log" || die "it did not start and did not say why"
		refused=$((refused + 1))
	fi
	no_report "$dir/a/log"
	said=
	read -r -d '' said < "$dir/a/log" || true
	[[ $'\n'$said == *$'\nfault: '* ]] || break
done
no_report "$dir/b/log"
[ "$tried" -gt 10 ] && [ "$refused" -gt 0 ] || die "the faults did not happen: $tried tried, $refused refused to start"
echo "$tried points tried up to number $n, every $step: $refused kept it from starting, $failed commands failed, nothing was lost"
