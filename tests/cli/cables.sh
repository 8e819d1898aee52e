#!/bin/bash
# Goal:   of two cables, one that is cut costs its connections and nothing else: a put, a get, a put of a file as standard
#         input, a put from a pipe and a get into one go on over the other. Status says which is down and why. It is used again
#         when it is back. The session of the nodes is on either of them.
# Method: two nodes in network namespaces with two slow wires, so that both are needed; the session begins on the first, and the configuration
#         names no other address. The second, then the first loses what goes there, what comes back, or both without a word (frames to a
#         station that does not exist), or its carrier; of a pipe that cable which carries it. What TCP itself says of a cable that is cut comes after half a minute, and in
#         other words. At last both nodes start while the first is cut, and for a while the second is, too.
. "$(dirname "$0")/lib.sh"
. "$FM_SOURCE/tests/nodes.sh"
[ "$(id -u)" = 0 ] || skip "network namespaces take root"
command -v ip >/dev/null && command -v tc >/dev/null || skip "no programs ip and tc"

id=fmc$$
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cli.XXXXXX") || exit 1
trap 'cables_down; down' EXIT
mkdir "$dir/w"
cd "$dir/w" || exit 1

cables_down() {
	local i

	for i in 1 2; do
		[ ! -e "$dir/n$i/pid" ] || node_stop "$dir/n$i"
		[ "$fails" -eq 0 ] || { echo "-- log of n$i"; tail -n 25 "$dir/n$i/log"; } >&2
		ip netns del "$id$i"
	done
}

for i in 1 2; do
	ip netns add "$id$i" 2>/dev/null || { trap - EXIT; rm -rf "$dir"; skip "no network namespaces here"; }
	ip -n "$id$i" link set lo up
done
for wire in 1 2; do
	ip link add w$wire netns "${id}1" type veth peer name w$wire netns "${id}2"
	for i in 1 2; do
		ip -n "$id$i" addr add 10.78.$wire.$i/24 dev w$wire
		ip -n "$id$i" link set w$wire up
		tc -n "$id$i" qdisc add dev w$wire root tbf rate 16mbit burst 64kb latency 100ms 2>/dev/null ||
			{ cables_down; trap - EXIT; rm -rf "$dir"; skip "no slow wires: this kernel has no sch_tbf"; }
	done
done

node_key "$dir/n1"
node_key "$dir/n2"
for i in 1 2; do
	node_conf "$dir/n$i" "n$i" "0.0.0.0:7471" "$(node_peer "n$((3 - i))" "10.78.1.$((3 - i)):7471" "$dir/n$((3 - i))/pub")" \
		<<<'mover = { tcp_conns = 2; private_networks = [ "10.78.0.0/16" ]; };'
done
for i in 1 2; do
	node_wrap=(ip netns exec "$id$i")
	node_start "$dir/n$i"
done
unset node_wrap
export FMOVE_SOCKET=$dir/n1/sock

# rail I WIRE: what node i says of the rail over that wire, as JSON.
rail() {
	node_rails "$dir/n$1" tcp | grep "10.78.$2"
}

# is true|false WIRE: both nodes say so.
is() {
	local i

	for i in 1 2; do
		rail "$i" "$2" | grep -q "\"up\":$1" || return 1
	done
}

# lose NODE: what it sends over the wire reaches nobody.
lose() {
	ip -n "$id$1" neigh replace 10.78.$wire.$((3 - $1)) lladdr 02:00:00:00:00:01 dev w$wire nud permanent
}

find_again() {
	ip -n "$id$1" neigh del 10.78.$wire.$((3 - $1)) dev w$wire
}

# cut_wire HOW, mend_wire HOW
cut_wire() {
	case $1 in
	there)		lose 1 ;;
	back)		lose 2 ;;
	both)		lose 1; lose 2 ;;
	carrier)	ip -n "${id}2" link set w$wire down ;;
	esac
}

mend_wire() {
	case $1 in
	there)		find_again 1 ;;
	back)		find_again 2 ;;
	both)		find_again 1; find_again 2 ;;
	carrier)	ip -n "${id}2" link set w$wire up ;;
	esac
}

# sent_over NODE WIRE: bytes, since the nodes began.
sent_over() {
	rail "$1" "$2" | sed 's/.*"sent_bytes":\([0-9]*\).*/\1/'
}

# one_carries NODE WIRE...: one of these wires carries more than before; that is `wire` then.
one_carries() {
	local node=$1
	shift

	for wire; do
		[ "$(sent_over "$node" "$wire")" -le "${before[wire]}" ] || return 0
	done
	return 1
}

random 12000000 f
await is true 1 || bad "the first wire is not used: $(fmove status)"
await is true 2 || bad "the second wire is not used: $(fmove status)"

# session_on WIRE: status says that the nodes talk over that wire.
session_on() {
	fmove status >out && grep -q "^ *session w$1 10\.78\.$1\.1 -> 10\.78\.$1\.2$" out &&
		fmove status --json | grep -q "\"session\":{\"device\":\"w$1\",\"local\":\"10.78.$1.1\",\"remote\":\"10.78.$1.2\"}"
}

session_on 1 || bad "the session is not on the first wire: $(fmove status)"

# survives NAME HOW SENDER WIRES COMMAND...: of these wires one that carries what the command moves is cut.
survives() {
	local name=$1 how=$2 sender=$3 wires=$4 before logs
	shift 4

	before=(0 "$(sent_over "$sender" 1)" "$(sent_over "$sender" 2)")
	logs=$(cat "$dir"/n?/log | grep -cE 'plugged in|carrier is gone')
	"$@" <f >"out-$name" 2>err &
	# shellcheck disable=SC2086 # words
	await one_carries "$sender" $wires || bad "$name: nothing goes over wire $wires: $(fmove status)"
	cut_wire "$how"
	await is false "$wire" || bad "$name, $how: status does not say what is down: $(fmove status)"
	wait $! || bad "$name, $how: $(cat err)"
	[ "$(cat "$dir"/n?/log | grep -cE 'plugged in|carrier is gone')" -gt "$logs" ] || bad "$name, $how: nobody noticed by himself what became of the wire"
	mend_wire "$how"
	await is true "$wire" || bad "$name, $how: wire $wire is not used again: $(fmove status)"
}

from_pipe() (
	set -o pipefail
	cat | fmove put -q -f - n2:s/pipe
)

into_pipe() (
	set -o pipefail
	fmove get -q n2:s/put - | cat
)

for wire in 2 1; do
	survives put there 1 "$wire" fmove put -q -f f n2:s/put
	same f "$dir/n2/s/put"
	survives get back 2 "$wire" fmove get -q -f n2:s/put got
	same f got
	survives stdin both 1 "$wire" fmove put -q -f - n2:s/stdin
	same f "$dir/n2/s/stdin"
	survives put carrier 1 "$wire" fmove put -q -f f n2:s/put
	same f "$dir/n2/s/put"
done
for how in both carrier; do
	survives from_pipe "$how" 1 "1 2" from_pipe
	same f "$dir/n2/s/pipe"
	survives into_pipe "$how" 2 "1 2" into_pipe
	same f out-into_pipe
done
grep -q 'session with n[12] goes on over 10.78.2' "$dir"/n?/log || bad "the session never left its cable"

# Both are started again while the first is cut: what each said of its addresses was kept.
for i in 1 2; do
	node_stop "$dir/n$i"
done
wire=1
cut_wire carrier
node_wrap=(ip netns exec "${id}1")
node_start "$dir/n1"
# Nothing leads to the peer: the error names both addresses of it, and our ports to them, also the one that carries nothing.
wire=2
lose 1
! fmove put -q -f f n2:s/put 2>err || bad "a put over no wire at all"
grep -q 'from 10\.78\.1\.1 over w1, which carries nothing: 10\.78\.1\.2:7471: ' err && grep -q 'from 10\.78\.2\.1 over w2: 10\.78\.2\.2:7471: ' err ||
	bad "the error does not name the wires: $(cat err)"
find_again 1
node_wrap=(ip netns exec "${id}2")
node_start "$dir/n2"
unset node_wrap
await is true 2 || bad "no session over the second wire: $(fmove status)"
session_on 2 || bad "status does not say that the session is on the second wire: $(fmove status)"
fmove put -q -f f n2:s/put || bad "a put over the second wire alone"
same f "$dir/n2/s/put"
