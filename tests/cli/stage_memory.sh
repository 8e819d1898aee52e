#!/bin/bash
# Goal:   a node whose memory can never have an extent takes no part and says at once what to raise; by itself it fetches it all the same.
#         A source's node with memory for one extent at a time reads each of them once, and with as much as it says is enough, whoever asks.
# Method: a file that is one extent of 30 MB; first the node that asks has less memory, then the source's. Then three of 15 MB.
. "$(dirname "$0")/lib.sh"
. "$FM_SOURCE/tests/cli/stage_lib.sh"
export FM_CLUSTER_CONF=$'memory = { arena = "64MiB"; total = "512MiB"; };\nstaging = { directory = "@NODE@/cache"; size = "2GiB"; grace = "0s"; peers = [ "*" ]; };'
up 2

# with I TOTAL: node nI has that much memory.
with() {
	"$FM_SOURCE/tests/cluster" stop "$dir/c" "n$1"
	sed -i "s/total = \"[0-9]*MiB\"/total = \"$2MiB\"/" "$dir/c/n$1/fmove.conf"
	start_again "n$1"
	reachable 2
}

mkdir "$(store 2)/set"
random 30000000 "$(store 2)/set/large"
with 1 130
fmove stage --nodes all n2:s/set >out 2>err
[ $? -eq 3 ] || bad "n1 has too little memory: $(cat err)"
grep -q 'n1: failed: a part of set with 28 MiB does not fit .* on n1: raise it in its fmove.conf by [0-9]* MiB' err || bad "it says: $(cat err)"
ok fmove stage n2:s/set
cmp "$(store 2)/set/large" "$(fmove stage n2:s/set)/large" || bad "alone it differs"

echo other >"$(store 2)/set/small"
with 1 512
with 2 130
fmove stage --nodes n1 n2:s/set >out 2>err && bad "the source's node has too little memory, and all went well: $(cat err)"
grep -q 'does not fit .* on n2' err || bad "of n2 it says: $(cat err)"
ok fmove stage n2:s/set

# three SET: of three large files.
three() {
	mkdir "$(store 2)/$1"
	for i in 1 2 3; do random 15000000 "$(store 2)/$1/large$i"; done
}

three three
with 2 150
fmove stage --nodes n1 n2:s/three >out 2>err || bad "with memory for one extent: $(cat err)"
diff -r "$(store 2)/three" "$(fmove stage n2:s/three)" >&2 || bad "with memory for one extent it differs"
[ "$(read_of 2)" = 45000000 ] || bad "n2 read $(read_of 2) bytes"

# raised NODES: n2 takes no part, and does with exactly as much more as it says.
raised() {
	three "$1"
	with 2 138
	fmove stage --nodes "$1" "n2:s/$1" >out 2>err && bad "n2 has too little memory, and all went well: $(cat err)"
	more=$(sed -n 's/.* on n2: raise it in its fmove.conf by \([0-9]*\) MiB.*/\1/p' err | head -n 1)
	[ -n "$more" ] || bad "of n2 it says: $(cat err)"
	with 2 $((138 + more))
	timeout "$HANG_S" fmove stage --json --nodes "$1" "n2:s/$1" >out 2>err || bad "for $1, with $more MiB more: $(cat err)"
	[ "$(read_of 2)" = 45000000 ] || bad "for $1, n2 read $(read_of 2) bytes"
}
raised n2
with 1 $((138 + more))
raised all
for i in 1 2; do diff -r "$(store 2)/all" "$(path_of $i out)" >&2 || bad "n$i differs"; done
exit
