# SPDX-License-Identifier: MIT
# guard.sh - for lab tests of the guard of shared volumes: sourced by a test after guest.sh.
# shellcheck shell=bash
#
# Guest 1 of a star is the storage box: it has the target and keeps its power, all packets between
# nodes go through it, and it says what happens. Guest G is node n(G-1), with a disk of its own
# for what fmoved and fmove-nvmed keep. Six volumes, one for each way to be protected (ext4 with
# mmp, ext4 without, XFS) in each mode: own_* are exclusive, shared_* are shared-read. n1 writes
# them, unless another one is configured.
#
# Judged from outside the daemons: what each node has mounted by its kernel's table of mounts
# (mounted_as), that nobody wrote beside somebody else by the target's trace of its commands
# (mount_watch.c, judge.awk). Only what waits, for whom, is asked of fmove-nvmed.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/nvmet.sh
. "$LAB_TOP/tests/lab/nvmet.sh"
# shellcheck source=tests/lab/orders.sh
. "$LAB_TOP/tests/lab/orders.sh"

NODES=$((LAB_GUESTS - 1))
NQN=nqn.2026-01.org.fmove:guard
# A test may set fewer.
VOLUMES=${VOLUMES:-own_mmp own_ext4 own_xfs shared_mmp shared_ext4 shared_xfs}
VAR=/run/var		# the node's disk
D=$VAR/fmoved
N=/run/nvmed		# the socket's directory goes with the power, as /run does
MNT=/run/mnt
FS_MIB=400		# of each device, behind which mount_watch leaves its marks
MARKS_MIB=64
HOLD_S=8		# for silence to do harm: peers are given up after 3 s, and asked every 5

me=n$((GUEST - 1))
writer=1		# the configured one, of all nodes
forgotten=''		# nodes that are off for good, as a person says
what=''			# is being tried

# What the daemons said is left for whoever looks.
leave_logs() {
	cp -f $N/log "/out/nvmed.log.$GUEST" || true
	cp -f $D/log "/out/fmoved.log.$GUEST" || true
}
trap '[ "$GUEST" = 1 ] || leave_logs' EXIT

# volumes PATTERN [WHAT]: those names, or NAME=WHAT for each.
volumes() {
	local name

	for name in $VOLUMES; do
		# shellcheck disable=SC2053
		[[ $name != $1 ]] || printf '%s ' "$name${2:+=$2}"
	done
}

SHARED=$(volumes 'shared_*')
UNPROTECTED=$(volumes 'own_[ex]*')	# a second writer is kept out by words alone

fmn() {
	"$FMOVE_BIN/fmove" nvme "$@"
}

# --- the storage box ------------------------------------------------------------------------------

# make_volume NAME DEV: marks stand behind its end. It has the file that mount_watch writes to.
make_volume() {
	case $1 in
	*_mmp)	check mkfs.ext4 -q -F -b 4096 -O mmp -E nodiscard,mmp_update_interval=1 "$2" 64m ;;
	*_ext4)	check mkfs.ext4 -q -F -b 4096 -E nodiscard "$2" 64m ;;
	*_xfs)	check mkfs.xfs -q -f -K -d size=300m "$2" ;;
	esac
	check mount "$2" /mnt
	: > /mnt/.beat
	check umount /mnt
}

box_begin() {
	local name id=0 made=()

	need mkfs.ext4 mkfs.xfs ip awk
	need_module nvmet_tcp ext4 xfs
	check modprobe brd rd_nr=$(wc -w <<< "$VOLUMES") rd_size=$(((FS_MIB + MARKS_MIB) * 1024))
	for name in $VOLUMES; do
		make_volume "$name" /dev/ram$id
		made+=(/dev/ram$id "$(nvmet_uuid "$name")")
		id=$((id + 1))
		echo "$id $((FS_MIB * 2048))" >> /run/marks
	done
	trace_begin
	nvmet_up $NQN "${made[@]}"
	nvmet_port 1 0.0.0.0 4420
	nvmet_show 1 $NQN
	net_join
}

# --- what the target sees -------------------------------------------------------------------------

TRACING=/sys/kernel/tracing
REQUESTS=$TRACING/events/nvmet/nvmet_req_init

trace_begin() {
	mountpoint -q $TRACING || check mount -t tracefs none $TRACING
	[ -e $REQUESTS ] || skip "the kernel does not trace what its target is asked"
	echo 16384 > $TRACING/buffer_size_kb
	echo global > $TRACING/trace_clock		# the one that /dev/kmsg has
	# Read, Write, Write Zeroes, Dataset Management; not to the administrator's queue.
	echo 'qid != 0 && (opcode == 1 || opcode == 2 || opcode == 8 || opcode == 9)' \
		> $REQUESTS/filter
	echo 1 > $REQUESTS/enable
	cat $TRACING/trace_pipe > /run/trace &
	traces=($!)
	cat /dev/kmsg > /run/kmsg &
	traces+=($!)
}

# trace_says TEXT: a line in it.
trace_says() {
	say "$1"
	echo "$1" > $TRACING/trace_marker
}

# Everything up to now is in the file.
trace_settle() {
	settled=$((${settled:-0} + 1))
	echo "settled $settled." > $TRACING/trace_marker
	wait_for grep -qF "settled $settled." /run/trace
}

# judge: what it found, in /out/judged.
judge() {
	local status=0

	trace_settle
	awk -f "$LAB_TOP/tests/lab/judge.awk" /run/marks /run/kmsg /run/trace \
		> /out/judged || status=$?
	cat /out/judged
	return $status
}

# Nobody wrote beside somebody else; and of a write that is there, right now, it does say so.
verdict_of_target() {
	local first=${VOLUMES%% *}

	judge || give_up "$(head -n 5 /out/judged)"
	say "$(tail -n 1 /out/judged)"
	tell 2 is "$first" rw || fail "n1 has it not: the judge is not tried"
	tell 3 write_behind || fail "n2: $(cat /out/said.3)"
	pause 2
	! judge > /dev/null || fail "n2 wrote to what n1 has mounted, and the judge does not see it"
	grep -q 'n2 wrote at .* while n1 had it mounted read-write' /out/judged ||
		fail "the judge says: $(cat /out/judged)"
}

box_end() {
	local g

	for ((g = 2; g <= LAB_GUESTS; g++)); do
		tell $g true end || true
	done
	kill "${traces[@]}"
	sync_point end
}

# --- the network between the nodes ----------------------------------------------------------------
#
# The target is reached all the time, but for a cable that is out.

# A change of the whole reaches each wire; what is no change does not.
net_join() {
	echo 0 > /proc/sys/net/ipv4/ip_forward
	echo 1 > /proc/sys/net/ipv4/ip_forward
}

# No node hears any other one, and nobody is told.
net_split() {
	echo 0 > /proc/sys/net/ipv4/ip_forward
}

# net_mute NODE: what it sends to the others is lost; what they send arrives.
net_mute() {
	echo 0 > "/proc/sys/net/ipv4/conf/wire$(($1 - 1))/forwarding"
}

# --- a node ---------------------------------------------------------------------------------------

node_disk() {
	[ "$LAB_BOOT" != 1 ] || check mkfs.ext4 -q -F /dev/lab/disk1
	check mount -t ext4 /dev/lab/disk1 $VAR
	is_another_boot
	[ -e $D/pub ] || node_key $D
	cp $D/pub "/out/pub.$GUEST.new"
	sync -f $VAR
	mv "/out/pub.$GUEST.new" "/out/pub.$GUEST"
}

# The daemons tell a boot by that, and a node that goes on from a saved one has never booted.
is_another_boot() {
	local boot

	read -r boot < /proc/sys/kernel/random/boot_id
	! attr_is $VAR/boot_id "$boot" || fail "the boot_id of the boot before: $boot"
	echo "$boot" > $VAR/boot_id
	echo "boot_id $boot"
}

# The others, by way of the box.
node_peers() {
	local g

	for ((g = 2; g <= LAB_GUESTS; g++)); do
		[ $g != "$GUEST" ] || continue
		ip route replace "10.77.$((g - 2)).0/24" via "$(wire_addr $((GUEST - 2)) 1)"
		wait_for test -e "/out/pub.$g"
		peers+=("$(node_peer "n$((g - 1))" "$(wire_addr $((g - 2)) $g):7471" \
			"/out/pub.$g")")
	done
}

# configure WRITER: of all volumes; kept on the disk, as a file in /etc is.
configure() {
	local name mode type list=''
	local host=11111111-2222-3333-4444-55555555555$((GUEST - 1))

	for name in $VOLUMES; do
		mode=exclusive type=ext4
		[[ $name = own_* ]] || mode=shared-read
		[[ $name != *_xfs ]] || type=xfs
		list+="${list:+, }{ name = \"$name\"; subsystem = \"$NQN\";
			address = \"$(wire_addr $((GUEST - 2)) 1):4420\";
			uuid = \"$(nvmet_uuid "$name")\"; mount = \"$MNT/$name\";
			type = \"$type\"; mode = \"$mode\"; writer = \"n$1\";
			queues = 1; reconnect_delay = \"1s\"; }"
	done
	cat > $VAR/conf.new <<-C
	node = { name = "$me"; socket = "$D/sock"; state_directory = "null:"; };
	nvme = { host_nqn = "nqn.2014-08.org.nvmexpress:uuid:$host"; socket = "$N/sock";
		state_directory = "$VAR/nvmed"; };
	volumes = ( $list );
	C
	mv $VAR/conf.new $VAR/conf
	sync -f $VAR
	[ -z "${nvmed:-}" ] || check kill -HUP "$nvmed"
}

# As nvmet.sh's, with the configuration on the disk.
supervisor_start() {
	ln -sf $VAR/conf $N/conf
	nvmed_start $N
}

node_begin() {
	local peers=() points=() name

	need mkfs.ext4 mkfs.xfs xfs_logprint ip dd
	need_module nvme_tcp ext4 xfs
	for name in $VOLUMES; do
		points+=("$MNT/$name")
	done
	mkdir -p $N $VAR "${points[@]}"
	node_disk
	node_peers
	[ -e $VAR/conf ] || configure 1
	"$FMOVE_BIN/mount_watch" $((GUEST - 1)) "$LAB_BOOT" "${points[@]}" &
	watch=$!
	node_conf $D $me "[::]:7471" "${peers[@]}" <<-C
	nvme = { socket = "$N/sock"; }; mover = { transports = [ "tcp" ]; };
	memory = { arena = "32MiB"; slab = "4MiB"; total = "256MiB"; };
	C
	node_start $D
	supervisor_start
	kill -0 $watch || fail "mount_watch has ended"
	: > "/out/serving.$GUEST.$LAB_BOOT"
}

# A guest that does not end is ended when the first one has waited enough, and leaves nothing: so it leaves its logs before, and says how far it is.
node_serve() {
	serve_orders
	kill -0 $watch || fail "mount_watch has ended"
	nvmed_end TERM
	leave_logs
	node_stop $D
	leave_logs
	say "both daemons have ended"
	kill $watch
	sync_point end
}

# --- orders ---------------------------------------------------------------------------------------

# Sets `mounted`: rw, ro or gone, as the kernel says. The table is read at once: `read` goes back behind each line, and the kernel writes all
# lines before it anew.
mounted_as() {
	local lines line at options rest

	mounted=gone
	mapfile -t lines < /proc/self/mountinfo
	for line in "${lines[@]}"; do
		[[ $line = *" $MNT/$1 "* ]] || continue
		read -r _ _ _ _ at options rest <<< "$line"
		[ "$at" = "$MNT/$1" ] || continue
		mounted=ro
		if [[ $options = rw* && ${rest##* } = rw* ]]; then
			mounted=rw
		fi
	done
}

# waits_for VOLUME NODE,NODE: for these and nobody else.
waits_for() {
	local field text names name

	nvmed_get "$1" state && [ "$field" = waiting ] || return
	[[ $text =~ \"waits_for\":\ *\[([^]]*)\] ]] || return
	names=${BASH_REMATCH[1]//[\" ]/}
	[ ${#names} = ${#2} ] || return
	for name in ${2//,/ }; do
		[[ ,$names, = *,$name,* ]] || return
	done
}

# is VOLUME WHAT: rw, ro or gone; or waiting:NODE,NODE or refused, which is also gone.
is() {
	mounted_as "$1"
	case $2 in
	waiting:*)	[ $mounted = gone ] && waits_for "$1" "${2#*:}" ;;
	refused)	[ $mounted = gone ] && nvmed_is "$1" state refused ;;
	*)		[ $mounted = "$2" ] ;;
	esac
}

are() {
	local one

	for one in "$@"; do
		is "${one%%=*}" "${one#*=}" || return
	done
}

show_others() {
	local one

	for one in "$@"; do
		is "${one%%=*}" "${one#*=}" && continue
		echo "$one is not so, but $mounted:"
		fmn status "${one%%=*}" || true
	done
}

# become VOLUME=WHAT...: in the end.
become() {
	local end=$((SECONDS + HANG_S - 60)) pause_ms=300

	until are "$@"; do
		if ((SECONDS >= end)); then
			show_others "$@"
			return 1
		fi
		rest
	done
}

# all WORD... : of each shared volume, of which fmove nvme shall not wait.
all() {
	local name

	for name in $SHARED; do
		fmn "$@" "$name" --wait 0 || return
	done
}

# On a machine that does many other things a peer may miss a question, and then it is refused
# until the next one.
unseal_all() {
	local name

	for name in $SHARED; do
		wait_for fmn unseal "$name" --wait 0
	done
}

unseal_by_force() {
	local name

	for name in $SHARED; do
		fmn unseal --force "$name" --wait 0 || return
	done
}

fmoved_stop() {
	node_stop $D
}

fmoved_start() {
	node_start $D
}

fmoved_again() {
	fmoved_stop
	fmoved_start
}

supervisor_again() {
	nvmed_end "$1"
	supervisor_start
}

# hold, release: a file of each shared volume stays open, in processes of their own.
hold() {
	local name

	held=()
	for name in $SHARED; do
		sleep infinity < "$MNT/$name/.beat" &
		held+=($!)
	done
}

release() {
	kill "${held[@]}"
}

# To the first volume, behind the file system and before the marks.
write_behind() {
	dd if=/dev/zero of="/dev/$(nvme_disk $NQN 1)" bs=4096 seek=$((350 * 256)) count=1 \
		oflag=direct status=none
}

# Each reader has heard that the writer writes, which it remembers.
has_heard_writer() {
	local name

	for name in $SHARED; do
		nvmed_says "$name" text "n1 has it mounted read-write" || return
	done
}

# The other one, of two nodes, has been silent for as long as its word counts. Force is for those that do not
# answer: before that it would be refused, and said in vain.
misses_other() {
	local name field text

	for name in $SHARED; do
		nvmed_get "$name" why && [ -n "$field" ] || return
	done
}

# why VOLUME: it is not as wanted, in words.
why() {
	fmn status "$1" | sed -n 's/^ *because *//p'
}

nobody_is_forgotten() {
	! fmn status "${VOLUMES%% *}" --json | grep -q '"forgotten_ms": *[1-9]'
}

# generation TEXT: is written to what is mounted to write here.
generation() {
	local name

	for name in $VOLUMES; do
		mounted_as "$name"
		[ $mounted != rw ] || echo "$1" > "$MNT/$name/generation" || return
	done
	sync
}

# reads TEXT: that is what is there, as far as anything is.
reads() {
	local name text

	for name in $SHARED; do
		mounted_as "$name"
		[ $mounted != gone ] || continue
		read -r text < "$MNT/$name/generation"
		[ "$text" = "$1" ] || { echo "$name: $text, not $1"; return 1; }
	done
}

# --- what guest 1 says ----------------------------------------------------------------------------

# node N COMMAND...: to node N; must succeed.
node() {
	local g=$(($1 + 1)) did="n$1: ${*:2}"
	shift

	tell $g "$@" || give_up "$did: $(cat "/out/said.$g")"
}

# What the target saw is left for whoever looks.
give_up() {
	cp /run/marks /run/kmsg /run/trace /out
	fail "$what: $*"
}

each_node() {
	local n

	for ((n = 1; n <= NODES; n++)); do
		ask $((n + 1)) "$@"
	done
	for ((n = 1; n <= NODES; n++)); do
		answer $((n + 1)) || give_up "n$n: $*: $(cat "/out/said.$((n + 1))")"
	done
}

each_reader() {
	local n

	for ((n = 1; n <= NODES; n++)); do
		[ $n = $writer ] || node $n "$@"
	done
}

nodes_begin() {
	local g

	for ((g = 2; g <= LAB_GUESTS; g++)); do
		wait_for test -e "/out/serving.$g.1"
	done
}

# off NODE...: at once. on NODE
off() {
	local n guests=()

	for n in "$@"; do
		guests+=($((n + 1)))
		boots_again $((n + 1))
	done
	power_off "${guests[@]}"
}

on() {
	power_on $(($1 + 1))
	wait_for test -e "/out/serving.$(($1 + 1)).${boots[$(($1 + 1))]}"
}

# without NODE...: nodes that are not among these, as n2,n3.
without() {
	local n names=''

	for ((n = 1; n <= NODES; n++)); do
		[[ " $* " = *" $n "* ]] || names+=${names:+,}n$n
	done
	echo "$names"
}

# expected VOLUME NODE KIND BACK...: what it is at that node, by the rules of guard.h: KIND,
# sealed or open, is what the shared ones were before all nodes lost their power; BACK are the
# nodes that run again.
expected() {
	local volume=$1 node=$2 kind=$3 away
	shift 3
	away=$(without "$@" $forgotten)

	if [ "$node" = $writer ]; then
		case $kind$volume in
		# Another node may have become its writer meanwhile, and have opened the seal.
		sealedshared*)	[ -z "$away" ] && echo ro || echo "waiting:$away" ;;
		*_mmp)		echo rw ;;
		*)		[ -z "$away" ] && echo rw || echo "waiting:$away" ;;
		esac
	elif [[ $volume = own* ]]; then
		echo refused
	elif [ "$kind" = open ]; then
		echo refused		# the writer has, or had, it mounted read-write
	else
		[[ ,$away, = *,n$writer,* ]] && echo "waiting:n$writer" || echo ro
	fi
}

# expect KIND BACK...: at each of them, in the end.
expect() {
	local kind=$1 n name list
	shift

	for n in "$@"; do
		list=()
		for name in $VOLUMES; do
			list+=("$name=$(expected "$name" "$n" "$kind" "$@")")
		done
		ask $((n + 1)) become "${list[@]}"
	done
	for n in "$@"; do
		answer $((n + 1)) || give_up "n$n: $(cat "/out/said.$((n + 1))")"
	done
}

# All nodes run: everything that is wanted is mounted. well KIND
well() {
	local n all=()

	for ((n = 1; n <= NODES; n++)); do
		all+=($n)
	done
	expect "$1" "${all[@]}"
}

# make_well KIND: what is written before is what all read afterwards.
make_well() {
	generations=$((${generations:-0} + 1))
	node $writer unseal_all
	well open
	node $writer generation $generations
	[ "$1" != sealed ] || node $writer all seal
	well "$1"
	each_node reads $generations
}

# guard_run PLAN [AFTER]: the box carries out that function, and the target's records are judged;
# then the other one, which nobody judges. Every other guest is a node.
guard_run() {
	if [ "$GUEST" != 1 ]; then
		node_begin
		node_serve
		return
	fi
	box_begin
	nodes_begin
	"$1"
	make_well open
	verdict_of_target
	"${2:-:}"
	box_end
}
