#!/bin/bash
# SPDX-License-Identifier: MIT
# Goal:   data over TCP is TLS on a network that is not loopback, unless the configurations of both nodes name it; somebody on the path reads
#         nothing of it, and a bit that is changed there costs a connection and no data.
# Method: two nodes in network namespaces, joined by a wire, and by a relay in a third one that copies all bytes and changes one when told.
#         mover.private_networks is said at neither, one, the other and both, in turn, by reloads.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns_lib.sh"

tls_down() {
	[ -z "${relay_pid:-}" ] || kill "$relay_pid"
	netns_down 1 2 r
}

netns_begin fmt tls_down 1 2 r
netns_wire 1 relay0 10.77.1.1/24 r near0 10.77.1.9/24
netns_wire 2 relay0 10.77.2.2/24 r far0 10.77.2.9/24

ip netns exec "${id}r" "$FMOVE_BIN/relay" 10.77.1.9 7471 10.77.2.2 7471 "$dir/copy" >"$dir/relay.out" &
relay_pid=$!
node_key "$dir/n1"
node_key "$dir/n2"

# conf I SECTION: node i's configuration; n1 dials, n2 waits.
conf() {
	local far=

	[ "$1" = 2 ] || far=$n2_at
	node_conf "$dir/n$1" "n$1" "0.0.0.0:7471" "$(node_peer "n$((3 - $1))" "$far" "$dir/n$((3 - $1))/pub")" <<<"$2"
}

start() {
	local i

	for i in 1 2; do
		node_wrap=(ip netns exec "$id$i")
		node_start "$dir/n$i"
	done
	unset node_wrap
	use_node 1
}

use_node() {
	export FMOVE_SOCKET=$dir/n$1/sock
}

# networks I LIST: node i names these networks, or none, and reads its configuration again.
networks() {
	local before

	conf "$1" "mover = { tcp_conns = 4; private_networks = [ $2 ]; };"
	before=$(grep -c ': reloaded' "$dir/n$1/log")
	kill -HUP "$(cat "$dir/n$1/pid")"
	await reloaded_more "$dir/n$1/log" "$before" || bad "n$1 does not reload"
}

# are HOW: whether all four connections are so, at both nodes.
are() {
	local i

	for i in 1 2; do
		[ "$(node_rails "$dir/n$i" tcp | grep -c "\"up\":true,\"connections\":4,.*\"encryption\":\"$1\"")" = 1 ] || return 1
		[ "$(node_rails "$dir/n$i" tcp | grep -c "\"up\":true")" = 1 ] || return 1
	done
}

# put HOW WORDS: a put there and a get back say so; the bytes are the same.
put() {
	fmove put --json --force "$dir/secret" n2:s/x >out.json 2>err || bad "put ($1): $(cat err)"
	[ "$(json encryption <out.json)" = "$1" ] || bad "put says $(json encryption <out.json), not $1"
	fmove get --force n2:s/x back 2>err || bad "get ($1): $(cat err)"
	grep -q ", $2 (" err || bad "get does not say \"$2\": $(cat err)"
	cmp -s "$dir/secret" back || bad "other bytes came back ($1)"
}

# --- what init proposes: a machine with a cable, a LAN and a link-local address at RDMA ports, in name spaces of its own
cat >"$dir/init" <<'I'
mount -t tmpfs none /sys
for port in cable1 cable2 lan0; do
	ip link add $port type veth peer name far_$port
	ip link set $port up
	mkdir -p /sys/class/infiniband/rxe_$port/ports/1/gid_attrs/ndevs
	echo $port >/sys/class/infiniband/rxe_$port/ports/1/gid_attrs/ndevs/0
done
ip link add other0 type veth peer name far_other0
ip addr add 10.79.0.2/30 dev cable1
ip addr add fd00:79::3/127 dev cable1
ip addr add 10.79.1.4/31 dev cable2
ip addr add 10.79.9.1/24 dev lan0
ip addr add 10.79.8.1/30 dev other0
fmove init --node n1 --dir "$1" --address 10.79.9.1:7471
I
unshare -mn bash "$dir/init" "$dir/init.d" >/dev/null 2>err || bad "init with cables: $(cat err)"
grep -q 'It proposes private_networks' err || bad "init does not say what it proposes: $(cat err)"
line='#mover = { private_networks = [ "10.79.0.0/30", "10.79.1.4/31", "fd00:79::2/127" ]; };'
grep -Fqx "$line" "$dir/init.d/fmove.conf" || bad "init proposes: $(grep private "$dir/init.d/fmove.conf")"
sed -i 's/^#mover/mover/' "$dir/init.d/fmove.conf"
fmove config check "$dir/init.d/fmove.conf" 2>err || bad "what init proposes is no configuration: $(cat err)"

# 8 MiB of lines, so that each piece of it can be recognised.
yes 'the weights of a model that took three months' | head -c 8388608 >"$dir/secret"

# --- somebody on the path
n2_at=10.77.1.9:7471
conf 1 'mover = { tcp_conns = 4; };'
conf 2 'mover = { tcp_conns = 4; };'
start
await are tls || bad "connections over a network are not TLS: $(fmove status)"
fmove status | grep -Eq 'up, [0-9]+ connections, tls' || bad "status does not say tls: $(fmove status)"
put tls "tcp with TLS"
[ "$(stat -c %s "$dir/copy")" -gt 16777216 ] || bad "the relay did not see the file: $(ls -l "$dir/copy")"
grep -aq 'the weights' "$dir/copy" && bad "the path shows the file"
grep -aq 'FMDATA' "$dir/copy" && bad "the path shows the hello, and the token in it"

# From memory that is sealed where it lies.
for step in moves freed; do
	"$FMOVE_BIN/buffers" "$dir/secret" $step >said 2>&1 || bad "buffers $step: $(cat said)"
done
cmp -s "$dir/secret" "$dir/n2/s/freed" || bad "what was put from memory is another"
grep -aq 'the weights' "$dir/copy" && bad "the path shows what is put from memory"

# One bit is changed under way: the connection ends, the chunk comes again, the file is the same.
kill -USR1 $relay_pid
fmove put --force --json "$dir/secret" n2:s/y >out.json 2>err || bad "put with a bit changed: $(cat err)"
grep -q changed "$dir/relay.out" || bad "the relay changed nothing"
cmp -s "$dir/secret" "$dir/n2/s/y" || bad "a changed bit is in the file"
[ "$(json corrupt_chunks <out.json)" = 0 ] || bad "the changed bit came as far as the checksum: $(cat out.json)"
is_logged 'its seal is broken' "$dir"/n?/log || bad "nobody noticed the changed bit"

# Named at both ends, but what n1 sees is the relay, which n2 does not have: TLS all the same.
networks 1 '"10.77.0.0/16"'
networks 2 '"10.77.0.0/16"'
await are tls || bad "not TLS through a relay: $(fmove status)"
put tls "tcp with TLS"
grep -aq 'the weights' "$dir/copy" && bad "the path shows the file, since both ends named its network"

# --- a wire of their own
node_stop "$dir/n1"
node_stop "$dir/n2"
ip -n "${id}1" link del relay0
ip -n "${id}2" link del relay0
netns_wire 1 cable0 10.78.0.1/30 2 cable0 10.78.0.2/30
n2_at=10.78.0.2:7471
conf 1 'mover = { tcp_conns = 4; };'
conf 2 'mover = { tcp_conns = 4; };'
start
await are tls || bad "connections over a wire are not TLS: $(fmove status)"
networks 1 '"10.78.0.0/30"'
put tls "tcp with TLS"
await are tls || bad "plain because n1 says so: $(fmove status)"
networks 1 ''
networks 2 '"10.78.0.0/30"'
put tls "tcp with TLS"
await are tls || bad "plain because n2 says so: $(fmove status)"
networks 1 '"10.78.0.0/30", "fd00::/64"'
await are plain || bad "not plain though both say so: $(fmove status)"
fmove status | grep -Eq 'up, [0-9]+ connections, plain' || bad "status does not say plain: $(fmove status)"
put plain "plain tcp"

# Networks of different sizes that both have both addresses: plain. One that has only one of the addresses: TLS.
networks 2 '"10.64.0.0/10"'
await are plain || bad "not plain with a wider network at n2: $(fmove status)"
put plain "plain tcp"
networks 2 '"10.78.0.2/32"'
await are tls || bad "still plain though n2 names its own address alone: $(fmove status)"
put tls "tcp with TLS"
networks 2 '"10.78.0.0/30"'
await are plain || bad "not plain again: $(fmove status)"

# A plain connection stays on its wire: without it nothing of the file goes anywhere else.
ss_of() {
	ip netns exec "${id}1" ss -tnH state established "( dport = :7471 or sport = :7471 )"
}
[ "$(ss_of | grep -c '%cable0')" = 4 ] || bad "plain connections are not bound to their interface: $(ss_of)"

# Taken back at one end while plain connections exist: they end, and TLS takes their place.
networks 1 ''
await are tls || bad "plain connections went on after n1 took the network back: $(fmove status)"
put tls "tcp with TLS"
