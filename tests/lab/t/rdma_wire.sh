# about: the RDMA transport between two machines, over IPv4 and over IPv6 link-local addresses
# guests: 2
#
# Goal:   a port that has no address but its IPv6 link-local one is as good as any, and real frames carry the data.
# Method: guest 1 serves, guest 2 sends over wire 0 from its IPv4 address, then from its link-local one; both count packets.

MIB=2			# how many are under way at once is the matter of rdma_transport
PORT=7491

transport=$FMOVE_BIN/rdma_transport
[ -x "$transport" ] || fail "no rdma_transport in $FMOVE_BIN: build lab-programs first"

link_local() {
	ip -6 -o addr show dev wire0 scope link -tentative | awk '{ sub("/.*", "", $4); print $4 }' | grep .
}

rxe_up rxe0 wire0
wait_for link_local
link_local > "/out/link_local.$GUEST"
sync_point up

is_serving() {
	rdma resource show cm_id | grep -q "state LISTEN.*:$PORT"
}

for family in ipv4 ipv6; do
	rxe_mark rxe0
	if [ "$GUEST" = 1 ]; then
		"$transport" serve "$(wire_addr 0)" $PORT &
		server=$!
		wait_for is_serving
		sync_point "serving_$family"
		check wait "$server"
	else
		from=$(wire_addr 0)
		to=$(wire_addr 0 1)
		if [ $family = ipv6 ]; then
			from=$(link_local)%wire0
			to=$(cat /out/link_local.1)	# where it is reached is for this end to say: no scope
		fi
		sync_point "serving_$family"
		line=$("$transport" send "$from" "$to" $PORT $MIB) || fail "send from $from to $to"
		say "$family: $line"
	fi
	rxe_moved rxe0 $((MIB << 20))
done
