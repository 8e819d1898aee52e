#!/bin/bash
# SPDX-License-Identifier: MIT
#
# flood.sh - 10,000 puts asked for at once.
#
# Goal:   what is too much is refused with a word at a limit that has a name; the daemon lives, stays within its memory, serves others meanwhile
#         and everybody afterwards.
# Method: `flood` asks over the local API and holds open what is taken; a put of another connection then has its answer, and once the flood is
#         gone puts and gets work. Twice, since what is not given back would be missed the second time.
#
#   FM_FLOOD_COUNT   (10000)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=tests/nodes.sh
. "$here/../nodes.sh"

count=${FM_FLOOD_COUNT:-10000}
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-flood.XXXXXX")
TOTAL_MIB=128
OPEN_MAX=2048			# more than this at once would be no limit at all

die() {
	echo "FAIL: $*" >&2
	tail -n 15 "$dir"/n?/log >&2 || true
	exit 1
}

cleanup() {
	local n

	for n in 1 2; do
		[ ! -e "$dir/n$n/pid" ] || kill -KILL "$(cat "$dir/n$n/pid")" 2>/dev/null || true
	done
	rm -rf "$dir"
}
trap cleanup EXIT

fm() {
	timeout "$HANG_S" "$FMOVE_BIN/fmove" --socket "$dir/n1/sock" "$@"
}

# Of the whole process, libraries included; nothing is said of a sanitizer's own.
stays_within() {
	local n=$1 peak

	! grep -q __asan_init "$FMOVE_BIN/fmoved" || return 0
	peak=$(awk '$1 == "VmHWM:" { print int($2 / 1024) }' "/proc/$(cat "$dir/n$n/pid")/status")
	echo "n$n: at most $peak MiB"
	((peak <= TOTAL_MIB + 64)) || die "n$n took $peak MiB, $TOTAL_MIB is its budget"
}

jobs_are_gone() {
	! node_status "$dir/n1" | grep -q '"op":"put"'
}

still_serves() {
	local n

	for n in 1 2; do
		kill -0 "$(cat "$dir/n$n/pid")" || die "n$n is gone"
	done
	fm put --quiet --force "$dir/file" n2:s/one || die "a put afterwards"
	cmp "$dir/file" "$dir/n2/s/one" || die "it did not arrive whole"
	[ -z "$(find "$dir/n2/s/flood" -type f ! -name '.fmove*' ! -size 1M 2>/dev/null)" ] || die "there is half a file"
}

node_extra="memory = { arena = \"16MiB\"; slab = \"4MiB\"; total = \"${TOTAL_MIB}MiB\"; }; mover = { chunk = \"256KiB\"; };"
own_ports
node_pair "$dir" $(($(node_ports 2) - 1)) || die "the nodes do not start"
disown -a
node_wait "$dir/n1" tcp 1 1
head -c 1M /dev/urandom > "$dir/file"
for round in 1 2; do
	"$FMOVE_BIN/flood" "$dir/n1/sock" "$dir/file" "$count" $OPEN_MAX n2 s || die "round $round"
	node_until "$dir/n1" jobs_are_gone || die "what was open did not end with its caller"
	still_serves
done
stays_within 1
stays_within 2
! grep -hE 'ERROR: [A-Za-z]*Sanitizer|runtime error:|Assertion .* failed' "$dir"/n?/log || die "a report in a log"
