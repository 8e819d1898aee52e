# about: loss, jitter, links down, rxe deleted, addresses and MTU changed, one-way drops, resets, a stopped peer, RDMA dead: under a put over RDMA
# guests: 2
#
# Goal:   whatever the network does in the midst of a put, it completes, or says in one line what is wrong and with whom; the destination holds
#         the old version or the new; when the network is well the rails come back and the same command completes.
# Method: two guests, RDMA on two wires. Guest 1 puts, breaks and mends; guest 2 carries out what it is asked through /out, and hashes.
#         A sample runs three quick cases; LAB_ROUNDS: how often all cases run, with a link that is down for 60 s.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/fault/expect.sh
. "$LAB_TOP/tests/fault/expect.sh"
# shellcheck source=tests/lab/orders.sh
. "$LAB_TOP/tests/lab/orders.sh"

MIB=3
SLOW_S=4			# how long a put takes into which a fault falls
D=/run/node
cases=0

fmn() {
	"$FMOVE_BIN/fmove" --socket $D/sock "$@"
}

# --- a put in whose midst something happens ------------------------------------------------------

hash_to() {
	sha1sum < "$1" > /out/hash
}

# is VERSION...: one of these is what guest 2 has.
is() {
	local version

	peer hash_to $D/s/x || fail "$where: guest 2 has no file"
	for version in "$@"; do
		[ "$(< /out/hash)" != "${hash[$version]}" ] || return 0
	done
	fail "$where: what is there is none of: $*"
}

# The put must be under way still when the fault is there, which takes an order or two to guest 2: longer where all is slow.
pace() {
	local begin=$SECONDS i seconds

	for i in 1 2 3 4; do
		check peer is_up
	done
	seconds=$((SECONDS - begin > SLOW_S ? SECONDS - begin : SLOW_S))
	limit=$((MIB * 1024 / seconds))KiB/s
}

begin() {
	where=$1
	pace
	echo "--- $where"
	cases=$((cases + 1))
	rxe_mark rxe0
	rxe_mark rxe1
	fmn put --force --quiet --json --limit "$limit" $D/new n2:s/x > $D/out 2> $D/err &
	pid=$!
	wait_for is_under_way
}

is_under_way() {
	! kill -0 $pid 2>/dev/null || [[ $(node_status $D) =~ \"state\":\"copying\",\"size\":[^,]*,\"bytes\":[1-9] ]]
}

has_ended() {
	! kill -0 $pid
}

# ended [PATTERN]: sets `status`. The command was told no time to end in: it ends because it is through, or because the peer that says nothing was
# noticed. What failed names the peer.
ended() {
	wait_for has_ended
	status=0
	wait $pid || status=$?
	if [ $status = 0 ]; then
		say "$where: done, $(json transport < $D/out), $(json resent_bytes < $D/out) bytes sent again"
	else
		say "$where: status $status: $(cat $D/err)"
		[ "$(wc -l < $D/err)" = 1 ] || fail "$where: not one line"
		grep -q "n2.*${1:-}" $D/err || fail "$where: not named: n2 ${1:-}"
		((status == 1 || status == 4)) || fail "$where: status $status"
	fi
	kill -0 "$(cat $D/pid)" || fail "$where: the daemon is gone"
	check peer is_up
}

is_up() {
	kill -0 "$(cat $D/pid)"
}

# What each end says of it.
show_rdma() {
	node_rails $D rdma
	rdma resource show qp
	rdma resource show cm_id
	tail -n 60 $D/log
}

# in_error: the devices of this guest whose queue pair of connection managers (GSI) is in the error state. The kernel's soft-RoCE leaves it there,
# and no connection over that device is made again.
in_error() {
	rdma resource show qp | sed -n 's|^link \([^/]*\)/.* type GSI state ERR.*|\1|p'
}

# make_anew DEVICE: rxeN over wireN.
make_anew() {
	say "note: $1 of guest $GUEST hears of no connection any more (its GSI queue pair is in the state ERR), and is made anew"
	delete_rxe "$1"
	wait_for is_deleted "$1"
	rxe_up "$1" "wire${1#rxe}"
}

mend_devices() {
	local device

	for device in $(in_error); do
		make_anew "$device"
	done
}

rails_are_back() {
	mend_devices
	peer mend_devices
	node_has_rails $D rdma 2 1
}

# All is well: rails come back, the command completes, and the old version comes back for the next case.
again() {
	if [ $status = 0 ]; then
		is new
	else
		is old new
	fi
	node_until $D rails_are_back || {
		peer show_rdma
		show_rdma
		fail "$where: the rails do not come back"
	}
	fmn put --force --quiet $D/new n2:s/x || fail "$where: run again"
	is new
	peer wait_for no_partial $D/s || fail "$where: something half-done"
	fmn put --force --quiet $D/old n2:s/x || fail "$where: the old version again"
}

# --- the cases -----------------------------------------------------------------------------------

on_wires() {
	local wire

	for wire in 0 1; do
		"$@" wire$wire
	done
}

# netem ARGUMENTS DEVICE
netem() {
	check tc qdisc add dev "${@: -1}" root netem "${@:1:$# - 1}"
}

no_netem() {
	check tc qdisc del dev "$1" root
}

# Jitter brings packets out of order, for which RoCE has no patience: this ends over TCP.
loss_and_jitter() {
	local how="loss 1% delay 20ms 20ms"

	begin "$how"
	# shellcheck disable=SC2086
	on_wires netem $how
	# shellcheck disable=SC2086
	peer on_wires netem $how
	ended
	[ $status = 0 ] || fail "$where: it did not get through"
	on_wires no_netem
	peer on_wires no_netem
	again
}

cables() {
	cable 0 "$1"
	cable 1 "$1"
}

link_down() {
	begin "links down for $1 s"
	cables off
	wait_for has_no_carrier
	sleep "$1"		# what is tried, not what is waited for
	cables on
	ended
	again
}

has_no_carrier() {
	[ "$(cat /sys/class/net/wire0/carrier)" = 0 ]
}

rxe_deleted() {
	begin "an rxe device is deleted under load"
	peer delete_rxe rxe1
	peer wait_for is_deleted rxe1
	ended
	[ $status = 0 ] || fail "$where: there was another rail"
	peer rxe_up rxe1 wire1
	again
}

# The kernel waits in there until the last user has let go of it; the daemon looks every two seconds.
delete_rxe() {
	rdma link del "$1" &
}

is_deleted() {
	[ ! -e "/sys/class/infiniband/$1" ]
}

address_changed() {
	begin "an address changes"
	peer renumber 10.77.1.2/24 10.77.1.22/24
	ended
	peer renumber 10.77.1.22/24 10.77.1.2/24
	again
}

# In this order: the kernel takes a second address of the subnet away with the first.
renumber() {
	check ip addr del "$1" dev wire1
	check ip addr add "$2" dev wire1
}

one_way() {
	begin "nothing comes back from n2"
	peer on_wires netem loss 100%
	ended
	peer on_wires no_netem
	again
}

mtu_lowered() {
	begin "the MTU is lowered"
	on_wires set_mtu 1500
	peer on_wires set_mtu 1500
	ended
	on_wires set_mtu 9000
	peer on_wires set_mtu 9000
	again
}

set_mtu() {
	check ip link set "$2" mtu "$1"
}

# All TCP connections, the control connection among them.
reset() {
	begin "connections are reset"
	check ss -K dst "$(wire_addr 0 2)"
	ended
	again
}

stopped() {
	begin "the far daemon is stopped"
	peer daemon STOP
	ended
	peer daemon CONT
	again
}

daemon() {
	kill "-$1" "$(cat $D/pid)"
}

dropped() {
	begin "everything is dropped, without a word"
	on_wires netem loss 100%
	peer on_wires netem loss 100%
	ended
	on_wires no_netem
	peer on_wires no_netem
	again
}

# RoCE v2 is UDP to this port, over both families: link-local addresses make rails too. It is dropped where it arrives: rxe hears of
# what is dropped on its way out, and takes that for a queue pair that is broken, the connection manager's too, from which that
# does not recover.
drop_roce() {
	check tc qdisc add dev "$1" clsact
	check tc filter add dev "$1" ingress pref 1 protocol ip flower ip_proto udp dst_port 4791 action drop
	check tc filter add dev "$1" ingress pref 2 protocol ipv6 flower ip_proto udp dst_port 4791 action drop
}

pass_roce() {
	check tc qdisc del dev "$1" clsact
}

tcp_bytes() {
	local rail number='"sent_bytes":([0-9]+)' sum=0

	while read -r rail; do
		[[ ! $rail =~ $number ]] || sum=$((sum + BASH_REMATCH[1]))
	done < <(node_rails $D tcp)
	echo $sum
}

# RoCE is dropped on both wires amid a put; where that took longer than the put, once more with a slower one. Sets `before`, of TCP.
drop_roce_amid() {
	local SLOW_S

	for SLOW_S in 4 16 64; do
		before=$(tcp_bytes)
		begin "RDMA dies, TCP lives"
		on_wires drop_roce
		peer on_wires drop_roce
		has_ended 2> /dev/null || return 0
		ended
		on_wires pass_roce
		peer on_wires pass_roce
		again
	done
	fail "$where: the put was through each time before RDMA was dead"
}

# RDMA dies and TCP lives: what began over the one ends over the other, and the next goes over the first again.
rdma_dies() {
	local before

	drop_roce_amid
	ended
	[ $status = 0 ] || fail "$where: it did not go on over TCP"
	rxe_moved rxe0 $((64 << 10))
	(($(tcp_bytes) > before)) || fail "$where: TCP has carried nothing"
	on_wires pass_roce
	peer on_wires pass_roce
	again
	rxe_mark rxe0
	rxe_mark rxe1
	fmn put --force --quiet --transport rdma $D/old n2:s/x || fail "$where: RDMA is not back"
	(($(rxe_bytes rxe0) + $(rxe_bytes rxe1) >= MIB << 20)) || fail "$where: what was said to be RDMA was none"
}

all_cases() {
	local case

	for case in "$@"; do
		$case
	done
}

driver() {
	local round
	declare -gA hash

	for version in old new; do
		head -c $(((MIB << 20) + 13)) /dev/urandom > $D/$version
		hash[$version]=$(sha1sum < $D/$version)
	done
	check fmn put --quiet $D/old n2:s/x
	if [ -z "$LAB_ROUNDS" ]; then
		all_cases rdma_dies rxe_deleted reset
	else
		for ((round = 1; round <= LAB_ROUNDS; round++)); do
			all_cases loss_and_jitter "link_down 5" "link_down 60" rxe_deleted address_changed one_way mtu_lowered \
				reset stopped dropped rdma_dies
		done
	fi
	peer true end
	say "$cases cases: all whole, all completed once the network was well"
}

trap 'cp -f $D/log /out/fmoved.$GUEST.log 2> /dev/null || true' EXIT
need tc ss rdma
need_module sch_netem cls_flower act_gact sch_ingress
for wire in 0 1; do
	rxe_up "rxe$wire" "wire$wire"
done
node_extra='memory = { arena = "8MiB"; slab = "512KiB"; total = "128MiB"; }; mover = { chunk = "64KiB"; };'
check node_guest $D --log-level debug
check node_wait $D rdma 2 1
sync_point connected
if [ "$GUEST" = 1 ]; then
	driver
else
	serve_orders
fi
node_stop $D
