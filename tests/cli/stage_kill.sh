#!/bin/bash
# Goal:   a daemon that is killed at any moment of a fetch leaves nothing that is ready and not whole; the next call goes on.
# Method: SIGKILL at random moments, FM_STAGE_KILLS times. What is ready then is compared with its manifest's name and with
#         the source, and so is what the next call has.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'memory = { arena = "64MiB"; };\nstaging = { directory = "@NODE@/cache"; size = "900MiB"; grace = "0s"; };'
up 2

source=$(store 2)/set
mkdir -p "$source/d"
for i in $(seq 200); do random 3000 "$source/d/f$i"; done
random 40000000 "$source/large"

# whole PATH: its name is that of its manifest, and the files that never change are those of the source.
whole() {
	[ "$(sha256sum <"$1/../.manifest" | cut -d ' ' -f 1)" = "$(basename "$(dirname "$1")")" ] || bad "$1: another manifest"
	diff -r "$source/d" "$1/d" && cmp "$source/large" "$1/large" || bad "$1 is ready, and not whole"
}

for round in $(seq "${FM_STAGE_KILLS:-4}"); do
	echo "$round" >"$source/round"
	fmove stage n2:s/set >out 2>err &
	stager=$!
	sleep "0.$((RANDOM % 6))$((RANDOM % 10))"
	crash n1
	wait $stager		# it may have been ready just before
	start_again n1
	reachable 2
	for ready in $(fmove datasets --json | grep -o '"state":"ready"[^}]*"path":"[^"]*' | sed 's/.*"//'); do
		whole "$ready"
	done
	data=$(fmove stage n2:s/set 2>err) || bad "round $round: $(cat err)"
	diff -r "$source" "$data" || bad "round $round: it differs"
done
exit
