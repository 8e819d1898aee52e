# about: a target that is restarted again and again under verified writes: nothing lost, no second controller, nothing leaks; how soon it is back
# guests: 1
# cpus: 2
# when: soak
#
# Goal:   every restart of the target ends with the same controller and the same mount, with every block as it was written, and the
#         supervisor has no more descriptors, children and memory than before. It is back reconnect_delay after the target, at most.
# Method: fio writes and verifies on the volume while the target's port is closed for up to two seconds and opened again, time after time
#         (FMOVE_LAB_ROUNDS, else a sample). Recovery is the time from the open port to a controller that is live. With the full count
#         the target is then away for 90 s, three times as long as ctrl_loss_timeout.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/nvmet.sh
. "$LAB_TOP/tests/lab/nvmet.sh"

NQN=nqn.2026-01.org.fmove:restart
UUID=aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee
D=/run/nvmed
POINT=/run/volume
DELAY_S=1			# reconnect_delay
GROWTH_KIB_MAX=512		# of the supervisor, after the first round
LOSS_S=30 AWAY_S=90
rounds=${LAB_ROUNDS:-3}
RANDOM=$LAB_SEED
trap 'cp -f $D/log /out/nvmed.log 2> /dev/null || true' EXIT

need findmnt fio mkfs.ext4 pgrep
mkfifo /run/tick
exec {tick}<> /run/tick

# configure CTRL_LOSS
configure() {
	mkdir -p $POINT
	nvmed_conf $D "name = \"data\"; subsystem = \"$NQN\"; address = \"127.0.0.2:4420\"; uuid = \"$UUID\"; mount = \"$POINT\"; type = \"ext4\";
		writer = \"n1\"; ctrl_loss_timeout = \"$1\"; reconnect_delay = \"${DELAY_S}s\"; queues = 1;"
}

# Each run writes every block of the file and reads it back. Slowly: it is to be there, not to be fast.
load() {
	while [ ! -e /run/enough ]; do
		fio --name=load --filename=$POINT/load --size=4M --bs=16k --rw=randwrite --direct=1 --ioengine=io_uring --iodepth=2 --rate=2m \
			--verify=crc32c --verify_fatal=1 --do_verify=1 > /run/fio 2>&1 || return 1
		echo once >> /run/verified
	done
}

kib_of_nvmed() {
	awk '$1 == "VmRSS:" { print $2 }' "/proc/$nvmed/status"
}

# Sets descriptors, children and kib.
count_things() {
	descriptors=$(find "/proc/$nvmed/fd" -mindepth 1 | wc -l)
	children=$(pgrep -cP "$nvmed" || true)
	kib=$(kib_of_nvmed)
}

# Without running a program: those take longer than what is measured.
wait_live() {
	local state='' end=$((SECONDS + HANG_S))

	until read -r state < "/sys/class/nvme/$controller/state" && [ "$state" = live ]; do
		((SECONDS < end)) || fail "$controller is $state"
		read -r -t 0.01 -u "$tick" || true
	done
}

restart() {
	local begin

	nvmet_hide 1 $NQN
	read -r -t "$((RANDOM % 2)).$((RANDOM % 10))" -u "$tick" || true
	nvmet_show 1 $NQN
	begin=${EPOCHREALTIME/./}
	wait_live
	echo $(((${EPOCHREALTIME/./} - begin) / 1000)) >> /run/recovery
	wait_for nvmed_is data state mounted
	[ "$(nvme_of $NQN)" = "$controller" ] || fail "not the controller it was, $controller: $(nvme_of $NQN)"
	kill -0 "$fio" 2> /dev/null || fail "fio has ended: $(tail -n 5 /run/fio)"
}

# has_no_more DESCRIPTORS CHILDREN: of them, as soon as it has seen that who asked it last has gone.
has_no_more() {
	count_things
	((descriptors <= $1 && children <= $2))
}

no_leak() {
	local kib_now=$kib

	wait_for has_no_more "$descriptors" "$children"
	((kib <= kib_now + GROWTH_KIB_MAX)) || fail "it had $kib_now KiB and has $kib"
}

say_recovery() {
	sort -n /run/recovery | awk -v delay=$DELAY_S -v kib="$kib" '{ ms[NR] = $1 }
		function at(p) { i = int(NR * p + 0.999999); return ms[i < 1 ? 1 : i] }
		END { printf "%d rounds, back after p50 %d ms, p99 %d ms, max %d ms (reconnect_delay %d s); supervisor %d KiB\n",
			NR, at(0.5), at(0.99), ms[NR], delay, kib }' > /run/line
	say "seed $LAB_SEED: $(cat /run/line), $(wc -l < /run/verified) files written and verified"
}

is_gone() {
	[ -z "$(nvme_of $NQN)" ]
}

# Longer than the kernel's patience, with a file open on the mount.
away() {
	local begin=$SECONDS held

	check "$FMOVE_BIN/fmove" nvme down data --timeout ${HANG_S}s
	configure ${LOSS_S}s
	check kill -HUP "$nvmed"
	check "$FMOVE_BIN/fmove" nvme up data --wait ${HANG_S}s
	cksum $POINT/load > /run/sum
	exec {held}< $POINT/load
	nvmet_hide 1 $NQN
	wait_for is_gone
	wait_for nvmed_is data state waiting
	check_not findmnt $POINT
	exec {held}<&-
	while ((SECONDS - begin < AWAY_S)); do
		sleep 1
	done
	nvmet_show 1 $NQN
	wait_for nvmed_is data state mounted
	[ "$(nvme_of $NQN | wc -l)" = 1 ] || fail "not one controller: $(nvme_of $NQN)"
	[ "$(cksum $POINT/load)" = "$(cat /run/sum)" ] || fail "the file is not what it was"
	say "away for $AWAY_S s with ctrl_loss_timeout = ${LOSS_S}s: mounted again"
}

need_module nvme_tcp
modprobe brd rd_nr=1 rd_size=65536 || skip "the kernel has no module brd"
check mkfs.ext4 -q -F /dev/ram0
nvmet_up $NQN /dev/ram0 $UUID
nvmet_port 1 127.0.0.2 4420
nvmet_show 1 $NQN
configure never
nvmed_start $D
wait_for nvmed_is data state mounted
controller=$(nvme_of $NQN)
load &
fio=$!
wait_for test -e $POINT/load
restart
rm /run/recovery
count_things
for ((round = 1; round <= rounds; round++)); do
	restart
done
no_leak
touch /run/enough
wait $fio || fail "what was written is not there: $(tail -n 5 /run/fio)"
say_recovery
[ -z "$LAB_ROUNDS" ] || away
check "$FMOVE_BIN/fmove" nvme down data --timeout ${HANG_S}s
is_gone || fail "still connected: $(nvme_of $NQN)"
nvmed_end TERM
nvmet_down
