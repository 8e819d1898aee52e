#!/bin/bash
# Goal:   what a node says in the name of a user ends nothing that this user did on another node himself; and a store that lets peers read
#         lets users of its own node read only if it says so. Where a node is said to have it, its user can read it.
# Method: nobody on n2 and nobody on n1 have one number: what one of them asks for is what n2 could make up about the other one.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stage_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "20MiB"; grace = "0s"; peers = [ "*" ]; };'
need_nobody
up 3
chmod 755 "$dir/c" "$dir/c/n1" "$dir/c/n2" "$dir/c/n3"

# nobody I COMMAND...: at node nI.
nobody() {
	local -x FMOVE_SOCKET=$dir/c/n$1/fmoved.sock

	shift
	as_nobody "$@"
}

mkdir "$(store 3)/set" "$(store 3)/large"
random 3000 "$(store 3)/set/f"

# What nobody pinned on n1, n2 does not end in his name.
ok settled nobody 1 fmove stage --pin n3:s/set -- true
ok settled nobody 2 fmove stage n3:s/set -- true
no 1 'n1: no pin of yours that was asked for from that node' nobody 2 fmove unpin --nodes n1 set
no 1 'n1: it is pinned' nobody 2 fmove unstage --nodes n1 set
ok nobody 2 fmove pin --nodes n1 set
ok nobody 2 fmove unpin --nodes n1 set
no 1 'it is pinned' nobody 1 fmove unstage set
# He himself ends all of his.
ok nobody 2 fmove pin --nodes n1 set
ok nobody 1 fmove unpin set
no 1 'n1: no pin of yours' nobody 2 fmove unpin --nodes n1 set

# What another user staged on n1 is there for nobody, who staged it on n2, without asking the source, which is another one by now.
mkdir "$(store 3)/both"
random 3000 "$(store 3)/both/f"
ok setpriv --reuid daemon --regid daemon --clear-groups fmove stage n3:s/both -- true
ok nobody 2 fmove stage n3:s/both -- true
cp -a "$(store 3)/both" before
echo more >"$(store 3)/both/more"
# Its node says so, and whom it lets read, while n1 still looks what it has; then when it does not.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
FMOVE_FAULT=stage.look:1+4 start_again n1
reachable 2
await fmove ls n3:s || bad "n1 cannot reach n3"
await at 2 ls n1:s || bad "n2 cannot reach n1"
for late in n1 none; do
	nobody 2 fmove stage --check none --nodes n1,n2 n3:s/both -- true >out 2>err || bad "--check none, late: $late: $(cat err)"
	grep -q '^fault: stage.look is late' "$dir/c/n1/log" || bad "n1 did not look"
	for i in 1 2; do
		data=$(sed -n "s/^fmove: n$i: ready: //p" err)
		[ -n "$data" ] && diff -r before "$data" || bad "n$i has not what both have, late: $late: $(cat err)"
	done
done

# The source has gone: no word of it is no refusal of who has it on n2 alone.
as_user() { setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"; }
bin_at_2() { FMOVE_SOCKET=$dir/c/n2/fmoved.sock as_user bin "$@"; }
mkdir "$(store 3)/gone"
random 3000 "$(store 3)/gone/f"
await fmove ls n3:s || bad "n1 cannot reach n3"
ok settled nobody 1 fmove stage n3:s/gone -- true
ok settled bin_at_2 fmove stage n3:s/gone -- true
rm -r "$(store 3)/gone"
settled bin_at_2 fmove stage --check none --nodes n1,n2 n3:s/gone -- true || bad "--check none, of what is gone at the source: $(cat err)"
data=$(sed -n "s/^fmove: n1: ready: //p" err)
as_user bin cat "$data/f" >out 2>&1 || bad "n1 says ready, and bin cannot read it: $(cat out)"

# So it is with what is said of no user: the source's directory is not to be read there (n3 has no right to what is not its own), leads to what
# n3 keeps for itself, n3 does not know n1 any more, or n1 does not know n3.
for what in closed apart forgot unknown; do
	mkdir "$(store 3)/$what"
	random 3000 "$(store 3)/$what/f"
	ok settled nobody 1 fmove stage "n3:s/$what" -- true
	ok settled bin_at_2 fmove stage "n3:s/$what" -- true
done
ok fmove --socket "$dir/c/n3/fmoved.sock" stage n3:s/apart
# bin_may WHAT: bin, who staged that on n2 alone, is let in by n1, which asks n3.
bin_may() {
	settled bin_at_2 fmove stage --check none --nodes n1,n2 "n3:s/$1" -- true || bad "--check none, $1: $(cat err)"
	data=$(sed -n "s/^fmove: n1: ready: //p" err)
	as_user bin cat "$data/f" >out 2>&1 || bad "n1 says ready, and bin cannot read it, $1: $(cat out)"
}
if setpriv --bounding-set -dac_override,-dac_read_search true 2>/dev/null; then
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n3
	setpriv --bounding-set -dac_override,-dac_read_search "$FM_SOURCE/tests/cluster" start "$dir/c" n3 || bad "n3 does not start"
	reachable 3
	await at 2 ls n3:s || bad "n2 cannot reach n3"
	chown nobody "$(store 3)"
	chmod 700 "$(store 3)"
	bin_may closed
	chown root "$(store 3)"
	chmod 755 "$(store 3)"
fi
mv "$(store 3)" "$dir/c/n3/former"
ln -s "$dir/c/n3" "$(store 3)"
kill -HUP "$(cat "$dir/c/n3/pid")"
is_logged 'must not be within each other' "$dir/c/n3/log" || bad "n3 serves what it keeps for itself"
bin_may apart
ok settled nobody 1 fmove stage --check none --nodes n1,n3 n3:s/apart -- true	# which n3 has, too
rm "$(store 3)"
mv "$dir/c/n3/former" "$(store 3)"
kill -HUP "$(cat "$dir/c/n3/pid")"
reachable 3
cp "$dir/c/n3/fmove.conf" known
sed -i 's|\(name = "n1"; .*key = "\)[^"]*|\1'"$(fmove keygen another)|" "$dir/c/n3/fmove.conf"
take_over 3
no_key() {
	fmove ls n3:s 2>err
	grep -q key err
}
await no_key || bad "n3 still knows n1: $(cat err)"
bin_may forgot
cp known "$dir/c/n3/fmove.conf"
take_over 3
reachable 3
cp "$dir/c/n1/fmove.conf" known
sed -i '/name = "n3"/d; s|\(name = "n2".*\),$|\1|' "$dir/c/n1/fmove.conf"
take_over 1
bin_may unknown
cp known "$dir/c/n1/fmove.conf"
take_over 1
reachable 3

# What he holds on n1, n2 does not remove.
nobody_sleeps
ok nobody 1 fmove stage --hold-pid $holder n3:s/set
no 1 'n1: .*holds* it' nobody 2 fmove unstage --nodes n1 set
kill $holder
wait $holder 2>/dev/null

# What n2 pins leaves room.
random 17000000 "$(store 3)/large/f"
nobody 2 fmove stage --pin --nodes n1,n2 n3:s/large -- true >out 2>err && bad "n2 pins all of n1's cache"
grep -q 'n1: .*large has 16 MiB, which would leave too little for this node' err || bad "of the room: $(cat err)"
ok nobody 1 fmove stage --pin n3:s/large -- true

# Ctrl-C while another node is waited for: the copy that is here already is held, and that is said.
mkdir "$(store 3)/waits"
random 3000 "$(store 3)/waits/f"
sleep infinity &
job=$!
kill -STOP "$(cat "$dir/c/n2/pid")"
fmove stage --nodes n1,n2 --hold-pid $job n3:s/waits >out 2>err &
stager=$!
is_held() { fmove datasets --nodes none | grep ' waits ' | grep -q "held by process $job"; }
await is_held || bad "n1 does not hold it: $(fmove datasets --nodes none; cat err)"
kill -TERM $stager
wait $stager
[ $? -eq 130 ] && grep -q "held for nobody, but where it is on this node already: by process $job:" err || bad "interrupted: $(cat err)"
kill -CONT "$(cat "$dir/c/n2/pid")"
no 1 'holds* it' fmove unstage waits
kill $job
wait $job 2>/dev/null

# A rule for peers is no rule for a user of the source's own node.
sed -i "s|directory = \"$(store 3)\";|&\nread = [ \"peer:n1\", \"peer:n2\" ];|" "$dir/c/n3/fmove.conf"
take_over 3
mkdir "$(store 3)/peers"
random 3000 "$(store 3)/peers/f"
ok settled nobody 1 fmove stage --nodes n1,n2 n3:s/peers -- true
settled nobody 1 fmove stage --nodes all n3:s/peers
[ $? -eq 3 ] && grep -q 'n3: failed: store s: uid [0-9]* may not read here; "user:NAME"' err || bad "n3 has it for nobody: $(cat err)"

# Who asks for what another user has on these nodes reads it there, too, held or not: these rules name nobody who may read a copy.
on_n2() { sed -n 's/^fmove: n2: ready: //p' err; }
ok settled as_user daemon fmove stage --nodes n1,n2 n3:s/peers -- true
data=$(on_n2)
as_user daemon cat "$data/f" >out 2>&1 || bad "n2 says ready, and daemon cannot read it: $(cat out)"
as_user bin cat "$data/f" >out 2>&1 && bad "bin reads what he did not stage"
ok settled as_user bin fmove stage --nodes n1,n2 n3:s/peers
as_user bin cat "$data/f" >out 2>&1 || bad "n2 says ready, and bin, who holds nothing, cannot read it: $(cat out)"

# Who joins the run of another one and adds a node has it there himself, and the other one has nothing there. Who joins it and has no quota left
# is refused alone: nobody has pinned more than he may have by now. (If all of it is there before he comes, he is not.)
mkdir "$(store 3)/joins"
random 3000 "$(store 3)/joins/f"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
sed -i 's|size = "20MiB";|& user_quota = "10MiB";|' "$dir/c/n1/fmove.conf"
FMOVE_FAULT=cache.fetch:1+2 start_again n1
reachable 2
reachable 3
as_user daemon fmove stage --nodes n1 n3:s/joins >others 2>&1 &
first=$!
is_late() { grep -q 'cache.fetch is late' "$dir/c/n1/log"; }
await is_late || bad "n1 is not late: $(cat others)"
nobody 1 fmove stage --nodes n1 n3:s/joins >refused 2>&1 &
last=$!
ok settled as_user bin fmove stage --nodes n1,n2 n3:s/joins
data=$(on_n2)
wait $first || bad "daemon began it, and has it not: $(cat others)"
wait $last || grep -q 'n1: failed: .*user_quota' refused || bad "nobody is not told of his quota: $(cat refused)"
as_user bin cat "$data/f" >out 2>&1 || bad "bin added n2, and cannot read it there: $(cat out)"
as_user daemon cat "$data/f" >out 2>&1 && bad "daemon did not ask for n2, and has it there"

# The source's own node refuses for a user, whoever has its copy there.
sed -i 's|^read = .*|read = [ "peer:n1", "peer:n2", "user:daemon" ];|' "$dir/c/n3/fmove.conf"
take_over 3
ok settled as_user daemon fmove stage --nodes n1,n3 n3:s/peers
settled as_user bin fmove stage --nodes n1,n3 n3:s/peers
[ $? -eq 3 ] && grep -q 'n3: failed: it is there, but not to be read by you: uid [0-9]* may not read store "s" of n3' err || bad "n3 says nothing of bin: $(cat err)"

# A store that n3 serves no more has no rules: n3 has a copy of what was in it, and gives it to nobody, whom it let read before, too.
sed -i 's|^name = "s";|name = "other";|' "$dir/c/n3/fmove.conf"
take_over 3
settled fmove stage --check none --nodes n1,n3 n3:s/peers && bad "n3 takes part for a store that it has no more: $(cat err)"
grep -q 'n3: failed: n3 has no store "s" any more: who may read what was in it is not known' err || bad "of a store that is no more: $(cat err)"
ok at 3 stage --check none n3:s/peers
exit
