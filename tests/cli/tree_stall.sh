#!/bin/bash
# Goal:   who stops a put -r or get -r (Ctrl-Z, SIGSTOP) stops nobody else: it is given up, says so, and the same command again goes on.
# Method: SIGSTOP in the middle of one of each, then of more than the connections have slots for; others must get through, and all
#         memory of the arena must come home while they still stand. One that stood for a moment only goes on and completes.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
up 2

mkdir -p a/sub
for i in $(seq 300); do head -c 30000 /dev/urandom >"a/sub/f$i"; done
random 8000000 a/large
random 20000000 file
ok fmove put -r a n2:s/src

pids=
declare -A err_of what_of

# begin NAME put|get SRC DST: slowly, in the background.
begin() {
	fmove "$2" -r --limit 2MB/s "$3" "$4" >/dev/null 2>"err.$1" &
	pids="$pids $!"
	err_of[$!]=err.$1
	what_of[$!]="$2 -r $3 $4"
}

# moving N: wait until N transfers of n1 have moved something.
moving() {
	for _ in $(seq 300); do
		[ "$(fmove status --json | grep -o '"bytes":[1-9][0-9]\{6,\}' | wc -l)" -eq "$1" ] && return
		sleep 0.1
	done
	bad "not all of them move: $(fmove status --json)"
}

# given_up: none of them is a transfer any more, and every node has all of its slabs. They stand still all that time.
given_up() {
	for _ in $(seq 300); do
		left=
		for i in 1 2; do
			now=$(fmove --socket "$dir/c/n$i/fmoved.sock" status --json)
			[ "$(json slabs <(echo "$now"))" = "$(json slabs_free <(echo "$now"))" ] && grep -q '"jobs":\[\]' <<<"$now" ||
				left="n$i: $now"
		done
		[ -z "$left" ] && break
		sleep 0.1
	done
	[ -z "$left" ] || bad "what stands still keeps: $left"
}

# told: each says why it ended, in one line, once it goes on; so did the daemon meanwhile.
told() {
	local pid

	for pid in $pids; do
		grep -q "process $pid) stood still" "$dir/c/n1/log" || bad "n1 does not say that $pid stands still"
		kill -CONT "$pid"
		wait "$pid"
		[ $? -eq 4 ] || bad "${what_of[$pid]}: not the exit status of one that took too long"
		[ "$(wc -l <"${err_of[$pid]}")" -eq 1 ] || bad "${what_of[$pid]} says $(wc -l <"${err_of[$pid]}") lines"
		grep -q "process $pid) stood still for .* run the same command again" "${err_of[$pid]}" ||
			bad "${what_of[$pid]}: $(cat "${err_of[$pid]}")"
	done
	pids=
}

# One of each; the others do not even wait for it to be given up.
begin p put a n2:s/p
begin g get n2:s/src g
moving 2
# shellcheck disable=SC2086
kill -STOP $pids
ok timeout 120 fmove put -r a n2:s/other
same_tree a "$(store 2)/other"
ok timeout 120 fmove get -r n2:s/src other
same_tree a other
ok timeout 120 fmove put file n2:s/file
same file "$(store 2)/file"
given_up
for there in "$(store 2)/p" g; do
	[ ! -e "$there" ] || bad "$there is there, and only half of it came"
done
told
ok fmove put -r a n2:s/p --json
[ "$(json resumed_bytes out)" -gt 0 ] || bad "put -r, again: nothing was there from the first try: $(cat out)"
same_tree a "$(store 2)/p"
ok fmove get -r n2:s/src g --json
[ "$(json resumed_bytes out)" -gt 0 ] || bad "get -r, again: nothing was there from the first try: $(cat out)"
same_tree a g

# So many that every slot of every connection waits for them.
begin p1 put a n2:s/p1
begin p2 put a n2:s/p2
for i in 1 2 3 4 5 6; do begin g$i get n2:s/src g$i; done
moving 8
# shellcheck disable=SC2086
kill -STOP $pids
ok timeout 120 fmove put file n2:s/file2
ok timeout 120 fmove get -r n2:s/src other2
same_tree a other2
ok timeout 120 fmove put -r a n2:s/other2
ok timeout 120 fmove get n2:s/file2 file2
same file file2
given_up
told
for i in 1 2; do ok fmove put -r a n2:s/p$i; done
for i in 1 2 3 4 5 6; do ok fmove get -r n2:s/src g$i; done
same_tree a g6

# For a moment only: it goes on.
begin p3 put a n2:s/p3
begin g7 get n2:s/src g7
moving 2
for pid in $pids; do
	kill -STOP "$pid"
	sleep 1
	kill -CONT "$pid"
done
for pid in $pids; do
	wait "$pid" || bad "${what_of[$pid]}, stopped for a moment: $? $(cat "${err_of[$pid]}")"
done
same_tree a "$(store 2)/p3"
same_tree a g7
no_trees
