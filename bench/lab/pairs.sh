# SPDX-License-Identifier: MIT
# pairs.sh - two rates in turn, inside a guest; sourced by the scripts beside it.
# shellcheck shell=bash

# in_turn NAME COUNT OURS THEIRS: run the two functions alternately, whichever came second first the next time. Each
# prints a rate, or several numbers; both stand in a line "pair NAME", which bench/run reads.
in_turn() {
	local name=$1 count=$2 i ours theirs

	for ((i = 0; i < count; i++)); do
		if ((i % 2)); then
			ours=$("$3")
			theirs=$("$4")
		else
			theirs=$("$4")
			ours=$("$3")
		fi
		say "pair $name $ours $theirs"
	done
}
