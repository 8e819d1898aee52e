#!/bin/bash
# Goal:   a request for itself of a node that makes room for longer than a run collects requests is answered: the run waits for it.
# Method: the cache of the node that asks takes two seconds for that, once; settle is the least there may be. First the node reads its own
#         shared store, then it takes what another one has.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stage_lib.sh"
export FM_CLUSTER_CONF=$'memory = { arena = "64MiB"; };\nstaging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; settle = "100ms"; peers = [ "*" ]; };'
up 2

# late I: the cache of nI is, once.
late() {
	"$FM_SOURCE/tests/cluster" stop "$dir/c" "n$1"
	FMOVE_FAULT=cache.fetch:1+2 start_again "n$1"
	reachable 2
}

sed -i "s|directory = \"$(store 1)\";|&\nshared = \"nfs1\";|" "$dir/c/n1/fmove.conf"
for i in 1 2; do
	mkdir "$(store 1)/set$i"
	random 30000 "$(store 1)/set$i/f"
	late $i
	at $i stage n1:s/set$i >out 2>err || bad "n$i: $(cat err)"
	grep -q '^fault: cache.fetch is late' "$dir/c/n$i/log" || bad "n$i was not late"
	is_copy set$i "$(cat out)"
done
exit
