#!/bin/bash
# Goal:   fmove ln -s makes a symbolic link in a store, which leads to something in it; -f lets one take the place of another at once.
# Method: two nodes; get through the link; names with blanks, newlines, escape sequences and a leading dash; every refusal; a reader that
#         opens the link while it is replaced; who may not write.
. "$(dirname "$0")/lib.sh"
up 2
s=$(store 2)
random 5000 f
random 6000 g
ok fmove put f n2:s/runs/7/ckpt
ok fmove put g n2:s/runs/8/ckpt

ok fmove ln -s runs/7 n2:s/latest
[ "$(readlink "$s/latest")" = runs/7 ] || bad "the link says $(readlink "$s/latest")"
ok fmove get n2:s/latest/ckpt back
same f back
ok fmove ls -l n2:s
grep -q '^l.* latest -> runs/7$' out || bad "no link is listed, or not where it leads: $(cat out)"
ok fmove ls n2:s
grep -qx latest out || bad "names alone: $(cat out)"
ok fmove ls --json n2:s
grep -q '"name":"latest","type":"link",.*"leads_to":"runs/7"' out || bad "ls --json of a link: $(cat out)"
ok fmove ls -l 'n2:s/la*'
grep -q '^l.* latest -> runs/7$' out || bad "a pattern matches a link: $(cat out)"
ok fmove stat n2:s/latest
grep -q '^type *symbolic link$' out && grep -q '^leads to *runs/7$' out || bad "stat of a link: $(cat out)"
ok fmove stat --json n2:s/latest
grep -q '"type":"link",.*"leads_to":"runs/7"' out || bad "stat --json of a link: $(cat out)"
ok fmove stat --json n2:s/latest/ckpt
grep -q '"type":"file","size":5000,' out && ! grep -q leads_to out || bad "stat through a link: $(cat out)"
# One that leads to nothing, or out, is there all the same.
ln -s gone "$s/dangling" && ln -s ../../out "$s/runs/out" && ln -s $'\e[31m' "$s/red"
ok fmove stat n2:s/dangling
grep -q '^leads to *gone$' out || bad "stat of a link that leads to nothing: $(cat out)"
ok fmove ls -l n2:s/dangling
grep -q '^l.* dangling -> gone$' out || bad "ls of a link that leads to nothing: $(cat out)"
ok fmove ls -l n2:s/runs
grep -q '^l.* out -> ../../out$' out || bad "ls of a link that leads out: $(cat out)"
ok fmove stat n2:s/red
grep -qF 'leads to  \x1b[31m' out || bad "what a link says moves the cursor: $(od -c out)"
ok fmove rm n2:s/dangling n2:s/runs/out n2:s/red
# More links than a page of a list has.
mkdir "$s/many" && for i in $(seq 200); do echo "x$i"; done | (cd "$s/many" && xargs -I{} ln -s to-{} {})
ok fmove ls -l n2:s/many
[ "$(sed 's/.* x\([0-9]*\) -> to-x/\1 /' out | awk '$1 == $2' | wc -l)" -eq 200 ] || bad "many links: $(tail -n 3 out)"
ok fmove ln -s ../7/ckpt n2:s/runs/8/link
ok fmove get -f n2:s/runs/8/link back
same f back
no 6 'exists; a link is replaced only if asked for' fmove ln -s runs/8 n2:s/latest
ok fmove ln -s -f runs/8 n2:s/latest
ok fmove get -f n2:s/latest/ckpt back
same g back
ok fmove ln -sf --json runs/7 n2:s/latest
[ "$(cat out)" = '{"name":"n2:s/latest","target":"runs/7","exit":0}' ] || bad "--json: $(cat out)"
for name in 'two words' $'line\nbreak' $'\xff\xfe' $'\x1b[31mred' -dash '*' 'a:b'; do
	ok fmove ln -s -- "$name" "n2:s/$name.l"
	[ "$(readlink "$s/$name.l")" = "$name" ] || bad "a link to $name says $(readlink "$s/$name.l")"
done

# What is refused. A file is not put through a link, nor in its place.
for option in -q --force; do
	no 6 'is a symbolic link, which is never replaced; remove it first, or fmove ln -sf leads it elsewhere' \
		fmove put $option f n2:s/latest
done
[ "$(readlink "$s/latest")" = runs/7 ] || bad "a put replaced a link: $(ls -l "$s")"
no 6 'only a link is replaced' fmove ln -sf latest n2:s/runs/7/ckpt
same f "$s/runs/7/ckpt"
no 6 'only a link is replaced' fmove ln -sf latest n2:s/runs
no 6 'leads out of the store' fmove ln -s ../x n2:s/bad
no 6 'is absolute' fmove ln -s /etc/passwd n2:s/bad
no 6 'is absolute' fmove ln -s "$s/runs" n2:s/bad
no 6 'goes up behind a name' fmove ln -s runs/../../x n2:s/bad
no 6 'partial files' fmove ln -s runs/.fmove.x n2:s/bad
no 1 'is empty' fmove ln -s '' n2:s/bad
no 1 'no such file' fmove ln -s f n2:s/none/bad
no 2 'say --symbolic' fmove ln runs n2:s/bad
no 2 'is no path: .* without node and store' fmove ln -s n2:s/runs/7 n2:s/bad
ok fmove ln -s ./n2:s/runs/7 n2:s/odd
ok fmove ln -s n3:s/runs/7 n2:s/odd2
ok fmove rm n2:s/odd n2:s/odd2
no 2 'is a directory' fmove ln -s runs n2:s/
no 2 'NODE:STORE/PATH' fmove ln -s runs bad
no 6 'leads out of the store' fmove mv n2:s/runs/8/link n2:s/bad
[ -L "$s/runs/8/link" ] || bad "a link that may not be moved is away"
[ ! -L "$s/bad" ] || bad "a link that is refused is there"

# It is never away while it is replaced.
(
	fails=0
	for i in $(seq 20); do
		ok fmove ln -sf runs/$((7 + i % 2)) n2:s/latest
	done
	[ "$fails" -eq 0 ]
) &
maker=$!
while kill -0 $maker 2>/dev/null; do
	[ -L "$s/latest" ] || { bad "the link is away while it is replaced"; break; }
done
wait $maker || bad "a link is not replaced"
[ -z "$(find "$s" -name '.fmove.*')" ] || bad "left behind: $(find "$s" -name '.fmove.*')"

# Who may not write.
export FM_CLUSTER_STORE='read = [ "*" ]; write = [ "peer:n9" ];'
alive
"$FM_SOURCE/tests/cluster" down "$dir/c" || bad "the cluster does not stop cleanly"
cd / && rm -rf "$dir"
nodes=0
up 2
no 6 'n1 may not write here' fmove ln -s x n2:s/l
[ ! -L "$(store 2)/l" ] || bad "made by who may not"
