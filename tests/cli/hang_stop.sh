#!/bin/bash
# Goal:   a daemon that is told to stop does so with exit status 0 while files of a user do not answer, since nothing is lost; and what
#         waits for them afterwards does not have its arena any more.
# Method: puts from a file system that stops answering (hang_fs, FUSE).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hang_lib.sh"

begin_puts
stop_fs
await_hung
look_at_children
# shellcheck disable=SC2086
kill -KILL $puts 2>/dev/null
kill -TERM "$pid"
await test -s "$dir/c/n1/exit" || bad "a daemon that is told to stop does not"
[ "$(cat "$dir/c/n1/exit")" = 0 ] || bad "it stopped with $(cat "$dir/c/n1/exit"): $(tail -n 3 "$dir/c/n1/log")"
is_logged 'does not answer: ending without' "$dir/c/n1/log" || bad "no file hung: $(tail -n 3 "$dir/c/n1/log")"
await are_without_arena || bad "of $rss_before kB those that are left have $(left_over)"
"$FM_SOURCE/tests/cluster" start "$dir/c" n1 || bad "no daemon starts after that one"
reachable 2
end_fs
