#!/bin/bash
# Goal:   addresses, routes and rules are the kernel's own, and the lines for ip and sysctl that
#         doctor prints do what they say.
# Method: in a network namespace with interfaces of a DGX Spark's names: what ip made is read, what
#         doctor prints is run.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns_lib.sh"
facts=$FM_SOURCE/tests/fuzz/corpus/facts
a=enp1s0f0np0
b=enP2p1s0f0np0
netns_begin dr 'netns_down 1' 1
within() {
	ip netns exec "${id}1" "$@"
}
within ip link add $a type veth peer name $b 2>/dev/null || {
	netns_down 1
	trap - EXIT
	rm -rf "$dir"
	skip "no veth interfaces here"
}
within ip link set $a up
within ip link set $b up

# lines of what mends a finding, of standard input: commands only.
mends() {
	awk '/^[a-z]+: / { on = 0 } /^  mend / { on = 1 } on' |
		sed -n 's/^  mend    //p; s/^          //p' | grep -v '^#'
}
run() {
	while read -r line; do
		within sh -c "$line" 2>err || bad "the kernel does not take \"$line\": $(cat err)"
	done <"$1"
	[ -s "$1" ] || bad "nothing to run in $1"
}

within ip address add 10.1.2.3/24 dev $a
within ip address add 10.1.3.3/24 dev $b noprefixroute
within ip -6 address add fd11::7/64 dev $b nodad
within ip route add 10.77.0.0/16 via 10.1.2.9 dev $a metric 5
within ip rule add from 10.1.2.3 table 101
within fmove doctor --save - --config "$dir/nothing" --socket "$dir/nobody" >saved ||
	bad "doctor: status $?"
has() {
	grep -qF -- "$1" saved || bad "facts lack $1: $(cat saved)"
}
plain='"link_local":false,"no_prefix_route":false,"duplicate":false'
has "{\"interface\":\"$a\",\"address\":\"10.1.2.3\",\"bits\":24,$plain}"
has "{\"interface\":\"$b\",\"address\":\"10.1.3.3\",\"bits\":24,${plain/route\":false/route\":true}}"
has "{\"interface\":\"$b\",\"address\":\"fd11::7\",\"bits\":64,\"link_local\":false"
has "{\"destination\":\"10.1.2.0\",\"bits\":24,\"interface\":\"$a\",\"table\":254,\"metric\":0,\"gateway\":{\"unknown\":\"\"}}"
has "{\"destination\":\"10.77.0.0\",\"bits\":16,\"interface\":\"$a\",\"table\":254,\"metric\":5,\"gateway\":\"10.1.2.9\"}"
has '"rules":1'
grep -qF '127.0.0.1' saved && bad "loopback is in the facts"
within ip address flush dev $a
within ip address flush dev $b
within ip rule del from 10.1.2.3 table 101

# What becomes of packets that are passed on, if no rule says it: known to root, of a node that passes on any.
save() {
	within fmove doctor --save - --config "$dir/nothing" --socket "$dir/nobody" >saved
}
within sysctl -qw net.ipv4.ip_forward=0
save
has '"forwards":false,"forward_policy":{"unknown":""}'
if within sysctl -qw net.ipv4.ip_forward=1 && within iptables -P FORWARD DROP 2>err; then
	save
	has '"forwards":true,"forward_policy":"drop"'
	within iptables -P FORWARD ACCEPT
	save
	has '"forwards":true,"forward_policy":"accept"'
	within setpriv --reuid 65534 --clear-groups "$FMOVE_BIN/fmove" doctor --save - --config "$dir/nothing" --socket "$dir/nobody" >saved
	has '"forward_policy":{"unknown":"the kernel tells root alone'
else
	echo "not tried: the policy of a firewall (no iptables here)"
fi

# Half a port, where nothing manages the network.
sed 's/"netplan":true/"netplan":false/' "$facts/many_findings.json" >half
fmove doctor --from half | sed -n '/half-port/,/^$/p' | mends >lines
run lines
within ip address show dev $b >is
grep -q 'mtu 1500' is || bad "no MTU: $(cat is)"
grep -q 'inet 10\.0\.64\.1/30' is || bad "no address: $(cat is)"
fmove doctor --from half | sed -n '/mtu-small/,/^$/p' | mends >lines
run lines
within ip link show dev $a >is
grep -q 'mtu 9000' is || bad "no MTU of 9000: $(cat is)"
within ip address flush dev $b

# Two functions in one subnet.
sed -e 's/10\.0\.0\.1"/10.5.0.1"/g; s/10\.0\.128\.1"/10.5.0.2"/g' \
	-e 's/10\.0\.\(0\|128\)\.0"/10.5.0.0"/g; s/"bits":30/"bits":24/g' "$facts/spark.json" >subnet
within ip address add 10.5.0.1/24 dev $a
within ip address add 10.5.0.2/24 dev $b
fmove doctor --from subnet >out && bad "one subnet: no finding"
sed -n '/one-subnet/,/^$/p' out | mends >lines
run lines
[ "$(within cat /proc/sys/net/ipv4/conf/$b/arp_ignore)" = 1 ] || bad "arp_ignore is not set"
within ip route get 10.5.0.9 from 10.5.0.2 | grep -q "dev $b" ||
	bad "the second address leaves by the first port"
within ip route get 10.5.0.9 from 10.5.0.1 | grep -q "dev $a" ||
	bad "the first address leaves by the second port"
