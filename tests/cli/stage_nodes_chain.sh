#!/bin/bash
# Goal:   nodes of which two do not know each other stage together by the one that knows both, and read once; what only that one can reach
#         fails where it is not, with its reason.
# Method: n1 and n3 are peers of n2 and not of each other. Each of them asks.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stage_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; settle = "100ms"; peers = [ "*" ]; };'
up 3

# forget I J: nI has no peer nJ any more.
forget() {
	sed -i "/^\t{ name = \"n$2\"; address/d; s/^\(\t{ name = .* }\),\$/\1/" "$dir/c/n$1/fmove.conf"
	take_over "$1"
}
forget 1 3
forget 3 1
for i in 1 3; do
	at $i status --json >out
	! grep -q "\"name\":\"n$((4 - i))\"" out || bad "n$i knows n$((4 - i)): $(<out)"
done

make() {
	mkdir "$(store "$1")/$2"
	random 3000000 "$(store "$1")/$2/f"
}
make 2 set
settled at 2 stage --json --nodes all n2:s/set || bad "n2, of its own: $(cat out err)"
for i in 1 2 3; do
	cmp "$(store 2)/set/f" "$(path_of $i out)/f" || bad "n$i: set differs: $(<out)"
done
[ "$(json source_bytes out)" = 3000000 ] || bad "n2 read: $(<out)"

# Each lists the source by itself, so the node that has it must be a peer of each.
make 1 other
settled at 2 stage --nodes all n1:s/other
[ $? -eq 3 ] && grep -q '2 of 3 nodes have it' err && grep -q 'n3: failed: no node n1 in the configuration of n3' err || bad "n2, of n1: $(cat out err)"
no 1 'there is no node "n3"; fmove status lists the peers of this one' at 1 stage --nodes n1,n3 n2:s/set

# Two that do not know each other ask at once: two runs, and both have it.
make 2 third
at 3 stage --json --nodes n2,n3 n2:s/third >out.3 2>err.3 &
at 1 stage --json --nodes n1,n2 n2:s/third >out.1 2>err.1 || bad "n1: $(cat out.1 err.1)"
wait $! || bad "n3: $(cat out.3 err.3)"
for i in 1 3; do
	cmp "$(store 2)/third/f" "$(path_of $i out.$i)/f" || bad "n$i: third differs: $(<out.$i)"
done
read=$(($(json source_bytes out.1) + $(json source_bytes out.3)))
[ "$read" -ge 3000000 ] && [ "$read" -le 6000000 ] || bad "both read $read bytes of 3000000"
exit
