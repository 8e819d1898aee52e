#!/bin/bash
# Goal:   a node that stands still for some seconds, as on a machine that is too busy, loses neither its session nor what is
#         under way: a put, a get and a directory complete at their first try.
# Method: n2 knows no address of n1, so n1 dials. SIGSTOP for n2 in the midst of all three, until n1 makes another connection
#         to it; then SIGCONT. The session goes on over whichever of the two is answered first.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF='mover = { stall_timeout = "10min"; rate_limit = "1MiB/s"; };'
up 2

random 5000000 f
random 5000000 "$(store 2)/src"
mkdir tree
split -a 3 -b 30000 <(head -c 3000000 /dev/urandom) tree/f

sed -i 's/\(name = "n1";\) address = "[^"]*";/\1/' "$dir/c/n2/fmove.conf"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
"$FM_SOURCE/tests/cluster" start "$dir/c" n2
reachable 2
log=$dir/c/n1/log
sessions=$(cat "$dir"/c/n?/log | grep -c 'session with n. ended')

fmove put -q f n2:s/put 2>put.err &
put=$!
fmove get -q n2:s/src got 2>get.err &
get=$!
fmove put -r -q tree n2:s/tree 2>tree.err &
tree=$!
for path in put src tree; do
	moved $path 0
done
kill -STOP "$(cat "$dir/c/n2/pid")"
await grep -q 'another connection is made' "$log" || bad "n1 does not notice: $(tail -n 3 "$log")"
kill -CONT "$(cat "$dir/c/n2/pid")"
fast 1
fast 2
wait $put || bad "put: $(cat put.err)"
wait $get || bad "get: $(cat get.err)"
wait $tree || bad "put -r: $(cat tree.err)"
same f "$(store 2)/put"
same "$(store 2)/src" got
diff -r tree "$(store 2)/tree" || bad "the directory differs"
[ "$(cat "$dir"/c/n?/log | grep -c 'session with n. ended')" = "$sessions" ] || bad "the session ended"
no_partials
