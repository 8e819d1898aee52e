#!/bin/bash
# Goal:   a store on a file system that never answers again costs what goes into it, or is asked of it, and nothing else: the others of its node
#         are written, read and listed by the same user over the same connection, and whoever waits can leave. Who asks for the room of all
#         stores is told that it does not answer, and later that it fails; it is asked once.
# Method: one connection. A store of n2 on a file system that stops answering (hang_fs, FUSE) in the midst of puts into it, one of them read
#         back, and of two trees; then as many again begin, and are asked for. Well before that, a put and a tree into it end. The file system
#         says whenever it is asked for its room.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF='mover = { tcp_conns = 1; };'
hung=$(mktemp -d "${TMPDIR:-/tmp}/fm-hang.XXXXXX") || exit 1

heard=$(mktemp "${TMPDIR:-/tmp}/fm-heard.XXXXXX") || exit 1
coproc HANG { exec "$FM_BUILD/bin/hang_fs" "$hung" 1 20000000 "$(id -u)" 2>"$heard"; }
fs_pid=$HANG_PID
read -r said <&"${HANG[0]}"
[ "$said" = mounted ] || { rmdir "$hung"; rm "$heard"; skip "${said#SKIP: }"; }
end_fs() {
	kill -KILL "$fs_pid" 2>/dev/null
	umount -l "$hung" 2>/dev/null
	rmdir "$hung" 2>/dev/null
	rm -f "$heard"
}
up 2
trap 'status=$?; end_fs; (exit $status); down' EXIT
sed -i "s|stores = ( {|stores = ( { name = \"hung\"; directory = \"$hung\"; write = [ \"*\" ]; read = [ \"*\" ]; }, {|" "$dir/c/n2/fmove.conf"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
start_again n2
reachable 2

random 20000000 big
random 3000000 file
mkdir -p tree/sub
random 12000000 tree/large
for i in $(seq 20); do random 50000 "tree/sub/$i"; done

# While it answers all is as in any store.
ok fmove put --quiet big n2:hung/before
[ "$(stat -c %s "$hung/before")" = 20000000 ] || bad "it is not there: $(ls -l "$hung")"
ok fmove put --quiet -r tree n2:hung/tree
[ "$(stat -c %s "$hung/tree/sub/7")" = 50000 ] || bad "the tree is not there: $(ls -lR "$hung")"
# It forgets what is written behind the first MiB, so that what is read back is something else.
no 5 'the disk gives back other bytes than were written to it' fmove put --quiet --verify readback file n2:hung/forgotten

transfers=0
begin() {
	fmove "$@" >/dev/null 2>"err.$transfers" &
	pids="$pids $!"
	transfers=$((transfers + 1))
}
pids=
for i in 1 2 3 4 5 6; do begin put --quiet --limit 50kB/s big "n2:hung/$i.big"; done
begin put --quiet --limit 50kB/s --verify readback big n2:hung/back
begin put --quiet --limit 50kB/s -r tree n2:hung/tree1
begin put --quiet --limit 50kB/s -r tree n2:hung/tree2
are_copying() {
	[ "$(fmove status --json | grep -o '"state":"copying"' | wc -l)" -eq "$transfers" ]
}
await are_copying || bad "not all are under way: $(fmove status)"
kill -USR1 "$fs_pid"

# A signal that cuts status off is no success.
env --default-signal=INT fmove --socket "$dir/c/n2/fmoved.sock" status --json >out.cut 2>err.cut &
cut=$!
await grep -q statfs "$heard" || bad "$hung was not asked for its room"
kill -INT $cut
wait $cut
[ $? -eq 130 ] && grep -q '"exit":130}$' out.cut || bad "status, cut off by a signal: $(cat out.cut err.cut)"

# Once it is known, nobody asks it again, and the stores behind it are told of.
is_silent() {
	fmove "$@" --json >out && grep -q '"store":"hung"[^}]*"free":null[^}]*"silent_ms":[0-9]' out &&
		grep -q '"store":"s"[^}]*"free":[0-9][^}]*"silent_ms":null' out
}
await is_silent df n2 || bad "not told what does not answer: $(cat out)"
await grep -q statfs "$heard" || bad "$hung was not asked for its room"
asked=$(grep -c statfs "$heard")
for i in 1 2 3; do
	await is_silent df n2 || bad "not told any more: $(cat out)"
	await is_silent --socket "$dir/c/n2/fmoved.sock" status || bad "status: $(cat out)"
	no 4 'store hung: its file system has not answered for' fmove df n2:hung
done
ok fmove --socket "$dir/c/n2/fmoved.sock" status
grep -q '^hung .* its file system has not answered for' out || bad "status does not say so: $(cat out)"
[ "$(grep -c statfs "$heard")" = "$asked" ] || bad "it was asked again, after $asked times: $(cat "$heard")"

# More come, and hang before their first byte; not so many that the user himself would have no place for one more.
for i in 1 2 3 4; do begin put --quiet big "n2:hung/$i.late"; done
for i in $(seq 6); do begin ls n2:hung; done

hold_no_slab() {
	for i in 1 2; do
		left=$(fmove --socket "$dir/c/n$i/fmoved.sock" status --json)
		[ "$(json slabs <(echo "$left"))" = "$(json slabs_free <(echo "$left"))" ] || return 1
	done
}
others() {
	ok timeout "$HANG_S" fmove put --quiet -f file n2:s/mine
	same file "$(store 2)/mine"
	ok timeout "$HANG_S" fmove put --quiet -f big n2:s/large
	same big "$(store 2)/large"
	ok timeout "$HANG_S" fmove put --quiet -f --verify readback file n2:s/back
	ok timeout "$HANG_S" fmove get --quiet -f n2:s/large got
	same big got
	ok timeout "$HANG_S" fmove put --quiet -r --replace tree n2:s/tree
	same tree/large "$(store 2)/tree/large"
	ok timeout "$HANG_S" fmove ls n2:s
	ok timeout "$HANG_S" fmove --socket "$dir/c/n2/fmoved.sock" put --quiet -f file n1:s/theirs
	ok timeout "$HANG_S" fmove --socket "$dir/c/n2/fmoved.sock" get --quiet -f n1:s/theirs back
	ok timeout "$HANG_S" fmove --socket "$dir/c/n2/fmoved.sock" status
}
others
await hold_no_slab || bad "what stands still keeps slabs: $left"

# shellcheck disable=SC2086
kill -TERM $pids 2>/dev/null	# what was asked for may have ended: "did not answer in time"
all_left() {
	for pid in $pids; do ! kill -0 "$pid" 2>/dev/null || return 1; done
}
await all_left || bad "SIGTERM does not end the wait for a store that hangs: $(jobs -l)"
others
kill -0 "$fs_pid" || bad "the file system is gone: nothing hung"
kill -KILL "$fs_pid"	# unmounted it would be a store that is away
others

# Of a store whose file system fails the other stores' node says so, and what it knows of them.
has_failed() {
	fmove "$@" --json >out && grep -q '"store":"hung"[^}]*"free":null[^}]*"silent_ms":null[^}]*"code":"E[A-Z]*"' out &&
		grep -q '"store":"s"[^}]*"free":[0-9][^}]*"code":null' out
}
await has_failed df n2 || bad "not told what fails: $(cat out)"
has_failed --socket "$dir/c/n2/fmoved.sock" status || bad "status: $(cat out)"
ok fmove --socket "$dir/c/n2/fmoved.sock" status
grep -q '^hung .* its file system fails: .' out || bad "status does not say so: $(cat out)"
no 4 'store hung: .*not connected' fmove df n2:hung
