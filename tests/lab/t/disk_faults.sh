# about: disks full, over quota, broken, hanging, read-only in the midst of a put: an error that names it, or completion; bit rot is found
# guests: 1
# disks: 3 512M
#
# Goal:   whatever the disk does, the name at the destination holds the old version or the new; the command says what was wrong in a line, or
#         completes; both daemons stay up and answer; once the disk is well again the same command completes.
# Method: source and destination lie on device-mapper devices whose tables are swapped while a put is under way; the journal of the
#         destination's file system lies on a disk of its own, so that an error can hit the data alone. LAB_ROUNDS: how often all cases
#         run, under both file systems and with a hang of 30 s.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/fault/expect.sh
. "$LAB_TOP/tests/fault/expect.sh"

DISK_HANG_S=$([ -n "$LAB_ROUNDS" ] && echo 30 || echo 12)
MIB=2
D=/run/disk_faults
cases=0

fmn() {
	"$FMOVE_BIN/fmove" --socket $D/n1/sock "$@"
}

# --- disks ---------------------------------------------------------------------------------------

linear() {
	echo "0 $(blockdev --getsz "$1") linear $1 0"
}

# Every write, or every read, ends with EIO; the other kind works.
broken() {
	echo "0 $(blockdev --getsz "$1") flakey $1 0 0 3600 1 error_$2"
}

make_dest() {
	local journal=/dev/lab/disk3

	dm_up dest "$(linear /dev/lab/disk1)"
	mkdir -p /mnt/dest
	case $1 in
	ext4)	check mke2fs -q -F -b 4096 -O journal_dev $journal
		check mkfs.ext4 -q -F -m 0 -b 4096 -J device=$journal /dev/mapper/dest
		mount_options=errors=remount-ro ;;
	xfs)	check mkfs.xfs -q -f -l logdev=$journal /dev/mapper/dest
		mount_options=logdev=$journal,gquota ;;
	esac
	fs=$1
	mount_dest
	mkdir /mnt/dest/s /mnt/dest/b
}

mount_dest() {
	check mount -t $fs -o $mount_options /dev/mapper/dest /mnt/dest
}

make_source() {
	dm_up source "$(linear /dev/lab/disk2)"
	mkdisk /dev/mapper/source ext4 /mnt/source
	make_version old
	make_version new
	sync -f /mnt/source
	mkdir /mnt/source/get
}

make_version() {
	head -c $(((MIB << 20) + 13)) /dev/urandom > /mnt/source/$1
}

# Only a new mount helps once a file system has shut itself down, and only who is ended lets go of the old one.
mount_again() {
	node_stop $D/n1
	node_stop $D/n2
	check umount /mnt/dest
	mend_dest
	[ $fs = xfs ] || e2fsck -p /dev/mapper/dest > /dev/null || true
	mount_dest
	check node_start $D/n1
	check node_start $D/n2
}

# --- a put in whose midst something happens ------------------------------------------------------

# fault NAME PATTERN must|may BREAK MEND: BREAK while a put is under way, which must (or may) fail and say PATTERN; MEND, and all is well. A machine
# that is slow enough has the put done before BREAK is: that shows nothing, so it is tried again with a slower one.
fault() {
	local pattern=$2 must=$3 broke=$4 mend=$5 rate

	where="$fs, $1"
	cases=$((cases + 1))
	for rate in 768 256 75; do
		begin $rate
		$broke
		ended "$pattern"
		$mend
		still_up
		if [ $status = 0 ]; then
			is_new
		else
			is_old_or_new
		fi
		again
		if [ $status != 0 ] || [ "$must" = may ]; then
			return
		fi
	done
	fail "$where: it never failed"
}

# In the midst of it when this returns, or ended.
begin() {
	echo "--- $where"
	fmn put --force --quiet --limit "$1KiB/s" /mnt/source/new n2:d/x > $D/out 2> $D/err &
	pid=$!
	wait_for is_under_way
}

is_under_way() {
	! kill -0 $pid 2>/dev/null || node_status $D/n1 | grep -q '"state":"copying","size":[^,]*,"bytes":[1-9]'
}

# Sets `status`. It says PATTERN, or it is done.
ended() {
	local end=$((SECONDS + HANG_S))

	while kill -0 $pid 2>/dev/null; do
		((SECONDS < end)) || fail "$where: no end within $HANG_S s"
		pause 0.1
	done
	status=0
	wait $pid || status=$?
	say "$where: status $status $(cat $D/err)"
	[ $status != 0 ] || return 0
	[ "$(wc -l < $D/err)" = 1 ] || fail "$where: not one line"
	grep -qE "$1" $D/err || fail "$where: no \"$1\" in it"
	((status <= 6)) || fail "$where: status $status"
}

still_up() {
	local i

	for i in 1 2; do
		kill -0 "$(cat $D/n$i/pid)" 2>/dev/null || fail "$where: the daemon of n$i is gone: $(tail -n 5 $D/n$i/log)"
		timeout $HANG_S "$FMOVE_BIN/fmove" --socket $D/n$i/sock status > /dev/null || fail "$where: n$i does not answer"
	done
}

is_new() {
	cmp -s /mnt/source/new /mnt/dest/s/x || fail "$where: what is there is not the new version"
}

is_old_or_new() {
	cmp -s /mnt/source/old /mnt/dest/s/x || cmp -s /mnt/source/new /mnt/dest/s/x ||
		fail "$where: what is there is neither the old version nor the new"
}

# All is well again: the same command completes. The old version is put back for the next case.
again() {
	check node_wait $D/n1 tcp 1 1
	fmn put --force --quiet --timeout ${HANG_S}s /mnt/source/new n2:d/x || fail "$where: run again"
	is_new
	wait_for no_partial /mnt/dest/s
	fmn put --force --quiet --timeout ${HANG_S}s /mnt/source/old n2:d/x || fail "$where: the old version again"
}

# --- the cases -----------------------------------------------------------------------------------

free_bytes() {
	df -B1 --output=avail /mnt/dest | tail -n 1
}

has_filled() {
	fallocate -l "$(($(free_bytes) - $1))" /mnt/dest/filler || ! rm -f /mnt/dest/filler
}

# All but $1 bytes. What was sent may still be arriving, and takes space between the question and the filler.
fill_disk() {
	wait_for has_filled "$1"
}

empty_disk() {
	rm /mnt/dest/filler
}

# What is allocated in advance has its space; a stream has not, and waits here until the disk is full.
no_space() {
	where="$fs, no space left in the midst"
	cases=$((cases + 1))
	rm -f $D/go
	{
		cat /mnt/source/new
		wait_for test -e $D/go
		cat /mnt/source/new
	} | fmn put --force --quiet - n2:d/x > $D/out 2> $D/err &
	pid=$!
	wait_for is_under_way
	fill_disk $((1 << 19))
	: > $D/go
	ended "[Nn]o space"
	[ $status != 0 ] || fail "$where: it did not fail"
	empty_disk
	still_up
	is_old_or_new
	again
}

no_space_at_all() {
	fill_disk $(((MIB << 20) / 8 * 3))
	fault "no space from the beginning" "[Nn]o space" must true empty_disk
}

# The group of a set-gid directory is that of all files in it; who has no room for two versions cannot replace one.
over_quota() {
	[ $fs = xfs ] || return 0
	chgrp 5000 /mnt/dest/s
	chmod g+s /mnt/dest/s
	rm /mnt/dest/s/x
	set_quota $((MIB / 2 * 3))m
	fmn put --quiet /mnt/source/old n2:d/x || fail "the old version, within the quota"
	fault "over quota" "quota" must true "set_quota 0"
}

set_quota() {
	check xfs_quota -x -c "limit -g bhard=$1 5000" /mnt/dest
}

# The error may hit the journal too: then the file system shuts itself down.
write_errors() {
	fault "write errors" "Input/output error|Read-only|shut ?down|Structure needs cleaning" must break_writes mount_again
}

break_writes() {
	dm_swap dest "$(broken /dev/lab/disk1 writes)"
}

mend_dest() {
	dm_swap dest "$(linear /dev/lab/disk1)"
}

read_errors() {
	fault "read errors" "/mnt/source/new.*Input/output error" must break_reads mend_source
}

break_reads() {
	echo 3 > /proc/sys/vm/drop_caches
	dm_swap source "$(broken /dev/lab/disk2 reads)"
}

mend_source() {
	dm_swap source "$(linear /dev/lab/disk2)"
}

# The file system shuts itself down.
dead_disk() {
	fault "the disk dies" "Input/output error|Read-only|shut ?down|Structure needs cleaning" must break_disk mount_again
}

break_disk() {
	dm_swap dest "0 $(blockdev --getsz /dev/lab/disk1) error"
}

# What ext4 does with itself at the first inconsistency it sees.
read_only() {
	[ $fs = ext4 ] || return 0
	fault "read-only in the midst" "Read-only|Input/output error" must break_ext4 mount_again
}

break_ext4() {
	echo 1 > "/sys/fs/ext4/dm-$(dmsetup info -c --noheadings -o minor dest)/trigger_fs_error"
}

# Writes wait in the page cache, and the sync says that they failed: once. After that nothing of the file counts, so the put that comes
# next, when the disk is well, sends all of it.
failed_sync() {
	lose_sync /mnt/source/new y
}

# XFS ends everything when it is its log that could not be written, which is chance: until the disk is mended it may want to at any moment.
is_shut_down() {
	! ls /mnt/dest > /dev/null 2>&1
}

# A machine that is slow enough has the put done before the disk breaks, as in fault() above. Where the file system ended everything it is a write
# that failed, mostly, after which what came may stay for the next put: another try. On XFS that may come each time.
lose_sync() {
	local rate was_shut_down

	where="$fs, a sync that fails once, of $1"
	cases=$((cases + 1))
	for rate in 256 75 25; do
		echo "--- $where"
		fmn put -r --replace --quiet --limit ${rate}KiB/s "$1" n2:b/$2 > $D/out 2> $D/err &
		pid=$!
		wait_for is_under_way
		break_writes
		ended "[Ii]nput/output error"
		mend_dest
		was_shut_down=''
		! is_shut_down || { was_shut_down=y && mount_again; }
		still_up
		if [ -z "$was_shut_down" ]; then
			wait_for no_partial /mnt/dest/b 2> /dev/null
			[ $status = 0 ] || break
		fi
		[ $status = 0 ] || put_lost "$1" $2
		arrived "$1" $2
		rm -r /mnt/dest/b/$2
	done
	[ -z "$was_shut_down" ] || return 0
	[ $status != 0 ] || fail "$where: it did not fail"
	put_lost "$1" $2
	! grep -qE '"resumed_bytes": ?[1-9]' $D/out || fail "$where: it went on with what the sync lost: $(cat $D/out)"
	arrived "$1" $2
}

put_lost() {
	check node_wait $D/n1 tcp 1 1
	fmn put -r --replace --quiet --json "$1" n2:b/$2 > $D/out || fail "$where: run again: $(cat $D/out)"
}

# It is on the disk, not only in memory.
arrived() {
	echo 3 > /proc/sys/vm/drop_caches
	diff -r "$1" /mnt/dest/b/$2 || fail "$where: what is there is not what was sent"
}

# Whoever syncs first hears that writing failed, and nobody after him: a group whose members were in the page cache then is not committed, though all its names
# are there. Only their bytes are written while the disk is broken.
lost_group() {
	local id try

	where="$fs, a group whose writing failed, of which somebody else was told"
	cases=$((cases + 1))
	echo "--- $where"
	id=$(fmn group begin --members 1 n2:b/g) || fail "$where: no group"
	check fmn put --quiet --durability memory --group "$id" /mnt/source/new n2:b/g/m
	break_writes
	xfs_io -r -c "sync_range -b -w 0 0" -c "sync_range -a 0 0" /mnt/dest/b/.fmove.*.group/members/m > $D/out 2>&1 || true
	mend_dest
	! sync -f /mnt/dest/b 2> $D/err || fail "$where: nobody is told"
	check sync -f /mnt/dest/b
	for try in 1 2; do
		! fmn group commit "$id" n2:b/g > $D/out 2> $D/err || fail "$where: it is committed"
		grep -q "discard the group" $D/err || fail "$where: $(cat $D/err)"
		[ ! -e /mnt/dest/b/g ] || fail "$where: it has its name"
	done
	check fmn group discard "$id" n2:b/g
	still_up
}

# The disk stops answering for longer than a peer may be silent: a slow disk is no lost peer, and nobody else waits for it.
hangs() {
	fault "a disk that hangs for $DISK_HANG_S s" "." may hang_dest true
}

hang_dest() {
	local resumer

	check dmsetup suspend --noudevsync --noflush --nolockfs dest
	(sleep $DISK_HANG_S; dmsetup resume --noudevsync dest) &
	resumer=$!
	still_up
	fmn put --force --quiet --timeout ${HANG_S}s /mnt/source/old n2:s/other || fail "$where: a put to another disk"
	check cmp /mnt/source/old $D/n2/s/other
	wait $resumer
}

# What changes on the disk itself, without a word from the kernel, and what cannot be read any more: fmove verify finds both and says where,
# and running the put again mends it.
bit_rot() {
	where="$fs, a bit flipped on the disk"
	cases=$((cases + 1))
	check fmn verify --quiet n2:d/x
	flip_on_disk /mnt/dest/s/x $((5 << 18))
	echo 3 > /proc/sys/vm/drop_caches
	verify_finds corrupt
	dm_swap dest "$(broken /dev/lab/disk1 reads)"
	verify_finds unreadable
	mend_dest
	again
	check fmn verify --quiet n2:d/x
}

# One bit of the file's byte, below the file system.
flip_on_disk() {
	local file=$1 block=$(($2 / 4096)) on_disk

	on_disk=$(filefrag -b4096 -e "$file" | sed 's/[.:]/ /g' |
		awk -v b=$block '$1 ~ /^[0-9]+$/ && $2 <= b && b <= $3 { print $4 + b - $2 }')
	[ -n "$on_disk" ] || fail "$where: filefrag does not say where $file is"
	dd if=/dev/lab/disk1 of=$D/block bs=4096 count=1 skip="$on_disk" iflag=direct status=none
	printf "\\$(printf %o $(($(od -An -tu1 -N 1 $D/block) ^ 4)))" | dd of=$D/block bs=1 conv=notrunc status=none
	dd if=$D/block of=/dev/lab/disk1 bs=4096 count=1 seek="$on_disk" oflag=direct conv=notrunc status=none
}

verify_finds() {
	local status=0

	fmn verify n2:d/x > $D/out 2> $D/err || status=$?
	say "$where: $(tr '\n' ' ' < $D/out)"
	[ $status = 5 ] || fail "$where: verify ended with $status: $(cat $D/err)"
	grep -q "^$1: x at byte [0-9]" $D/out || fail "$where: not found to be $1"
	still_up
}

# One time each: with few, both file systems share them.
all_cases() {
	local case

	make_dest "$1"
	shift
	check node_pair $D 7470
	check node_wait $D/n1 tcp 1 1
	fmn put --quiet /mnt/source/old n2:d/x || fail "the first put"
	for case in "$@"; do
		$case
	done
	node_stop $D/n1
	node_stop $D/n2
	check umount /mnt/dest
	dm_down dest
}

need blockdev xfs_quota xfs_io mke2fs filefrag
need_module dm_flakey
make_source
node_extra='memory = { arena = "8MiB"; slab = "2MiB"; total = "128MiB"; }; mover = { chunk = "128KiB"; };'
node_stores='{ name = "d"; directory = "/mnt/dest/s"; replace = true; },
	{ name = "b"; directory = "/mnt/dest/b"; replace = true; buffered = true; },'
mkdir -p /mnt/dest/s /mnt/dest/b
if [ -z "$LAB_ROUNDS" ]; then
	all_cases ext4 bit_rot no_space write_errors read_errors read_only
	all_cases xfs no_space_at_all over_quota failed_sync lost_group dead_disk hangs
else
	for ((round = 1; round <= LAB_ROUNDS; round++)); do
		for fs in ext4 xfs; do
			all_cases $fs bit_rot no_space no_space_at_all over_quota failed_sync lost_group write_errors read_errors hangs read_only dead_disk
		done
	done
fi
say "$cases cases: all whole, all completed once the disk was well"
