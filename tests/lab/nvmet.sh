# SPDX-License-Identifier: MIT
# nvmet.sh - the kernel's own NVMe-TCP target, for lab tests: sourced by a test after guest.sh.
# shellcheck shell=bash
#
# A target is a subsystem (nvmet_up) with a namespace for each device, and ports on which it is shown (nvmet_port, nvmet_show). Any host
# may connect until the first nvmet_allow. Identity is fixed by the UUIDs given, so a target that is made again is the same one.
# Target and initiator may be one guest's. The second half is the supervisor's side (nvmed_conf, nvmed_start): fmove-nvmed in this guest.

NVMET=/sys/kernel/config/nvmet

# nvmet_load: the modules and configfs; skips the test where the kernel has no target.
nvmet_load() {
	need_module configfs nvmet nvmet_tcp
	mountpoint -q /sys/kernel/config || check mount -t configfs none /sys/kernel/config
}

# nvmet_up NQN DEV UUID [DEV UUID]...: a subsystem with namespaces 1, 2 ...
nvmet_up() {
	local nqn=$1 subsystem=$NVMET/subsystems/$1 id=1 number
	shift

	nvmet_load
	check mkdir "$subsystem"
	echo 1 > "$subsystem/attr_allow_any_host"
	nvmet_number "$nqn"
	echo $number > "$subsystem/attr_serial"		# random at each making otherwise
	while [ $# -gt 0 ]; do
		nvmet_ns "$nqn" $id "$1" "$2"
		id=$((id + 1))
		shift 2
	done
}

# nvmet_ns NQN ID DEV UUID: one more namespace; with nvmet_reservations=1 set, one that can be reserved, if the kernel has that.
nvmet_ns() {
	local ns=$NVMET/subsystems/$1/namespaces/$2

	check mkdir "$ns"
	printf %s "$3" > "$ns/device_path"
	echo "$4" > "$ns/device_uuid"
	[ ! -e "$ns/resv_enable" ] || echo "${nvmet_reservations:-0}" > "$ns/resv_enable"	# Linux 6.13
	echo 1 > "$ns/enable"
}

# nvmet_ns_down NQN ID
nvmet_ns_down() {
	echo 0 > "$NVMET/subsystems/$1/namespaces/$2/enable"
	check rmdir "$NVMET/subsystems/$1/namespaces/$2"
}

# nvmet_ns_again NQN ID UUID: the same one with another identity. The initiator may find the new one before it knew that the old one
# went; then it takes that away, and does not look again by itself.
nvmet_ns_again() {
	local ns=$NVMET/subsystems/$1/namespaces/$2

	echo 0 > "$ns/enable"
	echo "$3" > "$ns/device_uuid"
	echo 1 > "$ns/enable"
}

# nvmet_number TEXT: sets `number`, always the same one for a text, below 2^32.
nvmet_number() {
	local LC_ALL=C i char

	number=5381
	for ((i = 0; i < ${#1}; i++)); do
		printf -v char %d "'${1:i:1}"
		number=$(((number * 33 + char) & 0xffffffff))
	done
}

# nvmet_uuid NAME: always the same one for a name.
nvmet_uuid() {
	local number

	nvmet_number "$1"
	printf 'aaaaaaaa-bbbb-cccc-dddd-%012x' $number
}

# nvmet_port N ADDRESS PORT: where subsystems can be shown. Nobody listens there before one is.
nvmet_port() {
	local port=$NVMET/ports/$1 family=ipv4

	[[ $2 != *:* ]] || family=ipv6
	nvmet_load
	check mkdir "$port"
	echo tcp > "$port/addr_trtype"
	echo $family > "$port/addr_adrfam"
	echo "$2" > "$port/addr_traddr"
	echo "$3" > "$port/addr_trsvcid"
}

# nvmet_show N NQN, nvmet_hide N NQN: a port that shows nothing is closed, with all its connections.
nvmet_show() {
	check ln -s "$NVMET/subsystems/$2" "$NVMET/ports/$1/subsystems/$2"
}

nvmet_hide() {
	check rm "$NVMET/ports/$1/subsystems/$2"
}

# nvmet_allow NQN HOSTNQN [SECRET [CONTROLLER_SECRET]]: from the first on, only those hosts. A secret is the host's, whatever the subsystem.
nvmet_allow() {
	local host=$NVMET/hosts/$2

	[ -d "$host" ] || check mkdir "$host"
	echo 0 > "$NVMET/subsystems/$1/attr_allow_any_host"
	[ -e "$NVMET/subsystems/$1/allowed_hosts/$2" ] || check ln -s "$host" "$NVMET/subsystems/$1/allowed_hosts/$2"
	[ -z "${3:-}" ] || printf %s "$3" > "$host/dhchap_key"
	[ -z "${4:-}" ] || printf %s "$4" > "$host/dhchap_ctrl_key"
}

# nvmet_forbid NQN HOSTNQN
nvmet_forbid() {
	check rm "$NVMET/subsystems/$1/allowed_hosts/$2"
	check rmdir "$NVMET/hosts/$2"
}

# nvmet_secret: a new one for DH-HMAC-CHAP: 32 bytes and their CRC-32, which gzip happens to write behind its data.
nvmet_secret() {
	local key

	key=$(mktemp)
	head -c 32 /dev/urandom > "$key"
	printf 'DHHC-1:00:%s:' "$({ cat "$key"; gzip -c "$key" | tail -c 8 | head -c 4; } | base64 -w 0)"
	rm "$key"
}

# nvmet_down: all that there is.
nvmet_down() {
	local path

	for path in "$NVMET"/ports/*/subsystems/*; do
		[ ! -L "$path" ] || check rm "$path"
	done
	for path in "$NVMET"/ports/*; do
		[ ! -d "$path" ] || check rmdir "$path"
	done
	for path in "$NVMET"/subsystems/*/namespaces/*; do
		[ ! -d "$path" ] || { echo 0 > "$path/enable"; check rmdir "$path"; }
	done
	for path in "$NVMET"/subsystems/*/allowed_hosts/*; do
		[ ! -L "$path" ] || check rm "$path"
	done
	for path in "$NVMET"/subsystems/* "$NVMET"/hosts/*; do
		[ ! -d "$path" ] || check rmdir "$path"
	done
}

# attr_is FILE TEXT: that is its first line; a file that is not there holds nothing.
attr_is() {
	local line=

	{ read -r line < "$1"; } 2> /dev/null || true
	[ "$line" = "$2" ]
}

# nvme_of NQN: the controllers (nvme1 ...) that this guest has to it, one per line.
nvme_of() {
	local dir

	for dir in /sys/class/nvme/*; do
		! attr_is "$dir/subsysnqn" "$1" || echo "${dir##*/}"
	done
}

# nvme_disk NQN [NSID]: the block device (nvme1n1) of a namespace of it; fails while there is none that can be opened, which comes after
# all that /sys has of it.
nvme_disk() {
	local dir disk

	for dir in /sys/class/nvme-subsystem/*; do
		attr_is "$dir/subsysnqn" "$1" || continue
		for disk in "$dir"/nvme*n*; do
			if attr_is "$disk/nsid" "${2:-1}" && ! attr_is "$disk/wwid" "" && { : < "/dev/${disk##*/}"; } 2> /dev/null; then
				echo "${disk##*/}"
				return
			fi
		done
	done
	return 1
}

# nvme_foreign NQN ADDRESS HOSTNQN HOSTID: a controller made by somebody else; prints its name, or why the kernel made none.
nvme_foreign() {
	local answer fabrics status=0

	exec {fabrics}<> /dev/nvme-fabrics
	printf 'transport=tcp,traddr=%s,trsvcid=4420,nqn=%s,hostnqn=%s,hostid=%s,nr_io_queues=1' "$2" "$1" "$3" "$4" >&"$fabrics" || status=$?
	read -r answer <&"$fabrics" || true
	exec {fabrics}>&-
	[ $status = 0 ] || return $status
	sed 's/instance=\([0-9]*\),.*/nvme\1/' <<< "$answer"
}

# nvme_remove CONTROLLER: as its owner would.
nvme_remove() {
	echo 1 > "/sys/class/nvme/$1/delete_controller"
}

# --- the network between them ---------------------------------------------------------------------
#
# Both ends are this guest's, so all of it goes through the loopback device.

# net_bad WORD...: as netem says: `loss 100%` swallows everything without a word. net_good ends it.
net_bad() {
	need_module sch_netem
	check tc qdisc replace dev lo root netem "$@"
}

net_good() {
	check tc qdisc del dev lo root
}

# net_reset ADDRESS: every connection to it ends with RST, at both ends.
net_reset() {
	check ss -K dst "$1"
}

# --- the supervisor -------------------------------------------------------------------------------
#
# Its directory has conf, log, sock and state. This host is always the same one.

NVMED_HOSTID=11111111-2222-3333-4444-555555555555
NVMED_HOSTNQN=nqn.2014-08.org.nvmexpress:uuid:$NVMED_HOSTID

# nvmed_conf DIR VOLUME...: each the inside of one element of `volumes`. This node is n1, there is no fmoved, and no other node counts.
nvmed_conf() {
	local dir=$1 volume list=''
	shift

	for volume in "$@"; do
		list+="${list:+, }{ nodes = [ ]; $volume }"
	done
	mkdir -p "$dir"
	cat > "$dir/conf" <<-C
	node = { name = "n1"; state_directory = "null:"; };
	nvme = { host_nqn = "$NVMED_HOSTNQN"; socket = "$dir/sock"; state_directory = "$dir/state"; };
	volumes = ( $list );
	C
}

# nvmed_start DIR: sets nvmed, its process, and FMOVE_NVMED_SOCKET; ready when this returns.
nvmed_start() {
	export FMOVE_NVMED_SOCKET=$1/sock
	"$FMOVE_BIN/fmove-nvmed" --config "$1/conf" >> "$1/log" 2>&1 &
	nvmed=$!
	wait_for "$FMOVE_BIN/fmove" nvme list
}

# nvmed_end SIGNAL: and waits for its end.
nvmed_end() {
	check kill "-$1" "$nvmed"
	await_end "$nvmed" || fail "fmove-nvmed does not end after SIG$1"
	wait "$nvmed" || [ "$1" = KILL ] || fail "fmove-nvmed ended with status $?"
}

# nvmed_get VOLUME KEY: sets `text` to its status and `field` to that of it; of keys that each controller has, to the first one's. fmove is all
# that is started: from a pipe the shell would read byte by byte, in two processes of its own, which takes an emulated processor longer than to
# ask.
nvmed_get() {
	local LC_ALL=C key="\"$2\": *(\"[^\"]*\"|[^,}"$'\n'"]*)" file=/run/nvmed_get.$BASHPID status=0

	field='' text=''
	"$FMOVE_BIN/fmove" nvme status "$1" --json > "$file" 2> /dev/null || status=$?
	IFS= read -r -d '' text < "$file" || true
	[[ $text =~ $key ]] || return $status
	field=${BASH_REMATCH[1]#\"}
	field=${field%\"}
	return $status
}

# nvmed_field VOLUME KEY: prints it.
nvmed_field() {
	local field text status=0

	nvmed_get "$@" || status=$?
	printf '%s\n' "$field"
	return $status
}

# nvmed_is VOLUME KEY VALUE: for wait_for.
nvmed_is() {
	local field text

	nvmed_get "$1" "$2" || true
	[ "$field" = "$3" ]
}

# nvmed_says VOLUME KEY WORD: that word is in it.
nvmed_says() {
	local field text

	nvmed_get "$1" "$2" || true
	[[ $field = *"$3"* ]]
}

has_no_helper() {
	[ -z "$(pgrep -x nvmed-helper)" ]
}

# no_helper: of fmove-nvmed is left, once those are gone that were about to end. Where it is called, pgrep is needed.
no_helper() {
	wait_for has_no_helper
}
