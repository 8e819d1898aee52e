#!/bin/bash
# Goal:   a daemon that is told to stop, and stands still itself for longer than a stop may take, stops as any other: what it waited for may have
#         ended meanwhile.
# Method: a put into a store on a file system that stops answering (hang_fs, FUSE) keeps it from stopping. SIGSTOP then, for 17 s of its 15; the file
#         system answers again, and SIGCONT.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hung_store_lib.sh"
up 2
trap 'status=$?; end_fs; (exit $status); down' EXIT
sed -i "s|stores = ( {|stores = ( { name = \"hung\"; directory = \"$hung\"; write = [ \"*\" ]; read = [ \"*\" ]; }, {|" "$dir/c/n2/fmove.conf"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
start_again n2
reachable 2
log=$dir/c/n2/log
pid=$(<"$dir/c/n2/pid")
kill -USR1 "$fs_pid"
random 3000 f
fmove put --quiet f n2:hung/f 2>err &
waits() {
	grep -aq request_wait_answer "/proc/$pid"/task/*/wchan
}
await waits || bad "nothing waits for the file system: $(cat err)"
kill -TERM "$pid"
is_logged 'SIGTERM: stopping' "$log"
kill -STOP "$pid"
sleep 17
[ ! -s "$dir/c/n2/exit" ] || bad "it did not wait for the file system: $(tail -n 3 "$log")"
kill -USR2 "$fs_pid"
kill -CONT "$pid"
await test -s "$dir/c/n2/exit" || bad "it does not end"
[ "$(<"$dir/c/n2/exit")" = 0 ] || bad "it ended with $(<"$dir/c/n2/exit"): $(tail -n 3 "$log")"
wait $!
start_again n2
exit
