#!/bin/bash
# Goal:   who is refused by the peer since the memory for directories is taken there waits for it, as who finds no place does.
# Method: slow puts of directories take all the memory that n2, which has little, gives one peer, until one more says that it waits. It goes
#         on when the others end.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF='jobs = { running = 64; };'
TRIES=24			# more than n2 has memory for
up 2
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
sed -i 's/^memory = .*/memory = { arena = "16MiB"; slab = "4MiB"; total = "128MiB"; };/' "$dir/c/n2/fmove.conf"
"$FM_SOURCE/tests/cluster" start "$dir/c" n2
reachable 2
mkdir slow small
random 5000000 slow/a
random 3000 small/a

one_waits() {
	grep -q 'waiting: n2: .*memory for directories' "$@"
}

are_copying() {
	[ "$(fmove status --json | grep -o '"state":"copying"' | wc -l)" -ge "$1" ]
}

# It copies, or waits, or has ended: then it did not wait.
is_settled() {
	are_copying "$1" || one_waits slow*.err || ! kill -0 "${pids[-1]}"
}

pids=()
for ((i = 0; i < TRIES; i++)); do
	fmove put -r --limit 1kB/s slow "n2:s/slow$i" >/dev/null 2>"slow$i.err" &
	pids+=($!)
	await is_settled $((i + 1)) || bad "put $i neither copies nor waits: $(cat "slow$i.err") $(fmove status)"
	! one_waits "slow$i.err" || break
done
one_waits slow*.err || { bad "$TRIES puts at once, and none of them waits: $(cat slow*.err)"; exit 1; }
fmove put -r small n2:s/late >late 2>late.err &
late=$!
await one_waits late.err || bad "it does not say that it waits: $(cat late.err)"
kill "${pids[@]}"
wait "${pids[@]}" 2>/dev/null
wait $late || bad "it waited, and failed: $(cat late.err)"
same small/a "$(store 2)/late/a"
