#!/bin/bash
# Goal:   whichever daemon of three is killed while they stage a dataset, nothing wrong becomes READY, the others go on, and the
#         same request made again has it on all of them.
# Method: SIGKILL of each of them in the midst of it: of the one that asked, of the source, of a third one; then the request
#         again. What is READY is compared with the source each time. FM_STAGE_ROUNDS=N: at N random moments.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "2GiB"; grace = "0s"; peers = [ "*" ]; };'
up 3

# Four extents; at random moments more, since any of them is to be in the midst.
bytes=64000000
[ "${FM_STAGE_ROUNDS:-0}" -eq 0 ] || bytes=250000000
mkdir -p "$(store 2)/first/d"
for i in $(seq 20); do random 3000 "$(store 2)/first/d/f$i"; done
random $bytes "$(store 2)/first/large"

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

# midst KILLED: something has come to that node, or, of the source, to another one.
midst() {
	await has_some $(($1 == 3 ? 3 : 1)) || bad "nothing comes: $(cat err.first)"
}

# moment: any time of what takes a few seconds.
moment() {
	sleep "$((RANDOM % 4)).$((RANDOM % 10))"
}

# round KILLED SET WHEN...
round() {
	local killed=$1 set=$2 stager

	shift 2
	[ "$1" != midst ] || slow 2		# it must not end before one is killed
	rm -rf "$(store 2)"/set*
	cp -a "$(store 2)/first" "$(store 2)/$set"
	echo "$set" >"$(store 2)/$set/which"
	fmove stage --nodes all "n2:s/$set" -- true >out.first 2>err.first &
	stager=$!
	"$@"
	crash "n$killed"
	rm -f "$dir/c/n$killed/exit"
	if [ "$1" = midst ] && [ "$killed" -eq 2 ]; then
		no_longer_slow 2
	elif [ "$1" = midst ]; then
		fast 2
	fi
	start_again "n$killed"
	reachable 2
	reachable 3
	await fmove --socket "$dir/c/n3/fmoved.sock" ls n2:s || bad "n3 cannot reach n2"
	if [ "$killed" -eq 1 ]; then
		wait $stager && [ "$1" = midst ] && bad "$set: it ended well without its daemon"
	fi
	whole "$set"
	fmove stage --nodes all "n2:s/$set" -- true >out 2>err || bad "$set: again, n$killed was killed: $(cat err)"
	[ "$(find "$dir"/c/n*/cache/ready -mindepth 2 -maxdepth 2 -name "$set" | wc -l)" -eq 3 ] ||
		bad "$set: not on all: $(cat err)"
	whole "$set"
	wait $stager
}

if [ "${FM_STAGE_ROUNDS:-0}" -gt 0 ]; then
	for n in $(seq "$FM_STAGE_ROUNDS"); do
		round $((RANDOM % 3 + 1)) "set$n" moment
		[ "$fails" -eq 0 ] || break
	done
else
	for killed in 3 1 2; do
		round $killed "set$killed" midst $killed
	done
fi
