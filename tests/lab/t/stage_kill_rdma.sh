# about: SIGKILL of any of three daemons that stage together, over RDMA alone
# guests: 3
# disks: 1 1G
# mem: 1G
# timeout: 7200
# when: soak
#
# Goal:   what tests/cli/stage_nodes_kill.sh shows over TCP on one machine holds for three kernels and RDMA: whichever daemon is killed while
#         they stage a dataset, nothing wrong becomes READY, and the same request made again has it on all of them.
# Method: a node in each guest, all peers, each leg an RDMA device at both ends; TCP is not among their transports, and the devices' counters say that the
#         bytes went over them. Guest 2 has the source. Each round stages a new dataset, kills a daemon at a random moment, and asks again. What is
#         READY is compared by SHA-256 each time. LAB_ROUNDS: rounds (3, each kills another one).

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/orders.sh
. "$LAB_TOP/tests/lab/orders.sh"

MIB=24
D=/mnt/1/node
RANDOM=$LAB_SEED
others=()
for g in 1 2 3; do [ "$g" = "$GUEST" ] || others+=("$g"); done

fmn() {
	"$FMOVE_BIN/fmove" --socket $D/sock "$@"
}

# --- in each guest, also by order of guest 1 -------------------------------------------------------

all_rails() {
	node_wait $D rdma 2 1
}

kill_node() {
	kill -KILL "$(cat $D/pid)"
	while kill -0 "$(cat $D/pid)" 2> /dev/null; do pause 0.05; done
}

start_node() {
	node_start $D && all_rails
}

# mark, moved BYTES: that many went over both devices together since.
mark() {
	rxe_mark rxe0
	rxe_mark rxe1
}

moved() {
	local bytes=$(($(rxe_bytes rxe0) + $(rxe_bytes rxe1)))

	echo "$bytes"
	((bytes >= $1))
}

# hashes DIR: of all files there, by name.
hashes() {
	(cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum) | sha256sum
}

# make_set NAME: in guest 2.
make_set() {
	local i

	rm -rf $D/s/set*
	mkdir -p "$D/s/$1/d"
	head -c "${MIB}M" /dev/urandom > "$D/s/$1/large"
	for ((i = 0; i < 10; i++)); do
		head -c 3000 /dev/urandom > "$D/s/$1/d/$i"
	done
	hashes "$D/s/$1"
}

# has NAME: the hash of what is READY here, if it is.
has() {
	local copy

	for copy in $D/cache/ready/*/"$1"; do
		[ ! -d "$copy" ] || hashes "$copy"
	done
}

drop() {
	fmn unstage "$1"
}

# Over which rails bytes went is said by the nodes, too: none of them is TCP.
has_no_tcp() {
	[ -z "$(node_rails $D tcp)" ]
}

keep_log() {
	cp $D/log "/out/node.$GUEST"
}

# --- the rounds, in guest 1 -------------------------------------------------------------------------

# at GUEST COMMAND...: here or there; what it printed is in $said.
at() {
	local to=$1 status=0
	shift

	if [ "$to" = 1 ]; then
		"$@" > /out/said.1 2>&1 || status=$?
	else
		tell "$to" "$@" || status=$?
	fi
	said=$(cat "/out/said.$to")
	return $status
}

lost() {
	local g

	for g in 1 2 3; do at $g keep_log || true; done
	fail "$1"
}

# whole NAME HASH [COUNT]: whatever is READY of it is right; and so many have it.
whole() {
	local g have=0

	for g in 1 2 3; do
		at $g has "$1" || lost "guest $g: $said"
		[ -z "$said" ] || [ "$said" = "$2" ] || lost "guest $g has other bytes of $1 under READY"
		[ -z "$said" ] || have=$((have + 1))
	done
	[ -z "${3:-}" ] || [ $have = "$3" ] || lost "$have of $3 guests have $1"
}

# round N KILLED
round() {
	local set=set$1 killed=$2 hash g status=0 stager moment bytes= when="in the midst"

	at 2 make_set "$set" || lost "make $set: $said"
	hash=$said
	for g in 1 2 3; do at $g mark; done
	fmn stage --nodes all "n2:s/$set" -- true > $D/first 2>&1 || true &
	stager=$!
	moment=$((RANDOM % 4)).$((RANDOM % 10))
	pause $moment
	kill -0 $stager 2> /dev/null || when="after all had it"
	at "$killed" kill_node || lost "kill n$killed: $said"
	whole "$set" "$hash"
	at "$killed" start_node || lost "n$killed does not come back: $said"
	for g in 1 2 3; do at $g all_rails || lost "guest $g has not all rails: $said"; done
	fmn stage --nodes all "n2:s/$set" -- true > $D/again 2>&1 || status=$?
	[ $status = 0 ] || lost "$set, n$killed was killed after $moment s: again: $status: $(cat $D/again)"
	whole "$set" "$hash" 3
	wait $stager || true
	for g in 1 3; do
		at $g moved $((MIB << 20)) || lost "guest $g: only $said bytes can have come over RDMA"
		bytes="$bytes, $((said >> 20)) MiB at n$g"
	done
	for g in 1 2 3; do
		at $g has_no_tcp || lost "guest $g has rails of TCP: $said"
		at $g drop "$set" || lost "guest $g: unstage: $said"
	done
	say "round $1: n$killed killed after $moment s, $when: whole on all${bytes}, over RDMA"
}

# --- three nodes ------------------------------------------------------------------------------------

rxe_up rxe0 "wire$(wire_to "${others[0]}")"
rxe_up rxe1 "wire$(wire_to "${others[1]}")"
mkdisk /dev/lab/disk1 xfs /mnt/1
node_key $D
cp $D/pub "/out/pub.$GUEST"
sync_point keys
peers=()
for g in "${others[@]}"; do
	peers+=("$(node_peer "n$g" "$(wire_addr "$(wire_to "$g")" "$g"):7471" "/out/pub.$g")")
done
node_conf $D "n$GUEST" "[::]:7471" "${peers[@]}" <<- C
	memory = { arena = "32MiB"; slab = "4MiB"; };
	mover = { transports = [ "rdma" ]; };
	staging = { directory = "$D/cache"; size = "512MiB"; grace = "0s"; peers = [ "*" ]; };
C
node_start $D
check all_rails
sync_point up
if [ "$GUEST" = 1 ]; then
	for ((n = 1; n <= ${LAB_ROUNDS:-3}; n++)); do
		round $n $((n > 3 ? RANDOM % 3 + 1 : n))
	done
	say "${LAB_ROUNDS:-3} rounds, seed $LAB_SEED"
	tell 2 true end
	tell 3 true end
else
	serve_orders
fi
sync_point done
