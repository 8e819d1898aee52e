#!/bin/bash
# Goal:   a tree whose transfer was killed in the middle is not there, not even in part, and the same command again goes on.
# Method: SIGKILL to the program, to either daemon, while it copies so slowly that a busy machine does not see its end, once the
#         journal has something; then the rerun must end well, say that it went on, and send less than all. --keep-partial does
#         the same for Ctrl-C. What has nothing to do with each other goes on side by side.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
up 2

mkdir -p a/sub
split -a 4 -b 5000 <(head -c 5000000 /dev/urandom) a/sub/f	# 1,000 of them
random 8000000 a/large1
random 16000000 a/sub/large2
total=29000000
slow=300kB/s		# more than a minute and a half
ok fmove put -r a n2:s/src
for copy in get kept n1 n2; do ok cp -a "$(store 2)/src" "$(store 2)/src-$copy"; done

# amid_put NAME, amid_get PATH: wait until it has moved something, and its journal has something of that.
amid_put() {
	moved "$1" 1000000
	await put_is_noted "$1" || bad "nothing of $1 is written down"
}

put_is_noted() {
	fmove ls --partial --json n2:s | tr -d '\n' | grep -q "\"name\":\"$1\",[^}]*\"size\":[1-9]"
}

amid_get() {
	moved "$1" 1000000
	await get_is_noted || bad "nothing of $1 is written down"
}

get_is_noted() {
	[ -n "$(find . -maxdepth 2 -path './.fmove.*.tree/journal' -size +0)" ]
}

# again OP...: the rerun, which must have less to send.
again() {
	ok fmove "$@" --json || return
	[ "$(json resumed_bytes out)" -gt 0 ] || bad "$*: nothing was there from the first try: $(cat out)"
	[ "$(json data_bytes out)" -lt $total ] || bad "$*: sent $(json data_bytes out) bytes again"
	grep -q 'earlier try' err || bad "$*: the last line: $(cat err)"
}

no_target() {
	[ -e "$1" ] && bad "$1 is there after $2"
}

# The program itself.
killed_put() {
	fmove put -r --limit $slow ../a n2:s/t1 >/dev/null 2>err &
	amid_put t1
	kill -KILL $!
	wait $! 2>/dev/null
	ended t1
	no_target "$(store 2)/t1" 'SIGKILL of put'
	again put -r ../a n2:s/t1
	same_tree ../a "$(store 2)/t1"
}

killed_get() {
	fmove get -r --limit $slow n2:s/src-get g1 >/dev/null 2>err &
	amid_get src-get
	kill -KILL $!
	wait $! 2>/dev/null
	ended src-get
	no_target g1 'SIGKILL of get'
	again get -r n2:s/src-get g1
	same_tree ../a g1
}

# interrupted PATH TARGET get|put...: Ctrl-C, and what came is to stay.
interrupted() {
	local path=$1 target=$2

	shift 2
	env --default-signal=INT fmove "$@" -r --keep-partial --limit $slow >/dev/null 2>err &
	"amid_$1" "$path"
	kill -INT $!
	wait $!
	[ $? -eq 130 ] || bad "$* --keep-partial, interrupted: $? $(cat err)"
	ended "$path"
	no_target "$target" 'Ctrl-C'
}

# A source that changed meanwhile is told apart, file by file.
kept_put() {
	cp -a ../a a
	interrupted kept "$(store 2)/kept" put a n2:s/kept
	random 8000000 a/large1
	echo other >a/sub/faaaa
	again put -r a n2:s/kept
	same_tree a "$(store 2)/kept"
}

kept_get() {
	interrupted src-kept kept get n2:s/src-kept kept
	again get -r n2:s/src-kept kept
	same_tree "$(store 2)/src-kept" kept
}

for story in killed_put killed_get kept_put kept_get; do
	aside $story
done
together
no_trees

# A daemon: the far one, then our own.
for node in n2 n1; do
	fmove put -r --limit $slow a n2:s/t-$node >/dev/null 2>err.put &
	put=$!
	fmove get -r --limit $slow n2:s/src-$node g-$node >/dev/null 2>err.get &
	get=$!
	amid_put t-$node
	amid_get src-$node
	kill -KILL "$(cat "$dir/c/$node/pid")"
	wait $put
	[ $? -eq 4 ] || bad "put -r when $node died: $? $(cat err.put)"
	wait $get
	[ $? -eq 4 ] || bad "get -r when $node died: $? $(cat err.get)"
	"$FM_SOURCE/tests/cluster" stop "$dir/c" $node >/dev/null 2>&1
	start_again $node
	no_target "$(store 2)/t-$node" "SIGKILL of $node"
	no_target g-$node "SIGKILL of $node"
	again put -r a n2:s/t-$node
	same_tree a "$(store 2)/t-$node"
	again get -r n2:s/src-$node g-$node
	same_tree a g-$node
done
no_trees
