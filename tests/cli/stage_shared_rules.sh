#!/bin/bash
# Goal:   of a shared store a node gets bytes only if no node that has the store, and takes part, has rules that leave it out; one that
#         others' rules leave out reads its own store.
# Method: four real daemons. Three have one directory, the fourth has no such store. The rules of one of the three leave the fourth out,
#         then those of two leave the third out. What each node read is counted by its daemon.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stage_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "3GiB"; grace = "0s"; peers = [ "*" ]; };'
up 4

# share I [RULES]: node nI has the store of n1; all may read it, or whom the rules let.
share() {
	local conf=$dir/c/n$1/fmove.conf

	sed -i "s|directory = \"$dir/c/n$1/s\"|directory = \"$(store 1)\"|; /shared =/d; /^read = /d" "$conf"
	sed -i "s|directory = \"$(store 1)\";|&\nshared = \"nfs1\";\n${2:+read = [ $2 ];}|" "$conf"
	take_over "$1"
}

new_set() {
	mkdir -p "$(store 1)/$1"
	for i in $(seq 20); do random 3000 "$(store 1)/$1/f$i"; done
	random 40000000 "$(store 1)/$1/large"
	bytes=$((40000000 + 20 * 3000))
}

# n4 may have made the files before it was refused, but none of their bytes is there.
has_nothing() {
	[ "$(du -sk "$dir/c/n4/cache" | cut -f1)" -lt 1000 ]
}

me="\"user:$(id -un)\""
share 1
share 2 "\"peer:n1\", \"peer:n3\", $me"
share 3

# n1 was asked, and lets everybody read; n2 would give n4 nothing. What comes from n2 could reach n4 through n1, so n4 takes no part.
new_set two
settled fmove stage --nodes n1,n2,n3,n4 --json s/two
[ $? -eq 3 ] && grep -q '3 of 4' err || bad "n4 has it, or others have not: $(cat err)"
grep -q 'n4: failed: n4 may not read shared nfs1/two, says n[123]; "peer:n4" in the read list' err || bad "n4 is not named: $(cat err)"
for i in 1 2 3; do
	is_copy two "$(path_of $i out)"
done
has_nothing || bad "n4 has something of it: $(find "$dir/c/n4/cache" -ls)"

# What is READY at n1 is not given to it either.
settled at 4 stage --nodes n4 n1:s/two && bad "n4 has it from n1"
grep -q 'n4 may not read' err || bad "who does not let n4: $(cat err)"
has_nothing || bad "n4 has something that is READY elsewhere: $(find "$dir/c/n4/cache" -ls)"

# Without n2 nobody's rules are against it.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
new_set without
settled at 4 stage --nodes n4 --json n1:s/without || bad "without n2: $(cat err)"
is_copy without "$(path_of 4 out)"
start_again n2
reachable 2

# n3 has the store itself: whoever leaves it out, it reads by its own rules.
share 1 "\"peer:n2\", \"peer:n4\", $me"
share 2 "\"peer:n1\", \"peer:n4\", $me"
new_set three
before=$(read_of 3)
settled at 3 stage s/three || bad "n3 does not read its own: $(cat err)"
is_copy three "$(cat out)"
[ $(($(read_of 3) - before)) -ge "$bytes" ] || bad "n3 has it from others"
settled fmove stage --nodes n1,n3 s/three
[ $? -eq 3 ] && grep -q 'n3: failed: n3 may not read' err || bad "n3 takes part: $(cat err)"
is_copy three "$(cat out)"

# n4 has no store, wants nothing, and comes first in the order of some datasets: it passes on what the others say, whoever asked first.
for i in 1 2 3 4 5 6 7 8; do
	mkdir "$(store 1)/small$i"
	random 5000 "$(store 1)/small$i/f"
	settled at 3 stage "s/small$i" || bad "n3 does not read its own: $(cat err)"
	settled fmove stage --nodes n1,n3 "s/small$i"
	[ $? -eq 3 ] && grep -q 'n3: failed: n3 may not read' err || bad "n3 takes part: $(cat err)"
	is_copy "small$i" "$(cat out)"
done
exit
