#!/bin/bash
# Goal:   a store of this node that never answers again keeps what moves into it or out of it, and nobody else: --timeout holds there, a cancel is
#         done for good, also where fmoved is killed right behind it, and transfers of other stores go on.
# Method: one place for a transfer. A file system (hang_fs, FUSE) stops answering; the job that opens its file there has the place.
. "$(dirname "$0")/lib.sh"
heard=$(mktemp "${TMPDIR:-/tmp}/fm-heard.XXXXXX") || exit 1
. "$(dirname "$0")/hung_store_lib.sh"
export FM_CLUSTER_CONF='jobs = { running = 1; };'
up 2
trap 'status=$?; end_fs; rm -rf "$heard" "$hung"; (exit $status); down' EXIT
sed -i "s|stores = ( {|stores = ( { name = \"hung\"; directory = \"$hung\"; write = [ \"*\" ]; read = [ \"*\" ]; }, {|" "$dir/c/n1/fmove.conf"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
start_again n1
reachable 2
random 1000 file
ok fmove put --quiet file n2:s/file
ok fmove put --quiet n1:hung/0 n2:s/whole	# while it answers all is as in any store
[ "$(stat -c %s "$(store 2)/whole")" = 1000 ] || bad "it is not there: $(ls -l "$(store 2)")"

: >"$heard"
kill -USR1 "$fs_pid"
stat -f "$hung" >/dev/null 2>&1 &
await grep -q statfs "$heard" || bad "the file system still answers"

# One that has no time limit has the place, but not for ever.
opens() {
	fmove jobs --json >jobs && grep -q "\"job\":\"$id\"[^}]*\"phase\":\"opening\"" jobs
}
ok fmove get --detach n2:s/file n1:hung/detached
read -r id <out
await opens || bad "a detached get does not wait for the file system: $(cat jobs)"
ok timeout "$HANG_S" fmove put --quiet file n2:s/other
same file "$(store 2)/other"

# As source and as target, however far it comes in its time: all threads that may wait for the store may do so by now.
fmove put --quiet --timeout 1 n1:hung/0 n2:s/source 2>err
[ $? -eq 4 ] && grep -q 'not done within the time that --timeout gave' err || bad "a put does not end in its time: $(cat err)"
fmove get --quiet --timeout 1 n2:s/file n1:hung/target 2>err
[ $? -eq 4 ] && grep -q 'not done within the time that --timeout gave' err || bad "a get does not end in its time: $(cat err)"

ok timeout "$HANG_S" fmove cancel "$id"
kill -KILL "$(cat "$dir/c/n1/pid")"
end_fs
await test -s "$dir/c/n1/exit" || bad "n1 does not end"
mkdir "$hung"
start_again n1
no 130 cancelled fmove wait "$id"
fmove jobs --json >out
grep -q "\"job\":\"$id\"[^}]*\"state\":\"cancelled\"" out || bad "a cancelled job goes on: $(cat out)"
[ ! -e "$hung/detached" ] || bad "a cancelled job has moved its file"
