#!/bin/bash
# Goal:   of a node that has another version of fmove each command that needs it says so, and what to do; what others move goes on.
# Method: two real daemons, and hostile_peer as a third node with a key that they know, which greets with another version of the protocol and does
#         nothing else.
. "$(dirname "$0")/lib.sh"
. "$FM_SOURCE/tests/nodes.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };'
up 2
conf=$dir/c/n1/fmove.conf
key=$(fmove keygen other.key)
there=$(node_ports 1)
sed -i "s|^peers = (\$|&\\n\\t{ name = \"h1\"; address = \"127.0.0.1:$there\"; key = \"$key\"; },|" "$conf"
take_over 1
here=$(sed -n 's/.*listen = ".*:\([0-9]*\)";/\1/p' "$conf")
timeout $HANG_S hostile_peer --key other.key --name h1 --listen "127.0.0.1:$there" --to "$here" --to-key "$(fmove keygen --show "$dir/c/n1/node.key")" \
	--version 14 --lie silent --seconds 1 >peer.out 2>&1 &
asides=$!

says='h1: .*speaks protocol versions 14 to 14, n1 speaks [0-9]*: install the same fmove on both'
differs() {
	fmove status >out 2>&1
	grep -q "$says" out
}
await differs || bad "the status does not say it: $(cat out peer.out)"

random 100000 f
mkdir "$(store 1)/set"
random 1000 "$(store 1)/set/f"
while read -r status command; do
	# shellcheck disable=SC2086 # words of a command
	no "$status" "$says" fmove $command
done <<-END
	4 bench tcp --peer h1 --seconds 0.1 --quiet --config $conf
	4 put f h1:s/f
	4 get h1:s/f g
	4 ls h1:s
END
fmove stage --nodes n1,h1 n1:s/set >out 2>err </dev/null && bad "a node of another version has the dataset"
grep -q "h1: silent: .*${says#h1: }" err || bad "stage does not say why: $(cat err)"
ok fmove put f n2:s/f
same f "$(store 2)/f"
