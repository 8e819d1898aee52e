# about: put to a null store over RDMA against ib_write_bw on the same device, without and with checksums
# guests: 1
# cpus: 2
#
# Goal:   what fmove adds to plain RDMA writes costs next to nothing. Emulation makes a CRC about 100 times dearer than silicon, so the
#         figure is without; the one with checksums is for the record.
# Method: 64 MiB of generated data between two nodes over one soft-RoCE device, in turn with ib_write_bw of as much, 1 MiB at a time.
#         `bench/run rdma` reads the lines that begin with "pair".

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=bench/lab/pairs.sh
. "$LAB_TOP/bench/lab/pairs.sh"

MIB=64
PAIRS=7
PAIRS_CHECKED=3
D=/run/bench

fmove_rate() {
	local line

	line=$("$FMOVE_BIN/put_load" $D/n1/sock n2 null x $((MIB << 20)) 1)
	awk -v m=$MIB '{ printf "%.2f", m / $1 }' <<< "$line"
}

ib_rate() {
	local server line

	bw_serve rxe0 $MIB
	server=$!
	line=$(bw_send rxe0 $MIB 10.1.1.1)
	wait $server
	echo "$line"
}

nodes() {
	node_pair $D 7470 "$@"
	node_wait $D/n1 rdma 1 2
}

rxe_up rxe0 lab0 10.1.1.1/24
node_listen='[::]'
node_extra='memory = { arena = "64MiB"; total = "256MiB"; };'
nodes --measure-unchecked
rxe_mark rxe0
in_turn unchecked $PAIRS fmove_rate ib_rate
rxe_moved rxe0 $((2 * PAIRS * MIB << 20))	# ours and ib_write_bw's; what warms up is little
node_stop $D/n1
node_stop $D/n2
nodes
in_turn checked $PAIRS_CHECKED fmove_rate ib_rate
