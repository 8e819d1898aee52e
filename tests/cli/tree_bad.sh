#!/bin/bash
# Goal:   a tree that cannot be moved as it is leaves nothing behind, and the error names the entry and what to do.
# Method: one bad thing at a time, at either end.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
up 2
mkdir good
echo 1 >good/f

gone() {
	[ -e "$(store 2)/$1" ] && bad "$1 was published"
	no_trees
}

# What needs -r says so.
no 2 "put -r .good. .n2:s/x.$" fmove put good n2:s/x
ok fmove put -r good n2:s/there
no 2 "get -r .n2:s/there. .x.$" fmove get n2:s/there x
no 2 "get -r brings all" fmove get n2:s/there/ x
no 2 'put: --update needs --recursive' fmove put --update good/f n2:s/x
no 2 "get -r .n2:s/there. .x.$" fmove get -n n2:s/there x
no 2 'pattern has 1 to 255' fmove put -r --exclude '' good n2:s/x

# Special files, by name; --exclude is the way around.
mkdir -p bad/sub
echo 1 >bad/sub/f
mkfifo bad/sub/pipe
no 1 'sub/pipe.*--exclude' fmove put -r bad n2:s/x
gone x
ok fmove put -r --exclude pipe bad n2:s/x
[ -e "$(store 2)/x/sub/f" ] || bad "--exclude left out more"
ok fmove rm -r n2:s/x
mkdir "$(store 2)/special"
mkfifo "$(store 2)/special/pipe2"
no 1 'pipe2' fmove get -r n2:s/special special
[ -e special ] && bad "a tree with a pipe was published"
no_trees
rm bad/sub/pipe

# Unreadable; root reads everything.
if [ "$(id -u)" -ne 0 ]; then
	chmod 000 bad/sub/f
	no 6 'sub/f.*ermission' fmove put -r bad n2:s/x
	gone x
	chmod 644 bad/sub/f
fi

# Loops of links are not followed; names that differ in case are two names.
ln -s . bad/loop
ln -s loop2 bad/loop1
ln -s loop1 bad/loop2
echo low >bad/name
echo HIGH >bad/NAME
ok fmove put -r bad n2:s/loops
same_tree bad "$(store 2)/loops"
ok fmove get -r n2:s/loops loops
same_tree bad loops

# What is there already.
no 6 'exists.*--replace' fmove put -r good n2:s/there
ok fmove put good/f n2:s/file
no 1 'file' fmove put -r --replace good n2:s/file
[ -f "$(store 2)/file" ] || bad "a file was replaced by a directory"
echo mine >mine
no 1 'mine' fmove get -r --replace n2:s/there mine
[ "$(cat mine)" = mine ] || bad "a file was replaced by a directory"
ok fmove get -r n2:s/there got
no 6 'got.*exists.*--replace' fmove get -r n2:s/there got
# What has its name when the channel breaks is said to have it.
lost=0
for n in $(seq 40); do
	rm -rf late .fmove.*
	env FMOVE_FAULT=channel.send:$n fmove get -r n2:s/there late >out 2>err && break
	[ -e late ] || continue
	lost=$((lost + 1))
	grep -q 'late is complete and has its name, but fmoved did not hear of it: ' err || bad "channel.send:$n: $(cat err)"
	same_tree good late
done
[ $lost -gt 0 ] || bad "no answer after the name was lost"
rm -rf late
mkdir hub && mv got hub/got && ln -s hub/got link
no 6 'directory hub/got exists; --update' fmove get -r n2:s/there hub/got
no 6 'link is a symbolic link to hub/got; .* say where it leads' fmove get -r --replace n2:s/there link
no 1 'part of the path is not a directory' fmove put -r good n2:s/file/sub
no 1 'no/such/: No such file.*"mkdir -p" makes it' fmove get -r n2:s/there no/such/dir
no 1 'nothing|No such' fmove get -r n2:s/nothing x
no 1 'nothing|No such' fmove put -r nothing n2:s/x
no 6 '.' fmove put -r good n2:s/../x
no_trees

# Names that cannot be.
name=$(head -c 200 /dev/zero | tr '\0' n)
path=$name
for _ in $(seq 19); do path=$path/$name; done
no 2 'longer than 4095' fmove put -r good "n2:s/$path/$path"
# longer than any path, so that it is made and removed from within
(cd bad && for _ in $(seq 22); do mkdir "$name" && cd "$name" || exit; done; echo deep >f)
no 1 '4095|too long' fmove put -r bad n2:s/x
gone x
rm -rf "bad/$name"

# A file that changes while it is read.
mkdir grows
random 20000000 grows/big
touch -d @1000000000 grows/big
slow 1
fmove put -r grows n2:s/grows >out 2>err &
pid=$!
moved grows 0
echo more >>grows/big
fast 1
wait $pid
[ $? -eq 1 ] || bad "a file that grew: $? $(cat err)"
grep -q 'big.*changed' err || bad "a file that grew: $(cat err)"
idle
[ -e "$(store 2)/grows" ] && bad "a changed source was published"

# Cancelled: nothing stays, at either end.
random 20000000 grows/big
ok fmove put -r grows n2:s/grows
for way in put get; do
	if [ $way = put ]; then
		env --default-signal=INT fmove put -r --limit 100kB/s grows n2:s/new >out 2>err &
	else
		env --default-signal=INT fmove get -r --limit 100kB/s n2:s/grows new >out 2>err &
	fi
	copying
	kill -INT $!
	wait $!
	[ $? -eq 130 ] || bad "$way -r, interrupted: $? $(cat err)"
	idle
	no_trees
	[ -e "$(store 2)/new" ] || [ -e new ] && bad "a cancelled $way was published"
done

# The node goes away; the node is not there.
no 1 'n9' fmove put -r good n9:s/x
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
no 4 'n2' fmove put -r good n2:s/x
no 4 'n2' fmove get -r n2:s/there x
"$FM_SOURCE/tests/cluster" start "$dir/c" n2
