# SPDX-License-Identifier: MIT
# expect.sh - what is expected of the programs after a fault, in one place; sourced by the tests of faults, here and in the lab.
# shellcheck shell=bash
#
# Whatever happened, a name at the destination is the old version or the new one, whole, and running the command again completes it.
# What a build of fmove cannot do yet is asked here and nowhere else.

# can resume|trees|failover|verify: whether the programs under test can do that. FM_CAN overrides: a list of these words.
can() {
	case " ${FM_CAN-unset} " in
	*" $1 "*)	return 0 ;;
	" unset ")	;;
	*)		return 1 ;;
	esac
	case $1 in
	resume|failover)	"$FMOVE_BIN/fmove" resume --help > /dev/null 2>&1 ;;
	trees)			"$FMOVE_BIN/fmove" put --help 2>/dev/null | grep -q -- '-r' ;;
	verify)			"$FMOVE_BIN/fmove" verify --help > /dev/null 2>&1 ;;
	esac
}

# sync_ms DIR BYTES: how long it takes just now to bring that many to the disk.
sync_ms() {
	local begin=${EPOCHREALTIME/[.,]/}

	head -c "$2" /dev/zero > "$1/probe"
	sync -d "$1/probe"
	rm "$1/probe"
	echo $(((${EPOCHREALTIME/[.,]/} - begin) / 1000))
}

# resumed_enough KNOWN RATE FLIGHT SYNC_MS: the JSON result of a rerun stands on standard input. KNOWN bytes had been acknowledged when the first
# run was stopped, at RATE bytes a second. A journal may be a second behind and as long as a sync takes, for which three of those measured
# are granted; FLIGHT is what buffers hold. Prints how much was spared.
resumed_enough() {
	local known=$1 rate=$2 flight=$3 sync_ms=$4 spared least

	spared=$(json resumed_bytes)
	echo "${spared:-0}"
	can resume || return 0
	least=$((known - rate * (1000 + 3 * sync_ms) / 1000 - flight))
	((${spared:-0} >= least)) ||
		{ echo "spared ${spared:-no} bytes of $known, where $least is the least" >&2; return 1; }
}

# resumed_at_least LEAST: the JSON result of a rerun stands on standard input. LEAST bytes were written down in the journal that the first run
# left. Prints how much was spared.
resumed_at_least() {
	local spared

	spared=$(json resumed_bytes)
	echo "${spared:-0}"
	can resume || return 0
	((${spared:-0} >= $1)) || { echo "spared ${spared:-no} bytes, where the journal has $1" >&2; return 1; }
}

# no_partial DIR...: nothing half-done is left there, once the rerun is done. A tree that was replaced stays for a while, by design.
no_partial() {
	local left

	left=$(find "$@" -name '.fmove*' ! -name '.fmove*.old' -prune 2>/dev/null | head -n 5)
	[ -z "$left" ] || ! can resume || { echo "left behind: $left" >&2; return 1; }
}
