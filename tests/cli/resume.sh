#!/bin/bash
# Goal:   a put or get that was killed goes on with what came when the same command is run again: less is sent, the content is right; a
#         source that changed meanwhile, or a cancelled transfer, begins afresh.
# Method: slow transfers, ended when the journal says that something is there; then again at full speed.
. "$(dirname "$0")/lib.sh"
up 2
random 50000000 big
cp big big.1

# start COMMAND...: in the background.
start() {
	env --default-signal=INT "$@" >out 2>err &
	pid=$!
}

# until_journaled DIR: until a journal there has something in it.
until_journaled() {
	for _ in $(seq 200); do
		[ -n "$(find "$1" -maxdepth 1 -name '.fmove.*.journal' -size +0)" ] && return
		kill -0 $pid 2>/dev/null || break
		sleep 0.1
	done
	bad "nothing was written down in $1: $(cat err)"
}

# stop SIGNAL STATUS
stop() {
	kill "-$1" $pid
	wait $pid 2>/dev/null
	status=$?
	[ $status -eq "$2" ] || bad "SIG$1 ended it with $status instead of $2: $(cat err)"
}

# no_jobs: both daemons are through with what was under way.
no_jobs() {
	for _ in $(seq 100); do
		fmove status --json >status
		fmove --socket "$dir/c/n2/fmoved.sock" status --json >>status
		[ "$(grep -o '"jobs":\[\]' status | wc -l)" -eq 2 ] && return
		sleep 0.1
	done
	bad "transfers go on: $(cat status)"
}

# resumed COMMAND...: it must succeed and have found a part of the 50 MB; with --json.
resumed() {
	ok "$@" || return
	was=$(json resumed_bytes out)
	[ "${was:-0}" -gt 0 ] || bad "$* found nothing to go on with: $(cat out)"
	[ "${was:-0}" -lt 50000000 ] || bad "$* had nothing to do: $(cat out)"
	[ "$(json data_bytes out)" = 50000000 ] || bad "$*: $(cat out)"
}

# afresh COMMAND...: it must succeed and have sent everything.
afresh() {
	ok "$@" || return
	[ "$(json resumed_bytes out)" = 0 ] || bad "$* went on with what is of no use: $(cat out)"
}

# ---- put ----

start fmove put --limit 8MB/s big n2:s/put
until_journaled "$(store 2)"
stop KILL 137
no_jobs
[ -e "$(store 2)/put" ] && bad "half a put was published"
resumed fmove put --json big n2:s/put
same big "$(store 2)/put"
no_partials

# Twice interrupted; the line for people says where it went on.
for _ in 1 2; do
	start fmove put --limit 8MB/s big n2:s/twice
	until_journaled "$(store 2)"
	stop KILL 137
	no_jobs
done
ok fmove put big n2:s/twice
grep -Eq 'resumed at [0-9]+ %' err || bad "it does not say that it went on: $(cat err)"
same big "$(store 2)/twice"
no_partials

# Into a file that is there: the old one stays until the end.
start fmove put --force --limit 8MB/s big n2:s/put
until_journaled "$(store 2)"
stop KILL 137
no_jobs
same big "$(store 2)/put"
no 6 'exists' fmove put big n2:s/put
resumed fmove put --force --json big n2:s/put
same big "$(store 2)/put"
no_partials

# ---- the source changes ----

start fmove put --limit 8MB/s big n2:s/new
until_journaled "$(store 2)"
stop KILL 137
no_jobs
random 50000000 big
afresh fmove put --json big n2:s/new
grep -q 'began afresh.*changed' out || bad "it does not say why it began afresh: $(cat out)"
same big "$(store 2)/new"
no_partials

# ---- get ----

start fmove get --limit 8MB/s n2:s/put got
until_journaled .
stop KILL 137
[ -e got ] && bad "half a get was published"
resumed fmove get --json n2:s/put got
same big.1 got
no_partials

start fmove get --limit 8MB/s n2:s/put got2
until_journaled .
stop KILL 137
ok fmove put --force big n2:s/put
afresh fmove get --json n2:s/put got2
same big got2
no_partials

# Two at once into one name: nobody's bytes get into the other's.
start fmove get --force --limit 8MB/s n2:s/put got
until_journaled .
ok fmove get --force n2:s/twice got
same big.1 got
wait $pid || bad "the first of two gets failed: $(cat err)"
same big got
no_partials

# ---- Ctrl-C: only if asked for ----

start fmove put --limit 8MB/s big n2:s/int
until_journaled "$(store 2)"
stop INT 130
no_jobs
no_partials
start fmove put --keep-partial --limit 8MB/s big n2:s/int
until_journaled "$(store 2)"
stop INT 130
no_jobs
resumed fmove put --json big n2:s/int
same big "$(store 2)/int"
no_partials

start fmove get --limit 8MB/s n2:s/int int
until_journaled .
stop INT 130
no_partials
start fmove get --keep-partial --limit 8MB/s n2:s/int int
until_journaled .
stop INT 130
grep -q 'run the same command again' err || bad "it does not say that it can go on: $(cat err)"
resumed fmove get --json n2:s/int int
same big int
no_partials

# ---- between stores: what can be gone on with is said ----

cp big "$(store 1)/from"
start fmove put --json --keep-partial --limit 8MB/s n1:s/from n2:s/between
until_journaled "$(store 2)"
stop INT 130
grep -q '"kept":true' out || bad "it does not say that it can go on: $(cat out)"
no_jobs
resumed fmove put --json n1:s/from n2:s/between
start fmove get --json --keep-partial --limit 8MB/s n2:s/between n1:s/back
until_journaled "$(store 1)"
stop INT 130
grep -q '"kept":true' out || bad "it does not say that it can go on: $(cat out)"
no_jobs
resumed fmove get --json n2:s/between n1:s/back
same big "$(store 1)/back"
no_partials

# ---- a daemon is killed ----

# restart I SIGNAL: the daemon of node I ends in the middle, and comes back.
restart() {
	kill "-$2" "$(cat "$dir/c/n$1/pid")"
	wait $pid
	status=$?
	[ $status -ne 0 ] || bad "it succeeded although the daemon of n$1 was killed"
	for _ in $(seq 100); do
		[ -e "$dir/c/n$1/exit" ] && break
		sleep 0.1
	done
	"$FM_SOURCE/tests/cluster" start "$dir/c" "n$1" || bad "n$1 does not start again"
}

start fmove put --limit 8MB/s big n2:s/receiver
until_journaled "$(store 2)"
restart 2 KILL
grep -q 'run the same command again' err || bad "it does not say that it can go on: $(cat err)"
resumed fmove put --json --retry 20s big n2:s/receiver
same big "$(store 2)/receiver"

start fmove put --limit 8MB/s big n2:s/sender
until_journaled "$(store 2)"
restart 1 KILL
resumed fmove put --json --retry 20s big n2:s/sender
same big "$(store 2)/sender"

start fmove get --limit 8MB/s n2:s/sender received
until_journaled .
restart 1 KILL
grep -q 'run the same command again' err || bad "it does not say that it can go on: $(cat err)"
resumed fmove get --json --retry 20s n2:s/sender received
same big received
no_jobs
no_partials
