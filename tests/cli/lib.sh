# lib.sh - what the tests of fmove's command line share; sourced by each. A cluster of real daemons on this machine, real files.
#
# From the environment: FMOVE_BIN (the programs), FM_SOURCE (the tree). A test ends with 0, 1, or 77 if it cannot run here.

set -u
: "${FMOVE_BIN:?directory of fmove and fmoved}" "${FM_SOURCE:?top of the source tree}"
export FMOVE_BIN
# shellcheck source=tests/hang.sh
. "$FM_SOURCE/tests/hang.sh"
# shellcheck source=tests/ports.sh
. "$FM_SOURCE/tests/ports.sh"
PATH=$FMOVE_BIN:$PATH
quick_fmove=fmove
[ ! -x "${FM_CLIENT:-}/fmove" ] || quick_fmove=$FM_CLIENT/fmove
[ "${FM_ABOUT:-}" != daemons ] || quick_client
export LC_ALL=C.UTF-8
fails=0
dir=
nodes=0
asides=

skip() {
	echo "SKIP: $*"
	exit 77
}

# A test that goes wrong says what, and goes on: one run shows everything.
bad() {
	printf 'FAIL: %s\n' "$*" | cut -c 1-600 >&2
	fails=$((fails + 1))
}

# The options that a --help, or the source of a manual, has entries for; from standard input, one a line.
help_options() {
	sed -n 's/^  --\([a-z-]*\).*/\1/p' | sort -u
}

man_options() {
	sed 's/\\-/-/g' | grep -oE -- '^\.(BR|B|BI|IR) "?--[a-z-]+' | grep -oE '[a-z][a-z-]+$'
}

# A daemon touches its whole arena when it starts, which takes longer than the rest of its start. Nodes whose configuration says nothing of
# memory have an eighth of the default: the least that has chunks of 1 MiB and four slabs each way, as the default has
# (mover/node/tuning.c). A slab is four chunks then, and eight by default; a rail has up to four connections, where more processors have eight. Also nodes.sh's.
node_memory='memory = { arena = "32MiB"; };'

# use_little FILE: a configuration that was not made here says so of the memory, too.
use_little() {
	grep -q '^memory =' "$1" || echo "$node_memory" >>"$1"
}

# up N: nodes n1 .. nN, joined; $dir/nI/s is the store "s" of nI. fmove talks to n1.
up() {
	case ${FM_CLUSTER_CONF:-} in
	*memory*)	;;
	*)		local -x FM_CLUSTER_CONF=$node_memory$'\n'${FM_CLUSTER_CONF:-} ;;
	esac
	until dir=${TMPDIR:-/tmp}/fm-cli.$RANDOM && mkdir -m 755 "$dir" "$dir/w" 2>/dev/null; do
		[ -d "$dir" ] || { mkdir "$dir" && rmdir "$dir"; } || exit 1	# that of another one may have gone meanwhile
	done
	mkdir -m 777 "$dir/leaks"
	export FM_LEAKS=$dir/leaks		# for tests/leaks.c
	trap down EXIT
	trap 'bad interrupted; exit' INT TERM
	own_ports
	export FM_CLUSTER_PORTS="$ports_from $PORTS_EACH"
	if ! "$FM_SOURCE/tests/cluster" up "$dir/c" "$1"; then
		bad "the cluster does not start"
		"$FM_SOURCE/tests/cluster" down "$dir/c"
		exit
	fi
	nodes=$1
	cd "$dir/w" || exit 1
	use 1
}

# use I: talk to node nI from here on.
use() {
	export FMOVE_SOCKET="$dir/c/n$1/fmoved.sock"
}

store() {
	echo "$dir/c/n$1/s"
}

down() {
	status=$?
	trap - EXIT
	# shellcheck disable=SC2086
	[ -z "${asides:-}" ] || kill $asides 2>/dev/null		# left only if this ends before its time
	if [ "$nodes" -gt 0 ]; then
		alive
		"$FM_SOURCE/tests/cluster" down "$dir/c" || bad "the cluster does not stop cleanly"
	fi
	# What the last command of a script gave says nothing.
	[ $status -eq 77 ] && [ "$fails" -eq 0 ] && { rm -rf "$dir"; exit 77; }
	[ "$fails" -eq 0 ] && { rm -rf "$dir"; exit 0; }
	tail -n 20 "$dir"/c/n*/log 2>/dev/null
	[ -n "${FM_KEEP:-}" ] && echo "kept: $dir" || rm -rf "$dir"
	exit 1
}

# quickly ARGUMENT...: fmove, where only what a daemon says is looked at, and again and again. It is the quick one.
quickly() {
	ASAN_OPTIONS=$ASKING "$quick_fmove" "$@"
}

# Every daemon still answers.
alive() {
	for ((i = 1; i <= nodes; i++)); do
		quickly --socket "$dir/c/n$i/fmoved.sock" status --json >/dev/null 2>&1 || bad "n$i does not answer any more"
	done
}

# await COMMAND...: wait until it succeeds. 1: it never did. Often at first, then less: the command
# may be fmove itself, and who asks all the time takes the processor from what he waits for.
await() {
	local end=$((SECONDS + HANG_S)) ms=20

	until ASAN_OPTIONS=$ASKING "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		pause "0.0$ms"
		[ $ms -ge 80 ] || ms=$((ms * 2))
	done
}

# catches PID: it is fmove by now, and no longer the shell or env, and has its handlers: a signal is not lost any more, and ends it as it should.
catches() {
	local mask

	[ "$(<"/proc/$1/comm")" = fmove ] && mask=$(<"/proc/$1/status") && mask=${mask#*SigCgt:} && ((0x${mask:1:16} & 0x4000))	# SIGTERM
}

# aside FUNCTION [ARGUMENT...]: runs it in the background, in a fresh directory, with the nodes of `up`. `together` waits for all of them; what
# failed there fails here.
aside() {
	local place=$dir/w/aside-${*//\//-}

	mkdir -p "${place// /-}"
	(
		fails=0 asides=
		cd "${place// /-}" || exit 1
		"$@"
		[ "$fails" -eq 0 ]
	) &
	asides="$asides $!"
}

together() {
	local pid

	for pid in $asides; do
		wait "$pid" || fails=$((fails + 1))
	done
	asides=
}

# answers SOCKET: its daemon serves. A socket that is there is less: nobody may listen at it yet.
answers() {
	[ -S "$1" ] && quickly --socket "$1" status
}

# is_logged PATTERN FILE...: wait until it is: a process of its own writes the log, after what else tells of the same event.
is_logged() {
	await grep -qE -- "$@"
}

# reachable I: wait until n1 can ask node nI again.
reachable() {
	await quickly ls "n$1:s" || bad "n$1 cannot be reached"
}

# crash NODE: SIGKILL of its daemon, which has ended then.
crash() {
	kill -KILL "$(<"$dir/c/$1/pid")"
	await test -s "$dir/c/$1/exit" || bad "$1 does not end"
}

# start_again NODE: it was stopped, or crashed.
start_again() {
	"$FM_SOURCE/tests/cluster" start "$dir/c" "$1" || bad "$1 does not start again"
}

# take_over I: node nI reads its configuration again.
take_over() {
	local log=$dir/c/n$1/log before

	before=$(grep -c ': reloaded' "$log")
	kill -HUP "$(<"$dir/c/n$1/pid")"
	await reloaded_more "$log" "$before" || bad "n$1 does not reload: $(tail -n 3 "$log")"
}

reloaded_more() {
	[ "$(grep -c ': reloaded' "$1")" -gt "$2" ]
}

# slow I: node nI sends no more than 1 MiB/s from here on, the least there may be; fast I: as fast as it can again. So there is time to catch
# a transfer in the middle, and it ends soon when that is done. For clusters whose FM_CLUSTER_CONF says nothing of `mover`.
slow() {
	sed -i 's|^mover = {|& rate_limit = "1MiB/s";|' "$dir/c/n$1/fmove.conf"
	take_over "$1"
}

fast() {
	no_longer_slow "$1"
	take_over "$1"
}

# no_longer_slow I: of a node that does not run: when it starts again.
no_longer_slow() {
	sed -i 's/ rate_limit = "[^"]*";//' "$dir/c/n$1/fmove.conf"
}

# moved PATH BYTES: wait until the transfer of that remote path has moved more than so many bytes, as n1 sees it.
moved() {
	await has_moved "$1" "$2" || bad "$1 does not move: $(fmove status --json)"
}

has_moved() {
	local said each

	said=$(quickly status --json)
	each="\"path\":\"$1\",\"state\":\"copying\","
	while [[ $said == *"$each"* ]]; do
		said=${said#*"$each"}
		[[ ! ${said%%\}*} =~ \"bytes\":([0-9]+) ]] || [ "${BASH_REMATCH[1]}" -le "$2" ] || return 0
	done
	return 1
}

# ended PATH: wait until no node has a transfer of that remote path any more.
ended() {
	await has_ended "$1" || bad "a transfer of $1 goes on"
}

has_ended() {
	local i said

	for ((i = 1; i <= nodes; i++)); do
		said=$(quickly --socket "$dir/c/n$i/fmoved.sock" status --json)
		[[ $said != *"\"path\":\"$1\""* ]] || return 1
	done
}

# idle: wait until no node has a transfer any more.
idle() {
	await is_idle || bad "transfers go on"
}

is_idle() {
	local i said

	for ((i = 1; i <= nodes; i++)); do
		said=$(quickly --socket "$dir/c/n$i/fmoved.sock" status --json)
		[[ $said == *'"jobs":[]'* ]] || return 1
	done
}

# journaled DIR: wait until a transfer into that directory has written down what came.
journaled() {
	await has_journal "$1" || bad "nothing was written down in $1"
}

has_journal() {
	[ -n "$(find "$1" -maxdepth 1 -name '.fmove.*.journal' -size +0)" ]
}

# ok COMMAND...: it must succeed.
ok() {
	"$@" >out 2>err || { bad "$* -> $?: $(cat err)"; return 1; }
}

# ok_room COMMAND...: the same of one that tells the room of stores, all of which answer. On a machine that is busy one may not do so within the 2 s
# that it has, and is asked again.
ok_room() {
	await tells_room "$@" && [ $status -eq 0 ] || bad "$* -> $status: $(cat out err)"
}

# tells_room COMMAND...: it says of no store that it does not answer; what it says to out and err, $status.
tells_room() {
	status=0
	"$@" >out 2>err || status=$?
	! grep -qE 'has not answered for|"silent_ms":[0-9]' out err
}

# no STATUS PATTERN COMMAND...: it must fail with this exit status and one line on standard error that matches PATTERN.
no() {
	local said_err

	want=$1 pattern=$2
	shift 2
	"$@" >out 2>err </dev/null
	got=$?
	# What is as it should be takes no program; the programs judge all else, and what has a NUL in it.
	if [ $got -eq "$want" ] && ! IFS= read -r -d '' said_err <err && [[ $said_err == *$'\n' ]] && said_err=${said_err%$'\n'} &&
		[[ $said_err != *$'\n'* && $said_err =~ $pattern ]]; then
		return
	fi
	[ $got -eq "$want" ] || bad "$* -> $got instead of $want: $(cat err)"
	[ "$(wc -l <err)" -eq 1 ] || bad "$* says $(wc -l <err) lines: $(cat err)"
	grep -Eq -- "$pattern" err || bad "$*: \"$(cat err)\" does not match \"$pattern\""
}

same() {
	cmp "$1" "$2" || bad "$1 and $2 differ"
}

# need_nobody: this is root, and can be nobody.
need_nobody() {
	[ "$(id -u)" -eq 0 ] || skip "needs root to become somebody else"
	id nobody >/dev/null 2>&1 || skip "there is no user nobody"
}

# as_nobody COMMAND...
as_nobody() {
	setpriv --reuid nobody --regid "$(id -gn nobody)" --clear-groups "$@"
}

# A process of nobody's, $holder, until it is killed.
nobody_sleeps() {
	setpriv --reuid nobody --regid "$(id -gn nobody)" --clear-groups sleep 1000 >/dev/null 2>&1 &
	holder=$!
	await is_of_nobody $holder || bad "no process of nobody"
}

is_of_nobody() {
	[ "$(stat -c %U "/proc/$1")" = nobody ]
}

# random BYTES FILE
random() {
	head -c "$1" /dev/urandom >"$2"
}

# no_useless_partials: as no_partials, but what a journal stands beside may stay for the next try: a failure left it, not a cancel.
no_useless_partials() {
	local part

	find "$dir/w" "$dir"/c/n*/s -name '.fmove.*.part' -type f 2>/dev/null | while read -r part; do
		[ ! -s "${part%.part}.journal" ] || rm -f "$part" "${part%.part}.journal"
	done
	no_partials
}

# no_partials [DIR...]: nothing half-done lies about in these directories; without any, in the working directory and all stores. The daemon
# may take a moment.
no_partials() {
	[ $# -gt 0 ] || set -- "$dir/w" "$dir"/c/n*/s
	await is_clean "$@" || bad "left behind: $left"
}

is_clean() {
	left=$(find "$@" -name '.fmove*' ! -name '.fmove.*.manifest' ! -name '.fmove.held.*' ! -name '.fmove.kept.*' -type f 2>/dev/null)
	[ -z "$left" ]
}

# flip FILE OFFSET: one bit there, the time as it was: what a disk would do.
flip() {
	local mtime

	mtime=$(stat -c %y "$1")
	printf "\\$(printf %o $(($(od -An -tu1 -j "$2" -N 1 "$1") ^ 4)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
	touch -d "$mtime" "$1"
}

# json KEY FILE: the value of a key in one flat JSON object, without its quotes; of several objects, one a line, of each. What is long is
# too much for the shell.
json() {
	local text line

	IFS= read -r -d '' text <"$2"
	if [ ${#text} -gt 8000 ]; then
		sed -n "s/.*\"$1\":\"\\{0,1\\}\\([^,\"}]*\\).*/\\1/p" <<<"${text%$'\n'}"
		return
	fi
	while IFS= read -r line; do
		[[ ! $line =~ .*\"$1\":\"?([^,\"}]*) ]] || printf '%s\n' "${BASH_REMATCH[1]}"
	done <<<"${text%$'\n'}"
}
