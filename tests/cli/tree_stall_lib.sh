# tree_stall_lib.sh - what the tests of commands that stand still share; sourced behind `up`.

mkdir -p a/sub
split -a 3 -b 30000 <(head -c 9000000 /dev/urandom) a/sub/f
random 8000000 a/large
random 20000000 file
ok fmove put -r a n2:s/src

pids=
declare -A err_of what_of

# begin NAME put|get SRC DST: slowly, in the background.
begin() {
	fmove "$2" -r --limit 250kB/s "$3" "$4" >/dev/null 2>"err.$1" &
	pids="$pids $!"
	err_of[$!]=err.$1
	what_of[$!]="$2 -r $3 $4"
}

# moving N: wait until N transfers of n1 have moved something.
moving() {
	await are_moving "$1" || bad "not all of them move: $(fmove status --json)"
}

are_moving() {
	[ "$(fmove status --json | grep -o '"bytes":[1-9][0-9]\{5,\}' | wc -l)" -eq "$1" ]
}

# given_up: none of them is a transfer any more, and every node has all of its slabs. They stand still all that time.
given_up() {
	await have_all_slabs || bad "what stands still keeps: $left"
}

have_all_slabs() {
	for i in 1 2; do
		left=$(fmove --socket "$dir/c/n$i/fmoved.sock" status --json)
		[ "$(json slabs <(echo "$left"))" = "$(json slabs_free <(echo "$left"))" ] && grep -q '"jobs":\[\]' <<<"$left" || return 1
	done
}

# told: each says why it ended, in one line, once it goes on; so did the daemon meanwhile.
told() {
	local pid

	for pid in $pids; do
		is_logged "process $pid\) stood still" "$dir/c/n1/log" || bad "n1 does not say that $pid stands still"
		kill -CONT "$pid"
		wait "$pid"
		[ $? -eq 4 ] || bad "${what_of[$pid]}: not the exit status of one that took too long"
		[ "$(wc -l <"${err_of[$pid]}")" -eq 1 ] || bad "${what_of[$pid]} says $(wc -l <"${err_of[$pid]}") lines"
		grep -q "process $pid) stood still for .* run the same command again" "${err_of[$pid]}" ||
			bad "${what_of[$pid]}: $(cat "${err_of[$pid]}")"
	done
	pids=
}
