#!/bin/bash
# Goal:   whoever stops a transfer, and however, finds it stopped within a second and nothing left of it at either end.
# Method: a slow transfer each, and SIGINT, SIGTERM, SIGKILL, two SIGINTs, a pipe that breaks.
. "$(dirname "$0")/lib.sh"
up 2
random 40000000 big
ok fmove put big n2:s/big

# start COMMAND...: in the background, moving when this returns. Background jobs of a script ignore SIGINT unless told otherwise.
start() {
	env --default-signal=INT "$@" >out 2>err &
	pid=$!
	for _ in $(seq 50); do
		fmove status --json | grep -q '"state":"copying"' && return
		sleep 0.1
	done
	bad "$*: it does not move: $(cat err)"
}

# stop SIGNAL STATUS: it ends within a second, with this status.
stop() {
	begin=$(date +%s%N)
	kill "-$1" $pid
	wait $pid 2>/dev/null
	status=$?
	took=$((($(date +%s%N) - begin) / 1000000))
	[ $status -eq "$2" ] || bad "SIG$1 ended it with $status instead of $2: $(cat err)"
	[ $took -lt 1000 ] || bad "SIG$1 took $took ms"
}

no_jobs() {
	for _ in $(seq 20); do
		fmove status --json >out
		fmove --socket "$dir/c/n2/fmoved.sock" status --json >out2
		grep -q '"jobs":\[\]' out && grep -q '"jobs":\[\]' out2 && return
		sleep 0.1
	done
	bad "transfers go on: $(cat out out2)"
}

for signal in INT TERM HUP; do
	start fmove put --limit 2MB/s big n2:s/new
	stop $signal 130
	grep -q cancelled err || bad "put, SIG$signal says: $(cat err)"
	no_jobs
	no_partials
	[ -e "$(store 2)/new" ] && bad "a cancelled put was published"

	start fmove get --limit 2MB/s n2:s/big got
	stop $signal 130
	grep -q cancelled err || bad "get, SIG$signal says: $(cat err)"
	no_jobs
	no_partials
	[ -e got ] && bad "a cancelled get was published"
done

# Killed: the daemon notices; what came may stay, for the same command to go on with (resume.sh).
start fmove put --limit 2MB/s big n2:s/new
stop KILL 137
no_jobs
[ -e "$(store 2)/new" ] && bad "a killed put was published"
rm -f "$(store 2)"/.fmove.*
start fmove get --limit 2MB/s n2:s/big got
stop KILL 137
no_jobs
[ -e got ] && bad "a killed get was published"
rm -f .fmove.*
no_partials

# The second Ctrl-C does not wait, not even for a daemon that says nothing; and it leaves nothing either.
start fmove get --limit 2MB/s n2:s/big got
kill -STOP "$(cat "$dir/c/n1/pid")"
kill -INT $pid
sleep 0.3
kill -0 $pid 2>/dev/null || bad "the first SIGINT did not wait for the daemon: $(cat err)"
stop INT 130
[ -z "$(find . -name '.fmove*')" ] || bad "the second SIGINT left $(find . -name '.fmove*')"
kill -CONT "$(cat "$dir/c/n1/pid")"
no_jobs
no_partials

# A pipe that never says anything is cancelled as well as one that does.
mkfifo silent
sleep 30 >silent &
writer=$!
env --default-signal=INT fmove put - n2:s/pipe <silent >out 2>err &
pid=$!
sleep 1
stop INT 130
kill $writer
no_jobs
no_partials
[ -e "$(store 2)/pipe" ] && bad "a cancelled pipe was published"
