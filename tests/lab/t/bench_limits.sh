# about: fmove bench names the limit that was planted: a slow disk, a slow wire, one of two wires, loss, one processor
# guests: 1
# cpus: 2
# disks: 1 256M
# timeout: 7200
# when: soak
#
# Goal:   the verdict of fmove bench names what was planted, each time.
# Method: two nodes in network namespaces, joined by two wires over plain TCP, checksums off (an emulated processor would be the limit of all
#         else). One limit at a time, in turn: dm-delay under a file system, netem on one wire or both, a cpuset of one processor.
#         What is measured is real; only the sentence is looked at, so a run that is too noisy to be valid (status 3) counts as
#         well. LAB_ROUNDS: how often. tests/soak/limits.sh does the same outside of guests, by other means.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"

ROUNDS=${LAB_ROUNDS:-1}
D=/run/limits
DISK=/run/disk
CG=/sys/fs/cgroup
NET=10.97
WIRE_RATE=16mbit		# far below what two emulated processors can do
SLOW_RATE=4mbit
DISK_DELAY_MS=1000		# of each read; the disk takes four of 256 KiB at once, however many are asked for: 1 MiB/s
kinds=(slow_disk one_processor slow_wire loss slow_rail)
declare -A said=(
	[slow_disk]="limited by n1's disk read at $DISK"
	[slow_wire]="limited by the wire to n2"
	[slow_rail]="limited by w1, which carries"
	[loss]="limited by loss on the wire to n2"
	[one_processor]="limited by one processor, "
)
declare -A named

in_node() {
	local i=$1
	shift

	ip netns exec "n$i" "$@"
}

wires_up() {
	local i w

	for i in 1 2; do
		check ip netns add "n$i"
		check ip -n "n$i" link set lo up
	done
	for w in 0 1; do
		check ip link add "w$w" netns n1 type veth peer name "w$w" netns n2
		for i in 1 2; do
			check ip -n "n$i" addr add "$NET.$w.$i/24" dev "w$w"
			check ip -n "n$i" link set "w$w" up
		done
	done
}

nodes_up() {
	local i o node_wrap node_peer_extra='bench = true; '

	for i in 1 2; do
		node_key "$D/n$i"
	done
	for i in 1 2; do
		o=$((3 - i))
		node_conf "$D/n$i" "n$i" "[::]:7471" "$(node_peer "n$o" "$NET.0.$o:7471" "$D/n$o/pub")" <<-C
		mover = { transports = [ "tcp" ]; private_networks = [ "$NET.0.0/16" ]; };
		memory = { arena = "32MiB"; slab = "4MiB"; total = "256MiB"; };
		C
	done
	for i in 1 2; do
		# what else runs here is a limit of its own, and none that was planted
		node_wrap=(nice -n -15 ip netns exec "n$i")
		check node_start "$D/n$i" --measure-unchecked
	done
	check node_wait $D/n1 tcp 2 1
}

# --- what is planted, and pulled out again -------------------------------------------------------

# A loop device, which takes few requests at once, on dm-delay. So the disk has a rate, as a slow one has. With the delay alone it would be
# as fast as many reads are under way, which are more by themselves than beside a wire.
disk_up() {
	local loop

	dm_up slow "$(disk_table 0)"
	loop=$(losetup --find --show --direct-io=on /dev/mapper/slow) || fail "losetup"
	echo 256 > "/sys/block/${loop#/dev/}/queue/max_sectors_kb"
	echo 4 > "/sys/block/${loop#/dev/}/queue/nr_requests"
	mkdisk "$loop" ext4 $DISK
}

# The file system stays mounted; what lies under it becomes slow.
disk_table() {
	echo "0 $(blockdev --getsz /dev/lab/disk1) delay /dev/lab/disk1 0 $1 /dev/lab/disk1 0 0"
}

slow_disk() {
	if [ "$1" = plant ]; then
		dm_swap slow "$(disk_table $DISK_DELAY_MS)"
	else
		dm_swap slow "$(disk_table 0)"
	fi
}

# netem WHAT: on what n1 sends over each wire.
netem() {
	local w

	for w in 0 1; do
		in_node 1 tc qdisc replace dev "w$w" root netem "$@"
	done
}

no_netem() {
	local w

	for w in 0 1; do
		in_node 1 tc qdisc del dev "w$w" root
	done
}

slow_wire() {
	if [ "$1" = plant ]; then netem rate $WIRE_RATE limit 1000; else no_netem; fi
}

slow_rail() {
	if [ "$1" = plant ]; then
		netem rate $WIRE_RATE limit 1000
		in_node 1 tc qdisc replace dev w1 root netem rate $SLOW_RATE limit 1000
	else
		no_netem
	fi
}

loss() {
	# With a way of no length what is lost comes again at once, and costs less than the processors allow.
	if [ "$1" = plant ]; then netem delay 10ms loss 1% limit 10000; else no_netem; fi
}

# Each node alone on one of them.
one_processor() {
	local i

	for i in 1 2; do
		if [ "$1" = plant ]; then
			cat "$D/n$i/pid" > "$CG/cpu$i/cgroup.procs"
		else
			cat "$D/n$i/pid" > $CG/cgroup.procs
		fi
	done
}

cpusets_up() {
	local i

	mountpoint -q $CG || check mount -t cgroup2 none $CG
	grep -qw cpuset $CG/cgroup.controllers || skip "no control groups with cpusets"
	echo +cpuset > $CG/cgroup.subtree_control
	for i in 1 2; do
		mkdir -p "$CG/cpu$i"
		echo $((i - 1)) > "$CG/cpu$i/cpuset.cpus"
	done
}

# --- the rounds ----------------------------------------------------------------------------------

# Of disk and wire together all of it is measured, of two wires each alone as well, of the others the way to the peer. Where rates are compared, or
# one processor does it all, a repeat is longer: to begin and to look takes an emulated processor a part of a second.
bench() {
	local mode=(put --peer n2) seconds=1.2 status=0

	case $1 in
	slow_disk)		mode=(all --peer n2 --path "$DISK" --size 8MiB) seconds=4 ;;
	slow_wire)		mode=(all --peer n2 --path "$DISK" --size 16MiB) seconds=4 ;;
	slow_rail)		mode=(tcp --peer n2) ;;
	one_processor)		seconds=3 ;;
	esac
	in_node 1 "$FMOVE_BIN/fmove" --socket $D/n1/sock bench "${mode[@]}" --seconds $seconds --quiet --json --config $D/n1/conf \
		> $D/out 2> $D/err || status=$?
	[ $status = 0 ] || [ $status = 3 ] || fail "bench ${mode[*]}: status $status: $(cat $D/err)"
}

one() {
	local kind=$1 round=$2 verdict

	"$kind" plant
	bench "$kind"
	"$kind" pull
	cp $D/out "/out/$kind-$round.json"
	verdict=$(json verdict < <(grep -o '"verdict":"[^"]*"' $D/out))
	if [[ $verdict == *"${said[$kind]}"* ]]; then
		named[$kind]=$((${named[$kind]:-0} + 1))
		say "$kind, round $round: named: $verdict"
	else
		say "$kind, round $round: not named: $verdict"
	fi
}

need tc ip dmsetup losetup
need_module veth sch_netem dm_delay loop
cpusets_up
wires_up
disk_up
nodes_up
for ((round = 1; round <= ROUNDS; round++)); do
	for kind in "${kinds[@]}"; do
		one "$kind" "$round"
	done
done
node_stop $D/n1
node_stop $D/n2
check umount $DISK
losetup --detach-all
dm_down slow
is_short=''
for kind in "${kinds[@]}"; do
	[ "${named[$kind]:-0}" = "$ROUNDS" ] || is_short=1
done
say "in all: $(for kind in "${kinds[@]}"; do printf '%s %s, ' "$kind" "${named[$kind]:-0}"; done)of $ROUNDS rounds, each"
[ -z "$is_short" ] || fail "not each limit was named each time"
