#!/bin/bash
# Goal:   a daemon that is killed at any moment of a fetch leaves nothing that is ready and not whole; the next call goes on. Whoever is killed,
#         what came already does not come again.
# Method: SIGKILL at random moments, FM_STAGE_KILLS times. What is ready then is compared with its manifest's name and with
#         the source, and so is what the next call has. Then the caller and the daemon are killed at three quarters; bytes that came are counted.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "900MiB"; grace = "0s"; };'
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

# ---- at three quarters ----

# Bytes that came since the daemon started.
came() {
	fmove status --json | grep -o '"received_bytes":[0-9]*' | awk -F : '{ sum += $2 } END { print sum + 0 }'
}

# most NAME: it is on its way, and three quarters of it came. What is under way, or not written down yet, may come again.
most() {
	mkdir "$(store 2)/$1"
	for i in $(seq 40); do random 200000 "$(store 2)/$1/f$i"; done
	slow 2
	fmove stage "n2:s/$1" >out 2>err &
	stager=$!
	moved "$1" 6000000
}

# rest NAME MAX: the same call has it, and at most so many bytes came since `before`.
rest() {
	local bytes

	fast 2
	data=$(fmove stage "n2:s/$1" 2>err) || bad "$1: $(cat err)"
	diff -r "$(store 2)/$1" "$data" || bad "$1 differs"
	bytes=$(($(came) - before))
	[ "$bytes" -le "$2" ] || bad "$1: $bytes bytes came, of at most $2"
}

before=$(came)
most caller
kill -KILL $stager
wait $stager 2>/dev/null
rest caller 8200000
most daemon
crash n1
wait $stager
start_again n1
reachable 2
before=0
rest daemon 5000000
exit
