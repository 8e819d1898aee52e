#!/bin/bash
# Goal:   a node that has the source and takes no part in staging refuses a run once for each node: they do not make each other begin it again and
#         again when the request is long through. When it takes part, so do all, at once.
# Method: four real daemons, of which one has the source and no cache. The runs that the others begin are counted in their logs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stage_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };'
up 4

# n4_anew: with what its configuration says by now, and each has reached it.
n4_anew() {
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n4
	start_again n4
	for i in 1 2 3; do
		await at $i ls n4:s || bad "n$i does not reach n4"
	done
}

# Counts the runs that began, of N nodes into begun[N], and of all into begun[0].
count() {
	local i line

	begun=(0 0 0 0)
	for i in 1 2 3; do
		while read -r line; do
			[[ $line != *"staging of n4:s/"*" begins here"* ]] || begun[i]=$((begun[i] + 1))
		done <"$dir/c/n$i/log"
		begun[0]=$((begun[0] + begun[i]))
	done
}

# is_quiet: no run begins any more.
is_quiet() {
	local before

	count
	before=${begun[0]}
	pause 1
	count
	[ "${begun[0]}" -eq "$before" ]
}

has_begun() {
	count
	[ "${begun[$1]}" -gt "$2" ]
}

sed -i.staging '/^staging = /d' "$dir/c/n4/fmove.conf"
n4_anew
for i in 1 2 3 4 5; do
	mkdir "$(store 4)/set$i"
	random 30000 "$(store 4)/set$i/f"
	at 1 stage "n4:s/set$i" >out 2>err || bad "set$i: $(cat err)"
done
# Each request begins a run at three nodes. The log of a run without end is cut, at more lines than this.
await is_quiet || bad "runs begin when nobody asks for anything"
[ "${begun[0]}" -le 20 ] || bad "15 runs were to begin, and ${begun[0]} did: $(tail -n 5 "$dir/c/n2/log")"

# Who asks is not kept waiting for that to pass: the run begins here, and where it is to be.
before=("${begun[@]}")
at 1 stage --nodes n1,n2 n4:s/set5 >out 2>err && bad "n4 refuses, and nobody says so: $(cat err)"
grep -q 'n2: failed: n4 stages nothing' err || bad "what n4 refuses: $(cat err)"
await has_begun 2 "${before[2]}" || bad "n2 does not begin what it is asked for"

# As soon as n4 takes part, so does a node that nobody asks.
mv "$dir/c/n4/fmove.conf.staging" "$dir/c/n4/fmove.conf"
n4_anew
await is_quiet || bad "runs begin when nobody asks for anything, again"
before=("${begun[@]}")
at 2 stage n4:s/set5 >out 2>err || bad "n4 takes part: $(cat err)"
for i in 1 3; do
	await has_begun $i "${before[i]}" || bad "n$i still refuses set5, which n4 stages"
done
