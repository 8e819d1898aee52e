#!/bin/bash
# Goal:   --link DIR makes real directories with links to what is staged, in which a program can write beside its data; it is
#         made whole or gone on with, and nothing that is there is removed, replaced or led elsewhere.
# Method: real daemons; trees, single files, nothing, odd names. What is in DIR's place: a file, a link, another user's directory,
#         somebody's files, what a killed call left, links to another version. Several calls at once, killed ones, removal.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; grace = "0s"; peers = [ "*" ]; };'
up 2

source=$(store 2)/set
mkdir -p "$source/d/e" "$source/empty"
for i in $(seq 20); do echo "$i" >"$source/d/f$i"; done
: >"$source/nothing"
odd=$'a b\n"c"\\ -\xff'
mkdir "$source/$odd"
echo odd >"$source/$odd/-$odd"
ln "$source/d/f1" "$source/hard"
ln -s d/f2 "$source/to-file"
ln -s d "$source/to-dir"
ln -s ../d/f3 "$source/empty/up"
ln -s ../../set/d/f4 "$source/d/out"
ln -s /etc/passwd "$source/absolute"
ln -s nowhere "$source/dangling"
echo file >"$(store 2)/one file"
mkdir "$(store 2)/void"

# stage ARGUMENT...: held by a process of ours, until that ends.
sleep 1000 &
holder=$!
stage() {
	fmove stage --hold-pid $holder "$@"
}
data=$(stage n2:s/set 2>err) || bad "stage: $(cat err)"

# links DIR: it is the tree of the set, of directories and links alone, and of what is beside them in $1/ours.
links() {
	[ -z "$(find "$1" ! -type l ! -type d ! -name 'ours*')" ] || bad "$1 has more than links: $(find "$1" ! -type l ! -type d)"
	[ ! -L "$1/.fmove.linking" ] || bad "$1 is not at its end"
	(cd "$source" && find . -type d | sort) >want
	(cd "$1" && find . -type d | sort) | cmp -s - want || bad "$1: other directories: $(find "$1" -type d)"
	(cd "$source" && find . ! -type d | sort) >want
	(cd "$1" && find . ! -type d ! -name 'ours*' | sort) | cmp -s - want || bad "$1: other names: $(find "$1" ! -type d)"
	diff -r --exclude dangling --exclude absolute --exclude out --exclude 'ours*' "$source" "$1" >&2 || bad "$1: another content"
}

# One that is not there: its absolute path is said, and nothing else.
out=$(stage --link tree n2:s/set 2>err) || bad "link: $(cat err)"
[ "$out" = "$PWD/tree" ] && grep -q 'tree: 29 links to ' err || bad "path: $out, $(cat err)"
links tree
[ "$(readlink tree/d/f1)" = "$data/d/f1" ] || bad "a link: $(readlink tree/d/f1)"
[ "$(readlink "tree/$odd/-$odd")" = "$data/$odd/-$odd" ] || bad "an odd name"
# Links in the tree are the same; what leads out of it, leads where the copy's does.
[ "$(readlink tree/to-dir) $(readlink tree/to-file) $(readlink tree/empty/up)" = 'd d/f2 ../d/f3' ] || bad "links within: $(ls -l tree)"
[ "$(readlink tree/absolute) $(readlink tree/d/out)" = "$data/absolute $data/d/out" ] || bad "links that lead out"
same /etc/passwd tree/absolute

# Written beside the data, by a link of the tree, too; the same again changes nothing.
echo index >tree/d/ours.idx && echo index >tree/to-dir/ours.too || bad "nothing can be written beside the data"
find tree -printf '%p %i %l\n' | sort >before
[ "$(stage --link tree n2:s/set 2>err)" = "$out" ] || bad "again: $(cat err)"
find tree -printf '%p %i %l\n' | sort | cmp -s - before || bad "the second time changed it"
[ -f tree/d/ours.idx ] || bad "what was written went"

# An empty one; a name with odd bytes in it; with a slash behind it.
mkdir -m 750 "empty $odd"
[ "$(stage --link "empty $odd/" n2:s/set 2>err; echo .)" = "$PWD/empty $odd"$'\n.' ] || bad "an empty one: $(cat err)"
links "empty $odd"
[ "$(stat -c %a "empty $odd")" = 750 ] || bad "another mode"

# fails STATUS PATTERN COMMAND...: the last line says why, and no path is said.
fails() {
	local want=$1 pattern=$2

	shift 2
	"$@" >out 2>err
	[ $? -eq "$want" ] && [ ! -s out ] && tail -n 1 err | grep -Eq -- "$pattern" || bad "$*: $(cat out err)"
}

# refused DIR STATUS PATTERN: and all is as it was.
refused() {
	find . -printf '%p %i %l %s\n' | grep -av '/\(out\|err\|before\) ' | sort >before
	fails "$2" "$3" stage --link "$1" n2:s/set
	find . -printf '%p %i %l %s\n' | grep -av '/\(out\|err\|before\) ' | sort | cmp -s - before || bad "$1: something changed"
}
mkdir somebodys
echo mine >somebodys/mine
refused somebodys 1 'somebodys: it is not empty'
mkdir -p somebodys/d/e somebodys/empty
refused somebodys 1 'somebodys: it is not empty'
echo mine >a-file
refused a-file 1 'a-file: it is there, and no directory'
mkdir place
ln -s place a-link
refused a-link 1 'a-link: it is a symbolic link'
refused a-link/ 1 'a-link/: it is a symbolic link'
ln -s nowhere loose
refused loose 1 'loose: it is a symbolic link'
refused none/tree 1 'none/tree: the directory above it'
refused '' 1 'it is no path'
rm tree/d/f7
refused tree 1 'not "d/f7"'
ln -s "$data/d/f8" tree/d/f7
refused tree 1 'not "d/f7"'
rm tree/d/f7
echo mine >tree/d/f7
refused tree 1 'not "d/f7"'

# What a killed call left is gone on with; of another version, or with something of somebody's in it, it is not.
mkdir -p half/d
ln -s "$data" half/.fmove.linking
ln -s "$data/d/f1" half/d/f1
ok stage --link half n2:s/set
links half
mkdir other
ln -s "$data.other" other/.fmove.linking
refused other 6 'begun for another version'
mkdir -p theirs/d
ln -s "$data" theirs/.fmove.linking
echo mine >theirs/d/f5
fails 6 'theirs: "d/f5" in it is not ours' stage --link theirs n2:s/set
[ "$(cat theirs/d/f5)" = mine ] || bad "what was in the way is gone"
rm theirs/d/f5
ln -s "$dir/w" theirs/to-dir
rm -r theirs/d
ln -s "$dir/w" theirs/d
fails 6 'theirs: "(d|to-dir)" in it is not ours' stage --link theirs n2:s/set
[ ! -e f1 ] || bad "a link led the links elsewhere"

# Killed in the midst, or told to end: the next one makes it whole.
mkdir "$(store 2)/many"
(cd "$(store 2)/many" && for i in $(seq 20); do mkdir "d$i" && (cd "d$i" && seq 100 | xargs touch); done)
ok stage n2:s/many
for signal in KILL TERM KILL TERM; do
	fmove stage --hold-pid $holder --link "many.$signal" n2:s/many >out 2>err &
	stager=$!
	await test -d "many.$signal" || bad "it does not begin"
	kill -$signal $stager 2>/dev/null
	wait $stager
	status=$?
	[ $signal = KILL ] || [ $status -eq 0 ] || { [ $status -eq 130 ] && grep -q 'the same command goes on' err; } ||
		bad "ended: $status, $(cat err)"
	ok stage --link "many.$signal" n2:s/many
	[ "$(find "many.$signal" -type l | wc -l)" -eq 2000 ] || bad "SIG$signal: $(find "many.$signal" -type l | wc -l) links"
	rm -r "many.$signal"
done

# Four at once make one tree.
for i in $(seq 4); do stage --link at-once n2:s/many >"at.$i" 2>"at.err.$i" || bad "at once: $(cat "at.err.$i")" & done
wait $(jobs -p | grep -vx $holder)
[ "$(sort -u at.[0-9]*)" = "$PWD/at-once" ] && [ "$(find at-once -type l | wc -l)" -eq 2000 ] || bad "at once: $(cat at.err.*)"
[ "$(find at-once -name '.fmove*')" = '' ] || bad "at once: a mark is left"

# One file: its link; nothing: a directory.
[ "$(stage --link one "n2:s/one file" 2>err)" = "$PWD/one/one file" ] && grep -q 'one: 1 link to' err || bad "a file: $(cat err)"
same "$(store 2)/one file" 'one/one file'
[ "$(stage --link one "n2:s/one file" 2>err)" = "$PWD/one/one file" ] || bad "a file, again: $(cat err)"
[ "$(stage --link void n2:s/void 2>err)" = "$PWD/void" ] && [ -z "$(ls -A void)" ] || bad "nothing: $(cat err)"

# --json, a command, several nodes.
ok stage --link json --json n2:s/set
grep -q "^{\"path\":\"$PWD/json\",\"staged\":\"$data\"," out || bad "--json: $(cat out)"
fmove stage --link json --json n2:s/void >out 2>err
[ $? -eq 0 ] || [ "$(json exit out)" = 1 ] || bad "--json: $(cat out err)"
mkdir full
touch full/x
stage --link full --json n2:s/set >out 2>err
[ $? -eq 1 ] && [ "$(json exit out)" = 1 ] && grep -q '"code":"ENOTEMPTY"' out || bad "--json, refused: $(cat out err)"
[ "$(fmove stage --link command n2:s/set -- sh -c 'echo "$FMOVE_STAGED"' 2>err)" = "$PWD/command" ] || bad "a command: $(cat err)"
no 2 '' fmove stage --link command --detach n2:s/set
no 2 'which is not one of them' fmove stage --link nodes --nodes n2 n2:s/set
[ "$(stage --link nodes --nodes all n2:s/set 2>err)" = "$PWD/nodes" ] || bad "--nodes: $(cat err)"
links nodes
stage --link full --nodes all --json n2:s/set >out 2>err
[ $? -eq 1 ] && [ "$(json exit out)" = 1 ] && grep -q '"path":"","exit":1,"error":{"code":"ENOTEMPTY"' out || bad "--nodes, refused: $(cat out err)"
stage --link full --nodes all n2:s/set >out 2>err
[ $? -eq 1 ] && [ ! -s out ] || bad "--nodes, refused: a path was said"

# With the caller's rights; another user's directory is his.
if [ "$(id -u)" -eq 0 ] && id nobody >/dev/null 2>&1; then
	mkdir nobodys
	chown nobody nobodys
	refused nobodys 6 'nobodys: it is another user'
	chmod 755 "$dir/c" "$dir/c/n1"
	nobody_sleeps
	ok as_nobody fmove stage --hold-pid $holder --link nobodys/tree n2:s/set
	links nobodys/tree
	[ -z "$(find nobodys ! -user nobody)" ] || bad "made by somebody else: $(ls -lR nobodys)"
	as_nobody cat nobodys/tree/d/f1 >/dev/null || bad "nobody cannot read by his links"
	fails 6 'Permission denied' as_nobody fmove stage --hold-pid $holder --link roots n2:s/set
	kill $holder
	holder=$(jobs -p | head -n 1)
fi

# The copy goes: its links lead nowhere; the same version comes back, and they lead to it.
kill $(jobs -p) 2>/dev/null
wait
await fmove unstage set 2>/dev/null || bad "it stays: $(fmove datasets)"
[ -L half/d/f1 ] && [ ! -e half/d/f1 ] || bad "a link leads to what is gone"
[ "$(fmove stage n2:s/set 2>err)" = "$data" ] || bad "it comes back elsewhere: $(cat err)"
links half

# A new version is no tree of the old one's links.
echo more >"$source/d/f1"
fails 1 'half: it is not empty' fmove stage --link half n2:s/set
exit
