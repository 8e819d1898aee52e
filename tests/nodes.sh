# SPDX-License-Identifier: MIT
# nodes.sh - nodes with a configuration of one's own, for lab tests and benches; sourced. Who needs nothing special
# takes tests/cluster.
# shellcheck shell=bash
#
# A node is a directory: key, pub, conf, sock, log, pid, and s, its store. FMOVE_BIN says where the programs are. Order: node_key
# for every node, node_conf, node_start, node_wait, work, node_stop.

# shellcheck source=tests/hang.sh
. "$(dirname "${BASH_SOURCE[0]}")/hang.sh"
# shellcheck source=tests/ports.sh
. "$(dirname "${BASH_SOURCE[0]}")/ports.sh"

# node_key DIR: a new node's directory, key and public key (in DIR/pub).
node_key() {
	[ -x "$FMOVE_BIN/fmoved" ] || { echo "no fmoved in $FMOVE_BIN: build the programs first" >&2; return 1; }
	rm -rf "$1"
	mkdir -p "$1/s"
	"$FMOVE_BIN/fmove" keygen "$1/key" > "$1/pub"
}

# node_peer NAME ADDRESS PUB_FILE: one entry for node_conf, with what stands in `node_peer_extra`.
node_peer() {
	printf '{ name = "%s"; address = "%s"; key = "%s"; %s}' "$1" "$2" "$(cat "$3")" "${node_peer_extra:-}"
}

# node_conf DIR NAME LISTEN PEER...: write its configuration: a store `s`, a store `null`, and whatever comes from standard input (sections;
# `node_stores` adds stores, each ending in a comma; `node_memory` is added where nothing is said of memory).
node_conf() {
	local dir=$1 name=$2 listen=$3 peers more IFS=,
	shift 3
	peers="$*"		# a here-document would put blanks between them
	IFS= read -r -d '' more || true
	be_patient more
	[[ $more = *memory* ]] || more+=$'\n'${node_memory:-}

	cat > "$dir/conf" <<-C
	node = { name = "$name"; listen = "$listen"; key_file = "$dir/key"; socket = "$dir/sock"; state_directory = "$dir/state"; };
	stores = (
		${node_stores:-}
		{ name = "s"; directory = "$dir/s"; },
		{ name = "null"; directory = "null:"; }
	);
	peers = ( $peers );
	$more
	C
}

# node_start DIR [FMOVED_OPTION...]: in the background; node_wrap, an array, goes before the command. Ready when this returns.
node_start() {
	local dir=$1
	shift

	rm -f "$dir/sock"
	${node_wrap[@]+"${node_wrap[@]}"} "$FMOVE_BIN/fmoved" --config "$dir/conf" "$@" >> "$dir/log" 2>&1 &
	echo $! > "$dir/pid"
	node_until "$dir" test -S "$dir/sock"
}

# node_until DIR CMD...: wait until CMD succeeds, as long as the node lives.
node_until() {
	local dir=$1 end=$((SECONDS + HANG_S)) pause_ms=50 pause_s node_pid
	shift

	until ASAN_OPTIONS=$ASKING "$@" > /dev/null 2>&1; do
		if ! read -r node_pid < "$dir/pid" || ! kill -0 "$node_pid" 2>/dev/null || ((SECONDS >= end)); then
			printf 'node in %s: not done: %s; the end of its log:\n' "$dir" "$*" >&2
			tail -n 20 "$dir/log" >&2
			node_status "$dir" >&2 || true
			return 1
		fi
		# Longer each time: who asks takes the processor from what it waits for.
		printf -v pause_s '0.%03d' "$pause_ms"
		pause "$pause_s"
		pause_ms=$((pause_ms < 200 ? pause_ms * 3 / 2 : 300))
	done
}

# node_wait DIR KIND RAILS CONNECTIONS: until it has that many rails of that kind up, each with that many connections or more; `all`: as
# many as the node makes on a rail whose speed nobody knows, such as the loopback.
node_wait() {
	local connections=$4

	[ "$connections" != all ] || connections=$(node_status "$1" | json "$2_conns")
	node_until "$1" node_has_rails "$1" "$2" "$3" "$connections"
}

node_has_rails() {
	local rail connections='"connections":([0-9]+)' up=0

	while read -r rail; do
		[[ $rail = *'"up":true'* && $rail =~ $connections ]] || continue
		((BASH_REMATCH[1] < $4)) || up=$((up + 1))
	done < <(node_rails "$1" "$2")
	((up >= $3))
}

# node_rails DIR KIND: its rails of that kind to all peers, a line of JSON each.
node_rails() {
	local LC_ALL=C text rail="\\{\"kind\":\"$2\"[^}]*\\}"

	text=$(node_status "$1") || true
	while [[ $text =~ $rail ]]; do
		printf '%s\n' "${BASH_REMATCH[0]}"
		text=${text#*"${BASH_REMATCH[0]}"}
	done
}

node_status() {
	"$FMOVE_BIN/fmove" --socket "$1/sock" status --json
}

# node_stop DIR: with SIGTERM; its exit status is not looked at.
node_stop() {
	local pid

	pid=$(cat "$1/pid")
	kill "$pid" 2>/dev/null || true
	await_end "$pid"
}

# json KEY: the value of the first such key in the JSON on standard input, without quotes; empty if there is none. By the shell alone: in
# the lab each program that is started costs a twentieth of a second.
json() {
	local LC_ALL=C text key="\"$1\": *(\"[^\"]*\"|[^,}"$'\n'"]*)"

	IFS= read -r -d '' text || true
	[[ $text =~ $key ]] || return 0
	text=${BASH_REMATCH[1]#\"}
	printf '%s\n' "${text%\"}"
}

# node_ports COUNT: the first of so many ports in a row, of those that own_ports gave, at which nobody listens.
node_ports() {
	local port i used

	while :; do
		port=$((ports_from + RANDOM % (PORTS_EACH - $1 + 1)))
		for ((i = 0; i < $1; i++)); do
			used=$(printf ':%04X 0' $((port + i)))
			! grep -qs -- "$used" /proc/net/tcp /proc/net/tcp6 || continue 2
		done
		echo $port
		return
	done
}

# node_pair DIR PORT [FMOVED_OPTION...]: nodes n1 and n2 on this machine, at PORT + 1 and PORT + 2, joined. `node_extra` is added to
# both configurations; `node_listen` is the address they listen on.
node_pair() {
	local dir=$1 port=$2 i other
	shift 2

	for i in 1 2; do
		node_key "$dir/n$i" || return 1
	done
	for i in 1 2; do
		other=$((3 - i))
		node_conf "$dir/n$i" "n$i" "${node_listen:-127.0.0.1}:$((port + i))" \
			"$(node_peer "n$other" "127.0.0.1:$((port + other))" "$dir/n$other/pub")" <<< "${node_extra:-}"
	done
	for i in 1 2; do
		node_start "$dir/n$i" "$@" || return 1
	done
}

# node_guest DIR [FMOVED_OPTION...]: for tests of the lab: in each of two guests a node, named n and the guest's number, joined over
# wire 0. Keys travel through /out.
node_guest() {
	local dir=$1 other=$((3 - GUEST))
	shift

	node_key "$dir" || return 1
	cp "$dir/pub" "/out/pub.$GUEST"
	sync_point keys
	node_conf "$dir" "n$GUEST" "[::]:7471" \
		"$(node_peer "n$other" "$(wire_addr 0 $other):7471" "/out/pub.$other")" <<< "${node_extra:-}"
	node_start "$dir" "$@"
}
