#!/bin/bash
# Goal:   what a job stages on several nodes stays on each as long as the job lives, or as it is pinned.
# Method: three nodes, of which n2 has the source, and no copy. A job of n1 holds the copy of n3, over restarts of both daemons; a
#         fault of n3's cache lets its 10 minutes be over.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stage_lib.sh"
need_nobody
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; user_quota = "50MiB"; peers = [ "*" ]; };'
up 3

mkdir "$(store 2)/set" "$(store 2)/other"
random 30000 "$(store 2)/set/f"

# holders I: how many hold the set at nI.
holders() {
	at "$1" datasets --nodes none --json >holders.out && json holds holders.out
}

is_held() {
	[ "$(holders 3)" = "$1" ]
}

none_held() {
	[ "$(holders 1)" = 0 ] && is_held 0
}

# The job's process is of n1, which has no copy itself at first.
sleep infinity &
job=$!
ok settled fmove stage --nodes n3 --hold-pid $job n2:s/set
is_held 1 || bad "n3 does not hold it: $(at 3 datasets)"
at 3 datasets >out
grep -q "held by n1 (uid $(id -u))" out || bad "n3 does not say for whom: $(cat out)"
no 1 'a process on n1 holds it' at 3 unstage set
ok settled fmove stage --nodes n1,n3 --hold-pid $job n2:s/set
is_held 1 || bad "twice is not once: $(at 3 datasets)"
no 1 'processes hold it' fmove unstage set

# n1 is away, and in the end n3 lets go. The job lives: n1 is back, and n3 holds it again.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
no 1 'a process on n1 holds it' at 3 unstage set
"$FM_SOURCE/tests/cluster" stop "$dir/c" n3
start_again n3
no 1 'a process on n1 holds it' at 3 unstage set
"$FM_SOURCE/tests/cluster" stop "$dir/c" n3
FMOVE_FAULT=cache.node_silent:1 start_again n3
await is_held 0 || bad "n3 holds it for ever: $(at 3 datasets)"
start_again n1
await is_held 1 || bad "n1 does not hold it again: $(at 3 datasets)"
kill $job
wait $job 2>/dev/null
await is_held 0 || bad "n3 holds what nobody uses: $(at 3 datasets)"
[ -z "$(ls "$dir/c/n1/cache/afar")" ] || bad "n1 still knows a hold"

# Pins: on all nodes that are named.
ok settled fmove stage --pin --nodes n3,n1 n2:s/set -- true
no 1 'it is pinned' fmove unstage set
no 1 'it is pinned' at 3 unstage set
ok fmove unpin --nodes n1,n3 set
ok fmove pin --nodes n3 set
no 1 'it is pinned' at 3 unstage set
no 3 'n2: no dataset' fmove pin --nodes all set
ok fmove pin --json --nodes n1,n3 set
[ "$(grep -o '{"node":"n[13]"}' out | wc -l)" -eq 2 ] && grep -q '"exit":0' out || bad "the object: $(cat out)"
ok fmove unpin --nodes n3,n1 set
await none_held || bad "held, though the command has ended: $(fmove datasets; at 3 datasets)"
ok fmove unstage --nodes n1,n3 set
no 1 'n3: no dataset that user .* staged on n3 is called "set"' fmove pin --nodes n3 set
no 1 'there is no node "n9"' fmove pin --nodes n9 set
no 2 'an empty list' fmove pin --nodes '' set
no 2 'dry-run is for this node' fmove unstage -n --nodes n3 set
no 2 'nodes is for the list' fmove datasets check set --nodes n3

# Root of another node has no more to say than who staged it.
mkdir "$(store 2)/hers"
random 1000 "$(store 2)/hers/f"
as_nobody env FMOVE_SOCKET="$dir/c/n3/fmoved.sock" "$FMOVE_BIN/fmove" stage n2:s/hers -- true >out 2>err || bad "nobody at n3: $(cat err)"
no 1 'n3: no dataset that user .* staged on n3 is called "hers"' fmove unstage --nodes n3 hers
no 1 'n3: no dataset that user .* staged on n3 is called "hers"' fmove pin --nodes n3 hers
at 3 datasets --quiet | grep -qx hers || bad "root of n1 removed what nobody staged at n3"

# Root of another node has a quota, too: what it may not hold there does not come there.
truncate -s 60000000 "$(store 2)/other/f"
settled fmove stage --pin --nodes n1,n3 n2:s/other
[ $? -eq 3 ] && grep -q 'n3: failed: .*other has 57 MiB.*user_quota' err || bad "over its quota: $(cat err)"
large_at_3() { at 3 datasets | grep -q '^ready .* 60.0 MB .* other '; }
large_at_3 && bad "what n3 may not hold came: $(at 3 datasets)"
# A node that has it and does not keep it counts as one that failed.
ok at 3 stage --detach n2:s/other
await large_at_3 || bad "n3 has not got it: $(at 3 datasets)"
settled fmove stage --pin --nodes n1,n3 n2:s/other
[ $? -eq 3 ] && grep -q 'n3: failed: it is there, but not held: .*user_quota' err || bad "over its quota, and there: $(cat err)"
ok settled fmove stage --nodes n1,n3 --detach n2:s/other
exit
