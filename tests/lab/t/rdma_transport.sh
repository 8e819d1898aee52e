# about: the RDMA transport by itself: connecting, payload, closing, every way to fail, and its rate
# guests: 1
# timeout: 600
#
# Goal:   what fmove's RDMA connections promise holds on real verbs, and they are as fast as ib_write_bw.
# Method: rdma_transport drives the transport between two soft-RoCE devices joined by a wire; then 1 MiB chunks, 16 under way,
#         alternate with ib_write_bw between the same devices. Each is compared with its neighbour in time, since what else the
#         machine does weighs more than what is looked for, and the median counts.

MIB=48
ROUNDS=9
PORT=7491
RATIO_MIN=0.95
SPREAD_MAX=1.3		# between the quartiles of the ratios; more, and the machine is busy with something else
RATIO_BUSY_MIN=0.8

transport=$FMOVE_BIN/rdma_transport
[ -x "$transport" ] || skip "no rdma_transport in $FMOVE_BIN: build the programs first"
need ib_write_bw awk tc
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
check timeout 400 "$transport" check
say "behaviour: done"

is_gone() {
	[ ! -e "/sys/class/infiniband/$1" ]
}

wait_for 20 is_gone rxe1
check rdma link add rxe1 type rxe netdev eth-rxe1
wait_for 10 rxe_gid rxe1

is_serving() {
	rdma resource show cm_id | grep -q "state LISTEN.*:$PORT"
}

fmove_rate() {
	local server line

	"$transport" serve $RDMA_B $PORT > /dev/null &
	server=$!
	wait_for 20 is_serving
	line=$(timeout 60 "$transport" send $RDMA_A $RDMA_B $PORT $MIB) || fail "send"
	wait "$server" || fail "serve"
	echo "fmove: $line" >&2
	echo "${line%% *}"
}

yardstick_rate() {
	local server line

	bw_serve rxe1 $MIB
	server=$!
	line=$(bw_send rxe0 $MIB $RDMA_B)
	wait "$server" || fail "ib_write_bw"
	echo "ib_write_bw: $line" >&2
	echo "$line"
}

median() {
	sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

quartile() {
	sort -n | awk -v q="$1" '{ v[NR] = $1 } END { print v[int((NR * q + 3) / 4)] }'
}

is_true() {
	awk "BEGIN { exit !($1) }"
}

compare() {
	local i ours theirs

	for ((i = 0; i < ROUNDS; i++)); do
		if ((i % 2)); then
			ours=$(fmove_rate)
			theirs=$(yardstick_rate)
		else
			theirs=$(yardstick_rate)
			ours=$(fmove_rate)
		fi
		echo "$ours" >> /tmp/ours
		echo "$theirs" >> /tmp/theirs
		awk "BEGIN { printf \"%.3f\n\", $ours / $theirs }" >> /tmp/ratios
	done
}

is_quiet() {
	is_true "$(quartile 3 < /tmp/ratios) / $(quartile 1 < /tmp/ratios) < $SPREAD_MAX"
}

# Without spinning every completion is a sleep and a wake-up: a lost one would stop it for good.
RDMA_SPIN_US=0 fmove_rate > /tmp/unspun
say "without spinning: $(cat /tmp/unspun) MiB/s"

rxe_mark rxe0
compare
is_quiet || compare
rxe_moved rxe0 $((2 * ROUNDS * MIB << 20))

ratio=$(quartile 2 < /tmp/ratios)
say "medians: fmove $(quartile 2 < /tmp/ours) MiB/s, ib_write_bw $(quartile 2 < /tmp/theirs) MiB/s;" \
	"ratio $ratio of $(sort -n /tmp/ratios | tr '\n' ' ')"
if ! is_quiet; then
	say "note: the machine is too busy for a verdict on less than a fifth"
	RATIO_MIN=$RATIO_BUSY_MIN
fi
is_true "$ratio >= $RATIO_MIN" || fail "less than $RATIO_MIN of ib_write_bw"
