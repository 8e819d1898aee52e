# about: what put called done survives a disk that kept nothing but what it had to, at every mark of dm-log-writes
# guests: 1
# disks: 3 768M
#
# Goal:   a flush that is missing anywhere between the last byte and `done` is found; at any other moment a name is the old version or the new.
# Method: the destination lies on dm-log-writes, which logs a write when a flush after it has completed. After every done a mark is
#         written. Then the log is replayed onto a zeroed disk up to each mark, and up to entries between them, mounted and compared;
#         and a put is run again there. A file that nobody synced must be missing, or the test would prove nothing.
#         LAB_ROUNDS: puts under each file system, and entries.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/fault/expect.sh
. "$LAB_TOP/tests/fault/expect.sh"

PUTS=${LAB_ROUNDS:-2}
ENTRIES=${LAB_ROUNDS:-1}
KIB=3100		# of a file
D=/run/log_writes
LOGGED=/dev/lab/disk1 LOG=/dev/lab/disk2 REPLAY=/dev/lab/disk3

fmn() {
	"$FMOVE_BIN/fmove" --socket $D/n1/sock "$@"
}

mark() {
	check dmsetup message logged 0 mark "$1"
}

start_logging() {
	dm_up logged "0 $(blockdev --getsz $LOGGED) log-writes $LOGGED $LOG"
	mkdisk /dev/mapper/logged "$1" /mnt/1
	mkdir /mnt/1/s
	check sync -f /mnt/1
}

stop_logging() {
	check umount /mnt/1
	dm_down logged
}

start_nodes() {
	rm -rf $D/n1 $D/n2
	node_stores="{ name = \"d\"; directory = \"$1\"; replace = true; },"
	check node_pair $D 7470
	check node_wait $D/n1 tcp 1 1
}

stop_nodes() {
	node_stop $D/n1
	node_stop $D/n2
}

# Version $1 of everything: a file that gets a new name each time, one that is replaced, a tree that is replaced.
make_version() {
	local i

	mkdir -p $D
	head -c "${KIB}KiB" /dev/urandom > "$D/file.$1"
	head -c "${KIB}KiB" /dev/urandom > "$D/replaced.$1"
	mkdir -p "$D/tree.$1/a/b"
	head -c 300000 /dev/urandom > "$D/tree.$1/a/b/large"
	for i in 1 2 3 4 5; do
		head -c 3000 /dev/urandom > "$D/tree.$1/a/$i"
	done
	ln -s ../a/1 "$D/tree.$1/a/link"
}

# $2 more for the command line.
put_version() {
	check fmn put --quiet --limit 4MB/s "$D/file.$1" "n2:d/dir/file.$1"
	check fmn put --quiet --force --limit 4MB/s "$D/replaced.$1" n2:d/replaced
	check fmn put --quiet -r --replace "$D/tree.$1" n2:d/tree
}

write_all() {
	local i

	start_nodes /mnt/1/s
	mark "begin"
	for ((i = 1; i <= PUTS; i++)); do
		put_version $i
		mark "done.$i"
	done
	cp $D/file.1 /mnt/1/s/unsynced
	mark control
	stop_nodes
}

replay() {
	"$FMOVE_BIN/log_replay" $LOG $REPLAY "$@" || fail "replay: $*"
	mkdir -p /mnt/2
	mount $REPLAY /mnt/2 || fail "no file system to mount at $*"
}

is_version() {
	if [ -d "$1" ]; then
		diff -r --no-dereference "$1" "$2" > /dev/null 2>&1
	else
		cmp -s "$1" "$2"
	fi
}

# is_one_of NAME VERSION...: what has that name is one of these versions, whole; 0 is none at all.
is_one_of() {
	local name=$1 version
	shift

	for version in "$@"; do
		if [ "$version" = 0 ]; then
			[ ! -e "/mnt/2/s/$name" ] && return
		elif is_version "$D/$name.$version" "/mnt/2/s/$name"; then
			return
		fi
	done
	fail "$where: $name is none of the versions $*"
}

# holds LEAST MOST: what was said done is there, and nothing that is neither old nor new.
holds() {
	local least=$1 most=$2 i versions

	read -ra versions <<< "$(seq -s " " "$least" "$most")"
	is_one_of replaced "${versions[@]}"
	is_one_of tree "${versions[@]}"
	for ((i = 1; i <= least; i++)); do
		is_version "$D/file.$i" "/mnt/2/s/dir/file.$i" || fail "$where: file.$i was done and is not there whole"
	done
	for ((i = least + 1; i <= most; i++)); do
		[ ! -e "/mnt/2/s/dir/file.$i" ] || is_version "$D/file.$i" "/mnt/2/s/dir/file.$i" ||
			fail "$where: there is half a file.$i"
	done
}

at_marks() {
	local i

	for ((i = 1; i <= PUTS; i++)); do
		where="$fs, mark done.$i"
		replay mark "done.$i"
		holds "$i" "$i"
		check umount /mnt/2
	done
	replay mark control
	! is_version $D/file.1 /mnt/2/s/unsynced || fail "what nobody synced is there: the log proves nothing"
	check umount /mnt/2
}

# Between the marks begin and the last done; the put that was under way there is run again on what the crash left.
at_entries() {
	local marks first last entry i least

	marks=$("$FMOVE_BIN/log_replay" $LOG)
	first=$(awk '$2 == "begin" { print $1 }' <<< "$marks")
	last=$(awk -v m="done.$PUTS" '$2 == m { print $1 }' <<< "$marks")
	((last > first)) || fail "an empty log"
	for ((i = 0; i < ENTRIES; i++)); do
		entry=$((first + (RANDOM * 32768 + RANDOM) % (last - first)))
		least=$(awk -v e=$entry '$2 ~ /^done/ && $1 <= e { n++ } END { print n + 0 }' <<< "$marks")
		where="$fs, entry $entry of $first to $last"
		replay entry $entry
		holds "$least" $((least + 1))
		start_nodes /mnt/2/s
		put_version $((least + 1))
		holds $((least + 1)) $((least + 1))
		wait_for no_partial /mnt/2/s
		stop_nodes
		check umount /mnt/2
	done
}

need blockdev
need_module dm_log_writes
# Nothing reaches the disk because it is old: on a slow machine that would stand in for a sync that is missing, and bring the file that
# nobody synced.
echo 0 > /proc/sys/vm/dirty_writeback_centisecs
RANDOM=$LAB_SEED
[ -x "$FMOVE_BIN/log_replay" ] || fail "no log_replay in $FMOVE_BIN: build lab-programs first"
node_extra='memory = { arena = "16MiB"; slab = "4MiB"; total = "128MiB"; }; mover = { chunk = "256KiB"; };'
for ((version = 1; version <= PUTS; version++)); do
	make_version $version
done
for fs in ext4 xfs; do
	start_logging $fs
	write_all
	stop_logging
	at_marks
	at_entries
	say "$fs: seed $LAB_SEED, $PUTS puts, $("$FMOVE_BIN/log_replay" $LOG | tail -n 1) entries: at every mark all that was done, at $ENTRIES others old or new"
done
