#!/bin/bash
# Goal:   a single file of a shared store that cannot come together with others is copied by this node alone, and the daemon keeps nothing open of it.
# Method: one daemon, whose cache is said to take names that differ in case for one (a fault point). The files that it has open in its cache are counted
#         before and after.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; grace = "0s"; peers = [ "*" ]; };'
export FM_CLUSTER_STORE='shared = "nfs1";'
up 1
random 3000001 "$(store 1)/model"

# opened: how many names in the cache the daemon has open.
opened() {
	local fd to count=0

	for fd in "/proc/$(cat "$dir/c/n1/pid")/fd/"*; do
		to=$(readlink "$fd")
		[[ $to = $dir/c/n1/cache/?*/* ]] && ((count++))
	done
	echo "$count"
}

is_as_before() {
	[ "$(opened)" -le "$before" ]
}

"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
FMOVE_FAULT=stage.folded:1 "$FM_SOURCE/tests/cluster" start "$dir/c" n1 || bad "n1 does not start"
reachable 1
before=$(opened)
fmove stage s/model -- true >out 2>err || bad "alone: $(cat err)"
grep -q 'fault: stage.folded fails' "$dir/c/n1/log" || bad "it was not tried together: $(cat "$dir/c/n1/log")"
fmove stage s/model >out 2>err && cmp "$(store 1)/model" "$(cat out)" || bad "it is not what the source is: $(cat out err)"
await is_as_before || bad "$(opened) files of the cache are open, before: $before: $(ls -l "/proc/$(cat "$dir/c/n1/pid")/fd")"
exit
