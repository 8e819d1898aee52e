# SPDX-License-Identifier: MIT
# guest.sh - what a lab test can call; sourced inside the guest before the test.
# shellcheck shell=bash
#
# A test runs with `set -euo pipefail`, so a command that fails ends it; `check` makes that
# readable. Known here: GUEST (1, 2 ...), LAB_GUESTS, LAB_TOP (the tree), FMOVE_BIN (the programs
# under test), LAB_ROUNDS (empty: a sample is enough), LAB_SEED, LAB_BOOT (1, and one more after
# each power cut), /dev/lab/diskN (the emulated disks), wireN (the wires, with addresses), /out
# (shared with the other guests).
#
# What `say` prints is shown by `run`; everything else stays in the log of the guest.

RXE_MTU_MIN=4200	# of the network device: room for an RDMA MTU of 4096 and its headers

# To the log by its name: a command that fails within $(...) would have this line in its output.
trap 'printf "lab: %s: line %s: \"%s\" exited with %s\n" "${BASH_SOURCE[0]}" "$LINENO" "$BASH_COMMAND" $? >> "/out/log.$GUEST"' ERR
set -E

# --- saying and ending ---------------------------------------------------------------------------

# To the log by its name, for who says something may be called where all output goes elsewhere (wait_for). Also marks the place among
# the kernel's messages on the console, which takes no line of a thousand bytes.
say() {
	printf 'lab: %s\n' "$*" >> "/out/log.$GUEST"
	printf '<4>lab: %.800s\n' "$*" > /dev/kmsg
}

fail() {
	say "FAIL: $*"
	exit 1
}

skip() {
	printf '%s\n' "$*" > "/out/skip.$GUEST"
	exit 77
}

# need CMD...: skip the test where a program is missing.
need() {
	local cmd

	for cmd in "$@"; do
		command -v "$cmd" > /dev/null || skip "no program $cmd"
	done
}

# need_module NAME...: load kernel modules, skip the test where the kernel has none. For one that is there no program is started.
need_module() {
	local m state

	for m in "$@"; do
		{ read -r state < "/sys/module/${m//-/_}/initstate"; } 2> /dev/null && [ "$state" = live ] && continue
		modprobe "$m" || skip "the kernel has no module $m"
	done
}

# check CMD...: run it, fail with the whole command if it fails. If CMD is a function of the test, use
# `check` inside it too: bash suspends `set -e` there.
check() {
	local status=0

	echo "+ $*"
	"$@" || status=$?
	[ $status = 0 ] || fail "exited with $status: $*"
}

# check_not CMD...: the command must fail.
check_not() {
	echo "+ ! $*"
	! "$@" || fail "should have failed: $*"
}

# --- waiting -------------------------------------------------------------------------------------

# Nothing ever comes from here.
mkfifo "/run/never.$BASHPID"
exec {never}<> "/run/never.$BASHPID"
rm "/run/never.$BASHPID"

# pause SECONDS: as sleep(1), without a program.
pause() {
	read -r -t "$1" -u "$never" || true
}

# A pause between two looks: pause_ms, the caller's, and longer the next time. Who looks takes the processor from what he waits for,
# and on an emulated one starting a program for it takes as much as that.
rest() {
	local seconds

	printf -v seconds '0.%03d' "$pause_ms"
	pause "$seconds"
	pause_ms=$((pause_ms < 330 ? pause_ms * 3 / 2 : 500))
}

# A test may set another HANG_S. Cables are cut here and guests end without a word: nodes notice as fast as the product does.
export STALL=${STALL-}
# shellcheck source=tests/hang.sh
. "$LAB_TOP/tests/hang.sh"

# wait_for CMD...: until the command succeeds. What it says is kept while it is waited for: guest-start shows it if the shell ends there,
# as it does for a variable that is not set.
wait_for() {
	local end=$((SECONDS + HANG_S)) pause_ms=100 seen=/run/wait_for.$BASHPID

	type -t "$1" > /dev/null || fail "wait_for: no command $1"
	until { echo "wait_for $*" && "$@"; } > "$seen" 2>&1; do
		((SECONDS < end)) || { cat "$seen"; fail "not within $HANG_S s: $*"; }
		rest
	done
	: > "$seen"
}

# is_listening PORT: somebody accepts TCP connections there.
is_listening() {
	[ -n "$(ss -Hltn "sport = :$1")" ]
}

# The status of its own lets `run` name the guest that began it.
fail_after() {
	say "FAIL: guest $1 ended before sync point $2"
	exit 76
}

# sync_point NAME: go on when every guest has come here. A guest that ended before
# it came takes the others with it, with its own result.
sync_point() {
	local name=$1 end=$((SECONDS + HANG_S)) pause_ms=100 g

	: > "/out/sync/$name.$GUEST"
	for ((g = 1; g <= LAB_GUESTS; g++)); do
		until [ -e "/out/sync/$name.$g" ]; do
			[ ! -e "/out/skip.$g" ] || skip "$(cat "/out/skip.$g")"
			# It may have come here and have ended since the last look.
			[ ! -e "/out/status.$g" ] || [ -e "/out/sync/$name.$g" ] || fail_after "$g" "$name"
			((SECONDS < end)) || fail "guest $g did not reach sync point $name"
			rest
		done
	done
}

# ask_host NAME: makes the file /out/NAME, which `run` looks for and removes. By a rename: where a file of that name was before, this guest
# may still think that it is there.
ask_host() {
	local ask=/out/ask.$1.$BASHPID.$SECONDS

	: > "$ask"
	mv "$ask" "/out/$1"
}

# Wires end in the guest that listens: with the others gone it listens again, without it they would not come back.
may_go() {
	[ "$1" = "$LAB_GUESTS" ] || [[ $LAB_NET = star && $1 -gt 1 ]] || fail "guest $1 may not go: the last one may, in a star any but the first"
}

# power_cut GUEST: that guest's QEMU is ended at once and started again: its disks keep what they
# had completed, its memory is gone, and it runs the test from the top. Returns when it is dead. For
# the last guest only, or in a star for any but the first.
power_cut() {
	may_go "$1"
	ask_host "cut.$1"
	while [ -e "/out/cut.$1" ]; do
		pause 0.02
	done
}

# power_off GUEST...: all of them are dead at once when this returns, and stay so until power_on GUEST.
power_off() {
	local g

	for g in "$@"; do
		may_go "$g"
		ask_host "power_off.$g"
	done
	await_host power_off "$@"
}

power_on() {
	ask_host "power_on.$1"
	await_host power_on "$1"
}

# await_host WHAT GUEST...: until it is done.
await_host() {
	local what=$1 g
	shift

	for g in "$@"; do
		while [ -e "/out/$what.$g" ]; do
			pause 0.02
		done
	done
}

# guest_restarts: this guest is going to power itself off, and is to be started again; it then runs the test from the top. For the last
# guest only. While it is off, or on the way there, /out/restart.GUEST exists.
guest_restarts() {
	[ "$GUEST" = "$LAB_GUESTS" ] || fail "guest_restarts is for guest $LAB_GUESTS only"
	ask_host "restart.$GUEST"
}

# cable WIRE on|off: plug it in, pull it out, at both ends. Mind that `ip link set wireN down` in one guest freezes the other as soon
# as that sends something there: QEMU waits for the frame to be taken.
cable() {
	echo "$1 $2" > /out/cable.new
	mv /out/cable.new /out/cable
	while [ -e /out/cable ]; do
		pause 0.02
	done
}

# --- the wires -----------------------------------------------------------------------------------

# With two guests, wires 0 and 1 both join them. Three stand in a triangle: wire 0 joins 1 and 2,
# wire 1 joins 1 and 3, wire 2 joins 2 and 3. The network devices are called wire0 ... and are up,
# with jumbo frames.

# wire_to GUEST: the number of the (first) wire that leads there.
wire_to() {
	echo $((GUEST + $1 - 3))
}

# wire_addr WIRE [GUEST]: the address of a guest's end of a wire; without a guest, of ours.
wire_addr() {
	echo "10.77.$1.${2:-$GUEST}"
}

# --- RDMA ----------------------------------------------------------------------------------------
#
# An rxe device that talks to its own address loops inside the driver: no frame, no netem, no link
# to take down. Two rxe devices over dummies cannot talk to each other at all. For two devices in
# one guest that reach each other through real frames there is rxe_pair.

# no_rdma_modules: as in a kernel that has loaded none. A guest that goes on from a saved one has them (saved_modules in prepare).
no_rdma_modules() {
	local m loaded=()

	for m in rdma_ucm rdma_cm iw_cm ib_cm rdma_rxe ib_uverbs ib_core; do
		[ ! -e "/sys/module/$m" ] || loaded+=("$m")
	done
	[ ${#loaded[@]} = 0 ] || check modprobe -r "${loaded[@]}"
	[ ! -e /sys/module/ib_core ] || fail "modules of RDMA are still there: $(lsmod)"
}

# rxe_up NAME NETDEV [ADDR/PREFIX]: an RDMA device over a network device, usable when this returns.
# A network device that does not exist is made, as a dummy.
rxe_up() {
	local name=$1 netdev=$2 addr=${3:-} mtu

	need rdma ip
	need_module rdma_rxe rdma_ucm ib_uverbs
	if [ ! -e "/sys/class/net/$netdev" ]; then
		need_module dummy
		check ip link add "$netdev" mtu 9000 type dummy
	fi
	check ip link set "$netdev" up
	[ -z "$addr" ] || check ip addr add "$addr" dev "$netdev"
	read -r mtu < "/sys/class/net/$netdev/mtu"
	((mtu >= RXE_MTU_MIN)) || say "note: $netdev has an MTU of $mtu, $name will use smaller packets"
	check rdma link add "$name" type rxe netdev "$netdev"
	[ -z "$(ip -4 addr show dev "$netdev")" ] || wait_for rxe_gid "$name"
}

# rxe_pair NAME1 NAME2 NET: two RDMA devices joined by a wire inside this guest. NET is the first
# three numbers of their network: NET.1 and NET.2. The network devices are called eth-NAME1 and
# eth-NAME2.
rxe_pair() {
	local name1=$1 name2=$2 net=$3

	need_module veth
	check ip link add "eth-$name1" mtu 9000 type veth peer name "eth-$name2" mtu 9000
	check ip link set "eth-$name1" up
	check ip link set "eth-$name2" up
	accept_own_addresses "eth-$name1" "eth-$name2"
	rxe_up "$name1" "eth-$name1" "$net.1/24"
	rxe_up "$name2" "eth-$name2" "$net.2/24"
	route_over "eth-$name1" "$net.1" "$net.2"
	route_over "eth-$name2" "$net.2" "$net.1"
}

# The kernel drops a frame that claims to come from an address of its own, unless told not to.
accept_own_addresses() {
	local dev

	echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter
	for dev in "$@"; do
		echo 0 > "/proc/sys/net/ipv4/conf/$dev/rp_filter"
		echo 1 > "/proc/sys/net/ipv4/conf/$dev/accept_local"
	done
}

# route_over NETDEV FROM TO: what is bound to FROM and sent to TO, an address of this guest too,
# takes the wire. Without a bound source it stays inside the kernel. Taking NETDEV down drops the
# route: call this again after taking it up.
route_over() {
	local netdev=$1 from=$2 to=$3 table

	# The rule for local addresses is the first of all; ours must come before it.
	if [ -n "$(ip rule list pref 0)" ]; then
		check ip rule add pref 100 lookup local
		check ip rule del pref 0
	fi
	read -r table < "/sys/class/net/$netdev/ifindex"
	table=$((1000 + table))
	check ip route replace "$to" dev "$netdev" table "$table"
	# iif lo: packets of our own only, or those arriving would be sent back.
	[ -n "$(ip rule list pref 50 table "$table")" ] ||
		check ip rule add pref 50 iif lo from "$from" to "$to" lookup "$table"
}

# rxe_gid NAME: the index of the GID that is the device's IPv4 address.
rxe_gid() {
	local gids=/sys/class/infiniband/$1/ports/1/gids gid i

	for i in {0..15}; do
		{ read -r gid < "$gids/$i"; } 2> /dev/null || continue
		[[ $gid != 0000:0000:0000:0000:0000:ffff:* ]] || { echo "$i"; return; }
	done
	return 1
}

# rxe_counter NAME COUNTER: one of the files in hw_counters. sent_pkts and rcvd_pkts count data and
# acknowledgements (one for 64 packets), rdma_sends and rdma_recvs count SENDs but no WRITEs. There
# is no counter of bytes.
rxe_counter() {
	local count

	read -r count < "/sys/class/infiniband/$1/ports/1/hw_counters/$2"
	echo "$count"
}

# rxe_mtu NAME: payload of a full packet: the largest RDMA MTU that leaves room for the headers (80
# bytes).
rxe_mtu() {
	local netdev mtu=4096 room

	read -r netdev < "/sys/class/infiniband/$1/ports/1/gid_attrs/ndevs/0"
	read -r room < "/sys/class/net/$netdev/mtu"
	while ((mtu > 256 && mtu + 80 > room)); do
		mtu=$((mtu / 2))
	done
	echo "$mtu"
}

declare -A rxe_marks

# rxe_mark NAME: remember the counters, for rxe_moved.
rxe_mark() {
	rxe_marks[$1]=$(rxe_packets "$1")
}

# rxe_packets NAME: "sent received". The direction that carries the data is the one with more.
rxe_packets() {
	local counters=/sys/class/infiniband/$1/ports/1/hw_counters sent rcvd

	read -r sent < "$counters/sent_pkts"
	read -r rcvd < "$counters/rcvd_pkts"
	echo "$sent $rcvd"
}

# rxe_bytes NAME: what the packets since rxe_mark (or the beginning) could have carried, one way.
rxe_bytes() {
	local sent0 rcvd0 sent rcvd packets

	read -r sent0 rcvd0 <<< "${rxe_marks[$1]:-0 0}"
	read -r sent rcvd <<< "$(rxe_packets "$1")"
	packets=$((sent - sent0 > rcvd - rcvd0 ? sent - sent0 : rcvd - rcvd0))
	echo $((packets * $(rxe_mtu "$1")))
}

# rxe_moved NAME BYTES_MIN: since rxe_mark (or the beginning) that many bytes went through the
# device, one way. This is what tells RDMA from a silent fallback to TCP.
rxe_moved() {
	local bytes

	bytes=$(rxe_bytes "$1")
	echo "$1: room for $bytes bytes in the packets"
	((bytes >= $2)) || fail "only $bytes bytes can have gone over $1, not $2"
}

# bw_serve DEV MIB [PORT]: start the passive end of ib_write_bw in the background, ready when this
# returns.
bw_serve() {
	local port=${3:-18515}

	need ib_write_bw ss
	ib_write_bw -d "$1" -x "$(rxe_gid "$1")" -p "$port" -F -s 1M -n "$2" > /dev/null &
	wait_for is_listening "$port"
}

# bw_send DEV MIB ADDR [PORT]: write MIB MiB to the other end, 1 MiB at a time; prints MiB per
# second.
bw_send() {
	ib_write_bw -d "$1" -x "$(rxe_gid "$1")" -p "${4:-18515}" -F -s 1M -n "$2" --output=bandwidth "$3" ||
		fail "ib_write_bw from $1 to $3"
}

# --- disks ---------------------------------------------------------------------------------------

# mkdisk DEV FS MOUNT: a fresh file system, mounted.
mkdisk() {
	local dev=$1 fs=$2 mount=$3

	need "mkfs.$fs"
	[ -b "$dev" ] || fail "no disk $dev: does the head of the test ask for it?"
	case $fs in
	xfs)	check mkfs.xfs -q -f "$dev" ;;
	ext4)	check mkfs.ext4 -q -F "$dev" ;;
	*)	fail "mkdisk knows xfs and ext4, not $fs" ;;
	esac
	mkdir -p "$mount"
	check mount -t "$fs" "$dev" "$mount"
}

# dm_up NAME TABLE: a device-mapper device /dev/mapper/NAME. No udev runs here, so dmsetup must make the node itself.
dm_up() {
	need dmsetup
	check dmsetup create "$1" --noudevrules --noudevsync --table "$2"
	check dmsetup mknodes "$1"
}

# dm_swap NAME TABLE: give it another table, under whoever uses it; what is under way is ended by the old one.
dm_swap() {
	check dmsetup suspend --noudevsync --noflush --nolockfs "$1"
	check dmsetup load "$1" --table "$2"
	check dmsetup resume --noudevsync "$1"
}

# dm_down NAME
dm_down() {
	check dmsetup remove --noudevsync --retry "$1"
}

# --- nodes ---------------------------------------------------------------------------------------
#
# Nodes of one guest are tests/cluster's, as outside. Those with a configuration of their own, and a
# node in each of two guests, are tests/nodes.sh's.

# cluster_up DIR N: nodes n1 to nN in this guest, each with a store s in DIR/nI/s, all connected.
cluster_up() {
	[ -x "$FMOVE_BIN/fmoved" ] || fail "no fmoved in $FMOVE_BIN: build the programs first"
	check "$LAB_TOP/tests/cluster" up "$1" "$2"
}

cluster_down() {
	check "$LAB_TOP/tests/cluster" down "$1"
}

# fm SOCKET ARGUMENT...: the fmove command, speaking to the node with that socket.
fm() {
	local socket=$1
	shift

	"$FMOVE_BIN/fmove" --socket "$socket" "$@"
}
