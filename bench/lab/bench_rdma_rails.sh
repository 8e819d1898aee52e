# about: put over two rate-limited RDMA rails between two guests against one of them
# guests: 2
# cpus: 2
#
# Goal:   a second rail doubles the rate, as long as the CPU is not the limit.
# Method: both wires are limited by tc far below what emulation can do; generated data to a null store, in turn with both soft-RoCE devices
#         and with one. Nodes find their rails when they meet, so they are started anew each time. Slabs are small, as the file is:
#         what is under way at once must be little of it, or the end of the transfer is all that is measured.
#         `bench/run rdma_rails` reads the lines that begin with "pair".

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"

MIB=24
PAIRS=5
RATE=40mbit
D=/run/node

# rate_over RAILS: MiB per second, at guest 1.
rate_over() {
	local rails=$1 line

	turn=$((turn + 1))
	if [ "$rails" = 2 ]; then
		rxe_up rxe1 wire1
	elif [ -e /sys/class/infiniband/rxe1 ]; then
		check rdma link del rxe1
	fi
	sync_point "devices$turn"
	node_start $D --measure-unchecked
	node_wait $D rdma "$rails" 2
	sync_point "connected$turn"
	if [ "$GUEST" = 1 ]; then
		line=$("$FMOVE_BIN/put_load" $D/sock n2 null x $((MIB << 20)) 1)
		rate=$(awk -v m=$MIB '{ printf "%.2f", m / $1 }' <<< "$line")
	fi
	sync_point "put$turn"
	node_stop $D
}

turn=0
need tc
need_module sch_tbf
rxe_up rxe0 wire0
for wire in 0 1; do
	check tc qdisc add dev "wire$wire" root tbf rate $RATE burst 64k limit 4m
done
node_extra='memory = { arena = "16MiB"; slab = "1MiB"; total = "256MiB"; }; mover = { chunk = "256KiB"; };'
node_guest $D
node_stop $D
for ((i = 0; i < PAIRS; i++)); do
	rate_over 2
	two=${rate:-}
	rate_over 1
	[ "$GUEST" = 2 ] || say "pair rdma_rails $two $rate"
done
