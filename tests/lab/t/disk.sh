# about: an emulated NVMe disk under xfs and ext4: O_DIRECT writes over io_uring, read back and verified
# guests: 1
# disks: 2 512M
#
# Goal:   stores can be put on disks that are disks: with a block size, O_DIRECT, flushes.
# Method: fio writes with a checksum in every block, drops nothing into the page cache (O_DIRECT),
#         reads all back.

verify() {
	local dir=$1

	check fio --name=verify --directory="$dir" --filename=data --ioengine=io_uring --direct=1 \
		--iodepth=8 --bs=1M --size=16M --rw=write --end_fsync=1 --do_verify=1 --verify=crc32c --verify_fatal=1 \
		--minimal --output="/tmp/fio.out"
	[ "$(stat -c %s "$dir/data")" = $((16 << 20)) ] || fail "the file in $dir is short"
}

need fio
fs=(xfs ext4)
for i in 1 2; do
	mkdisk "/dev/lab/disk$i" "${fs[i - 1]}" "/mnt/$i"
	verify "/mnt/$i"
	check umount "/mnt/$i"
	say "${fs[i - 1]}: written, read and verified"
done
