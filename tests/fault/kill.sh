#!/bin/bash
# SPDX-License-Identifier: MIT
#
# kill.sh [ROUNDS] - SIGKILL at random moments.
#
# Goal:   whoever is killed in the midst of a put or a get over an older version, a reader sees the old or the new one, whole; the command
#         says how it ended; run again it completes, and does not send again what the journal has. How far that is behind what had arrived is
#         printed; the simulator, which has a clock of its own, judges it.
# Method: two nodes. Each round takes a version of the file to where the other one is, and kills one of: the daemon that sends, the one that
#         receives, the command. The moment is anywhere from before the first byte to after the last, told by what status says has
#         arrived. The seed is printed.
#
#   FM_SEED                 repeats a run
#   FM_KILL_TRANSPORT       tcp (default) or rdma
#   FM_KILL_MIB             size of the file (128)
#   FM_KILL_SECONDS         how long an undisturbed transfer is made to last (3)
#   FM_KILL_KIND            file (default) or tree
#   FM_KEEP                 leave the directory of a run that failed
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=tests/nodes.sh
. "$here/../nodes.sh"
# shellcheck source=tests/fault/expect.sh
. "$here/expect.sh"

rounds=${1:-6}
seed=${FM_SEED:-$RANDOM}
transport=${FM_KILL_TRANSPORT:-tcp}
mib=${FM_KILL_MIB:-128}
seconds=${FM_KILL_SECONDS:-3}
kind=${FM_KILL_KIND:-file}
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-kill.XXXXXX")
rate=$((mib * 1024 * 1024 / seconds))
AMID_MAX=20		# rounds more than asked for, if none was interrupted
ways=() round=0 interrupted=0 finished=0 spared_total=0

die() {
	echo "FAIL in round $round of $rounds, seed $seed (${what:-start}): $*" >&2
	tail -n 15 "$dir"/n?/log "$dir/err" >&2 || true
	exit 1
}

cleanup() {
	local status=$?

	for n in 1 2; do
		[ ! -e "$dir/n$n/pid" ] || kill -KILL "$(cat "$dir/n$n/pid")" 2>/dev/null || true
	done
	[ -z "${pid:-}" ] || kill -KILL "$pid" 2>/dev/null || true
	if [ "$status" != 0 ] && [ "$status" != 77 ] && [ -n "${FM_KEEP:-}" ]; then
		echo "kept: $dir" >&2
	else
		rm -rf "$dir"
	fi
}
trap cleanup EXIT

# --- the two versions, which a file and a tree have different ways to be -------------------------

# make_version A|B: in n2's store, to get, and beside it, to put.
make_version() {
	local top=$dir/src/$1 i

	if [ "$kind" = file ]; then
		head -c $((mib * 1024 * 1024 + 13)) /dev/urandom > "$top"
	else
		mkdir -p "$top/deep/er"
		for ((i = 0; i < 200; i++)); do
			head -c $((RANDOM * 4)) /dev/urandom > "$top/deep/$i"
		done
		for ((i = 0; i < 8; i++)); do
			head -c $((mib * 1024 * 1024 / 8)) /dev/urandom > "$top/deep/er/$i"
		done
		ln -s ../deep/7 "$top/deep/link"
	fi
	cp -a "$top" "$dir/n2/s/$1"
}

is_version() {
	if [ "$kind" = file ]; then
		cmp -s "$dir/src/$1" "$2"
	else
		diff -r --no-dereference "$dir/src/$1" "$2" > /dev/null 2>&1
	fi
}

# set_command VERSION [OPTION...]: sets `command` for taking it to where the other one is, and `place`.
set_command() {
	local flags=(--quiet --json --transport "$transport" "${@:2}")

	if [ "$kind" = file ]; then flags+=(--force); else flags+=(-r --replace); fi
	case $op in
	put)	command=("$FMOVE_BIN/fmove" --socket "$dir/n1/sock" put "${flags[@]}" "$dir/src/$1" n2:s/there)
		place=$dir/n2/s/there ;;
	get)	command=("$FMOVE_BIN/fmove" --socket "$dir/n1/sock" get "${flags[@]}" "n2:s/$1" "$dir/back/here")
		place=$dir/back/here ;;
	esac
}

# --- running -------------------------------------------------------------------------------------

# Its parent is a shell of its own, which keeps to itself that somebody killed it.
start_command() {
	rm -f "$dir/pid" "$dir/status"
	(
		"${command[@]}" > "$dir/out" 2> "$dir/err" &
		echo $! > "$dir/pid.new"
		mv "$dir/pid.new" "$dir/pid"
		status=0
		wait $! || status=$?
		echo $status > "$dir/status.new"
		mv "$dir/status.new" "$dir/status"
	) 2> /dev/null &
	until [ -e "$dir/pid" ]; do
		pause 0.01
	done
	pid=$(cat "$dir/pid")
}

# Sets `status`.
end_of_command() {
	local end=$((SECONDS + HANG_S))

	until [ -e "$dir/status" ]; do
		((SECONDS < end)) || die "${command[*]}: did not end within $HANG_S s"
		pause 0.02
	done
	status=$(cat "$dir/status")
	pid=''
}

# Said by a sanitizer, where the programs have one.
no_report() {
	! grep -hE 'ERROR: [A-Za-z]*Sanitizer|runtime error:|Assertion .* failed' "$dir"/n?/log >&2 || die "a report in a log"
}

# The node that sends is n1 for a put, n2 for a get.
node_of() {
	case $op:$1 in
	put:sender|get:receiver)	echo 1 ;;
	put:receiver|get:sender)	echo 2 ;;
	esac
}

# arrived: how many bytes status says have arrived.
arrived() {
	local number='"bytes": *([0-9]+)'

	if [[ $(node_status "$dir/n1" 2>/dev/null) =~ $number ]]; then
		echo "${BASH_REMATCH[1]}"
	else
		echo 0
	fi
}

# Until so many bytes have arrived, or it is over.
wait_for_moment() {
	local end=$((SECONDS + HANG_S))

	while (($(arrived) < $1)) && [ ! -e "$dir/status" ]; do
		((SECONDS < end)) || die "${command[*]}: not at $1 bytes after $HANG_S s"
		pause 0.05
	done
}

# Sets `known`, what had certainly arrived before, and `promised`, what the journal of a put of a file had of it.
kill_victim() {
	known=$(arrived) promised=0
	[ "$op:$kind" != put:file ] || promised=$(written_down "$dir/n1/sock" n2:s there) || die "what is unfinished is not told"
	if [ "$victim" = command ]; then
		kill -KILL "$pid" 2>/dev/null || true
	else
		kill -KILL "$(cat "$dir/n$(node_of "$victim")/pid")"
	fi
}

check_ending() {
	case $status in
	0)	finished=$((finished + 1))
		known=0
		is_version "$new" "$place" || die "it said done, and the new version is not there" ;;
	137)	[ "$victim" = command ] || die "the command was killed, but not by us" ;;
	1|3|4)	[ "$(wc -l < "$dir/err")" -ge 1 ] || die "status $status and no word" ;;
	*)	die "it ended with status $status: $(cat "$dir/err")" ;;
	esac
	[ "$status" = 0 ] || interrupted=$((interrupted + 1))
	is_version "$old" "$place" || is_version "$new" "$place" || die "$place is neither the old version nor the new"
}

start_victim() {
	local n

	if [ "$victim" != command ]; then
		n=$(node_of "$victim")
		node_start "$dir/n$n" || die "node $n does not start again"
		disown -a
	fi
	for n in 1 2; do
		node_wait "$dir/n$n" "$transport" 1 1 || die "node $n is not connected again"
	done
}

# What the journal has of a get or of a tree nobody tells; that there is one is seen.
has_journal() {
	[ -n "$(find "$(dirname "$place")" -maxdepth 2 \( -path '*/.fmove.*.tree/journal' -o -name '.fmove.*.journal' \) -size +0)" ]
}

# The least that a rerun has to spare: what was promised before the crash, and something where a file's journal is left.
least_spared() {
	if [ "$promised" = 0 ] && [ "$kind" = file ] && has_journal; then
		echo 1
	else
		echo "$promised"
	fi
}

# Nothing goes on without its command.
has_no_job() {
	[[ $(node_status "$1") != *'"jobs":[{'* ]]
}

run_again() {
	local spared n least

	for n in 1 2; do
		node_until "$dir/n$n" has_no_job "$dir/n$n" || die "node $n goes on by itself"
	done
	least=$(least_spared)
	# It was through, only nobody was told: a journal that was to be removed next spares nothing.
	! is_version "$new" "$place" || promised=0 known=0 least=0
	set_command "$new"
	start_command
	end_of_command
	[ "$status" = 0 ] || die "run again: status $status: $(cat "$dir/err" "$dir/out")"
	is_version "$new" "$place" || die "run again: $place is not the new version"
	spared=$(resumed_at_least "$least" < "$dir/out") || die "run again"
	spared_total=$((spared_total + spared))
	rm -rf "$dir"/n?/s/.fmove*.old "$dir"/back/.fmove*.old		# their time comes in minutes, the next round now
	no_partial "$dir/n1/s" "$dir/n2/s" "$dir/back" || die "run again"
	echo "$what: status $ended, $((known >> 20)) MiB had arrived, $((least >> 20)) MiB of them promised, $((spared >> 20)) MiB not sent again"
}

# All six ways come equally often, in an order of their own. (A subshell would have chances of its own, which no seed repeats.)
next_way() {
	local i j swap

	if [ ${#ways[@]} = 0 ]; then
		ways=('put sender' 'put receiver' 'put command' 'get sender' 'get receiver' 'get command')
		for ((i = 5; i > 0; i--)); do
			j=$((RANDOM % (i + 1)))
			swap=${ways[i]} ways[i]=${ways[j]} ways[j]=$swap
		done
	fi
	read -r op victim <<< "${ways[0]}"
	ways=("${ways[@]:1}")
}

# The old version of one round is the new one of the next for the same place.
do_round() {
	local moment
	local -n is_there=there_$op

	old=$is_there
	new=$([ "$old" = A ] && echo B || echo A)
	set_command "$new" --limit "${rate}B/s"
	moment=$((RANDOM * 120 / 32768 - 5))
	((round > 1 && round <= rounds)) || moment=$((moment / 2 + 10))		# amid it: few rounds are to show something as well
	what="round $round: $op, kill the $victim at $moment %"
	start_command
	((moment < 0)) || wait_for_moment $((moment * (mib << 20) / 100 + 1))
	kill_victim
	end_of_command
	ended=$status
	check_ending
	start_victim
	run_again
	is_there=$new
}

set_up() {
	mkdir -p "$dir/src" "$dir/back"
	# A small file has as many slabs and chunks as one of four times its size.
	local share=$((mib < 16 ? 4 : 1))

	node_extra="memory = { arena = \"$((16 / share))MiB\"; slab = \"$((4 / share))MiB\"; total = \"128MiB\"; };
		mover = { chunk = \"$((256 / share))KiB\"; };"
	[ "$transport" = tcp ] || node_listen='[::]'
	own_ports
	node_pair "$dir" $(($(node_ports 2) - 1)) || die "the nodes do not start"
	disown -a		# their ends are ours to make, not the shell's to announce
	make_version A
	make_version B
	cp -a "$dir/src/A" "$dir/n2/s/there"
	cp -a "$dir/src/A" "$dir/back/here"
	there_put=A there_get=A
	node_wait "$dir/n1" "$transport" 1 1 || die "the nodes do not find each other"
}

[[ $rounds =~ ^[1-9][0-9]*$ ]] || { echo "usage: kill.sh [ROUNDS]" >&2; exit 2; }
rounds=$(sample "$rounds")
echo "seed $seed, $rounds rounds, $kind of $mib MiB over $transport"
set_up
RANDOM=$seed
for ((round = 1; round <= rounds || (interrupted == 0 && round <= rounds + AMID_MAX); round++)); do
	next_way
	do_round
done
no_report
((interrupted > 0)) || die "not one of $rounds was interrupted: that shows nothing"
echo "$rounds rounds, seed $seed: $interrupted interrupted, $finished done before; all whole, all completed by running them again," \
	"$((spared_total >> 20)) MiB not sent again"
