#!/bin/bash
# Goal:   a peer that changes a pack while it is applied writes nowhere but into its own tree, and loses its connection.
# Method: slot_peer.c, with a key that n1 knows; what is outside of the store is compared.
. "$(dirname "$0")/lib.sh"
# Slots enough to have several chunks of one pack under way, and as many slabs as by default.
export FM_CLUSTER_CONF='memory = { slab = "16MiB"; arena = "128MiB"; };'
up 2
node=$dir/c/n1
key=$(fmove keygen own.key)
sed -i "s|^peers = (\$|&\\n\\t{ name = \"slots\"; address = \"127.0.0.1:1\"; key = \"$key\"; },|" "$node/fmove.conf"
take_over 1
port=$(sed -n 's/.*listen = ".*:\([0-9]*\)";/\1/p' "$node/fmove.conf")
outside() {
	find "$dir/c" -path "$(store 1)" -prune -o -path "$node/state" -prune -o -print | sort
}
outside >before

said=$(timeout $HANG_S slot_peer own.key 127.0.0.1 "$port" "$(fmove keygen --show "$node/node.key")" tcp 20) || bad "slot_peer: $said"
ended=${said%% *}
[ "${ended:-0}" -gt 0 ] || bad "a slot in use was written to, and the connection went on: $said"
is_logged 'slot that is in use' "$node/log" || bad "the log does not say why: $(tail -n 3 "$node/log")"
outside >after
cmp -s before after || bad "written outside the store: $(diff before after | head -n 3)"
find "$(store 1)" \( -name 'out.*' ! -path '*.tree/*' \) -o -name 'z[0-9]*' >out
[ ! -s out ] || bad "written outside the tree, or what its CRC did not say: $(head -n 3 out)"
[ -d "$(store 1)/t2/a000" ] || bad "the tree was not published when all of it came"

# Everybody else goes on.
use 2
random 100000 f
ok fmove put f n1:s/f
same f "$(store 1)/f"
