# SPDX-License-Identifier: MIT
# systemd.sh - systemd as process 1 of a guest, for lab tests: sourced by a test after guest.sh.
# shellcheck shell=bash
#
# The test runs twice in such a guest. First as always, where it writes units and configuration and ends with systemd_boot; then, with
# LAB_SYSTEMD set, as a unit of multi-user.target. Only what systemd itself brings is started, and what the test enables: whatever is
# enabled on the host stays out. The network is lab-net.service, which takes the guest's addresses when it stops.

# systemd_install UNIT: one of config/systemd, with the programs under test.
systemd_install() {
	sed "s,@CMAKE_INSTALL_FULL_BINDIR@,$FMOVE_BIN," "$LAB_TOP/config/systemd/$1.in" > "/etc/systemd/system/$1"
}

# systemd_more_time UNIT: for an emulated processor; nothing else of the unit is another one.
systemd_more_time() {
	mkdir -p "/etc/systemd/system/$1.d"
	printf '[Service]\nTimeoutStartSec=%s\nTimeoutStopSec=%s\nWatchdogSec=%s\n' "$HANG_S" "$HANG_S" "$HANG_S" \
		> "/etc/systemd/system/$1.d/lab.conf"
}

# systemd_enable UNIT...: for multi-user.target, whatever its [Install] says.
systemd_enable() {
	local unit

	mkdir -p /etc/systemd/system/multi-user.target.wants
	for unit in "$@"; do
		ln -s "/etc/systemd/system/$unit" /etc/systemd/system/multi-user.target.wants/
	done
}

# systemd_prepare: before units are written.
systemd_prepare() {
	[ -x /lib/systemd/systemd ] || skip "no systemd"
	need udevadm dbus-daemon journalctl
	rm -rf /.dockerenv /etc/systemd/system /etc/rc[0-9S].d /etc/udev/rules.d /var/log/journal
	mkdir -p /etc/systemd/system
	: > /etc/fstab
	echo "guest$GUEST" > /etc/hostname
	mask_the_rest
	write_net_unit
	write_test_unit
}

# Of what systemd starts by itself only devices, the journal and the bus are wanted. The rest takes time on an emulated processor, and
# systemd-tmpfiles-setup would empty /tmp, where the programs under test may be. Nor are generators wanted, some fifteen programs at the start
# and at each daemon-reload: what they look for (an fstab, encrypted disks, old init scripts) is not here. An empty file masks as a link
# to /dev/null does, and takes no program.
mask_the_rest() {
	local wanted

	for wanted in /lib/systemd/system/{sysinit,local-fs,sockets,timers,multi-user}.target.wants/*; do
		case ${wanted##*/} in
		systemd-udevd*|systemd-journald*|dbus.*)	;;
		*)	: > "/etc/systemd/system/${wanted##*/}" ;;
		esac
	done
	# What rdma-core's rules for udev start for an RDMA device: modules of what fmove does not use, and a name for the device.
	for wanted in rdma-load-modules@ rdma-ndd iwpmd; do
		: > "/etc/systemd/system/$wanted.service"
	done
	mkdir -p /etc/systemd/system-generators
	for wanted in /lib/systemd/system-generators/*; do
		: > "/etc/systemd/system-generators/${wanted##*/}"
	done
}

# Its addresses are those that guest-start gave. What net-down.sh, the test's, says stands in /out/net-down.GUEST.BOOT: what is still
# there when the network goes.
write_net_unit() {
	local wire

	: > /run/lab-net
	for wire in /sys/class/net/wire*; do
		[ -e "$wire" ] || continue
		printf '%s %s\n' "${wire##*/}" "$(ip -4 -o addr show dev "${wire##*/}" | awk '{ print $4 }')" >> /run/lab-net
		ip addr flush dev "${wire##*/}"
	done
	cat > /etc/systemd/system/lab-net.service <<-U
	[Unit]
	Wants=network.target
	Before=network.target network-online.target
	RequiresMountsFor=/out
	[Service]
	Type=oneshot
	RemainAfterExit=yes
	ExecStart=/bin/sh -c 'while read dev addr; do ip addr add \$addr dev \$dev; done < /run/lab-net'
	ExecStop=-/bin/sh -c '[ ! -e /run/net-down.sh ] || bash /run/net-down.sh > /out/net-down.$GUEST.$LAB_BOOT 2>&1'
	ExecStop=-/bin/sh -c 'cp /proc/uptime /out/net-end.$GUEST.$LAB_BOOT'
	ExecStop=/bin/sh -c 'while read dev addr; do ip addr flush dev \$dev; done < /run/lab-net'
	U
	mkdir -p /etc/systemd/system/network-online.target.wants
	ln -s ../lab-net.service /etc/systemd/system/network-online.target.wants/
}

write_test_unit() {
	cat > /etc/systemd/system/lab-test.service <<-U
	[Unit]
	RequiresMountsFor=/out
	[Service]
	Environment=GUEST=$GUEST LAB_BOOT=$LAB_BOOT LAB_SYSTEMD=1
	ExecStart=/bin/bash $LAB_TOP/tests/lab/guest-start
	KillSignal=SIGKILL
	U
	systemd_enable lab-test.service
}

# systemd_boot: ends the test for now.
systemd_boot() {
	exit 75		# BOOT_SYSTEMD of guest-start
}

# systemd_journal_of STATUS: for who ends with it. Nobody reads what is said of a test that went well.
systemd_journal_of() {
	[ "$1" = 0 ] || systemd_journal
}

# systemd_journal: what it has goes to /out.
systemd_journal() {
	journalctl -b --no-pager -o short-monotonic > "/out/journal.$GUEST.$LAB_BOOT" 2>&1 || true
}

# systemd_off: by systemd's own way, and not to come back from it; the guest is started again.
systemd_off() {
	systemd_journal
	guest_restarts
	cp /proc/uptime "/out/off.$GUEST.$LAB_BOOT"
	systemctl poweroff --no-block
	sleep 600
	fail "the shutdown hangs"
}

# systemd_net_end BOOT: in that boot of this guest, the seconds from systemd_off until the network went.
systemd_net_end() {
	awk 'NR == 1 { begin = $1 } NR == 2 { printf "%.1f", $1 - begin }' "/out/off.$GUEST.$1" "/out/net-end.$GUEST.$1"
}

# systemd_property UNIT NAME
systemd_property() {
	systemctl show "$1" -p "$2" --value
}

# systemd_seconds UNIT NAME: one that is a time since boot in microseconds, in seconds.
systemd_seconds() {
	awk '{ printf "%.2f", $1 / 1000000 }' <<< "$(systemd_property "$1" "$2")"
}
