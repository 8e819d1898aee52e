# about: put and get between two nodes over RDMA, auto and TCP: odd sizes, pipes, buffers, a device that goes, Ctrl-C, strangers, a peer that rewrites what it sent
# guests: 1
#
# Goal:   what is put over RDMA is what is got, at every size that could be off by one, and it did go over RDMA.
# Method: two nodes and one soft-RoCE device. All sizes in both directions over each transport; the device's counters say what went
#         over it. Then a pipe, a transfer that is cancelled in its midst, nodes with the wrong key, and one with a good key that writes to a
#         slot in use (slot_peer).

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"

CHUNK=$((256 << 10))
SIZES="0 1 511 4095 4096 4097 $((CHUNK - 1)) $CHUNK $((CHUNK + 1)) $((3 * CHUNK + 13))"
BUFFER=$((4 * CHUNK + 4099))	# of no other size is anything that is registered
SLOT_TRIES=6			# three of each of slot_peer's two kinds; cli.slots has twenty, over TCP
BIG=$((4 * CHUNK))		# what the chunk-sized files have together, at least
D=/run/put_get

fmn() {
	local node=$1
	shift

	"$FMOVE_BIN/fmove" --socket "$D/n$node/sock" "$@"
}

make_sources() {
	local size

	mkdir -p $D/src
	for size in $SIZES; do
		head -c "$size" /dev/urandom > "$D/src/f$size"
	done
}

# Everything from node $1 to node $2 and back, over transport $3, which must turn out to be $4.
there_and_back() {
	local from=$1 to=$2 want=$3 is=$4 result n=0

	result=$(fmn "$from" put --quiet --json --transport "$want" $D/src/* "n$to:s/$want$from/") || fail "put over $want: $result"
	n=$(grep -o "\"transport\":\"$is\"" <<< "$result" | wc -l)
	[ "$n" = 10 ] || fail "put --transport $want: $n of 10 files say $is: $result"
	check diff -r $D/src "$D/n$to/s/$want$from"
	rm -rf $D/dst
	mkdir $D/dst
	# shellcheck disable=SC2086 # words
	result=$(fmn "$from" get --quiet --json --transport "$want" $(printf "n$to:s/$want$from/f%s " $SIZES) $D/dst) ||
		fail "get over $want: $result"
	n=$(grep -o "\"transport\":\"$is\"" <<< "$result" | wc -l)
	[ "$n" = 10 ] || fail "get --transport $want: $n of 10 files say $is: $result"
	check diff -r $D/src $D/dst
}

sizes_over() {
	local from=$1 to=$2 want=$3 is=$4

	rxe_mark rxe0
	there_and_back "$@"
	if [ "$is" = rdma ]; then
		rxe_moved rxe0 $((2 * BIG))
	elif (($(rxe_bytes rxe0) > BIG)); then
		fail "TCP was asked for, but $(rxe_bytes rxe0) bytes could have gone over RDMA"
	fi
	say "all sizes, node $from to $to and back, --transport $want: done"
}

pipes() {
	local file=$D/src/f$((3 * CHUNK + 13)) twice=$D/src.twice

	cat "$file" "$file" > $twice
	rxe_mark rxe0
	cat "$file" "$file" | fmn 1 put --quiet --transport rdma - n2:s/piped
	check cmp $twice $D/n2/s/piped
	fmn 1 get --quiet --transport rdma n2:s/piped - | cat > $D/dst/through	# a check behind a pipe could fail nothing
	check cmp $twice $D/dst/through
	fmn 1 get --quiet --transport rdma n2:s/piped - > $D/dst/piped	# a file as standard output
	check cmp $twice $D/dst/piped
	rxe_moved rxe0 $((6 * 3 * CHUNK))
	say "pipes: done"
}

# From the other end, without saying which transport.
automatic() {
	local result

	rxe_mark rxe0
	result=$(fmn 2 put --quiet --json "$D/src/f$((3 * CHUNK + 13))" n1:s/auto) || fail "put: $result"
	[ "$(json transport <<< "$result")" = rdma ] || fail "auto did not take RDMA: $result"
	check cmp "$D/src/f$((3 * CHUNK + 13))" $D/n1/s/auto
	rxe_moved rxe0 $((3 * CHUNK))
	say "auto, from the other node: RDMA, $(json why <<< "$result")"
}

# registered: how many memory regions are as large as the buffers of this test, which no other is.
registered() {
	rdma resource show mr | grep -c "mrlen $BUFFER " || :
}

none_registered() {
	[ "$(registered)" = 0 ]
}

# Nothing is copied of a buffer that is known to the card: once, however many connections there are, and no longer than it is there.
buffers() {
	local pid

	head -c $BUFFER /dev/urandom > $D/src.buffer
	mkfifo $D/lines
	rxe_mark rxe0
	FMOVE_SOCKET=$D/n1/sock "$FMOVE_BIN/buffers" $D/src.buffer rdma < $D/lines > $D/buffers.out 2>&1 &
	pid=$!
	exec 3> $D/lines
	wait_for test -s $D/buffers.out
	[ "$(cat $D/buffers.out)" = ready ] || fail "buffers: $(cat $D/buffers.out)"
	rxe_moved rxe0 $((2 * BUFFER))
	check cmp $D/src.buffer $D/n2/s/direct
	[ "$(registered)" = 1 ] || fail "a buffer is registered $(registered) times: $(rdma resource show mr)"
	echo >&3
	exec 3>&-
	wait $pid || fail "buffers: $(cat $D/buffers.out)"
	check cmp $D/src.buffer $D/n2/s/freed
	wait_for none_registered
	say "buffers: done"
}

is_gone() {
	[ ! -e "/sys/class/infiniband/$1" ]
}

# A device that is removed is not held by a buffer that is known to it. Another one is there: the only
# device of a machine was seen to stay until the daemon ended, with a buffer or without.
removed() {
	local pid

	rxe_up rxe1 lab1 10.1.2.1/24
	: > $D/buffers.out	# what the other one said is not to be taken for this one's word
	FMOVE_SOCKET=$D/n1/sock "$FMOVE_BIN/buffers" $D/src.buffer rdma < $D/lines > $D/buffers.out 2>&1 &
	pid=$!
	exec 3> $D/lines
	wait_for test -s $D/buffers.out
	[ "$(cat $D/buffers.out)" = ready ] || fail "buffers: $(cat $D/buffers.out)"
	[ "$(registered)" -ge 1 ] || fail "a buffer is not registered: $(rdma resource show mr)"
	rdma link delete rxe0 > /dev/null 2>&1 &
	wait_for is_gone rxe0
	kill -KILL $pid
	exec 3>&-
	wait $pid 2> /dev/null || :
	wait_for none_registered
	say "a device is removed under a buffer: done"
}

is_copying() {
	[[ $(node_status "$D/n$1") =~ \"state\":\"copying\",\"size\":[^,]*,\"bytes\":[1-9] ]]
}

is_idle() {
	[[ $(node_status "$D/n$1") = *'"jobs":[]'* ]]
}

partials() {
	find $D/n?/s $D/dst -name '.fmove*' ! -name '.fmove.*.manifest' -o -name 'cancelled*'
}

has_no_partial() {
	[ -z "$(partials)" ]
}

# Ctrl-C: bash starts background commands with SIGINT ignored, which env undoes.
cancel() {
	local status=0 pid

	env --default-signal=INT "$FMOVE_BIN/fmove" --socket $D/n1/sock "$@" > $D/cancel.out 2> $D/cancel.err &
	pid=$!
	wait_for is_copying 1
	kill -INT $pid
	wait $pid || status=$?
	[ $status = 130 ] || fail "cancelled, but exit status $status: $(cat $D/cancel.err)"
	[ "$(wc -l < $D/cancel.err)" = 1 ] || fail "not one line: $(cat $D/cancel.err)"
	wait_for is_idle 1
	wait_for is_idle 2
	wait_for has_no_partial
}

cancels() {
	truncate -s 64M $D/src/big
	dd if=/dev/urandom of=$D/src/big bs=1M count=2 conv=notrunc status=none
	check cancel put --quiet --transport rdma --limit 250kB/s $D/src/big n2:s/cancelled
	cp $D/src/big $D/n2/s/big
	check cancel get --quiet --transport rdma --limit 250kB/s n2:s/big $D/dst/cancelled
	rm $D/src/big $D/n2/s/big
	say "Ctrl-C: nothing left at either end"
}

# A node $1 at port $2 whose configuration names n2 with the public key in $3. It moves nothing, so it has little memory.
stranger() {
	local name=$1 port=$2 key=$3

	node_conf "$D/$name" "$name" "127.0.0.1:$port" "$(node_peer n2 127.0.0.1:7472 "$key")" <<- C
		memory = { arena = "8MiB"; slab = "1MiB"; total = "128MiB"; }; mover = { chunk = "256KiB"; };
	C
	node_start "$D/$name"
}

refused() {
	local name=$1 status=0

	"$FMOVE_BIN/fmove" --socket "$D/$name/sock" put --timeout ${HANG_S}s $D/src/f4096 n2:s/refused > /dev/null 2> $D/refused.err || status=$?
	cat $D/refused.err
	[ $status = 6 ] || fail "$name: exit status $status, not 6: $(cat $D/refused.err)"
	[ "$(wc -l < $D/refused.err)" = 1 ] || fail "$name: not one line: $(cat $D/refused.err)"
	grep -qi key $D/refused.err || fail "$name: no word about keys: $(cat $D/refused.err)"
	[ ! -e $D/n2/s/refused ] || fail "$name put a file all the same"
	node_stop "$D/$name"
}

# One that n2 does not know, and one that takes n2 for somebody else.
strangers() {
	node_key $D/n3
	stranger n3 7473 $D/n2/pub
	check refused n3
	wait_for grep -qi key $D/n2/log
	node_key $D/n4
	stranger n4 7474 $D/n1/pub
	check refused n4
	say "strangers are refused, in one line"
}

has_reloaded() {
	grep -q ': reloaded' "$D/n2/log"
}

outside() {
	find $D -path $D/n2/s -prune -o -path $D/n2/state -prune -o -print | sort
}

# Over RDMA nobody can be asked before the bytes are there: the pack was copied, and the connection ends.
slots() {
	local key said peer_key

	key=$("$FMOVE_BIN/fmove" keygen $D/own.key)
	sed -i "s|peers = (|& { name = \"slots\"; address = \"127.0.0.1:1\"; key = \"$key\"; },|" $D/n2/conf
	kill -HUP "$(cat $D/n2/pid)"
	wait_for has_reloaded
	outside > /run/before
	rxe_mark rxe0
	peer_key=$("$FMOVE_BIN/fmove" keygen --show $D/n2/key)
	said=$("$FMOVE_BIN/slot_peer" $D/own.key 10.1.1.1 7472 "$peer_key" rdma $SLOT_TRIES) || fail "slot_peer: $said"
	rxe_moved rxe0 $((SLOT_TRIES * 40000))
	[ "${said%% *}" -gt 0 ] || fail "a slot in use was written to, and the connection went on: $said"
	outside > /run/after
	cmp /run/before /run/after || fail "written outside the store: $(diff /run/before /run/after | head -n 3)"
	[ -z "$(find $D/n2/s \( -name 'out.*' ! -path '*.tree/*' \) -o -name 'z[0-9]*')" ] || fail "written outside the tree, or what its CRC did not say"
	say "slots in use: $said"
}

rxe_up rxe0 lab0 10.1.1.1/24
make_sources
node_listen='[::]' node_extra='memory = { arena = "32MiB"; slab = "4MiB"; total = "256MiB"; }; mover = { chunk = "256KiB"; };'
check node_pair $D 7470
check node_wait $D/n1 rdma 1 2
check node_wait $D/n2 rdma 1 2
say "two nodes are connected over RDMA"
sizes_over 1 2 rdma rdma
sizes_over 1 2 tcp tcp
check automatic
check fmn 1 get --quiet --force n2:s/tcp1/f1 $D/dst/f511
check cmp $D/src/f1 $D/dst/f511
check pipes
check buffers
check cancels
check strangers
check slots
check removed
for i in 1 2; do
	node_stop $D/n$i
	check grep -q stopped $D/n$i/log
done
