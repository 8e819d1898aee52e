#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Goal:   whatever call of fmove-nvmed's fails first - while it starts, reads the machine, starts helpers, answers - it either does not start
#         and says why, or goes on: the volume is waited for, wishes are obeyed and remembered, and it stops cleanly (sanitizers watch).
# Method: it is started again and again with its n-th fault point failing, n growing until no fault happens any more, with a volume at an
#         address where nobody listens. What a mount may fail at is tried by unit.supervisor and in the lab.
#
#   FM_FAULT_STEP   try every so many-th point (default 8, 16 in check-fast; 1 is all of them, make soak)
#   FM_FAULT_FIRST  the first one (default 1)
set -euo pipefail
# shellcheck source=tests/hang.sh
. "$(dirname "$0")/../hang.sh"

dir=$(mktemp -d)
step=${FM_FAULT_STEP:-$((8 * ${FM_SAMPLE:-1}))}
first=${FM_FAULT_FIRST:-1}
tried=0 refused=0 failed=0
pid=''
export FMOVE_NVMED_SOCKET=$dir/sock
PATH=$FMOVE_BIN:$PATH
quick_client

[ "$(id -u)" = 0 ] || { echo "SKIP: fmove-nvmed is for root"; exit 77; }

die() {
	echo "FAIL at point $n ($(sed -n 's/^fault: //p' "$dir/log" 2>/dev/null)): $*" >&2
	tail -n 30 "$dir/log" >&2
	exit 1
}

cleanup() {
	[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
	rm -rf "$dir"
}
trap cleanup EXIT

configure() {
	cat > "$dir/conf" <<-C
	node = { name = "n1"; state_directory = "null:"; };
	nvme = { host_nqn = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"; socket = "$dir/sock";
		state_directory = "$dir/state"; };
	volumes = ( { name = "data"; subsystem = "disk1"; address = "127.0.0.1:1"; mount = "$dir/mnt"; writer = "n1"; },
		{ name = "found"; subsystem = "disk2"; discovery = "127.0.0.1:1"; mount = "$dir/mnt2"; mode = "read-only"; } );
	C
}

# 0: it answers. 1: it ended first. Its socket is there before its supervisor, so only an answer says that it has started; the call that is
# to fail may be this one, which is asked again.
start() {
	rm -rf "$dir/sock" "$dir/state"
	: > "$dir/log"
	FMOVE_FAULT=$n fmove-nvmed --config "$dir/conf" >> "$dir/log" 2>&1 &
	pid=$!
	local end=$((SECONDS + HANG_S))

	while ((SECONDS < end)); do
		[ ! -S "$dir/sock" ] || ! ASAN_OPTIONS=$ASKING fmove nvme list > /dev/null 2>&1 || return 0
		kill -0 $pid 2>/dev/null || return 1
		pause 0.05
	done
	die "neither started nor ended"
}

# One line on standard error and a status that is no crash.
try() {
	local status=0

	fmove nvme "$@" > "$dir/out" 2> "$dir/err" || status=$?
	[ "$status" -lt 126 ] || die "fmove nvme $* ended with status $status: $(cat "$dir/err")"
	[ "$status" = 0 ] || [ -s "$dir/err" ] || die "fmove nvme $* failed ($status) and said nothing"
	[ "$status" = 0 ] || failed=$((failed + 1))
	return "$status"
}

# Only one call fails, so what is asked again must be answered.
try_twice() {
	try "$@" || try "$@" || die "fmove nvme $* failed twice: $(cat "$dir/err")"
}

work() {
	try_twice status --json
	! fmove nvme discover 127.0.0.1:1 > "$dir/out" 2> "$dir/err" || die "a target answered"
	[ -s "$dir/err" ] || die "nobody answered a discovery, and nothing was said"
	try_twice down data --timeout ${HANG_S}s
	try_twice up data --wait 0
	try_twice status data
	grep -q "wanted up" "$dir/out" || die "the wish is not obeyed: $(cat "$dir/out")"
	kill -HUP $pid
	try_twice list
	kill -0 $pid 2>/dev/null || die "it died"
}

stop() {
	local status=0

	kill -TERM $pid
	wait $pid || status=$?
	pid=''
	[ "$status" = 0 ] || die "it ended with status $status"
}

no_report() {
	! grep -qE 'ERROR: [A-Za-z]*Sanitizer|runtime error:|Assertion .* failed' "$dir/log" || die "a report"
}

configure
for ((n = first; ; n += step)); do
	tried=$((tried + 1))
	if start; then
		work
		stop
	else
		status=0
		wait $pid || status=$?
		pid=''
		[ "$status" -gt 0 ] && [ "$status" -lt 126 ] || die "it did not start, and ended with status $status"
		grep -qiE 'error|fmove-nvmed:' "$dir/log" || die "it did not start and did not say why"
		refused=$((refused + 1))
	fi
	no_report
	grep -q '^fault: ' "$dir/log" || break
done
[ "$tried" -gt 5 ] && [ "$refused" -gt 0 ] || die "the faults did not happen: $tried tried, $refused refused to start"
echo "$tried points tried up to number $n, every $step: $refused kept it from starting, $failed commands failed"
