#!/bin/bash
# Goal:   jobs: what is detached goes on without its caller, waits for its turn, survives a crash of either daemon, and is its owner's alone.
# Method: one place only (jobs.running = 1), so that what waits can be seen; slow transfers that are ended by hand (--limit), or whose node is
#         made slow (mover.rate_limit) until they have been disturbed.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF='jobs = { running = 1; };'
up 2
random 3000000 f
random 40000000 big
cp big "$(store 1)/big"
cp f "$(store 1)/f"

# detach COMMAND...: its id in $id.
detach() {
	ok fmove "$@" --detach || return
	id=$(cat out)
	[ "${#id}" -eq 8 ] || bad "$* --detach printed \"$id\""
	[ -s err ] && bad "$* --detach said: $(cat err)"
}

# field KEY ID: the value of that key of one job.
field() {
	fmove jobs --json | grep "\"job\":\"$2\"" | sed -n "s/.*\"$1\":\"\\{0,1\\}\\([^,\"}]*\\).*/\\1/p"
}

# reach STATE ID: until the job is in that state.
reach() {
	await is_in "$1" "$2" || bad "job $2 is \"$(field state "$2")\" and not $1: $(fmove jobs)"
}

is_in() {
	[ "$(field state "$2")" = "$1" ]
}

# moving ID: until bytes move.
moving() {
	await is_moving "$1" || bad "job $1 does not move: $(fmove jobs)"
}

is_moving() {
	fmove jobs --json | grep -o "\"job\":\"$1\".*" | grep -q '^[^}]*"phase":"copying"[^}]*"bytes":[1-9]'
}

# ---- who no longer waits has ended the wait, not the job

detach put --limit 50kB/s big n2:s/waited
fmove wait "$id" >out 2>err &
await catches $! || bad "wait does not begin: $(cat err)"
kill -TERM $!
wait $!
status=$?
[ $status -eq 130 ] || bad "an interrupted wait ends with $status and not with 130"
grep -q 'no longer waited for' err || bad "an interrupted wait says: $(cat err)"
moving "$id"
no 4 'no longer waited for, the time of --timeout is up; the job itself goes on' fmove wait --timeout 300ms "$id"
fmove wait --json --timeout 10ms "$id" >out 2>err
[ $? -eq 4 ] && grep -q '"exit":4,.*"code":"ETIMEDOUT"' out || bad "wait --json when the time is up: $(cat out)"
no 2 '--timeout 0: must be' fmove wait --timeout 0 "$id"
# The daemon stands still until the time is up: each one is looked for all the same, if it does not stand still for two seconds, as on a busy machine.
for try in 1 2 3 4 5 6 7 8; do
	kill -STOP "$(<"$dir/c/n1/pid")"
	fmove wait --timeout 10ms "$id" nojob >out 2>err &
	pause 0.3
	kill -CONT "$(<"$dir/c/n1/pid")"
	wait $!
	status=$?
	[ $status -eq 4 ] || bad "no time left for one job, and no other job: $status instead of 4"
	! grep -q '^fmove: wait: nojob: you have' err || break
done
grep -q "^fmove: wait: nojob: you have no job nojob here" err || bad "no time left for one job, and no other job: $(cat err)"
moving "$id"
ok fmove cancel "$id"
cancelled=$id

# One job that is done makes it no half success, and a fmoved that does not answer makes it no longer.
detach put f n2:s/done
ok fmove wait -q "$id"
done=$id
detach put --limit 50kB/s big n2:s/waited
moving "$id"
no 4 "$id: no longer waited for, the time of --timeout is up" fmove wait -q --timeout 300ms "$done" "$id"
no 4 "$id: no longer waited for, the time of --timeout is up" fmove wait -q --timeout 300ms "$id" "$done"
# Nor does one that was cancelled go on.
fmove wait -q --timeout 300ms "$id" "$cancelled" >out 2>err
[ $? -eq 4 ] && grep -q "$id: no longer waited for" err || bad "a job that goes on, and one that was cancelled: $(cat err)"
grep -q "$cancelled: no longer waited for" err && bad "a job that was cancelled goes on: $(cat err)"
# It falls silent while it waits: there is little to confirm.
ended() {
	! kill -0 $waiting 2>/dev/null || grep -q '^State:.*Z' "/proc/$waiting/status"
}
# A put has more, and waits four times as long for that: of two that begin at once the wait ends first.
# Where one of them had ended before the daemon was silent, once more, with more time.
for time in 2 8 32; do
	fmove put -q --limit 50kB/s --timeout ${time}s big n2:s/silent >/dev/null 2>&1 &
	other=$!
	fmove wait -q --timeout ${time}s "$id" >out 2>err &
	waiting=$!
	await catches $waiting && await catches $other || bad "wait or put does not begin: $(cat err)"
	sleep 0.5
	kill -STOP "$(cat "$dir/c/n1/pid")"
	ended || waiting=$other ended || break
	kill -CONT "$(cat "$dir/c/n1/pid")"
	wait $waiting $other
done
wait -n -p first $waiting $other
[ $? -eq 4 ] && [ "$first" = $waiting ] || bad "wait --timeout takes as long as a put when fmoved falls silent: $(cat err)"
wait $other
fmove wait -q --timeout 300ms "$id" "$done" >out 2>err &
waiting=$!
HANG_S=45 await ended || bad "--timeout does not end a wait for fmoved, which is stopped"
kill -CONT "$(cat "$dir/c/n1/pid")"
wait $waiting
[ $? -eq 4 ] && [ "$(grep -c 'no longer waited for, the time' err)" -eq 2 ] || bad "wait, and fmoved is stopped: $(cat err)"
reachable 2
ok fmove cancel "$id"

# The word that one job is done and a signal find it at once: the others were not waited for, and it says so.
is_stopped() {
	grep -q '^State:.T' "/proc/$1/status"
}
detach put --limit 15MB/s big n2:s/first
first=$id
detach put --limit 50kB/s big n2:s/second
fmove wait "$first" "$id" nojob >out 2>err &
waiting=$!
await catches $waiting || bad "wait does not begin: $(cat err)"
kill -STOP $waiting
await is_stopped $waiting || bad "it does not stop"
fmove wait -q "$first" 2>/dev/null
kill -TERM $waiting
kill -CONT $waiting
wait $waiting
status=$?
[ $status -ne 0 ] || bad "a wait that a signal ended between two jobs ends with $status: $(cat err)"
grep -q "$id: no longer waited for" err && grep -q 'nojob: no longer waited for' err || bad "of jobs that were not waited for: $(cat err)"
ok fmove cancel "$id"

# ---- every kind

detach put f n2:s/own
ok fmove wait "$id"
same f "$(store 2)/own"
grep -q 'CRC32C .* durable' err || bad "wait says: $(cat err)"
ok fmove wait --json "$id"
[ "$(json job out)" = "$id" ] && [ "$(json bytes out)" = 3000000 ] && [ "$(json exit out)" = 0 ] || bad "wait --json: $(cat out)"
detach put n1:s/f n2:s/between
ok fmove wait -q "$id"
[ -s err ] && bad "wait --quiet said: $(cat err)"
same f "$(store 2)/between"
detach get n2:s/between n1:s/dir/
ok fmove wait "$id"
same f "$(store 1)/dir/between"
[ "$(stat -c %Y "$(store 1)/dir/between")" = "$(stat -c %Y "$(store 1)/f")" ] || bad "its time is lost on the way"
ok fmove put n1:s/f n2:s/waited
same f "$(store 2)/waited"
ok fmove get n2:s/waited n1:s/waited
same f "$(store 1)/waited"
no 6 'exists' fmove get n2:s/waited n1:s/waited
ok fmove get -f n2:s/waited n1:s/waited
ok fmove put --json --detach f n2:s/json
[ "$(json exit out)" = 0 ] && ok fmove wait "$(json job out)"
ok fmove put --detach f big n2:s/several/
[ "$(wc -l <out)" -eq 2 ] || bad "two sources, these jobs: $(cat out)"
ok fmove wait $(cat out)
same big "$(store 2)/several/big"
[ "$(fmove jobs -q | wc -l)" -eq "$(fmove jobs | wc -l)" ] || bad "jobs -q has other jobs"

# Directories, between stores.
mkdir -p "$(store 1)/tree/a/b" && cp f "$(store 1)/tree/a/f" && cp big "$(store 1)/tree/a/b/big" && ln -s a/f "$(store 1)/tree/link"
detach put -r n1:s/tree n2:s/tree
ok fmove wait "$id"
diff -r "$(store 1)/tree" "$(store 2)/tree" || bad "a tree that was put differs"
detach get -r --exclude big n2:s/tree n1:s/back/
ok fmove wait "$id"
diff -r "$(store 1)/tree" "$(store 1)/back/tree" | grep -qx "Only in .*/tree/a/b: big" || bad "a tree that was got differs"

# ---- what only its caller can touch: a process of the caller stays

# attendant WORD: the process of this script whose command line has this word. Another one may run beside it on this machine.
attendant() {
	local at

	# grep finds itself, too, and is gone by then.
	for at in $(grep -Fxzl -- "$1" /proc/[0-9]*/cmdline 2>/dev/null); do
		at=${at%/cmdline}
		! grep -qz -- "$dir" "$at/environ" 2>/dev/null || echo "${at#/proc/}"
	done
}

# left WORD ID: kill it; its job is paused.
left() {
	local pid

	pid=$(attendant "$1")
	[ -n "$pid" ] && kill -KILL $pid || bad "nobody attends to $1"
	reach paused "$2"
}

detach get n2:s/own here
ok fmove wait "$id"
grep -q "$PWD/here: .* durable" err || bad "wait says: $(cat err)"
same f here
[ "$(stat -c %Y here)" = "$(stat -c %Y "$(store 2)/own")" ] || bad "its time is lost on the way"
[ "$(field detached "$id")" = true ] && [ "$(field attended "$id")" = true ] || bad "what is attended: $(fmove jobs --json)"
before=$(fmove jobs -q | wc -l)
no 6 'exists' fmove get --detach n2:s/own here
no 6 'exists' fmove get --json --detach n2:s/own here
[ "$(json exit out)" = 6 ] || bad "get --json --detach: $(cat out)"
no 1 'No such file' fmove get --detach n2:s/own no/such/place
no 1 'leave out --detach' fmove get --detach n2:s/own -
[ "$(fmove jobs -q | wc -l)" -eq "$before" ] || bad "a job for what was refused: $(fmove jobs)"
ok fmove get --json -f --detach n2:s/several/big here
[ "$(json exit out)" = 0 ] && ok fmove wait "$(json job out)"
same big here
detach get n2:s/nothing nothing
no 1 'no such file' fmove wait "$id"
[ ! -e nothing ] || bad "nothing came, and it is there"

# Cancelled, what came goes; here, and when nobody is left.
detach get --limit 100kB/s n2:s/several/big slow
moving "$id"
ok fmove cancel "$id"
no 130 cancelled fmove wait "$id"
no_partials
slow 2
detach get n2:s/several/big "$PWD/slow"
moving "$id"
left "$PWD/slow" "$id"
no 1 'fmove resume' fmove wait "$id"
ok fmove cancel "$id"
no_partials
[ ! -e slow ] || bad "it was cancelled, and is there"

# Killed: resume, and the same command again, go on as the same job.
ok fmove resume "$id"
moving "$id"
left "$id" "$id"
first=$id
fast 2
detach get n2:s/several/big "$PWD/slow"
[ "$id" = "$first" ] || bad "the same command again is job $id and not $first: $(fmove jobs)"
ok fmove wait "$id"
same big slow
no_partials

# A name that is taken meanwhile is the end of it.
slow 2
detach get n2:s/several/big taken
moving "$id"
echo mine >taken
fast 2
no 6 'appeared meanwhile' fmove wait "$id"
[ "$(cat taken)" = mine ] || bad "what appeared meanwhile was replaced"
rm taken
ok fmove resume "$id"
ok fmove wait "$id"
same big taken

# Killed right behind the rename, it finds what it made; another's file is not taken for it.
detach get --limit 100kB/s n2:s/several/big "$PWD/found"
moving "$id"
left "$PWD/found" "$id"
cp big found
no 6 'another size or time' fmove resume "$id"
reach failed "$id"
cp -p "$(store 2)/several/big" found
ok fmove resume "$id"
[ "$(field state "$id")" = done ] || bad "what is there is not found: $(fmove jobs)"
ok fmove wait "$id"
grep -q 'an earlier try had got it there' err || bad "wait says: $(cat err)"
grep -q 'CRC32C' err && bad "nobody compared it, and wait says: $(cat err)"
ok fmove wait --json "$id"
grep -q '"checked":false' out && ! grep -q crc32c out || bad "nobody compared it, and wait --json says: $(cat out)"
no_partials

# The daemon is restarted: it goes on by itself.
slow 2
detach get n2:s/several/big restarted
moving "$id"
crash n1
start_again n1
fast 2
reach done "$id"
same big restarted

# Directories.
detach get -r n2:s/tree tree
ok fmove wait "$id"
diff -r "$(store 2)/tree" tree || bad "a tree that was got in the background differs"
no 6 'exists' fmove get -r --detach n2:s/tree tree
detach put -r --exclude big --exclude link tree n2:s/mine
ok fmove wait "$id"
diff -r tree "$(store 2)/mine" >out
[ "$(sort <out)" = "$(printf '%s\n' 'Only in tree/a/b: big' 'Only in tree: link' | sort)" ] || bad "what was left out: $(cat out)"
slow 2
detach get -r n2:s/tree "$PWD/again"
moving "$id"
left "$PWD/again" "$id"
fast 2
ok fmove resume "$id"
ok fmove wait "$id"
diff -r "$(store 2)/tree" again || bad "a tree that was gone on with differs"
slow 1
detach put -r --exclude link "$PWD/tree" n2:s/again
moving "$id"
left "$PWD/tree" "$id"
fast 1
[ ! -e "$(store 2)/again" ] || bad "half a tree has its name"
ok fmove resume "$id"
ok fmove wait "$id"
diff -r tree "$(store 2)/again" >out
[ "$(cat out)" = "Only in tree: link" ] || bad "resume has other options: $(cat out)"
no_partials

# ---- who is next

detach put --limit 100kB/s big n2:s/slow
slow=$id
moving "$slow"
detach put --priority low f n2:s/low
low=$id
detach put f n2:s/normal
normal=$id
detach put --priority high f n2:s/high
high=$id
for job in $low $normal $high; do
	[ "$(field state "$job")" = queued ] || bad "there is one place, and two run: $(fmove jobs)"
done
# For people that is waiting, as for the next try; how many are before it says for what.
fmove jobs | grep -Eq "^$low +waiting +low +2 before it" || bad "jobs does not say that it waits: $(fmove jobs)"
fmove jobs | grep -w queued && bad "two words for waiting"
[ "$(field before "$low")" = 2 ] || bad "$(field before "$low") before the last: $(fmove jobs)"

# Who does not detach waits in the same line; a pipe does not.
fmove put f n2:s/foreground >fg.out 2>fg.err &
fg=$!
ok fmove put - n2:s/pipe <<<"a pipe"
[ "$(cat "$(store 2)/pipe")" = "a pipe" ] || bad "the pipe's bytes"
foreground_waits() {
	fmove jobs --json | grep -q '"state":"queued".*"detached":false' || ! kill -0 $fg
}
await foreground_waits
kill -0 $fg 2>/dev/null || bad "a put did not wait for its place: $(cat fg.err)"

ok fmove cancel "$slow"
no 130 cancelled fmove wait "$slow"
ok fmove wait "$low" "$normal" "$high"
wait $fg || bad "the put that waited: $(cat fg.err)"
[ "$(field ended_ms "$high")" -le "$(field ended_ms "$normal")" ] && [ "$(field ended_ms "$normal")" -le "$(field ended_ms "$low")" ] ||
	bad "not by priority: $(fmove jobs --json)"
[ "$(field state "$slow")" = cancelled ] || bad "cancelled, and yet: $(fmove jobs)"
no 1 'ended already' fmove cancel "$slow"
no_partials

# One that was cancelled, or failed, can be let go on.
detach put f n2:s/own
no 6 'exists' fmove wait "$id"
rm "$(store 2)/own"
ok fmove resume "$id"
ok fmove wait "$id"
same f "$(store 2)/own"
no 1 'nothing to resume' fmove resume "$id"
no 1 'leave out --file' fmove resume --file f "$id"

# ---- a crash here

slow 1
detach put n1:s/big n2:s/crash
between=$id
moving "$between"
detach put n1:s/f n2:s/behind
behind=$id
detach put big n2:s/own-big
own=$id
crash n1
start_again n1
fast 1
[ "$(field state "$own")" = paused ] || bad "a job on a caller's file after a crash: $(fmove jobs)"
no 1 'fmove resume' fmove wait "$own"
ok fmove wait "$between" "$behind"
same big "$(store 2)/crash"
same f "$(store 2)/behind"
mv big moved
no 1 'No such file' fmove resume "$own"
ok fmove resume --file moved "$own"
ok fmove wait "$own"
mv moved big
same big "$(store 2)/own-big"
ok fmove wait "$between"

# ---- a caller who is killed

slow 1
fmove put big n2:s/killed >fg.out 2>fg.err &
fg=$!
id=
while [ -z "$id" ]; do
	kill -0 $fg 2>/dev/null || { bad "it ended too early: $(cat fg.err)"; break; }
	id=$(fmove jobs --json | sed -n 's/.*"job":"\([a-z2-7]*\)".*"path":"killed".*/\1/p')
done
moving "$id"
kill -KILL $fg
wait $fg 2>/dev/null
reach paused "$id"
fast 1
ok fmove resume "$id"
ok fmove wait "$id"
same big "$(store 2)/killed"

# ---- a crash there

slow 1
detach put n1:s/big n2:s/crash2
moving "$id"
crash n2
reach waiting "$id"
start_again n2
fast 1
# It may have tried again by itself by then.
fmove resume "$id" >out 2>err || grep -q 'nothing to resume' err || bad "resume of one that waits: $(cat err)"
ok fmove wait "$id"
same big "$(store 2)/crash2"
no 1 'between two stores: leave out --file' fmove resume --file big "$id"
# In order, too.
slow 1
detach put n1:s/big n2:s/stop
moving "$id"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
reach waiting "$id"
# A restart would take its file from one that waits, so nothing is idle.
ok fmove put --detach --quiet f n2:s/waits_with_file
read -r own <out
reach waiting "$own"
fmove status --json | grep -q '"idle":false' || bad "an upgrade would restart n1, and pause $own: $(fmove status --json)"
start_again n2
fast 1
ok fmove wait "$id" "$own"
same big "$(store 2)/stop"
same f "$(store 2)/waits_with_file"
slow 1
# With a hole, for which the first try searches: the second sends all of it all the same.
cp big holes
fallocate --punch-hole --offset 65536 --length 65536 holes || bad "no hole can be made"
fmove put --retry ${HANG_S}s holes n2:s/retry >fg.out 2>fg.err &
fg=$!
moved retry 0
crash n2
start_again n2
fast 1
wait $fg || bad "put --retry: $(cat fg.err)"
same holes "$(store 2)/retry"
# Nobody comes back: it is tried for as long as was asked, not only as long as the next step fits into that; and it says so.
crash n2
from=$SECONDS
no 4 'gave up after ([89]|[0-9]{2,})\.[0-9] s without progress, [0-9]+ tries: ' fmove put --retry 8s f n2:s/nobody
[ $((SECONDS - from)) -ge 7 ] || bad "put --retry 8s ended after $((SECONDS - from)) s"
start_again n2
reachable 2
# A peer that is back is not waited for: jobs are told of it. How soon they are tried then: unit.queue.
waits_long() {
	local again

	again=$(fmove jobs --json | sed -n "s/.*\"job\":\"$1\".*\"again_ms\":\([0-9]*\).*/\1/p")
	[ "${again:-0}" -ge 3000 ]
}
is_told() {
	grep -q 'n2 is back: 1 waiting job is tried at once' "$dir/c/n1/log"
}
told_or_done() {
	is_told || is_in done "$id"
}
# Where n2 takes long to come back, the next try of its own may be the first to find it.
for ((tries = 0; tries < 10; tries++)); do
	crash n2
	detach put -f n1:s/f n2:s/back
	await waits_long "$id" || bad "$id does not wait long: $(fmove jobs)"
	start_again n2
	await told_or_done || bad "$id goes on for nothing: $(fmove jobs)"
	ok fmove wait "$id"
	! is_told || break
done
is_told || bad "no job was told that n2 is back"
same f "$(store 2)/back"

# ---- mistakes

no 1 'no job abcdefgh' fmove wait abcdefgh
no 1 'no job abcdefgh' fmove cancel abcdefgh
no 1 'no job abcdefgh' fmove resume abcdefgh
no 1 'no id of a job' fmove cancel abcdefghi
no 1 'id of a job' fmove wait ''
no 1 'no such file' fmove put --detach n1:s/nothing n2:s/x
no 1 'no such file.*n3 is another node' fmove put --detach n3:s/nothing n2:s/x
no 1 'no node n9' fmove put --detach f n9:s/x
no 1 'leave out --detach' fmove put --detach - n2:s/x
no 2 'low, normal or high' fmove put --priority urgent f n2:s/x
no 2 '\-\-retry' fmove put --retry never f n2:s/x
no 2 'leave out --detach' fmove put -r --dry-run --detach "$PWD" n2:s/x
no 2 'leave out --detach; fmove cancel --keep-partial' fmove put --keep-partial --detach f n2:s/x
no 2 'leave out --detach; fmove cancel --keep-partial' fmove get --keep-partial --detach n2:s/own x
no 2 'too few' fmove cancel
no 2 'for one job' fmove resume --file f abcdefgh abcdefgh
fmove cancel --json abcdefgh >out 2>err
grep -q '"job":"abcdefgh","exit":1,"error":{"code":"ENOENT"' out || bad "cancel --json: $(cat out)"

# A torn file costs its job, and nothing else.
detach put --limit 100kB/s n1:s/big n2:s/torn
torn=$id
moving "$torn"
detach put n1:s/f n2:s/whole
whole=$id
crash n1
head -c 100 "$dir/c/n1/state/jobs/$torn.json" >cut && cp cut "$dir/c/n1/state/jobs/$torn.json"
start_again n1
ok fmove wait "$whole"
no 1 "no job $torn" fmove wait "$torn"
[ -e "$dir/c/n1/state/jobs/$torn.json.bad" ] || bad "the torn file is gone: $(ls "$dir/c/n1/state/jobs")"
is_logged "job $torn: .*$torn.json.bad" "$dir/c/n1/log" || bad "nobody was told of the torn file"

# Without a directory for them there are no detached jobs, and all else is as ever.
use 2
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
rm -rf "$dir/c/n2/state"
: >"$dir/c/n2/state"
start_again n2
no 1 'keeps no jobs' fmove put --detach f n1:s/x
ok fmove put f n1:s/x
use 1

# ---- whose jobs they are

[ "$(id -u)" -eq 0 ] && id nobody >/dev/null 2>&1 || { echo "not as root: other users are not tried"; exit; }
as() {
	user=$1
	shift
	setpriv --reuid "$user" --regid "$(id -gn nobody)" --clear-groups "$@"
}
chmod 755 "$dir/c" "$dir/c/n1" "$dir/w"
: >out && : >err && chmod 666 out err
cp big theirs && chown nobody theirs && chmod 600 theirs
ok as nobody fmove put --limit 100kB/s --detach theirs n2:s/theirs
theirs=$(cat out)
[ -z "$(as daemon fmove jobs -q)" ] || bad "another user sees: $(as daemon fmove jobs)"
no 1 "no job $theirs" as daemon fmove cancel "$theirs"
no 1 "no job $theirs" as daemon fmove wait "$theirs"
no 6 'for root' as daemon fmove jobs --all
fmove jobs --all --json | grep -q "\"job\":\"$theirs\",\"user\":$(id -u nobody)" || bad "root does not see: $(fmove jobs --all)"
fmove jobs -q | grep -q "$theirs" && bad "root sees the jobs of others unasked"
crash n1
start_again n1
chmod 666 "$dir/c/n1/fmoved.sock"
no 1 "no job $theirs" as daemon fmove resume "$theirs"
# Root would open it as root: by now it may be a link to what nobody may not read.
mv theirs kept && printf secret >secret && chmod 600 secret && ln -s "$PWD/secret" theirs
no 6 "sudo -u '#$(id -u nobody)' fmove resume $theirs" fmove resume "$theirs"
no 6 "sudo -u '#$(id -u nobody)' fmove resume $theirs" fmove resume --file secret "$theirs"
mv kept theirs
ok as nobody fmove resume "$theirs"
ok fmove cancel "$theirs"
no 130 cancelled as nobody fmove wait "$theirs"
mkdir their-place && chown nobody their-place && chmod 700 their-place
ok as nobody fmove get --detach n2:s/several/big their-place/big
ok as nobody fmove wait "$(cat out)"
same big their-place/big
[ "$(stat -c %u their-place/big)" = "$(id -u nobody)" ] || bad "what they received is of user $(stat -c %u their-place/big)"
