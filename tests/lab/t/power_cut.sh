# about: the receiving machine loses its power right after a put said done, and in the midst of another; ext4 and xfs
# guests: 2
# disks: 2 512M
#
# Goal:   what put called done is there after the next boot, whole; what was under way is the old version or the new; run again it completes.
#         Nothing half-done stays, nor does the version that was replaced.
# Method: guest 2 has an ext4 and an xfs. Guest 1 puts a new version to both, one slowly, and has guest 2's QEMU ended at the moment the other
#         one is done. After the boot guest 2 says what it finds before its node starts. The file systems take turns. (Ending
#         QEMU loses memory, not what the disk completed: see log_writes for flushes.) LAB_ROUNDS: cuts.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/fault/expect.sh
. "$LAB_TOP/tests/fault/expect.sh"

CUTS=${LAB_ROUNDS:-2}
MIB=4				# twice the arena
RATE=$((3 << 18))		# of the slow one: five seconds
D=/run/node
stores=(ext4 xfs)

fmn() {
	"$FMOVE_BIN/fmove" --socket $D/sock "$@"
}

# The node's key outlives the cut, as on a disk of its own.
make_key() {
	[ -e "/out/key.$GUEST" ] || {
		node_key $D
		cp $D/pub "/out/pub.$GUEST"
		cp $D/key "/out/key.$GUEST"
	}
	mkdir -p $D/s
	cp "/out/key.$GUEST" $D/key
	chmod 400 $D/key
}

start_node() {
	local other=$((3 - GUEST)) wire

	make_key
	for wire in 0 1; do
		rxe_up "rxe$wire" "wire$wire"
	done
	wait_for test -s "/out/pub.$other"
	node_extra="memory = { arena = \"2MiB\"; slab = \"512KiB\"; total = \"128MiB\"; }; mover = { chunk = \"128KiB\"; };"
	node_conf $D "n$GUEST" "[::]:7471" \
		"$(node_peer "n$other" "$(wire_addr 0 $other):7471" "/out/pub.$other")" <<< "$node_extra"
	check node_start $D
}

# --- guest 2 -------------------------------------------------------------------------------------

mount_disks() {
	local i

	for i in 0 1; do
		if [ "$LAB_BOOT" = 1 ]; then
			mkdisk "/dev/lab/disk$((i + 1))" "${stores[i]}" "/mnt/${stores[i]}"
			mkdir "/mnt/${stores[i]}/s"
			sync -f "/mnt/${stores[i]}"
		else
			mkdir -p "/mnt/${stores[i]}"
			check mount -t "${stores[i]}" "/dev/lab/disk$((i + 1))" "/mnt/${stores[i]}"
		fi
	done
}

# What is there, for guest 1 to judge: a line "STORE hash" for each. SHA-1 takes an emulated processor a third of what SHA-256 takes.
tell() {
	local fs

	for fs in "${stores[@]}"; do
		echo "$fs $(sha1sum "/mnt/$fs/s/x" 2>/dev/null | cut -d" " -f1 || true)"
	done > "/out/found.$1.new"
	mv "/out/found.$1.new" "/out/found.$1"
}

receiver() {
	mount_disks
	tell "boot.$LAB_BOOT"
	node_stores='{ name = "ext4"; directory = "/mnt/ext4/s"; replace = true; }, { name = "xfs"; directory = "/mnt/xfs/s"; replace = true; },'
	start_node
	sync_point "up.$LAB_BOOT"
	sync_point "put.$LAB_BOOT"
	tell "put.$LAB_BOOT"
	# The old version, which nobody waits for to be gone, may be there again; the sweep at the node's start removes it.
	wait_for no_partial /mnt/ext4/s /mnt/xfs/s || fail "something half-done"
	sync_point "told.$LAB_BOOT"
	# The power goes here, but for the last time.
	sync_point end
}

# --- guest 1 -------------------------------------------------------------------------------------

declare -A hash_of

make_version() {
	[ -e "$D/src.$1" ] || head -c $(((MIB << 20) + 13)) /dev/urandom > "$D/src.$1"
	hash_of[$1]=$(sha1sum "$D/src.$1" | cut -d" " -f1)
}

# found WHEN STORE VERSION...: one of these versions is what guest 2 found there.
found() {
	local when=$1 store=$2 version hash
	shift 2

	hash=$(sed -n "s/^$store //p" "/out/found.$when")
	for version in "$@"; do
		[ "$hash" != "${hash_of[$version]}" ] || return 0
	done
	fail "$when, seed $LAB_SEED: under $store there is none of the versions $*: $hash"
}

# more_than BYTES: of what is in the midst are in its journal; or it is through.
more_than() {
	[ "$(written_down $D/sock "n2:$midst" x)" -gt "$1" ] || ! kill -0 $pid 2> /dev/null
}

# Sets `promised`: a record of the journal that another one has followed is on the disk.
promise() {
	wait_for more_than 0
	promised=$(written_down $D/sock "n2:$midst" x)
	wait_for more_than "$promised"
}

# Version $1 to both; the power goes when the one to $done is done. Sets status, of the other one, and of it `known` and `promised`.
cut_behind_put() {
	local version=$1 delay_ms=$((RANDOM * 4000 / 32768)) pid rate=$RATE

	((version % 2 == 0)) || rate=$((RATE / 6))	# so that it is in the midst still when there is a promise
	fmn put --force --quiet --json --transport rdma --limit "${rate}B/s" "$D/src.$version" "n2:$midst/x" > $D/slow 2> $D/slow.err &
	pid=$!
	sleep "$((delay_ms / 1000)).$(printf %03d $((delay_ms % 1000)))"
	known=$(node_status $D | json bytes) || true
	promised=0
	((version % 2 == 0)) || promise
	fmn put --force --quiet --transport rdma "$D/src.$version" "n2:$done/x" || fail "the put to $done"
	power_cut 2
	status=0
	wait $pid || status=$?
	((status == 0 || status == 1 || status == 4)) || fail "status $status: $(cat $D/slow.err)"
	say "cut $version, seed $LAB_SEED: $done was done; $midst was in the midst, status $status after ${known:-0} bytes: $(cat $D/slow.err)"
}

# Of the one in the midst, that version is what guest 2 found after its boot.
is_there() {
	[ "$(sed -n "s/^$midst //p" "/out/found.boot.$boot")" = "${hash_of[$1]}" ]
}

after_boot() {
	local version=$1 old=$(($1 - 1)) result spared

	found "boot.$boot" "$done" "$version"
	if [ "$status" = 0 ]; then
		found "boot.$boot" "$midst" "$version"
	else
		found "boot.$boot" "$midst" $old "$version"
	fi
	check node_wait $D rdma 1 1
	! is_there "$version" || promised=0		# it was through, only nobody was told
	result=$(fmn put --force --quiet --json "$D/src.$version" "n2:$midst/x") || fail "run again: $result"
	spared=$(resumed_at_least "$promised" <<< "$result") || fail "run again: $result"
	say "run again: whole, $promised bytes were promised, $spared not sent again"
}

sender() {
	local cut done midst boot=1 status known promised

	start_node
	make_version 0
	sync_point up.1
	check node_wait $D rdma 1 1
	check fmn put --quiet $D/src.0 n2:ext4/x
	check fmn put --quiet $D/src.0 n2:xfs/x
	for ((cut = 1; cut <= CUTS; cut++)); do
		sync_point "put.$boot"
		sync_point "told.$boot"
		found "put.$boot" ext4 $((cut - 1))
		found "put.$boot" xfs $((cut - 1))
		make_version $cut
		done=${stores[cut % 2]} midst=${stores[1 - cut % 2]}
		cut_behind_put $cut
		boot=$((boot + 1))
		sync_point "up.$boot"
		after_boot $cut
		rm "$D/src.$((cut - 1))"
	done
	sync_point "put.$boot"
	sync_point "told.$boot"
	found "put.$boot" ext4 $CUTS
	found "put.$boot" xfs $CUTS
	sync_point end
}

RANDOM=$LAB_SEED
if [ "$GUEST" = 1 ]; then
	sender
else
	receiver
fi
node_stop $D
