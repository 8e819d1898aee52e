# about: the supervisor killed at random moments while it connects and mounts: adopted, nothing twice, mounted as it should be, nothing left
# guests: 1
#
# Goal:   whatever the supervisor was at when it died, the next one ends with one controller that it knows for its own and one mount, of
#         the right device and kind; a device that was set read-only for a reader is writable again for the writer; no helper is left.
# Method: down, up, SIGKILL after up to two seconds, start again, time after time (FMOVE_LAB_ROUNDS, else a sample); this node is
#         the reader in every other round.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/nvmet.sh
. "$LAB_TOP/tests/lab/nvmet.sh"

NQN=nqn.2026-01.org.fmove:kill
UUID=aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee
D=/run/nvmed
POINT=/run/volume
rounds=${LAB_ROUNDS:-3}
RANDOM=$LAB_SEED
trap 'cp -f $D/log /out/nvmed.log 2> /dev/null || true' EXIT

need blockdev findmnt mkfs.ext4 pgrep

# configure WORD: reader or writer
configure() {
	local who='writer = "n1"'

	[ "$1" = writer ] || who='mode = "read-only"'
	mkdir -p $POINT
	nvmed_conf $D "name = \"data\"; subsystem = \"$NQN\"; address = \"127.0.0.2:4420\"; uuid = \"$UUID\"; mount = \"$POINT\"; type = \"ext4\";
		$who; reconnect_delay = \"1s\"; queues = 1;"
}

# Mounted once, of the volume's device, as a reader or a writer has it.
check_mount() {
	local disk is_ro=0

	[ "$1" = writer ] || is_ro=1
	disk=$(nvme_disk $NQN)
	[ "$(nvme_of $NQN | wc -l)" = 1 ] || fail "not one controller: $(nvme_of $NQN)"
	nvmed_is data is_ours true || fail "it does not know that it made $(nvme_of $NQN)"
	[ "$(grep -c " $POINT " /proc/self/mountinfo)" = 1 ] || fail "not one mount: $(grep " $POINT " /proc/self/mountinfo)"
	[ "$(findmnt -no SOURCE $POINT)" = "/dev/$disk" ] || fail "mounted is $(findmnt -no SOURCE $POINT), the device is $disk"
	[ "$(blockdev --getro "/dev/$disk")" = $is_ro ] || fail "read-only of the $1's device is $(blockdev --getro "/dev/$disk")"
	[ "$(cat $POINT/hello)" = hello ] || fail "the file is not what it was"
}

# round NUMBER
round() {
	local who=writer pause

	(($1 % 2)) || who=reader
	check "$FMOVE_BIN/fmove" nvme down data --timeout ${HANG_S}s
	configure $who
	check kill -HUP "$nvmed"
	check "$FMOVE_BIN/fmove" nvme up data --wait 0
	pause=$((RANDOM % 2)).$((RANDOM % 10))
	sleep $pause
	nvmed_end KILL
	echo "round $1: $who, killed after $pause s"
	# What the killed one was to be may be done by halves; the next is to be the other.
	(($1 % 3)) || { who=writer; configure $who; }
	nvmed_start $D
	wait_for nvmed_is data state mounted
	check_mount $who
	no_helper
}

need_module nvme_tcp
modprobe brd rd_nr=1 rd_size=65536 || skip "the kernel has no module brd"
mkdir /run/files
echo hello > /run/files/hello
check mkfs.ext4 -q -F -d /run/files /dev/ram0
nvmet_up $NQN /dev/ram0 $UUID
nvmet_port 1 127.0.0.2 4420
nvmet_show 1 $NQN
configure writer
nvmed_start $D
wait_for nvmed_is data state mounted
for ((i = 1; i <= rounds; i++)); do
	round $i
done
check "$FMOVE_BIN/fmove" nvme down data --timeout ${HANG_S}s
[ -z "$(nvme_of $NQN)" ] || fail "still connected: $(nvme_of $NQN)"
nvmed_end TERM
nvmet_down
say "$rounds rounds, seed $LAB_SEED: adopted each time"
