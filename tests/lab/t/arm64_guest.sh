# about: arm64: put and get between two guests by io_uring and kernel TLS over TCP, and over RDMA; a volume over NVMe-TCP from one to the other
# arch: arm64
# guests: 2
# disks: 1 512M
# when: soak
#
# Goal:   what is built for arm64 does on Debian's kernel for arm64 what it does on x86-64: files go to a disk by io_uring, over TCP sealed by
#         the kernel and over soft-RoCE, and fmove-nvmed connects and mounts a volume of the other machine.
# Method: two guests, a node in each, its store on an emulated NVMe disk. The descriptors of fmoved show its rings, what the transfers
#         answer shows the way they went, and the device's counters that it was RDMA. Guest 1 serves a second file system as a target.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/nvmet.sh
. "$LAB_TOP/tests/lab/nvmet.sh"

D=/srv/node
N=/run/nvmed
BYTES=$((8 << 20))
NQN=nqn.2026-01.org.fmove:arm64
UUID=aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee
POINT=/run/volume
other=$((3 - GUEST))
trap 'cp -f $D/log "/out/fmoved.$GUEST.log" 2> /dev/null || true; cp -f $N/log /out/nvmed.log 2> /dev/null || true' EXIT

fmn() {
	"$FMOVE_BIN/fmove" --socket $D/sock "$@"
}

has_rings() {
	find "/proc/$(cat $D/pid)/fd" -lname 'anon_inode:*io_uring*' | grep -q .
}

begin() {
	[ "$(uname -m)" = aarch64 ] || fail "this is $(uname -m)"
	need_module tls
	mkdisk /dev/lab/disk1 ext4 /srv
	head -c $BYTES /dev/urandom > /srv/file
	node_extra='memory = { arena = "32MiB"; slab = "4MiB"; total = "256MiB"; }; mover = { chunk = "256KiB"; io = "io_uring"; };' node_guest $D
	check node_wait $D tcp 1 1
	check has_rings
	say "$(uname -r) on $(uname -m), pages of $(awk '/KernelPageSize/ { print $2; exit }' /proc/self/smaps) KiB: fmoved runs by io_uring"
}

# there_and_back KIND: from this guest; what it said last is in result.
there_and_back() {
	local kind=$1

	result=$(fmn put --quiet --json --transport "$kind" /srv/file "n$other:s/$kind") || fail "put over $kind: $result"
	[ "$(json transport <<< "$result")" = "$kind" ] || fail "put --transport $kind: $result"
	fmn get --quiet --json --transport "$kind" "n$other:s/$kind" "/srv/$kind" > /run/result || fail "get over $kind: $(cat /run/result)"
	[ "$(json transport < /run/result)" = "$kind" ] || fail "get --transport $kind: $(cat /run/result)"
	check cmp /srv/file "/srv/$kind"
}

by_tcp() {
	there_and_back tcp
	[ "$(json encryption <<< "$result")" = ktls ] || fail "the kernel did not seal: $result"
	sync_point tcp
	say "TCP, sealed by the kernel: there and back"
}

by_rdma() {
	rxe_up rxe0 wire0
	sync_point devices
	check node_wait $D rdma 1 1
	rxe_mark rxe0
	sync_point marked
	there_and_back rdma
	rxe_moved rxe0 $((2 * BYTES))
	sync_point rdma
	say "RDMA: there and back"
}

serves() {
	truncate -s 64M /srv/volume
	check mkfs.ext4 -q -F /srv/volume
	need_module loop
	nvmet_up $NQN "$(losetup -f --show /srv/volume)" $UUID
	nvmet_port 1 "$(wire_addr 0 1)" 4420
	nvmet_show 1 $NQN
}

mounts() {
	need_module nvme_tcp
	mkdir -p $POINT
	nvmed_conf $N "name = \"data\"; subsystem = \"$NQN\"; address = \"$(wire_addr 0 1):4420\"; uuid = \"$UUID\"; mount = \"$POINT\";
		type = \"ext4\"; writer = \"n1\"; queues = 1;"
	nvmed_start $N
	wait_for nvmed_is data state mounted
	check cp /srv/file $POINT/file
	check "$FMOVE_BIN/fmove" nvme down data --timeout ${HANG_S}s
	[ -z "$(nvme_of $NQN)" ] || fail "still connected: $(nvme_of $NQN)"
	check "$FMOVE_BIN/fmove" nvme up data --wait ${HANG_S}s
	check cmp /srv/file $POINT/file
	check "$FMOVE_BIN/fmove" nvme down data --timeout ${HANG_S}s
	nvmed_end TERM
	say "NVMe-TCP: connected, mounted, written, down, and the same again"
}

begin
by_tcp
by_rdma
node_stop $D
[ "$GUEST" = 2 ] || serves
sync_point served
[ "$GUEST" = 1 ] || mounts
sync_point end
say "in all: $(uname -r): io_uring, TLS by the kernel, RDMA, NVMe-TCP"
