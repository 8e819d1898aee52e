#!/bin/bash
# Goal:   who may read a source no more may read its copy no more: at the next request, and when the daemon starts.
# Method: two users, root and nobody; rules of a store of this node and of another one are changed. A right whose rules
#         this node does not know lasts as long as its user holds the copy.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'memory = { arena = "64MiB"; };\nstaging = { directory = "@NODE@/cache"; size = "200MiB"; };'
need_nobody
up 2
chmod 755 "$dir/c" "$dir/c/n1" "$dir/c/n2"

# rules I RULES: who may read the store of nI now.
rules() {
	sed -i -e '/^read = /d' -e "s|directory = \"$dir/c/n$1/s\";|&\nread = [ $2 ];|" "$dir/c/n$1/fmove.conf"
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

# Of this node: the rules are asked again when anybody asks for it.
make_source 1 own
rules 1 '"*"'
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
