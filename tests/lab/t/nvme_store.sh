# about: a store on a volume is there while it is mounted, lets it be sealed and unsealed, and its seal is what staging goes by
# guests: 1
# disks: 1 512M
#
# Goal:   fmoved's store on a volume keeps fmove-nvmed from nothing: it seals, unseals and takes down a volume that the store is on. What was
#         written to it is staged from the seal, and not looked at again; the next seal has what was written meanwhile.
# Method: target, initiator and both daemons in one kernel. Mounts are the kernel's word; that nothing was looked at is the answer's, and
#         what was read of the disk.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/nvmet.sh
. "$LAB_TOP/tests/lab/nvmet.sh"

NQN=nqn.2026-01.org.fmove:store
UUID=aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee
ADDR=127.0.0.2
N=/run/nvmed
D=/run/node
POINT=/run/volume
VOLUME="name = \"data\"; subsystem = \"$NQN\"; address = \"$ADDR:4420\"; uuid = \"$UUID\"; mount = \"$POINT\"; type = \"ext4\";
	mode = \"shared-read\"; writer = \"n1\"; queues = 1;"
trap 'cp -f $N/log /out/nvmed.log 2> /dev/null || true; cp -f $D/log /out/fmoved.log 2> /dev/null || true' EXIT

need diff findmnt mkfs.ext4
need_module nvme_tcp ext4

fm() {
	"$FMOVE_BIN/fmove" --socket $D/sock "$@"
}

# mounted_as rw|ro|gone: as the kernel says.
mounted_as() {
	local options

	options=$(findmnt -n -o OPTIONS $POINT) || options=gone
	[ "${options%%,*}" = "$1" ]
}

has_store() {
	fm ls n1:v
}

has_none() {
	! has_store
}

# logged COUNT TEXT: fmoved has said it so often.
logged() {
	[ "$(grep -c "$2" $D/log)" -ge "$1" ]
}

begin() {
	mkdir -p $POINT /run/from/set
	check mkfs.ext4 -q -F /dev/lab/disk1
	nvmet_up $NQN /dev/lab/disk1 $UUID
	nvmet_port 1 $ADDR 4420
	nvmet_show 1 $NQN
	nvmed_conf $N "$VOLUME"
	node_key $D
	node_stores="{ name = \"v\"; directory = \"$POINT\"; volume = \"data\"; }," node_conf $D n1 "127.0.0.1:7471" <<-C
	volumes = ( { nodes = [ ]; $VOLUME } );
	nvme = { socket = "$N/sock"; };
	memory = { arena = "32MiB"; slab = "4MiB"; total = "256MiB"; };
	staging = { directory = "/run/cache"; size = "64MiB"; grace = "0s"; };
	C
	node_start $D
	check_not has_store
	nvmed_start $N
	wait_for mounted_as rw
	wait_for has_store
}

# write_file NAME: one more of the dataset.
write_file() {
	head -c 3000000 /dev/urandom > "/run/from/set/$1"
	check cp -r /run/from/set $POINT
}

# seal COUNT: the seal that this is.
seal() {
	check "$FMOVE_BIN/fmove" nvme seal data --wait ${HANG_S}s
	wait_for mounted_as ro
	wait_for logged "$1" 'sealed as'
	wait_for has_store
	check_not touch $POINT/set/more
}

# staged: sets `copy`; it is what was written.
staged() {
	copy=$(fm stage v/set 2> /out/err) || fail "stage: $(cat /out/err)"
	cat /out/err
	check diff -r /run/from/set "$copy"
}

sectors_read() {
	awk '$3 ~ /^nvme[0-9]+n1$/ { sum += $6 } END { print sum + 0 }' /proc/diskstats
}

sealed() {
	local first before

	write_file one
	seal 1
	staged
	first=$copy
	echo 3 > /proc/sys/vm/drop_caches
	before=$(sectors_read)
	staged
	[ "$copy" = "$first" ] || fail "another copy: $copy"
	check grep -q 'its volume sealed since' /out/err
	say "$(($(sectors_read) - before)) sectors were read for the second request"
	[ $(($(sectors_read) - before)) -lt 1000 ] || fail "the source was read again"
}

unsealed() {
	local first=$copy

	check "$FMOVE_BIN/fmove" nvme unseal data --force --wait ${HANG_S}s
	wait_for mounted_as rw
	wait_for has_store
	write_file two
	seal 2
	staged
	[ "$copy" != "$first" ] || fail "the copy of the last seal: $copy"
}

taken_down() {
	check "$FMOVE_BIN/fmove" nvme down data --timeout ${HANG_S}s
	wait_for mounted_as gone
	wait_for has_none
	check "$FMOVE_BIN/fmove" nvme up data --wait ${HANG_S}s
	wait_for mounted_as ro
	wait_for has_store
	staged
}

begin
sealed
unsealed
taken_down
nvmed_end TERM
node_stop $D
