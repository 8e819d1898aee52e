#!/bin/bash
# Goal:   a file, and a directory in its place that holds just that file, are two datasets: none is the answer for the other, whichever came first,
#         alone and with --nodes, also where the first one came and was not READY yet.
# Method: two real daemons. mv alone makes one of the other: name, size and time of the file stay, so both have one listing.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stage_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; grace = "0s"; peers = [ "*" ]; };'
up 2

# turn I PATH: a file of nI's store becomes a directory of that name with the file in it, or that directory the file.
turn() {
	local at
	at=$(store "$1")/$2

	if [ -d "$at" ]; then
		mv "$at" "$at.x" && mv "$at.x/${at##*/}" "$at" && rmdir "$at.x"
	else
		mv "$at" "$at.x" && mkdir "$at" && mv "$at.x" "$at/${at##*/}"
	fi || bad "turn $at"
}

# is_source PATH I SOURCE WHICH: it is what nI's store has, of the same kind.
is_source() {
	local from
	from=$(store "$2")/$3

	if [ -d "$from" ]; then
		[ -d "$1" ] && diff -r "$from" "$1"
	else
		[ -f "$1" ] && cmp "$from" "$1"
	fi || bad "$4: \"$1\" is not $from: $(cat out err)"
}

# alone I PATH
alone() {
	fmove stage "n$1:s/$2" >out 2>err || bad "alone: $(cat err)"
	is_source "$(cat out)" "$1" "$2" alone
}

# together PATH
together() {
	settled fmove stage --nodes all --json "n2:s/$1" || bad "together: $(cat out err)"
	is_source "$(path_of 1 out)" 2 "$1" n1
	is_source "$(path_of 2 out)" 2 "$1" n2
}

# Of each both ways, and back to what is here then.
for i in 1 2; do
	random 3000001 "$(store $i)/model"
	for round in 1 2 3; do
		alone $i model
		turn $i model
	done
done
random 3000001 "$(store 2)/many"
for round in 1 2 3; do
	together many
	turn 2 many
done

# It came, and failed before it was READY at n1; then the source is the other kind.
random 3000001 "$(store 2)/late"
for round in 1 2; do
	touch -d "@$round" "$(find "$(store 2)/late" -type f)"
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
	FMOVE_FAULT=stage.manifest_copy:1 "$FM_SOURCE/tests/cluster" start "$dir/c" n1 || bad "n1 does not start"
	reachable 2
	settled fmove stage --nodes all --json n2:s/late
	[ $? -eq 3 ] && grep -q 'n1: failed' err || bad "it did not fail: $(cat out err)"
	turn 2 late
	together late
done
exit
