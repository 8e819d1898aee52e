# about: fmove stage of large files on a mounted NVMe-TCP volume against fio reading the same files
# guests: 1
# cpus: 2
# disks: 1 256M
#
# Goal:   a dataset on a volume is staged as fast as the volume can be read.
# Method: a volume in the memory of the kernel's target, mounted by fmove-nvmed in the same guest, behind a link that is limited by tc far
#         below what emulation can do: else processors, not reading, would be measured. The node's store is on the volume, its cache on an
#         emulated disk; in turn with fio, both with nothing cached. What is staged is compared with its source, outside of the time.
#         `bench/run stage_lab` reads the lines that begin with "pair".

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=bench/lab/pairs.sh
. "$LAB_TOP/bench/lab/pairs.sh"
# shellcheck source=bench/lab/volume.sh
. "$LAB_TOP/bench/lab/volume.sh"

FILES=3
MIB=16			# of each
PAIRS=3
RATE=8mbit		# so that 48 MiB take 50 s: the start, two listings and the syncs of a request take 1.7 s here, whatever its size
D=/run/bench
CACHE=/srv/cache
trap 'cp -f $D/nvmed/log /out/nvmed.log 2> /dev/null || true; cp -f $D/n1/log /out/fmoved.log 2> /dev/null || true' EXIT

fm() {
	"$FMOVE_BIN/fmove" --socket $D/n1/sock "$@"
}

unstaged() {
	fm unstage set
}

# The seconds of the command, its start included.
stage_rate() {
	local begin end

	cold
	begin=$EPOCHREALTIME
	fm stage v/set -- true > /out/stage 2>&1 || fail "stage: $(cat /out/stage)"
	end=$EPOCHREALTIME
	check diff -r "$POINT/store/set" $CACHE/fmove/ready/*/set >&2
	wait_for unstaged >&2
	awk -v s="$end" -v b="$begin" -v m=$((FILES * MIB)) 'BEGIN { printf "%.2f", m / (s - b) }'
}

fio_rate() {
	local i names=''

	for ((i = 1; i <= FILES; i++)); do
		names=$names${names:+:}$POINT/store/set/f$i
	done
	cold
	fio --ioengine=io_uring --direct=1 --bs=1M --iodepth=4 --output-format=terse --name=read --rw=read --readonly \
		--file_service_type=sequential --filename="$names" | awk -F';' '{ printf "%.2f", $7 / 1024 }'
}

need fio mkfs.ext4 tc diff
mkdisk /dev/lab/disk1 ext4 $CACHE
volume_up $((FILES * MIB + 64))
mkdir -p $POINT/store/set
for ((i = 1; i <= FILES; i++)); do
	head -c ${MIB}M /dev/urandom > $POINT/store/set/f$i
done
sync
volume_limit $RATE
node_key $D/n1
node_stores="{ name = \"v\"; directory = \"$POINT/store\"; }," node_conf $D/n1 n1 "127.0.0.1:7471" <<-C
memory = { arena = "64MiB"; total = "256MiB"; };
staging = { directory = "$CACHE/fmove"; size = "200MiB"; grace = "0s"; };
C
node_start $D/n1
stage_rate > /dev/null
in_turn volume $PAIRS stage_rate fio_rate
node_stop $D/n1
nvmed_end TERM
