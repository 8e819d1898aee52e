# about: the supervisor's helper processes on a real NVMe-TCP target: discover, connect, probe, mount, disconnect, and each thing that can be wrong
# guests: 1
# disks: 1 512M
#
# Goal:   each call does what helper_calls.h says on a real kernel; what is wrong has its kind and one line; a call that hangs ends at its
#         deadline, is counted until the kernel lets go of it, and nothing is left behind.
# Method: target and initiator in one kernel, over addresses of the loopback device; nvme_helper runs the calls.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/nvmet.sh
. "$LAB_TOP/tests/lab/nvmet.sh"

NQN=nqn.2026-01.org.fmove:test1
DISCOVERY=nqn.2014-08.org.nvmexpress.discovery
UUID=aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee
HOSTID=11111111-2222-3333-4444-555555555555
HOSTNQN=nqn.2014-08.org.nvmexpress:uuid:$HOSTID
ADDR=127.0.0.2
POINT=/run/volume
EXT4_MIB=32		# of the disk's 512, which XFS wants: all of it is read once
RO=',"read_only_device":true'
EBUSY=-16 EACCES=-13 EINVAL=-22 ENOTEMPTY=-39 ELOOP=-40 ETIMEDOUT=-110 ESTALE=-116

need base64 findmnt blockdev od pgrep mkfs.ext4 mkfs.xfs xfs_io xfs_logprint tc unshare
[ -x "$FMOVE_BIN/nvme_helper" ] || fail "no nvme_helper in $FMOVE_BIN: build lab-programs"

# ask JSON: sets reply.
ask() {
	local shown

	reply=$("$FMOVE_BIN/nvme_helper" "$1") || true
	shown=$reply
	[[ ! $reply =~ \"superblock\":\"[^\"]*\" ]] || shown=${reply/"${BASH_REMATCH[0]}"/'"superblock":"..."'}
	echo "$1 -> $shown"
}

# get KEY: sets got, the value of the first such key in the reply; as json, without a process.
get() {
	local LC_ALL=C key="\"$1\": *(\"[^\"]*\"|[^,}"$'\n'"]*)"

	got=''
	[[ $reply =~ $key ]] || return 0
	got=${BASH_REMATCH[1]#\"}
	got=${got%\"}
}

value() {
	local got

	get "$1"
	printf '%s\n' "$got"
}

yes() {
	ask "$1"
	get code
	[ "$got" = 0 ] || fail "$1: $reply"
}

# no CODE WORD JSON: fails with that errno and that word in its line.
no() {
	ask "$3"
	get code
	[ "$got" = "$1" ] || fail "not $1: $3: $reply"
	get text
	[[ ${got,,} = *"${2,,}"* ]] || fail "no \"$2\" in the text: $reply"
}

# trouble KIND JSON
trouble() {
	ask "$2"
	is_trouble "$@"
}

is_trouble() {
	get trouble
	[ "$got" = "$1" ] || fail "not $1: $2: $reply"
	get code
	[ "$got" -lt 0 ] || fail "no error: $reply"
	get text
	say "$1: $got"
}

# connect_json [MORE]: a connect of NQN, the rest as in MORE, which begins with a comma.
connect_json() {
	printf '{"call":"connect","subsystem":"%s","address":"%s","port":"4420","host_nqn":"%s","host_id":"%s","queues":2,%s%s}' \
		"${nqn:-$NQN}" $ADDR $HOSTNQN $HOSTID '"keep_alive_s":5,"reconnect_delay_s":2,"ctrl_loss_s":-1' "${1:-}"
}

# With the number that the device has now.
device_json() {
	local rdev

	read -r rdev < "/sys/block/$disk/dev"
	printf '{"call":"%s","device":"/dev/%s","rdev":[%s]%s}' "$1" "$disk" "${rdev/:/,}" "${2:-}"
}

mount_json() {
	device_json mount ",\"point\":\"${point:-$POINT}\",\"type\":\"$1\",\"options\":\"$2\"${3:-}"
}

# prepare_json [MORE]
prepare_json() {
	device_json prepare ",\"point\":\"${point:-$POINT}\"${1:-}"
}

disconnect_json() {
	printf '{"call":"disconnect","controller":"%s","subsystem":"%s","wait_ms":60000}' "$1" "${2:-$NQN}"
}

connect() {
	yes "$(connect_json "${1:-}")"
	controller=$(value controller)
	wait_for nvme_disk $NQN
	disk=$(nvme_disk $NQN)
}

disconnect() {
	yes "$(disconnect_json "$controller")"
	[ -z "$(nvme_of $NQN)" ] || fail "still there: $(nvme_of $NQN)"
	[ ! -e "/sys/block/$disk" ] && [ ! -e "/dev/$disk" ] || fail "$disk is still there"
}

nothing_there_yet() {
	trouble module "$(connect_json)"
	need_module nvme_tcp
	nvmet_up $NQN /dev/lab/disk1 $UUID
	nvmet_port 1 $ADDR 4420
	trouble unreachable "$(connect_json)"
	nvmet_show 1 $NQN
}

discover() {
	yes "{\"call\":\"discover\",\"address\":\"$ADDR\",\"port\":\"4420\",\"host_nqn\":\"$HOSTNQN\",\"host_id\":\"$HOSTID\"}"
	[ "$(value subsystem)" = $NQN ] && [ "$(value address)" = $ADDR ] && [ "$(value port)" = 4420 ] || fail "the log: $reply"
	[ -z "$(nvme_of $DISCOVERY)" ] || fail "the discovery controller is still there"
}

identity() {
	local dir

	connect ',"fast_io_fail_s":30'
	[ "$(value was_there)" = false ] || fail "it was there? $reply"
	dir=/sys/class/nvme/$controller
	[ "$(cat "/sys/block/$disk/wwid")" = uuid.$UUID ] || fail "wwid: $(cat "/sys/block/$disk/wwid")"
	[ "$(cat "$dir/reconnect_delay") $(cat "$dir/ctrl_loss_tmo") $(cat "$dir/fast_io_fail_tmo")" = "2 off 30" ] ||
		fail "timeouts: $(cat "$dir"/{reconnect_delay,ctrl_loss_tmo,fast_io_fail_tmo})"
	[ "$(cat "$dir/hostnqn") $(cat "$dir/hostid")" = "$HOSTNQN $HOSTID" ] || fail "another host: $(cat "$dir"/host{nqn,id})"
	yes "$(connect_json)"
	[ "$(value was_there) $(value controller)" = "true $controller" ] || fail "connected twice: $reply"
	[ "$(nvme_of $NQN)" = "$controller" ] || fail "not one controller: $(nvme_of $NQN)"
}

probe() {
	check mkfs.ext4 -q -F "/dev/$disk" ${EXT4_MIB}m
	yes "$(device_json probe ",\"wwid\":\"uuid.$UUID\"")"
	[ "$(value superblock | sed 's,\\/,/,g' | base64 -d | od -An -tx1 -j1080 -N2)" = " 53 ef" ] || fail "no ext4 there: $reply"
	[ "$(value uuid) $(value nsid) $(value size)" = "$UUID 1 $((512 << 20))" ] || fail "identity: $reply"
	no $ESTALE "left alone" "$(device_json probe ',"wwid":"uuid.00000000-0000-0000-0000-000000000000"')"
	no $ESTALE "left alone" "{\"call\":\"probe\",\"device\":\"/dev/$disk\",\"rdev\":[1,1]}"
}

is_writable() {
	[ "$(blockdev --getro "/dev/$disk")" = 0 ] || fail "$disk is read-only"
}

bad_points() {
	mkdir -p $POINT $POINT.full/x
	ln -s $POINT $POINT.link
	point=$POINT.full no $ENOTEMPTY "not empty" "$(point=$POINT.full mount_json ext4 rw)"
	no $ELOOP "symbolic link" "$(point=$POINT.link mount_json ext4 rw)"
	no $EINVAL "slash" "$(point=$POINT/ mount_json ext4 rw)"
	no $EBUSY "mounted at /run already" "$(point=/run mount_json ext4 rw)"
	no $EINVAL "dmesg" "$(mount_json xfs rw)"
	no $EINVAL "not for a volume" "$(mount_json ext4 rw,remount)"
	point=$POINT.full no $ENOTEMPTY "not empty" "$(point=$POINT.full prepare_json "$RO")"
	is_writable
	check_not findmnt "/dev/$disk"
}

mount_and_unmount() {
	bad_points
	yes "$(mount_json ext4 rw,noatime,_netdev ",\"wwid\":\"uuid.$UUID\"")"
	[ "$(findmnt -no SOURCE $POINT)" = "/dev/$disk" ] || fail "mounted is $(findmnt -no SOURCE $POINT)"
	findmnt -no OPTIONS $POINT | grep -q noatime || fail "options: $(findmnt -no OPTIONS $POINT)"
	echo hello > $POINT/hello
	yes "$(mount_json ext4 rw)"	# as it is
	no $EBUSY already "$(prepare_json)"
	no $ESTALE "left alone" "{\"call\":\"unmount\",\"point\":\"$POINT\",\"rdev\":[1,1]}"
	exec {held}> $POINT/held
	no $EBUSY fuser "{\"call\":\"unmount\",\"point\":\"$POINT\"}"
	exec {held}>&-
	yes "$(device_json unmount | sed "s,\"device\":\"[^\"]*\",\"point\":\"$POINT\",")"
	check_not findmnt $POINT
	yes "{\"call\":\"unmount\",\"point\":\"$POINT\"}"
	yes "$(prepare_json "$RO")"
	[ "$(value set_read_only)" = true ] || fail "it does not say that it set it read-only: $reply"
	yes "$(mount_json ext4 ro,noload)"
	[ "$(blockdev --getro "/dev/$disk")" = 1 ] && [ "$(cat $POINT/hello)" = hello ] || fail "not read-only, or not what was written"
	yes "{\"call\":\"unmount\",\"point\":\"$POINT\"}"
	no $EACCES "read-only" "$(mount_json ext4 rw)"
	yes "$(prepare_json "$RO")"
	[ "$(value set_read_only)" = false ] || fail "it says that it set it read-only: $reply"
	yes "$(mount_json ext4 ro,noload)"
	yes "{\"call\":\"unmount\",\"point\":\"$POINT\"}"
	yes "$(prepare_json ',"read_only_device":false')"
	yes "$(mount_json ext4 rw)"
	yes "{\"call\":\"unmount\",\"point\":\"$POINT\"}"
}

# The read-only flag of a device: only while it is mounted for reading, and never below the feet of another mount.
read_only_device() {
	local other=$POINT.other

	mkdir -p $other
	is_writable
	check mount "/dev/$disk" $other
	no $EBUSY "mounted already, at $other" "$(prepare_json "$RO")"
	is_writable
	check touch $other/still_writable
	check umount $other
	# In another mount namespace, where the table of mounts says nothing of it.
	unshare -m sh -c "mount /dev/$disk $other && touch /run/mounted && while [ ! -e /run/over ]; do sleep 0.1; done; umount $other" &
	wait_for test -e /run/mounted
	no $EBUSY "for ourselves" "$(prepare_json "$RO")"
	is_writable
	touch /run/over
	wait $! || fail "the other namespace's mount failed"
	yes "$(prepare_json "$RO")"
	no $EINVAL "dmesg" "$(mount_json xfs ro,norecovery)"
	yes "$(device_json restore ',"read_write_device":true')"
	is_writable
	yes "$(prepare_json "$RO")"
	yes "$(mount_json ext4 ro,noload)"
	no $EBUSY "mounted already, at $POINT" "$(device_json restore ',"read_write_device":true')"
	yes "$(device_json unmount ",\"point\":\"$POINT\",\"read_write_device\":true")"
	[ -z "$(value still_read_only)" ] || fail "still read-only: $reply"
	is_writable
}

# With a file open in it: gone from the tree, and what was written is on the device without anybody's sync.
lazy_and_written() {
	yes "$(mount_json ext4 rw)"
	exec {held}> $POINT/dirty
	echo what-nobody-has-synced >&"$held"
	yes "$(device_json unmount ",\"point\":\"$POINT\",\"lazy\":true,\"sync\":true")"
	[ -z "$(value sync_error)" ] || fail "not written: $reply"
	check_not findmnt $POINT
	dd "if=/dev/$disk" iflag=direct bs=1M count=$EXT4_MIB status=none | grep -ca what-nobody-has-synced || fail "what was written is not on the device"
	exec {held}>&-
}

xfs_state() {
	check mkfs.xfs -q -f "/dev/$disk"
	yes "$(device_json xfs_state)"
	[ "$(value clean)" = true ] || fail "a new XFS is not clean: $reply"
	yes "$(mount_json xfs rw)"
	echo hello > $POINT/hello
	# Dead as it would be with its device gone: its own root says EIO, and it must go all the same.
	check xfs_io -x -c "shutdown -f" $POINT
	yes "{\"call\":\"unmount\",\"point\":\"$POINT\"}"
	yes "$(device_json xfs_state)"
	[ "$(value clean)" = false ] || fail "an XFS with a log to replay is clean: $reply"
}

only_the_right_one() {
	local other

	no $ESTALE "left alone" "$(disconnect_json "$controller" nqn.other)"
	for other in /sys/class/nvme/*; do
		[ "$(cat "$other/transport")" != pcie ] || no $EINVAL "left alone" "$(disconnect_json "${other##*/}")"
	done
	disconnect
	yes "$(disconnect_json "$controller")"
}

not_let_in() {
	nqn=nqn.2026-01.org.fmove:none trouble nqn "$(nqn=nqn.2026-01.org.fmove:none connect_json)"
	nvmet_allow $NQN nqn.2014-08.org.nvmexpress:another
	trouble not-allowed "$(connect_json)"
	nvmet_forbid $NQN nqn.2014-08.org.nvmexpress:another
}

# Wherever a secret might have been left: messages, the kernel's log, processes.
secret_nowhere() {
	local key=${1#DHHC-1:00:}

	! dmesg | grep -qF "${key:0:20}" || fail "the secret is in the kernel's log"
	! grep -qF "${key:0:20}" <<< "$reply" || fail "the secret is in an answer"
}

# The target must know one, too.
both_secrets() {
	local theirs

	theirs=$(nvmet_secret)
	nvmet_allow $NQN $HOSTNQN "$1" "$theirs"
	(umask 077 && echo "$theirs" > /run/theirs)
	wrong_secret "$(connect_json ',"secret_file":"/run/right","controller_secret_file":"/run/wrong"')"
	connect ',"secret_file":"/run/right","controller_secret_file":"/run/theirs"'
	secret_nowhere "$theirs"
	disconnect
}

secrets() {
	local right wrong

	right=$(nvmet_secret)
	wrong=$(nvmet_secret)
	nvmet_allow $NQN $HOSTNQN "$right"
	(umask 077 && echo "$right" > /run/right && echo "$wrong" > /run/wrong && echo nonsense > /run/nonsense)
	trouble secret "$(connect_json)"
	wrong_secret "$(connect_json ',"secret_file":"/run/wrong"')"
	trouble value "$(connect_json ',"secret_file":"/run/nonsense"')"
	chmod 644 /run/right
	trouble value "$(connect_json ',"secret_file":"/run/right"')"
	chmod 600 /run/right
	connect ',"secret_file":"/run/right"'
	secret_nowhere "$right"
	secret_nowhere "$wrong"
	disconnect
	both_secrets "$right"
	nvmet_forbid $NQN $HOSTNQN
	echo 1 > $NVMET/subsystems/$NQN/attr_allow_any_host
}

# Linux's target ends the connection of a host whose secret is wrong while its answer is on the way. When the answer loses, the host's
# kernel waits for as long as it waits for any answer of a controller, a minute unless told otherwise: past the helper's deadline.
wrong_secret() {
	local timeout=/sys/module/nvme_core/parameters/admin_timeout was

	was=$(cat $timeout)
	echo 8 > $timeout
	trouble secret "$1"
	echo "$was" > $timeout
}

has_no_helper() {
	[ -z "$(pgrep -x "nvme_helper|nvmed-helper")" ]
}

# Over IPv6, in two ways of writing it (the kernel would take them for two targets); with digests and a bound source.
ipv6_and_options() {
	local family_addr

	nvmet_port 2 ::1 4420
	nvmet_show 2 $NQN
	yes "{\"call\":\"discover\",\"address\":\"::1\",\"port\":\"4420\",\"host_nqn\":\"$HOSTNQN\",\"host_id\":\"$HOSTID\"}"
	[ "$(value family)" = ipv6 ] || fail "the log: $reply"
	family_addr=$ADDR ADDR=::1
	connect
	ADDR=0:0:0:0:0:0:0:1
	yes "$(connect_json)"
	[ "$(value was_there) $(nvme_of $NQN)" = "true $controller" ] || fail "connected twice: $(nvme_of $NQN)"
	ADDR=$family_addr
	disconnect
	nvmet_hide 2 $NQN
	connect ',"header_digest":true,"data_digest":true,"host_address":"127.0.0.3","queue_size":32'
	grep -q NVME_HOST_TRADDR=127.0.0.3 "/sys/class/nvme/$controller/uevent" || fail "another source: $(cat "/sys/class/nvme/$controller/uevent")"
	[ "$(cat "/sys/class/nvme/$controller/sqsize")" = 31 ] || fail "another queue size: $(cat "/sys/class/nvme/$controller/sqsize")"
	yes "$(device_json probe)"
	disconnect
}

# The network swallows everything while the device is read: nothing can end that read but the network's return.
hang() {
	local helper_pid

	connect
	check tc qdisc add dev lo root netem loss 100%
	"$FMOVE_BIN/nvme_helper" --timeout 3 --linger "$(device_json probe)" "$(device_json probe)" > /run/hang &
	helper_pid=$!
	wait_for grep -q "\"code\":$EBUSY" /run/hang
	head -n 1 /run/hang | grep -q "\"code\":$ETIMEDOUT.*\"stuck\":1" || fail "no deadline: $(cat /run/hang)"
	say "$(head -n 1 /run/hang | json text)"
	check kill -0 $helper_pid
	check tc qdisc del dev lo root
	wait $helper_pid || true
	[ "$(tail -n 1 /run/hang)" = '{"stuck":0}' ] || fail "it never went: $(cat /run/hang)"
	yes "$(device_json probe)"
	disconnect
}

nothing_there_yet
discover
identity
probe
mount_and_unmount
read_only_device
lazy_and_written
xfs_state
only_the_right_one
not_let_in
secrets
ipv6_and_options
hang
nvmet_down
wait_for has_no_helper
