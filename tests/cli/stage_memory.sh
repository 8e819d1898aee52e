#!/bin/bash
# Goal:   a node whose memory can never have an extent takes no part and says at once what to raise; by itself it fetches it all the same.
#         A source's node with memory for one extent at a time reads each of them once.
# Method: a file that is one extent of 70 MB; first the node that asks has less memory, then the source's. Then three of 60 MB.
. "$(dirname "$0")/lib.sh"
. "$FM_SOURCE/tests/cli/stage_lib.sh"
export FM_CLUSTER_CONF=$'memory = { arena = "64MiB"; total = "512MiB"; };\nstaging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };'
up 2

# with I TOTAL: node nI has that much memory.
with() {
	"$FM_SOURCE/tests/cluster" stop "$dir/c" "n$1"
	sed -i "s/total = \"[0-9]*MiB\"/total = \"$2MiB\"/" "$dir/c/n$1/fmove.conf"
	start_again "n$1"
	reachable 2
}

mkdir "$(store 2)/set"
random 70000000 "$(store 2)/set/large"
with 1 160
fmove stage --nodes all n2:s/set >out 2>err
[ $? -eq 3 ] || bad "n1 has too little memory: $(cat err)"
grep -q 'n1: failed: a part of set with 66 MiB does not fit .* on n1: raise it in its fmove.conf by [0-9]* MiB' err || bad "it says: $(cat err)"
ok fmove stage n2:s/set
cmp "$(store 2)/set/large" "$(fmove stage n2:s/set)/large" || bad "alone it differs"

echo other >"$(store 2)/set/small"
with 1 512
with 2 160
fmove stage --nodes n1 n2:s/set >out 2>err && bad "the source's node has too little memory, and all went well: $(cat err)"
grep -q 'does not fit .* on n2' err || bad "of n2 it says: $(cat err)"
ok fmove stage n2:s/set

mkdir "$(store 2)/three"
for i in 1 2 3; do random 60000000 "$(store 2)/three/large$i"; done
with 2 200
fmove stage --nodes n1 n2:s/three >out 2>err || bad "with memory for one extent: $(cat err)"
diff -r "$(store 2)/three" "$(fmove stage n2:s/three)" >&2 || bad "with memory for one extent it differs"
[ "$(read_of 2)" = 180000000 ] || bad "n2 read $(read_of 2) bytes"
exit
