#!/bin/bash
# Goal:   what a user may not hold is not fetched for him: neither here nor on the nodes that he names, nor does anything go for it.
# Method: a small quota; a user who has some of it asks for more than the rest, by himself, detached, and on several nodes. Root has none.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'memory = { arena = "64MiB"; };\nstaging = { directory = "@NODE@/cache"; size = "20MiB"; grace = "0s"; user_quota = "10MiB"; peers = [ "*" ]; };'
up 2
need_nobody
chmod 755 "$dir/c" "$dir/c/n1" "$dir/c/n2"
for i in 1 2 3; do
	mkdir "$(store 2)/set$i"
	random 7000000 "$(store 2)/set$i/f"
done

ok fmove stage n2:s/set1 -- true
# shellcheck disable=SC2016
as_nobody sh -c 'fmove stage n2:s/set2 >&2 && ! fmove stage n2:s/set3 && ! fmove stage --detach n2:s/set3 && ! fmove stage --pin n2:s/set3
	! fmove stage --nodes all n2:s/set3' >out 2>err || bad "more than his quota comes: $(cat out err)"
[ "$(grep -c 'you hold and pin 6 MiB, set3 has 6 MiB, and staging.user_quota is 10 MiB' err)" -ge 3 ] || bad "it says: $(cat err)"
no 6 'staging.user_quota is 10 MiB' as_nobody fmove stage n2:s/set3 -- true
fmove datasets >out
grep -q ' set3 ' out && bad "it came all the same: $(cat out)"
grep -q '^ready .* set1 ' out || bad "root's went for it: $(cat out)"

# What is more than his quota comes on no node.
mkdir "$(store 2)/large"
random 11000000 "$(store 2)/large/f"
as_nobody fmove stage --nodes all n2:s/large >out 2>err && bad "a large one comes: $(cat out err)"
for i in 1 2; do
	grep -q "^fmove: n$i: failed: .*staging.user_quota" err || bad "of n$i it says: $(cat err)"
	use $i
	fmove datasets | grep large && bad "n$i has it: $(fmove datasets)"
done
use 1
ok fmove stage n2:s/large -- true
exit
