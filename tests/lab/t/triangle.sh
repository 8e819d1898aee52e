# about: three guests in a triangle: each reaches the other two over a wire of their own
# guests: 3
# mem: 1G
# when: soak
#
# Goal:   point-to-point legs, each a small network of its own, as small clusters without a switch
#         have them.
# Method: everybody pings everybody with jumbo frames over the leg that joins them; nobody leaves
#         before all are done.

need busybox
sync_point up
for other in 1 2 3; do
	[ $other != "$GUEST" ] || continue
	leg=$(wire_to $other)
	check busybox ping -c 1 -W 20 -s 8900 -I "wire$leg" "$(wire_addr "$leg" $other)"
done
sync_point left
