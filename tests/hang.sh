# SPDX-License-Identifier: MIT
# hang.sh - when a test gives up waiting, in seconds, how it waits, how much of a sample it takes, and which fmove it starts; sourced by
# whatever waits.
# shellcheck shell=bash disable=SC2034
#
# For what never comes, and nothing less: how fast a machine is decides no test. It is shorter than the time
# that CTest gives a test, so that the test itself says what did not come.
HANG_S=${HANG_S:-400}

# For how long a peer may be silent in the nodes of tests, unless a configuration says so itself: one daemon may stand still on a busy machine
# for longer than the product's 10 s, and that ends no session. STALL='' is the product's own.
STALL=${STALL-2min}

# be_patient VARIABLE: it has a configuration, or a part of one, which says that afterwards, once.
be_patient() {
	local -n conf_of=$1
	local word="stall_timeout = \"$STALL\";"

	case $STALL:$conf_of in
	:* | *stall_timeout*)	;;
	*'mover = {'*)		conf_of=${conf_of/'mover = {'/"mover = { $word"} ;;
	*)			conf_of+=$'\n'"mover = { $word };" ;;
	esac
}

# How a program is told that only asks whether something has come, again and again: it looks for no leaks
# at its end, a third of what such a program takes. Tests that judge its answer run it without this.
ASKING=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0

# quick_client: from here on `fmove` is the one of FM_CLIENT, a directory that `make check` gives. It has no sanitizers
# and starts in a fifth of the time. For scripts about daemons. By hand they take FMOVE_BIN's, too.
quick_client() {
	[ ! -x "${FM_CLIENT:-}/fmove" ] || PATH=$FM_CLIENT:$PATH
}

# pause SECONDS: as sleep(1), without a program: starting one takes more of a processor than most looks of those who wait. Nothing
# ever comes from `never`. In the lab it is guest.sh's.
if ! declare -F pause > /dev/null; then
	exec {never}<> <(:)
	pause() {
		read -r -t "$1" -u "$never" || true
	}
fi

# await_end PID: waits for its end. One that does not come within half of HANG_S is told of with what its threads hang in.
await_end() {
	local end=$((SECONDS + HANG_S / 2)) ms=20 pause_s task

	while kill -0 "$1" 2> /dev/null; do
		if ((SECONDS >= end)); then
			echo "process $1 does not end:" >&2
			grep -E '^(State|SigPnd|ShdPnd|SigBlk|SigIgn|SigCgt)' "/proc/$1/status" >&2 || true
			for task in "/proc/$1/task"/*; do
				cat "$task/comm" "$task/wchan" "$task/syscall" "$task/stack" >&2 || true
				echo >&2
			done
			return 1
		fi
		printf -v pause_s '0.%03d' $ms
		pause "$pause_s"
		ms=$((ms < 300 ? ms * 3 / 2 : 300))
	done
}

# sample COUNT: so many rounds, seconds or points of what a full count only finds more often. In check-fast
# (FM_SAMPLE=2) half of them.
sample() {
	local of=${FM_SAMPLE:-1}

	echo $((($1 + of - 1) / of))
}
