# about: reservations on a device that has them: taken, found again after a crash, refused to another host, given back; shut down
# guests: 1
# disks: 1 320M
# when: soak
#
# Goal:   the writer's host alone can write as long as it has the device reserved; another host is refused with one line and changes
#         nothing; the same host finds its own again; what is given back anybody may have. What is mounted writes nothing more
#         once another host has had the device beside it. A device without reservations is none the worse.
# Method: the kernel's SCSI target (LIO) with one disk behind two loopback ports: two hosts, as far as the target knows. The calls are
#         those of the volume supervisor's helper processes, through the interface that NVMe has too. NVMe itself: nvme_protect.sh.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"

LIO=/sys/kernel/config/target
POINT=/run/volume
HOST1=11111111-2222-3333-4444-555555555555
HOST2=99999999-2222-3333-4444-555555555555
EBADE=-52 EBUSY=-16 EINVAL=-22

need dd findmnt mkfs.ext4 mkfs.xfs losetup sha256sum
[ -x "$FMOVE_BIN/nvme_helper" ] || fail "no nvme_helper in $FMOVE_BIN: build lab-programs"

# --- the target -----------------------------------------------------------------------------------

# port N: sets disk, which one host sees there.
port() {
	local tpg=$LIO/loopback/naa.500140500000000$1/tpgt_1 at

	check mkdir -p "$tpg/lun/lun_0"
	echo "naa.600140500000000$1" > "$tpg/nexus"
	check ln -s $LIO/core/iblock_0/disk "$tpg/lun/lun_0/disk"
	at=/sys/bus/scsi/devices/$(cat "$tpg/address"):0/block
	wait_for test -d "$at"
	disk=$(ls "$at")
}

target_up() {
	mkdir -p /var/target/pr /var/target/alua	# where it keeps reservations over its own crash
	need_module configfs sd_mod target_core_mod target_core_iblock tcm_loop
	mountpoint -q /sys/kernel/config || check mount -t configfs none /sys/kernel/config
	check mkdir -p $LIO/core/iblock_0/disk
	echo "udev_path=$(realpath /dev/lab/disk1)" > $LIO/core/iblock_0/disk/control
	echo lab > $LIO/core/iblock_0/disk/wwn/vpd_unit_serial
	echo 1 > $LIO/core/iblock_0/disk/enable
	port 1
	disk1=$disk
	port 2
	disk2=$disk
}

# What the target says itself.
holder() {
	cat $LIO/core/iblock_0/disk/pr/res_holder $LIO/core/iblock_0/disk/pr/res_pr_type
}

registered() {
	cat $LIO/core/iblock_0/disk/pr/res_pr_registered_i_pts
}

# --- what a host does -----------------------------------------------------------------------------

# ask JSON: sets reply.
ask() {
	reply=$("$FMOVE_BIN/nvme_helper" "$1") || true
	echo "$1 -> $reply"
}

value() {
	json "$1" <<< "$reply"
}

# call CALL DISK MORE
call() {
	ask "{\"call\":\"$1\",\"device\":\"/dev/$2\",\"rdev\":[$(tr ':' ',' < "/sys/block/$2/dev")],\"point\":\"$POINT\",$3}"
}

# reserve DISK HOST CODE
reserve() {
	call prepare "$1" "\"target\":{\"reserve_as\":\"$2\"}"
	[ "$(value code)" = "$3" ] || fail "reserve $1 as $2: $reply"
}

# release DISK HOST [MORE]
release() {
	call unmount "$1" "\"release_as\":\"$2\"${3:-}"
	[ "$(value code)" = 0 ] || fail "release $1 as $2: $reply"
}

can_write() {
	dd if=/dev/zero of="/dev/$1" bs=4096 seek=$((60 * 256)) count=1 oflag=direct status=none
}

can_read() {
	dd if="/dev/$1" of=/dev/null bs=4096 count=16 iflag=direct status=none
}

# --- what is shown --------------------------------------------------------------------------------

taken() {
	check can_write $disk1
	check can_write $disk2
	reserve $disk1 $HOST1 0
	[ "$(value reserved)" = true ] || fail "not reserved: $reply"
	grep -q "naa.6001405000000001" <<< "$(holder)" || fail "the target says: $(holder)"
	grep -q "Write Exclusive Access$" <<< "$(holder)" || fail "the target says: $(holder)"
	# The key is the beginning of the host's id.
	grep -q 0x1111111122223333 <<< "$(registered)" || fail "the target knows: $(registered)"
	check can_write $disk1
	check_not can_write $disk2
	check can_read $disk2
}

# Every helper process is another one, as after a crash.
found_again() {
	reserve $disk1 $HOST1 0
	[ "$(value reserved)" = true ] || fail "not found again: $reply"
	# Under another id than before: its own all the same.
	reserve $disk1 $HOST2 0
	reserve $disk1 $HOST1 0
	check can_write $disk1
	check_not can_write $disk2
}

refused() {
	reserve $disk2 $HOST2 $EBADE
	say "refused: $(value text)"
	value text | grep -q "reserved for another host: unmount it there" || fail "not said what to do: $reply"
	grep -q 0x9999 <<< "$(registered)" && fail "the host that was refused stays known: $(registered)"
	grep -q "naa.6001405000000001" <<< "$(holder)" || fail "the target says: $(holder)"
	release $disk2 $HOST2		# what it does not have
	[ -z "$(value still_reserved)" ] || fail "$reply"
	check_not can_write $disk2
	check can_write $disk1
}

# As the supervisor does: prepared, mounted, unmounted; in use it stays reserved.
mounted() {
	check mkfs.ext4 -q -F /dev/$disk1 48M
	reserve $disk1 $HOST1 0
	call mount $disk1 '"type":"ext4","options":"rw"'
	[ "$(value code)" = 0 ] || fail "mount: $reply"
	echo hello > $POINT/hello
	check_not can_write $disk2
	check mkdir /run/other
	check mount /dev/$disk1 /run/other
	release $disk1 $HOST1
	[ "$(value still_reserved)" ] || fail "released while it is mounted elsewhere: $reply"
	check_not can_write $disk2
	check umount /run/other
	release $disk1 $HOST1
	[ -z "$(value still_reserved)" ] || fail "$reply"
}

# sums: of what is on the disk, its first MiB and the rest, but for the superblock: ext4 writes its
# errors and its end into that, shut down or not.
sums() {
	dd if="/dev/$disk2" iflag=direct bs=4096 skip=1 count=255 status=none | sha256sum | cut -c 1-8
	dd if="/dev/$disk2" iflag=direct bs=1M skip=1 status=none | sha256sum | cut -c 1-8
}

# By who has the file open.
writes_on() {
	head -c 64K /dev/zero >&7 && sync "$POINT"
}

# The other host reserves it beside a mount here that has a file open and more to write, writes,
# and leaves: from then on the target refuses this one nothing.
shut_down() {
	local kind=$1 now after

	check mkfs.$kind -q "$2" /dev/$disk2
	reserve $disk1 $HOST1 0		# reads it afresh
	release $disk1 $HOST1
	call mount $disk1 "\"type\":\"$kind\",\"options\":\"rw\""
	[ "$(value code)" = 0 ] || fail "mount: $reply"
	exec 7> $POINT/file
	echo begun >&7
	check sync $POINT/file
	POINT=/run/other reserve $disk2 $HOST2 0
	ask "{\"call\":\"keep\",\"device\":\"/dev/$disk1\",\"rdev\":[$(tr ':' ',' < /sys/block/$disk1/dev)],\"target\":{\"reserve_as\":\"$HOST1\"}}"
	[ "$(value code)" = $EBADE ] || fail "kept beside another host: $reply"
	head -c 1M /dev/urandom >&7
	call unmount $disk1 '"shutdown":true'
	[ "$(value code) $(value shut_down)" = "$EBUSY true" ] || fail "not shut down: $reply"
	check can_write $disk2
	POINT=/run/other release $disk2 $HOST2
	grep -qi "no spc-3 reservation holder" <<< "$(holder)" || fail "the target says: $(holder)"
	now=$(sums)
	check_not writes_on
	pause 6		# longer than ext4 leaves what is dirty in its log
	after=$(sums)
	[ "$after" = "$now" ] || fail "$kind: something was written after another host: was $now, is $after"
	exec 7>&-
	call unmount $disk1 '"shutdown":true'
	[ "$(value code)" = 0 ] || fail "unmount: $reply"
	say "$kind: shut down beside another host, and nothing is written when that has left"
}

given_back() {
	grep -qi "no spc-3 reservation holder" <<< "$(holder)" || fail "the target says: $(holder)"
	grep -q 0x <<< "$(registered)" && fail "the target still knows: $(registered)"
	check can_write $disk1
	check can_write $disk2
	reserve $disk2 $HOST2 0
	[ "$(value reserved)" = true ] || fail "not reserved: $reply"
	check_not can_write $disk1
	reserve $disk1 $HOST1 $EBADE
	release $disk2 $HOST2
	check can_write $disk1
}

# A disk without any: mounted as ever, and not said to be reserved.
without() {
	local loop

	need_module loop
	head -c 32M /dev/zero > /tmp/disk
	loop=$(basename "$(losetup -f --show /tmp/disk)")
	reserve "$loop" $HOST1 0
	[ "$(value reserved)" = false ] || fail "reserved: $reply"
	call prepare "$loop" '"read_only_device":true,"target":{"write_protect":true}'
	[ "$(value code) $(value write_protected)" = "0 false" ] || fail "write protected: $reply"
	call prepare "$loop" '"read_only_device":false,"target":{"write_protect":false}'
	[ "$(value code)" = 0 ] || fail "$reply"
	release "$loop" $HOST1
	reserve "$loop" nonsense $EINVAL
	check mount -t tmpfs none $POINT
	reserve "$loop" $HOST1 $EBUSY
	check umount $POINT
}

mkdir -p $POINT
target_up
say "two hosts: $disk1, $disk2"
taken
found_again
refused
mounted
given_back
shut_down ext4 -F
shut_down xfs -f
without
