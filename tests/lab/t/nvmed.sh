# about: fmove-nvmed on a real target: late, lost, given up, the supervisor killed, down, found by name, not the writer, reader and writer
# guests: 1
# disks: 1 512M
#
# Goal:   the supervisor connects and mounts once its target is there, leaves short losses to the kernel, makes anew what the
#         kernel gave up, adopts what it finds after SIGKILL, takes down all that it made and nothing else, refuses or waits while a volume
#         is in use, and mounts for the named writer only.
# Method: target and initiator in one kernel, over an address of the loopback device; the target is hidden and shown. No part of
#         it waits for a time: each waits for a state.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/nvmet.sh
. "$LAB_TOP/tests/lab/nvmet.sh"

NQN=nqn.2026-01.org.fmove:test1
UUID=aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee
ADDR=127.0.0.2
D=/run/nvmed
POINT=/run/volume
LOSS_S=5			# ctrl_loss_timeout where it is to be over
loss_s=$HANG_S			# and until then: a restart of the target is shorter
RACES="0.3 0.6"			# seconds until somebody else connects, too
trap 'cp -f $D/log /out/nvmed.log 2> /dev/null || true' EXIT

need blockdev findmnt mkfs.ext4
[ -x "$FMOVE_BIN/fmove-nvmed" ] || fail "no fmove-nvmed in $FMOVE_BIN"

# configure WRITER [WHERE]: without a writer read-only.
configure() {
	local who="mode = \"read-only\""

	[ -z "$1" ] || who="writer = \"$1\""
	mkdir -p $POINT
	nvmed_conf $D "name = \"data\"; subsystem = \"$NQN\"; ${2:-address = \"$ADDR:4420\"}; uuid = \"$UUID\"; mount = \"$POINT\";
		type = \"ext4\"; $who; iopolicy = \"round-robin\"; ctrl_loss_timeout = \"${loss_s}s\"; reconnect_delay = \"1s\"; queues = 1;"
}

start() {
	nvmed_start $D
}

field() {
	nvmed_field data "$1"
}

is() {
	nvmed_is data "$1" "$2"
}

is_gone() {
	[ -z "$(nvme_of $NQN)" ]
}

has_policy() {
	grep -qx "$1" /sys/class/nvme-subsystem/*/iopolicy
}

late_target() {
	start
	wait_for is state waiting
	say "waiting: $(field error)"
	nvmet_show 1 $NQN
	wait_for is state mounted
	[ "$(findmnt -no UUID $POINT)" = "$fs" ] || fail "another file system is mounted: $(findmnt -n $POINT)"
	controller=$(nvme_of $NQN)
	[ "$controller" ] || fail "no controller"
	wait_for has_policy round-robin
	echo hello > $POINT/hello
	sync
}

short_loss() {
	nvmet_hide 1 $NQN
	wait_for is state degraded
	nvmet_show 1 $NQN
	wait_for is state mounted
	[ "$(nvme_of $NQN)" = "$controller" ] || fail "not the same controller: $(nvme_of $NQN)"
	[ "$(cat $POINT/hello)" = hello ] || fail "the file is not what it was"
}

ctrl_loss() {
	loss_s=$LOSS_S
	configure n1
	check kill -HUP $nvmed
	check "$FMOVE_BIN/fmove" nvme down data --timeout ${HANG_S}s
	check "$FMOVE_BIN/fmove" nvme up data --wait ${HANG_S}s
	nvmet_hide 1 $NQN
	wait_for is_gone
	wait_for is state waiting
	check_not findmnt $POINT
	nvmet_show 1 $NQN
	wait_for is state mounted
	[ "$(cat $POINT/hello)" = hello ] || fail "the file is not what it was"
	[ "$(nvme_of $NQN | wc -l)" = 1 ] || fail "not one controller: $(nvme_of $NQN)"
	controller=$(nvme_of $NQN)
}

killed() {
	check kill -KILL $nvmed
	wait $nvmed || true
	start
	wait_for is state mounted
	[ "$(nvme_of $NQN)" = "$controller" ] || fail "not the same controller: $(nvme_of $NQN)"
	is is_ours true || fail "it does not know that it made $controller"
}

down() {
	check "$FMOVE_BIN/fmove" nvme down data --timeout ${HANG_S}s
	check_not findmnt $POINT
	is_gone || fail "still connected: $(nvme_of $NQN)"
	is state down || fail "it is $(field state)"
	check "$FMOVE_BIN/fmove" nvme up data --wait ${HANG_S}s
	[ "$(cat $POINT/hello)" = hello ] || fail "the file is not what it was"
}

# The target's own discovery controller, by a name.
discovered() {
	echo "$ADDR target.test" >> /etc/hosts
	configure n1 'discovery = "target.test:4420"'
	check kill -HUP $nvmed
	wait_for is paths_wanted 1
	check "$FMOVE_BIN/fmove" nvme down data --timeout ${HANG_S}s
	is_gone || fail "still connected: $(nvme_of $NQN)"
	check "$FMOVE_BIN/fmove" nvme up data --wait ${HANG_S}s
	[ "$(field address) $(field port)" = "$ADDR 4420" ] || fail "connected to $(field address) port $(field port)"
	[ -z "$(nvme_of nqn.2014-08.org.nvmexpress.discovery)" ] || fail "a discovery controller is left"
}

not_the_writer() {
	configure n2
	check kill -HUP $nvmed
	wait_for is state refused
	say "refused: $(field text)"
	check_not findmnt $POINT
	configure n1
	check kill -HUP $nvmed
	wait_for is state mounted
}

# The device is set read-only as long as this node reads, also if the supervisor was killed meanwhile.
reader_and_writer() {
	local disk

	disk=$(nvme_disk $NQN)
	configure ""
	check kill -HUP $nvmed
	wait_for is is_read_write false
	wait_for is state mounted
	[ "$(blockdev --getro "/dev/$disk")" = 1 ] || fail "a reader's device is writable"
	check kill -KILL $nvmed
	wait $nvmed || true
	start
	wait_for is state mounted
	configure n1
	check kill -HUP $nvmed
	wait_for is is_read_write true
	[ "$(blockdev --getro "/dev/$disk")" = 0 ] || fail "the writer's device is read-only"
	echo again > $POINT/again
}

# another PAUSE: somebody else connects the same subsystem, as this host, in so many seconds.
another() {
	sleep "$1"
	nvme_foreign $NQN $ADDR "$NVMED_HOSTNQN" "$NVMED_HOSTID"
}

# One controller there is, whoever made it; what another program made is used, and left to it.
one_of() {
	controller=$(nvme_of $NQN)
	[ "$(nvme_of $NQN | wc -l)" = 1 ] || fail "not one controller: $controller"
	if is is_ours true; then
		grep -q "already in progress" $D/another || fail "the other program: $(cat $D/another)"
		check "$FMOVE_BIN/fmove" nvme down data --timeout ${HANG_S}s
		return
	fi
	grep -qx "$controller" $D/another || fail "neither side made $controller: $(cat $D/another)"
	check "$FMOVE_BIN/fmove" nvme down data --timeout ${HANG_S}s
	[ "$(nvme_of $NQN)" = "$controller" ] || fail "somebody else's controller is gone"
	nvme_remove "$controller"
}

# Before, after, and at about the same moment.
beside_another() {
	local pause other

	check "$FMOVE_BIN/fmove" nvme down data --timeout ${HANG_S}s
	another 0 > $D/another 2>&1
	check "$FMOVE_BIN/fmove" nvme up data --wait ${HANG_S}s
	is is_ours false || fail "it takes another program's controller for its own"
	one_of
	for pause in $RACES; do
		another $pause > $D/another 2>&1 &
		other=$!
		check "$FMOVE_BIN/fmove" nvme up data --wait ${HANG_S}s
		wait $other || true
		one_of
	done
	check "$FMOVE_BIN/fmove" nvme up data --wait ${HANG_S}s
	check_not another 0 > $D/another 2>&1
	is is_ours true || fail "it takes its own controller for another program's"
	one_of
	check "$FMOVE_BIN/fmove" nvme up data --wait ${HANG_S}s
}

# In use: refused, or waited for. With force gone all the same, and nothing that was written before is lost.
in_use() {
	local status=0

	exec {held}> $POINT/dirty
	echo written >&"$held"
	"$FMOVE_BIN/fmove" nvme disconnect data > $D/said 2>&1 || status=$?
	[ $status = 1 ] && grep -q mounted $D/said || fail "disconnect of what is mounted: status $status, $(cat $D/said)"
	is is_mounted true && is wanted up || fail "a disconnect that was refused has left it $(field state)"
	status=0
	"$FMOVE_BIN/fmove" nvme down data --timeout 2s > $D/said 2>&1 || status=$?
	[ $status = 4 ] && findmnt $POINT > /dev/null || fail "down of what is in use: status $status, $(cat $D/said)"
	exec {held}>&-
	wait_for is state down
	is_gone || fail "down, and still connected: $(nvme_of $NQN)"
	check "$FMOVE_BIN/fmove" nvme up data --wait ${HANG_S}s
}

forced() {
	exec {held}> $POINT/dirty
	echo written >&"$held"
	check "$FMOVE_BIN/fmove" nvme down data --force --timeout ${HANG_S}s
	check_not findmnt $POINT
	is_gone || fail "still connected: $(nvme_of $NQN)"
	exec {held}>&- || true
	check "$FMOVE_BIN/fmove" nvme up data --wait ${HANG_S}s
	[ "$(cat $POINT/dirty)" = written ] || fail "what was written before down --force is lost"
}

need_module nvme_tcp
check mkfs.ext4 -q -F /dev/lab/disk1
fs=$(blkid -o value -s UUID /dev/lab/disk1)
nvmet_up $NQN /dev/lab/disk1 $UUID
nvmet_port 1 $ADDR 4420
configure n1
late_target
short_loss
ctrl_loss
killed
down
discovered
not_the_writer
reader_and_writer
beside_another
in_use
forced
check kill -TERM $nvmed
check wait $nvmed
findmnt $POINT > /dev/null || fail "its end has unmounted the volume"
check umount $POINT
nvmet_down
