#!/bin/bash
# Goal:   who may read a source no more may read its copy no more: at the next request, and when the daemon starts.
# Method: users root, nobody and daemon; rules of a store of this node and of another one are changed. A right whose rules
#         this node does not know lasts as long as its user holds the copy.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; };'
need_nobody
id daemon >/dev/null 2>&1 || skip "there is no user daemon"
up 2
chmod 755 "$dir/c" "$dir/c/n1" "$dir/c/n2"

# rules I RULES [MORE]: who may read the store of nI now.
rules() {
	sed -i -e '/^read = /d' -e "s|directory = \"$dir/c/n$1/s\";|&\nread = [ $2 ];${3-}|" "$dir/c/n$1/fmove.conf"
}

restart() {
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
	start_again n1
	reachable 2
}

# for_nobody SOURCE: its path; held by nobody any more.
for_nobody() {
	as_nobody sh -c "fmove stage $1; :" 2>err
}

reads() {
	as_nobody cat "$1/f"
}

reads_not() {
	! reads "$1"
}

make_source() {
	mkdir -p "$(store "$1")/$2"
	echo "$2" >"$(store "$1")/$2/f"
}

# The rules change while a dataset comes: the new ones count, for who asked too. The look at all copies is over long before the request is.
make_source 1 slow
rules 1 '"*"'
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
FMOVE_FAULT=cache.xattr:3+7 start_again n1
as_nobody fmove stage s/slow >out 2>err &
slow=$!
is_late() {
	grep -q 'cache.xattr is late' "$dir/c/n1/log"
}
await is_late || bad "s/slow does not come: $(cat err)"
copy=$(echo "$dir/c/n1/cache/ready/"*/slow)
[ -f "$copy/f" ] || bad "it is not READY while the rules are asked: $copy"
rules 1 '"user:root", "user:daemon"'
take_over 1
wait $slow && bad "nobody gets what the rules forbid since before it was there: $(cat out)"
grep -q 'may not read' err || bad "nobody is not told why: $(cat err)"
reads_not "$copy" 2>/dev/null || bad "the rules changed before it was there, and nobody reads it"
setpriv --reuid daemon --regid daemon --clear-groups cat "$copy/f" >out || bad "the rules name daemon since before it was there, and he cannot read it"
reachable 2

# A single file, and what is taken as it is: who may still read it does.
rules 1 '"*"'
take_over 1
one=$(as_nobody fmove stage s/slow/f --as one 2>err)	# a process of root runs it: nobody holds it
[ "$(as_nobody cat "$one")" = slow ] || bad "nobody staged a file, and cannot read it: $(cat err)"
rules 1 '"user:root", "user:nobody"' 'owner = "caller";'
take_over 1
ok fmove stage s/slow/f --as one -- true
[ "$(as_nobody cat "$one")" = slow ] || bad "root asked for a file, too, and nobody lost it"
ok fmove stage --check none s/slow/f --as one -- true
[ "$(as_nobody cat "$one")" = slow ] || bad "root took a file as it is, and nobody lost it"
rules 1 '"*"'

# Of this node: the rules are asked again when anybody asks for it.
make_source 1 own
take_over 1
own=$(for_nobody s/own)
[ "$(reads "$own")" = own ] || bad "nobody staged it, and cannot read it: $(cat err)"
rules 1 '"user:root"'
take_over 1
ok fmove stage s/own -- true
reads_not "$own" 2>/dev/null || bad "nobody reads a copy of what he may not read, after root asked for it"
rules 1 '"*"'
take_over 1
[ "$(for_nobody s/own)" = "$own" ] || bad "he may again, and does not get it: $(cat err)"
[ "$(reads "$own")" = own ] || bad "he may again, and cannot read it"

# The same when the daemon starts; and who may still still does.
rules 1 '"user:root"'
restart
await reads_not "$own" || bad "nobody reads it after a restart with other rules"
rules 1 '"user:nobody"'
restart
[ "$(for_nobody s/own)" = "$own" ] || bad "it is his again, and he does not get it: $(cat err)"
restart
ok fmove stage s/own -- true	# as the start does, it asks the rules: he may
[ "$(reads "$own")" = own ] || bad "he may, and lost it"

# Two stores have the same bytes, and rules of their own: what one asks for takes nothing from users of the other one, nor does a reload.
rules 1 '"user:nobody"'
sed -i "s|^stores = (|&{ name = \"t\"; directory = \"$(store 1)\"; read = [ \"user:daemon\", \"user:bin\" ]; }, |" "$dir/c/n1/fmove.conf"
make_source 1 two
make_source 1 mark
take_over 1
as_user() { setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"; }
nobody_sleeps
two=$(as_nobody fmove stage --hold-pid $holder s/two 2>err) || bad "s/two: $(cat err)"
others=$(as_user daemon fmove stage t/two 2>err) || bad "t/two: $(cat err)"
reads "$two" >out || bad "nobody holds it, and lost it to who asked for the same bytes in another store"
[ "$(as_user daemon cat "$others/f")" = two ] || bad "daemon cannot read t/two"
mark=$(as_user bin fmove stage t/mark 2>err) || bad "t/mark: $(cat err)"
sed -i 's|"user:daemon", "user:bin"|"user:daemon"|' "$dir/c/n1/fmove.conf"
take_over 1
bins() { as_user bin cat "$mark/f"; }
binsnot() { ! bins; }
await binsnot || bad "t's rules name bin no more, and he reads it"
reads "$two" >out || bad "a reload takes s/two from nobody, whom s lets read"
[ "$(as_user daemon cat "$others/f")" = two ] || bad "a reload takes t/two from daemon, whom t lets read"
for of in "s/two nobody" "t/two daemon"; do
	[ "$(fmove datasets --json | grep -c "\"source\":\"n1:${of% *}\"")" -eq 1 ] || bad "$of: $(fmove datasets)"
done
ok fmove datasets check two
kill $holder
wait $holder 2>/dev/null
sed -i 's|{ name = "t"[^}]*}, ||' "$dir/c/n1/fmove.conf"
rules 1 '"*"'
take_over 1

# Of another node: what nobody holds he may read until the next start, what he holds until then, too.
make_source 2 held
make_source 2 left
nobody_sleeps
held=$(as_nobody fmove stage --hold-pid $holder n2:s/held 2>err) || bad "held: $(cat err)"
left=$(for_nobody n2:s/left)
[ "$(reads "$held")" = held ] && [ "$(reads "$left")" = left ] || bad "he staged both, and cannot read them"
restart
await reads_not "$left" || bad "nobody holds it, its rules are not known, and he reads it"
[ "$(reads "$held")" = held ] || bad "a job that holds it cannot read it after a restart of fmoved"
[ "$(for_nobody n2:s/left)" = "$left" ] && [ "$(reads "$left")" = left ] || bad "asked for again, and not his: $(cat err)"
ok fmove stage n2:s/held -- true	# somebody else's request takes nothing from who holds it
[ "$(reads "$held")" = held ] || bad "root's request took it from who holds it"

# What is no word of its rules takes nothing from him: its store leads to what it keeps for itself, its directory is not to be read, it does not
# know this node any more. (It has no right to read what is not its own.)
# nothing_said PATTERN: nobody's request fails so, and he reads what he has.
nothing_said() {
	says_so() {
		! as_nobody fmove stage n2:s/held -- true >out 2>err && grep -q "$1" err
	}
	await says_so "$1" || bad "nobody's request does not end with \"$1\": $(cat out err)"
	[ "$(reads "$held")" = held ] || bad "refused by no rule ($1), and he lost his copy"
}
if setpriv --bounding-set -dac_override,-dac_read_search true 2>/dev/null; then
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
	setpriv --bounding-set -dac_override,-dac_read_search "$FM_SOURCE/tests/cluster" start "$dir/c" n2 || bad "n2 does not start"
	reachable 2
	chown nobody "$(store 2)"
	chmod 700 "$(store 2)"
	nothing_said "the service's user may not"
	chown root "$(store 2)"
	chmod 755 "$(store 2)"
fi
mv "$(store 2)" "$dir/c/n2/former"
ln -s "$dir/c/n2" "$(store 2)"
kill -HUP "$(cat "$dir/c/n2/pid")"
nothing_said 'leads to what this node keeps for itself'
rm "$(store 2)"
mv "$dir/c/n2/former" "$(store 2)"
kill -HUP "$(cat "$dir/c/n2/pid")"
reachable 2
cp "$dir/c/n2/fmove.conf" known
sed -i 's|key = "[^"]*"; }|key = "'"$(fmove keygen another)"'"; }|' "$dir/c/n2/fmove.conf"
take_over 2
nothing_said 'key'
cp known "$dir/c/n2/fmove.conf"
take_over 2
reachable 2

# The other node refuses him: then at once, whoever holds it.
rules 2 '"peer:none"'
kill -HUP "$(cat "$dir/c/n2/pid")"
refused() {
	! as_nobody fmove stage n2:s/held -- true 2>err && grep -q 'may not read' err
}
await refused || bad "n2 refuses nobody: $(cat err)"
reads_not "$held" || bad "refused by its node, and he reads the copy here"
kill $holder
wait $holder 2>/dev/null
exit
