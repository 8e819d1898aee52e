#!/bin/bash
# Goal:   a source on a disk that never answers again costs its own dataset and nothing else: both daemons go on, others are staged from the
#         same node, whoever waits can leave, and when the disk fails at last the line says so.
# Method: a store on a file system that stops answering (hang_fs, FUSE), in the midst of two stages of files of it: one in a run with the node
#         of the source, one of a node that is in no runs.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hang_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "3GiB"; grace = "0s"; peers = [ "*" ]; };'
up 3
trap 'status=$?; end_fs; (exit $status); down' EXIT
sed -i "s|stores = ( {|stores = ( { name = \"hung\"; directory = \"$hung\"; }, {|" "$dir/c/n2/fmove.conf"
sed -i 's|peers = \[ "\*" \]|peers = [ ]|' "$dir/c/n3/fmove.conf"
for i in 2 3; do
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n$i
	start_again n$i
done
reachable 2
reachable 3
slow 2

fmove stage n2:hung/0 >together 2>err.together &
together=$!
fmove --socket "$dir/c/n3/fmoved.sock" stage n2:hung/1 >waits 2>err.waits &
waits=$!
both_come() {
	local transfers

	transfers=$(FMOVE_SOCKET=$dir/c/n2/fmoved.sock fmove status)
	grep -q 'put n1:.staging/.*copying' <<<"$transfers" && grep -q 'get n3:hung/1 .*copying' <<<"$transfers"
}
await both_come || bad "nothing comes: $(cat err.together err.waits)"
stop_fs
fast 2
kill -0 $together $waits || bad "they were staged before the disk hung: $(cat err.together err.waits)"

# Others are served, from the same node too.
mkdir "$(store 2)/set"
random 3000000 "$(store 2)/set/f"
ok timeout "$HANG_S" fmove stage n2:s/set
same "$(store 2)/set/f" "$(cat out)/f"
echo again >"$(store 2)/set/g"
ok timeout "$HANG_S" fmove stage --nodes n1,n2 n2:s/set
for i in 1 2 3; do
	ok timeout "$HANG_S" fmove --socket "$dir/c/n$i/fmoved.sock" status
	ok timeout "$HANG_S" fmove --socket "$dir/c/n$i/fmoved.sock" datasets
done

# A user who is the first to hand over files at that node gets a process for them, into which nothing of the disk is copied.
random 100000 mine
ok timeout "$HANG_S" fmove --socket "$dir/c/n2/fmoved.sock" put --quiet mine n1:s/mine
same mine "$(store 1)/mine"

# Whoever waits for it can leave.
kill -TERM $together
left() {
	! kill -0 $together 2>/dev/null
}
await left || bad "SIGTERM does not end the wait for a disk that hangs"

# It fails at last: who waits still hears so.
kill -0 $waits || bad "the wait ended before the disk failed: $(cat err.waits)"
end_fs
told() {
	! kill -0 $waits 2>/dev/null
}
await told || bad "the disk failed, and nobody is told"
wait $waits && bad "it is staged from a disk that failed: $(cat waits)"
grep '^fmove: stage: n2:hung/1: ' err.waits || bad "it ends without a word: $(cat err.waits)"
