# about: two paths to one mounted volume: one is lost and comes back, ANA states change, the target takes fewer queues
# guests: 1
# cpus: 2
# threads: single
#
# Goal:   as long as one path can be used, reading and writing go on; status says how many paths there are and in which state; when all
#         are back it is the same device with the same controllers and the same policy.
# Method: target and initiator in one kernel, two ports at two addresses of the loopback device, the namespace in memory. The guest has two
#         processors because the kernel makes no more queues than there are of them; that they take turns is as good.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/nvmet.sh
. "$LAB_TOP/tests/lab/nvmet.sh"

NQN=nqn.2026-01.org.fmove:paths
UUID=aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee
D=/run/nvmed
POINT=/run/volume
RANDOM=$LAB_SEED
trap 'cp -f $D/log /out/nvmed.log 2> /dev/null || true' EXIT

need findmnt mkfs.ext4 timeout

is() {
	nvmed_is data "$1" "$2"
}

has_paths() {
	is paths_live "$1" && is state "$2"
}

has_policy() {
	grep -qx "$1" /sys/class/nvme-subsystem/*/iopolicy
}

# Written, on the device, and read from there: through whatever path there is.
goes_on() {
	local text=$RANDOM

	echo "$text" > $POINT/text
	check timeout $HANG_S sync $POINT/text
	[ "$(timeout $HANG_S dd if=$POINT/text iflag=direct bs=4096 status=none)" = "$text" ] || fail "$1: what is read is not what was written"
}

same_controllers() {
	[ "$(nvme_of $NQN)" = "$controllers" ] || fail "other controllers: $(nvme_of $NQN)"
	[ "$(findmnt -no SOURCE $POINT)" = "$source" ] || fail "another device is mounted: $(findmnt -n $POINT)"
}

start() {
	need_module nvme_tcp
	modprobe brd rd_nr=1 rd_size=65536 || skip "the kernel has no module brd"
	check mkfs.ext4 -q -F /dev/ram0
	nvmet_up $NQN /dev/ram0 $UUID
	for port in 1 2; do
		nvmet_port $port 127.0.0.$((port + 1)) 4420
		nvmet_show $port $NQN
	done
	mkdir -p $POINT
	nvmed_conf $D "name = \"data\"; subsystem = \"$NQN\"; address = \"127.0.0.2:4420\"; paths = [ \"127.0.0.3:4420\" ]; uuid = \"$UUID\";
		mount = \"$POINT\"; type = \"ext4\"; writer = \"n1\"; iopolicy = \"round-robin\"; reconnect_delay = \"1s\"; queues = 2;"
	nvmed_start $D
	wait_for has_paths 2 mounted
	wait_for has_policy round-robin
	controllers=$(nvme_of $NQN)
	source=$(findmnt -no SOURCE $POINT)
}

one_path_less() {
	nvmet_hide 2 $NQN
	wait_for has_paths 1 degraded
	say "one path of two: $(nvmed_field data text)"
	goes_on "with one path"
	has_policy round-robin || fail "the policy is $(cat /sys/class/nvme-subsystem/*/iopolicy)"
	nvmet_show 2 $NQN
	wait_for has_paths 2 mounted
	same_controllers
	goes_on "with two paths again"
}

# ana PORT STATE
ana() {
	echo "$2" > "$NVMET/ports/$1/ana_groups/1/ana_state"
}

ana_is() {
	"$FMOVE_BIN/fmove" nvme status data --json | tr -d '\n' | grep -o '"ana": *"[a-z-]*"' | sort | tr -d ' \n' | grep -qx "$1"
}

# The path that is called optimized is lost to it, the other is slow; and then there is none, until one comes back.
ana_states() {
	ana 1 non-optimized
	ana 2 inaccessible
	wait_for ana_is '"ana":"inaccessible""ana":"non-optimized"'
	goes_on "with a path that is not optimized"
	ana 1 inaccessible
	wait_for ana_is '"ana":"inaccessible""ana":"inaccessible"'
	findmnt $POINT > /dev/null || fail "it was unmounted"
	(sleep 3; ana 2 optimized) &
	goes_on "with a path that came back"
	ana 1 optimized
	wait_for ana_is '"ana":"optimized""ana":"optimized"'
	wait_for has_paths 2 mounted
	same_controllers
}

# queues_are NUMBER: of either controller; the kernel counts the admin queue too.
queues_are() {
	local controller

	for controller in $controllers; do
		[ "$(cat "/sys/class/nvme/$controller/queue_count")" = $(($1 + 1)) ] || return 1
	done
	is queues "$1" && has_paths 2 mounted
}

fewer_queues() {
	wait_for queues_are 2
	echo 1 > $NVMET/subsystems/$NQN/attr_qid_max
	wait_for queues_are 1
	goes_on "with one queue"
	echo 8 > $NVMET/subsystems/$NQN/attr_qid_max
	wait_for queues_are 2
	goes_on "with two queues again"
	same_controllers
}

start
one_path_less
ana_states
fewer_queues
check "$FMOVE_BIN/fmove" nvme down data --timeout ${HANG_S}s
[ -z "$(nvme_of $NQN)" ] || fail "still connected: $(nvme_of $NQN)"
nvmed_end TERM
nvmet_down
