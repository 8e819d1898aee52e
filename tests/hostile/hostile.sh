#!/bin/bash
# SPDX-License-Identifier: MIT
#
# hostile.sh [SECONDS [MESSAGES]] - the hostile peer and the hostile local client against a daemon, for so many seconds (30) and until each has
# sent its share of so many messages (0: none needed).
#
# Goal:   whatever a peer with a good key or a local user sends, the daemon neither ends, hangs, grows nor writes outside its stores, and
#         transfers of others beside it complete.
# Method: n1 is the daemon, under the address sanitizer; h1 and h2 are peers with keys that it knows, a client runs as another user. n2 is a peer
#         that behaves well: it and a caller at n1 put and get files, compare them, and none may fail. Afterwards the daemon answers, what it
#         holds (memory it counts, descriptors, threads) is back where it was, everything outside of the stores that may be written is what
#         it was, and it ends when it is told to, without a report of a sanitizer, leaks included.
#
#   FM_SEED               repeats a kind of run; printed
#   FM_HOSTILE_PEERS      0: none (2)
#   FM_HOSTILE_CLIENTS    0: none (1)
#   FM_HOSTILE_HOST       the address that all listen at (127.0.0.1); that of an RDMA device: half of the hostile connections are RDMA
#   FM_HOSTILE_KIND       what the nodes have to be connected by before it begins: tcp or rdma (tcp)
#   FM_HOSTILE_LOG        what n1 logs: error, warn, info, debug (warn)
#   FM_KEEP               leave the directory
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=tests/nodes.sh
. "$here/../nodes.sh"

seconds=$(sample "${1:-30}")
messages=${2:-0}
seed=${FM_SEED:-$((RANDOM * 32768 + RANDOM))}
peers=${FM_HOSTILE_PEERS:-2}
clients=${FM_HOSTILE_CLIENTS:-1}
host=${FM_HOSTILE_HOST:-127.0.0.1}
kind=${FM_HOSTILE_KIND:-tcp}
base=$(mktemp -d "${TMPDIR:-/tmp}/fm-hostile.XXXXXX")
dir=$base/up/above/nodes
nobody=65534
pids=()
TOTAL_MIB=768
# What freed memory the sanitizer keeps back would look like growth.
export UBSAN_OPTIONS=print_stacktrace=1
export ASAN_OPTIONS=quarantine_size_mb=16:malloc_context_size=12:detect_leaks=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}

die() {
	echo "FAIL (seed $seed): $*" >&2
	report >&2 || true
	tail -n 12 "$dir"/n?/log "$base"/out.* >&2 || true
	exit 1
}

cleanup() {
	local pid

	for pid in "${pids[@]}" $(cat "$dir"/n?/pid 2>/dev/null); do
		kill -KILL "$pid" 2>/dev/null || true
	done
	if [ -n "${FM_KEEP:-}" ]; then
		echo "kept: $base" >&2
	else
		rm -rf "$base"
	fi
}
trap cleanup EXIT

# Of a sanitizer or an assertion, in a log.
report() {
	grep -hE -A 25 'ERROR: [A-Za-z]*Sanitizer|runtime error:|Assertion .* failed' "$dir"/n?/log | head -n 60
}

fm() {
	local node=$1
	shift

	timeout "$HANG_S" "$FMOVE_BIN/fmove" --socket "$dir/$node/sock" "$@"
}

# --- the nodes -----------------------------------------------------------------------------------

# own and ours are for n2 and root alone, ours is shared with whoever says so, read is for nobody to write to: what is in them has to be there at the end as it was.
write_conf() {
	local dir_n1=$dir/n1 i entries node_stores

	entries=$(node_peer n2 "$host:$((port + 2))" "$dir/n2/pub")

	for ((i = 1; i <= peers; i++)); do
		entries+=,$(node_peer "h$i" "$host:$((port + 2 + i))" "$dir/h$i/pub")
	done
	mkdir -p "$dir_n1/own" "$dir_n1/ours" "$dir_n1/read"
	node_stores="{ name = \"own\"; directory = \"$dir_n1/own\"; read = [ \"peer:n2\", \"user:root\" ]; write = [ \"peer:n2\", \"user:root\" ]; },
		{ name = \"ours\"; directory = \"$dir_n1/ours\"; shared = \"nfs1\"; read = [ \"peer:n2\", \"user:root\" ]; write = [ ]; },
		{ name = \"read\"; directory = \"$dir_n1/read\"; write = [ ]; },"
	node_conf "$dir_n1" n1 "$host:$((port + 1))" "$entries" <<< "$extra $staging"
	sed -i "s/^node = {/node = { socket_mode = \"0666\"; log_level = \"${FM_HOSTILE_LOG:-warn}\";/" "$dir_n1/conf"
	node_stores=''
	node_conf "$dir/n2" n2 "$host:$((port + 2))" "$(node_peer n1 "$host:$((port + 1))" "$dir/n1/pub")" <<< "$extra"
}

start_nodes() {
	local i

	extra="memory = { arena = \"64MiB\"; slab = \"1MiB\"; total = \"${TOTAL_MIB}MiB\"; }; mover = { chunk = \"64KiB\"; tcp_conns = 2; };"
	staging="staging = { directory = \"$dir/n1/cache\"; size = \"64MiB\"; grace = \"0s\"; peers = [ \"*\" ]; };"
	mkdir -p "$dir/n1/cache"
	own_ports
	port=$(($(node_ports $((3 + peers))) - 1))
	for i in n1 n2 $(seq -f 'h%g' 1 "$peers"); do
		node_key "$dir/$i" || die "no key"
	done
	write_conf
	if ! node_start "$dir/n1" || ! node_start "$dir/n2"; then
		die "the nodes do not start"
	fi
	disown -a
	daemon=$(cat "$dir/n1/pid")
	node_wait "$dir/n1" "$kind" 1 1
	chmod 755 "$base" "$base"/up "$base"/up/above "$dir" "$dir/n1"
}

# --- what must not change ------------------------------------------------------------------------

# Everything beside the stores that may be written, n1's log and its state.
outside() {
	(cd "$base" && find up -path "up/above/nodes/n1/s" -prune -o -path up/above/nodes/n1/state -prune -o -path 'up/above/nodes/n2' -prune -o \
		-path up/above/nodes/n1/log -prune -o -path up/above/nodes/n1/cache -prune -o -path up/above/nodes/n1/own/honest -prune -o -path up/above/nodes/n1/ours/honest -prune -o -path up/above/nodes/work -prune -o \
		! -type d -printf '%p %m %U %s %T@ %l\n' -o -type d -printf '%p %m %U\n' | sort)
	find / /tmp /etc /var /root /home -maxdepth 1 -name '*hstl*' 2>/dev/null || true
}

held() {
	local proc

	proc=/proc/$daemon
	# shellcheck disable=SC2012 # names of descriptors are numbers
	printf '%s %s %s\n' "$(ls "$proc/fd" | wc -l)" "$(ls "$proc/task" | wc -l)" "$(awk '$1 == "VmRSS:" { print int($2 / 1024) }' "$proc/status")"
}

# --- those who behave well -----------------------------------------------------------------------

# No control, no mark that turns text around: what peers said is shown, not obeyed.
is_plain() {
	local status=0

	LC_ALL=C grep -lP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]' "$@" || status=$?
	[ $status = 1 ]		# 2: it could not look
}

# Each time another version, of what the hostile peers may not read. What they take part in they can end: nothing is said of how.
stage_round() {
	local round=$1 store=own

	[ $((round % 2)) -eq 0 ] || store=ours
	mkdir -p "$dir/n1/$store/honest/secret"
	echo "$round: nobody but n2 and root" > "$dir/n1/$store/honest/secret/f"
	timeout 5 "$FMOVE_BIN/fmove" --socket "$dir/n1/sock" stage --nodes n1 $store/honest/secret > "$base/staged" 2>&1 || true
}

honest_round() {
	local round=$1

	fm n1 put --quiet --force "$base/honest.file" n2:s/one || die "a put of n1 failed in round $round"
	fm n1 get --quiet --force n2:s/one "$base/honest.back" || die "a get of n1 failed in round $round"
	cmp "$base/honest.file" "$base/honest.back" || die "it came back as another one in round $round"
	fm n2 put --quiet --force "$base/honest.file" n1:own/honest/two || die "a put of n2 failed in round $round"
	cmp "$base/honest.file" "$dir/n1/own/honest/two" || die "it arrived as another one in round $round"
	fm n2 put -r --quiet --replace "$base/honest.tree" n1:own/honest/tree || die "a put of a tree failed in round $round"
	diff -r "$base/honest.tree" "$dir/n1/own/honest/tree" || die "the tree arrived as another one in round $round"
	fm n1 status > "$base/status" || die "no status in round $round"
	fm n1 status --json > "$base/status.json" || die "no status in round $round"
	is_plain "$base/status" "$base/status.json" || die "what a terminal obeys is in the status in round $round"
}

# --- those who do not ----------------------------------------------------------------------------

start_hostile() {
	local i share=$((peers + clients > 0 ? messages / (peers + clients) : 0)) end=(--seconds "$seconds")

	[ "$messages" = 0 ] || end=(--messages "$share" --seconds 86400)
	for ((i = 1; i <= peers; i++)); do
		"$FMOVE_BIN/hostile_peer" --key "$dir/h$i/key" --name "h$i" --listen "$host:$((port + 2 + i))" --host "$host" --to $((port + 1)) \
			--to-key "$(cat "$dir/n1/pub")" --seed $((seed + i)) "${end[@]}" > "$base/out.h$i" 2>&1 &
		pids+=($!)
	done
	mkdir -p "$dir/work"
	head -c 100000 /dev/urandom > "$dir/work/source"
	truncate -s 5M "$dir/work/sparse"
	chown -R $nobody "$dir/work" 2>/dev/null || true
	for ((i = 1; i <= clients; i++)); do
		"$FMOVE_BIN/hostile_client" --socket "$dir/n1/sock" --dir "$dir/work" --user $nobody --seed $((seed + 100 + i)) "${end[@]}" \
			> "$base/out.c$i" 2>&1 &
		pids+=($!)
	done
}

hostile_run() {
	local pid

	for pid in "${pids[@]}"; do
		! kill -0 "$pid" 2>/dev/null || return 0
	done
	return 1
}

no_hostile_failed() {
	local pid

	for pid in "${pids[@]}"; do
		wait "$pid" || die "a hostile program ended by itself"
	done
	pids=()
}

# What goes on without its caller, and waits for what never comes, ends by itself after minutes.
end_jobs() {
	local id

	for id in $(fm n1 jobs --all --quiet); do
		fm n1 cancel "$id" 2> /dev/null || true	# most have ended
	done
}

# --- afterwards ----------------------------------------------------------------------------------

# A process that nobody has waited for is there, without memory.
is_alive() {
	[ "$(held | wc -w)" = 3 ]
}

is_back() {
	local now
	held > "$base/held"
	read -ra now < "$base/held"
	[ ${#now[@]} = 3 ] && [ "${now[0]}" -le $((before[0] + 8)) ] && [ "${now[1]}" -le $((before[1] + 8)) ]
}

what_it_holds() {
	find "/proc/$daemon/fd" -type l -printf '%l\n' | sed 's/[0-9]\+/N/g' | sort | uniq -c
	cat "/proc/$daemon"/task/*/comm | sort | uniq -c
	fm n1 status
	fm n1 jobs --all
}

# Each has got in: with a wrong key, wire version or mode of the socket it sends nothing, and all is well.
all_sent() {
	local out

	[ $rounds -gt 0 ] || die "nobody else has done anything beside them"
	for out in "$base"/out.h* "$base"/out.c*; do
		[ ! -e "$out" ] || grep -qE '^[^:]*: [1-9][0-9]* (control|requests)' "$out" || die "${out##*.} has sent nothing: $(cat "$out")"
	done
}

still_well() {
	local now end

	is_alive || die "n1 is gone"
	for ((end = SECONDS + HANG_S; SECONDS < end; )); do
		! is_back || break
		pause 0.5
	done
	is_back || { what_it_holds >&2; die "it holds $(held) (descriptors, threads, MiB), before it was ${before[*]}"; }
	read -ra now < "$base/held"
	echo "n1 holds ${now[0]} descriptors, ${now[1]} threads, ${now[2]} MiB; before: ${before[0]}, ${before[1]}, ${before[2]}"
	peak=$(awk '$1 == "VmHWM:" { print int($2 / 1024) }' "/proc/$daemon/status")
	[ "$peak" -le $((TOTAL_MIB + 256)) ] || die "it took $peak MiB"
	honest_round after
	outside > "$base/outside.after"
	diff "$base/outside.before" "$base/outside.after" || die "something was written outside"
}

ends_well() {
	local pid n

	for n in n1 n2; do
		pid=$(cat "$dir/$n/pid")
		kill "$pid"
		timeout "$HANG_S" tail -s 0.2 --pid="$pid" -f /dev/null || die "$n does not end"
	done
	[ -z "$(report)" ] || die "a report in a log"
	is_plain "$dir"/n?/log || die "what a terminal obeys is in a log"
}

echo "seed $seed"
[ -x "$FMOVE_BIN/hostile_peer" ] || { echo "SKIP: no hostile_peer in $FMOVE_BIN: make check builds it"; exit 77; }
mkdir -p "$dir"
start_nodes
head -c 300000 /dev/urandom > "$base/honest.file"
mkdir -p "$base/honest.tree/d" "$dir/n1/own/honest"
cp "$base/honest.file" "$base/honest.tree/d/f"
echo kept > "$dir/n1/own/kept"
echo kept > "$dir/n1/read/kept"
honest_round before
outside > "$base/outside.before"
read -ra before <<< "$(held)"
start_hostile
rounds=0
while hostile_run; do
	rounds=$((rounds + 1))
	honest_round $rounds
	stage_round $rounds
	is_alive || die "n1 is gone"
	[ -z "$(report)" ] || die "a report in a log"
done
no_hostile_failed
all_sent
end_jobs
grep -hE '^(h[0-9]+|client|errors):' "$base"/out.*
still_well
ends_well
echo "in all: $(grep -hoE '[0-9]+ (control|requests|answers)|and [0-9]+ data' "$base"/out.* | awk '{ n += $1 + ($1 == "and" ? $2 : 0) } END { print n + 0 }')" \
	"hostile messages, $rounds rounds of transfers of others beside them, at most $peak MiB"
