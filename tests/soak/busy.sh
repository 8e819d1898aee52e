#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Goal:   no test fails because the machine is busy.
# Method: make check, as often as was asked, beside a program for each processor that computes all the time. A test that failed counts
#         also if it passed when it was run once more. Each round goes on to its end, and all rounds are run.
#
#   busy.sh ROUNDS [COMMAND...]      another command that runs CTest in place of make check's
#
# What each round printed is left in build/busy.N.log. Exits 1 if a test failed, or if not all of them ran.
set -euo pipefail
top_dir=$(cd "$(dirname "$0")/../.." && pwd -P)
rounds=${1:?usage: busy.sh ROUNDS [COMMAND...]}
shift
command=("$@")
[ ${#command[@]} -gt 0 ] || command=("$top_dir/tests/check")
load=() failed=0 skipped=0 running=''

# The command is a group of its own, so that what it has started ends with it.
ended() {
	[ -z "$running" ] || kill -- "-$running" || true
	[ ${#load[@]} = 0 ] || { kill "${load[@]}" || true; wait "${load[@]}" || true; }
}
trap 'ended 2> /dev/null' EXIT
trap 'exit 143' INT TERM
for ((i = $(nproc); i > 0; i--)); do
	setpriv --pdeathsig KILL -- bash -c 'while :; do :; done' > /dev/null 2>&1 < /dev/null &
	load+=($!)
done

# names LOG: what failed there, by CTest's lines: " 3/165 Test  #17: unit.ring ....***Failed    0.42 sec"; another word for a test that hung.
names() {
	awk '/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / && /\*\*\*/ && !/\*\*\*Skipped/ { sub(/^[^:]*: /, ""); sub(/[ .]*\*\*\*.*/, ""); sub(/ .*/, ""); print }' "$1"
}

mkdir -p "$top_dir/build"
for ((round = 1; round <= rounds; round++)); do
	log=$top_dir/build/busy.$round.log status=0
	setsid "${command[@]}" > "$log" 2>&1 &
	running=$!
	wait $running || status=$?
	running=''
	skipped=$((skipped + $(grep -cE '^ *[0-9]+/[0-9]+ Test +#[0-9]+: .*\*\*\*Skipped' "$log" || true)))
	mapfile -t these < <(names "$log")
	failed=$((failed + ${#these[@]}))
	if [ ${#these[@]} -gt 0 ]; then
		echo "FAIL: round $round, ${log#"$top_dir"/}: ${these[*]}"
	elif [ $status != 0 ]; then
		failed=$((failed + 1))
		echo "FAIL: round $round ended with status $status: ${log#"$top_dir"/}"
	fi
done
echo "in all: $rounds rounds beside ${#load[@]} programs that compute, $failed failures, $skipped skipped"
[ $failed = 0 ]
