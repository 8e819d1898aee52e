#!/bin/bash
# Goal:   a node that lies in everything it says of a staging run neither ends a daemon nor makes one hang, writes nothing outside the cache, and
#         makes no other byte READY than the source has; what others move goes on.
# Method: two real daemons, and hostile_peer as a third node with a key that they know: one lie (tests/hostile/lies.c) after the other, of a new
#         dataset each time. While it lies a file is moved; when it is gone the dataset comes to both nodes.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stage_lib.sh"
export FM_CLUSTER_CONF=$'memory = { arena = "64MiB"; };\nstaging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };'
up 2

key=$(fmove keygen liar.key)
for i in 1 2; do
	sed -i "s|^peers = (\$|&\\n\\t{ name = \"h1\"; address = \"127.0.0.1:1\"; key = \"$key\"; },|" "$dir/c/n$i/fmove.conf"
	take_over "$i"
	port[i]=$(sed -n 's/.*listen = ".*:\([0-9]*\)";/\1/p' "$dir/c/n$i/fmove.conf")
done
random 300000 other

outside() {
	find "$dir/c" \( -path "$dir/c/n?/s" -o -path "$dir/c/n?/cache" -o -path "$dir/c/n?/state" \) -prune -o -print | sort
}

hears() {
	at "$1" status --json | grep -q '"name":"h1",[^}]*"connected":true'
}

# lie NAME SECONDS: to both daemons, in the background; so long from when it has heard of a run.
lie() {
	local i

	for i in 1 2; do
		timeout $HANG_S hostile_peer --key liar.key --name h1 --listen "127.0.0.1:0" --to "${port[i]}" \
			--to-key "$(fmove keygen --show "$dir/c/n$i/node.key")" --lie "$1" --seconds "$2" >"liar.$i" 2>&1 &
		liars[i]=$!
	done
	for i in 1 2; do
		await hears "$i" || bad "$1: n$i has no connection to the liar: $(cat "liar.$i")"
	done
}

# The liars have ended by themselves.
lied() {
	local i

	for i in 1 2; do
		wait "${liars[i]}" || bad "$1: the liar ended: $(cat "liar.$i")"
	done
}

# new_set NAME [large]: of two letters, which lies.c replaces in what it says.
new_set() {
	mkdir "$(store 1)/$1"
	random 131072 "$(store 1)/$1/f"
	[ "${2:-}" != large ] || truncate -s 70000000 "$(store 1)/$1/large"
}

move_other() {
	ok fmove put --force other n2:s/other
	same other "$(store 2)/other"
}

are_copies() {
	is_copy "$1" "$(path_of 1 "$2")"
	is_copy "$1" "$(path_of 2 "$2")"
}

# stage_under LIE SET: it may fail while somebody lies, and says why; not when he is gone.
stage_under() {
	local stage

	lie "$1" 3
	timeout $HANG_S fmove stage --nodes n1,n2 --json "s/$2" >out 2>err &
	stage=$!
	move_other
	lied "$1"
	if ! wait $stage; then
		[ -s err ] || bad "$1: it failed, and does not say why"
		timeout $HANG_S fmove stage --nodes n1,n2 --json "s/$2" >out 2>err || bad "$1: it does not come: $(cat out err)"
	fi
	are_copies "$2" out
}

outside >before
for one in silent:aa keep:ab:large forge:ac hoard:ad miscount:ae order:af:large waver:ag misname:ah flood:ai answer:aj; do
	IFS=: read -r name set size <<<"$one"
	new_set "$set" "$size"
	stage_under "$name" "$set"
	alive
done

# It knows the run from before: now it is the first to tell of it.
new_set ak
lie change 6
ok timeout $HANG_S fmove stage --nodes n1,n2 s/ak		# held by a process that ends
for i in 1 2; do
	await at $i unstage ak || bad "n$i keeps it"
done
timeout $HANG_S fmove stage --nodes n1,n2 --json s/ak >out 2>err
move_other
lied change
timeout $HANG_S fmove stage --nodes n1,n2 --json s/ak >out 2>err || bad "change: it does not come: $(cat out err)"
are_copies ak out

outside >after
cmp -s before after || bad "written outside: $(diff before after | head -n 3)"
