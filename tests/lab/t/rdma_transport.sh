# about: the RDMA transport by itself: connecting, payload, closing, every way to fail; with and without spinning
# guests: 1
#
# Goal:   what fmove's RDMA connections promise holds on real verbs. (bench/run rdma_transport says how fast they are.)
# Method: rdma_transport drives the transport between two soft-RoCE devices joined by a wire; then it sends 1 MiB chunks, 16 under way,
#         as the daemon's lanes do, and once without spinning: every completion is a sleep and a wake-up then, and a lost one would stop it
#         for good.

MIB=24			# more than are under way at once, so that slots are used again
PORT=7491

transport=$FMOVE_BIN/rdma_transport
[ -x "$transport" ] || fail "no rdma_transport in $FMOVE_BIN: build lab-programs first"
need tc
rxe_pair rxe0 rxe1 10.1.0

need_module sch_netem
export RDMA_A=10.1.0.1 RDMA_B=10.1.0.2 RDMA_NOBODY=10.1.0.9
export RDMA_DELAY="tc qdisc add dev eth-rxe0 root netem delay 300ms"
export RDMA_CUT="tc qdisc add dev eth-rxe0 root netem loss 100%"
export RDMA_MEND="tc qdisc del dev eth-rxe0 root"
export RDMA_NARROW_A="ip link set eth-rxe0 mtu 1500"
export RDMA_NARROW_B="ip link set eth-rxe1 mtu 1500"
export RDMA_WIDEN="ip link set eth-rxe0 mtu 9000; ip link set eth-rxe1 mtu 9000"
export RDMA_REMOVE="rdma link delete rxe1 > /dev/null 2>&1 &"
export RDMA_LATE=10.1.2.1
export RDMA_LATE_ADD="rdma link add rxe2 type rxe netdev late"
export RDMA_LATE_DEL="rdma link delete rxe2 > /dev/null 2>&1 &"
need_module dummy
check ip link add late type dummy
check ip link set late up
check ip addr add $RDMA_LATE/24 dev late
check "$transport" check
say "behaviour: done"

is_gone() {
	[ ! -e "/sys/class/infiniband/$1" ]
}

wait_for is_gone rxe1
check rdma link add rxe1 type rxe netdev eth-rxe1
wait_for rxe_gid rxe1

is_serving() {
	rdma resource show cm_id | grep -q "state LISTEN.*:$PORT"
}

# chunks HOW: MIB of them, there and acknowledged.
chunks() {
	local server

	rxe_mark rxe0
	"$transport" serve $RDMA_B $PORT > /dev/null &
	server=$!
	wait_for is_serving
	check timeout $HANG_S "$transport" send $RDMA_A $RDMA_B $PORT $MIB
	wait "$server" || fail "serve"
	rxe_moved rxe0 $((MIB << 20))
	say "$MIB MiB, $1: done"
}

chunks "spinning"
RDMA_SPIN_US=0 chunks "without spinning"
