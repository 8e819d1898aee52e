#!/bin/bash
# Goal:   whoever stops a transfer, and however, finds it stopped long before its end and nothing left of it at either end.
# Method: a slow transfer each, and SIGINT, SIGTERM, SIGKILL, two SIGINTs, a pipe that breaks.
. "$(dirname "$0")/lib.sh"
up 2
random 20000000 big
ok fmove put big n2:s/big

# start PATH COMMAND...: in the background, moving when this returns. Background jobs of a script ignore SIGINT unless told otherwise.
start() {
	local path=$1

	shift
	env --default-signal=INT "$@" >out 2>err &
	pid=$!
	moved "$path" 0
}

# is_over PID: it has ended, though nobody has asked how.
is_over() {
	! kill -0 "$1" || grep -q '^State:.*Z' "/proc/$1/status"
}

# has_seen PID: every signal that was sent there.
has_seen() {
	grep -q '^ShdPnd:[[:space:]]*0*$' "/proc/$1/status"
}

# stop SIGNAL STATUS: it ends, with this status, and not because it was through.
stop() {
	kill "-$1" $pid
	await is_over $pid || { bad "SIG$1 does not end it"; kill -KILL $pid; }
	wait $pid 2>/dev/null
	status=$?
	[ $status -eq "$2" ] || bad "SIG$1 ended it with $status instead of $2: $(cat err)"
}

for signal in INT TERM HUP; do
	start new fmove put --limit 100kB/s big n2:s/new
	stop $signal 130
	grep -q cancelled err || bad "put, SIG$signal says: $(cat err)"
	idle
	no_partials
	[ -e "$(store 2)/new" ] && bad "a cancelled put was published"

	start big fmove get --limit 100kB/s n2:s/big got
	stop $signal 130
	grep -q cancelled err || bad "get, SIG$signal says: $(cat err)"
	idle
	no_partials
	[ -e got ] && bad "a cancelled get was published"
done

# Killed: the daemon notices; what came may stay, for the same command to go on with (resume.sh).
start new fmove put --limit 100kB/s big n2:s/new
stop KILL 137
idle
[ -e "$(store 2)/new" ] && bad "a killed put was published"
rm -f "$(store 2)"/.fmove.*
start big fmove get --limit 100kB/s n2:s/big got
stop KILL 137
idle
[ -e got ] && bad "a killed get was published"
rm -f .fmove.*
no_partials

# The second Ctrl-C does not wait, not even for a daemon that says nothing; and it leaves nothing either.
start big fmove get --limit 100kB/s n2:s/big got
kill -STOP "$(cat "$dir/c/n1/pid")"
kill -INT $pid
await has_seen $pid
kill -0 $pid 2>/dev/null || bad "the first SIGINT did not wait for the daemon: $(cat err)"
stop INT 130
[ -z "$(find . -name '.fmove*')" ] || bad "the second SIGINT left $(find . -name '.fmove*')"
kill -CONT "$(cat "$dir/c/n1/pid")"
idle
no_partials

# A pipe that never says anything is cancelled as well as one that does.
mkfifo silent
exec 3<>silent
env --default-signal=INT fmove put - n2:s/pipe <silent >out 2>err 3>&- &
pid=$!
has_begun() {
	fmove status --json | grep -q '"path":"pipe"'
}
await has_begun || bad "a pipe that says nothing does not begin: $(cat err)"
stop INT 130
exec 3>&-
idle
no_partials
[ -e "$(store 2)/pipe" ] && bad "a cancelled pipe was published"
