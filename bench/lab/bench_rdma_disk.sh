# about: durable put from NVMe to NVMe over RDMA against the slowest of the two disks and ib_write_bw
# guests: 1
# cpus: 2
# disks: 2 1G
#
# Goal:   with a disk at either end fmove is as fast as the slowest of disk, wire and disk.
# Method: 64 MiB from a file on one emulated disk to a store on the other, in turn with fio reading there and writing here at once, and
#         with ib_write_bw. `bench/run rdma_disk` reads the lines that begin with "pair".

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"

MIB=64
PAIRS=7
D=/run/bench

fmove_rate() {
	local result

	result=$("$FMOVE_BIN/fmove" --socket $D/n1/sock put --quiet --json --force --transport rdma --durability disk /mnt/1/source n2:disk/target)
	awk -v s="$(json seconds <<< "$result")" -v m=$MIB 'BEGIN { printf "%.2f", m / s }'
}

fio_rate() {
	rm -f /mnt/2/fio
	fio --ioengine=io_uring --direct=1 --bs=1M --iodepth=16 --size=${MIB}M --fallocate=native --output-format=terse \
		--name=read --rw=read --filename=/mnt/1/source --name=write --rw=write --filename=/mnt/2/fio --end_fsync=1 |
		awk -F';' '$3 == "read" { r = $7 } $3 == "write" { w = $48 } END { printf "%.2f", (r < w ? r : w) / 1024 }'
}

ib_rate() {
	local server line

	bw_serve rxe0 $MIB
	server=$!
	line=$(bw_send rxe0 $MIB 10.1.1.1)
	wait $server
	echo "$line"
}

need fio
rxe_up rxe0 lab0 10.1.1.1/24
mkdisk /dev/lab/disk1 xfs /mnt/1
mkdisk /dev/lab/disk2 xfs /mnt/2
mkdir /mnt/2/store
head -c ${MIB}M /dev/urandom > /mnt/1/source
sync
node_listen='[::]'
node_extra='memory = { arena = "64MiB"; total = "256MiB"; };'
node_stores='{ name = "disk"; directory = "/mnt/2/store"; },'
node_pair $D 7470 --measure-unchecked
node_wait $D/n1 rdma 1 2
fmove_rate > /dev/null
rxe_mark rxe0
for ((i = 0; i < PAIRS; i++)); do
	fio=$(fio_rate)
	ours=$(fmove_rate)
	ib=$(ib_rate)
	say "pair nvme $ours $(awk -v a="$fio" -v b="$ib" 'BEGIN { print (a < b ? a : b) }') (fio $fio, ib_write_bw $ib)"
done
rxe_moved rxe0 $((2 * PAIRS * MIB << 20))
