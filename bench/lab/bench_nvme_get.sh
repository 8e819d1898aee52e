# about: fmove get of a file on a mounted NVMe-TCP volume against fio reading the same file
# guests: 1
# cpus: 2
#
# Goal:   a volume is read as fast as it can be.
# Method: a volume in the memory of the kernel's target, mounted by fmove-nvmed in the same guest, behind a link that is limited by tc far
#         below what emulation can do: else processors, not reading, would be measured. The file goes from a store on the volume to a null
#         store of another node, in turn with fio; both with O_DIRECT and with nothing cached. `bench/run nvme` reads the lines that begin
#         with "pair".

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=bench/lab/pairs.sh
. "$LAB_TOP/bench/lab/pairs.sh"
# shellcheck source=bench/lab/volume.sh
. "$LAB_TOP/bench/lab/volume.sh"

MIB=24
PAIRS=5
RATE=24mbit
D=/run/bench
trap 'cp -f $D/nvmed/log /out/nvmed.log 2> /dev/null || true' EXIT

fmove_rate() {
	local result

	cold
	result=$("$FMOVE_BIN/fmove" --socket $D/n1/sock get --quiet --json --force --durability memory n2:volume/source n1:null/target)
	echo "$result" >> /out/results
	awk -v s="$(json seconds <<< "$result")" -v m=$MIB 'BEGIN { printf "%.2f", m / s }'
}

fio_rate() {
	cold
	fio --ioengine=io_uring --direct=1 --bs=1M --iodepth=4 --output-format=terse --name=read --rw=read --readonly \
		--filename=$POINT/store/source | awk -F';' '{ printf "%.2f", $7 / 1024 }'
}

need fio mkfs.ext4 tc
volume_up $((MIB + 64))
mkdir $POINT/store
head -c ${MIB}M /dev/urandom > $POINT/store/source
sync
volume_limit $RATE
node_stores="{ name = \"volume\"; directory = \"$POINT/store\"; },"
node_extra='memory = { arena = "64MiB"; total = "256MiB"; };'
node_pair $D 7470 --measure-unchecked
node_wait $D/n1 tcp 1 2
fmove_rate > /dev/null
in_turn get $PAIRS fmove_rate fio_rate
node_stop $D/n1
node_stop $D/n2
nvmed_end TERM
