# about: processor time and memory of fmove-nvmed while it supervises 64 mounted volumes and nothing happens
# guests: 1
# cpus: 2
# timeout: 3600
#
# Goal:   volumes that are as they should be cost next to nothing.
# Method: 64 subsystems of the kernel's target, each connected and mounted in the same guest. Five minutes in five windows: processor time
#         from /proc, children included. An emulated processor says nothing of a real one, so meanwhile inventory_load reads a copy of what
#         the supervisor reads, in memory; `bench/run nvme` lets it read the same copy outside, and the two times say how much slower this is.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/nvmet.sh
. "$LAB_TOP/tests/lab/nvmet.sh"

VOLUMES=64
NQN=nqn.2026-01.org.fmove:idle
D=/run/nvmed
HANG_S=1200			# when to give up waiting: all are connected at once, by one emulated machine to itself
SETTLE_S=40			# until nothing is looked at more often because it is new
WINDOWS=5 WINDOW_S=60		# at least
COPY=/run/copy			# of /sys/class/nvme*, with what the inventory reads
COPIED=' state transport subsysnqn hostnqn uevent cntlid iopolicy ana_state size nsid ro dev wwid nguid uuid '
trap 'cp -f $D/log /out/nvmed.log 2> /dev/null || true' EXIT

make_volumes() {
	local i uuid

	need_module nvme_tcp
	modprobe brd rd_nr=$VOLUMES rd_size=4096 || skip "the kernel has no module brd"
	volumes=()
	nvmet_port 1 127.0.0.2 4420
	for ((i = 0; i < VOLUMES; i++)); do
		uuid=$(printf 'aaaaaaaa-bbbb-cccc-dddd-%012x' $((i + 1)))
		mkfs.ext4 -q -F /dev/ram$i || fail "mkfs.ext4 /dev/ram$i"
		nvmet_up $NQN:$i /dev/ram$i "$uuid"
		nvmet_show 1 $NQN:$i
		mkdir -p /run/volume/$i
		volumes+=("name = \"v$i\"; subsystem = \"$NQN:$i\"; address = \"127.0.0.2:4420\"; uuid = \"$uuid\"; mount = \"/run/volume/$i\";
			type = \"ext4\"; writer = \"n1\"; queues = 1; queue_size = 16;")
	done
}

are_mounted() {
	[ "$("$FMOVE_BIN/fmove" nvme list | awk '$2 == "mounted"' | wc -l)" = $VOLUMES ]
}

# copy_object FROM TO: names of all that is there, values of what is read, devices below it.
copy_object() {
	local from=$1 to=$2 path name text

	mkdir -p "$to"
	for path in "$from"/*; do
		name=${path##*/}
		if [[ $name =~ ^nvme[0-9]+(c[0-9]+)?n[0-9]+$ ]]; then
			copy_object "$path" "$to/$name"
			continue
		fi
		text=''
		[[ $COPIED != *[[:space:]]${name}[[:space:]]* ]] || text=$(< "$path") || true
		printf '%s\n' "$text" > "$to/$name"
	done
}

copy_inventory() {
	local object

	for object in /sys/class/nvme/* /sys/class/nvme-subsystem/*; do
		copy_object "$object" "$COPY$object"
	done
}

# Of the supervisor and of what it has started and waited for, in clock ticks.
cpu_ticks() {
	sed 's/.*) //' "/proc/$nvmed/stat" | awk '{ print $12 + $13 + $14 + $15 }'
}

window() {
	local ticks begin us rest

	ticks=$(cpu_ticks)
	begin=${EPOCHREALTIME/./}
	read -r us rest <<< "$("$FMOVE_BIN/inventory_load" $COPY $WINDOW_S 1000)"
	ticks=$(($(cpu_ticks) - ticks))
	begin=$((${EPOCHREALTIME/./} - begin))
	[ "$rest" = "$VOLUMES $VOLUMES" ] || fail "the copy is not complete: $rest"
	say "pair idle $(awk -v t="$ticks" -v hz="$(getconf CLK_TCK)" -v us="$begin" 'BEGIN { printf "%.3f", t / hz / us * 1e8 }') $us"
}

# In KiB; helpers that are running count too, and with Rss what they share with it counts again.
memory() {
	local pid

	for pid in $nvmed $(pgrep -P "$nvmed" || true); do
		cat "/proc/$pid/smaps_rollup"
	done | awk '$1 == "Rss:" { r += $2 } $1 == "Pss:" { p += $2 } END { print r, p }'
}

need mkfs.ext4 pgrep tar
[ -x "$FMOVE_BIN/inventory_load" ] || fail "no inventory_load in $FMOVE_BIN"
make_volumes
nvmed_conf $D "${volumes[@]}"
begin=$SECONDS
nvmed_start $D
wait_for are_mounted
say "$VOLUMES volumes are mounted after $((SECONDS - begin)) s"
copy_inventory
check tar -C $COPY -cf /out/inventory.tar .
sleep $SETTLE_S
for ((i = 0; i < WINDOWS; i++)); do
	window
done
are_mounted || fail "not all volumes are mounted any more"
say "pair memory $(memory)"
nvmed_end TERM
