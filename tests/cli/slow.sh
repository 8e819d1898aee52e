#!/bin/bash
# Goal:   a network that is slow, and well, loses no connection: one over which data comes for seconds, or that answers late, is not silent.
# Method: two nodes in a network namespace of their own, whose loopback passes a chunk in five seconds and longer.
if [ -z "${FM_SLOW_NET:-}" ]; then
	[ "$(id -u)" = 0 ] && unshare -n tc qdisc show >/dev/null 2>&1 || { echo "SKIP: needs root, network namespaces and tc"; exit 77; }
	FM_SLOW_NET=1 exec unshare -n bash "$0"
fi
. "$(dirname "$0")/lib.sh"
ip link set lo mtu 1500 up
up 2
head -c 4000000 /dev/urandom >big
ok fmove put /etc/hostname n2:s/first
tc qdisc add dev lo root tbf rate 1500kbit burst 16kb limit 100kb 2>/dev/null || skip "no token bucket filter here"
ok fmove put big n2:s/big
tc qdisc del dev lo root
cmp -s big "$(store 2)/big" || bad "another file came"
grep -h 'broke: nothing comes' "$dir"/c/n*/log && bad "a slow connection counts as a cable that is cut"
