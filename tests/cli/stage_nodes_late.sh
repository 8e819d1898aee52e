#!/bin/bash
# Goal:   a request for itself of a node that makes room for longer than a run collects requests is answered: the run waits for it.
# Method: the cache of the node that asks takes two seconds for that, once; settle is the least there may be. First the node reads its own
#         shared store, then it takes what another one has. At last one reads its own for another one, which is sent it slowly, and is
#         ready to keep it itself while that goes on: it is not read again.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stage_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; settle = "100ms"; peers = [ "*" ]; };'
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
	is_logged '^fault: cache.fetch is late' "$dir/c/n$i/log" || bad "n$i was not late"
	is_copy set$i "$(cat out)"
done

mkdir "$(store 1)/set3"
random 8000000 "$(store 1)/set3/f"
# What one of them sends from its disk at a time is its own.
sed -i 's|settle = "100ms"|&; upload_slots = 1|; s|^mover = {|& rate_limit = "1MiB/s";|' "$dir/c/n1/fmove.conf"
late 1
at 2 stage --json --nodes all n1:s/set3 >out 2>err || bad "all: $(cat err)"
for i in 1 2; do
	is_copy set3 "$(path_of $i out)"
done
[ "$(read_of 1)" = 8000000 ] || bad "n1 read $(read_of 1) bytes"
exit
