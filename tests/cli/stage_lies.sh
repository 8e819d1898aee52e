#!/bin/bash
# Goal:   a node that lies in everything it says of a staging run neither ends a daemon nor makes one hang, writes nothing outside the cache, and
#         makes no other byte READY than the source has; what others move goes on.
# Method: two real daemons, and hostile_peer as a third node with a key that they know: one lie (tests/hostile/lies.c) after the other, of a new
#         dataset each time. While it lies a file is moved; when it is gone the dataset comes to both nodes.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stage_lib.sh"
. "$(dirname "$0")/liar_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };'
up 2

know_liar
random 300000 other

outside() {
	find "$dir/c" \( -path "$dir/c/n?/s" -o -path "$dir/c/n?/cache" -o -path "$dir/c/n?/state" \) -prune -o -print | sort
}

# lie LIE SET SECONDS [MORE...]: to both daemons.
lie() {
	local i

	for i in 1 2; do
		liar "$i" "$@"
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
	local stage status=0

	lie "$1" "$2" 3
	timeout $HANG_S fmove stage --nodes n1,n2 --json "s/$2" >out 2>err &
	stage=$!
	move_other
	lied "$1"
	wait $stage || status=$?
	[ $status -ne 124 ] || give_up "$1: it goes on when the liar is gone: $(cat out err)"
	if [ $status -ne 0 ]; then
		[ -s err ] || bad "$1: it failed, and does not say why"
		timeout $HANG_S fmove stage --nodes n1,n2 --json "s/$2" >out 2>err || give_up "$1: it does not come: $(cat out err)"
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
# The liar's id comes before any other one in the order of letters. Of one run it may be heard too late, not of all.
grep -q 'job [a-z2-7]*: goes on as job aaaaaaaa, by which h1 knows it$' "$dir"/c/n?/log || bad "no run was logged under one id"

# misname is sent away and comes again all the time: a few lines of each run say so, and those of others are not left out for it.
for i in 1 2; do
	awk '/ begins here: / { is_its = / of n1:s\/ah begins /; runs += is_its } / h1 takes part$/ { said += is_its }
		END { exit !(runs > 0 && said <= 8 * runs) }' "$dir/c/n$i/log" || bad "n$i fills its log with h1 that comes and goes"
done

# It knows the run from before: now it is the first to tell of it.
new_set ak
lie change ak 6
ok timeout $HANG_S fmove stage --nodes n1,n2 s/ak		# held by a process that ends
for i in 1 2; do
	await at $i unstage ak || give_up "n$i keeps it"
done
timeout $HANG_S fmove stage --nodes n1,n2 --json s/ak >out 2>err
move_other
lied change
timeout $HANG_S fmove stage --nodes n1,n2 --json s/ak >out 2>err || give_up "change: it does not come: $(cat out err)"
are_copies ak out

# It calls a run, also one that it begins when this one is over, as a job of n1 that is none of it.
new_set am
ok fmove put --detach --limit 1kB/s other n2:s/slow
job=$(cat out)
liar 1 silent am 3 --job "$job"
timeout $HANG_S fmove stage --nodes n1,n2 --json s/am >out 2>err || give_up "job: it does not come: $(cat out err)"
lied silent
are_copies am out
grep -E "job $job: staging of|goes on as job $job" "$dir/c/n1/log" && bad "a run has the id of a job that is none of it"
ok fmove cancel "$job"

# Whom the rules of the source leave out is not heard: no run is called as it says.
sed -i "s|directory = \"$dir/c/n1/s\";|&\nread = [ \"user:$(id -un)\", \"peer:n2\" ];|" "$dir/c/n1/fmove.conf"
take_over 1
new_set al
liar 1 silent al 3
timeout $HANG_S fmove stage --nodes n1,n2 --json s/al >out 2>err || give_up "rules: it does not come: $(cat out err)"
lied silent
are_copies al out
awk '/ begins here: / { is_its = / of n1:s\/al begins / } is_its && / goes on as job / { exit 1 }' "$dir/c/n1/log" || bad "who may not read it gives it an id"

# Nor where it is told to a node that has not heard the source yet, and tells the source of it.
new_set an
liar 2 silent an 600
timeout $HANG_S fmove stage --nodes n1,n2 s/an >out 2>err || give_up "first: it does not come: $(cat out err)"
for i in 1 2; do
	await at $i unstage an || give_up "n$i keeps it"
done
grep -q 'job aaaaaaaa: .*n1:s/an' "$dir/c/n1/log" && bad "who may not read it gives it an id by way of n2: $(grep 'job aaaaaaaa' "$dir/c/n1/log")"
if grep -q 'job aaaaaaaa: staging of n1:s/an begins here' "$dir/c/n2/log"; then
	is_logged 'goes on as job [a-z2-7]*: h1, which called it otherwise, may not read it' "$dir/c/n2/log" || bad "n2 goes on with what h1 calls it"
else
	echo "not tried: n2 never heard of it by h1 first"
fi
kill $asides
said=() asides=

# Nor where the source is away meanwhile, and hears of the run by n2 when it comes.
# n2 has a run that is called as the liar says: begun since n1 is away, or just before, and then nobody ends it.
begun_by_liar() {
	awk '/job aaaaaaaa: staging of n1:s\/ap begins here/ { is_on = 1 }
		/job aaaaaaaa: (goes on as|staging of n1:s\/ap is over)/ { is_on = 0 }
		END { exit !is_on }' "$dir/c/n2/log"
}

new_set ap
liar 2 silent ap 600
timeout $HANG_S fmove stage --nodes n1,n2 s/ap >out 2>err || give_up "away: it does not come: $(cat out err)"
for i in 1 2; do
	await at $i unstage ap || give_up "n$i keeps it"
done
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
said_before=$(grep -c 'staging of n1:s/ap begins here' "$dir/c/n1/log")
await begun_by_liar || give_up "away: the liar does not tell n2 of it: $(tail -n 5 "$dir/c/n2/log")"
start_again n1
heard_again() {
	[ "$(grep -c 'staging of n1:s/ap begins here' "$dir/c/n1/log")" -gt "$said_before" ]
}
await heard_again || give_up "away: n1 does not hear of it"
grep -q 'job aaaaaaaa: .*n1:s/ap' "$dir/c/n1/log" && bad "who may not read it gives it an id while n1 is away: $(grep 'job aaaaaaaa' "$dir/c/n1/log")"
is_logged 'goes on as job [a-z2-7]*: h1, which called it otherwise, may not read it' "$dir/c/n2/log" || bad "n2 goes on with what h1 calls it"
kill $asides
said=() asides=

# Of a run that h1 coordinates, n1 knows nothing but what it is told, and is to pass an extent on: what comes for that is far too small. Then n1 is to
# have the dataset itself, learns how large that extent is, and has to write no more than came. Which node coordinates is up to the dataset.
sed -i "s|directory = \"$(store 2)\";|&\nshared = \"nfs1\";|" "$dir/c/n2/fmove.conf"
take_over 2
await at 2 ls n1:s || bad "n2 has no session with n1"
use 2
has_carried() {
	grep -q "^$set: carried" liar.1
}
told_or_over() {
	has_carried || ! kill -0 $stage 2>/dev/null
}
# n1 took it for the extent, and looked at it when it wrote it.
is_refused() {
	grep -q "shared nfs1/$set does not come here: write $set into the cache of n1" "$dir/c/n1/log"
}
unrefused=0
comes_whole() {
	timeout $HANG_S fmove stage --nodes n1,n2 --json s/$set >out 2>err || give_up "carry: it does not come to n1: $(cat out err)"
	for i in 1 2; do
		diff -r "$(store 2)/$set" "$(path_of $i out)" || bad "carry: n$i has something else"
	done
}
for ((try = 0; try < 40 && unrefused < 12; try++)); do
	set=c$try
	mkdir "$(store 2)/$set"
	random 3000 "$(store 2)/$set/f"
	truncate -s 40000000 "$(store 2)/$set/g"
	liar 1 carry $set 600
	liar 2 silent $set 600	# n2 waits for it, else all were over before h1 is heard
	timeout $HANG_S fmove stage --nodes n2 --json s/$set >out 2>err &
	stage=$!
	# Another node may come to coordinate it meanwhile, which n1 heeds then: in one of the tries none does.
	! HANG_S=60 await told_or_over || ! has_carried || HANG_S=20 await is_refused
	kill $asides
	said=() asides=
	wait $stage || timeout $HANG_S fmove stage --nodes n2 --json s/$set >out 2>err || give_up "carry: it does not come: $(cat out err)"
	! has_carried || comes_whole
	! has_carried || is_refused || unrefused=$((unrefused + 1))
	! is_refused || break
done
is_refused || bad "carry: of $try runs none was coordinated by h1, or n1 took what was too small: $(cat liar.1 out err)"
alive
use 1

outside >after
cmp -s before after || bad "written outside: $(diff before after | head -n 3)"
