# about: what is said without RDMA, without access to it, with MTU 1500, with too little memory that may be locked
# guests: 1
#
# Goal:   a machine that is not set up for RDMA moves files all the same, and one line says what is wrong and what mends it.
# Method: two nodes, started anew for each trouble: no device; a device that the service's user may not open; an MTU of 1500; a limit on
#         locked memory far below the need.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"

SIZE=$(((1 << 20) + 13))
D=/run/errors

fmn() {
	"$FMOVE_BIN/fmove" --socket $D/n1/sock "$@"
}

start() {
	check node_pair $D 7470
	head -c $SIZE /dev/urandom > $D/src
}

stop() {
	for i in 1 2; do
		node_stop $D/n$i
	done
}

# Auto takes TCP and says a word about why; asking for RDMA gets that word too, and nothing is moved.
no_rdma() {
	local word=$1 result status=0

	result=$(fmn put --quiet --json $D/src n2:s/auto) || fail "put: $result"
	[ "$(json transport <<< "$result")" = tcp ] || fail "not over TCP: $result"
	json why <<< "$result" | grep -qi "$word" || fail "no \"$word\" in the reason: $result"
	check cmp $D/src $D/n2/s/auto
	fmn put --quiet --transport rdma $D/src n2:s/rdma 2> $D/err || status=$?
	[ $status != 0 ] || fail "put --transport rdma without RDMA"
	[ "$(wc -l < $D/err)" = 1 ] || fail "not one line: $(cat $D/err)"
	grep -qi "$word" $D/err || fail "no \"$word\": $(cat $D/err)"
	[ ! -e $D/n2/s/rdma ] || fail "there is a file nevertheless"
	say "$(cat $D/err)"
}

no_device() {
	start
	no_rdma "no RDMA device"
	stop
}

# The service's user may not open the device.
no_access() {
	local node_wrap=(setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all) i

	chmod 600 /dev/infiniband/*
	mkdir -p $D
	for i in 1 2; do
		node_key $D/n$i
	done
	chmod 755 $D
	start_as_nobody
	no_rdma "permission"
	stop
	chmod 666 /dev/infiniband/*
}

start_as_nobody() {
	local i

	for i in 1 2; do
		node_conf "$D/n$i" "n$i" "[::]:$((7470 + i))" \
			"$(node_peer n$((3 - i)) 127.0.0.1:$((7473 - i)) $D/n$((3 - i))/pub)" <<< "$node_extra"
		chown -R 65534:65534 "$D/n$i"
	done
	for i in 1 2; do
		check node_start "$D/n$i"
	done
	head -c $SIZE /dev/urandom > $D/src
	chmod 644 $D/src
}

# The frames are a quarter of what they could be: said where rails are shown.
small_frames() {
	local rail

	start
	check node_wait $D/n1 rdma 1 1
	rail=$(node_rails $D/n1 rdma)
	[ "$(json mtu <<< "$rail")" = 1024 ] || fail "an RDMA MTU of 1024 was expected: $rail"
	json note <<< "$rail" | grep -q 1500 || fail "no word about the MTU of 1500: $rail"
	say "$(json note <<< "$rail")"
	check fmn put --quiet --transport rdma $D/src n2:s/small
	check cmp $D/src $D/n2/s/small
	stop
}

# Root may lock anything unless it has lost CAP_IPC_LOCK.
little_memlock() {
	local node_wrap=(setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock prlimit --memlock=1048576:1048576)

	start
	check grep -q "memlock: the limit is 1 *MiB.*need .*memlock unlimited.*limits.conf" $D/n1/log
	say "$(grep -o 'memlock: .*' $D/n1/log | head -n 1)"
	check fmn put --quiet $D/src n2:s/memlock
	check cmp $D/src $D/n2/s/memlock
	check fmn get --quiet n2:s/memlock $D/back
	check cmp $D/src $D/back
	stop
}

need setpriv prlimit
node_listen='[::]' node_extra='memory = { arena = "8MiB"; slab = "1MiB"; total = "256MiB"; }; mover = { chunk = "256KiB"; };'
no_rdma_modules
no_device
need_module dummy
check ip link add lab0 mtu 1500 type dummy
rxe_up rxe0 lab0 10.1.1.1/24
no_access
small_frames
little_memlock
