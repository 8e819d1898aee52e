# SPDX-License-Identifier: MIT
# volumes.sh - for lab tests: sourced by a test after guest.sh and nvmet.sh.
# shellcheck shell=bash
#
# Volumes over targets of this very guest: each at an address of its own, so that its port can be closed and its bytes counted.

PREFIX=nqn.2026-01.org.fmove
D=/run/nvmed
MNT=/run/mnt
trap 'cp -f $D/log /out/nvmed.log 2> /dev/null || true' EXIT

# `other` stands beside `short`: a subsystem at the same port.
addr_of() {
	case $1 in
	data)		echo 127.0.0.2 ;;
	reads)		echo 127.0.0.3 ;;
	short|other)	echo 127.0.0.4 ;;
	grows)		echo 127.0.0.5 ;;
	esac
}

# target_of NAME DEV: with the files of /run/files, at a port that has the number of the last byte of its address.
target_of() {
	local addr port

	addr=$(addr_of "$1")
	port=${addr##*.}
	check mkfs.ext4 -q -F -b 4096 -d /run/files "$2"
	nvmet_up "$PREFIX:$1" "$2" "$(nvmet_uuid "$1")"
	[ -d "$NVMET/ports/$port" ] || nvmet_port "$port" "$addr" 4420
	nvmet_show "$port" "$PREFIX:$1"
}

# volume NAME MORE: for nvmed_conf, to be mounted at MNT/NAME; volume_uuid NAME: the UUID of its namespace, as the configuration has it.
volume() {
	mkdir -p "$MNT/$1"
	printf 'name = "%s"; subsystem = "%s:%s"; address = "%s:4420"; mount = "%s/%s"; type = "ext4"; ' \
		"$1" $PREFIX "$1" "$(addr_of "$1")" $MNT "$1"
	printf 'reconnect_delay = "1s"; queues = 1; %s' "$2"
}

volume_uuid() {
	printf 'uuid = "%s";' "$(nvmet_uuid "$1")"
}
