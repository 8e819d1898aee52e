# about: fmoved under its unit, as installed: RDMA, TLS, a user's put, what a user stages, a tree with owners, reload, stop; nothing that it uses is denied
# guests: 1
# disks: 1 512M
#
# Goal:   what config/systemd/fmoved.service takes from fmoved is nothing that it uses, and it is taken. Without RDMA fmoved starts all the
#         same; once there is a device, it is used without another start.
# Method: systemd is process 1, the unit starts node n1 as the user fmove, n2 is started by hand. Everything that needs a device, a
#         capability or a system call of its own is done once, over the transport that the counters confirm. Then the kernel's log must
#         have no system call of fmoved's that was denied, and fmoved's own log nothing that was not permitted; a unit that makes a call
#         it may not make shows that the first would be there. From the unit's cgroup root opens RDMA devices, a later one too, and no disk.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/systemd.sh
. "$LAB_TOP/tests/lab/systemd.sh"

D=/run/fmoved_unit
STORE=/srv/disk/s
CACHE=/srv/disk/cache
ADDR=10.1.1.1			# not loopback, where TCP is plain
SRC=/srv/src
UNIT=fmoved.service
DROP_IN=/etc/systemd/system/$UNIT.d
BYTES=$((1 << 20))		# four chunks
LIMITS='memory = { arena = "16MiB"; slab = "2MiB"; total = "256MiB"; }; mover = { chunk = "256KiB"; io = "io_uring"; };'

# --- before systemd -------------------------------------------------------------------------------

# As installed: whoever fmoved is must be able to run it.
install_programs() {
	install -m 755 "$FMOVE_BIN/fmoved" "$FMOVE_BIN/fmove" "$FMOVE_BIN/fmove-full" /usr/local/bin/
	FMOVE_BIN=/usr/local/bin
	systemd_install $UNIT
}

prepare() {
	need systemd-sysusers systemd-run setpriv ss
	systemd_prepare
	no_rdma_modules
	install_programs
	systemd_more_time $UNIT
	cp "$LAB_TOP/config/systemd/fmove.sysusers" /run/fmove.conf
	printf 'u alice - - /srv\nm alice fmove\n' > /run/alice.conf
	check systemd-sysusers /run/fmove.conf /run/alice.conf
	need_module ext4 tls
}

# --- two nodes ------------------------------------------------------------------------------------

# n1_conf OWNER MORE: that of the unit; MORE goes into it.
n1_conf() {
	cat > /etc/fmove/fmove.conf <<-C
	node = { name = "n1"; };
	stores = ( { name = "s"; directory = "$STORE"; owner = "$1"; quota = "256MiB"; } );
	staging = { directory = "$CACHE"; size = "64MiB"; };
	peers = ( $(node_peer n2 $ADDR:7472 $D/n2/pub) );
	$LIMITS
	$2
	C
}

configure() {
	need_module dummy
	check ip link add lab0 mtu 9000 type dummy
	check ip link set lab0 up
	check ip addr add $ADDR/24 dev lab0
	mkdir -p $D/n1 /etc/fmove $SRC
	ln -s /run/fmove/fmoved.sock $D/n1/sock
	mkdisk /dev/lab/disk1 ext4 /srv/disk
	install -d -o fmove -g fmove $STORE $CACHE
	node_key $D/n2
	"$FMOVE_BIN/fmove" keygen /etc/fmove/node.key > $D/n1.pub
	chown fmove: /etc/fmove/node.key
	n1_conf service ''
	node_conf $D/n2 n2 '[::]:7472' "$(node_peer n1 $ADDR:7471 $D/n1.pub)" <<< "$LIMITS"
	sed -i "s,directory = \"$D/n2/s\";,& owner = \"caller\";," $D/n2/conf
	head -c $BYTES /dev/urandom > $SRC/file
	install -o alice -m 600 $SRC/file $SRC/alices
	make_tree
}

make_tree() {
	mkdir -p $SRC/tree/dir
	head -c 300000 /dev/urandom > $SRC/tree/dir/large
	echo alice > $SRC/tree/alices
	echo fmove > $SRC/tree/fmoves
	ln -s alices $SRC/tree/link
	ln $SRC/tree/alices $SRC/tree/dir/alices
	setfattr -n user.lab -v yes $SRC/tree/fmoves 2> /dev/null || true
	chmod 750 $SRC/tree/dir
	chmod 640 $SRC/tree/alices
	chown -h alice:alice $SRC/tree/alices $SRC/tree/link $SRC/tree/dir
	chown fmove:fmove $SRC/tree/fmoves
}

# n1's, by the socket where everybody looks for it.
fm1() {
	"$FMOVE_BIN/fmove" "$@"
}

fm2() {
	"$FMOVE_BIN/fmove" --socket $D/n2/sock "$@"
}

# connected KIND CONNECTIONS: both nodes have a rail of that kind with so many.
connected() {
	local node

	for node in n1 n2; do
		wait_for node_has_rails $D/$node "$1" 1 "$2"
	done
}

# over KIND COMMAND...: a transfer, which must say that it went that way; what it said is in result.
over() {
	local kind=$1
	shift

	result=$("$@" --quiet --json --transport "$kind") || fail "$*: $result"
	[ "$(json transport <<< "$result")" = "$kind" ] || fail "$* did not go over $kind: $result"
}

# is NAME=VALUE...: these are properties of the unit, which one program asks for.
is() {
	local property names=() now

	for property in "$@"; do
		names+=(-p "${property%%=*}")
	done
	now=$'\n'$(systemctl show $UNIT "${names[@]}")$'\n'
	for property in "$@"; do
		[[ $now = *$'\n'"$property"$'\n'* ]] || fail "$UNIT is not $property:$now"
	done
}

stop_n1() {
	check systemctl stop $UNIT
	is Result=success NRestarts=0 ExecMainStatus=0
	[ -z "$(pgrep -u fmove)" ] || fail "left behind: $(pgrep -u fmove -a)"
}

own_log() {
	journalctl -b -u $UNIT -o cat --no-pager
}

# --- what is done ---------------------------------------------------------------------------------

is_sealed() {
	[ "$(json encryption <<< "$result")" = ktls ] || fail "the kernel did not seal: $result"
}

by_tcp() {
	over tcp fm1 put $SRC/file n2:s/tcp
	is_sealed
	check cmp $SRC/file $D/n2/s/tcp
	over tcp fm2 put $SRC/file n1:s/tcp
	is_sealed
	check cmp $SRC/file $STORE/tcp
	(($(sed -n 's/^TlsTxSw[^0-9]*//p' /proc/net/tls_stat) > 0)) || fail "the kernel has counted no connection that it seals"
	say "TCP with the kernel's TLS: done"
}

without_rdma() {
	check systemctl start $UNIT
	# This node was configured by hand: what fmoved writes peers and invitations to was made before it started, and is the user's.
	check test "$(stat -c '%U %a %n' /etc/fmove/invites /etc/fmove/peers.d | tr '\n' ' ')" = 'fmove 700 /etc/fmove/invites fmove 755 /etc/fmove/peers.d '
	check nsenter -m -t "$(systemctl show -P MainPID $UNIT)" setpriv --reuid fmove --regid fmove --clear-groups touch /etc/fmove/invites/.tried
	rm -f /etc/fmove/invites/.tried
	node_start $D/n2
	connected tcp 1
	check by_tcp
	check grep -q 'no RDMA' <(own_log)
	say "without RDMA: it starts and moves"
}

# Driver, device and its nodes in /dev come while both nodes run.
with_rdma() {
	local pid
	pid=$(systemd_property $UNIT MainPID)

	rxe_up rxe0 lab0
	connected rdma 2
	is MainPID="$pid" NRestarts=0
	say "with RDMA: used where it was missing before"
}

by_rdma() {
	rxe_mark rxe0
	over rdma fm1 put $SRC/file n2:s/rdma
	check cmp $SRC/file $D/n2/s/rdma
	over rdma fm2 put $SRC/file n1:s/rdma
	check cmp $SRC/file $STORE/rdma
	over rdma fm1 get n2:s/rdma $SRC/got
	check cmp $SRC/file $SRC/got
	rxe_moved rxe0 $((3 * BYTES))
	say "RDMA: done"
}

pipes() {
	check fm1 put --quiet - n2:s/piped < <(cat $SRC/file)
	check cmp $SRC/file $D/n2/s/piped
	fm1 get --quiet n2:s/piped - | cmp - $SRC/file || fail "what came out of the pipe is something else"
	check fm2 put --quiet --verify=readback $SRC/file n1:s/readback
	say "pipes, readback: done"
}

as_alice() {
	setpriv --reuid alice --regid alice --init-groups "$@"
}

of_a_user() {
	rxe_mark rxe0
	over rdma as_alice "$FMOVE_BIN/fmove" put $SRC/alices n2:s/alices
	check cmp $SRC/alices $D/n2/s/alices
	rxe_moved rxe0 $BYTES
	say "a user's put: done"
}

# holds COUNT: so many processes hold the dataset.
holds() {
	fm1 datasets --json | grep -q "\"holds\":$1,"
}

# Held by the process that ran fmove, and by one that is named: both are alice's, not the service's. /bin/true is there so
# that the shell does not end in the place of its last command.
staged() {
	local holder

	mkdir $D/n2/s/set
	install -m 644 $SRC/file $D/n2/s/set/file
	# shellcheck disable=SC2016
	check as_alice sh -c 'data=$("$0" stage n2:s/set) && cmp "$1" "$data/file" &&
		"$0" datasets --json | grep -q "\"holds\":1," && /bin/true' "$FMOVE_BIN/fmove" $SRC/file
	wait_for holds 0
	setpriv --reuid alice --regid alice --init-groups sleep infinity &
	holder=$!
	wait_for is_of $holder alice
	check as_alice "$FMOVE_BIN/fmove" stage --hold-pid $holder n2:s/set
	check holds 1
	kill $holder
	wait_for holds 0
	say "staged, held by a user's processes: done"
}

# A process that setpriv starts is root's first.
is_of() {
	[ "$(stat -c %U "/proc/$1")" = "$2" ]
}

# What a tree is: kind, mode, owners, size, links, names.
listing() {
	(cd "$1" && find . -mindepth 1 -printf '%y %m %u:%g %n %l %P %T@\n' | sort -k6)
}

same_tree() {
	[ "$(listing $SRC/tree)" = "$(listing "$1")" ] || fail "another tree: $(diff <(listing $SRC/tree) <(listing "$1"))"
	check cmp $SRC/tree/dir/large "$1/dir/large"
}

of_root() {
	check fm1 put --quiet -r $SRC/tree n2:s/tree
	same_tree $D/n2/s/tree
	say "a tree of root's, sent: done"
}

# To the node of the unit: it has to give files away. The two capabilities are what its comment says.
to_the_caller() {
	printf '[Service]\nAmbientCapabilities=CAP_CHOWN CAP_FOWNER\nCapabilityBoundingSet=CAP_CHOWN CAP_FOWNER\n' > $DROP_IN/owner.conf
	n1_conf caller ''
	check systemctl daemon-reload
	stop_n1
	check systemctl start $UNIT
	connected rdma 2
	check fm2 put --quiet -r $SRC/tree n1:s/tree
	same_tree $STORE/tree
	over rdma fm2 put $SRC/file n1:s/owned
	[ "$(stat -c %U:%G $STORE/owned)" = root:root ] || fail "the caller does not own it: $(stat -c %U:%G $STORE/owned)"
	say "a tree of root's, received: done"
}

# Work of its own: the state directory, both stores, a file that is read again.
detached() {
	check fm1 put --quiet --detach n1:s/rdma n2:s/detached
	wait_for cmp $SRC/file $D/n2/s/detached
	check fm1 verify n1:s/rdma
	check fm1 ls n1:s
	check fm1 rm n1:s/tcp
	say "detached, verify, ls, rm: done"
}

has_reloaded() {
	grep -q '^reloaded' <(own_log)
}

reload() {
	n1_conf service 'jobs = { running = 8; };'
	check systemctl reload $UNIT
	wait_for has_reloaded
	over rdma fm1 put $SRC/file n2:s/reloaded
	check cmp $SRC/file $D/n2/s/reloaded
	say "reload: done"
}

# --- what is denied -------------------------------------------------------------------------------

# A process of root's in the unit's cgroup: what it cannot open the devices' filter denies.
opens() {
	(echo $BASHPID > "/sys/fs/cgroup$cgroup/cgroup.procs" && exec 3<> "$1")
}

devices() {
	local device cgroup

	cgroup=$(systemd_property $UNIT ControlGroup)
	rxe_up rxe1 lab1 10.1.2.1/24	# later than the daemon
	for device in /dev/null /dev/urandom /dev/infiniband/rdma_cm /dev/infiniband/uverbs{0,1}; do
		check opens "$device"
	done
	for device in /dev/kmsg /dev/lab/disk1 /dev/mem; do
		(: < "$device") || fail "root cannot read $device at all"
		check_not opens "$device"
	done
	check rdma link del rxe1
	check ip link del lab1
	say "devices: its own, and no other"
}

denied_calls() {
	dmesg | grep type=1326
}

# The first shows that there would be a line.
calls() {
	check_not systemd-run --quiet --wait -p SystemCallFilter=~umask /bin/sh -c 'umask 0'
	wait_for grep -q 'type=1326.*sig=31' <(denied_calls)
	! denied_calls | grep "exe=\"$FMOVE_BIN/" || fail "a system call was denied"
	! own_log | grep -iE 'not permitted|permission denied|EPERM|EACCES' || fail "something was not permitted"
	say "system calls: none denied"
}

under_systemd() {
	FMOVE_BIN=/usr/local/bin
	trap 'systemd_journal_of $?' EXIT
	check configure
	check without_rdma
	check with_rdma
	check devices
	check by_rdma
	check pipes
	check of_a_user
	check staged
	check of_root
	check detached
	check reload
	check to_the_caller
	stop_n1
	node_stop $D/n2
	check calls
}

if [ -z "${LAB_SYSTEMD:-}" ]; then
	prepare
	systemd_boot
fi
under_systemd
