#!/bin/bash
# Goal:   that no descriptor is left at either node, when something is opened there, is waited for as a place that is not free.
# Method: the first try to open the partial file, or the caller's once more, fails so, by a fault point.
. "$(dirname "$0")/lib.sh"
up 2

# with_fault NODE POINT: the daemon of that node anew, where the first of those fails with EMFILE.
with_fault() {
	"$FM_SOURCE/tests/cluster" stop "$dir/c" "n$1"
	FMOVE_FAULT=$2:1 start_again "n$1"
	reachable 2
}

random 3000000 f
with_fault 2 partial.open
ok fmove put f n2:s/f
same f "$(store 2)/f"
with_fault 1 queue.dup
ok fmove put f n2:s/g
same f "$(store 2)/g"
