# SPDX-License-Identifier: MIT
# peers - generated data from one node to three others, which join two seconds after each other: what the newest has in the
# second after its first one, as a share of what each should have. The first one's share falls to a
# half, and a third, within that second.
# shellcheck shell=bash

PEERS_PORT=17590
PEERS_BYTES=$((1 << 42))	# more than is ever sent

PEERS_SHARE_MIN=0.8
PEERS_IDLE_S=3			# idle slabs go back after two seconds

bench_peers() {
	local i

	peers_at=$memory/peers
	peers_start
	: > "$work/peers-3"
	: > "$work/peers-4"
	for ((i = 0; i < pairs; i++)); do
		peers_round
		sleep $PEERS_IDLE_S
	done
	for i in 3 4; do
		absolute "peer number $((i - 1)) in the second after its first, of an even share" \
			"$(calc "$(median "$work/peers-$i" 1)")" "($(spread "$work/peers-$i" 1))" \
			">=" $PEERS_SHARE_MIN
	done
	for i in 1 2 3 4; do
		node_stop "$peers_at/n$i"
	done
	rm -rf "$peers_at"
}

peers_round() {
	local joined

	for joined in 2 3 4; do
		"$FMOVE_BIN/put_load" "$peers_at/n1/sock" n$joined null x $PEERS_BYTES 1 > /dev/null 2>&1 &
		echo $! > "$work/peers-$joined.pid"
		sleep 1
		peers_measure $joined
	done
	for joined in 2 3 4; do
		kill "$(cat "$work/peers-$joined.pid")"
		rm "$work/peers-$joined.pid"
	done
}

# As many connections as a large machine has: more than there are slabs for three peers.
peers_start() {
	local i peers='' conf='mover = { transports = [ "tcp" ]; tcp_conns = 16; };'

	for i in 1 2 3 4; do
		node_key "$peers_at/n$i"
	done
	for i in 2 3 4; do
		peers+="${peers:+,}$(node_peer n$i "127.0.0.1:$((PEERS_PORT + i))" "$peers_at/n$i/pub")"
		node_conf "$peers_at/n$i" n$i "127.0.0.1:$((PEERS_PORT + i))" \
			"$(node_peer n1 "127.0.0.1:$((PEERS_PORT + 1))" "$peers_at/n1/pub")" <<< "$conf"
	done
	node_conf "$peers_at/n1" n1 "127.0.0.1:$((PEERS_PORT + 1))" "$peers" <<< "$conf"
	for i in 1 2 3 4; do
		node_start "$peers_at/n$i"
	done
	for i in 2 3 4; do
		node_wait "$peers_at/n$i" tcp 1 16
	done
}

# peers_measure NEWEST: during one second.
peers_measure() {
	local i before after newest total=0

	before=()
	for ((i = 2; i <= $1; i++)); do
		before[i]=$(peers_received $i)
	done
	sleep 1
	for ((i = 2; i <= $1; i++)); do
		after=$(peers_received $i)
		newest=$((after - before[i]))
		total=$((total + newest))
	done
	[ "$1" -gt 2 ] || return 0
	calc "$newest / $total * ($1 - 1)" >> "$work/peers-$1"
	echo >> "$work/peers-$1"
	say "   peer number $(($1 - 1)): $(tail -n 1 "$work/peers-$1")"
}

peers_received() {
	node_rails "$peers_at/n$1" tcp | json received_bytes
}
