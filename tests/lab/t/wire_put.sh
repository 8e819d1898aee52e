# about: put and get between nodes in two guests over two wires, over TCP with the kernel's TLS too; the receiving daemon killed; join --find
# guests: 2
#
# Goal:   two kernels, real RoCE v2 frames on two wires: files arrive whole, over both. A daemon that dies costs one clear error, exit
#         status 4, and leaves nothing under the final name; started again it serves on. Over TCP the kernel seals. join --find of guest 2
#         finds a node in guest 1 over both RDMA ports once an invitation is open there; before nobody answers, and nobody sends who is not asked.
# Method: a node in each guest, guest 1 puts and gets. Checksums of the files go through /out. What is sent to find a node is counted by the
#         kernels, which count no RoCE frame with it.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"

MIB=2
D=/run/node

fmn() {
	"$FMOVE_BIN/fmove" --socket $D/sock "$@"
}

hash_of() {
	sha1sum < "$1"
}

mark() {
	rxe_mark rxe0
	rxe_mark rxe1
}

# Both wires had a part in it: work is stolen, not dealt out, so a third is asked for where half would be fair.
moved() {
	rxe_moved rxe0 $((MIB * 1024 * 1024 / 6))
	rxe_moved rxe1 $((MIB * 1024 * 1024 / 6))
	(($(rxe_bytes rxe0) + $(rxe_bytes rxe1) >= MIB << 20)) || fail "less than the file went over RDMA"
}

# Guest 2 says what arrived; guest 1 knows what was sent.
put_and_get() {
	local result

	if [ "$GUEST" = 1 ]; then
		head -c "${MIB}M" /dev/urandom > $D/src
		result=$(fmn put --quiet --json $D/src n2:s/blob) || fail "put: $result"
		say "put: $(json transport <<< "$result"), $(json why <<< "$result"), $(json seconds <<< "$result") s"
		[ "$(json transport <<< "$result")" = rdma ] || fail "not over RDMA: $result"
	fi
	sync_point put
	[ "$GUEST" = 1 ] || hash_of $D/s/blob > /out/hash
	sync_point hashed
	moved
	mark
	sync_point marked
	if [ "$GUEST" = 1 ]; then
		[ "$(hash_of $D/src)" = "$(cat /out/hash)" ] || fail "what arrived is not what was sent"
		check fmn get --transport rdma n2:s/blob $D/back
		check cmp $D/src $D/back
	fi
	sync_point got
	moved
	say "put and get: whole, over both wires"
}

# What the kernel has counted: connections that it seals for.
sealing() {
	sed -n 's/^TlsTxSw[^0-9]*//p' /proc/net/tls_stat
}

put_over_tcp() {
	local result

	check node_wait $D tcp 1 1
	if [ "$GUEST" = 1 ]; then
		result=$(fmn put --quiet --json --force --transport tcp $D/src n2:s/blob) || fail "put over TCP: $result"
		[ "$(json encryption <<< "$result")" = ktls ] || fail "the kernel did not seal: $result"
		check fmn get --transport tcp --force n2:s/blob $D/back
		check cmp $D/src $D/back
	fi
	sync_point tcp
	say "the kernel's TLS:" $(cat /proc/net/tls_stat)
	(($(sealing) > 0)) || fail "the kernel has counted no connection that it seals"
	say "put and get over TCP: whole, sealed by the kernel"
}

is_receiving() {
	[[ $(node_status $D) =~ \"state\":\"copying\",\"size\":[^,]*,\"bytes\":[1-9] ]]
}

kill_receiver() {
	local status=0

	if [ "$GUEST" = 2 ]; then
		wait_for is_receiving
		kill -KILL "$(cat $D/pid)"
		[ ! -e $D/s/killed ] || fail "a partial file has the final name"
	else
		fmn put --quiet --limit 32kB/s $D/src n2:s/killed > /dev/null 2> $D/err || status=$?
		say "the receiver was killed: $(cat $D/err)"
		[ $status = 4 ] || fail "exit status $status, not 4"
		[ "$(wc -l < $D/err)" = 1 ] || fail "not one line"
		grep -q n2 $D/err || fail "the peer has no name in it"
	fi
	sync_point killed
}

start_again() {
	[ "$GUEST" = 1 ] || node_start $D
	check node_wait $D rdma 2 1
	sync_point again
	if [ "$GUEST" = 1 ]; then
		check fmn put --quiet --timeout ${HANG_S}s $D/src n2:s/killed
	fi
	sync_point put_again
	[ "$GUEST" = 1 ] || [ "$(hash_of $D/s/killed)" = "$(cat /out/hash)" ] || fail "what arrived is not what was sent"
}

# Datagrams that programs of this guest have sent.
sent() {
	sed -n 's/^Udp6OutDatagrams *//p' /proc/net/snmp6
}

hears() {
	[ -n "$(ss -Huln 'sport = :7471')" ]
}

# found_both: it is, over both wires, in one run of `join --find`.
found_both() {
	local found

	found=$("$FMOVE_BIN/fmove" join --find 2>&1) || { echo "status $?: $found"; return 1; }
	echo "$found"
	for wire in wire0 wire1; do
		grep -q "^\[fe80:.*%$wire\]:7471 says it is first$" <<< "$found" || return 1
	done
}

found_none() {
	local status=0

	"$FMOVE_BIN/fmove" join --find 2>&1 || status=$?
	[ $status = 1 ]
}

# look HOW SAID: guest 2 looks for nodes until it found_HOW: a guest that is busy answers late. Guest 1 has sent at least so many datagrams
# meanwhile, or none.
look() {
	local before

	before=$(sent)
	sync_point "looks_$2"
	if [ "$GUEST" = 2 ]; then
		wait_for "found_$1"
		(($(sent) > before)) || fail "nothing was asked, or it is not counted"
	fi
	sync_point "looked_$2"
	[ "$GUEST" = 2 ] || [ "$2" -gt 0 ] || [ "$(sent)" = "$before" ] || fail "without an invitation $(($(sent) - before)) datagrams were sent"
	[ "$GUEST" = 2 ] || (($(sent) - before >= $2)) || fail "$(($(sent) - before)) datagrams were sent, not $2"
}

find_over_rdma() {
	local conf=/run/found before

	wait_for link_locals
	if [ "$GUEST" = 1 ]; then
		check "$FMOVE_BIN/fmove" init --dir $conf --node first --store "s=$conf/files"
		rm $conf/invites/*
		echo 'memory = { arena = "32MiB"; };' >> $conf/fmove.conf
		before=$(sent)
		"$FMOVE_BIN/fmoved" --config $conf/fmove.conf > $conf/log 2>&1 &
		echo $! > $conf/pid
		wait_for test -S $conf/fmoved.sock
		hears && fail "it listens without an invitation"
	fi
	look none 0
	if [ "$GUEST" = 1 ]; then
		check "$FMOVE_BIN/fmove" invite --dir $conf > /dev/null
		wait_for hears
		[ "$(sent)" = "$before" ] || fail "a node with an invitation sends before it is asked"
	fi
	look both 2
	[ "$GUEST" = 1 ] || say "join --find: over both RDMA ports"
	[ "$GUEST" = 2 ] || { kill "$(cat $conf/pid)" && wait "$(cat $conf/pid)"; } || fail "the node that was found: $(tail $conf/log)"
}

link_locals() {
	[ "$(ip -6 -o addr show scope link -tentative | grep -c ' wire[01] ')" = 2 ]
}

need_module tls
for wire in 0 1; do
	rxe_up "rxe$wire" "wire$wire"
done
mark
# Chunks and slabs are as much smaller as the file, so that there are as many of them as of a large one.
node_extra='memory = { arena = "8MiB"; slab = "512KiB"; total = "256MiB"; }; mover = { chunk = "32KiB"; };'
check node_guest $D
check node_wait $D rdma 2 2
sync_point connected
check put_and_get
check put_over_tcp
check kill_receiver
check start_again
node_stop $D
sync_point stopped
check find_over_rdma
