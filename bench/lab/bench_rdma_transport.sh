# about: the RDMA transport by itself against ib_write_bw between the same devices
# guests: 1
# cpus: 2
#
# Goal:   fmove's RDMA connections are as fast as ib_write_bw.
# Method: 1 MiB chunks, 16 under way, between two soft-RoCE devices joined by a wire, in turn with ib_write_bw: what
#         else the machine does weighs more than what is looked for, so each is compared with its neighbour in time.
#         The packets that each sends and gets are counted, too: no other load changes what the transport itself
#         adds to them. `bench/run rdma_transport` reads the lines that begin with "pair".

# shellcheck source=bench/lab/pairs.sh
. "$LAB_TOP/bench/lab/pairs.sh"

MIB=48
PAIRS=9
PORT=7491
ADDR_A=10.1.0.1 ADDR_B=10.1.0.2

transport=$FMOVE_BIN/rdma_transport
[ -x "$transport" ] || skip "no rdma_transport in $FMOVE_BIN: build the programs first"

is_serving() {
	rdma resource show cm_id | grep -q "state LISTEN.*:$PORT"
}

# All since rxe_mark, both ways.
packets() {
	local sent0 rcvd0 sent rcvd

	read -r sent0 rcvd0 <<< "${rxe_marks[rxe0]}"
	read -r sent rcvd <<< "$(rxe_packets rxe0)"
	echo $((sent - sent0 + rcvd - rcvd0))
}

fmove_rate() {
	local server line

	"$transport" serve $ADDR_B $PORT > /dev/null &
	server=$!
	wait_for is_serving
	rxe_mark rxe0
	line=$(timeout $HANG_S "$transport" send $ADDR_A $ADDR_B $PORT $MIB) || fail "send"
	wait "$server" || fail "serve"
	echo "${line%% *} $(packets)"
}

ib_rate() {
	local server line

	bw_serve rxe1 $MIB
	server=$!
	rxe_mark rxe0
	line=$(bw_send rxe0 $MIB $ADDR_B)
	wait "$server" || fail "ib_write_bw"
	echo "$line $(packets)"
}

need ib_write_bw rdma
rxe_pair rxe0 rxe1 10.1.0
in_turn transport $PAIRS fmove_rate ib_rate
