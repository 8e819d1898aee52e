# about: fmove bench over a soft-RoCE device, and of an emulated disk
# guests: 1
# disks: 1 256M
#
# Goal:   bench moves the bytes of rdma over RDMA and no other transport, those of tcp over TCP although
#         there is RDMA; a disk is measured with O_DIRECT and has nothing in it afterwards.
# Method: two nodes over one soft-RoCE device, of which n2 lets n1 measure. Repeats are too short to
#         be valid, so the status is 3 however fast the machine is; what carried the bytes is judged.
#         All is measured in one run: `bench rdma` by itself, and of a device by its name, has lab.rails;
#         `bench tcp` and `bench disk` have no code of their own, and cli.bench has them.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"

D=/run/bench

# bench OPTION...: it ends with 3, its document in $D/out.
bench() {
	local status=0

	"$FMOVE_BIN/fmove" bench "$@" --socket $D/n1/sock --config $D/n1/conf --json --seconds 0.2 --size 4MiB \
		> $D/out 2> $D/err || status=$?
	[ $status = 3 ] || fail "bench $*: status $status: $(cat $D/err $D/out | head -c 3000)"
	[ ! -s $D/err ] || fail "bench $* says: $(cat $D/err)"
}

has() {
	grep -q -- "$1" $D/out || fail "the document lacks $1: $(head -c 3000 $D/out)"
}

# paths KIND PATTERN: how many of that kind the document has that match, of rdma and tcp one for each direction and one for both.
paths() {
	sed 's/{"kind":"[a-z-]*","op":/\n&/g' $D/out | grep "^{\"kind\":\"$1\",\"op\":" | grep -c -- "$2" || :
}

is_reloaded() {
	grep -q 'reloaded' $D/n2/log
}

rxe_up rxe0 lab0 10.1.1.1/24
node_listen='[::]' node_extra='memory = { arena = "16MiB"; slab = "2MiB"; total = "256MiB"; };'
check node_pair $D 7480
check sed -i 's/{ name = "n1";/{ name = "n1"; bench = true;/' $D/n2/conf
check kill -HUP "$(cat $D/n2/pid)"
wait_for is_reloaded
check node_wait $D/n1 rdma 1 2

mkdisk /dev/lab/disk1 ext4 /run/disk
bench all --peer n2 --path /run/disk

for op in send receive both; do
	has "\"kind\":\"rdma\",\"op\":\"$op\",\"where\":\"n2\",\"repeats\":\[{\"bytes\":[0-9]"
done
[ "$(paths rdma '"rdma_bytes":[1-9][0-9]*,"tcp_bytes":0,')" = 3 ] || fail "TCP carried some of it: $(cat $D/out)"
has '"object":"rxe0:1","name":"rcvd_seq_err","growth":'
[ "$(paths rdma '"cpu_there":{"process_s"')" = 3 ] || fail "what it cost the other side is not said: $(cat $D/out)"
say "rdma: over RDMA alone"

[ "$(paths tcp '"rdma_bytes":0,"tcp_bytes":[1-9]')" = 3 ] || fail "RDMA carried some of it: $(cat $D/out)"
say "tcp: over TCP alone"

has '"kind":"disk","op":"write","where":"/run/disk","block_bytes":1048576,"depth":16,"repeats":\[{"bytes":[1-9]'
measured=$(paths disk '')
[ "$measured" -gt 0 ] && [ "$(paths disk '"cached":false')" = "$measured" ] || fail "not with O_DIRECT: $(cat $D/out)"
[ -z "$(ls -A /run/disk | grep -v lost+found)" ] || fail "left behind: $(ls -A /run/disk)"
for kind in disk rdma tcp put; do
	has "\"kind\":\"$kind\",\"op\":\"[a-z]*\",[^[]*\"repeats\":\[{\"bytes\":[0-9]"
done
check umount /run/disk
node_stop $D/n1
node_stop $D/n2
say "disk: measured, and as it was"
