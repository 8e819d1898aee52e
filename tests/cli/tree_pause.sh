#!/bin/bash
# Goal:   a put -r or get -r that stands still for a moment (Ctrl-Z, fg) goes on and completes.
# Method: SIGSTOP in the middle of one of each, SIGCONT long before they would be given up.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_CONF='mover = { stall_timeout = "2min"; rate_limit = "1MiB/s"; };'
up 2

mkdir -p a/sub
split -a 3 -b 30000 <(head -c 3000000 /dev/urandom) a/sub/f
random 20000000 a/large
ok cp -a a "$(store 2)/src"

fmove put -r a n2:s/p >/dev/null 2>err.p &
put=$!
fmove get -r n2:s/src g >/dev/null 2>err.g &
get=$!
moved p 100000
moved src 100000
kill -STOP $put $get
sleep 1
[ -e "$(store 2)/p" ] || [ -e g ] && bad "they were to stop in the middle"
kill -CONT $put $get
fast 1
fast 2
wait $put || bad "put -r, stopped for a moment: $? $(cat err.p)"
wait $get || bad "get -r, stopped for a moment: $? $(cat err.g)"
same_tree a "$(store 2)/p"
same_tree a g
no_trees
