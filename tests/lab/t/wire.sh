# about: two guests joined by two virtual wires: ping, and RDMA as real frames on both
# guests: 2
# when: soak
#
# Goal:   two kernels are a cluster: each wire carries jumbo IP packets and RoCE v2.
# Method: ping of the largest size unfragmented, then ib_write_bw from guest 2 to guest 1 over each
#         wire; both count packets.

MIB=16

need busybox
for wire in 0 1; do
	rxe_up "rxe$wire" "wire$wire"
done
sync_point up

other=$((3 - GUEST))
for wire in 0 1; do
	check busybox ping -c 1 -W 10 -s 8900 "$(wire_addr $wire $other)"
done

for wire in 0 1; do
	rxe_mark "rxe$wire"
	if [ "$GUEST" = 1 ]; then
		bw_serve "rxe$wire" $MIB
		server=$!
		sync_point "serving$wire"
		check wait "$server"
	else
		sync_point "serving$wire"
		say "ib_write_bw over wire $wire: $(bw_send "rxe$wire" $MIB "$(wire_addr $wire 1)") MiB/s"
	fi
	rxe_moved "rxe$wire" $((MIB << 20))
done
