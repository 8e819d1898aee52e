# SPDX-License-Identifier: MIT
# expect.sh - what is expected of the programs after a fault, in one place; sourced by the tests of faults, here and in the lab.
# shellcheck shell=bash
#
# Whatever happened, a name at the destination is the old version or the new one, whole, and running the command again completes it.

# written_down SOCKET STORE NAME: how many bytes of an unfinished put to that name its journal has, as the store tells it.
written_down() {
	local list bytes

	list=$("$FMOVE_BIN/fmove" --socket "$1" ls --partial --json "$2") || { echo "ls --partial $2: $list" >&2; return 1; }
	bytes=$(grep -o "\"name\":\"$3\"[^}]*" <<< "$list" | json size) || true
	echo "${bytes:-0}"
}

# resumed_at_least LEAST: the JSON result of a rerun stands on standard input. LEAST bytes had been written down in the journal of the first run.
# Prints how much was spared.
resumed_at_least() {
	local spared

	spared=$(json resumed_bytes)
	echo "${spared:-0}"
	((${spared:-0} >= $1)) || { echo "spared ${spared:-no} bytes, where the journal has $1" >&2; return 1; }
}

# no_partial DIR...: nothing half-done is left there, once the rerun is done. A tree that was replaced stays for a while, and the manifest of a tree with it, by design.
no_partial() {
	local left

	left=$(find "$@" -name '.fmove*' ! -name '.fmove*.old' ! -name '.fmove.*.manifest' ! -name '.fmove.held.*' ! -name '.fmove.kept.*' -prune 2>/dev/null | head -n 5)
	[ -z "$left" ] || { echo "left behind: $left" >&2; return 1; }
}
