# about: what becomes of a volume's namespace: digests, removed, added, larger, smaller, another identity, another number; reads that fail under a put
# guests: 1
#
# Goal:   a volume is what it was, or is not mounted and says why: a namespace that went and came back, that is another one at the same
#         place, that has another number, or fewer bytes. Status says in between what is the matter. A put whose source cannot be read
#         names it, and ends whole when it is run again.
# Method: target and initiator in one kernel, over addresses of the loopback device, namespaces in memory. `grows` lies in a file whose
#         size can change; `reads` gives its reader an error after 5 s; `other`, beside `short`, is connected by somebody else.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/nvmet.sh
. "$LAB_TOP/tests/lab/nvmet.sh"
# shellcheck source=tests/lab/volumes.sh
. "$LAB_TOP/tests/lab/volumes.sh"

NODES=/run/nodes
GROWS=/dev/shm/grows
MIB=1048576
READS=64
# A guest that stands still for seconds has not lost its targets.
PATIENT='keep_alive = "3600s";'

need findmnt mkfs.ext4 ss cmp pgrep

# configure [GROWS]: what is special about that one; without it, its UUID.
configure() {
	nvmed_conf $D "$(volume reads "$(volume_uuid reads) $PATIENT mode = \"read-only\"; fast_io_fail = \"5s\";")" \
		"$(volume short "$(volume_uuid short) $PATIENT writer = \"n1\";")" "$(volume grows "${1-$(volume_uuid grows)} $PATIENT writer = \"n1\";")"
}

reconfigure() {
	configure "$@"
	check kill -HUP "$nvmed"
}

is_same_as_before() {
	cmp /run/files/random "$MNT/$1/random" || fail "$1: what is read is not what was written"
}

# --- making it ------------------------------------------------------------------------------------

make_target() {
	need_module nvme_tcp
	modprobe brd rd_nr=4 rd_size=65536 || skip "the kernel has no module brd"
	mkdir /run/files
	head -c $((2 * MIB)) /dev/urandom > /run/files/random
	truncate -s 40M $GROWS
	target_of reads /dev/ram0
	target_of short /dev/ram1
	target_of other /dev/ram2
	target_of grows $GROWS
}

start() {
	local name

	configure
	nvmed_start $D
	for name in reads short grows; do
		check "$FMOVE_BIN/fmove" nvme up $name --wait ${HANG_S}s
	done
}

# --- the connection -------------------------------------------------------------------------------

# "PORT BYTES" of each connection to that address: what it received so far.
received() {
	ss -Htino dst "$1" | awk '/^ESTAB/ { n = split($4, at, ":"); port = at[n] }
		match($0, /bytes_received:[0-9]+/) { print port, substr($0, RSTART + 15, RLENGTH - 15) }' | sort
}

# bytes_of_reads DISK: that the I/O connection receives for READS reads of 4 KiB. The other connections have a keep-alive now and then.
bytes_of_reads() {
	received "$(addr_of grows)" > /run/before
	dd "if=/dev/$1" of=/dev/null bs=4096 count=$READS skip=100 iflag=direct status=none
	received "$(addr_of grows)" | join /run/before - | awk '{ n = $3 - $2; most = n > most ? n : most } END { print most }'
}

# is_steady DISK: `bytes` of them, and as many as the last time. The kernel looks for partitions at some time after the disk has come.
is_steady() {
	local last=$bytes

	bytes=$(bytes_of_reads "$1") && [ -n "$bytes" ] && [ "$bytes" = "$last" ]
}

# A digest is four bytes behind each header and four behind the data.
digests() {
	local digest bytes plain=''

	for digest in false true; do
		check "$FMOVE_BIN/fmove" nvme down grows --timeout ${HANG_S}s
		reconfigure "$(volume_uuid grows) header_digest = $digest; data_digest = $digest;"
		check "$FMOVE_BIN/fmove" nvme connect grows --wait ${HANG_S}s
		wait_for nvme_disk $PREFIX:grows
		bytes=
		wait_for is_steady "$(nvme_disk $PREFIX:grows)"
		plain=${plain:-$bytes}
	done
	((plain >= READS * 4096 && bytes >= plain + READS * 8)) || fail "$READS reads of 4 KiB are $plain bytes without digests and $bytes with them"
	say "digests: $READS reads of 4 KiB are $plain bytes without and $bytes with them"
	check "$FMOVE_BIN/fmove" nvme up grows --wait ${HANG_S}s
	is_same_as_before grows
}

# Nobody tries again in secret what a file could not be read of; nothing of it is published, and what came is kept.
source_unreadable() {
	node_extra='memory = { arena = "32MiB"; slab = "4MiB"; total = "256MiB"; }; mover = { chunk = "256KiB"; };' check node_pair $NODES 7470
	check node_wait $NODES/n1 tcp 1 1
	nvmet_hide 3 $PREFIX:reads
	echo 3 > /proc/sys/vm/drop_caches
	check_not "$FMOVE_BIN/fmove" --socket $NODES/n1/sock put --quiet $MNT/reads/random n2:s/random 2> /run/put.error
	grep -q "$MNT/reads/random.*Input/output error" /run/put.error || fail "it does not say what could not be read: $(cat /run/put.error)"
	say "unreadable: $(cat /run/put.error)"
	[ ! -e $NODES/n2/s/random ] || fail "half a file was published"
	nvmet_show 3 $PREFIX:reads
	# It is mounted all the time, and status may be older than the loss: who reads too soon has an error once more.
	wait_for cmp /run/files/random $MNT/reads/random
	wait_for nvmed_is reads state mounted
	echo 3 > /proc/sys/vm/drop_caches
	check "$FMOVE_BIN/fmove" --socket $NODES/n1/sock put --quiet $MNT/reads/random n2:s/random
	cmp /run/files/random $NODES/n2/s/random || fail "what was put is not what was read"
	node_stop $NODES/n1
	node_stop $NODES/n2
}

# --- the target's namespaces ----------------------------------------------------------------------

# Nothing is left to be written when a namespace is taken away below its mount: a file system that meets an error there writes down that
# it is damaged, perhaps into what has come meanwhile, and then it is refused.
settle() {
	check sync -f "$MNT/$1"
}

# Taken away below the mount and given back; another one beside it is none of ours.
removed_and_added() {
	local was

	was=$(nvme_of $PREFIX:grows)
	settle grows
	echo 0 > $NVMET/subsystems/$PREFIX:grows/namespaces/1/enable
	wait_for nvmed_says grows text "no namespace for this host"
	check_not findmnt $MNT/grows
	say "namespace removed: $(nvmed_field grows text)"
	nvmet_ns $PREFIX:grows 2 /dev/ram3 "$(nvmet_uuid beside)"
	wait_for nvme_disk $PREFIX:grows 2
	echo 1 > $NVMET/subsystems/$PREFIX:grows/namespaces/1/enable
	wait_for nvmed_is grows state mounted
	nvmed_is grows nsid 1 || fail "mounted is namespace $(nvmed_field grows nsid)"
	is_same_as_before grows
	nvmet_ns_down $PREFIX:grows 2
	[ "$(nvme_of $PREFIX:grows)" = "$was" ] || fail "not the controller it was, $was: $(nvme_of $PREFIX:grows)"
}

# resize SIZE: of the target's file, and the target looks.
resize() {
	truncate -s "$1" $GROWS
	echo 1 > $NVMET/subsystems/$PREFIX:grows/namespaces/1/revalidate_size
}

resized() {
	resize 56M
	wait_for nvmed_is grows size_bytes $((56 * MIB))
	nvmed_is grows state mounted || fail "larger, and not mounted any more: $(nvmed_field grows text)"
	resize 39M
	wait_for nvmed_says grows error "fewer"
	say "smaller below the mount: $(nvmed_field grows error)"
	nvmed_is grows is_mounted true || fail "unmounted"
	check "$FMOVE_BIN/fmove" nvme connect grows --wait ${HANG_S}s
	check_not "$FMOVE_BIN/fmove" nvme up grows --wait ${HANG_S}s
	nvmed_says grows text "fewer" || fail "smaller, and $(nvmed_field grows state): $(nvmed_field grows text)"
	resize 40M
	wait_for nvmed_is grows state mounted
	wait_for nvmed_is grows error ''
	is_same_as_before grows
}

# another_identity WORD: the namespace says it is another one: refused with that word, which names what has come (of one that is about
# to go the kernel may say a part only, and that is another one as well), and mounted again when it says the right thing.
another_identity() {
	settle grows
	nvmet_ns_again $PREFIX:grows 1 "$(nvmet_uuid stranger)"
	wait_for nvmed_says grows text "$1"
	nvmed_is grows state refused || fail "it is $(nvmed_field grows state): $(nvmed_field grows text)"
	check_not findmnt $MNT/grows
	say "another identity: $(nvmed_field grows text)"
	nvmet_ns_again $PREFIX:grows 1 "$(nvmet_uuid grows)"
	wait_for nvmed_is grows state mounted
	is_same_as_before grows
}

# With a UUID in the configuration, and without: then it must be what it was the last time.
identity() {
	another_identity "not the expected namespace: its UUID is $(nvmet_uuid stranger)"
	reconfigure ''
	wait_for nvmed_is grows state mounted
	another_identity "uuid.$(nvmet_uuid stranger), and what was mounted the last time"
	reconfigure
	wait_for nvmed_is grows state mounted
}

# takes_number CONTROLLER: somebody else's controller has that name. A number is free again some time after its controller has gone, and
# another one that is lower may be free: each try is one more of `others`, each of a host of its own.
takes_number() {
	local id made

	printf -v id '99999999-2222-3333-4444-%012d' ${#others[@]}
	made=$(nvme_foreign $PREFIX:other "$(addr_of other)" nqn.2014-08.org.nvmexpress:uuid:$id $id) || return 1
	others+=("$made")
	[ "$made" = "$1" ]
}

# Somebody else's controller has the number that was ours.
renumbered() {
	local disk number by_id controller others=()

	disk=$(nvmed_field short device)
	number=${disk#/dev/}
	by_id=$(nvmed_field short by_id)
	check "$FMOVE_BIN/fmove" nvme down short --timeout ${HANG_S}s
	wait_for takes_number "${number%n*}"
	check "$FMOVE_BIN/fmove" nvme up short --wait ${HANG_S}s
	[ "$(nvmed_field short device)" != "$disk" ] || fail "it is $disk again, the test shows nothing"
	[ "$(nvmed_field short by_id)" = "$by_id" ] || fail "by-id was $by_id and is $(nvmed_field short by_id)"
	is_same_as_before short
	[ "$(nvme_of $PREFIX:other)" = "$(printf '%s\n' "${others[@]}" | sort)" ] || fail "somebody else's controller is gone"
	for controller in "${others[@]}"; do
		nvme_remove "$controller"
	done
}

# --- the end --------------------------------------------------------------------------------------

all_down() {
	local name

	for name in reads short grows; do
		check "$FMOVE_BIN/fmove" nvme down $name --timeout ${HANG_S}s
		[ -z "$(nvme_of $PREFIX:$name)" ] || fail "$name is still connected: $(nvme_of $PREFIX:$name)"
		check_not findmnt $MNT/$name
	done
	nvmed_end TERM
	no_helper
	nvmet_down
}

make_target
start
digests
removed_and_added
resized
identity
renumbered
source_unreadable
all_down
