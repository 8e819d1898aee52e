#!/bin/bash
# Goal:   fmove without a command says what this machine has of fmove and what to do next: before there is a configuration, without a
#         daemon, without the right to use it, without peers, with peers that are and are not connected, and with volumes.
# Method: /etc is an empty file system for the command alone where that matters; a daemon that is stopped; one of hostile texts cannot
#         be made, so what a peer may say is tested where it is printed first (show).
. "$(dirname "$0")/lib.sh"
up 2

# seen PATTERN WHAT: a line of what was printed.
seen() {
	grep -Eq -- "$1" out || bad "$2: no line like \"$1\": $(cat out err)"
}

# overview: fmove's, in which each daemon answers, which has 5 s for that.
overview() {
	await answers_at_once || bad "no overview: $(cat out err)"
}
answers_at_once() {
	fmove >out 2>err && ! grep -q '^volumes  not known' out
}

overview
seen '^node     n1, up .*, fmove [0-9]' "a daemon that runs"
seen '^stores   s$' "its stores"
seen '^peers    n2: connected for .*, [0-9]+ of [0-9]+ (RDMA|TCP) rails? up$' "its peers"
seen '^next     fmove --help' "what next"
grep -q doctor out && bad "doctor, and all is well: $(cat out)"
awk 'length($0) > 80 { exit 1 }' out || bad "wider than 80: $(cat out)"

crash n2
not_connected() {
	fmove | grep -q '^peers    n2: not connected for .*; '
}
await not_connected || bad "a peer that is gone: $(fmove)"
overview
seen '^next     fmove doctor' "a peer that is gone"
start_again n2
reachable 2

# No peers: whoever set up the first node.
use 2
sed -i '/peers = (/,/);/d' "$dir/c/n2/fmove.conf"
rm -rf "$dir/c/n2/peers.d"
take_over 2
overview
seen '^peers    none$' "no peers"
seen '^next     fmove invite' "no peers"
use 1

# It does not answer.
kill -STOP "$(cat "$dir/c/n1/pid")"
no 4 'fmoved does not answer' timeout 30 fmove
kill -CONT "$(cat "$dir/c/n1/pid")"
reachable 1

# Nobody listens.
if [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
	alone() {
		unshare -m sh -c "mount -t tmpfs none /etc && $1 exec fmove --socket $dir/nobody" >out 2>err ||
			bad "without a daemon: $(cat out err)"
	}
	alone ""
	seen '^config   none: there is no /etc/fmove/fmove.conf$' "no configuration"
	seen '^RDMA     ' "no configuration"
	seen '^next     on the first node: fmove init --system' "no configuration"
	seen '^next     on a further node: .*fmove invite' "no configuration"
	alone "mkdir /etc/fmove && : >/etc/fmove/fmove.conf &&"
	seen '^config   /etc/fmove/fmove.conf$' "no daemon"
	seen "^daemon   none listens at $dir/nobody\$" "no daemon"
	seen '^next     (systemctl enable --now fmoved|fmoved --config /etc/fmove/fmove.conf), as ' "no daemon"
fi

# The socket is not for everybody.
if [ "$(id -u)" -eq 0 ]; then
	chmod 700 "$dir/c/n1"
	no 6 'may not be used by you|Permission denied' as_nobody fmove
	chmod 755 "$dir/c/n1"
fi

# Nobody reads it.
if [ -e /dev/full ]; then
	fmove >/dev/full 2>err
	[ $? -eq 1 ] || bad "a full standard output: $(cat err)"
fi
