#!/bin/bash
# Goal:   what is put from memory that the daemon maps is what was there, and what is received into it; whatever the caller does meanwhile, only his own
#         transfer suffers; nobody has more of it than his share, and all of it comes back.
# Method: a program with libfmove, a step after the other; killed, its daemon killed, its memory changed and given back under a put.
. "$(dirname "$0")/lib.sh"
FM_CLUSTER_CONF=$'memory = { arena = "64MiB"; buffers = "256MiB"; };' up 2
random 20000000 f

# step ARGUMENT...: of the program, that says nothing is wrong.
step() {
	"$FMOVE_BIN/buffers" f "$@" >said 2>&1 || bad "buffers $*: $(cat said)"
}

# mapped: how many buffers the daemon of n1 has mapped.
mapped() {
	grep -c 'memfd:fmove buffer' "/proc/$(cat "$dir/c/n1/pid")/maps"
}

none_mapped() {
	[ "$(mapped)" = 0 ]
}

step moves
step freed
cmp -s f "$(store 2)/freed" || bad "what was put from a buffer that was given back is another"
step changed
step moves
await none_mapped || bad "$(mapped) buffers are still mapped"

# ---- who goes away ----

mkfifo lines
# Of the 256 MiB an eighth is root's alone; this one is root here, perhaps.
step share 16777216
before=$(cat said)
for i in 1 2 3; do
	rm -f ready
	"$FMOVE_BIN/buffers" f hold 67108864 <lines >ready 2>&1 &
	pid=$!
	exec 3>lines
	await grep -q ready ready || bad "no buffer: $(cat ready)"
	[ "$(mapped)" = 1 ] || bad "a buffer is mapped $(mapped) times"
	kill -KILL $pid
	wait $pid 2>/dev/null
	exec 3>&-
	await none_mapped || bad "a buffer of somebody who was killed is still mapped"
done
step share 16777216
[ "$(cat said)" = "$before" ] || bad "of $before shares $(cat said) are left"

# ---- the daemon goes away ----

rm -f ready
"$FMOVE_BIN/buffers" f wait first <lines >ready 2>&1 &
pid=$!
exec 3>lines
await grep -q ready ready || bad "no put: $(cat ready)"
cmp -s f "$(store 2)/first" || bad "what was put from a buffer is another"
crash n1
start_again n1
echo more >&3
twice() {
	[ "$(grep -c ready ready)" = 2 ]
}
await twice || bad "after the daemon was started again: $(cat ready)"
cmp -s f "$(store 2)/again" || bad "what was put to another daemon is another"
exec 3>&-
wait $pid || bad "after the daemon was started again: $(cat ready)"
await none_mapped || bad "$(mapped) buffers are still mapped"
idle
