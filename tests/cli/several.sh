#!/bin/bash
# Goal:   a put to several nodes arrives at all of them or at none.
# Method: three nodes; a file to two; one that refuses, does not know the store, is killed in the middle; a signal; sources of all kinds.
. "$(dirname "$0")/lib.sh"
up 3
random 20000000 f

# nobody NAME: neither n2 nor n3 has it.
nobody() {
	for i in 2 3; do
		[ -e "$(store $i)/$1" ] && bad "n$i has $1"
	done
}

# Both get it.
ok fmove put f n2:s/a/x n3:s/b/
same f "$(store 2)/a/x"
same f "$(store 3)/b/f"
[ "$(grep -c 'f -> n[23]:.*CRC32C' err)" -eq 2 ] || bad "not two lines for two destinations: $(cat err)"
ok fmove put --json f n2:s/j n3:s/j
grep -q '"target":"n2:s/j","exit":0' out && grep -q '"target":"n3:s/j","exit":0' out || bad "json: $(cat out)"
grep -q '"done":2,"failed":0' out || bad "json: $(cat out)"

# Several sources, a directory that is there, an empty file, one in a store of our own.
: >empty
random 5000 g
ok mkdir "$(store 2)/dir"
ok fmove put f g empty n2:s/dir n3:s/dir/
for name in f g empty; do
	same $name "$(store 2)/dir/$name"
	same $name "$(store 3)/dir/$name"
done
[ "$(grep -c 'no RDMA' err)" -le 1 ] || bad "why it goes over TCP is said again and again: $(cat err)"
ok fmove put f g empty n2:s/each/
[ "$(grep -c 'no RDMA' err)" -le 1 ] || bad "why it goes over TCP is said with each file: $(cat err)"
# status has it: for programs of each peer, for people once where this node has none.
if [ ! -d /sys/class/infiniband ]; then
	[ "$(fmove status --json | grep -o '"rdma_why":"no RDMA here: ' | wc -l)" -eq 2 ] || bad "status --json: $(fmove status --json)"
	[ "$(fmove status | grep -c 'RDMA')" -eq 1 ] || bad "status: $(fmove status)"
fi
cp f "$(store 1)/own"
ok fmove put n1:s/own n2:s/own n3:s/own
same f "$(store 2)/own"
same f "$(store 3)/own"
ok fmove put g n1:s/own n2:s/dir2/ n3:s/dir2/
same f "$(store 3)/dir2/own"
no 2 'several sources|none' fmove put g n1:s/own n2:s/dir2/own

# Two sources of one name: the later would replace the earlier.
mkdir -p one two
cp g one/g
cp f two/g
for to in n2:s/twins/ 'n2:s/twins/ n3:s/twins/' '--detach n2:s/twins/ n3:s/twins/'; do
	# shellcheck disable=SC2086
	no 6 'one/g and .*two/g would both become "g" in that directory' fmove put -f one/g two/g $to
	nobody twins
done
no 6 'would both become "g"' fmove put -f n1:s/own one/g ./two//g n2:s/twins/
no 6 'would both become "two"' fmove put -r one/../two/ two// n2:s/twins/
fmove put -r . ./. n2:s/twins/ 2>err && bad "names of no source went somewhere"
[ "$(grep -c 'has no name of its own' err)" -eq 2 ] || bad "two sources without a name: $(cat err)"
ok fmove put one/g f n2:s/no_twins/
same f "$(store 2)/no_twins/f"

ok fmove put -f --verify readback --durability memory g n2:s/a/x n3:s/b/f
same g "$(store 2)/a/x"
same g "$(store 3)/b/f"

# One refuses: it is there already.
ok fmove put g n3:s/there
no 6 'n3:s/there.*exists' fmove put f n2:s/there n3:s/there
[ -e "$(store 2)/there" ] && bad "n2 has what n3 refused"
same g "$(store 3)/there"
fmove put --json f n2:s/there n3:s/there >out 2>err
[ $? -eq 6 ] || bad "refused, json: $(cat out err)"
grep -q '"target":"n2:s/there","exit":6,"error".*because n3:s/there failed' out || bad "json of who would have had it: $(cat out)"
grep -q '"done":0,"failed":2' out || bad "refused, json: $(cat out)"
ok fmove put -f f n2:s/there n3:s/there
same f "$(store 2)/there"
same f "$(store 3)/there"

# One has no such store; one is no node.
no 1 'nostore' fmove put f n2:s/x n3:nostore/x
nobody x
no 1 'n9' fmove put f n2:s/x n9:s/x
nobody x
no 1 'nosuch' fmove put nosuch n2:s/x n3:s/x
no 1 'standard input' fmove put - n2:s/x n3:s/x
mkdir -p t/sub
random 9000000 t/large
random 1000 t/sub/small
no 2 'is a directory; put -r sends it' fmove put t n2:s/x n3:s/x

# Detached each is a job of its own: one that fails leaves the others. What can be read once only is not divided among them.
detached() {
	ok fmove put --detach --json "$@"
	# shellcheck disable=SC2046
	fmove wait $(grep -o '"job":"[^"]*"' out | cut -d '"' -f 4) >waited 2>&1
}
detached f n2:s/d/f n3:s/d/f || bad "detached to two: $(cat waited)"
[ "$(grep -o '"job":' out | wc -l)" -eq 2 ] || bad "jobs of two destinations: $(cat out)"
same f "$(store 2)/d/f"
same f "$(store 3)/d/f"
detached -r t n2:s/dt n3:s/dt || bad "a directory, detached: $(cat waited)"
diff -r t "$(store 2)/dt" && diff -r t "$(store 3)/dt" || bad "a directory, detached, is another"
detached f t/large n2:s/d2/ n3:s/d2/ || bad "several, detached: $(cat waited)"
same t/large "$(store 2)/d2/large"
same f "$(store 3)/d2/f"
detached f n2:nostore/e n3:s/e && bad "one of two fails, detached: $(cat waited)"
same f "$(store 3)/e"
no 2 'can be read once only: leave out --detach' fmove put --detach - n2:s/x n3:s/x
mkfifo once
no 2 'can be read once only: leave out --detach' fmove put --detach once n2:s/x n3:s/x
nobody x

# Directories, the same: both, an update of both, or none.
ok fmove put -r t n2:s/t n3:s/t
for i in 2 3; do
	diff -r t "$(store $i)/t" || bad "n$i has another tree"
done
no 6 'exists' fmove put -r t n2:s/t2 n3:s/t
[ -e "$(store 2)/t2" ] && bad "n2 has the tree that n3 refused"
random 2000 t/sub/new
fmove put -r -n --update t n2:s/t n3:s/t 2>err || bad "dry run: $(cat err)"
[ "$(grep -c 'would send 1 of 3 files' err)" -eq 2 ] || bad "dry run: $(cat err)"
[ -e "$(store 2)/t/sub/new" ] && bad "a dry run sent something"
ok fmove put -r --update t n2:s/t n3:s/t
for i in 2 3; do
	diff -r t "$(store $i)/t" || bad "n$i has another tree after the update"
done
ok fmove put -r t f n2:s/both/ n3:s/both/
diff -r t "$(store 3)/both/t" || bad "n3 has another tree"
same f "$(store 2)/both/f"
no 1 'dry-run of a file' fmove put -r -n f n2:s/x n3:s/x

# What a directory has changes when n2 has all of it and n3, which stands still, nothing: each would get another version, so nobody does.
# n3 is let go on at once, but a machine may be so slow that it is given up before: that says nothing.
mkdir -p v w
for i in 1 2 3; do
	echo "old $i" >v/$i
done
n2_is_prepared() {
	fmove status --json | grep -q '"path":"v","state":"prepared"' || ! kill -0 $pid 2>/dev/null
}
replaced() {
	for i in 1 2 3; do
		echo "new $i" >w/$i
	done
	kill -STOP "$(cat "$dir/c/n3/pid")"
	fmove put -r "$@" n2:s/v n3:s/v >out 2>err &
	pid=$!
	await n2_is_prepared
	mv -f w/* "$from"
	kill -CONT "$(cat "$dir/c/n3/pid")"
	wait $pid
	status=$?
	reachable 3
}
refused_as_changed() {
	for try in 1 2 3 4; do
		replaced "$1"
		[ $status -ne 4 ] || continue
		[ $status -eq 1 ] && grep -q 'another version than for n2:s/v; nobody has it' err || bad "$1 changed, $status: $(cat err)"
		nobody v
		return
	done
	echo "n3 was given up in each of $try tries"
}
from=v
refused_as_changed v
cp -r v "$(store 1)/v"
from=$(store 1)/v
refused_as_changed n1:s/v
ok fmove put -r v n2:s/v n3:s/v
diff -r v "$(store 2)/v" && diff -r v "$(store 3)/v" || bad "what changed before is another one at n2 or n3"

cp -r t "$(store 1)/owntree"
ok fmove put -r n1:s/owntree n2:s/owntree n3:s/owntree
diff -r t "$(store 2)/owntree" || bad "n2 has another tree of n1's store"
diff -r t "$(store 3)/owntree" || bad "n3 has another tree of n1's store"
fmove put n1:s/owntree n2:s/x n3:s/x >out 2>err
[ $? -eq 2 ] && grep -q 'is a directory' err || bad "a directory without -r: $(cat err)"
nobody x

# The disk is read once: all that both need comes from the page cache for the second. On a memory file system nothing is read.
if dd if=/dev/urandom of=cold bs=1M count=60 oflag=direct status=none 2>/dev/null && sync cold; then
	before=$(sed -n 's/^read_bytes: //p' "/proc/$(cat "$dir/c/n1/pid")/io")
	ok fmove put cold n2:s/cold n3:s/cold
	after=$(sed -n 's/^read_bytes: //p' "/proc/$(cat "$dir/c/n1/pid")/io")
	[ $((after - before)) -lt 90000000 ] || bad "$((after - before)) bytes were read of a file of 62914560"
	same cold "$(store 3)/cold"
fi

# One fails behind the commit: the other has it; both are said, and the status is 3. Faults are in no release.
if grep -q store.rename "$FMOVE_BIN/fmoved"; then
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n3 || bad "n3 does not stop"
	FMOVE_FAULT=store.rename:1 "$FM_SOURCE/tests/cluster" start "$dir/c" n3 || bad "n3 does not start"
	reachable 3
	fmove put f n2:s/half n3:s/half 2>err
	[ $? -eq 3 ] || bad "a commit that fails: $(cat err)"
	grep -q 'f is at n2:s/half; at n3:s/half it is not' err || bad "a commit that fails says: $(cat err)"
	same f "$(store 2)/half"
	[ -e "$(store 3)/half" ] && bad "n3 has what it could not publish"
	ok fmove put -f f n2:s/half n3:s/half
	same f "$(store 3)/half"
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n3 || bad "n3 does not stop"
	"$FM_SOURCE/tests/cluster" start "$dir/c" n3 || bad "n3 does not start"
	reachable 3
fi

# start NAME [OPTION...]: a put in the background, to both nodes, that is copying when this returns: so slow that it never ends by itself.
# Nothing was put under that name before: one of two that failed together may have had all of its file, and would go on from there.
start() {
	local name=$1

	shift
	env --default-signal=INT fmove put "$@" --limit 0.05MB/s f "n2:s/$name" "n3:s/$name" >out 2>err &
	pid=$!
	await begun
	both_move || bad "it does not move: $(cat err) $(fmove status --json | grep -o '"jobs":.*')"
}

# One that ended says why; it is not waited for.
begun() {
	both_move || ! kill -0 $pid
}

n1_is_idle() {
	fmove status --json | grep -q '"jobs":\[\]'
}

both_move() {
	[ "$(fmove status --json | grep -o '"state":"copying"' | wc -l)" -eq 2 ]
}

# Ctrl-C: one line, nobody has it.
start interrupted
kill -INT $pid
wait $pid
[ $? -eq 130 ] || bad "SIGINT: $(cat err)"
[ "$(wc -l <err)" -eq 1 ] && grep -q cancelled err || bad "SIGINT says: $(cat err)"
nobody interrupted

# One is killed in the middle.
start one_killed
kill -KILL "$(cat "$dir/c/n3/pid")"
wait $pid
[ $? -eq 4 ] || bad "n3 killed: $(cat err)"
[ "$(wc -l <err)" -eq 1 ] && grep -q n3 err || bad "n3 killed says: $(cat err)"
await test -s "$dir/c/n3/exit" || bad "n3 does not end"
await n1_is_idle || bad "transfers go on"
nobody one_killed
start_again n3
reachable 3

# With --retry all of them are tried again while one is away, for so long.
start again --retry 10min
crash n3
await n1_is_idle || bad "transfers go on"
kill -0 $pid || bad "put --retry ended with n3: $(cat err)"
nobody again
start_again n3
await both_move || bad "put --retry does not go on: $(cat err)"
kill -INT $pid
wait $pid
[ $? -eq 130 ] || bad "SIGINT in the second try: $(cat err)"
nobody again
"$FM_SOURCE/tests/cluster" stop "$dir/c" n3 || bad "n3 does not stop"
no 4 'gave up after [0-9.]+ s without progress, [0-9]+ tries: ' fmove put --retry 3s f n2:s/x n3:s/x
no 4 'gave up after [0-9.]+ s without progress, [0-9]+ tries: ' fmove put -r --retry 3s t n2:s/x n3:s/x
nobody x
fmove put --retry 10min f n2:s/retried n3:s/retried >out 2>err &
pid=$!
sleep 1
start_again n3
wait $pid || bad "put --retry, n3 came back: $(cat err)"
same f "$(store 2)/retried"
same f "$(store 3)/retried"

# The CLI is killed: nobody has it. The same again: both do.
start killed
kill -KILL $pid
wait $pid 2>/dev/null
idle
nobody killed
ok fmove put f n2:s/killed n3:s/killed
same f "$(store 2)/killed"
same f "$(store 3)/killed"
