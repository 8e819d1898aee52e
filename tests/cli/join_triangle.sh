#!/bin/bash
# Goal:   three nodes, a cable between each two, small networks, no route that leads out: init, join
#         and invite make a cluster of them in which each reaches each, and nobody edits a file.
# Method: three network namespaces, and the commands of client/pages/triangle.md; the lines that are printed are said as they
#         stand. The line of a node has both its addresses: at the third node one leads nowhere, so join takes the other.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns_lib.sh"
. "$(dirname "$0")/join_lib.sh"
. "$FM_SOURCE/tests/pages.sh"

# wire I J NETWORK
wire() {
	netns_wire "$1" "to$2" "$3.1/30" "$2" "to$1" "$3.2/30"
	ip -n "$id$1" link set "to$2" mtu 9000
	ip -n "$id$2" link set "to$1" mtu 9000
	await is_up "$1" "to$2" && await is_up "$2" "to$1" || bad "the wire from n$1 to n$2 does not come up"
}

has_peers() {
	[ "$(fmove --socket "$dir/c/n$1/fmoved.sock" status --json | grep -o '"connected":true' | wc -l)" -eq 2 ]
}

netns_begin fmt "join_down 1 2 3" 1 2 3
mkdir "$dir/c"
wire 1 2 10.81.12
wire 1 3 10.81.13
wire 2 3 10.81.23
echo >line

# node NAME: its number.
node() {
	case $1 in first) echo 1 ;; second) echo 2 ;; third) echo 3 ;; esac
}

# What a service does is done to the daemon of third, the only one that is told to read its configuration again.
systemctl() {
	[ "$*" = 'reload fmoved' ] && pkill -HUP -f "^fmoved --config $dir/c/n3/fmove.conf"
}

# typed NAME COMMAND: at that node. What --system makes is made in its directory, and its daemon begins by hand; the line that was printed last
# stands for the addresses and the token.
typed() {
	local i line address token command=${2#sudo }

	i=$(node "$1")
	read -r _ _ address token <line
	command=${command/second:7471 TOKEN/$address $token} command=${command/first:7471 TOKEN/$address $token}
	command=${command/--store models=\/data\/models/--node $1 --store models=$dir/c/n$i/files}
	command=${command/--system/--dir $dir/c/n$i} command=${command/#fmove invite/fmove invite --dir $dir/c/n$i}
	[ ! -S "$dir/c/n$i/fmoved.sock" ] || export FMOVE_SOCKET=$dir/c/n$i/fmoved.sock
	read -ra command <<<"$command"
	if [ "${command[0]}" = systemctl ]; then
		"${command[@]}" || bad "$2"
	else
		ok in_ns "$i" "${command[@]}"
	fi
	case $2 in
	*" init "* | *" invite"*)	grep '^fmove join ' out >line || bad "$2: no line: $(cat out)" ;;
	*TOKEN*--store*)	serve "$i" ;;
	*' reload fmoved')	for i in 1 2 3; do await has_peers $i || bad "n$i has not two peers: $(fmove --socket "$dir/c/n$i/fmoved.sock" status)"; done ;;
	esac
	case $2 in *" init "*) serve 1 ;; esac
}

random 300000 checkpoint.pt
page_run triangle.md typed || bad "the page has no commands"
grep -q '^fmove join 10.81.12.2:7471,10.81.23.1:7471 ' line || bad "the line: $(cat line)"
for file in n2/files/a.pt n3/files/b.pt n1/files/c.pt; do
	same checkpoint.pt "$dir/c/$file"
done
unset FMOVE_SOCKET
end_well
