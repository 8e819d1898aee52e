#!/bin/bash
# Goal:   a node that has the dataset and cannot open it at first for a run of several nodes says that it has it all the same: nobody waits for
#         ever, and nothing is held afterwards. Long paths of copies are told.
# Method: both nodes have it. A daemon is started anew with that call failing once; the request again ends, and both can unstage it.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stage_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };'
up 2

mkdir "$(store 2)/set"
random 30000 "$(store 2)/set/f"
ok fmove stage --nodes all n2:s/set -- true
for node in 1 2; do
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n$node
	FMOVE_FAULT=stage.ready:1 start_again n$node
	reachable 2
	timeout "$HANG_S" fmove stage --nodes all n2:s/set -- true >out 2>err || bad "n$node: $(cat err)"
	grep -q '2 of 2 nodes have it; 0 B read from the source' err || bad "n$node, it says: $(cat err)"
	is_logged '^fault: stage.ready' "$dir/c/n$node/log" || bad "n$node: the call did not fail"
done

# A path of more than 255 bytes is told as any, of both nodes.
long=$(printf 'l%.0s' {1..240})
mkdir "$(store 2)/other"
random 30 "$(store 2)/other/f"
use 1
ok fmove stage --json --nodes all --as "$long" n2:s/other
for node in 1 2; do
	path=$(path_of $node out)
	[ "${#path}" -gt 300 ] && cmp -s "$path/f" "$(store 2)/other/f" || bad "n$node: the path is \"$path\": $(<out)"
done
ok fmove stage --nodes all n2:s/other -- sh -c 'test ${#FMOVE_STAGED} -gt 300 && test -s "$FMOVE_STAGED/f"'
for node in 1 2; do
	use $node
	await fmove unstage set || bad "n$node holds it: $(fmove datasets)"
done
exit
