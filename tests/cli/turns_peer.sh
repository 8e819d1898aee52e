#!/bin/bash
# Goal:   who is refused by the peer since no place is free there waits for one, as who is refused by his own node does.
# Method: slow puts of directories take all the places that n2 gives one peer. One more says that it waits, ends when its time is up, and
#         otherwise goes on when the others end.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF='jobs = { running = 64; };'
PLACES=24
up 2
mkdir slow small
random 5000000 slow/a
random 3000 small/a

are_copying() {
	[ "$(fmove status --json | grep -o '"state":"copying"' | wc -l)" -eq "$1" ]
}

pids=()
for ((i = 0; i < PLACES; i++)); do
	fmove put -r --quiet --limit 1kB/s slow "n2:s/slow$i" 2>/dev/null &
	pids+=($!)
done
await are_copying $PLACES || bad "not all of $PLACES are under way: $(fmove status)"
fmove put -r small n2:s/late >late 2>late.err &
late=$!
await grep -q 'waiting: .*places for directories of peers' late.err || bad "it does not say that it waits: $(cat late.err)"
# A busy machine may take longer than that to ask n2; then it says another thing, and has more time.
for limit in 2 8 32 128; do
	fmove put -r --quiet --timeout ${limit}s small n2:s/never 2>err
	status=$?
	grep -q 'not done within the time that --timeout gave' err || break
done
[ $status -eq 4 ] && grep -q "not begun within $limit s: .*places for directories of peers" err || bad "within $limit s: $status, $(cat err)"
are_copying $PLACES || bad "they did not stay: $(fmove status)"
kill "${pids[@]}"
wait "${pids[@]}" 2>/dev/null
wait $late || bad "it waited, and failed: $(cat late.err)"
same small/a "$(store 2)/late/a"
[ ! -e "$(store 2)/never" ] || bad "what was not begun is there"
