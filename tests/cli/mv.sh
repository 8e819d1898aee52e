#!/bin/bash
# Goal:   fmove mv gives a file, link or directory another name in its store, whole and durable, and changes nothing where it refuses.
# Method: two nodes; names with blanks, newlines, escape sequences and a leading dash; every refusal; a manifest and digests that go along;
#         two at once for one name; a daemon that is killed while names change.
. "$(dirname "$0")/lib.sh"
[ -n "${FM_BUILD:-}" ] && export TMPDIR=$FM_BUILD		# extended attributes of users, for verify
up 2
s=$(store 2)
random 5000 f
random 6000 g

# Names.
ok fmove put f n2:s/a
for name in 'two words' $'line\nbreak' $'\xff\xfe' $'\x1b[31mred' -dash '*' 'a:b' d/x; do
	[ "$name" != d/x ] || ok fmove mkdir n2:s/d
	ok fmove mv n2:s/a "n2:s/$name"
	same f "$s/$name"
	[ ! -e "$s/a" ] || bad "$name: the old name is there, too"
	ok fmove mv "n2:s/$name" n2:s/a
done
ok fmove mv n2:s/a n2:s/d/
same f "$s/d/a"
ok fmove mv n2:s/d n2:s/e
same f "$s/e/a"
ok fmove mv n2:s/e/a n2:s/a
use 2
ok fmove mv n2:s/a n2:s/b		# the node's own store
use 1
same f "$s/b"
ok fmove mv --json n2:s/b n2:s/a
[ "$(cat out)" = '{"name":"n2:s/b","to":"n2:s/a","exit":0}' ] || bad "--json: $(cat out)"

# A relative link keeps what it says: whoever moves it to another depth hears that it leads to nothing.
ok fmove ln -s a n2:s/link
ok fmove ln -s none n2:s/led
ok fmove mv n2:s/link n2:s/e/
grep -q 'warning: n2:s/e/link: leads to nothing now' err || bad "a link that dangles: $(cat err)"
ok fmove mv n2:s/e/link n2:s/link
[ ! -s err ] || bad "a link that leads to something again: $(cat err)"
ok fmove mv --json n2:s/link n2:s/e/link
[ "$(cat out)" = '{"name":"n2:s/link","to":"n2:s/e/link","dangles":true,"exit":0}' ] || bad "--json of a link: $(cat out)"
ok fmove mv n2:s/led n2:s/e/led
[ ! -s err ] || bad "a link that led to nothing: $(cat err)"
rm "$s/e/link" "$s/e/led"
# In a directory that is moved each link keeps what it says, and nothing is said: the one that leads to its neighbour still does, the one
# that leads out of the directory does not, and find names it.
ok fmove mkdir n2:s/pair
ok fmove put f n2:s/pair/f
ok fmove ln -s f n2:s/pair/in
ok fmove ln -s ../a n2:s/pair/out
ok fmove mv n2:s/pair n2:s/e/pair
[ ! -s err ] || bad "a directory with links: $(cat err)"
ok fmove get n2:s/e/pair/in in
same f in
no 1 'no such file' fmove get n2:s/e/pair/out none
[ "$(find -L "$s/e/pair" -type l)" = "$s/e/pair/out" ] || bad "what leads to nothing: $(find -L "$s/e/pair" -type l)"
ok fmove mv n2:s/e/pair n2:s/pair
ok fmove get n2:s/pair/out in2
same f in2
ok fmove rm -r n2:s/pair

# What is refused.
ok fmove put g n2:s/g
no 6 'exists; it is replaced only if asked for' fmove mv n2:s/a n2:s/g
same g "$s/g"
no 6 'a directory is never replaced; with a / behind it' fmove mv -f n2:s/a n2:s/e
ok fmove mkdir n2:s/h
no 6 'a directory is never replaced' fmove mv -f n2:s/e n2:s/h
no 1 'cannot be moved into itself' fmove mv n2:s/e n2:s/e/x
no 1 'no such file' fmove mv n2:s/none n2:s/x
no 1 'no such file' fmove mv n2:s/a n2:s/none/x
# Who has seen patterns with get and rm is told that these take none.
for verb in stat verify; do
	no 1 'no such file or directory; only get, ls and rm take patterns' fmove $verb 'n2:s/no*'
	no 1 'no such file or directory; fmove ls shows what is in the store$' fmove $verb n2:s/none
done
no 1 'no such file or directory; only get, ls and rm take patterns' fmove mv 'n2:s/no*' n2:s/none
no 1 'no such file or directory; fmove ls shows what is in the store$' fmove mv n2:s/none n2:s/x
no 2 'is in another store' fmove mv n2:s/a n1:s/a
no 2 'is in another store' fmove mv n2:s/a n2:t/a
no 2 'whole store' fmove mv n2:s/ n2:s/x
no 2 'NODE:STORE/PATH' fmove mv n2:s/a b
no 1 'begins with' fmove mv n2:s/a n2:s/.fmove.x
fmove mv --json n2:s/none n2:s/x >out 2>err
grep -q 'no such file or directory; fmove ls shows what is in the store"}}$' out || bad "--json says no next step: $(cat out)"
fmove mv --json n2:s/a n2:s/g >out 2>err
grep -q '^{"name":"n2:s/a","to":"n2:s/g","exit":6,"error":{"code":"EEXIST",' out || bad "--json of a refusal: $(cat out)"
same f "$s/a"
ok fmove mv -f n2:s/a n2:s/g
same f "$s/g"
[ ! -e "$s/a" ] || bad "after mv -f the old name is there"

# What is unfinished below a directory goes with it; what is known of its files does, too.
mkdir -p t/sub
for i in $(seq 5); do
	random 3000 t/sub/$i
done
ok fmove put -r t n2:s/t
ok fmove mkdir n2:s/deep/er
ok fmove mv n2:s/t n2:s/deep/er/t
ok fmove verify n2:s/deep/er/t
rm "$s/deep/er/t/sub/3"
if fmove verify n2:s/g >out 2>err && ! grep -q 'nothing could be compared' err; then
	fmove verify n2:s/deep/er/t >out 2>err
	grep -q '^missing: deep/er/t/sub/3' out || bad "the manifest did not go with its directory: $(cat out err)"
fi
[ -z "$(find "$s" -maxdepth 1 -name '.fmove.*')" ] || bad "a manifest stays behind: $(find "$s" -name '.fmove.*')"

# Two at once: one of them has it, the other hears that nothing is there, and nothing is lost.
for i in $(seq 10); do
	ok fmove mv n2:s/g n2:s/race
	fmove mv n2:s/race n2:s/left 2>err.left &
	left=$!
	fmove mv n2:s/race n2:s/right 2>err.right
	right=$?
	wait $left
	left=$?
	[ $((left + right)) -eq 1 ] || bad "both or none of two moved it: $left $right $(cat err.left err.right)"
	[ -e "$s/left" ] && name=left || name=right
	[ ! -e "$s/left" ] || [ ! -e "$s/right" ] || bad "it has two names"
	same f "$s/$name"
	ok fmove mv "n2:s/$name" n2:s/g
done

# A daemon that is killed meanwhile: one of the names, never none or both.
ok fmove mv n2:s/g n2:s/name-a
(
	from=a to=b
	while fmove mv "n2:s/name-$from" "n2:s/name-$to" >/dev/null 2>&1; do
		next=$from from=$to to=$next
	done
) &
mover=$!
sleep 0.5
crash n2
wait $mover
[ "$(find "$s" -name 'name-*' | wc -l)" -eq 1 ] || bad "after a crash there is: $(find "$s" -name 'name-*')"
same f "$s"/name-?
start_again n2
reachable 2
no_partials

# Who may not write.
export FM_CLUSTER_STORE='read = [ "*" ]; write = [ "peer:n9" ];'
alive
"$FM_SOURCE/tests/cluster" down "$dir/c" || bad "the cluster does not stop cleanly"
cd / && rm -rf "$dir"
nodes=0
up 2
echo x >"$(store 2)/a"
no 6 'n1 may not write here' fmove mv n2:s/a n2:s/b
[ -e "$(store 2)/a" ] || bad "moved by who may not"
