#!/bin/bash
# Goal:   a peer that is down, hangs, comes back or has another key: one line and status 4 (or 6), and everything works again afterwards.
# Method: stop, freeze, kill and re-key the other node.
. "$(dirname "$0")/lib.sh"
# The first time, who is silent is not lost for long: what ends must end for another reason.
export FM_CLUSTER_CONF='mover = { stall_timeout = "10min"; };'
up 2
random 3000000 f

works_again() {
	await fmove put -q -f f n2:s/again || bad "does not work again: $(fmove put -f f n2:s/again 2>&1)"
	same f "$(store 2)/again"
}

# Down.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2 || bad "n2 does not stop"
no 4 'n2' fmove put f n2:s/x
no 4 'n2' fmove get n2:s/x x
no 4 'n2' fmove ls n2:s
fmove status >out
grep -q 'n2.*not connected' out || bad "status does not say that n2 is down: $(cat out)"
start_again n2
works_again

# Frozen: it keeps its connections and says nothing.
kill -STOP "$(cat "$dir/c/n2/pid")"
no 4 'n2|tim' timeout $HANG_S fmove put --timeout 2s f n2:s/x
kill -CONT "$(cat "$dir/c/n2/pid")"
idle
[ -e "$(store 2)/x" ] && bad "what timed out was put all the same"
works_again

# The second time its silence is what is noticed.
sed -i 's/10min/3s/' "$dir"/c/n?/fmove.conf
for node in n1 n2; do
	"$FM_SOURCE/tests/cluster" stop "$dir/c" $node || bad "$node does not stop"
	start_again $node
done
works_again
kill -STOP "$(cat "$dir/c/n2/pid")"
no 4 'n2' timeout $HANG_S fmove ls n2:s
kill -CONT "$(cat "$dir/c/n2/pid")"
works_again

# Killed in the middle of a transfer.
fmove put --limit 50kB/s f n2:s/killed 2>err &
pid=$!
moved killed 0
kill -KILL "$(cat "$dir/c/n2/pid")"
wait $pid
[ $? -eq 4 ] || bad "a peer that was killed: $(cat err)"
[ "$(wc -l <err)" -eq 1 ] || bad "a peer that was killed: $(cat err)"
[ -e "$(store 2)/killed" ] && bad "half a file was published"
await test -s "$dir/c/n2/exit" || bad "n2 does not end"
"$FM_SOURCE/tests/cluster" start "$dir/c" n2 || bad "n2 does not start after it was killed"
works_again

# Another key: n1 knows n2 by its old one.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2 || bad "n2 does not stop"
mv "$dir/c/n2/node.key" "$dir/c/n2/old.key"
fmove keygen "$dir/c/n2/node.key" >/dev/null || bad "keygen"
"$FM_SOURCE/tests/cluster" start "$dir/c" n2 || bad "n2 does not start with another key"
# n1 may not have heard yet that there is somebody again.
says_key() {
	fmove put f n2:s/x >out 2>err
	status=$?
	grep -q key err
}
await says_key
[ $status -eq 4 ] || [ $status -eq 6 ] || bad "a peer with another key: $status"
[ "$(wc -l <err)" -eq 1 ] && grep -q key err || bad "a peer with another key: $(cat err)"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2 || bad "n2 does not stop"
mv -f "$dir/c/n2/old.key" "$dir/c/n2/node.key"
"$FM_SOURCE/tests/cluster" start "$dir/c" n2 || bad "n2 does not start with its own key"
works_again
