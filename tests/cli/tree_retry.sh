#!/bin/bash
# Goal:   --retry means for a directory of the caller's what it means for a file: it is tried again while the peer is away, from where it
#         got, and for so long without progress; what cannot pass is said at once, Ctrl-C and --timeout end it.
# Method: the far daemon is killed in the midst and started again; a file that came to the source meanwhile must be at the target, so the
#         tree was walked once more. Then one that stays away, one that refuses, a signal while it waits, and a daemon of ours that restarts.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_STORE='old_keep = "0s";'
up 2

put_is_noted() {
	fmove ls --partial --json n2:s | tr -d '\n' | grep -q "\"name\":\"$1\",[^}]*\"size\":[1-9]"
}

get_is_noted() {
	[ -n "$(find . -maxdepth 2 -path './.fmove.*.tree/journal' -size +0)" ]
}

no_jobs() {
	fmove status --json | grep -q '"jobs":\[\]'
}

# went_on OUT: it succeeded, and sent less than all.
went_on() {
	[ "$(json resumed_bytes "$1")" -gt 0 ] || bad "nothing was there from the first try: $(cat "$1")"
}

mkdir -p a/sub
split -a 4 -b 5000 <(head -c 2000000 /dev/urandom) a/sub/f
random 28000000 a/large
ok fmove put -r a n2:s/src
again=--retry=${HANG_S}s

# ---- the peer comes back ----

slow 1
fmove put -r $again --json a n2:s/t1 >put.out 2>put.err &
put=$!
moved t1 1000000
await put_is_noted t1 || bad 'nothing of t1 is written down'
crash n2
await no_jobs || bad 'the try does not end'
echo later >a/later
start_again n2
fast 1
wait $put || bad "put -r --retry, the far daemon restarted: $? $(cat put.err)"
went_on put.out
same_tree a "$(store 2)/t1"

slow 2
fmove get -r $again --json n2:s/src g1 >get.out 2>get.err &
get=$!
moved src 1000000
await get_is_noted || bad 'nothing of g1 is written down'
crash n2
await no_jobs || bad 'the try does not end'
echo later >"$(store 2)/src/later"
no_longer_slow 2
start_again n2
wait $get || bad "get -r --retry, the far daemon restarted: $? $(cat get.err)"
went_on get.out
same_tree "$(store 2)/src" g1

# Our own daemon goes the same way.
slow 2
fmove get -r $again --json n2:s/src g2 >get.out 2>get.err &
get=$!
moved src 1000000
await get_is_noted || bad 'nothing of g2 is written down'
crash n1
start_again n1
fast 2
wait $get || bad "get -r --retry, our daemon restarted: $? $(cat get.err)"
went_on get.out
same_tree "$(store 2)/src" g2

# ---- a file: of our own daemon only the command sees that it went away ----

file_is_noted() {
	[ -n "$(find "$1" -maxdepth 1 -name '.fmove.*.journal' -size +0)" ]
}

# file_retried WHERE NAME SIGNAL COMMAND...: its daemon ends and is started again once something is noted in WHERE.
file_retried() {
	local where=$1 name=$2 signal=$3 pid

	shift 3
	slow 1
	slow 2
	fmove "$@" $again --json >file.out 2>file.err &
	pid=$!
	moved "$name" 1000000
	await file_is_noted "$where" || bad "nothing of $name is written down"
	kill "-$signal" "$(cat "$dir/c/n1/pid")"
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n1 >/dev/null 2>&1
	no_longer_slow 1
	start_again n1
	fast 2
	wait $pid || bad "$*, our daemon restarted: $? $(cat file.err)"
	went_on file.out
}

for signal in KILL TERM; do
	file_retried . src/large $signal get n2:s/src/large got
	same a/large got
	file_retried "$(store 2)" put $signal put a/large n2:s/put
	same a/large "$(store 2)/put"
	rm got "$(store 2)/put"
done
file_retried "$(store 1)" src/large KILL get n2:s/src/large n1:s/own
same a/large "$(store 1)/own"
file_retried "$(store 2)" put KILL put n1:s/own n2:s/put
same a/large "$(store 2)/put"

# What a pipe gave is gone.
slow 1
cat a/large | fmove put $again - n2:s/pipe >/dev/null 2>err &
pid=$!
moved pipe 1000000
crash n1
no_longer_slow 1
start_again n1
wait $pid && bad 'put of a pipe went on without what it had given'
grep -q 'fmoved closed the connection' err || bad "put of a pipe, our daemon restarted: $(cat err)"
reachable 2

# So is what was read of a file before it became standard input: from its beginning it would be another one.
slow 1
(head -c 1000000 >/dev/null; exec fmove put $again - n2:s/rest) <a/large >/dev/null 2>err &
pid=$!
moved rest 1000000
crash n1
no_longer_slow 1
start_again n1
wait $pid && bad 'put of the rest of a file went on from somewhere else'
grep -q 'fmoved closed the connection' err || bad "put of the rest of a file, our daemon restarted: $(cat err)"
[ ! -e "$(store 2)/rest" ] || bad 'the rest of a file is published'
reachable 2

# ---- the answer is lost: what the first try published is not replaced once more ----

# lose_the_answer FILES: the daemon dies when the directory has its name, while it removes so many files of the old one.
lose_the_answer() {
	local t=$(store 2)/lost

	rm -rf "$t" && mkdir "$t" && (cd "$t" && seq "$1" | xargs touch)
	before=$(stat -c %i "$t")
	fmove put -r --replace $again --json a n2:s/lost >put.out 2>put.err &
	put=$!
	while [ "$(stat -c %i "$t")" = "$before" ]; do kill -0 $put 2>/dev/null || break; done
	crash n2
	published=$(stat -c %i "$t")
	start_again n2
	wait $put || bad "put -r --replace, its answer lost: $? $(cat put.err)"
	[ "$(stat -c %i "$t")" = "$published" ] || bad "what had been published was replaced: $(cat put.out)"
	same_tree a "$t"
}

# If the answer came all the same, the removal is to take longer.
files=20000
lose_the_answer $files
until grep -q 'an earlier try, of which no answer came, had published it' put.out || [ $files -gt 300000 ] || [ $fails -gt 0 ]; do
	files=$((files * 2))
	lose_the_answer $files
done
grep -q 'an earlier try' put.out || bad "the answer was never lost: $(cat put.out)"

# ---- it does not ----

crash n2
for op in 'put -r --retry 4s a n2:s/nobody' 'get -r --retry 4s n2:s/src nobody'; do
	from=$SECONDS
	# shellcheck disable=SC2086
	no 4 'gave up after ([4-9]|[0-9]{2,})\.[0-9] s without progress, [0-9]+ tries: ' fmove $op
	[ $((SECONDS - from)) -ge 3 ] || bad "$op ended after $((SECONDS - from)) s"
done
from=$SECONDS
no 4 'not done within the time that --timeout gave' fmove put -r --retry 10min --timeout 3s a n2:s/nobody
[ $((SECONDS - from)) -lt "$HANG_S" ] || bad "--timeout 3s ended after $((SECONDS - from)) s"

# The pause after the third try is three seconds or more: the signal comes in it.
env --default-signal=INT fmove put -r --retry 10min a n2:s/nobody >/dev/null 2>err &
pid=$!
await catches $pid || bad "put -r --retry does not begin: $(cat err)"
sleep 1.5
from=$SECONDS
kill -INT $pid
wait $pid
[ $? -eq 130 ] || bad "put -r --retry, interrupted: $? $(cat err)"
[ $((SECONDS - from)) -lt "$HANG_S" ] || bad "it ended $((SECONDS - from)) s after the signal"

# What is refused in any case is not asked for: nobody could answer.
from=$SECONDS
no 1 'is tried once' fmove get -r --retry 10min --detach n2:s/src x
[ $((SECONDS - from)) -lt "$HANG_S" ] || bad "what is refused was tried for $((SECONDS - from)) s"
start_again n2
reachable 2

# ---- what is to be replaced, of the same sizes and times, is not taken for what an earlier try published ----

mkdir other && random 28000000 other/f && ok fmove put -q -r other n2:s/twin
random 28000000 twin.f && touch -r other/f twin.f && mv twin.f other/f
slow 1
fmove put -r --replace $again --json other n2:s/twin >put.out 2>put.err &
put=$!
moved twin 1000000
crash n2
await no_jobs || bad 'the try does not end'
start_again n2
fast 1
wait $put || bad "put -r --replace --retry, the far daemon restarted: $? $(cat put.err)"
same_tree other "$(store 2)/twin"
reachable 2

# ---- it moves the same again and again ----

# As after a disk that lost what came: nothing is there from the try before.
lose() {
	rm -rf "$(store 2)"/.fmove.*
}

is_over() {
	! kill -0 "$put" 2>/dev/null
}

moved_or_over() {
	is_over || has_moved same 0
}

# At this rate one pack goes at once, and the next one not before the test is over.
fmove put -r --retry 3s --limit 1kB/s a/sub n2:s/same >/dev/null 2>put.err &
put=$!
for ((tries = 0; tries < 12; tries++)); do
	await moved_or_over || bad 'the try moves nothing'
	! is_over || break
	crash n2
	await no_jobs || bad 'the try does not end'
	lose
	start_again n2
done
is_over || bad "put -r --retry 3s goes on after $tries tries, each of which moved the same"
kill $put 2>/dev/null
wait $put
grep -qE 'gave up after [0-9.]+ s without progress' put.err || bad "put -r --retry 3s ended so: $(cat put.err)"
reachable 2

# ---- what does not pass ----

from=$SECONDS
no 1 'no store nostore; fmove df n2 ' fmove put -r --retry 10min a n2:nostore/x
no 6 'exists; --update' fmove put -r --retry 10min a n2:s/t1
no 1 'is tried once' fmove put -r --retry 1min --detach a n2:s/x
[ $((SECONDS - from)) -lt "$HANG_S" ] || bad "what is refused was tried for $((SECONDS - from)) s"
grep -q 'gave up' err && bad "what is refused was tried again: $(cat err)"

# Who cancels the job means the command.
fmove put -r --retry 10min --limit 0.1MB/s a n2:s/cancelled >/dev/null 2>err &
pid=$!
await eval '[ -n "$(fmove jobs -q)" ]'
ok fmove cancel "$(fmove jobs -q | head -n 1)"
wait $pid && bad "put -r --retry went on after it was cancelled: $(cat err)"
no_jobs || bad 'a cancelled put -r --retry is there still'
no_trees "$dir/w"
