#!/bin/bash
# Goal:   what fmove(1) has as examples can be typed as it stands, from top to bottom.
# Method: the blocks are taken out of the page; "gpu2:data" is a store of the second node here, and what the lines send is made before.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; peers = [ "*" ]; };'
up 2
mkdir -p ckpt-1000/sub set dataset .cache/huggingface/hub/blobs local
random 3000000 ckpt.pt
for f in big.pt rank0.pt rank1.pt ckpt-1000/sub/f set/f dataset/f .cache/huggingface/hub/blobs/f; do
	random 5000 "$f"
done
ok fmove put -r set n2:s/set
export HOME=$dir/w
set -o pipefail

# blocks HEADING: the commands of the page behind it, up to the next heading.
blocks() {
	awk -v heading="$1" '
		/^\.S[HS] / { is_in = $0 == heading }
		/^\.fi/ { is_block = 0 }
		is_in && is_block
		/^\.nf/ { is_block = 1 }
	' "$FM_SOURCE/client/man/fmove.1" | grep -E '^(fmove|tar|job=|DATA=|export|unset) ?[^:]*' | grep -v '^fmove: '
}

# typed HEADING COUNT: each of its lines succeeds; there are COUNT.
typed() {
	local line count=0

	while IFS= read -r line; do
		count=$((count + 1))
		line=${line//gpu2:data/n2:s}
		eval "${line//\/local/local}" >out 2>err </dev/null || bad "$line -> $?: $(cat err)"
	done < <(blocks "$1")
	[ $count -eq "$2" ] || bad "$1 has $count lines that can be typed, not $2"
	rm -rf "$(store 2)"/*
}

printf '#!/bin/sh\ntest -f "$FMOVE_STAGED/f"\n' >train.sh
chmod +x train.sh
typed '.SS "fmove stage"' 5
grep -q '^ready .* 1 pinned .* set ' out || bad "what it staged: $(cat out)"
ok fmove put -r set n2:s/set
typed '.SS Examples' 5
[ -f local/set/f ] || bad "nothing came: $(ls -lR local)"
typed '.SH EXAMPLES' 15
[ "$(cat rank0.pt rank1.pt | cksum)" = "$(cat step9000/rank0.pt step9000/rank1.pt | cksum)" ] || bad "the group: $(ls -lR step9000)"
