# about: nodes in a cgroup of their budget and 64 MiB; 8 MiB that may be locked; thousands of puts at once in there
# guests: 1
# disks: 2 1G
#
# Goal:   memory.total is a promise: the kernel never has to kill for it, whatever is asked. With little memory that may be locked files travel
#         all the same, and one line says what to do.
# Method: each node in a cgroup with memory.max, over RDMA and TCP: files together, a stream, a flood of puts; memory.events must count no kill. Then the
#         same without the right to lock more than 8 MiB. LAB_ROUNDS: how often, with 10,000 puts instead of more than may be under way at once.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/fault/expect.sh
. "$LAB_TOP/tests/fault/expect.sh"

ARENA_MIB=16		# more than the 8 MiB that may be locked, and less than the files together
TOTAL_MIB=$((ARENA_MIB + 64))
MARGIN_MIB=64
FILES=4
MIB=5			# each: more than two slabs
AT_ONCE=2048
PUTS=${LAB_ROUNDS:+10000}
PUTS=${PUTS:-3000}
D=/mnt/1/memory
CG=/sys/fs/cgroup

fmn() {
	"$FMOVE_BIN/fmove" --socket $D/n1/sock "$@"
}

# enter_cgroup NAME CMD...: goes before a daemon's command.
enter_cgroup() {
	echo $BASHPID > "$CG/$1/cgroup.procs"
	shift
	exec "$@"
}

make_cgroups() {
	local n

	mountpoint -q $CG || check mount -t cgroup2 none $CG
	check grep -qw memory $CG/cgroup.controllers
	echo +memory > $CG/cgroup.subtree_control
	for n in n1 n2; do
		mkdir -p $CG/$n
		echo $(((TOTAL_MIB + MARGIN_MIB) << 20)) > $CG/$n/memory.max
	done
}

# Both nodes, the second argument and what follows before each one's command.
start_nodes() {
	local n

	export -f enter_cgroup
	export CG
	for n in 1 2; do
		node_key $D/n$n
	done
	for n in 1 2; do
		node_conf $D/n$n n$n "[::]:$((7470 + n))" \
			"$(node_peer n$((3 - n)) 127.0.0.1:$((7473 - n)) $D/n$((3 - n))/pub)" <<< "$node_extra"
	done
	for n in 1 2; do
		node_wrap=(bash -c 'enter_cgroup "$@"' enter "n$n" "$@")
		check node_start $D/n$n
		check grep -q "n$n" "/proc/$(cat $D/n$n/pid)/cgroup"
	done
	check node_wait $D/n1 tcp 1 1
}

stop_nodes() {
	node_stop $D/n1
	node_stop $D/n2
}

nobody_was_killed() {
	local n kills

	for n in n1 n2; do
		kill -0 "$(cat $D/$n/pid)" || fail "the daemon of $n is gone"
		kills=$(awk '$1 == "oom_kill" { print $2 }' $CG/$n/memory.events)
		[ "$kills" = 0 ] || fail "$n: the kernel killed for memory"
	done
	say "$1: peaks of $(($(cat $CG/n1/memory.peak) >> 20)) and $(($(cat $CG/n2/memory.peak) >> 20)) MiB (page cache and all) of $((TOTAL_MIB + MARGIN_MIB))"
}

# Several at once, there and back.
files_together() {
	local transport=$1 i pids=() pid

	for ((i = 0; i < FILES; i++)); do
		fmn put --quiet --force --transport "$transport" --timeout ${HANG_S}s $D/src.$i n2:s/f.$i &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || fail "a put over $transport"
	done
	pids=()
	for ((i = 0; i < FILES; i++)); do
		check cmp $D/src.$i $D/n2/s/f.$i
		fmn get --quiet --force --transport "$transport" --timeout ${HANG_S}s n2:s/f.$i $D/back.$i &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || fail "a get over $transport"
	done
	for ((i = 0; i < FILES; i++)); do
		check cmp $D/src.$i $D/back.$i
	done
	cat $D/src.* | fmn put --quiet --force --transport "$transport" - n2:s/stream || fail "a stream over $transport"
	cat $D/src.* | cmp - $D/n2/s/stream || fail "the stream over $transport is not what was sent"
}

# Names, not bytes, are what many files take memory with.
many_files() {
	local i

	mkdir -p $D/tree/{a..j}
	for i in {a..j}/f{1..100}; do
		echo "$i" > "$D/tree/$i"
	done
	check fmn put --quiet -r --replace --timeout ${HANG_S}s $D/tree n2:s/tree
	check diff -r $D/tree $D/n2/s/tree
}

in_cgroups() {
	start_nodes env
	check node_wait $D/n1 rdma 1 1
	rxe_mark rxe0
	files_together rdma
	rxe_moved rxe0 $((FILES * MIB << 20))
	files_together tcp
	many_files
	nobody_was_killed "files"
	check "$FMOVE_BIN/flood" $D/n1/sock $D/small $PUTS $AT_ONCE n2 s
	check fmn put --quiet --force --timeout ${HANG_S}s $D/src.0 n2:s/after
	check cmp $D/src.0 $D/n2/s/after
	nobody_was_killed "$PUTS puts"
	stop_nodes
}

# Root may lock anything unless it has lost CAP_IPC_LOCK.
with_little_memlock() {
	start_nodes setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock prlimit --memlock=8388608:8388608
	check grep -q "memlock: the limit is 8 *MiB.*need .*memlock unlimited.*limits.conf" $D/n1/log
	say "$(grep -o 'memlock: .*' $D/n1/log | head -n 1)"
	files_together auto
	nobody_was_killed "8 MiB of memlock"
	stop_nodes
}

need setpriv prlimit
[ -x "$FMOVE_BIN/flood" ] || fail "no flood in $FMOVE_BIN: build lab-programs first"
mkdisk /dev/lab/disk1 xfs /mnt/1
mkdir -p $D
for ((i = 0; i < FILES; i++)); do
	head -c $(((MIB << 20) + i)) /dev/urandom > $D/src.$i
done
head -c 1M /dev/urandom > $D/small
make_cgroups
rxe_up rxe0 lab0 10.1.1.1/24
node_extra="memory = { arena = \"${ARENA_MIB}MiB\"; slab = \"2MiB\"; total = \"${TOTAL_MIB}MiB\"; }; mover = { stall_timeout = \"2min\"; chunk = \"256KiB\"; };"
for ((round = 1; round <= ${LAB_ROUNDS:-1}; round++)); do
	check in_cgroups
	check with_little_memlock
done
