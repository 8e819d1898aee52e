# SPDX-License-Identifier: MIT
# guard_power.sh - all nodes lose their power, and boot in some order, one of them perhaps never;
# sourced after guard.sh.
# shellcheck shell=bash

# still_away KIND NODE...: what waits at them is still away after as long as silence used to be
# enough for.
still_away() {
	local kind=$1 n name list
	shift

	pause $HOLD_S
	for n in "$@"; do
		list=()
		for name in $VOLUMES; do
			case $(expected "$name" "$n" "$kind" "$@") in
			waiting*|refused)	list+=("$name=gone") ;;
			esac
		done
		[ ${#list[@]} = 0 ] || node "$n" are "${list[@]}"
	done
}

# power KIND ABSENT ORDER...: all nodes lose their power, and boot one after the other; ABSENT (0:
# nobody) stays off.
power() {
	local kind=$1 absent=$2 n back=()
	shift 2

	what="all off while shared volumes are $kind; on: $*; absent: $absent"
	make_well "$kind"
	trace_says "$what"
	if [ "$kind" = open ]; then
		each_reader wait_for has_heard_writer
	fi
	# shellcheck disable=SC2046
	off $(seq 1 $NODES)
	for n in "$@"; do
		on "$n"
		back+=("$n")
		expect "$kind" "${back[@]}"
	done
	for n in "$@"; do
		[ "$(expected "${SHARED%% *}" "$n" "$kind" "$@")" != ro ] || node "$n" reads $generations
	done
	case $absent in
	0)	;;
	1)	writer_gone "$kind" "$@" ;;
	*)	reader_gone "$kind" "$absent" "$@" ;;
	esac
}

# Force is for one mount of one volume.
force_once() {
	local one=${UNPROTECTED%% *} others=${UNPROTECTED#* }

	node 1 fmn up --force "$one" --wait ${HANG_S}s
	# shellcheck disable=SC2086
	node 1 are "$one=rw" ${others:+${others// /=waiting:n$1 }}
	node 1 fmn down "$one" --timeout ${HANG_S}s
	node 1 fmn up "$one" --wait 0
	node 1 become "$one=waiting:n$1"
}

# reader_gone KIND ABSENT BACK...: the ways out where a reader does not come back. Then it does.
reader_gone() {
	local kind=$1 absent=$2
	shift 2

	what="$what; without n$absent"
	still_away "$kind" "$@"
	force_once "$absent"
	node 1 fmn forget "n$absent"
	forgotten=$absent
	expect "$kind" "$@"
	# What a person decided is kept over a boot.
	off 1
	on 1
	expect "$kind" "$@"
	on "$absent"
	forgotten=''
	well "$kind"
	node 1 wait_for nobody_is_forgotten
}

# writer_gone KIND BACK...: readers cannot force what only the writer knows. Another writer is
# configured, and has to forget the first, which comes back with its old configuration.
writer_gone() {
	local kind=$1 n shared=rw
	shift

	what="$what; without the writer"
	still_away "$kind" "$@"
	! tell 3 fmn up --force "${SHARED%% *}" --wait 1s ||
		fail "n2 reads by force what its writer may write"
	say "$kind, n2: up --force: $(cat /out/said.3)"
	node 2 are "${SHARED%% *}=gone"
	for n in "$@"; do
		node "$n" configure 2
	done
	# shellcheck disable=SC2046
	node 2 become $(volumes 'own_*' refused)
	tell 3 why "${UNPROTECTED%% *}"
	say "$kind, n2 as the writer: $(cat /out/said.3)"
	for n in "$@"; do
		node "$n" fmn forget n1
	done
	# The target keeps protecting what n1 sealed.
	[ "$kind" = open ] || shared=refused
	# shellcheck disable=SC2046
	node 2 become $(volumes 'own_*' rw) $(volumes 'shared_*' $shared)
	on 1
	pause $HOLD_S
	# shellcheck disable=SC2046
	node 1 are $(volumes 'own_*' gone)
	for n in "$@"; do
		node "$n" configure 1
	done
	well "$kind"
}
