# about: what the target does for a volume: what is sealed nobody can write, what is written one host alone; somebody else's protection
# guests: 2
# disks: 1 512M
#
# Goal:   a sealed namespace is write protected, so that no host can write to it, also after the target was made anew, and writable again
#         for its writer after unseal, wherever the supervisor was killed on the way. What somebody else protects is not mounted
#         read-write, and says why. A volume is mounted as ever where the target has no reservations; where it has them (Linux 6.13), its
#         host alone can write to it.
# Method: guest 1 has the target and is the writer; guest 2 is another host, which writes behind the end of the file system. Both go on from
#         one sync_point to the next. LAB_ROUNDS: how often the supervisor is killed while it seals and unseals.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/nvmet.sh
. "$LAB_TOP/tests/lab/nvmet.sh"

NQN=nqn.2026-01.org.fmove:protected
UUID=aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee
D=/run/nvmed
POINT=/run/volume
OTHER_HOSTID=99999999-2222-3333-4444-555555555555
ROUNDS=${LAB_ROUNDS:-1}
RANDOM=$LAB_SEED
nvmet_reservations=1
trap 'cp -f $D/log /out/nvmed.log 2> /dev/null || true' EXIT

need blockdev dd findmnt mkfs.xfs xfs_logprint
[ -x "$FMOVE_BIN/nvme_helper" ] || fail "no nvme_helper in $FMOVE_BIN: build lab-programs"

# --- guest 2 --------------------------------------------------------------------------------------

write_behind() {
	dd if=/dev/zero of="/dev/$disk" bs=4096 seek=$((450 * 256)) count=1 oflag=direct status=none
}

is_device_read_only() {
	[ "$(blockdev --getro "/dev/$disk")" = "$1" ]
}

# prepare MORE: as a supervisor would here.
prepare() {
	reply=$("$FMOVE_BIN/nvme_helper" "{\"call\":\"prepare\",\"device\":\"/dev/$disk\",\"rdev\":[$(tr ':' ',' < "/sys/block/$disk/dev")],
		\"point\":\"$POINT\",$1}") || fail "$1: $reply"
	echo "$1 -> $reply"
}

release() {
	reply=$("$FMOVE_BIN/nvme_helper" "{\"call\":\"unmount\",\"device\":\"/dev/$disk\",\"rdev\":[$(tr ':' ',' < "/sys/block/$disk/dev")],
		\"point\":\"$POINT\",\"release_as\":\"$OTHER_HOSTID\"}") || fail "release: $reply"
}

other_host() {
	check nvme_foreign $NQN "$(wire_addr 1 1)" nqn.2014-08.org.nvmexpress:uuid:$OTHER_HOSTID $OTHER_HOSTID
	wait_for nvme_disk $NQN
	disk=$(nvme_disk $NQN)
	sync_point written
	if [ -e /out/has_reservations ]; then
		check_not write_behind
	else
		check write_behind
	fi
	is_device_read_only 0 || fail "read-only although nobody has sealed it"
	sync_point seen

	sync_point sealed
	wait_for is_device_read_only 1
	blockdev --setrw "/dev/$disk" || true
	check_not write_behind
	check dd if="/dev/$disk" of=/dev/null bs=4096 count=16 iflag=direct status=none
	sync_point tried

	sync_point unsealed
	wait_for is_device_read_only 0
	sync_point down
	check write_behind			# a reservation is given back
	prepare '"read_only_device":true,"target":{"write_protect":true}'
	sync_point protected
	sync_point left
	prepare '"read_only_device":false,"target":{"write_protect":false}'
	is_device_read_only 0 || fail "still read-only"
	prepare "\"target\":{\"reserve_as\":\"$OTHER_HOSTID\"}"
	sync_point mine
	sync_point refused
	release
	sync_point released
	sync_point end
	check write_behind
	nvme_remove "$(nvme_of $NQN)"
	sync_point over
}

# --- guest 1 --------------------------------------------------------------------------------------

fmn() {
	"$FMOVE_BIN/fmove" nvme "$@"
}

is() {
	nvmed_is data "$1" "$2"
}

# configure MODE
configure() {
	nvmed_conf $D "name = \"data\"; subsystem = \"$NQN\"; address = \"$(wire_addr 1 1):4420\"; uuid = \"$UUID\"; mount = \"$POINT\";
		type = \"xfs\"; mode = \"$1\"; queues = 1; $([ "$1" = read-only ] || echo 'writer = "n1";')"
	[ -z "${nvmed:-}" ] || check kill -HUP "$nvmed"
}

is_read_write() {
	is state mounted && is is_read_write true
}

is_read_only() {
	is state mounted && is is_read_write false
}

first_mount() {
	wait_for is_read_write
	is is_reserved "$has_reservations" || fail "reserved: $(nvmed_field data is_reserved), with reservations: $has_reservations"
	is is_write_protected false || fail "protected before it is sealed"
	echo one > $POINT/file
	sync_point written
	sync_point seen
}

# As after a restart, with the other connections on it: nvmet has forgotten what it kept.
target_again() {
	nvmet_hide 1 $NQN
	nvmet_ns_down $NQN 1
	nvmet_ns $NQN 1 /dev/lab/disk1 $UUID
	nvmet_show 1 $NQN
}

# asked_again COUNT WORDS: that the log has it so often.
asked_again() {
	[ "$(grep -c "the target $2 (asked again" $D/log)" -ge "$1" ]
}

# Also after the supervisor was killed, and connected anew.
seal() {
	check fmn seal data --wait ${HANG_S}s
	is is_write_protected true || fail "sealed, and not protected"
	is is_reserved false || fail "still reserved, and it is sealed"
	[ "$(cat $POINT/file)" = one ] || fail "not what was written"
	nvmed_end KILL
	nvmed_start $D
	wait_for is_read_only
	check fmn down data --timeout ${HANG_S}s
	check fmn up data --wait ${HANG_S}s
	wait_for is_read_only
	is is_write_protected true || fail "after down and up it is not said to be protected"
	before=$(grep -c "the target protects what is sealed (asked again" $D/log)
	target_again
	wait_for asked_again $((before + 1)) "protects what is sealed"
	is is_write_protected true || fail "the target was away, and does not protect it"
	fmn status data
	sync_point sealed
	sync_point tried
}

unseal() {
	check fmn unseal data --force --wait ${HANG_S}s
	wait_for is_read_write
	is is_write_protected false || fail "unsealed, and said to be protected"
	echo two > $POINT/file
	sync_point unsealed
}

# Where it was killed is chance; what was wanted last is what it comes to.
killed() {
	local round at

	for ((round = 1; round <= ROUNDS; round++)); do
		for at in seal "unseal --force"; do
			# shellcheck disable=SC2086
			fmn $at data --wait 0 || fail "$at"
			sleep "$((RANDOM % 3)).$((RANDOM % 10))"
			nvmed_end KILL
			# The helper process goes with it, not at once.
			nvmed_start $D
		done
		wait_for is_read_write
		echo "$round" > $POINT/round
		sync
	done
	say "$ROUNDS rounds, seed $LAB_SEED, killed twice in each while it sealed and unsealed: writable again"
}

by_somebody_else() {
	check fmn down data --timeout ${HANG_S}s
	sync_point down
	sync_point protected
	check_not fmn up data --wait ${HANG_S}s
	is state refused || fail "it is $(nvmed_field data state)"
	say "refused: $(nvmed_field data text)"
	nvmed_says data text "the target protects it, and not because of us" || fail "not said why: $(nvmed_field data text)"
	configure read-only		# wanted up still
	wait_for is_read_only
	is is_write_protected false || fail "protected by somebody else, and said to be by us"
	check fmn down data --timeout ${HANG_S}s
	sync_point left
}

# The other host has taken it, if the target lets it.
reserved_by_another() {
	sync_point mine
	configure exclusive
	wait_for is mode exclusive
	if $has_reservations; then
		check_not fmn up data --wait ${HANG_S}s
		is state refused || fail "it is $(nvmed_field data state): $(nvmed_field data error)"
		say "refused: $(nvmed_field data text)"
		nvmed_says data text "reserved for another host, host id $OTHER_HOSTID" || fail "not said who: $(nvmed_field data text)"
	fi
	sync_point refused
	sync_point released
	check fmn up data --wait ${HANG_S}s
	wait_for is_read_write
	is is_reserved "$has_reservations" || fail "reserved: $(nvmed_field data is_reserved)"
}

# Taken before, given back after, though it was killed meanwhile.
reserved_and_killed() {
	nvmed_end KILL
	nvmed_start $D
	wait_for is_read_write
	is is_reserved "$has_reservations" || fail "after a restart: $(nvmed_field data is_reserved)"
	# Unmounted by somebody else, as by systemd: given back with the connection.
	check kill -STOP "$nvmed"
	check umount $POINT
	fmn down data --timeout ${HANG_S}s &
	check kill -CONT "$nvmed"
	wait $! || fail "down: status $?"
}

need_module nvme_tcp xfs
mkdir -p $POINT
if [ "$GUEST" = 1 ]; then
	check mkfs.xfs -q -f -d size=400m /dev/lab/disk1
	nvmet_up $NQN /dev/lab/disk1 $UUID
	nvmet_port 1 "$(wire_addr 1 1)" 4420
	nvmet_show 1 $NQN
	has_reservations=false
	if [ -e $NVMET/subsystems/$NQN/namespaces/1/resv_enable ]; then
		has_reservations=true
		touch /out/has_reservations
	fi
	say "Linux $(uname -r), a target with reservations: $has_reservations"
fi
sync_point target
if [ "$GUEST" = 2 ]; then
	other_host
	exit
fi
configure shared-read
nvmed_start $D
first_mount
seal
unseal
killed
by_somebody_else
reserved_by_another
reserved_and_killed
sync_point end
check kill -TERM "$nvmed"
check wait "$nvmed"
sync_point over
nvmet_down
