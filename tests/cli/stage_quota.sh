#!/bin/bash
# Goal:   what a user may not hold is not fetched for him: neither here nor on the nodes that he names, nor does anything go for it.
# Method: a small quota; a user who has some of it asks for more than the rest, by himself, detached, and on several nodes; and
#         when a fetch of his has failed. Root has none.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "20MiB"; grace = "0s"; user_quota = "10MiB"; peers = [ "*" ]; };'
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

# What comes for him is no more than his quota either: what a fetch that failed left goes for what he asks for next.
mkdir "$(store 2)/set4"
random 7000000 "$(store 2)/set4/f"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
sed -i 's|size = "20MiB"|size = "90MiB"|' "$dir/c/n1/fmove.conf"	# where nothing goes for room
FMOVE_FAULT=stage.manifest_copy:1 start_again n1
reachable 2
as_nobody fmove stage n2:s/set4 >out 2>err && bad "its manifest was to fail: $(cat out)"
fmove datasets | grep -q '^partial .* set4 ' || bad "nothing is left of what failed: $(cat err; fmove datasets)"
# What he waits for already is not another one.
as_nobody fmove stage --detach n2:s/set3 >out 2>err && as_nobody fmove stage n2:s/set3 >out 2>err || bad "the next one: $(cat err)"
fmove datasets | grep ' set4 ' && bad "what failed stays"

# Who waits for what he began may have it, if he may not: alone, and of several nodes. The cache is late for what he has, so that both
# of his begin.
for i in 5 6; do
	mkdir "$(store 2)/set$i"
	random 7000000 "$(store 2)/set$i/f"
done
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
FMOVE_FAULT=cache.fetch:1+3 start_again n1
reachable 2
as_nobody fmove stage --detach n2:s/set5 >out 2>err && as_nobody fmove stage --detach n2:s/set6 >out 2>err || bad "his two: $(cat err)"
fmove stage n2:s/set6 -- true >out1 2>err1 &
alone=$!
fmove stage --nodes n1 n2:s/set6 >out2 2>err2 &
several=$!
wait $alone || bad "root, who waited for what nobody may have: $(cat err1)"
wait $several || bad "root, with --nodes: $(cat err2)"
exit
