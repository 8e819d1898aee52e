#!/bin/bash
# Goal:   who may no longer read a store keeps what came of an interrupted get, and goes on with it once he may again; the line he
#         gets says so.
# Method: a get is killed when its journal has something; then the rule of n2's store changes, twice, by SIGHUP.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_STORE='read = [ "peer:n1" ];'
up 2
node=$dir/c/n2
random 20000000 big
ok fmove put big n2:s/big

# rule PEER: only this one may read; until n2 has taken it over.
rule() {
	lines=$(wc -l <"$node/log")
	sed -i "s/peer:n[0-9]/peer:$1/" "$node/fmove.conf"
	kill -HUP "$(cat "$node/pid")"
	await has_reloaded || bad "n2 does not take over its rule: $(tail -n 3 "$node/log")"
}

has_reloaded() {
	tail -n +$((lines + 1)) "$node/log" | grep -q reloaded
}

fmove get --limit=500kB/s n2:s/big got >out 2>err &
pid=$!
journaled .
kill -KILL $pid
wait $pid 2>/dev/null
ended big

rule n9
for _ in 1 2; do
	fmove get n2:s/big got >out 2>err
	[ $? -eq 6 ] || bad "who may not read it: $(cat out err)"
	ended big
	has_journal . || bad "a refusal took what had come: $(ls -lA)"
done
rule n1
ok fmove get --json n2:s/big got
[ "$(json resumed_bytes out)" -gt 0 ] || bad "it found nothing to go on with: $(cat out)"
same big got
no_partials .
