#!/bin/bash
# Goal:   a request for several nodes counts this one among them, however long it is at the dataset already by itself.
# Method: the source's node copies what is its own, alone; meanwhile it is asked to have it on all nodes. In the end all have it.
#         Then a user asks over the API, with nodes, for what only the copy here answers: that is refused, and fmoved goes on.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "3GiB"; grace = "0s"; peers = [ "*" ]; };'
up 2

export FMOVE_SOCKET=$dir/c/n2/fmoved.sock
copying() {
	fmove datasets | grep -q "^copying .* set$n "
}
copying_or_over() {
	copying || ! kill -0 $alone 2>/dev/null
}
# One that is here before anybody sees that it comes is too small.
for n in 1 2 4 8; do
	source=$(store 2)/set$n
	mkdir -p "$source"
	(cd "$source" && seq $((n * 4000)) | split -a 5 -l 1)
	fmove stage s/set$n >out.alone 2>err.alone &
	alone=$!
	await copying_or_over || bad "it does not begin: $(fmove datasets)"
	! copying || break
	wait $alone || bad "alone: $(cat err.alone)"
done
fmove stage --nodes all s/set$n >out 2>err || bad "all: $(cat err)"
grep -q '2 of 2 nodes have it' err || bad "not both: $(cat err)"
wait $alone || bad "alone: $(cat err.alone)"
[ "$(cat out)" = "$(cat out.alone)" ] || bad "two copies: $(cat out out.alone)"
diff -r "$source" "$(cat out)" || bad "n2 differs"

# refused REQUEST: by an error, at once.
refused() {
	: >said
	"$FMOVE_BIN/hold" "$FMOVE_SOCKET" 1 1 "$1" >said &
	local asker=$!
	await test -s said || bad "no answer to $1"
	kill $asker
	wait $asker 2>/dev/null
	[[ $(<said) == '0 '*'must be one of the nodes'* ]] || bad "$1: $(<said)"
}
refused "{\"op\":\"stage\",\"id\":#,\"node\":\"n2\",\"store\":\"s\",\"path\":\"set$n\",\"check\":\"content\",\"nodes\":\"n1\"}"
ok fmove datasets
exit
