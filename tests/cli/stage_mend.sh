#!/bin/bash
# Goal:   fmove datasets check brings damaged chunks again from the source, for who reads the file meanwhile, too, and only if they are right.
# Method: bytes of a copy are changed behind the daemon's back with the time put back: of trees and files, of this node and of another, and of
#         a blob of a hub. Somebody has the file open. A source that is away mends nothing.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; grace = "0s"; };'
export FM_CLUSTER_STORE='layout = "hf";'
up 2

for i in 1 2; do
	mkdir -p "$(store $i)/set/d"
	random 9000000 "$(store $i)/set/d/large"
	random 5000 "$(store $i)/set/small"
	random 5000000 "$(store $i)/file"
done

for i in 1 2; do
	data=$(fmove stage --as set$i n$i:s/set 2>err) || bad "stage: $(cat err)"
	file=$(fmove stage --as file$i n$i:s/file 2>err) || bad "stage: $(cat err)"
	before=$(stat -c '%a %y' "$data/d/large")
	exec 5<"$data/d/large"
	spoil "$data/d/large" 10
	spoil "$data/d/large" 8500000
	spoil "$data/small" 100
	spoil "$file" 4999999
	ok fmove datasets check set$i
	[ "$(wc -l <out)" -eq 3 ] && grep -qx "corrupt: d/large at byte 8,388,608, 611,392 bytes, mended from n$i" out || bad "n$i, what: $(cat out)"
	grep -q "set$i: 3 places were damaged, and came again" err || bad "n$i says: $(cat err)"
	ok fmove datasets check --json file$i
	grep -qF '"offset":4194304,"length":805696,"mended":true,"from":"n'$i'"' out || bad "n$i, a file: $(cat out)"
	diff -r "$(store $i)/set" "$data" && cmp "$(store $i)/file" "$file" || bad "n$i: it is not mended"
	cmp "$(store $i)/set/d/large" - <&5 || bad "n$i: who has it open reads something else"
	[ "$(stat -c '%a %y' "$data/d/large")" = "$before" ] || bad "n$i: $(stat "$data/d/large"), it was $before"
	fmove datasets | grep -q "checked $(date +%Y).* set$i " || bad "n$i: it is not said: $(fmove datasets)"
	ok fmove datasets check set$i
	[ ! -s out ] || bad "n$i: again: $(cat out)"
done
# Two at once: each ends well, and the file is what it was.
data=$(fmove stage --as set2 n2:s/set 2>err) || bad "stage: $(cat err)"
before=$(stat -c '%a %y' "$data/d/large")
for at in 10 4200000 8500000; do
	spoil "$data/d/large" $at
done
fmove datasets check set2 >out.2 2>&1 &
ok fmove datasets check set2
wait $! || bad "the other one of two: $(cat out.2)"
cmp "$(store 2)/set/d/large" "$data/d/large" || bad "two at once: it is not mended"
[ "$(stat -c '%a %y' "$data/d/large")" = "$before" ] || bad "two at once: $(stat "$data/d/large"), it was $before"
[ -z "$(find "$dir/c/n1/cache" -name '*.part*')" ] || bad "something stays: $(find "$dir/c/n1/cache")"

# Of a file of another node only what is damaged comes: that is what there is room for.
random 60000000 "$(store 2)/long"
data=$(fmove stage --as long n2:s/long 2>err) || bad "stage: $(cat err)"
spoil "$data" 10
spoil "$data" 59000000
ok fmove datasets check long
for part in 4194304 1279744; do
	is_logged "get of n2:s for n1 is done: $part bytes" "$dir/c/n2/log" || bad "it fetched something else: $(grep 'get of n2:s' "$dir/c/n2/log")"
done
cmp "$(store 2)/long" "$data" || bad "it is not mended"

# The source is shorter by now: what it has still comes.
spoil "$data" 10
spoil "$data" 59000000
truncate -s 50000000 "$(store 2)/long"
fmove datasets check long >out 2>err
[ $? -eq 5 ] && [ "$(grep -c ', mended from n2$' out)" -eq 1 ] && grep -qx 'corrupt: long at byte 58,720,256, 1,279,744 bytes' out ||
	bad "shorter: $(cat out err)"

# What a check fetches ends with the one who asked for it: the next one does not wait for the rest.
random 60000000 "$(store 2)/longer"
data=$(fmove stage --as longer n2:s/longer 2>err) || bad "stage: $(cat err)"
for ((at = 10; at < 50000000; at += 4194304)); do
	spoil "$data" $at
done
slow 2
is_fetching() {
	fmove status --json | grep -q '"state":"copying"'
}
have_ended() {
	[ "$(grep -cE 'check of longer (ended|is done)' "$dir/c/n1/log")" -eq "$try" ]
}
# It may have been between two chunks just then.
for try in 1 2 3; do
	fmove datasets check longer >out.long 2>&1 &
	await is_fetching || bad "nothing is fetched: $(fmove status; cat out.long)"
	kill $!
	await have_ended || bad "the check goes on: $(fmove status)"
	grep -q 'get of n2:s for n1 ended: .*the check was ended' "$dir/c/n1/log" && break
done
[ $? -eq 0 ] || bad "no fetch was ended: $(grep 'get of n2:s' "$dir/c/n1/log")"
fast 2
ok fmove datasets check longer
cmp "$(store 2)/longer" "$data" || bad "it is not mended after a check that was ended"

# A blob of a hub.
commit=$(sha1sum <<<one | cut -c 1-40)
hub=$(store 2)/models--org--m
mkdir -p "$hub/blobs" "$hub/snapshots/$commit" "$hub/refs"
random 300000 new
sum=$(sha256sum <new | cut -c 1-64)
mv new "$hub/blobs/$sum"
ln -s "../../blobs/$sum" "$hub/snapshots/$commit/model"
printf %s "$commit" >"$hub/refs/main"
path=$(fmove stage hf:org/m 2>err) || bad "a hub: $(cat err)"
spoil "$(readlink -f "$path/model")" 1000
ok fmove datasets check models--org--m
grep -q "^corrupt: models--org--m/blobs/$sum at byte 0, 300,000 bytes, mended from n2$" out || bad "of a hub: $(cat out)"
cmp "$hub/blobs/$sum" "$path/model" || bad "a blob is not mended"

# The source is away, then back.
data=$(fmove stage --check none --as set2 n2:s/set 2>err) || bad "stage: $(cat err)"
spoil "$data/small" 100
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
fmove datasets check set2 >out 2>err
[ $? -eq 5 ] && grep -qx 'corrupt: small at byte 0, 5,000 bytes' out || bad "without its source: $(cat out err)"
grep -q 'set2: 1 places were not as its manifest says: .*n2.*; fmove unstage' err || bad "it says: $(cat err)"
start_again n2
reachable 2
ok fmove datasets check set2
cmp "$(store 2)/set/small" "$data/small" || bad "it is not mended afterwards"
exit
