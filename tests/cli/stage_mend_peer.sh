#!/bin/bash
# Goal:   fmove datasets check brings damaged chunks again from a node that has the dataset, too, when the source cannot give them, and only from
#         nodes of staging.peers; what they are read through is named by no user. All nodes log it under one id, which the command says.
# Method: n1 and n3 stage from n2, n4 does so alone. The source goes away, comes back with other bytes; copies are damaged behind the daemons'
#         backs, at n3 at the same place, too; rules forbid it; n3 is away.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
. "$(dirname "$0")/stage_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; grace = "0s"; peers = [ "n1", "n2", "n3" ]; };'
export FM_CLUSTER_STORE='layout = "hf";'
up 4

mkdir -p "$(store 2)/set/d" "$(store 3)/own" "$(store 1)/mine"
random 9000000 "$(store 2)/set/d/large"
random 5000 "$(store 2)/set/small"
random 5000000 "$(store 2)/file"
random 5000 "$(store 3)/own/f"
random 5000 "$(store 1)/mine/f"
for what in n2:s/set n1:s/mine; do
	ok settled fmove stage --nodes n1,n3 --pin "$what" -- true
done
ok settled fmove stage --nodes n1,n2,n3 --pin n3:s/own -- true
ok at 3 stage --pin n2:s/file -- true
ok at 4 stage --pin n2:s/set -- true
file=$(fmove stage --pin n2:s/file 2>err) || bad "a file: $(cat err)"
data=$(echo "$dir"/c/n1/cache/ready/*/set) theirs=$(echo "$dir"/c/n3/cache/ready/*/set)
cp -r "$data" right

# n1 has the same bytes of its own store, too, so that its copy has another version than that of n3.
mkdir "$(store 1)/twin" "$(store 2)/twin"
random 5000 "$(store 1)/twin/f"
cp -p "$(store 1)/twin/f" "$(store 2)/twin/f"
touch -r "$(store 1)/twin" "$(store 2)/twin"
ok fmove stage --as ours --pin s/twin -- true
ok settled fmove stage --nodes n1,n3 --pin n2:s/twin -- true
twin=$(echo "$dir"/c/n1/cache/ready/*/twin)
[ "$(basename "$(dirname "$twin")")" != "$(basename "$(dirname "$dir"/c/n3/cache/ready/*/twin)")" ] || bad "both have one version"
rm -r "$(store 2)/twin"
spoil "$twin/f" 9
ok fmove datasets check twin
grep -qx 'corrupt: f at byte 0, 5,000 bytes, mended from n3' out || bad "of copies with two versions: $(cat out)"

# The source is gone. Chunks of a tree, the last one short, and of a file.
mv "$(store 2)/set" "$(store 2)/away"
mv "$(store 2)/file" "$(store 2)/file.away"
before=$(stat -c '%a %y' "$data/d/large")
exec 5<"$data/d/large"
spoil "$data/d/large" 10
spoil "$data/d/large" 8500000
spoil "$data/small" 100
spoil "$file" 4999999
ok fmove datasets check set
[ "$(wc -l <out)" -eq 3 ] && grep -qx 'corrupt: d/large at byte 8,388,608, 611,392 bytes, mended from n3' out || bad "what: $(cat out)"
grep -q 'set: 3 places were damaged, and came again: all' err || bad "it says: $(cat err)"
job=$(sed -n 's/.*manifest says (fmove logs \([a-z2-7]\{8\}\): how)$/\1/p' err)
# logs I TEXT: nI has logged that under its id.
logs() {
	is_logged "job $job: $2" "$dir/c/n$1/log" || bad "n$1 has no line of job $job with \"$2\": $(grep "job $job:" "$dir/c/n$1/log")"
}
logs 1 'check of set for user 0 begins$'
logs 2 'get of n2:s for n1 ended: .*set/'
for i in 1 3; do logs $i 'get of n3:.staging.lent for n1 is done: '; done
logs 1 'hold for user 0 on n3 is done: set$'
logs 3 'hold for user 0 of n1 is done: set$'
logs 1 'check of set: byte 8388608 of d/large came again from n3$'
logs 1 'check of set is done: 3 places were not as its manifest says, 3 are mended$'
ok fmove datasets check --json file
[ "$(json job out)" != "$job" ] && job=$(json job out) && logs 1 'check of file is done: 1 places' || bad "its id: $(cat out)"
grep -qF '"offset":4194304,"length":805696,"mended":true,"from":"n3"' out || bad "a file: $(cat out)"
diff -r right "$data" && cmp "$(store 2)/file.away" "$file" || bad "it is not mended"
cmp right/d/large - <&5 || bad "who has it open reads something else"
[ "$(stat -c '%a %y' "$data/d/large")" = "$before" ] || bad "$(stat "$data/d/large"), it was $before"
lets_go() {
	at 3 datasets --nodes none >held && ! grep -q 'held by n1' held
}
await lets_go || bad "n3 holds it still: $(cat held)"

# It has other bytes by now, which a peer has not.
cp -r "$(store 2)/away" "$(store 2)/set"
flip "$(store 2)/set/small" 7
spoil "$data/small" 100
spoil "$data/d/large" 4200000
ok fmove datasets check set
grep -q '^corrupt: small .*, mended from n3$' out && grep -q '^corrupt: d/large .*, mended from n2$' out || bad "of two: $(cat out)"
diff -r right "$data" || bad "it is not mended"

# n3 is damaged at the first of these places: who was asked is said. The others come.
spoil "$theirs/d/large" 20
spoil "$data/d/large" 10
spoil "$data/d/large" 4200000
spoil "$data/small" 100
rm -r "$(store 2)/set"
fmove datasets check set >out 2>err
[ $? -eq 5 ] && grep -qx 'corrupt: d/large at byte 0, 4,194,304 bytes' out && [ "$(grep -c ', mended from n3$' out)" -eq 2 ] ||
	bad "both damaged: $(cat out err)"
grep -q 'n2: has no copy.*n3: d/large is damaged there, too; fmove unstage set, .* (fmove logs [a-z2-7]*: what was tried)$' err || bad "it says: $(cat err)"
grep -q n4 err && bad "n4 is not in staging.peers: $(cat err)"
grep -q 'n3 sent other bytes of a chunk' "$dir/c/n1/log" || bad "the log does not name n3"

# No user names what peers read (the API: unit.api).
version=$(basename "$(dirname "$theirs")")
no 2 'is not of the form' fmove get "n3:.staging.lent/$version/d/large" got
at 3 status --json | grep -qF '.lent"' && bad "it is listed"

# Of a hub no other node gives bytes: a CRC is less than the hash that is a blob's name.
commit=$(sha1sum <<<one)
commit=${commit:0:40}
hub=$(store 2)/models--org--m
mkdir -p "$hub/blobs" "$hub/snapshots/$commit" "$hub/refs"
random 300000 new
sum=$(sha256sum <new)
sum=${sum:0:64}
mv new "$hub/blobs/$sum"
ln -s "../../blobs/$sum" "$hub/snapshots/$commit/model"
printf %s "$commit" >"$hub/refs/main"
path=$(fmove stage hf:org/m 2>err) || bad "a hub: $(cat err)"
ok at 3 stage hf:org/m
mv "$hub" away
spoil "$(readlink -f "$path/model")" 1000
fmove datasets check models--org--m >out 2>err
[ $? -eq 5 ] && grep -q 'no other node is asked for bytes of a hub' err || bad "of a hub: $(cat out err)"
mv away "$hub"
ok fmove datasets check models--org--m

# n1 may read the store of n3 no more: neither n3 nor n2, which has it, too, and may, gives its copy. What a process of n1 holds at n3 is held no
# longer, since a node reads there what it holds.
sleep infinity &
sleeper=$!
ok settled fmove stage --nodes n1,n3 --hold-pid $sleeper n3:s/own
held_by_n1() {
	at 3 datasets --nodes none >held && grep -q 'held by n1' held
}
await held_by_n1 || bad "n3 does not hold it: $(cat held)"
own=$(echo "$dir"/c/n1/cache/ready/*/own)
sed -i '/^directory = .*\/s";$/a read = [ "peer:n2" ];' "$dir/c/n3/fmove.conf"
kill -HUP "$(cat "$dir/c/n3/pid")"
await grep -q 'reload: store "s" is at' "$dir/c/n3/log" || bad "reload: $(tail -5 "$dir/c/n3/log")"
spoil "$own/f" 1
fmove datasets check own >out 2>err
[ $? -eq 5 ] && grep -q 'own: .*n3.*; no other node is asked for what the source refuses; fmove unstage own' err || bad "by the rules: $(cat out err)"
cmp "$own/f" "$(store 3)/own/f" && bad "it came from somewhere"
await lets_go || bad "n3 holds it still: $(cat held)"
is_logged 'a hold for n1 has ended: n1 may not read store "s" of n3' "$dir/c/n3/log" || bad "n3 does not say so: $(tail -5 "$dir/c/n3/log")"
kill $sleeper
nothing_is_afar() {
	[ -z "$(ls "$dir/c/n1/cache/afar")" ]
}
await nothing_is_afar || bad "n1 holds it still: $(ls "$dir/c/n1/cache/afar")"

# The store of the source is one of this node, and gone.
sed -i 's/^name = "s";/name = "other";/' "$dir/c/n1/fmove.conf"
kill -HUP "$(cat "$dir/c/n1/pid")"
await grep -q 'reload: store "s" is gone' "$dir/c/n1/log" || bad "reload: $(tail -5 "$dir/c/n1/log")"
spoil "$(echo "$dir"/c/n1/cache/ready/*/mine/f)" 4
ok fmove datasets check mine
grep -qx 'corrupt: f at byte 0, 5,000 bytes, mended from n3' out || bad "of a store that is gone: $(cat out)"

# A call fails at a node: the chunk stays as it was or is right, who asked hears of it, and the same again mends it.
start_anew() {
	"$FM_SOURCE/tests/cluster" stop "$dir/c" "n$1"
	env ${2:+"FMOVE_FAULT=$2"} "$FM_SOURCE/tests/cluster" start "$dir/c" "n$1" || bad "n$1 does not start for $2"
	await ready_at_3 || bad "n3 has it no more: $(cat held)"
}
ready_at_3() {
	fmove datasets >held && grep -q 'n2:s/set .*n3 ready' held
}
spoil "$theirs/d/large" 20	# right again, as is this node's
spoil "$data/d/large" 10
for fault in 1:mend.borrow:1 1:stage.afar:2 3:lent.open:1; do
	start_anew "${fault%%:*}" "${fault#*:}"
	spoil "$data/d/large" 10
	fmove datasets check set >out 2>err
	status=$?
	[ $status -eq 5 ] && grep -q 'set: .* places .*; fmove unstage set' err || bad "$fault: $status: $(cat out err)"
	fmove datasets check set >out 2>err || bad "behind $fault: $(cat out err)"
	diff -r right "$data" || bad "$fault: it is not mended"
done

# All are away.
spoil "$data/small" 100
"$FM_SOURCE/tests/cluster" stop "$dir/c" n3
fmove datasets check set >out 2>err
[ $? -eq 5 ] && grep -q 'n3: is away, or says nothing' err || bad "n3 is away: $(cat out err)"
start_again n3

# The daemon stops while other nodes are asked, of which one says nothing.
await ready_at_3 || bad "n3 is not back: $(cat held)"
kill -STOP "$(cat "$dir/c/n3/pid")"
source_has_ended() {
	[ "$(grep -c 'get of n2:s for n1 ended: .*small' "$dir/c/n1/log")" -gt "$before" ]
}
before=$(grep -c 'get of n2:s for n1 ended: .*small' "$dir/c/n1/log")
fmove datasets check set >out 2>err &
asker=$!
await source_has_ended || bad "the source is not asked: $(cat out err)"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
kill -CONT "$(cat "$dir/c/n3/pid")"
wait $asker && bad "it is said to be right: $(cat out err)"
[ "$(cat "$dir/c/n1/exit")" -eq 0 ] || bad "n1 ended with $(cat "$dir/c/n1/exit")"
start_again n1
exit
