# about: sealing a shared volume, and two nodes that want to write to one: what peers say, without them, both at once
# guests: 2
# disks: 1 96M
# when: soak
#
# Goal:   what the writer seals is what the reader reads, byte for byte, and the reader never keeps an older block of it. Of two nodes one
#         alone ever has the volume read-write: with and without a network between them, with configurations that agree and that do not.
# Method: guest 1 has the target and is n1, the writer; guest 2 is n2. fmoved speaks over wire 0, which is cut at times, NVMe-TCP over
#         wire 1. Guest 1 says what guest 2 shall do, through /out. LAB_ROUNDS: how often both nodes race in each way.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/nvmet.sh
. "$LAB_TOP/tests/lab/nvmet.sh"
# shellcheck source=tests/lab/orders.sh
. "$LAB_TOP/tests/lab/orders.sh"

NQN=nqn.2026-01.org.fmove:shared
UUID=aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee
D=/run/node
N=/run/nvmed
POINT=/run/volume
NVMED_HOSTID=11111111-2222-3333-4444-55555555555$GUEST
NVMED_HOSTNQN=nqn.2014-08.org.nvmexpress:uuid:$NVMED_HOSTID
ROUNDS=${LAB_ROUNDS:-2}
last_epoch=0
trap 'cp -f $N/log "/out/nvmed.log.$GUEST" 2> /dev/null || true; cp -f $D/log "/out/fmoved.log.$GUEST" 2> /dev/null || true' EXIT

fmn() {
	"$FMOVE_BIN/fmove" nvme "$@"
}

is() {
	nvmed_is data "$1" "$2"
}

# says KEY PATTERN: somewhere behind it.
says() {
	fmn status data --json | grep -q -e "\"$1\": *.*$2"
}

# configure MODE WRITER
configure() {
	mkdir -p $N $POINT
	cat > $N/conf <<-C
	node = { name = "n$GUEST"; socket = "$D/sock"; state_directory = "null:"; };
	nvme = { host_nqn = "$NVMED_HOSTNQN"; socket = "$N/sock"; state_directory = "$N/state"; };
	volumes = ( { name = "data"; subsystem = "$NQN"; address = "$(wire_addr 1 1):4420"; uuid = "$UUID"; mount = "$POINT"; type = "ext4";
		mode = "$1"; writer = "$2"; queues = 1; } );
	C
	[ -z "${nvmed:-}" ] || check kill -HUP "$nvmed"
}

peer_until() {
	peer wait_for "$@" || fail "n2: not so: $*: $(cat /out/said.2)"
}

# --- what is on it --------------------------------------------------------------------------------

hash_all() {
	(cd $POINT && find . -type f | sort | xargs sha256sum)
}

# write_files GENERATION: some are new, some other, some gone.
write_files() {
	local i

	mkdir -p $POINT/dir
	rm -f $POINT/dir/old.*
	for i in 1 2 3; do
		head -c $((i * 700001)) /dev/urandom > "$POINT/file.$i"
		echo "$1" > "$POINT/dir/old.$1.$i"
	done
}

is_same() {
	hash_all > /out/mine
	peer hash_all || fail "n2 cannot read: $(cat /out/said.2)"
	diff /out/mine /out/said.2 || fail "n2 does not read what n1 wrote"
}

# On a machine that does many other things a peer may miss a question, and then it is refused until the next one.
unseal() {
	wait_for fmn unseal data --wait ${HANG_S}s
}

is_read_write() {
	is state mounted && is is_read_write true
}

# The number is higher each time.
seals() {
	local epoch before=$last_epoch

	check fmn seal data --wait ${HANG_S}s
	is is_read_write false || fail "sealed, and mounted read-write"
	epoch=$(nvmed_field data epoch)
	[ "$epoch" -gt "$before" ] || fail "sealed with epoch $epoch after $before"
	last_epoch=$epoch
	peer_until is mounted_epoch "$epoch"
	is_same
}

disk2() {
	echo "/dev/$(nvme_disk $NQN)"
}

is_device_read_only() {
	[ "$(blockdev --getro "$(disk2)")" = 1 ]
}

# --- sealing --------------------------------------------------------------------------------------

first_seal() {
	wait_for is_read_write
	peer_until is state refused
	peer_until says text "n1 has it mounted read-write; there, when it has written: fmove nvme seal data"
	peer check_not "$FMOVE_BIN/fmove" nvme seal data || fail "n2 has sealed what n1 writes"
	write_files 1
	seals
	peer is_device_read_only || fail "a reader's device is writable"
	check_not touch $POINT/file.1
	wait_for says peers "n2"
	fmn status data
}

# While the reader has it mounted nobody writes; it leaves by itself.
second_seal() {
	unseal
	is_read_write || fail "unsealed, but $(nvmed_field data state)"
	peer is is_mounted false || fail "n1 writes while n2 reads"
	write_files 2
	seals
}

# Down and up it is the same seal: the writer finds what it sealed.
same_seal() {
	check fmn connect data --wait ${HANG_S}s
	check fmn up data --wait ${HANG_S}s
	is mounted_epoch "$last_epoch" || fail "sealed anew without need: $(nvmed_field data mounted_epoch) after $last_epoch"
}

cached() {
	sha256sum < "$(disk2)"
}

uncached() {
	dd if="$(disk2)" iflag=direct bs=1M status=none | sha256sum
}

# Somebody at n2 has the device open, so that the page cache of it outlives the mount.
hold() {
	exec {held}< "$(disk2)"
	cached
}

release() {
	exec {held}<&-
}

# What a mount by hand sees then. With blocks of 4 KiB the device has the file system's from the beginning; else ext4 would change that,
# which happens to drop the page cache.
mount_stale() {
	local read

	mkdir -p $N/hand
	blockdev --setro "$(disk2)"
	mount -t ext4 -o ro,noload "$(disk2)" $N/hand
	read=$(cat $N/hand/dir/old.3.1 2>&1) || true
	umount $N/hand
	blockdev --setrw "$(disk2)"
	echo "$read"
	[ "$read" != 3 ]
}

stale_blocks() {
	unseal
	peer "$FMOVE_BIN/fmove" nvme connect data --wait ${HANG_S}s || fail "n2: $(cat /out/said.2)"
	peer hold
	cp /out/said.2 /out/before
	write_files 3
	check fmn seal data --wait ${HANG_S}s
	peer cached
	cmp /out/said.2 /out/before || fail "the page cache of n2 is not what it was: the test shows nothing"
	peer uncached
	! cmp -s /out/said.2 /out/before || fail "the device is not another one: the test shows nothing"
	peer mount_stale || fail "a mount without BLKFLSBUF sees what is new: the test shows nothing"
	say "without BLKFLSBUF n2 reads: $(cat /out/said.2)"
	peer "$FMOVE_BIN/fmove" nvme up data --wait ${HANG_S}s || fail "n2: $(cat /out/said.2)"
	is_same
	peer cached
	! cmp -s /out/said.2 /out/before || fail "n2 has old blocks in its page cache still"
	peer release
}

# --- a peer that is cut off -----------------------------------------------------------------------

cut_wire() {
	check ip link set wire0 down
	wait_for says peers '"why": *"[^"]'
}

mend_wire() {
	check ip link set wire0 up
	wait_for says peers '"why": *""'
}

cut_off() {
	cut_wire
	! fmn unseal data > $N/said 2>&1 || fail "unsealed although n2 may read"
	grep -q "n2 had it mounted when it answered last" $N/said || fail "not said who is lost: $(cat $N/said)"
	is_same
	peer is is_mounted true || fail "n2 has lost what it read"
	check fmn down data --timeout ${HANG_S}s
	check fmn up data --wait ${HANG_S}s
	is is_read_write false || fail "what is sealed is read-write"
	mend_wire
	unseal
	# A silent peer that has nothing of it changes nothing.
	cut_wire
	check fmn down data --timeout ${HANG_S}s
	check fmn up data --wait ${HANG_S}s
	is_read_write || fail "the writer is refused because a peer is silent: $(nvmed_field data text)"
	mend_wire
}

# --- two that want to write -----------------------------------------------------------------------

both() {
	"$1" "${@:2}"
	peer "$@" || fail "n2: $(cat /out/said.2)"
}

down_both() {
	check fmn down data --timeout ${HANG_S}s
	peer "$FMOVE_BIN/fmove" nvme down data --timeout ${HANG_S}s || fail "n2: $(cat /out/said.2)"
}

# Of both, how many have it read-write.
count_writers() {
	writers=0
	! is_read_write || writers=1
	! peer is_read_write || writers=$((writers + 1))
}

one_writes() {
	count_writers
	[ $writers = 1 ]
}

# The file system itself keeps the other one out; who is first wins, once they do not try at the same moment.
mmp_decides() {
	wait_for one_writes
	if is_read_write; then
		peer_until says error "another node has it mounted"
	else
		wait_for says error "another node has it mounted"
	fi
}

# race WRITERS: both at once, from down; so many have it read-write in the end. 1: one, and the other one knows why not; mmp: one, by luck.
race() {
	down_both
	ask 2 "$FMOVE_BIN/fmove" nvme up data --wait 0
	check fmn up data --wait 0
	answer 2 || fail "n2: up"
	case $1 in
	1)	wait_for is_read_write; peer_until is state refused ;;
	0)	wait_for is state refused; peer_until is state refused ;;
	mmp)	mmp_decides ;;
	esac
	count_writers
	[ $writers = "${1/mmp/1}" ] || fail "round $round: $writers writers: $2"
}

# As on a new machine.
forget_heard() {
	nvmed_end TERM
	check rm -f $N/state/peers.json
	nvmed_start $N
}

refusals() {
	both configure exclusive n1
	wait_for is_read_write
	peer_until says text "exclusive to node n1 and this is n2"
	peer is state refused || fail "n2 is not refused, but says so"
	peer configure exclusive n2
	peer_until says text 'names .*n1.* as the writer of .*data.*, this one .*n2'
	fmn down data
	check_not fmn up data --wait ${HANG_S}s
	wait_for says text 'configuration of n2 names .*n2.* as the writer'
}

races() {
	local round

	for ((round = 1; round <= ROUNDS; round++)); do
		both configure exclusive n1
		race 1 "configurations agree"
		cut_wire
		race 1 "configurations agree, no network"
		# n2 heard before that n1 writes, which its own configuration does not take back.
		down_both
		peer configure exclusive n2
		race 1 "configurations do not agree, no network"
		# Neither has ever heard of the other: what is left is the file system's own protection.
		down_both
		both forget_heard
		race mmp "configurations do not agree, nobody was ever heard"
		down_both
		mend_wire
		race 0 "configurations do not agree"
	done
	say "$((5 * ROUNDS)) races: never two writers"
}

driver() {
	first_seal
	second_seal
	same_seal
	stale_blocks
	cut_off
	refusals
	races
	both configure exclusive n1
	down_both
	check kill -TERM $nvmed
	check wait $nvmed
	peer true end
}

need blockdev findmnt losetup mkfs.ext4 ip
need_module nvme_tcp loop
if [ "$GUEST" = 1 ]; then
	disk=$(losetup -f --show --sector-size 4096 /dev/lab/disk1)
	check mkfs.ext4 -q -F -b 4096 -O mmp "$disk"
	nvmet_up $NQN "$disk" $UUID
	nvmet_port 1 "$(wire_addr 1 1)" 4420
	nvmet_show 1 $NQN
fi
sync_point target
node_extra="nvme = { socket = \"$N/sock\"; }; mover = { transports = [ \"tcp\" ]; };"
mkdir -p $N
check node_guest $D
configure shared-read n1
nvmed_start $N
sync_point started
if [ "$GUEST" = 1 ]; then
	driver
else
	serve_orders
	check kill -TERM $nvmed
	wait $nvmed || true
fi
node_stop $D
