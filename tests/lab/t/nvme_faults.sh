# about: faults of networks under mounted volumes: swallowed packets, resets, nobody listens, a subsystem that is gone, loss; another host id
# guests: 1
# when: soak
#
# Goal:   whatever happens to the network or at the target, a volume is in the end what it was: one controller, mounted where it
#         belongs, every byte there that was said to be; or it is refused, and says why. Status says in between what is the matter.
# Method: target and initiator in one kernel, over addresses of the loopback device, namespaces in memory. One supervisor with four
#         volumes of different patience: `data` waits for ever, `reads` gives its reader an error, `short` is given up by the kernel
#         soon, `grows` lies in a file. A program writes to `data` from the first fault to the last.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/nvmet.sh
. "$LAB_TOP/tests/lab/nvmet.sh"
# shellcheck source=tests/lab/volumes.sh
. "$LAB_TOP/tests/lab/volumes.sh"

GROWS=/dev/shm/grows
KEEP_ALIVE_S=5			# the default
MIB=1048576

need findmnt mkfs.ext4 tc ss cmp pgrep

configure() {
	nvmed_conf $D "$(volume data "$(volume_uuid data) writer = \"n1\";")" \
		"$(volume reads "$(volume_uuid reads) mode = \"read-only\"; fast_io_fail = \"5s\";")" \
		"$(volume short "$(volume_uuid short) writer = \"n1\"; ctrl_loss_timeout = \"10s\";")" \
		"$(volume grows "$(volume_uuid grows) writer = \"n1\";")"
}

are_all() {
	local name

	for name in data reads short grows; do
		nvmed_is $name state "$1" || return 1
	done
}

# remember: which controllers there are; same_as_before: no other has come.
remember() {
	local name

	for name in data reads short grows; do
		eval "was_$name=\$(nvme_of $PREFIX:$name)"
	done
}

same_as_before() {
	local name was

	for name in "$@"; do
		was=was_$name
		[ "$(nvme_of $PREFIX:"$name")" = "${!was}" ] || fail "$name: not the controller it was, ${!was}: $(nvme_of $PREFIX:"$name")"
	done
}

# Numbers, one a line, each on the device before the next. What was acknowledged stands in /run/acknowledged.
write_on() {
	local i=0

	while [ ! -e /run/enough ]; do
		i=$((i + 1))
		echo $i >> $MNT/data/numbers
		sync -d $MNT/data/numbers
		echo $i > /run/acknowledged.new
		mv /run/acknowledged.new /run/acknowledged
		sleep 0.3
	done
}

nothing_lost() {
	local count

	count=$(cat /run/acknowledged)
	sync
	echo 3 > /proc/sys/vm/drop_caches
	[ "$(head -n "$count" $MNT/data/numbers | cksum)" = "$(seq "$count" | cksum)" ] ||
		fail "numbers are lost: $count were acknowledged, and there are $(wc -l < $MNT/data/numbers)"
	cmp /run/files/random $MNT/reads/random || fail "what is read is not what was written"
	cmp /run/files/random $MNT/short/random || fail "what is read is not what was written, after the volume was made anew"
}

# --- making it ------------------------------------------------------------------------------------

make_target() {
	local name i=0

	need_module nvme_tcp
	modprobe brd rd_nr=4 rd_size=65536 || skip "the kernel has no module brd"
	mkdir /run/files
	head -c $MIB /dev/urandom > /run/files/random
	truncate -s 32M $GROWS
	for name in data reads short other; do
		target_of $name /dev/ram$i
		i=$((i + 1))
	done
	target_of grows $GROWS
}

# Two host ids for one host NQN: the kernel lets only the first of them connect.
another_host_id() {
	local foreign name

	foreign=$(nvme_foreign $PREFIX:other "$(addr_of other)" $NVMED_HOSTNQN 99999999-2222-3333-4444-555555555555)
	[ "$foreign" ] || fail "the kernel makes no controller for somebody else"
	configure
	nvmed_start $D
	wait_for nvmed_says data error "host id"
	say "another host id: $(nvmed_field data error)"
	nvme_remove "$foreign"
	for name in data reads short grows; do
		check "$FMOVE_BIN/fmove" nvme up $name --wait ${HANG_S}s
	done
}

# --- the network ----------------------------------------------------------------------------------

is_gone() {
	[ -z "$(nvme_of "$PREFIX:$1")" ]
}

# A read that goes to the device; its status and how long it took.
read_reads() {
	local begin=$SECONDS

	echo 3 > /proc/sys/vm/drop_caches
	if dd if=$MNT/reads/random of=/dev/null bs=64k iflag=direct status=none 2> /run/read.error; then
		echo "whole $((SECONDS - begin))"
	else
		echo "failed $((SECONDS - begin))"
	fi
}

# Nothing comes back, and nothing says so.
swallowed() {
	local begin read_pid how seconds

	remember
	begin=$SECONDS
	net_bad loss 100%
	read_reads > /run/read &
	read_pid=$!
	wait_for nvmed_is data state degraded
	say "swallowed packets: noticed after $((SECONDS - begin)) s, with a keep-alive of $KEEP_ALIVE_S s: $(nvmed_field data text)"
	wait $read_pid
	read -r how seconds < /run/read
	[ "$how" = failed ] && grep -q "Input/output error" /run/read.error || fail "the read: $how, $(cat /run/read.error)"
	say "a reader with fast_io_fail = 5s has its error after $seconds s"
	wait_for is_gone short
	wait_for nvmed_is short state waiting
	check_not findmnt $MNT/short
	findmnt $MNT/data > /dev/null || fail "data was unmounted"
	net_good
	wait_for are_all mounted
	same_as_before data reads grows
	[ "$(nvme_of $PREFIX:short | wc -l)" = 1 ] || fail "short: not one controller: $(nvme_of $PREFIX:short)"
	[ "$(read_reads | cut -d' ' -f1)" = whole ] || fail "it cannot be read again: $(cat /run/read.error)"
	nothing_lost
}

# Every connection is cut, again and again, and for a while nobody listens.
reset() {
	local name i

	remember
	for i in 1 2 3; do
		for name in data reads short grows; do
			net_reset "$(addr_of $name)"
		done
		sleep 0.$i
	done
	nvmet_hide 2 $PREFIX:data
	wait_for nvmed_is data state degraded
	wait_for eval "dmesg | grep -q 'failed to connect socket: -111'"
	nvmet_show 2 $PREFIX:data
	wait_for are_all mounted
	same_as_before data reads short grows
	nothing_lost
}

# Its port is there and the subsystem is not: the kernel gives such a controller up at once, whatever its patience.
subsystem_gone() {
	nvmet_hide 4 $PREFIX:short
	wait_for is_gone short
	wait_for nvmed_is short state waiting
	check_not findmnt $MNT/short
	say "subsystem gone: $(nvmed_field short error)"
	nvmet_show 4 $PREFIX:short
	check "$FMOVE_BIN/fmove" nvme up short --wait ${HANG_S}s
	[ "$(nvme_of $PREFIX:short | wc -l)" = 1 ] || fail "short: not one controller: $(nvme_of $PREFIX:short)"
	nothing_lost
}

errors_in_log() {
	dmesg | grep -c 'starting error recovery' || true
}

lossy() {
	local before

	remember
	before=$(errors_in_log)
	net_bad loss 1% delay 5ms
	dd if=/run/files/random of=$MNT/short/lossy bs=64k oflag=direct status=none
	dd if=$MNT/short/lossy of=/run/lossy bs=64k iflag=direct status=none
	cmp /run/files/random /run/lossy || fail "what is read is not what was written"
	are_all mounted || fail "a volume is not mounted: $("$FMOVE_BIN/fmove" nvme list)"
	net_good
	[ "$(errors_in_log)" = "$before" ] || fail "a connection was given up: $(dmesg | grep 'error recovery' | tail -n 3)"
	same_as_before data reads short grows
}

# --- the end --------------------------------------------------------------------------------------

all_down() {
	local name

	for name in data reads short grows; do
		check "$FMOVE_BIN/fmove" nvme down $name --timeout ${HANG_S}s
		is_gone $name || fail "$name is still connected: $(nvme_of $PREFIX:$name)"
		check_not findmnt $MNT/$name
	done
	nvmed_end TERM
	no_helper
	nvmet_down
}

# Who writes to a volume that waits for ever waits as long; that is no fault of the kernel's.
echo 600 > /proc/sys/kernel/hung_task_timeout_secs
make_target
another_host_id
write_on &
writer=$!
swallowed
reset
subsystem_gone
lossy
touch /run/enough
wait $writer || fail "the writer ended with status $?"
nothing_lost
say "$(cat /run/acknowledged) numbers written meanwhile, none lost"
all_down
