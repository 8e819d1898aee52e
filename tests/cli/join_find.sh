#!/bin/bash
# Goal:   join --find lists nodes on the links of this machine, while they have an open invitation and let themselves be found there; it
#         proves nothing and joins nobody; what a stranger answers is one harmless line.
# Method: two network namespaces with two wires. Datagrams of one's own in place of the daemon, and of the asking node: what is no
#         question, what comes from no link of ours, and more of them than are answered. No port here has RDMA, so node.find is "any".
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns_lib.sh"
. "$(dirname "$0")/join_lib.sh"

netns_begin fmf "join_down 1 2" 1 2
mkdir "$dir/c"
for wire in 1 2; do
	netns_wire 1 w$wire 10.79.$wire.1/24 2 w$wire 10.79.$wire.2/24
	for i in 1 2; do
		ip -n "$id$i" addr add fe80::$wire:$i/64 dev w$wire nodad
	done
done

# is_ready I PORT ADDRESS: nothing is tentative there any more.
is_ready() {
	is_up "$1" "$2" && [ -z "$(ip -n "$id$1" -6 addr show dev "$2" tentative)" ]
}
for port in w1 w2; do
	for i in 1 2; do
		await is_ready $i $port || bad "$port of n$i does not come up"
	done
done

# find WORD...: of n2, to the files out and err.
find() {
	in_ns 2 fmove join --find "$@" >out 2>err
}

finds() {
	find --any-port && grep -qF "%w1]:7471 says it is n1" out && grep -qF "%w2]:7471 says it is n1" out
}

finds_none() {
	find --any-port
	[ $? -eq 1 ] && grep -q 'nobody answers on 2 links' err
}

hears() {
	in_ns 1 ss -Huln 'sport = :7471' | grep -q .
}

hears_not() {
	! hears
}

# ---- no invitation, none of RDMA, none at all ----

ok in_ns 1 fmove init --dir "$dir/c/n1" --node n1 --store "s=$dir/c/n1/files"
rm "$dir"/c/n1/invites/*
echo 'memory = { arena = "16MiB"; };' >>"$dir/c/n1/fmove.conf"
serve 1
finds_none || bad "without an invitation: $(cat out err)"
hears && bad "a node without an invitation listens"
ok in_ns 1 fmove invite --dir "$dir/c/n1"
hears && bad "node.find is \"rdma\", and it listens on a port without"
end_well
sed -i 's/^node = {/&\n\tfind = "any";/' "$dir/c/n1/fmove.conf"
serve 1
await hears || bad "a node with an invitation does not listen: $(cat "$dir/c/n1/log")"

# ---- found ----

await finds || bad "it is not found on both links: $(cat out err)"
[ "$(grep -c . out)" -eq 2 ] || bad "a node is listed twice on a link: $(cat out)"
grep -q 'Nothing of that is proved' err || bad "it does not say that this proves nothing: $(cat err)"
[ ! -e "$dir/c/n2" ] && [ -z "$(ls "$dir/c/n1/peers.d" 2>/dev/null)" ] || bad "looking joined somebody"
finds_json() {
	find --any-port --json || return
	for wire in 1 2; do
		grep -qF "{\"name\":\"n1\",\"address\":\"[fe80::$wire:1%w$wire]:7471\",\"port\":7471,\"proved\":false}" out || return
	done
	grep -q '"more":false,"exit":0}$' out
}
await finds_json || bad "as JSON: $(cat out err)"
no 1 'no RDMA port here .*: .*--any-port' in_ns 2 fmove join --find

# ---- datagrams that are none of ours ----

ip -n "${id}2" addr add fd00:79::2/64 dev w1 nodad
ip -n "${id}1" addr add fd00:79::1/64 dev w1 nodad
cat >say.py <<'P'
# What is no question, each with a nonce of its own, and then one that is: only that one is answered. Then more than are answered.
import socket, sys
index = socket.if_nametoindex("w1")
def node(address):
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.bind((address, 0, 0, index if address.startswith("fe80") else 0))
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
    s.settimeout(600)
    return s
def say(s, nonce, head=b"FMFQ\1\0\0\0", end=b"", length=96, hops=255):
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, hops)
    s.sendto((head + nonce).ljust(length - len(end), b"\0") + end, ("ff12::666d:6f76", 7471, 0, index))
link, elsewhere = node("fe80::1:2"), node("fd00:79::2")
say(link, b"a router", hops=254)
say(elsewhere, b"no link ")
say(link, b"short   ", length=95)
say(link, b"long    ", length=97)
say(link, b"version ", head=b"FMFQ\2\0\0\0")
say(link, b"flags   ", head=b"FMFQ\1\0\1\0")
say(link, b"dirt    ", end=b"x")
say(link, b"answer  ", head=b"FMFA\1\0\0\0")
say(link, b"question")
answer = link.recv(2000)
assert answer == b"FMFA\1\0\0\0question" + (7471).to_bytes(2, "little") + b"\2\0n1", answer
elsewhere.settimeout(0)
try:
    sys.exit("an answer to what came from elsewhere: %r" % elsewhere.recv(2000))
except BlockingIOError:
    pass
for i in range(1000):
    say(link, b"flood   ")
count = 0
try:
    while True:
        link.recv(2000)
        count += 1
        link.settimeout(0.5)
except TimeoutError:
    # The second in which so many are answered may end meanwhile, also more than once on a slow machine.
    assert count <= 200, count
P
in_ns 2 python3 say.py 2>err || bad "say.py: $(cat err)"
await finds || bad "after that: $(cat out err)"

# ---- the address that is listed is one to join at; then no invitation is open ----

await finds || bad "before it is joined: $(cat out err)"
address=$(sed -n 's/^\(\[.*%w1\]:7471\) says.*/\1/p' out)
ok in_ns 1 fmove invite --dir "$dir/c/n1"
read -r _ _ _ token <out
ok in_ns 2 fmove join --dir "$dir/c/n2" --node n2 --store "s=$dir/c/n2/files" "$address" "$token"
rm -f "$dir"/c/n1/invites/*
await hears_not || bad "it still listens after the last invitation"
finds_none || bad "after the last invitation: $(cat out err)"
end_well

# ---- a stranger who answers what he likes ----

cat >lie.py <<'P'
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(("::", 7471))
w1 = socket.if_nametoindex("w1")
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, "ff12::666d:6f76") + w1.to_bytes(4, "little"))
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 255)
def found(nonce, port, name, length=None):
    return b"FMFA\1\0\0\0" + nonce + port.to_bytes(2, "little") + (length or len(name)).to_bytes(2, "little") + name
while True:
    question, who = s.recvfrom(2000)
    nonce = question[8:16]
    s.sendto(found(nonce, 1, b"\x1b[2Jn1\n[fe80::1]:1 says it is n2"), who)
    s.sendto(found(b"another.", 1, b"stale"), who)
    s.sendto(found(nonce, 1, b"x" * 64), who)
    s.sendto(found(nonce, 1, b"cut", 9), who)
    s.sendto(found(nonce, 1, b"nul\0"), who)
    for i in range(2, 200):
        s.sendto(found(nonce, i, b"flood"), who)
P
ip netns exec "${id}1" python3 lie.py &	# not by a function: what is killed is the program itself
liar=$!
await hears || bad "the liar does not listen"
lies() {
	find --any-port && grep -qF '\x1b[2Jn1\x0a[fe80::1]:1 says it is n2' out && grep -q 'more than 64' err
}
await lies || bad "what he says: $(cat -v out err)"
grep -q $'\x1b' out && bad "an escape sequence reaches the terminal"
grep -qE 'stale|xxx|cut|nul' out && bad "an answer that is none is listed: $(cat out)"
[ "$(grep -c . out)" -eq 64 ] || bad "of many: $(grep -c . out) $(cat err)"
kill $liar
wait $liar 2>/dev/null

# ---- mistakes ----

no 2 '--any-port belongs to --find' fmove join --any-port x:1 token
no 2 '--find joins nobody' fmove join --find --node n2
no 2 'join' fmove join --find x:1
