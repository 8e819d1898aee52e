#!/bin/bash
# Goal:   however many users have files that do not answer, read or written, the others keep all of what a connection has: what stands
#         still holds no slot.
# Method: one connection, so that all share it; of six users two puts and two gets each of files that stop answering (hang_fs, FUSE) in the
#         midst. Then all slabs are free at both nodes, and another user's transfers get past them.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root to become somebody else"
export FM_CLUSTER_CONF='mover = { tcp_conns = 1; };'
users=6
each=2
full=$(mktemp -d "${TMPDIR:-/tmp}/fm-hang.XXXXXX") || exit 1
empty=$(mktemp -d "${TMPDIR:-/tmp}/fm-hang.XXXXXX") || exit 1

end_fs() {
	kill -KILL $serving 2>/dev/null
	umount -l "$full" "$empty" 2>/dev/null
	rmdir "$full" "$empty" 2>/dev/null
}

# serve DIRECTORY BYTES: a file system with files of so many bytes.
serve() {
	local begun

	mkfifo "$1.said"
	"$FM_BUILD/bin/hang_fs" "$1" $((users * each)) "$2" 0 >"$1.said" &
	serving="$serving $!"
	read -r begun <"$1.said"
	rm "$1.said"
	[ "$begun" = mounted ] || { end_fs; skip "${begun#SKIP: }"; }
}

serving=
serve "$full" $((64 << 20))
serve "$empty" 0
up 2
trap 'status=$?; end_fs; (exit $status); down' EXIT
chmod 666 "$dir"/c/n1/fmoved.sock
chmod 755 "$dir/c" "$dir/c/n1" "$dir/w"
random 20000000 big
cp big "$(store 2)/big"
mkdir other
random 3000000 other/f
mkdir other/tree
for i in 1 2 3; do random 100000 other/tree/$i; done
chown -R 61100:61100 other

as() {
	local uid=$1

	shift
	setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"
}

are_copying() {
	[ "$(fmove status --json | grep -o '"state":"copying"' | wc -l)" -eq $((2 * users * each)) ]
}

for ((i = 0; i < users * each; i++)); do
	as $((61000 + i % users)) fmove put --quiet --limit 50kB/s "$full/$i" "n2:s/still$i" 2>/dev/null &
	as $((61000 + i % users)) fmove get --quiet --limit 50kB/s n2:s/big - >"$empty/$i" 2>/dev/null &
done
await are_copying || bad "not all are under way: $(fmove status)"
# shellcheck disable=SC2086
kill -USR1 $serving

hold_no_slab() {
	for i in 1 2; do
		left=$(fmove --socket "$dir/c/n$i/fmoved.sock" status --json)
		[ "$(json slabs <(echo "$left"))" = "$(json slabs_free <(echo "$left"))" ] || return 1
	done
}
await hold_no_slab || bad "what stands still keeps slabs: $left"

cd other || exit 1
ok as 61100 timeout "$HANG_S" fmove put --quiet f n2:s/passed
same f "$(store 2)/passed"
ok as 61100 timeout "$HANG_S" fmove get --quiet n2:s/passed back
same f back
ok as 61100 timeout "$HANG_S" fmove put --quiet -r tree n2:s/tree
ok as 61100 timeout "$HANG_S" fmove get --quiet -r n2:s/tree treeback
same tree/2 treeback/2
cd ..
await are_copying || bad "they did not stand still: $(fmove status)"
