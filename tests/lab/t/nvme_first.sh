# about: from two machines and a storage box to a dataset that both read, by the lines of fmove-nvme(1) alone
# guests: 3
# disks: 1 96M
# when: soak
#
# Goal:   who follows README.md, Two nodes, and fmove-nvme(1), A FIRST DATASET, line by line, has in the end a sealed dataset that both
#         nodes read, changes it, and was told at each step what comes next.
# Method: guest 1 is the storage box, guests 2 and 3 are gpu1 and gpu2. They have no configuration but what fmove init, fmove join and
#         the page's lines make; the lines of volumes are those that fmove nvme discover prints. Daemons are started by hand, where the
#         page has systemctl.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/nvmet.sh
. "$LAB_TOP/tests/lab/nvmet.sh"
# shellcheck source=tests/lab/orders.sh
. "$LAB_TOP/tests/lab/orders.sh"

NQN=nqn.2026-01.org.example:data
BOX=$(wire_addr 0 1)
CONF=/etc/fmove/fmove.conf
trap 'cp -f /run/*.log "$CONF" "/out/" 2> /dev/null || true; "$FMOVE_BIN/fmove" nvme status > "/out/state.$GUEST" 2>&1 || true' EXIT

fm() {
	"$FMOVE_BIN/fmove" "$@"
}

is() {
	nvmed_is data "$1" "$2"
}

# --- what is done on a node -----------------------------------------------------------------------

machine() {
	check hostname "gpu$((GUEST - 1))"
	need_module nvme_tcp ext4
	mkdir -p /data/models
	[ "$GUEST" = 2 ] || check ip route add "$BOX" via "$(wire_addr 1 1)"
}

start_fmoved() {
	"$FMOVE_BIN/fmoved" --config $CONF > /run/fmoved.log 2>&1 &
	wait_for fm status > /dev/null
}

first_node() {
	check fm init --store models=/data/models --address "$(wire_addr 2):7471" > /out/init
	start_fmoved
}

second_node() {
	local line

	line=$(grep -m 1 -o 'fmove join .*' /out/init) || fail "no line for the next node: $(cat /out/init)"
	# shellcheck disable=SC2086
	check fm ${line#fmove } --store models=/data/models
	start_fmoved
}

step_1() {
	mkdir -p /etc/nvme
	rm -f /etc/nvme/host*
	printf 'nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-55555555555%s\n' "$GUEST" > /etc/nvme/hostnqn
	"$FMOVE_BIN/fmove-nvmed" > /run/nvmed.log 2>&1 &
	echo $! > /run/nvmed.pid
	wait_for fm nvme list > /dev/null
}

discover() {
	fm nvme discover "$BOX" 2> /out/discover.8009 && fail "the box answers at 8009, too"
	check fm nvme discover "$BOX:4420" > /out/discovered
}

# The lines at its end, with what is ours to add.
step_2() {
	sed -n '/^volumes/,$p' /out/discovered | sed 's,^[ \t]*name = ,    mount = "/srv/data"; mode = "shared-read"; writer = "gpu1";\n&,' >> $CONF
	mkdir -p /srv/data
	check kill -HUP "$(cat /run/nvmed.pid)"
	wait_for fm nvme status data > /dev/null
}

says() {
	fm nvme status data > /out/status 2>&1
	grep -q -e "$1" /out/status
}

step_3() {
	local device

	wait_for says 'no known file system'
	device=$(nvmed_field data device)
	check mkfs.ext4 -q -O mmp "$device"
	check fm nvme up data
	mkdir -p dataset && head -c 1M /dev/urandom > dataset/train && sha256sum < dataset/train > /out/sum
	check cp -r dataset /srv/data/
	check fm nvme seal data
}

reads() {
	wait_for is state mounted
	is is_read_write false || fail "a reader has it read-write"
	[ "$(sha256sum < /srv/data/dataset/train)" = "$(cat /out/sum)" ] || fail "other bytes than the writer's"
	check_not touch /srv/data/x
}

change() {
	check fm nvme unseal data
	head -c 1M /dev/urandom > /srv/data/dataset/train
	sha256sum < /srv/data/dataset/train > /out/sum
	check fm nvme seal data
}

# --- what the person does -------------------------------------------------------------------------

on() {
	tell "$@" || fail "guest $1, $2: $(cat "/out/said.$1")"
}

guest_1() {
	local i

	need_module nvmet_tcp
	nvmet_port 1 "$BOX" 4420
	nvmet_up $NQN /dev/lab/disk1 "$(nvmet_uuid first)"
	nvmet_show 1 $NQN
	for i in 2 3; do
		on $i machine
	done
	on 2 first_node
	on 3 second_node
	for i in 2 3; do
		on $i step_1
	done
	on 2 discover
	say "discover, at the port of the page: $(cat /out/discover.8009)"
	for i in 2 3; do
		on $i step_2
	done
	on 3 wait_for says 'sealed'
	say "the reader, before: $(grep -i seal /out/status)"
	on 2 step_3
	on 3 reads
	on 2 change
	on 3 reads
	say "two machines and a storage box: a sealed dataset that both read, and that was changed"
	for i in 2 3; do
		tell $i true end
	done
}

if [ "$GUEST" = 1 ]; then
	guest_1
else
	serve_orders
fi
