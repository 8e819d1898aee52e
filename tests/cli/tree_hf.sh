#!/bin/bash
# Goal:   a Hugging Face cache arrives as it left: blobs, snapshots of links into them, refs; and a new revision sends its new blobs only.
# Method: a cache of two revisions that share a blob, put, opened through its links, got back, updated.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_STORE='old_keep = "0s";'
up 2

hub=hub/models--org--model
blob() {
	sum=$(sha256sum <"$1" | cut -c 1-64)
	mv "$1" "$hub/blobs/$sum"
	echo "$sum"
}
revision() {
	mkdir -p "$hub/snapshots/$1/sub" "$hub/refs"
	printf %s "$1" >"$hub/refs/main"
}
mkdir -p "$hub/blobs" "$hub/.no_exist/rev1"
: >"$hub/.no_exist/rev1/added_tokens.json"
revision rev1
random 20000000 new
weights=$(blob new)
echo '{"a": 1}' >new
config=$(blob new)
ln -s "../../blobs/$weights" "$hub/snapshots/rev1/model.safetensors"
ln -s "../../blobs/$config" "$hub/snapshots/rev1/config.json"
ln -s "../../../blobs/$config" "$hub/snapshots/rev1/sub/config.json"

ok fmove put -r hub n2:s/hub
same_tree hub "$(store 2)/hub"
there=$(store 2)/$hub/snapshots/rev1
[ "$(sha256sum <"$there/model.safetensors" | cut -c 1-64)" = "$weights" ] || bad "the weights behind their link are others"
cmp "$there/sub/config.json" "$hub/blobs/$config" || bad "a link from a subdirectory leads elsewhere"
ok fmove get -r n2:s/hub back
same_tree hub back

revision rev2
echo '{"a": 2}' >new
config=$(blob new)
ln -s "../../blobs/$weights" "$hub/snapshots/rev2/model.safetensors"
ln -s "../../blobs/$config" "$hub/snapshots/rev2/config.json"
ok fmove put -r --update --json hub n2:s/hub
[ "$(json data_bytes out)" -lt 1000000 ] || bad "a new revision sent $(json data_bytes out) bytes"
same_tree hub "$(store 2)/hub"
no_trees
