#!/bin/bash
# Goal:   fmove datasets says what other nodes have of each dataset that is here, of those that stage with this one; one that is silent is named,
#         and not waited for without end; one that does not stage with the asker tells nothing. A local user cannot have it asked what ends sessions.
# Method: three nodes, of which n1 and n2 stage together. n2 has it, lacks it, has a part of it, is stopped, and is away. While it is stopped
#         more ask at once than there are places for.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stage_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "n1", "n2" ]; };'
up 3

# says WHAT [OPTION...]: of the set, n1 says that of the other nodes.
says() {
	local what=$1

	shift
	fmove datasets "$@" >out 2>err && grep -q "n2:s/set  .*elsewhere: $what\$\|n2:s/set  elsewhere: $what\$" out
}

# state I NODE: what nI says in JSON of it.
state() {
	at "$1" datasets --json | grep -o "{\"node\":\"$2\",[^}]*}" >row
	json state row
}

mkdir "$(store 2)/set"
random 30000 "$(store 2)/set/f"
ok fmove stage --detach n2:s/set
await says 'n2 absent' || bad "nobody else has it: $(cat out)"
ok settled fmove stage --nodes n1,n2 n2:s/set -- true
says 'n2 ready' || bad "n2 has it: $(cat out)"
[ "$(state 1 n2)" = ready ] || bad "with --json: $(cat row)"
[ "$(json bytes row)" -ge 30000 ] || bad "its bytes: $(cat row)"
[ "$(state 2 n1)" = ready ] || bad "n2 of n1: $(cat row)"

# Which nodes.
says 'n2 ready, n3 refused' --nodes n2,n3 || says 'n3 refused, n2 ready' --nodes n2,n3 || bad "n3 is not asked: $(cat out)"
ok fmove datasets --nodes none
grep -q elsewhere out && bad "nobody is to be asked: $(cat out)"
ok fmove datasets --nodes n1
grep -q elsewhere out && bad "this node itself: $(cat out)"
no 1 'there is no node "n9"' fmove datasets --nodes n2,n9
ok fmove datasets --quiet
[ "$(cat out)" = set ] || bad "only names: $(cat out)"

# Who is in nobody's list is told nothing.
ok at 3 stage n2:s/set -- true
[ "$(state 3 n1),$(state 3 n2)" = refused,refused ] || bad "n3 is told: $(cat row)"

# What n2 would take for no message at all, and end the session for, which other users have, too: n1 refuses it.
refuses() {	# REQUEST PATTERN
	local asker

	: >held
	"$FMOVE_BIN/hold" "$FMOVE_SOCKET" 1 1 "$1" >held &
	asker=$!
	await test -s held
	kill $asker
	wait $asker 2>/dev/null
	grep -q "$2" held || bad "$1: $(cat held)"
}
for name in '' a/b / ../..; do
	refuses '{"op":"stage","id":#,"node":"n2","store":"'$name'","path":"set"}' 'EINVAL.*is no name of a store'
	refuses '{"op":"stage","id":#,"node":"n2","store":"'$name'","path":"set","check":"none"}' 'EINVAL.*is no name of a store'
done
for name in '' n1:s n2/s hf://n2; do
	refuses '{"op":"stage","id":#,"node":"'$name'","store":"s","path":"set"}' 'EINVAL.*is no name of a node'
done
for op in pin unpin unstage; do
	refuses '{"op":"'$op'","id":#,"name":"","nodes":"n2"}' 'EINVAL.*name: it is empty'
done
says 'n2 ready' || bad "behind what it was not asked: $(cat out)"
grep -h 'broke the protocol' "$dir"/c/n?/log && bad "n1 said to n2 what cannot be"

await at 2 unstage set || bad "n2 keeps it: $(at 2 datasets)"
says 'n2 absent' || bad "n2 has it no more: $(cat out)"

# A node that is stopped, one that is away, and one that is back.
kill -STOP "$(cat "$dir/c/n2/pid")"
# who asks goes away meanwhile, or before: either way the next one is answered
timeout 0.5 fmove datasets >out 2>err
says 'n2 silent' || bad "n2 is stopped: $(cat out)"
# More at once than there are places for. What ends before the last one is asked makes room for it: then once more.
asks_too_much() {
	: >held
	"$FMOVE_BIN/hold" "$FMOVE_SOCKET" 1 200 "$1" >held &
	asker=$!
	await test -s held
	kill $asker
	wait $asker 2>/dev/null
	grep -q "EBUSY.*$2 to other nodes" held
}
await asks_too_much '{"op":"datasets","id":#,"nodes":"all"}' questions || bad "no bound for questions: $(cat held)"
await asks_too_much '{"op":"pin","id":#,"name":"set","nodes":"n2"}' orders || bad "no bound for orders: $(cat held)"
says 'n2 silent' || bad "behind them: $(cat out)"
kill -CONT "$(cat "$dir/c/n2/pid")"
await says 'n2 absent' || bad "n2 goes on: $(cat out)"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
says 'n2 silent' || bad "n2 is away: $(cat out)"
start_again n2
reachable 2
await says 'n2 absent' || bad "n2 is back: $(cat out)"
exit
