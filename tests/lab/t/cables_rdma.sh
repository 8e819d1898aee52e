# about: a cable of two is cut in the midst of a transfer over RDMA, which completes
# guests: 2
#
# Goal:   what tests/fault/cables.sh shows over TCP holds over RDMA: whichever of two cables is
#         cut, however and whenever, the transfer completes at its first try, over RDMA to its end,
#         and what arrives is what was sent. How long nothing moved is printed; no time decides.
# Method: two guests, RDMA on two wires. Each round takes one kind of transfer and, when a share of
#         its own has moved, cuts one wire: its carrier at both ends, the address at either end, or
#         what goes there, what comes back or both is lost. Then the wire is mended, and the round
#         ends when both rails are used again. LAB_ROUNDS: rounds (1).

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/orders.sh
. "$LAB_TOP/tests/lab/orders.sh"

MIB=2
D=/run/node
kinds=(put get tree stdin from_pipe into_pipe)
hows=(carrier address_here address_there lost_there lost_back lost_both)
stalls=() is_there=

fmn() {
	"$FMOVE_BIN/fmove" --socket $D/sock "$@"
}

# lost TEXT: as fail; what both nodes said is kept.
lost() {
	cp $D/log /out/node.1
	peer cp $D/log /out/node.2 || true
	fail "$1"
}

# --- the wire, at this end ------------------------------------------------------------------------

lose() {
	tc qdisc add dev "wire$1" root netem loss 100%
}

find_again() {
	tc qdisc del dev "wire$1" root
}

address() {
	ip addr "$1" "$(wire_addr "$2")/24" dev "wire$2"
}

has_no_carrier() {
	[ "$(< "/sys/class/net/wire$1/carrier")" = 0 ]
}

cut_wire() {
	case $how in
	carrier)	cable "$wire" off; wait_for has_no_carrier "$wire"; check peer wait_for has_no_carrier "$wire" ;;
	address_here)	check address del "$wire" ;;
	address_there)	check peer address del "$wire" ;;
	lost_there)	check lose "$wire" ;;
	lost_back)	check peer lose "$wire" ;;
	lost_both)	check lose "$wire"; check peer lose "$wire" ;;
	esac
}

mend_wire() {
	case $how in
	carrier)	cable "$wire" on ;;
	address_here)	check address add "$wire" ;;
	address_there)	check peer address add "$wire" ;;
	lost_there)	check find_again "$wire" ;;
	lost_back)	check peer find_again "$wire" ;;
	lost_both)	check find_again "$wire"; check peer find_again "$wire" ;;
	esac
}

# --- one transfer -------------------------------------------------------------------------------

# What the first transfer of a kind needs: a file, where a get finds it, or a tree.
make_sources() {
	local i

	if [ "$kind" = tree ]; then
		[ ! -e $D/tree ] || return 0
		mkdir -p $D/tree/deep
		for ((i = 0; i < 16; i++)); do
			head -c $((MIB << 14)) /dev/urandom > $D/tree/deep/$i
		done
		for ((i = 0; i < 3; i++)); do
			head -c $((MIB << 18)) /dev/urandom > $D/tree/$i
		done
		return
	fi
	[ -e $D/file ] || head -c "${MIB}M" /dev/urandom > $D/file
	case $kind in
	get|into_pipe)	[ -n "$is_there" ] || fmn put -q $D/file n2:s/there || fail "the first put"
		is_there=1 ;;
	esac
}

start_transfer() {
	local with=(-q --transport rdma --limit 250kB/s)

	check peer rm -rf $D/s/new
	rm -rf $D/back
	echo '"transport":"rdma","resent_bytes":unsaid' > $D/result	# standard output may be the pipe: --transport forbids the rest
	case $kind in
	put)	fmn put "${with[@]}" --json $D/file n2:s/new > $D/result 2> $D/err & ;;
	get)	fmn get "${with[@]}" --json n2:s/there $D/back > $D/result 2> $D/err & ;;
	tree)	fmn put "${with[@]}" --json -r $D/tree n2:s/new > $D/result 2> $D/err & ;;
	stdin)	fmn put "${with[@]}" --json - n2:s/new < $D/file > $D/result 2> $D/err & ;;
	from_pipe)	(cat $D/file | fmn put "${with[@]}" --json - n2:s/new > $D/result 2> $D/err) & ;;
	into_pipe)	(fmn get "${with[@]}" n2:s/there - 2> $D/err | cat > $D/back) & ;;
	esac
	pid=$!
}

# One line for the contents of a file, or of all files of a tree with their names.
hash_of() {
	if [ -d "$1" ]; then
		(cd "$1" && find . -type f -exec sha1sum {} + | sort -k 2) | sha1sum
	else
		sha1sum < "$1"
	fi
}

is_equal() {
	case $kind in
	get|into_pipe)	[ "$(hash_of $D/back)" = "$(hash_of $D/file)" ] ;;
	tree)	check peer hash_of $D/s/new && [ "$(cat /out/said.2)" = "$(hash_of $D/tree)" ] ;;
	*)	check peer hash_of $D/s/new && [ "$(cat /out/said.2)" = "$(hash_of $D/file)" ] ;;
	esac
}

# Sets `bytes`, how many have moved.
ask_moved() {
	local number='"bytes": *([0-9]+)'

	bytes=0
	[[ ! $(node_status $D) =~ $number ]] || bytes=${BASH_REMATCH[1]}
}

now_ms() {
	echo $((${EPOCHREALTIME/[.,]/} / 1000))
}

# Cut the wire when that many bytes have moved. Until the transfer's end, watch for the longest time in which nothing moved: `stall`, which is
# too long by as much as asking takes.
watch_transfer() {
	local at=$1 bytes last=0 since is_cut='' now

	since=$(now_ms) stall=0
	while kill -0 $pid 2> /dev/null; do
		ask_moved
		now=$((${EPOCHREALTIME/[.,]/} / 1000))
		if [ "$bytes" != "$last" ]; then
			[ -z "$is_cut" ] || ((now - since <= stall)) || stall=$((now - since))
			last=$bytes since=$now
		fi
		if [ -z "$is_cut" ] && ((bytes >= at)); then
			cut_wire
			is_cut=1 since=$(now_ms)
		fi
		pause "0.${is_cut:+3}1"		# each look is a program
	done
	[ -n "$is_cut" ]
}

one_round() {
	kind=${kinds[RANDOM % ${#kinds[@]}]} how=${hows[RANDOM % ${#hows[@]}]} wire=$((RANDOM % 2))
	local percent=$((RANDOM % 70)) begin

	make_sources
	check node_wait $D rdma 2 2
	begin=$(now_ms)
	start_transfer
	if ! watch_transfer $(((MIB << 20) / 100 * percent + 1)); then
		wait $pid || fail "$kind, before any cut: $(cat $D/err)"
		say "round $1: $kind was over before the cut"
		return
	fi
	wait $pid || lost "$kind, $how, wire $wire at $percent %: $(cat $D/err)"
	say "round $1: $kind, $how, wire $wire at $percent %: $(($(now_ms) - begin)) ms, of them at most $stall ms without progress," \
		"$(json resent_bytes < $D/result) bytes sent again"
	[ "$(json transport < $D/result)" = rdma ] || lost "not RDMA to its end: $(cat $D/result)"
	is_equal || fail "$kind, $how, wire $wire at $percent %: what arrived is something else"
	stalls+=("$stall")
	mend_wire
}

summary() {
	local sorted

	((${#stalls[@]} > 0)) || return 0
	mapfile -t sorted < <(printf '%s\n' "${stalls[@]}" | sort -n)
	say "$rounds rounds, ${#sorted[@]} disturbed, seed $LAB_SEED: without progress at most, median ${sorted[(${#sorted[@]} - 1) / 2]} ms," \
		"worst ${sorted[-1]} ms"
}

need tc
need_module sch_netem
for wire in 0 1; do
	rxe_up "rxe$wire" "wire$wire"
done
# Chunks and slabs are as much smaller as the file, so that there are as many of them as of a large one.
node_extra='memory = { arena = "8MiB"; slab = "512KiB"; total = "256MiB"; }; mover = { chunk = "32KiB"; };'
check node_guest $D
check node_wait $D rdma 2 2
sync_point connected
if [ "$GUEST" = 2 ]; then
	serve_orders
else
	RANDOM=$LAB_SEED
	rounds=${LAB_ROUNDS:-1}
	for ((round = 1; round <= rounds; round++)); do
		one_round $round
	done
	check node_wait $D rdma 2 2
	summary
	check peer true end
fi
node_stop $D
