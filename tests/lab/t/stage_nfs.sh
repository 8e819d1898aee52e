# about: a dataset on NFS is staged by two nodes that both read parts of it; the server is away for 30 s; handles go stale
# guests: 3
# disks: 1 1G
# mem: 1G
# when: soak
#
# Goal:   a store that two nodes have from one NFS server (shared = "ID") is one source, of which both read. A server that is away for
#         30 s costs time and nothing else, and the daemons answer meanwhile. Handles that the server does not know any more are an error in
#         a line, nothing of it becomes READY, and what is mounted anew is staged again.
# Method: guest 1 is the kernel's NFS server, with a file system on a disk; 2 and 3 mount it over their wires and are nodes. What each has read
#         is counted by its daemon, and by the kernel's NFS client. Its wires are slow while it goes away, so that much is still to be read: bytes come
#         over NFS also after it is back. That each byte is read once is the simulator's: what takes over 20 s, as it may in emulation, is read again.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/orders.sh
. "$LAB_TOP/tests/lab/orders.sh"

DISK=/srv/disk
EXPORT=$DISK/store		# the store is not the top of what is exported, whose handle is the same in each file system
POINT=/srv/nfs
D=/run/node
CACHE=/srv/cache
AWAY_S=30
SLOW=40mbit		# of each of the server's wires: over both the set takes as long as the server is away
SET_MIB=256		# 16 extents, and no hole in them: NFS 4.2 tells of holes, and nobody reads those
trap 'cp -f $D/log /out/fmoved.$GUEST.log 2> /dev/null || true' EXIT

need diff mkfs.ext4 tc exportfs rpc.nfsd rpc.mountd mount.nfs4

# ---- the server: guest 1 ----

nfs_up() {
	need_module nfsd
	mkdir -p /var/lib/nfs/{v4recovery,rpc_pipefs}
	mountpoint -q /proc/fs/nfsd || check mount -t nfsd nfsd /proc/fs/nfsd
	: > /var/lib/nfs/etab
	# What clients had open may be claimed again for so long; the default is 90 s.
	echo 10 > /proc/fs/nfsd/nfsv4leasetime
	echo 10 > /proc/fs/nfsd/nfsv4gracetime
	check rpc.mountd --no-nfs-version 3
	exported
	threads 8
}

exported() {
	check exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=0 "10.77.0.0/16:$DISK"
}

# threads N: of the server; 0: it is away.
threads() {
	check rpc.nfsd --no-nfs-version 3 --no-udp "$1"
}

wires_slow() {
	need_module sch_tbf
	for i in 0 1; do
		check tc qdisc add dev "wire$i" root tbf rate $SLOW burst 256kb latency 200ms
	done
}

wires_fast() {
	for i in 0 1; do
		check tc qdisc del dev "wire$i" root
	done
}

# new_set NAME: fifty files, and a large one.
new_set() {
	local i

	mkdir -p "$EXPORT/$1/d"
	for i in {1..50}; do
		head -c 3000 /dev/urandom > "$EXPORT/$1/d/f$i"
	done
	head -c 1M /dev/urandom > $DISK/some
	for ((i = 0; i < SET_MIB; i++)); do
		printf '%-16s' "$1 $i"		# no MiB is another one's
		tail -c +17 $DISK/some
	done > "$EXPORT/$1/large"
	sync
}

# ---- the nodes: guests 2 and 3 ----

# The wire between the server and this guest is a network of its own.
mounted() {
	need_module nfsv4
	mkdir -p $POINT
	check mount -t nfs4 -o vers=4.2,hard,actimeo=1,proto=tcp "$(wire_addr "$(wire_to 1)" 1):/" $POINT
}

node_up() {
	local other=$((5 - GUEST))

	mkdisk /dev/lab/disk1 ext4 $CACHE
	node_key $D
	cp $D/pub "/out/pub.$GUEST"
	sync_point keys
	node_stores="{ name = \"v\"; directory = \"$POINT/store\"; shared = \"nfs1\"; }," node_conf $D "n$GUEST" "[::]:7471" \
		"$(node_peer "n$other" "$(wire_addr 2 $other):7471" "/out/pub.$other")" <<-C
	memory = { arena = "160MiB"; slab = "4MiB"; total = "400MiB"; };
	staging = { directory = "$CACHE/fmove"; size = "900MiB"; grace = "0s"; peers = [ "*" ]; };
	C
	node_start $D
	node_wait $D tcp 1 1
}

fmove() {
	"$FMOVE_BIN/fmove" --socket $D/sock "$@"
}

read_of() {
	fmove datasets --json | json source_bytes
}

# What the kernel's client has got from the server, in bytes.
nfs_bytes() {
	awk '$1 == "bytes:" { print $6 + $7 }' /proc/self/mountstats
}

# Begins in the background; staged waits for it.
stage_begins() {
	fmove stage --nodes all "v/$1" -- true > /out/staged 2> /out/err &
	stager=$!
}

stage_goes_on() {
	kill -0 "$stager"
}

outcome() {
	wait "$stager"
}

# ended STATUS: as the last one that began must.
ended() {
	local status=0

	wait "$stager" || status=$?
	cat /out/staged /out/err
	[ $status = "$1" ] || fail "stage ended with $status, and not $1"
}

has_read_more() {
	(($(read_of) > $1))
}

# is_copy NAME: the only one of that name here, compared with what the server has.
is_copy() {
	local copy

	copy=$(echo $CACHE/fmove/ready/*/"$1")
	check diff -r "$POINT/store/$1" "$copy"
}

has_none() {
	! compgen -G "$CACHE/fmove/ready/*/$1"
}

unstaged() {
	fmove unstage "$1"
}

# What a full directory, a daemon that hangs or a mount that is gone would not do.
serves() {
	check fmove status
	check fmove datasets
}

mount_again() {
	node_stop $D
	check umount -l $POINT
	mounted
	node_start $D
	node_wait $D tcp 1 1
}

# ---- what guest 1 does to them ----

# sum_of FUNCTION: what it says at both nodes; each is set in part[2], part[3].
sum_of() {
	local g

	sum=0
	for g in 2 3; do
		tell $g "$1"
		part[g]=$(tail -n 1 /out/said.$g)
		sum=$((sum + part[g]))
	done
}

both() {
	local g

	for g in 2 3; do
		tell $g "$@" || fail "guest $g: $*: $(cat /out/said.$g)"
	done
}

reads_parts() {
	local bytes=$((SET_MIB * 1024 * 1024)) bytes2 bytes3

	new_set first
	sum_of nfs_bytes
	bytes2=${part[2]} bytes3=${part[3]}
	tell 2 stage_begins first
	tell 2 ended 0 || fail "$(cat /out/said.2)"
	sum_of nfs_bytes
	say "over NFS came $((part[2] - bytes2)) and $((part[3] - bytes3)) bytes of $bytes"
	sum_of read_of
	say "nodes read ${part[2]} and ${part[3]}"
	((part[2] > 0 && part[3] > 0)) || fail "not both read: ${part[2]} ${part[3]}"
	((sum >= bytes)) || fail "$sum bytes were read of $bytes"
	both is_copy first
	both wait_for unstaged first
}

# The server goes away when something was read, and much is not.
goes_away() {
	local before came

	new_set away
	tell 2 read_of
	before=$(tail -n 1 /out/said.2)
	wires_slow
	tell 2 stage_begins away
	tell 2 wait_for has_read_more "$before"
	threads 0
	say "the server is away"
	pause $AWAY_S
	both serves
	tell 2 stage_goes_on || fail "it ended: $(cat /out/staged /out/err)"
	both has_none away
	sum_of nfs_bytes
	came=$sum
	threads 8
	wires_fast
	say "it is back"
	tell 2 ended 0 || fail "$(cat /out/said.2)"
	sum_of nfs_bytes
	say "over NFS came $((sum - came)) bytes after it was back, of $((SET_MIB << 20))"
	((sum > came)) || fail "all had been read before the server went away"
	both is_copy away
	both wait_for unstaged away
}

# Another file system is there under the same name: no handle of before is known. Whether a daemon notices and finds the new one, or says
# what is wrong, nothing of before is taken for it.
goes_stale() {
	local status=0

	new_set renewed
	both ls $POINT/store/renewed
	threads 0
	check exportfs -ua
	check umount $DISK
	mkdisk /dev/lab/disk1 ext4 $DISK
	mkdir $EXPORT
	exported
	threads 8
	new_set renewed
	tell 2 stage_begins renewed
	tell 2 outcome || status=$?
	say "stale handles: status $status: $(tail -n 1 /out/err)"
	if [ $status = 0 ]; then
		both is_copy renewed
		both wait_for unstaged renewed
	else
		grep -q 'the file system was unmounted or changed under the store' /out/err || fail "the line does not say it: $(cat /out/err)"
		both has_none renewed
	fi
	both serves
	both mount_again
	tell 2 stage_begins renewed
	tell 2 ended 0 || fail "mounted again: $(cat /out/said.2)"
	both is_copy renewed
}

if [ "$GUEST" != 1 ]; then
	sync_point exported
	mounted
	node_up
	sync_point ready
	serve_orders
	node_stop $D
	umount -l $POINT
	sync_point left
	exit 0
fi
mkdisk /dev/lab/disk1 ext4 $DISK
mkdir $EXPORT
nfs_up
sync_point exported
sync_point keys
sync_point ready
reads_parts
goes_away
goes_stale
for g in 2 3; do
	tell $g true end
done
sync_point left		# who still has it mounted would wait for the server
threads 0
