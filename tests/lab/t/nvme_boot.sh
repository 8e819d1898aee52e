# about: volumes under systemd: boot with the target up and dead, restart, watchdog, shutdown with the target up and dead
# guests: 2
# cpus: 2
# disks: 2 256M
# when: soak
#
# Goal:   a boot mounts what is configured and waits for no target; a shutdown unmounts, disconnects and only then lets the network
#         go, with units for a volume and without, though the target has gone, too. A restart of fmove-nvmed and its
#         death by the watchdog leave mounts as they are. Whoever starts a mount unit, systemd mounts only what fmove-nvmed allows.
# Method: the target is guest 1, with two volumes. Guest 2 boots systemd with the units of config/systemd: `data` has units of
#         `fmove nvme units`, `plain` has none. What is still there when the network goes is written down by the unit that is the
#         network. Packets of a dead target are dropped, not refused. Rounds: boot, all of it, shutdown, with the target up and dead.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/nvmet.sh
. "$LAB_TOP/tests/lab/nvmet.sh"
# shellcheck source=tests/lab/systemd.sh
. "$LAB_TOP/tests/lab/systemd.sh"

NQN=nqn.2026-01.org.fmove
ADDR=$(wire_addr 0 1)
ROUNDS=${LAB_ROUNDS:-1}

# --- guest 1: the target --------------------------------------------------------------------------

# Not a packet of it leaves this guest.
drop_all() {
	need_module sch_netem
	check tc qdisc add dev wire0 root netem loss 100%
}

drop_none() {
	check tc qdisc del dev wire0 root
}

target_up() {
	local name disk=1

	nvmet_port 1 "$ADDR" 4420
	for name in data plain; do
		check mkfs.ext4 -q -F /dev/lab/disk$disk
		nvmet_up "$NQN:$name" /dev/lab/disk$disk "$(nvmet_uuid $name)"
		nvmet_show 1 "$NQN:$name"
		disk=$((disk + 1))
	done
}

is_off() {
	[ ! -e /out/restart.2 ]
}

# off WHAT: until guest 2 has come to its end.
off() {
	local begin=$SECONDS

	wait_for is_off
	say "$1: the machine is off after $((SECONDS - begin)) s"
}

guest_1() {
	local round

	need tc
	target_up
	sync_point target
	for ((round = 1; round <= ROUNDS; round++)); do
		sync_point "off-live-$round"
		off "target up"
		drop_all
		sync_point "booted-dead-$round"
		drop_none
		sync_point "mounted-late-$round"
		drop_all
		sync_point "off-dead-$round"
		off "target dead"
		drop_none
	done
	say "$ROUNDS rounds, each with a shutdown with the target up and one with it dead"
	sync_point end
}

# --- guest 2: what is there before systemd --------------------------------------------------------

volume() {
	printf '{ name = "%s"; subsystem = "%s:%s"; address = "%s:4420"; uuid = "%s"; mount = "/srv/%s"; type = "ext4"; ' \
		"$1" $NQN "$1" "$ADDR" "$(nvmet_uuid "$1")" "$1"
	printf 'writer = "n2"; nodes = [ ]; reconnect_delay = "1s"; queues = 1; }'
}

prepare() {
	systemd_prepare
	need_module ext4	# as where the root is of that kind; loading it takes an emulated processor 4 s of a boot
	mkdir -p /etc/fmove /srv/data /srv/plain
	cat > /etc/fmove/fmove.conf <<-C
	node = { name = "n2"; state_directory = "null:"; };
	nvme = { host_nqn = "$NVMED_HOSTNQN"; };
	volumes = ( $(volume data), $(volume plain) );
	C
	systemd_install fmove-nvmed.service
	systemd_install fmove-volumes.service
	systemd_install fmove-nvme@.service
	systemd_install fmove-nvme-ask@.service
	systemd_enable fmove-nvmed.service
	ln -s /lib/systemd/system/remote-fs.target /etc/systemd/system/multi-user.target.wants/
	# Sooner, so that the test need not wait; and not too soon for an emulated processor.
	mkdir /etc/systemd/system/fmove-nvmed.service.d
	printf '[Service]\nWatchdogSec=10\n' > /etc/systemd/system/fmove-nvmed.service.d/lab.conf
	check "$FMOVE_BIN/fmove" nvme units
	rm /etc/systemd/system/srv-plain.mount
	mkdir /etc/systemd/system/remote-fs.target.wants
	ln -s ../srv-data.mount /etc/systemd/system/remote-fs.target.wants/
	ln -s /lib/systemd/system/nvmf-autoconnect.service /etc/systemd/system/multi-user.target.wants/
	# Both must be empty when the network goes.
	cat > /run/net-down.sh <<-'D'
	findmnt -rno TARGET,SOURCE /srv/data
	findmnt -rno TARGET,SOURCE /srv/plain
	grep -l '^nqn.2026-01.org.fmove' /sys/class/nvme/*/subsysnqn
	true
	D
}

# --- guest 2: under systemd -----------------------------------------------------------------------

both() {
	"$@" data && "$@" plain
}

is_mounted() {
	nvmed_is "$1" state mounted && findmnt "/srv/$1" > /dev/null
}

is_up() {
	[ "$(systemd_property "$1" ActiveState)" = active ]
}

# What happened before the network went, in the last boot.
check_net_down() {
	[ -e "/out/net-down.2.$1" ] || fail "the unit that is the network was not stopped"
	[ ! -s "/out/net-down.2.$1" ] || fail "still there when the network went: $(cat "/out/net-down.2.$1")"
	say "boot $1: all down and the network gone $(systemd_net_end "$1") s after the order to shut down"
}

# Seconds from the start of fmove-nvmed to the mount.
mounted_after() {
	awk -v a="$(systemd_property fmove-nvmed.service ExecMainStartTimestampMonotonic)" \
		-v b="$(systemd_property "srv-$1.mount" ActiveEnterTimestampMonotonic)" 'BEGIN { printf "%.1f", (b - a) / 1000000 }'
}

# Without asking fmove-nvmed: what measures must not take the processor from what it measures.
are_in_the_tree() {
	local mounts

	mounts=$(< /proc/self/mountinfo)
	[[ $mounts = *' /srv/data '* && $mounts = *' /srv/plain '* ]]
}

boot_live() {
	local name

	wait_for are_in_the_tree
	wait_for both is_mounted
	for name in data plain; do
		say "$name is mounted $(mounted_after $name) s after the start of fmove-nvmed"
	done
	wait_for is_up multi-user.target
	is_up fmove-volumes.service || fail "fmove-volumes.service is not active"
	is_up fmove-nvme@data.service || fail "fmove-nvme@data.service is not active"
	echo "$LAB_BOOT" > /srv/data/boot
	echo "$LAB_BOOT" > /srv/plain/boot
	"$FMOVE_BIN/fmove" nvme status data | grep 'warning:.*nvmf-autoconnect' || fail "nvmf-autoconnect is not reported"
}

# What must not change: mounts, by their numbers in the kernel, and controllers.
footprint() {
	findmnt -rno ID /srv/data
	findmnt -rno ID /srv/plain
	nvme_of $NQN:data
	nvme_of $NQN:plain
}

is_another_pid() {
	local now

	now=$(systemd_property fmove-nvmed.service MainPID)
	[ "$now" != 0 ] && [ "$now" != "$1" ]
}

check_footprint() {
	wait_for both is_mounted
	[ "$(footprint)" = "$1" ] || fail "mounts or controllers are other ones than before"
	is_up fmove-volumes.service || fail "fmove-volumes.service was stopped"
	[ "$(nvmed_field data is_ours)" = true ] || fail "it does not know that it made its controller"
}

restart() {
	local before

	before=$(footprint)
	check systemctl restart fmove-nvmed.service
	check_footprint "$before"
}

watchdog() {
	local before pid

	before=$(footprint)
	pid=$(systemd_property fmove-nvmed.service MainPID)
	sleep 12
	[ "$(systemd_property fmove-nvmed.service MainPID)" = "$pid" ] || fail "it did not feed its watchdog"
	check kill -STOP "$pid"
	wait_for is_another_pid "$pid"
	check_footprint "$before"
}

# Whoever starts the mount unit, and however long fmove-nvme@ has been active: fmove-nvmed is asked each time.
start_by_hand() {
	local mounted_at

	check "$FMOVE_BIN/fmove" nvme connect data
	findmnt /srv/data > /dev/null && fail "it is to be connected only, and is mounted"
	is_up fmove-nvme@data.service || fail "fmove-nvme@data.service is not active any more"
	mounted_at=$(systemd_property srv-data.mount ActiveEnterTimestampMonotonic)
	! systemctl start srv-data.mount || fail "systemd was let mount what is not to be mounted"
	[ "$(systemd_property srv-data.mount ActiveEnterTimestampMonotonic)" = "$mounted_at" ] || fail "it was mounted meanwhile"
	check "$FMOVE_BIN/fmove" nvme up data
	check systemctl stop srv-data.mount
	check systemctl start srv-data.mount
	wait_for both is_mounted
}

boot_dead() {
	wait_for is_up multi-user.target
	say "multi-user.target without a target: $(systemd_seconds multi-user.target ActiveEnterTimestampMonotonic) s after the kernel's start"
	nvmed_is data state mounted && fail "the target is not dead"
	true
}

# Dirty, so that an unmount has to write.
dirty() {
	local name

	for name in data plain; do
		head -c 1M /dev/urandom > "/srv/$name/dirty"
	done
	sha256sum /srv/*/dirty > /out/dirty.2
}

guest_2_systemd() {
	local round=$(((LAB_BOOT + 1) / 2))

	trap '{ "$FMOVE_BIN/fmove" nvme status; findmnt; } > "/out/state.$GUEST" 2>&1; systemd_journal' EXIT
	if ((LAB_BOOT % 2 == 1)); then
		boot_live
		if [ "$round" = 1 ]; then
			start_by_hand
			restart
			watchdog
		fi
		dirty
		guest_restarts
		sync_point "off-live-$round"
	else
		boot_dead
		sync_point "booted-dead-$round"
		wait_for both is_mounted
		[ "$(cat /srv/data/boot) $(cat /srv/plain/boot)" = "$((LAB_BOOT - 1)) $((LAB_BOOT - 1))" ] || fail "other files than those"
		check sha256sum --check --quiet /out/dirty.2
		dirty
		sync_point "mounted-late-$round"
		guest_restarts
		sync_point "off-dead-$round"
	fi
	systemd_off
}

guest_2() {
	if [ -n "${LAB_SYSTEMD:-}" ]; then
		guest_2_systemd
	fi
	if [ "$LAB_BOOT" = 1 ]; then
		sync_point target
	else
		check_net_down $((LAB_BOOT - 1))
	fi
	if ((LAB_BOOT > 2 * ROUNDS)); then
		sync_point end
		return
	fi
	prepare
	systemd_boot
}

"guest_$GUEST"
