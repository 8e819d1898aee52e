#!/bin/bash
# Goal:   a tree whose transfer was killed in the middle is not there, not even in part, and the same command again goes on.
# Method: SIGKILL to the program, to either daemon, while it copies slowly; then the rerun must end well, say that it went on, and send
#         less than all. --keep-partial does the same for Ctrl-C.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
up 2

mkdir -p a/sub
for i in $(seq 2000); do head -c 5000 /dev/urandom >"a/sub/f$i"; done
random 8000000 a/large1
random 8000000 a/sub/large2
total=26000000
ok fmove put -r a n2:s/src

# began BYTES: wait until so much has moved.
began() {
	for _ in $(seq 200); do
		[ "$(fmove status --json | grep -o '"bytes":[0-9]*' | sed 's/.*://' | sort -n | tail -n 1)" -gt "$1" ] 2>/dev/null && return
		sleep 0.1
	done
	bad "it does not move"
}

# again OP...: the rerun, which must have less to send. What was logged is at most a second behind.
again() {
	ok fmove "$@" --json || return
	[ "$(json resumed_bytes out)" -gt 1000000 ] || bad "$*: nothing was there from the first try: $(cat out)"
	[ "$(json data_bytes out)" -lt $((total - 1000000)) ] || bad "$*: sent $(json data_bytes out) bytes again"
	grep -q 'earlier try' err || bad "$*: the last line: $(cat err)"
}

no_target() {
	[ -e "$1" ] && bad "$1 is there after $2"
}

# The program itself.
fmove put -r --limit 5MB/s a n2:s/t1 >/dev/null 2>err &
pid=$!
began 14000000
kill -KILL $pid
wait $pid 2>/dev/null
idle
no_target "$(store 2)/t1" 'SIGKILL of put'
again put -r a n2:s/t1
same_tree a "$(store 2)/t1"
no_trees

fmove get -r --limit 5MB/s n2:s/src g1 >/dev/null 2>err &
pid=$!
began 14000000
kill -KILL $pid
wait $pid 2>/dev/null
idle
no_target g1 'SIGKILL of get'
again get -r n2:s/src g1
same_tree a g1
no_trees

# A daemon: the far one, then our own.
for node in n2 n1; do
	fmove put -r --limit 5MB/s a n2:s/t-$node >/dev/null 2>err &
	pid=$!
	began 14000000
	kill -KILL "$(cat "$dir/c/$node/pid")"
	wait $pid
	[ $? -eq 4 ] || bad "put -r when $node died: $? $(cat err)"
	"$FM_SOURCE/tests/cluster" stop "$dir/c" $node >/dev/null 2>&1
	"$FM_SOURCE/tests/cluster" start "$dir/c" $node || bad "$node does not start again"
	no_target "$(store 2)/t-$node" "SIGKILL of $node"
	again put -r a n2:s/t-$node
	same_tree a "$(store 2)/t-$node"

	fmove get -r --limit 5MB/s n2:s/src g-$node >/dev/null 2>err &
	pid=$!
	began 14000000
	kill -KILL "$(cat "$dir/c/$node/pid")"
	wait $pid
	[ $? -eq 4 ] || bad "get -r when $node died: $? $(cat err)"
	"$FM_SOURCE/tests/cluster" stop "$dir/c" $node >/dev/null 2>&1
	"$FM_SOURCE/tests/cluster" start "$dir/c" $node || bad "$node does not start again"
	no_target g-$node "SIGKILL of $node"
	again get -r n2:s/src g-$node
	same_tree a g-$node
done
no_trees

# Ctrl-C, and what came is to stay; a source that changed meanwhile is told apart, file by file.
for way in put get; do
	if [ $way = put ]; then
		what='a n2:s/kept' target=$(store 2)/kept
	else
		what='n2:s/src kept' target=kept
	fi
	# shellcheck disable=SC2086
	env --default-signal=INT fmove $way -r --keep-partial --limit 5MB/s $what >/dev/null 2>err &
	pid=$!
	began 14000000
	kill -INT $pid
	wait $pid
	[ $? -eq 130 ] || bad "$way --keep-partial, interrupted: $? $(cat err)"
	idle
	no_target "$target" 'Ctrl-C'
	if [ $way = put ]; then
		random 8000000 a/large1
		echo other >a/sub/f1
	fi
	# shellcheck disable=SC2086
	again $way -r $what
	[ $way = put ] && same_tree a "$target" || same_tree "$(store 2)/src" "$target"
done
no_trees
