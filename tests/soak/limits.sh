#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Goal:   the verdict of fmove bench names the limit that was planted: a slow disk, a slow wire, a wire that loses, one processor.
#         How often it names one where none was planted is told beside it.
# Method: two nodes in network namespaces, joined by a veth; one limit at a time, in turn, as often as was asked. What is measured is
#         real; only the sentence is looked at. A disk is made slow by its control group, a wire by tbf, loss is a filter of tc that
#         drops at random, and a node has one processor by its affinity. The nodes go before what else runs.
#
#   limits.sh ROUNDS      FM_LIMITS_KEEP=DIR keeps every document there
set -euo pipefail
top_dir=$(cd "$(dirname "$0")/../.." && pwd -P)
# shellcheck source=tests/nodes.sh
. "$top_dir/tests/nodes.sh"
rounds=${1:-20}
id=fml$$-
net=10.97.$(($$ % 250))
kinds=(slow_disk slow_wire loss one_processor)
controls=(none none_with_disk)
declare -A said=(
	[slow_disk]="limited by n1's disk read"
	[slow_wire]="limited by the wire to n2"
	[loss]="limited by loss on the wire to n2"
	[one_processor]="limited by one processor"
)
declare -A named
false_names=0

skip() {
	echo "SKIP: $*"
	exit 77
}

clean_up() {
	local i

	for i in 1 2; do
		[ ! -e "$dir/n$i/pid" ] || node_stop "$dir/n$i" || true
		ip netns del "$id$i" 2>/dev/null || true
	done
	[ ! -d "$group" ] || rmdir "$group" || true
	rm -rf "$dir"
}

in_node() {
	local i=$1
	shift

	ip netns exec "$id$i" "$@"
}

wire_up() {
	local i

	for i in 1 2; do
		ip netns add "$id$i"
		ip -n "$id$i" link set lo up
	done
	ip link add w0 netns "${id}1" type veth peer name w0 netns "${id}2"
	for i in 1 2; do
		ip -n "$id$i" addr add "$net.$i/24" dev w0
		ip -n "$id$i" link set w0 up
	done
}

nodes_up() {
	local i node_peer_extra='bench = true;' node_wrap=()

	for i in 1 2; do
		node_key "$dir/n$i"
	done
	for i in 1 2; do
		node_conf "$dir/n$i" "n$i" "$net.$i:7471" "$(node_peer "n$((3 - i))" "$net.$((3 - i)):7471" "$dir/n$((3 - i))/pub")" \
			<<< 'mover = { transports = [ "tcp" ]; };'
	done
	for i in 1 2; do
		# what else runs here is a limit of its own, and none that was planted
		node_wrap=(nice -n -15 ip netns exec "$id$i")
		node_start "$dir/n$i"
	done
	node_wait "$dir/n1" tcp 1 1
}

# --- what is planted, and pulled out again ---------------------------------------------------------------------------------------

# Of the disk that holds DIR, as its control group wants it, whichever kind of groups there is.
find_disk() {
	local device

	device=$(stat -c %Hd:%Ld "$dir")
	[ -e "/sys/dev/block/$device" ] || skip "$dir is on no disk"
	[ ! -e "/sys/dev/block/$device/partition" ] || device=$(cat "/sys/dev/block/$device/../dev")
	if [ -e /sys/fs/cgroup/blkio/blkio.throttle.read_bps_device ]; then
		group=/sys/fs/cgroup/blkio/fmove-limits.$$
		slow=(blkio.throttle.read_bps_device "$device 20971520") fast=(blkio.throttle.read_bps_device "$device 0")
	elif grep -qw io /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null; then
		group=/sys/fs/cgroup/fmove-limits.$$
		slow=(io.max "$device rbps=20971520") fast=(io.max "$device rbps=max")
	else
		skip "no control groups that limit a disk"
	fi
	mkdir "$group" || skip "no control group can be made"
}

slow_disk() {
	if [ "$1" = plant ]; then
		echo "${slow[1]}" > "$group/${slow[0]}"
	else
		echo "${fast[1]}" > "$group/${fast[0]}"
	fi
}

slow_wire() {
	if [ "$1" = plant ]; then
		tc -n "${id}1" qdisc add dev w0 root tbf rate 400mbit burst 256k latency 500ms
	else
		tc -n "${id}1" qdisc del dev w0 root
	fi
}

# "ld rand; jgt 1 %, 0, 1; ret TC_ACT_OK; ret TC_ACT_SHOT": one packet of a hundred, where it comes in: what its own machine drops TCP
# sends anew without a word.
loss() {
	if [ "$1" = plant ]; then
		tc -n "${id}2" qdisc add dev w0 clsact
		tc -n "${id}2" filter add dev w0 ingress bpf da bytecode '4,32 0 0 4294963256,37 0 1 42949673,6 0 0 0,6 0 0 2,'
	else
		tc -n "${id}2" qdisc del dev w0 clsact
	fi
}

# n1 alone on the first processor, n2 on the last.
one_processor() {
	local i cpus=$all_cpus

	for i in 1 2; do
		[ "$1" != plant ] || cpus=${one_cpu[$i]}
		taskset -acp "$cpus" "$(cat "$dir/n$i/pid")" > /dev/null
	done
}

# Nothing. That all processors are full, of what else runs, may be said: it is true, and none of the limits here.
none() {
	:
}

none_with_disk() {
	:
}

# --- the rounds ------------------------------------------------------------------------------------------------------------------

# What is measured: of disk and wire together all of it, of the others the wire.
bench() {
	local mode=(tcp --peer n2)

	case $1 in
	slow_* | none_with_disk)
		mode=(all --peer n2 --path "$dir/from") ;;
	esac
	in_node 1 "$FMOVE_BIN/fmove" --socket "$dir/n1/sock" bench "${mode[@]}" --seconds 1.2 --size 64MiB --quiet --json \
		--config "$dir/n1/conf" > "$dir/out" 2> "$dir/err" || [ $? = 3 ] || { cat "$dir/err"; exit 1; }
}

# Without a plant: which of what could have been planted is named all the same.
count_false() {
	local kind

	echo "$1, round $2: $3"
	for kind in "${kinds[@]}"; do
		[[ $3 == *"${said[$kind]}"* ]] || continue
		false_names=$((false_names + 1))
		echo "$1, round $2: names $kind, which was not planted: $3"
	done
}

one() {
	local kind=$1 round=$2 verdict

	"$kind" plant
	bench "$kind"
	"$kind" pull
	[ -z "${FM_LIMITS_KEEP:-}" ] || cp "$dir/out" "$FM_LIMITS_KEEP/$kind-$round.json"
	verdict=$(json verdict < <(grep -o '"verdict":"[^"]*"' "$dir/out"))
	if [[ $kind == none* ]]; then
		count_false "$kind" "$round" "$verdict"
	elif [[ $verdict == *"${said[$kind]}"* ]]; then
		named[$kind]=$((${named[$kind]:-0} + 1))
		echo "$kind, round $round: named"
	else
		echo "$kind, round $round: not named: $verdict"
	fi
}

[ "$(id -u)" = 0 ] || skip "needs root, for namespaces and control groups"
command -v tc > /dev/null && command -v taskset > /dev/null || skip "needs tc and taskset"
all_cpus=$(taskset -cp $$ | sed 's/.*: //')
read -ra cpus <<< "$(tr , '\n' <<< "$all_cpus" | awk -F- '{ for (i = $1; i <= $NF; i++) printf "%d ", i }')"
[ ${#cpus[@]} -ge 2 ] || skip "needs two processors"
one_cpu=('' "${cpus[0]}" "${cpus[-1]}")
mkdir -p "$top_dir/build"
dir=$(mktemp -d "$top_dir/build/limits.XXXXXX")
group=/nowhere
trap clean_up EXIT
trap 'exit 130' INT TERM
mkdir "$dir/from"
find_disk
wire_up
nodes_up
for pid in "$(cat "$dir/n1/pid")" $(cat "/proc/$(cat "$dir/n1/pid")/task"/*/children) $$; do
	echo "$pid" > "$group/cgroup.procs"
done
for ((round = 1; round <= rounds; round++)); do
	for kind in "${kinds[@]}" "${controls[@]}"; do
		one "$kind" "$round"
	done
done
echo $$ > "${group%/*}/cgroup.procs"
status=0
for kind in "${kinds[@]}"; do
	echo "$kind: named ${named[$kind]:-0} of $rounds times"
	[ "${named[$kind]:-0}" = "$rounds" ] || status=1
done
echo "nothing planted: one of these named $false_names of $((rounds * ${#controls[@]})) times"
echo "in all: $(for kind in "${kinds[@]}"; do printf '%s %s, ' "$kind" "${named[$kind]:-0}"; done)of $rounds each; falsely $false_names of $((rounds * ${#controls[@]}))"
exit $status
