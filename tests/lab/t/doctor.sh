# about: fmove doctor with a soft-RoCE device: healthy, with a small MTU, with its link down
# guests: 1
#
# Goal:   what only an RDMA device says is read from it, a healthy node has no finding, and what is
#         broken for real is found.
# Method: two nodes over one soft-RoCE device. Facts are compared with sysfs and with what the MTU of
#         its interface makes of the RDMA MTU; then the interface gets another MTU, and goes down.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"

D=/run/doctor

# doctor STATUS: its report in $D/report and its facts in $D/facts; it ends so.
doctor() {
	local status=0

	"$FMOVE_BIN/fmove" doctor --socket $D/n1/sock --config $D/n1/conf --save $D/facts \
		> $D/report 2>&1 || status=$?
	[ $status = "$1" ] || fail "doctor: status $status, not $1: $(cat $D/report)"
}

has() {
	grep -q -- "$1" "$2" || fail "$2 lacks $1: $(cat "$2")"
}

is_down() {
	! grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state
}

rxe_up rxe0 lab0 10.1.1.1/24
node_listen='[::]' node_extra='memory = { arena = "32MiB"; slab = "4MiB"; total = "256MiB"; };'
check node_pair $D 7470
check node_wait $D/n1 rdma 1 2

doctor 0
has '^no finding' $D/report
has 'ceiling of rxe0 at n1: ' $D/report
has '"device":"rxe0","port":1,"interface":"lab0"' $D/facts
has '"state":"ACTIVE"' $D/facts
has "\"rdma_mtu\":$(rxe_mtu rxe0),\"rdma_mtu_max\":4096" $D/facts
gid='"gid":"0000:0000:0000:0000:0000:ffff:0a01:0101","type":"RoCE v2"'
has "\"device\":\"rxe0\",\"port\":1,\"index\":$(rxe_gid rxe0),$gid" $D/facts
has '"interface":"lab0","address":"10.1.1.1","bits":24' $D/facts
has '"kind":"rdma","device":"rxe0"' $D/facts
has '"object":"rxe0:1","name":"rcvd_seq_err","value":[0-9]*,"growth":0' $D/facts
has '"object":"lab0","name":"carrier_changes","value":[0-9]*,"growth":0' $D/facts
say "healthy: no finding"

check ip link set lab0 mtu 1500
doctor 0
[ "$(rxe_mtu rxe0)" = 1024 ] || fail "an MTU of 1500 makes an RDMA MTU of $(rxe_mtu rxe0)"
has '"rdma_mtu":1024' $D/facts
say "another MTU: read from the device"

check ip link set lab0 down
wait_for is_down
doctor 1
has '^warning: port-down, at n1' $D/report
node_stop $D/n1
node_stop $D/n2
say "link down: found"
