#!/bin/bash
# Goal:   a read of the source that never ends keeps nobody who waits for what all nodes have: others read that part, and the command ends.
# Method: two nodes have one shared store. The first read of n1 takes longer than anybody waits here.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stage_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };'
export FM_CLUSTER_STORE='shared = "nfs1";'
up 2

sed -i "s|directory = \"$(store 2)\"|directory = \"$(store 1)\"|" "$dir/c/n2/fmove.conf"
for i in 1 2; do
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n$i
done
start_again n2
FMOVE_FAULT=stage.read_extent:1+3600 start_again n1
reachable 2
mkdir "$(store 1)/set"
random 3000000 "$(store 1)/set/f"
truncate -s 40000000 "$(store 1)/set/g"

timeout $HANG_S fmove stage --nodes n1,n2 --json s/set >out 2>err || bad "it does not end, or not well: $(cat out err)"
for i in 1 2; do
	is_copy set "$(path_of $i out)"
done
is_logged '^fault: stage.read_extent is late' "$dir/c/n1/log" || bad "n1 has read nothing"
# The run is not forgotten before that: what it reads into is still there. Another one of the same goes on beside it.
await fmove unstage set || bad "n1 keeps it: $(fmove unstage set 2>&1)"
timeout $HANG_S fmove stage --nodes n1,n2 --json s/set >out 2>err || bad "again: $(cat out err)"
is_copy set "$(path_of 1 out)"
crash n1	# it would wait for that read
start_again n1
exit
