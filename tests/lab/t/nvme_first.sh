# about: from two machines and a storage box to a dataset that both read, by the commands of client/pages/nvme-box.md alone
# guests: 3
# disks: 1 96M
# when: soak
#
# Goal:   who types what client/pages/nvme-box.md says, and does what it asks for between, has in the end a sealed dataset that both nodes
#         read, changes it, and was told at each step what comes next.
# Method: guest 1 is the storage box, guests 2 and 3 are first and second. They have no configuration but what fmove init, fmove join and
#         the page make; the lines of volumes are those that fmove nvme discover prints. The commands are taken from the page; only
#         the address and the device are others, and daemons are started by hand, where the page has systemctl.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/nvmet.sh
. "$LAB_TOP/tests/lab/nvmet.sh"
# shellcheck source=tests/lab/orders.sh
. "$LAB_TOP/tests/lab/orders.sh"
# shellcheck source=tests/pages.sh
. "$LAB_TOP/tests/pages.sh"

NQN=nqn.2026-01.org.example:data
BOX=$(wire_addr 0 1)
CONF=/etc/fmove/fmove.conf
names=('' box first second)
trap 'cp -f /run/*.log "$CONF" "/out/" 2> /dev/null || true; "$FMOVE_BIN/fmove" nvme status > "/out/state.$GUEST" 2>&1 || true' EXIT

fm() {
	"$FMOVE_BIN/fmove" "$@"
}

is() {
	nvmed_is data "$1" "$2"
}

# --- what is done on a node -----------------------------------------------------------------------

machine() {
	check hostname "${names[GUEST]}"
	need_module nvme_tcp ext4
	mkdir -p /data/models
	make_systemctl
	[ "$GUEST" = 2 ] || check ip route add "$BOX" via "$(wire_addr 1 1)"
}

start_fmoved() {
	"$FMOVE_BIN/fmoved" --config $CONF >> /run/fmoved.log 2>&1 &
	echo $! > /run/fmoved.pid
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

# The lines at its end, with what is ours to add; as the page shows them.
configure() {
	sed -n '/^volumes/,$p' /out/discovered | sed 's,^[ \t]*name = ,    mount = "/srv/data"; mode = "shared-read"; writer = "first";\n&,' >> $CONF
}

# What the page of staging says, and a store of the volume.
configure_stage() {
	check mkdir -p /run/staged
	echo 'staging = { directory = "/run/staged"; size = "64MiB"; peers = [ "*" ]; };' >> $CONF
	check kill "$(cat /run/fmoved.pid)"
	wait_for gone "$(cat /run/fmoved.pid)"
	start_fmoved
	sed -i 's,^stores = ( {,stores = ( { name = "data"; directory = "/srv/data"; volume = "data"; }\, {,' $CONF
}

gone() {
	! kill -0 "$1" 2> /dev/null
}

# staged SUM: its copy of the dataset is what the writer wrote first.
staged() {
	[ "$(fm stage first:data/dataset -- sh -c 'cat "$FMOVE_STAGED/train"' | sha256sum)" = "$(cat "$1")" ] || fail "other bytes are staged"
}

says() {
	fm nvme status data > /out/status 2>&1
	grep -q -e "$1" /out/status
}

is_new() {
	wait_for says 'no known file system'
	mkdir -p dataset more
	head -c 1M /dev/urandom > dataset/train
	head -c 1M /dev/urandom > more/test
	cat dataset/train more/test | sha256sum > /out/sum
	sha256sum < dataset/train > /out/sum.before
}

# reads FILE SUM
reads() {
	wait_for is state mounted
	is is_read_write false || fail "a reader has it read-write"
	[ "$(eval "cat $1" | sha256sum)" = "$(cat "$2")" ] || fail "other bytes than the writer's"
	check_not touch /srv/data/x
}

# --- what stands for commands that the page has ---------------------------------------------------

sudo() {
	"$@"
}

fmove() {
	fm "$@"
}

# What --system starts; ready when systemd would say so.
make_systemctl() {
	mkdir -p /run/stubs
	cat > /run/stubs/systemctl <<- END
	#!/bin/sh
	[ "\$*" = 'enable --now fmove-nvmed' ] || exit 1
	setsid "$FMOVE_BIN/fmove-nvmed" > /run/nvmed.log 2>&1 < /dev/null &
	echo \$! > /run/nvmed.pid
	until "$FMOVE_BIN/fmove" nvme list > /dev/null 2>&1; do sleep 0.1; done
	END
	check chmod +x /run/stubs/systemctl
	PATH=/run/stubs:$PATH
}

systemctl() {
	case $* in
	'reload fmove-nvmed')
		check kill -HUP "$(cat /run/nvmed.pid)"
		wait_for fm nvme status data > /dev/null ;;
	'reload fmoved')
		check kill -HUP "$(cat /run/fmoved.pid)"
		wait_for has_store ;;
	*)	fail "systemctl $*" ;;
	esac
}

has_store() {
	fm ls "${names[GUEST]}:data" > /dev/null 2>&1
}

# types COMMAND
types() {
	local command=${1//10.0.0.9/$BOX}

	case $command in
	*/dev/DEVICE*)	command=${command//\/dev\/DEVICE/$(nvmed_field data device)} ;;
	*' discover '*)	command="$command > /out/discovered" ;;
	esac
	eval "$command" || fail "$1"
}

# --- what the person does -------------------------------------------------------------------------

on() {
	tell "$@" || fail "guest $1, $2: $(cat "/out/said.$1")"
}

# typed NODE COMMAND: what the page has between is done before or behind it.
typed() {
	local i

	case $2 in
	*mkfs*)	on 3 wait_for says 'sealed'; on 2 is_new ;;
	*'reload fmove-nvmed')	on 2 configure; on 3 configure ;;
	*'reload fmoved')	on 2 configure_stage; on 3 configure_stage ;;
	esac
	for i in 2 3; do
		[ "$1" != each ] && [ "$1" != "${names[i]}" ] || on $i types "$2"
	done
	case $2 in
	*' stage --nodes '*)	stages=$((stages + 1)); on 2 staged /out/sum.before; on 3 staged /out/sum.before ;;
	*' seal data')
		seals=$((seals + 1))
		[ $seals = 1 ] && on 3 reads /srv/data/dataset/train /out/sum.before ||
			on 3 reads '/srv/data/dataset/train /srv/data/more/test' /out/sum ;;
	esac
}

guest_1() {
	local i seals=0 stages=0

	need_module nvmet_tcp
	nvmet_port 1 "$BOX" 4420
	nvmet_up $NQN /dev/lab/disk1 "$(nvmet_uuid first)"
	nvmet_show 1 $NQN
	for i in 2 3; do
		on $i machine
		on $i rm -f /etc/nvme/hostnqn /etc/nvme/hostid
	done
	on 2 first_node
	on 3 second_node
	page_run nvme-box.md typed || fail "the page has no commands"
	[ $seals = 2 ] || fail "sealed $seals times"
	[ $stages = 1 ] || fail "staged $stages times"
	say "two machines and a storage box: a sealed dataset that both read, that was changed, and that both staged"
	for i in 2 3; do
		tell $i true end
	done
}

if [ "$GUEST" = 1 ]; then
	guest_1
else
	serve_orders
fi
