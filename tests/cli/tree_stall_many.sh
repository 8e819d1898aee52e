#!/bin/bash
# Goal:   what tree_stall.sh shows of one put -r and one get -r holds for more of them than the connections have slots for.
# Method: SIGSTOP in the middle of eight.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
up 2
. "$FM_SOURCE/tests/cli/tree_stall_lib.sh"

# So many that every slot of every connection waits for them.
begin p1 put a n2:s/p1
begin p2 put a n2:s/p2
for i in 1 2 3 4 5 6; do begin g$i get n2:s/src g$i; done
moving 8
# shellcheck disable=SC2086
kill -STOP $pids
ok timeout $HANG_S fmove put file n2:s/file2
ok timeout $HANG_S fmove get -r n2:s/src other2
same_tree a other2
ok timeout $HANG_S fmove put -r a n2:s/other2
ok timeout $HANG_S fmove get n2:s/file2 file2
same file file2
given_up
told
for i in 1 2; do ok fmove put -r a n2:s/p$i; done
for i in 1 2 3 4 5 6; do ok fmove get -r n2:s/src g$i; done
same_tree a g6

no_trees
