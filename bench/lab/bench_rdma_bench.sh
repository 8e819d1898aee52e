# about: what fmove bench rdma says against ib_write_bw and ib_send_lat on the same device
# guests: 1
# cpus: 2
#
# Goal:   what fmove bench says of a way over RDMA is what the usual tools say of it; and what a whole put of 4 KiB takes beside one message
#         of as much.
# Method: two nodes over one soft-RoCE device, checksums off (emulation makes a CRC about 100 times dearer than silicon). `bench rdma`, of
#         which the rate of sending and the median latency count, in turn with ib_write_bw of 1 MiB at a time, and with ib_send_lat,
#         which prints half of the way there and back. It polls: with -e, which sleeps as fmove does, messages of more than one packet
#         stop for ever between two ends of one soft-RoCE device. A run of fmove bench that is too short or too noisy to be valid
#         (status 3) counts as well: the medians of the pairs are looked at.
#         `bench/run rdma_bench` reads the lines that begin with "pair".

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=bench/lab/pairs.sh
. "$LAB_TOP/bench/lab/pairs.sh"

MIB=64
PAIRS=3
BYTES=4096		# of a put, and of a message
ITERATIONS=200
D=/run/bench

# The rate in MiB a second and the median latency in microseconds.
fmove_says() {
	local status=0

	"$FMOVE_BIN/fmove" bench rdma --peer n2 --socket $D/n1/sock --config $D/n1/conf --seconds 1 --quiet --json > $D/out || status=$?
	[ $status = 0 ] || [ $status = 3 ] || fail "bench rdma: status $status: $(head -c 2000 $D/out)"
	rate=$(grep -o '"kind":"rdma","op":"send","where":"n2","repeats":.*' $D/out | json median_bytes_per_s)
	latency=$(grep -o "\"op\":\"send\",\"where\":\"n2\",\"block_bytes\":$BYTES,.*" $D/out | json p50_s)
	[ -n "$rate" ] && [ -n "$latency" ] || fail "bench rdma says no rate, or no latency: $(head -c 3000 $D/out)"
	awk -v r="$rate" -v l="$latency" 'BEGIN { printf "%.2f %.1f", r / 1048576, l * 1e6 }'
}

tools_say() {
	local server line

	bw_serve rxe0 $MIB
	server=$!
	line=$(bw_send rxe0 $MIB 10.1.1.1)
	wait $server
	ib_send_lat -d rxe0 -x "$(rxe_gid rxe0)" -p 18516 -F -s $BYTES -n $ITERATIONS > /dev/null &
	server=$!
	wait_for is_listening 18516
	echo "$line $(ib_send_lat -d rxe0 -x "$(rxe_gid rxe0)" -p 18516 -F -s $BYTES -n $ITERATIONS 10.1.1.1 |
		awk -v b=$BYTES '$1 == b { print $5 }')"
	wait $server
}

need ib_write_bw ib_send_lat
rxe_up rxe0 lab0 10.1.1.1/24
node_listen='[::]' node_extra='memory = { arena = "64MiB"; total = "256MiB"; };' node_peer_extra='bench = true; '
check node_pair $D 7470 --measure-unchecked
check node_wait $D/n1 rdma 1 2
in_turn rdma_bench $PAIRS fmove_says tools_say
node_stop $D/n1
node_stop $D/n2
