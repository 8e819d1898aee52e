# SPDX-License-Identifier: MIT
# volume.sh - a volume over NVMe-TCP within one guest, behind a link that may be limited; sourced by the scripts beside it, which set D.
# shellcheck shell=bash

# shellcheck source=tests/lab/nvmet.sh
. "$LAB_TOP/tests/lab/nvmet.sh"

VOLUME_ADDR=127.0.0.2
VOLUME_NQN=nqn.2026-01.org.fmove:bench
VOLUME_UUID=aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee
POINT=/run/volume

# volume_up MIB: in the memory of the kernel's target, mounted at POINT by fmove-nvmed.
volume_up() {
	need_module nvme_tcp
	modprobe brd rd_nr=1 rd_size=$(($1 * 1024)) || skip "the kernel has no module brd"
	check mkfs.ext4 -q -F /dev/ram0
	nvmet_up $VOLUME_NQN /dev/ram0 $VOLUME_UUID
	nvmet_port 1 $VOLUME_ADDR 4420
	nvmet_show 1 $VOLUME_NQN
	mkdir -p $POINT
	nvmed_conf "$D/nvmed" "name = \"data\"; subsystem = \"$VOLUME_NQN\"; address = \"$VOLUME_ADDR:4420\"; uuid = \"$VOLUME_UUID\"; mount = \"$POINT\";
		type = \"ext4\"; writer = \"n1\";"
	nvmed_start "$D/nvmed"
	wait_for nvmed_is data state mounted
}

# volume_limit RATE: what the target sends; nothing else that goes over the loopback device.
volume_limit() {
	need_module sch_htb cls_u32
	check tc qdisc add dev lo root handle 1: htb
	check tc class add dev lo parent 1: classid 1:1 htb rate "$1" burst 128k
	check tc filter add dev lo parent 1: protocol ip u32 match ip src $VOLUME_ADDR/32 flowid 1:1
}

cold() {
	echo 3 > /proc/sys/vm/drop_caches
}
