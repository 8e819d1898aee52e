#!/bin/bash
# Goal:   whichever daemon of three is killed while they stage a dataset, nothing wrong becomes READY, the others go on, and the
#         same request made again has it on all of them.
# Method: SIGKILL of each of them in the midst of it: of the one that asked, of the source, of a third one; then the request
#         again. What is READY is compared with the source each time.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_CONF=$'memory = { arena = "64MiB"; };\nstaging = { directory = "@NODE@/cache"; size = "2GiB"; grace = "0s"; peers = [ "*" ]; };'
up 3

mkdir -p "$(store 2)/first/d"
for i in $(seq 20); do random 3000 "$(store 2)/first/d/f$i"; done
random 250000000 "$(store 2)/first/large"

# has_some I: something of it has come to node I.
has_some() {
	[ -n "$(find "$dir/c/n$1/cache/partial" -path '*.together/*' -type f -size +0 2>/dev/null | head -n 1)" ]
}

# whole: what is READY of it anywhere is what the source is.
whole() {
	local copy

	for copy in "$dir"/c/n*/cache/ready/*/"$1"; do
		[ ! -e "$copy" ] || diff -r --no-dereference "$(store 2)/$1" "$copy" || bad "$copy differs"
	done
}

for killed in 3 1 2; do
	set=set$killed
	cp -a "$(store 2)/first" "$(store 2)/$set"
	echo "$set" >"$(store 2)/$set/which"
	fmove stage --nodes all "n2:s/$set" >out.first 2>err.first &
	stager=$!
	watched=$((killed == 3 ? 3 : 1))
	await has_some $watched || bad "$set: nothing comes: $(cat err.first)"
	kill -KILL "$(cat "$dir/c/n$killed/pid")"
	await test -e "$dir/c/n$killed/exit" || bad "n$killed does not end"
	rm -f "$dir/c/n$killed/exit"
	"$FM_SOURCE/tests/cluster" start "$dir/c" "n$killed" || bad "n$killed does not start again"
	use 1
	reachable 2
	reachable 3
	if [ "$killed" -eq 1 ]; then
		wait $stager && bad "$set: it ended well without its daemon"
	fi
	whole "$set"
	fmove stage --nodes all "n2:s/$set" >out 2>err || bad "$set: again: $(cat err)"
	[ "$(find "$dir"/c/n*/cache/ready -mindepth 2 -maxdepth 2 -name "$set" | wc -l)" -eq 3 ] ||
		bad "$set: not on all: $(cat out err)"
	whole "$set"
	wait $stager
done
