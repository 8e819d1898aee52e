# about: two rails between two guests: both carry a share; one is cut under load and mended again
# guests: 2
#
# Goal:   all rails of a peer are found and used without configuration, and losing one costs time, not a transfer; each device is
#         measured alone.
# Method: a soft-RoCE device on each of the two wires. A put, and status must show a share on both. Then a put during which wire 1 loses
#         every frame: it must end well over wire 0, status must say that the rail is down; when the wire works again, that it is up.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"

MIB=3
D=/run/node

fmn() {
	"$FMOVE_BIN/fmove" --socket $D/sock "$@"
}

# sent_over WIRE: bytes that this node sent over it, from whichever of its addresses, as status says.
sent_over() {
	local rail number='"sent_bytes":([0-9]+)' sum=0

	while read -r rail; do
		[[ $rail != *"\"device\":\"rxe$1\""* || ! $rail =~ $number ]] || sum=$((sum + BASH_REMATCH[1]))
	done < <(node_rails $D rdma)
	echo $sum
}

both_carry() {
	local result wire

	result=$(fmn put --quiet --json --transport rdma $D/src n2:s/both) || fail "put: $result"
	[ "$(json connections <<< "$result")" = 4 ] || fail "not all four connections carried something: $result"
	for wire in 0 1; do
		say "wire $wire carried $(sent_over $wire) bytes"
		(($(sent_over $wire) > (MIB << 20) / 6)) || fail "wire $wire had no part in it"
	done
}

# more_than BYTES: have gone over wire 1; or the put is through.
more_than() {
	(($(sent_over 1) > $1)) || ! kill -0 $pid
}

# Beside both together fmove bench measures each device alone. Of one that is asked for by its name (LAB_SEED says which, in rounds both are)
# this node's counters say that the other one sends nothing then. What is measured so shortly is not valid, which is status 3.
each_alone() {
	local op wire rail before status=0

	"$FMOVE_BIN/fmove" bench rdma --peer n2 --socket $D/sock --config $D/conf --json --seconds 0.2 > $D/bench || status=$?
	[ $status = 3 ] || fail "bench rdma: status $status: $(head -c 3000 $D/bench)"
	[ "$(grep -o '"only":{"device"[^}]*}' $D/bench | sort | uniq -c | tr -d ' \n')" = '2"only":{"device":"rxe0"}2"only":{"device":"rxe1"}' ] ||
		fail "not each device alone, sending and receiving: $(grep -o '"only":{[^}]*}' $D/bench)"
	for wire in ${LAB_ROUNDS:+$((1 - LAB_SEED % 2))} $((LAB_SEED % 2)); do
		before=("$(sent_over 0)" "$(sent_over 1)") status=0
		"$FMOVE_BIN/fmove" bench rdma --peer n2 --device rxe$wire --socket $D/sock --config $D/conf --json --seconds 0.2 > $D/bench ||
			status=$?
		[ $status = 3 ] || fail "bench rdma --device rxe$wire: status $status: $(head -c 3000 $D/bench)"
		for op in send receive; do
			grep -q "\"op\":\"$op\",\"where\":\"n2\",\"only\":{\"device\":\"rxe$wire\"},\"repeats\":\[{\"bytes\":[1-9]" $D/bench ||
				fail "rxe$wire, $op: $(head -c 3000 $D/bench)"
		done
		rail="{\"kind\":\"rdma\",\"device\":\"rxe$wire\",[^}]*\"sent_bytes\":[1-9]"
		grep -q "\"rails\":\[[^]]*$rail" $D/bench || fail "not over rxe$wire: $(head -c 3000 $D/bench)"
		(($(sent_over $wire) > before[wire])) || fail "rxe$wire sent nothing"
		(($(sent_over $((1 - wire))) == before[1 - wire])) || fail "rxe$((1 - wire)) sent something"
	done
	say "each device is measured alone"
}

# Chunks are under way on both rails when wire 1 goes. On a busy machine a rail may be away for a moment, and the put goes over the other one.
cut_one() {
	local before pid=

	until [ -n "$pid" ] && kill -0 $pid 2> /dev/null; do
		check node_wait $D rdma 2 2
		before=$(sent_over 1)
		fmn put --quiet --force --json --transport rdma --limit 500kB/s $D/src n2:s/cut > $D/result &
		pid=$!
		wait_for more_than "$before"
	done
	check tc qdisc add dev wire1 root netem loss 100%
	wait $pid || fail "the transfer did not survive: $(cat $D/result)"
	say "one of two rails was cut: $(json seconds < $D/result) s, $(json resent_bytes < $D/result) bytes sent again," \
		"$(json transport < $D/result)"
	[ "$(json transport < $D/result)" = rdma ] || fail "not RDMA to its end"
	wait_for one_is_down
}

one_is_down() {
	node_has_rails $D rdma 1 1 && ! node_has_rails $D rdma 2 1
}

mend_it() {
	check tc qdisc del dev wire1 root
	check node_wait $D rdma 2 2
	say "the rail is back"
	check fmn put --quiet --transport rdma $D/src n2:s/mended
}

need tc
need_module sch_netem
for wire in 0 1; do
	rxe_up "rxe$wire" "wire$wire"
done
node_peer_extra='bench = true; '
# Chunks and slabs are as much smaller as the file, so that there are as many of them as of a large one.
node_extra='memory = { arena = "8MiB"; slab = "512KiB"; total = "256MiB"; }; mover = { chunk = "32KiB"; rdma_conns = 2; };'
check node_guest $D
check node_wait $D rdma 2 2
sync_point connected
if [ "$GUEST" = 1 ]; then
	node_rails $D rdma
	head -c "${MIB}M" /dev/urandom > $D/src
	sha1sum < $D/src > /out/hash
	check both_carry
	check each_alone
	check cut_one
	check mend_it
fi
sync_point done
if [ "$GUEST" = 2 ]; then
	for name in both cut mended; do
		[ "$(sha1sum < $D/s/$name)" = "$(cat /out/hash)" ] || fail "$name is not what was sent"
	done
fi
node_stop $D
