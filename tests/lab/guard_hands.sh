# SPDX-License-Identifier: MIT
# guard_hands.sh - a person mounts by hand what another node writes; sourced after guard.sh. What
# is on the disk afterwards nobody promises, so it comes last.
# shellcheck shell=bash

# At a node: mount_by_hand VOLUME NAMESPACE: at the volume's point, with a file open on it. The
# file system's own check, mmp, would refuse it, so it is for another one.
mount_by_hand() {
	check mount "/dev/$(nvme_disk $NQN "$2")" "$MNT/$1" || return
	sleep infinity < "$MNT/$1/.beat" &
	held=($!)
}

# In `status`, for programs and for people, in the log, and in an exit status of its own.
alarms() {
	local status=0

	nvmed_says "$1" alarm "$2" || return
	fmn status "$1" --check > /run/check || status=$?
	[ $status = 5 ] || { echo "status --check: $status"; return 1; }
	grep -q "$2 has it mounted read-write as well" /run/check || return
	grep -q "volume $1: ALARM: $2 has it mounted" $N/log
}

is_no_alarm() {
	[ -z "$(nvmed_field "$1" alarm)" ] || return
	grep -q "volume $1: no two nodes have it read-write any more" $N/log
}

# Who is not the writer leaves, as soon as it can; the writer keeps it.
two_writers() {
	what="two nodes that write"
	node 2 mount_by_hand own_xfs 2
	node 1 wait_for alarms own_xfs n2
	node 2 wait_for alarms own_xfs n1
	node 1 are own_xfs=rw
	node 2 are own_xfs=rw
	node 2 release
	node 2 become own_xfs=refused
	node 1 wait_for is_no_alarm own_xfs
	node 2 wait_for is_no_alarm own_xfs
	node 1 are own_xfs=rw
}
