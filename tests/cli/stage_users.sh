#!/bin/bash
# Goal:   what one user staged does no harm to another one: not to his bytes, not to his copy, not to his names.
# Method: sources that look alike and are not, one of them with the same CRCs too; datasets of one name; users who want
#         what is another's to go or to stay.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; grace = "0s"; };'
up 2

# twin NAME TEXT: a source of one file, of a time that all of them have.
twin() {
	mkdir -p "$(store 2)/$1"
	echo "$2" >"$(store 2)/$1/weights"
	touch -d '2020-01-01 00:00:00' "$(store 2)/$1/weights"
}

# Names, sizes and times are the same, the bytes are not: each source has its own.
twin evil 'evil weights, for all to load'
twin good 'good weights, for all to load'
evil=$(fmove stage n2:s/evil 2>err) || bad "evil: $(cat err)"
good=$(fmove stage n2:s/good 2>err) || bad "good: $(cat err)"
same "$(store 2)/evil/weights" "$evil/weights"
same "$(store 2)/good/weights" "$good/weights"

# Both at once: a fetch is shared only by those who named the same source.
twin evil2 'Evil weights, for all to load'
twin good2 'Good weights, for all to load'
fmove stage n2:s/evil2 >out.evil 2>err.evil &
fmove stage n2:s/good2 >out.good 2>err.good
wait $!
same "$(store 2)/evil2/weights" "$(cat out.evil)/weights"
same "$(store 2)/good2/weights" "$(cat out.good)/weights"

# The CRC32C is the same, too: it is told, and what is there is not taken for what was asked for.
twin evil3 'evil weightsUWQZQPVQQP'
twin good3 'good weightsPPPPPPPPPP'
ok fmove stage n2:s/evil3 -- true
no 6 'evil3' fmove stage n2:s/good3
await fmove unstage evil3 2>/dev/null || bad "evil3 stays"
good=$(fmove stage n2:s/good3 2>err) || bad "good3: $(cat err)"
same "$(store 2)/good3/weights" "$good/weights"

# The same bytes under two names of a source are here once.
cp -a "$(store 2)/good" "$(store 2)/copy"
good=$(fmove stage n2:s/good 2>err) || bad "good again: $(cat err)"
copy=$(fmove stage n2:s/copy 2>err) || bad "copy: $(cat err)"
[ "$good" = "$copy" ] || bad "the same bytes are here twice: $good, $copy"

# The shell holds what its subshell asked for. A daemon that starts keeps the holds of those who live.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
start_again n1
reachable 2
fmove datasets --json | grep -o '{"name":"good3",[^}]*}' | grep -q '"holds":1,' || bad "not held: $(fmove datasets)"

need_nobody
chmod 755 "$dir/c" "$dir/c/n1"
sleep 1000 &
holder=$!

# A copy that is here keeps its name: who gave another one hears it, since pin and unstage go by it.
ok fmove stage --as better n2:s/good3
grep -q 'it is called good3 here' err || bad "another name: $(cat err)"
no 1 'no dataset here is called "better"' fmove pin better
ok fmove stage --as good3 n2:s/good3
grep -q 'is called' err && bad "its own name: $(cat err)"

# Who holds it is named, also after a start of the daemon.
fmove datasets >out
grep -q " good3 .* held by process $$ (uid $(id -u))" out || bad "who holds good3: $(cat out)"
fmove datasets --json | grep -q "\"name\":\"good3\".*\"holders\":\[{\"pid\":$$,\"uid\":$(id -u)}" ||
	bad "who holds good3: $(fmove datasets --json)"

# It goes when root says so, or one who staged it; it stays when he says so who staged it.
mkdir "$(store 2)/roots"
echo roots >"$(store 2)/roots/f"
roots=$(fmove stage --hold-pid $holder n2:s/roots 2>err) || bad "roots: $(cat err)"
kill $holder
wait $holder 2>/dev/null
no 6 'staged' as_nobody fmove unstage roots
no 6 'staged' as_nobody fmove unstage -n roots
no 6 'staged' as_nobody fmove pin roots
[ -d "$roots" ] || bad "nobody removed what root staged"

# Two have one name for two things: each means his own.
mkdir "$(store 2)/his"
echo his >"$(store 2)/his/f"
as_nobody fmove stage --as roots --hold-pid $$ n2:s/his 2>err >out && bad "a process of root held for nobody"
his=$(as_nobody sh -c 'fmove stage --as roots n2:s/his; :' 2>err) || bad "his: $(cat err)"
[ -d "$his" ] || bad "his is not there: $(cat err)"
ok as_nobody fmove pin roots
ok as_nobody fmove unpin roots
await as_nobody fmove unstage roots 2>/dev/null || bad "he cannot remove his own: $(fmove datasets)"
[ ! -e "$his" ] || bad "his own stays"
[ -d "$roots" ] || bad "what root staged went with it"
await fmove unstage roots 2>/dev/null || bad "root cannot remove it: $(fmove datasets)"

# What others staged is theirs to see, and root's: not its name, not where it comes from.
ok as_nobody sh -c 'fmove stage n2:s/his; :'
[ "$(as_nobody fmove datasets --quiet)" = his ] || bad "nobody sees: $(as_nobody fmove datasets)"
as_nobody fmove datasets --json >out
grep -q good out && bad "nobody sees what others staged: $(cat out)"
for name in his good; do fmove datasets --quiet | grep -qx $name || bad "root does not see $name"; done

# What is fetched for him he sees, though he waits no more; another one's fetch he does not.
random 20000000 "$(store 2)/his/large"
mkdir "$(store 2)/roots2"
random 20000000 "$(store 2)/roots2/large"
slow 2
as_nobody fmove stage n2:s/his >out 2>err &
waits=$!
fmove stage n2:s/roots2 -- true >out.root 2>err.root &
both_come() {
	[ "$(fmove datasets | grep -c '^fetching')" -eq 2 ]
}
await both_come || bad "two do not come: $(fmove datasets; cat err err.root)"
as_nobody fmove datasets | grep -q '^fetching .* his ' || bad "nobody does not see his own: $(fmove datasets)"
as_nobody fmove datasets | grep -q roots2 && bad "nobody sees what root fetches: $(as_nobody fmove datasets)"
fast 2
wait $waits || bad "his: $(cat err)"
wait || bad "roots2: $(cat err.root)"
exit
