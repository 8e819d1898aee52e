#!/bin/bash
# Goal:   who says --check content has what the source has now by every byte, not by sizes and times; a source that differs is
#         named, and nothing that is here goes for it.
# Method: real daemons. One bit of the source is turned and its time set back, beneath copies that are here or half here, of
#         another node and of a store of this one, of directories and of single files.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "300MiB"; grace = "0s"; };'
up 2

# stage ARGUMENT...: what is staged is held by a process of ours, until it is let go.
sleep 1000 &
holder=$!
stage() {
	fmove stage --hold-pid $holder "$@"
}

let_go() {
	kill $holder
	wait $holder 2>/dev/null
	sleep 1000 &
	holder=$!
}

# tree DIR: small and large files, further names of both, links, holes, nothing.
tree() {
	mkdir -p "$1/d/empty"
	for i in 1 2 3; do random 3000 "$1/d/f$i"; done
	random 9000001 "$1/large"
	: >"$1/nothing"
	ln "$1/d/f1" "$1/also"
	ln "$1/large" "$1/d/large"
	ln -s d/f2 "$1/link"
	truncate -s 9000000 "$1/holes"
	echo tail >>"$1/holes"
}

# compared SOURCE: the copy that is here is the answer, and its source was read again.
compared() {
	stage --check content --json "$1" >out 2>err || bad "$1: $(cat err)"
	grep -q '"fetched":false,"check":"content",' out || bad "$1: not by content: $(cat out err)"
	grep -q 'read again and the same' err || bad "$1: how fresh it is: $(cat err)"
}

# differs SOURCE FILE OFFSET NAME: a turned bit there is not found by the listing, and found by the content, which names it.
differs() {
	flip "$2" "$3"
	data=$(stage "$1" 2>err) && grep -q unchanged err || bad "$1: $(cat err)"
	no 5 "\"$4\" has other bytes at the source .*fmove unstage" stage --check content "$1"
	[ ! -s out ] && [ -e "$data" ] || bad "$1: a path was said, or what was here is gone"
	stage --check content --json "$1" >out 2>err
	[ "$(json exit out)" = 5 ] && grep -q '"code":"EBADMSG"' out || bad "$1: --json: $(cat out err)"
	flip "$2" "$3"
	compared "$1"
}

for n in 1 2; do
	tree "$(store $n)/set$n"
	random 9000001 "$(store $n)/file$n"
	mkdir "$(store $n)/none$n"
	: >"$(store $n)/empty$n"
done
for source in n2:s/set2 s/set1 n2:s/file2 s/file1 n2:s/none2 n2:s/empty2 s/empty1; do
	stage --check content --json "$source" >out 2>err || bad "$source: $(cat err)"
	grep -q '"fetched":true,"check":"content",' out || bad "$source: not fetched: $(cat out err)"
	compared "$source"
done
for n in 1 2; do
	at=$([ $n -eq 1 ] && echo s || echo n2:s)
	differs "$at/set$n" "$(store $n)/set$n/d/f3" 1000 d/f3
	differs "$at/set$n" "$(store $n)/set$n/large" 8500000 d/large
	differs "$at/set$n" "$(store $n)/set$n/also" 0 also
	differs "$at/set$n" "$(store $n)/set$n/holes" 9000001 holes
	differs "$at/file$n" "$(store $n)/file$n" 5000000 "file$n"
done

# It is what was said: the source as it is now, once the copy is gone.
flip "$(store 2)/set2/d/f3" 1000
no 5 'other bytes' stage --check content n2:s/set2
let_go
await fmove unstage set2 2>/dev/null || bad "it stays: $(fmove datasets)"
data=$(stage --check content n2:s/set2 2>err) || bad "again: $(cat err)"
diff -r --no-dereference "$(store 2)/set2" "$data" || bad "it is not what the source has"

# By another time or size it is another version, as ever.
echo more >>"$(store 2)/set2/d/f1"
other=$(stage --check content n2:s/set2 2>err) && grep -q 'fetched as' err && [ "$other" != "$data" ] || bad "a change: $(cat err)"

# What an earlier try left was not read for this request: it comes again, or is found by its content when all is there.
cp -a "$(store 2)/set2" "$(store 2)/half"
random 30000000 "$(store 2)/half/large"
slow 2
stage n2:s/half >out 2>err &
stager=$!
moved half 3000000
crash n1
wait $stager && bad "it ended well without its daemon"
fast 2
start_again n1
reachable 2
flip "$(store 2)/half/d/f3" 7
stage --check content n2:s/half >out 2>err
case $? in
0)	same "$(store 2)/half/d/f3" "$(cat out)/d/f3" ;;	# it came again
5)	grep -q '"d/f3" has other bytes' err || bad "half: $(cat err)" ;;
*)	bad "half: $(cat err)" ;;
esac

# Nothing else says so.
no 2 'not listing, none or content' stage --check all n2:s/set2

# A source that cannot be read whole is no source, and the copy stays.
if [ "$(id -u)" -eq 0 ]; then
	rm "$(store 2)/set2/d/f3"
	mkdir "$(store 2)/set2/d/f3"
	stage --check content n2:s/set2 >out 2>err && grep -q 'fetched as' err || bad "a directory in its place: $(cat err)"
fi
[ -d "$other" ] || bad "a version that is held went"
kill $holder
exit
