# about: RDMA between two soft-RoCE devices of one guest, over rdma_cm and over plain verbs
# guests: 1
# when: soak
#
# Goal:   what every other RDMA test here stands on: devices come up, librdmacm connects two of
#         them, and the counters tell how much went through.
# Method: rping and ib_write_bw over a pair joined by a wire; then over a single device that talks
#         to itself.

MIB=32

rping_between() {
	local from=$1 to=$2 server

	rping -s -a "$to" -C 10 > /dev/null &
	server=$!
	wait_for is_cm_listening "$to"
	check timeout $HANG_S rping -c -I "$from" -a "$to" -C 10
	check wait "$server"
}

is_cm_listening() {
	rdma resource show cm_id | grep -q "state LISTEN.*src-addr $1:"
}

need rping
rxe_pair rxe0 rxe1 10.1.0

check rping_between 10.1.0.2 10.1.0.1
say "rping over the pair: done"

rxe_mark rxe0
rxe_mark rxe1
bw_serve rxe0 $MIB
say "ib_write_bw over the pair: $(bw_send rxe1 $MIB 10.1.0.1) MiB/s"
rxe_moved rxe0 $((MIB << 20))
rxe_moved rxe1 $((MIB << 20))

rxe_up rxe2 lab0 10.1.1.1/24
check rping_between 10.1.1.1 10.1.1.1
rxe_mark rxe0
rxe_mark rxe2
bw_serve rxe2 $MIB
say "ib_write_bw over a device's own loop: $(bw_send rxe2 $MIB 10.1.1.1) MiB/s"
rxe_moved rxe2 $((MIB << 20))

# The counters must also be able to say no: the pair had no part in the last transfer.
[ "$(rxe_bytes rxe0)" = 0 ] || fail "packets of rxe2 were counted for rxe0"
