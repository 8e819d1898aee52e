# about: volumes under systemd: a boot with a volume that waits for a word, and a service that needs it
# guests: 1
# disks: 1 128M
#
# Goal:   no boot waits for a volume that waits for the word of a node, and what needs the volume starts when it is mounted, however
#         late, after the mount, ends before it goes and starts again with it.
# Method: one guest is its own target. It boots systemd with a volume without mmp that counts a node which is not there, with the unit of
#         fmove nvme units, enabled, and a service as fmove-nvme(1) has it: RequiresMountsFor= and WantedBy= the mount unit. A person
#         forgets that node after the boot. The service writes down what it finds at the mount point when it starts and when it ends.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/nvmet.sh
. "$LAB_TOP/tests/lab/nvmet.sh"
# shellcheck source=tests/lab/systemd.sh
. "$LAB_TOP/tests/lab/systemd.sh"

NQN=nqn.2026-01.org.fmove:word

target_up() {
	check mkfs.ext4 -q -F /dev/lab/disk1
	mkdir -p /run/fill
	check mount /dev/lab/disk1 /run/fill
	echo dataset > /run/fill/what
	check umount /run/fill
	nvmet_port 1 127.0.0.1 4420
	nvmet_up $NQN /dev/lab/disk1 "$(nvmet_uuid word)"
	nvmet_show 1 $NQN
}

# What starts with the mount, and not with the boot.
write_service() {
	cat > /etc/systemd/system/train.service <<-'U'
	[Unit]
	RequiresMountsFor=/srv/word
	[Service]
	Type=oneshot
	RemainAfterExit=yes
	ExecStart=/bin/sh -c 'cat /srv/word/what >> /run/train'
	ExecStop=/bin/sh -c 'cat /srv/word/what >> /run/trained'
	[Install]
	WantedBy=srv-word.mount
	U
	mkdir /etc/systemd/system/srv-word.mount.wants
	ln -s ../train.service /etc/systemd/system/srv-word.mount.wants/
}

prepare() {
	systemd_prepare
	target_up
	mkdir -p /etc/fmove /srv/word
	cat > /etc/fmove/fmove.conf <<-C
	node = { name = "n2"; state_directory = "null:"; };
	nvme = { host_nqn = "$NVMED_HOSTNQN"; };
	volumes = ( { name = "word"; subsystem = "$NQN"; address = "127.0.0.1:4420"; uuid = "$(nvmet_uuid word)"; mount = "/srv/word";
		type = "ext4"; writer = "n2"; nodes = [ "n9" ]; queues = 1; } );
	C
	systemd_install fmove-nvmed.service
	systemd_install fmove-nvme@.service
	systemd_install fmove-nvme-ask@.service
	systemd_enable fmove-nvmed.service
	ln -s /lib/systemd/system/remote-fs.target /etc/systemd/system/multi-user.target.wants/
	check "$FMOVE_BIN/fmove" nvme units
	mkdir /etc/systemd/system/remote-fs.target.wants
	ln -s ../srv-word.mount /etc/systemd/system/remote-fs.target.wants/
	write_service
}

is_active() {
	[ "$(systemd_property "$1" ActiveState)" = "$2" ]
}

# lines FILE N
lines() {
	[ -e "$1" ] && [ "$(wc -l < "$1")" = "$2" ] && [ "$(sort -u "$1")" = dataset ]
}

# Nothing of the volume is before the end of the boot, by its order, and not because it was quick.
check_order() {
	local target

	for target in multi-user.target remote-fs.target; do
		check systemctl list-dependencies --after --plain $target > /out/after.$target
		grep -E 'srv-word|fmove-nvme(-ask)?@|train' /out/after.$target && fail "$target waits for that"
	done
	systemctl list-dependencies --after --plain train.service | grep -q 'srv-word\.mount' || fail "train.service is not ordered after its mount"
}

boot_waits() {
	wait_for is_active multi-user.target active
	wait_for nvmed_is word state waiting
	check_order
	findmnt /srv/word && fail "it waits, and is mounted"
	is_active train.service inactive || fail "train.service is $(systemd_property train.service ActiveState), without its volume"
	say "the boot ends, and the volume waits: $(nvmed_field word text)"
}

word_comes() {
	check "$FMOVE_BIN/fmove" nvme forget n9
	wait_for nvmed_is word state mounted
	wait_for is_active train.service active
	lines /run/train 1 || fail "it was started before its mount: $(cat /run/train)"
}

mount_goes() {
	check "$FMOVE_BIN/fmove" nvme down word
	is_active train.service inactive || fail "it is $(systemd_property train.service ActiveState), and its volume is gone"
	lines /run/trained 1 || fail "it was ended after its mount: $(cat /run/trained)"
	check "$FMOVE_BIN/fmove" nvme up word
	wait_for is_active train.service active
	lines /run/train 2 || fail "it was not started again: $(cat /run/train)"
}

guest_1() {
	if [ -z "${LAB_SYSTEMD:-}" ]; then
		prepare
		systemd_boot
	fi
	trap '{ "$FMOVE_BIN/fmove" nvme status; findmnt; systemctl list-jobs; } > "/out/state.$GUEST" 2>&1; systemd_journal' EXIT
	boot_waits
	word_comes
	mount_goes
	say "what needs the volume starts after its mount, ends before it, and starts again with it"
}

"guest_$GUEST"
