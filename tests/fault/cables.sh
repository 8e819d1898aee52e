#!/bin/bash
# SPDX-License-Identifier: MIT
#
# cables.sh [ROUNDS] - a cable is cut in the midst of a transfer.
#
# Goal:   whichever of two cables is cut, however and whenever, a put, a get, a tree, a put of a file as standard input, a put from
#         a pipe and a get into one complete at their first try, and what arrives is what was sent. How long nothing moved, and how
#         fast it went on over the cable that was left, is printed; the verdict looks at neither, since both are a matter of how
#         busy this machine is.
# Method: two nodes in network namespaces, two slow wires, TCP. Each round takes one kind of transfer, and at a moment of its own cuts one
#         wire: its carrier at either end, the address at either end, or what goes there, what comes back or both is lost without a word
#         (frames to a station that does not exist). Then the wire is mended, and the round ends when both are used again.
#
#   FM_SEED           repeats a run
#   FM_CABLES_KINDS   of transfers (put get tree stdin from_pipe into_pipe)
#   FM_CABLES_MBIT    of each wire (40)
#   FM_CABLES_SECONDS how long an undisturbed transfer takes over both (5)
#   FM_CABLES_CONTROL if set, each transfer goes once more over the cable that is left, undisturbed, and its rate is printed too:
#                     over as long a time, at the end of the transfer. So it says how far such a rate strays by itself.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=tests/nodes.sh
. "$here/../nodes.sh"
# shellcheck source=tests/wires.sh
. "$here/../wires.sh"

rounds=$(sample "${1:-4}")
seed=${FM_SEED:-$RANDOM}
mbit=${FM_CABLES_MBIT:-40}
seconds=${FM_CABLES_SECONDS:-5}
bytes=$((mbit * 125000 * 2 * seconds))
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cables.XXXXXX")
id=fmw$$ net=10.79
read -ra kinds <<< "${FM_CABLES_KINDS:-put get tree stdin from_pipe into_pipe}"
hows=(carrier_here carrier_there address_here address_there lost_there lost_back lost_both)
round=0 what=start
: > "$dir/stalls"
: > "$dir/rates"
: > "$dir/controls"

die() {
	echo "FAIL in round $round of $rounds, seed $seed ($what): $*" >&2
	tail -n 30 "$dir"/n?/log "$dir/err" >&2 || true
	exit 1
}

skip() {
	echo "SKIP: $*"
	exit 77
}

cleanup() {
	for n in 1 2; do
		[ ! -e "$dir/n$n/pid" ] || kill -KILL "$(cat "$dir/n$n/pid")" 2>/dev/null || true
		ip netns del "$id$n" 2>/dev/null || true
	done
	[ -z "${pid:-}" ] || kill "$pid" 2>/dev/null || true
	rm -rf "$dir"
}
trap cleanup EXIT

# --- two nodes and two wires -----------------------------------------------------------------------

make_wires() {
	local wire n

	[ "$(id -u)" = 0 ] || skip "network namespaces take root"
	command -v ip > /dev/null && command -v tc > /dev/null || skip "no programs ip and tc"
	for n in 1 2; do
		ip netns add "$id$n" 2> /dev/null || skip "no network namespaces here"
		ip -n "$id$n" link set lo up
	done
	for wire in 1 2; do
		ip link add "w$wire" netns "${id}1" type veth peer name "w$wire" netns "${id}2"
		for n in 1 2; do
			give_address "$n"
			ip -n "$id$n" link set "w$wire" up
			tc -n "$id$n" qdisc add dev "w$wire" root tbf rate "${mbit}mbit" burst 64kb latency 100ms 2> /dev/null ||
				skip "no slow wires: this kernel has no sch_tbf"
		done
	done
}

make_nodes() {
	local n node_memory='memory = { arena = "32MiB"; };'	# as in cli/lib.sh: most of a start touches the arena

	node_key "$dir/n1"
	node_key "$dir/n2"
	for n in 1 2; do
		node_conf "$dir/n$n" "n$n" "0.0.0.0:7471" "$(node_peer "n$((3 - n))" "$net.1.$((3 - n)):7471" "$dir/n$((3 - n))/pub")" \
			<<< "mover = { tcp_conns = 2; private_networks = [ \"$net.0.0/16\" ]; };"
		node_wrap=(ip netns exec "$id$n")
		node_start "$dir/n$n"
	done
	unset node_wrap
}

both_up() {
	node_wait "$dir/n1" tcp 2 1 && node_wait "$dir/n2" tcp 2 1 || die "both wires are not used (again)"
}

# --- one transfer ------------------------------------------------------------------------------------

make_sources() {
	local i

	head -c "$bytes" /dev/urandom > "$dir/file"
	cp "$dir/file" "$dir/n2/s/there"
	mkdir -p "$dir/tree/deep"
	for ((i = 0; i < 100; i++)); do
		head -c $((bytes / 400)) /dev/urandom > "$dir/tree/deep/$i"
	done
	for ((i = 0; i < 3; i++)); do
		head -c $((bytes / 4)) /dev/urandom > "$dir/tree/$i"
	done
}

start_transfer() {
	local fmove=("$FMOVE_BIN/fmove" --socket "$dir/n1/sock")

	rm -rf "$dir/n2/s/new" "$dir/back"
	case $kind in
	put)	"${fmove[@]}" put -q "$dir/file" n2:s/new 2> "$dir/err" & ;;
	get)	"${fmove[@]}" get -q n2:s/there "$dir/back" 2> "$dir/err" & ;;
	tree)	"${fmove[@]}" put -q -r "$dir/tree" n2:s/new 2> "$dir/err" & ;;
	stdin)	"${fmove[@]}" put -q - n2:s/new < "$dir/file" 2> "$dir/err" & ;;
	from_pipe)	(cat "$dir/file" | "${fmove[@]}" put -q - n2:s/new 2> "$dir/err") & ;;
	into_pipe)	("${fmove[@]}" get -q n2:s/there - 2> "$dir/err" | cat > "$dir/back") & ;;
	esac
	pid=$!
}

is_equal() {
	case $kind in
	get|into_pipe)	cmp "$dir/file" "$dir/back" ;;
	tree)		diff -r "$dir/tree" "$dir/n2/s/new" ;;
	*)		cmp "$dir/file" "$dir/n2/s/new" ;;
	esac
}

arrived() {
	local there

	there=$(node_status "$dir/n1" 2> /dev/null | json bytes) || true
	echo "${there:-0}"
}

# Follows it to its end: "MILLISECONDS BYTES" a line, whenever something has moved.
watch_transfer() {
	local last=-1 now end=$((SECONDS + HANG_S))

	while kill -0 "$pid" 2> /dev/null; do
		((SECONDS < end)) || die "it did not end within $HANG_S s: $("$FMOVE_BIN/fmove" --socket "$dir/n1/sock" status)"
		now=$(arrived)
		[ "$now" = "$last" ] || [ "$now" = 0 ] || echo "$((${EPOCHREALTIME/./} / 1000)) $now"
		last=$now
		pause 0.05
	done
}

# The longest pause behind the cut, and the rate from its end on.
measure() {
	awk -v cut="$1" -v rate=$((mbit * 125)) '
		$1 >= cut - 300 {
			if (n && $1 - t > stall) { stall = $1 - t; from = $1; at = $2 }
			t = $1; b = $2; n++
		}
		END {
			if (n < 2) exit
			print stall >> stalls
			if (t - from > 1500) printf "%.2f %d\n", (b - at) / (t - from) / rate, t - from >> rates
			printf "%d ms without progress\n", stall
		}' stalls="$dir/stalls" rates="$dir/rates" "$dir/moved"
}

# The rate of the last so many milliseconds, as measure() computes it.
measure_control() {
	awk -v long="$1" -v rate=$((mbit * 125)) '
		{ t[NR] = $1; b[NR] = $2 }
		END {
			for (i = NR; i > 1 && t[NR] - t[i] < long; i--)
				;
			if (t[NR] > t[i]) printf "%.2f %d\n", (b[NR] - b[i]) / (t[NR] - t[i]) / rate, t[NR] - t[i]
		}' "$dir/moved" >> "$dir/controls"
}

# The same transfer over the cable that is left, if this round gave a rate to compare with.
control_round() {
	local before=$1 long

	(($(wc -l < "$dir/rates") > before)) || return 0
	long=$(tail -n 1 "$dir/rates" | cut -d ' ' -f 2)
	start_transfer
	watch_transfer > "$dir/moved"
	wait "$pid" || die "it failed over what was left: $(cat "$dir/err")"
	pid=''
	is_equal || die "what arrived over what was left is something else"
	measure_control "$long"
	echo "  rate and milliseconds: $(tail -n 1 "$dir/rates"), undisturbed $(tail -n 1 "$dir/controls")"
}

one_round() {
	local rates
	kind=${kinds[RANDOM % ${#kinds[@]}]} how=${hows[RANDOM % ${#hows[@]}]} wire=$((1 + RANDOM % 2))
	local moment=$((RANDOM % (seconds * 1000))) at

	what="$kind, $how, wire $wire, after $moment ms"
	start_transfer
	(sleep "$((moment / 1000)).$(printf %03d $((moment % 1000)))"; echo $((${EPOCHREALTIME/./} / 1000)) > "$dir/cut"; cut_wire "$how") &
	at=$!
	watch_transfer > "$dir/moved"
	wait "$pid" || die "it failed: $(cat "$dir/err")"
	pid=''
	wait "$at"
	is_equal || die "what arrived is something else"
	rates=$(wc -l < "$dir/rates")
	echo "round $round: $what: $(measure "$(cat "$dir/cut")")"
	[ -z "${FM_CABLES_CONTROL:-}" ] || control_round "$rates"
	mend_wire "$how"
	both_up
}

# middle_and_worst FILE: of rates
middle_and_worst() {
	local n
	n=$(wc -l < "$1")

	echo "median $(sort -n "$1" | sed -n "$(((n + 1) / 2))s/ .*//p"), worst $(sort -n "$1" | sed -n '1s/ .*//p')"
}

summary() {
	local n control=''

	n=$(wc -l < "$dir/stalls")
	((n > 0)) || { echo "$rounds rounds, none disturbed"; return; }
	[ ! -s "$dir/controls" ] || control="; undisturbed, over as long: $(middle_and_worst "$dir/controls")"
	echo "$rounds rounds, seed $seed: without progress median $(sort -n "$dir/stalls" | sed -n "$(((n + 1) / 2))p") ms," \
		"worst $(sort -n "$dir/stalls" | tail -n 1) ms; rate afterwards of one cable's: $(middle_and_worst "$dir/rates")$control"
}

RANDOM=$((seed % 32768))
make_wires
make_nodes
make_sources
both_up
for ((round = 1; round <= rounds; round++)); do
	one_round
done
summary
