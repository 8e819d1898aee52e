#!/bin/bash
# Goal:   who stops a put -r or get -r (Ctrl-Z, SIGSTOP) stops nobody else: it is given up, says so, and the same command again goes on.
# Method: SIGSTOP in the middle of one of each; others must get through, and all memory of the arena must come home while they still
#         stand. tree_stall_many.sh stops more, tree_pause.sh for a moment only.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
up 2
. "$FM_SOURCE/tests/cli/tree_stall_lib.sh"

# One of each; the others do not even wait for it to be given up.
begin p put a n2:s/p
begin g get n2:s/src g
moving 2
# shellcheck disable=SC2086
kill -STOP $pids
ok timeout $HANG_S fmove put -r a n2:s/other
same_tree a "$(store 2)/other"
ok timeout $HANG_S fmove get -r n2:s/src other
same_tree a other
ok timeout $HANG_S fmove put file n2:s/file
same file "$(store 2)/file"
given_up
for there in "$(store 2)/p" g; do
	[ ! -e "$there" ] || bad "$there is there, and only half of it came"
done
told
ok fmove put -r a n2:s/p --json
[ "$(json resumed_bytes out)" -gt 0 ] || bad "put -r, again: nothing was there from the first try: $(cat out)"
same_tree a "$(store 2)/p"
ok fmove get -r n2:s/src g --json
[ "$(json resumed_bytes out)" -gt 0 ] || bad "get -r, again: nothing was there from the first try: $(cat out)"
same_tree a g
no_trees
