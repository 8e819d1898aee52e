#!/bin/bash
# Goal:   a daemon that is told to stop, and stands still itself for longer than files of a user may take then, does not end without them: they
#         have as much time of its own as of any daemon's.
# Method: puts from a file system that stops answering (hang_fs, FUSE). SIGSTOP for 6 s of their 5; the file system answers again a second after SIGCONT.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hang_lib.sh"

begin_puts
stop_fs
await_hung
# shellcheck disable=SC2086
kill -KILL $puts 2>/dev/null
began=$SECONDS
kill -TERM "$pid"
is_logged 'SIGTERM: stopping' "$dir/c/n1/log"
kill -STOP "$pid"
sleep 6
kill -CONT "$pid"
sleep 1
kill -USR2 "$fs_pid"
took=$((SECONDS - began))	# 7 s, if this script has not stood still itself, of which the daemon ran for about one
await test -s "$dir/c/n1/exit" || bad "it does not end"
[ "$(cat "$dir/c/n1/exit")" = 0 ] || bad "it stopped with $(cat "$dir/c/n1/exit"): $(tail -n 3 "$dir/c/n1/log")"
[ $took -gt 10 ] || ! grep -q 'does not answer: ending without' "$dir/c/n1/log" || bad "it did not wait for what answers: $(tail -n 3 "$dir/c/n1/log")"
"$FM_SOURCE/tests/cluster" start "$dir/c" n1 || bad "no daemon starts after that one"
reachable 2
end_fs
