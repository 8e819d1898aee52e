# about: durable puts and gets between NVMe disks under xfs and ext4: O_DIRECT, and whole after a crash right behind `done`
# guests: 1
# disks: 2 1G
#
# Goal:   with disks under both ends the page cache is out of the way, and what put called durable is there after the machine stopped dead.
# Method: two nodes over RDMA; files go from one file system to the other and back. fincore tells what of the target is in the page
#         cache. Right after a put the file system is shut down without a flush of its log, mounted again, and read; a file that
#         nobody synced must be lost the same way, or the test would prove nothing.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"

SIZE=$(((2 << 20) + 13))		# more than two slabs
D=/run/disk_put

fmn() {
	"$FMOVE_BIN/fmove" --socket $D/n1/sock "$@"
}

# The tail that is no whole block may go through the cache.
is_not_cached() {
	local cached

	cached=$(fincore -b -n -o RES "$1")
	((${cached:-0} <= 65536)) || fail "$cached bytes of $1 are in the page cache: that was not O_DIRECT"
}

said_well() {
	local result=$1

	[ "$(json transport <<< "$result")" = rdma ] || fail "not over RDMA: $result"
	[ "$(json durable <<< "$result")" = true ] || fail "not durable: $result"
	[ -z "$(json note <<< "$result")" ] || fail "there is something to note: $result"
}

# From file system $1 to store $2 at n2, whose file system is mounted at $3, and back.
over_and_back() {
	local from=$1 store=$2 to=$3 result

	rm -f "$from/src" "$to/store/blob" "$from/back"
	head -c $SIZE /dev/urandom > "$from/src"
	sync "$from/src"
	echo 1 > /proc/sys/vm/drop_caches
	rxe_mark rxe0
	result=$(fmn put --quiet --json "$from/src" "n2:$store/blob") || fail "put: $result"
	said_well "$result"
	is_not_cached "$to/store/blob"
	result=$(fmn get --quiet --json "n2:$store/blob" "$from/back") || fail "get: $result"
	said_well "$result"
	is_not_cached "$from/back"
	rxe_moved rxe0 $((2 * SIZE))
	check cmp "$from/src" "$to/store/blob"
	check cmp "$from/src" "$from/back"
}

# The file system at $1, disk $2: put into store $3 and stop dead, both daemons as well.
crash_after_put() {
	local mount=$1 disk=$2 store=$3 source=$4

	check fmn put --quiet --durability disk "$source" "n2:$store/dir/crash"
	dd if="$source" of="$mount/store/unsynced" bs=1M count=1 status=none
	check xfs_io -x -c shutdown "$mount"
	for i in 1 2; do
		kill -KILL "$(cat $D/n$i/pid)"
		wait "$(cat $D/n$i/pid)" || true
	done
	check umount "$mount"
	check mount "$disk" "$mount"
	check cmp "$source" "$mount/store/dir/crash"
	! cmp -n 1048576 "$source" "$mount/store/unsynced" 2>/dev/null || fail "the crash was none: what nobody synced is there too"
	# The removal of the journal is not synced: one that comes back without its partial file is harmless, and swept some day.
	[ -z "$(find "$mount/store" -name '.fmove*' ! -name '.fmove.*.journal' ! -name '.fmove.*.manifest')" ] || fail "a partial file was left in $mount"
}

need fincore xfs_io
rxe_up rxe0 lab0 10.1.1.1/24
mkdisk /dev/lab/disk1 xfs /mnt/1
mkdisk /dev/lab/disk2 ext4 /mnt/2
mkdir /mnt/1/store /mnt/2/store
node_listen='[::]' node_extra='memory = { arena = "8MiB"; slab = "1MiB"; total = "256MiB"; }; mover = { chunk = "64KiB"; };'
node_stores='{ name = "xfs"; directory = "/mnt/1/store"; }, { name = "ext4"; directory = "/mnt/2/store"; },'

start() {
	check node_pair $D 7470
	check node_wait $D/n1 rdma 1 2
}

start
check over_and_back /mnt/2 xfs /mnt/1
check over_and_back /mnt/1 ext4 /mnt/2
say "xfs to ext4 and back: O_DIRECT, durable, whole"
head -c $SIZE /dev/urandom > $D/random
check crash_after_put /mnt/1 /dev/lab/disk1 xfs $D/random
start
check crash_after_put /mnt/2 /dev/lab/disk2 ext4 $D/random
say "stopped dead right after a durable put: the file is there, under both"
