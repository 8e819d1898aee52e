#!/bin/bash
# Goal:   what interrupted transfers left is listed with its final name, by who may read the store, and goes after the time that the
#         configuration says; what a transfer works on stays.
# Method: two puts and a get that are killed when their journal has something; a store whose time is a second.
. "$(dirname "$0")/lib.sh"
up 2
random 50000000 big

# interrupted COMMAND...: killed once a journal in DIR has something.
interrupted() {
	where=$1
	shift
	before=$(find "$where" -name '.fmove.*.journal' -size +0 | wc -l)
	"$@" >out 2>err &
	pid=$!
	for _ in $(seq 200); do
		[ "$(find "$where" -name '.fmove.*.journal' -size +0 | wc -l)" -gt "$before" ] && break
		kill -0 $pid 2>/dev/null || break
		sleep 0.1
	done
	kill -KILL $pid || bad "$* was not to end: $(cat err)"
	wait $pid 2>/dev/null
}

no_jobs() {
	for _ in $(seq 100); do
		fmove --socket "$dir/c/n2/fmoved.sock" status --json | grep -q '"jobs":\[\]' && return
		sleep 0.1
	done
	bad "transfers go on"
}

ok fmove ls --partial n2:s
[ -s out ] && bad "an empty store has unfinished transfers: $(cat out)"
ok fmove put big n2:s/d/whole
interrupted "$(store 2)" fmove put --limit 8MB/s big n2:s/d/one
interrupted "$(store 2)" fmove put --limit 8MB/s big "n2:s/d/two words"
interrupted . fmove get --limit 8MB/s n2:s/d/whole got
no_jobs

ok fmove ls n2:s/d
[ "$(cat out)" = whole ] || bad "unfinished files are listed as if they were there: $(cat out)"
ok fmove ls --partial n2:s/d
[ "$(wc -l <out)" -eq 2 ] || bad "not two unfinished transfers: $(cat out)"
grep -Eq '^ *[0-9]+ of +50000000 +[0-9]+ % .* one$' out || bad "one is not there: $(cat out)"
grep -q 'two words$' out || bad "two is not there: $(cat out)"
ok fmove ls --partial --json n2:s/d
grep -q '"name":"one","type":"file","size":[1-9][0-9]*,.*"whole":50000000' out || bad "the JSON lacks something: $(cat out)"
ok fmove ls --partial --json --after one n2:s/d
[ "$(grep -o '"name"' out | wc -l)" -eq 1 ] || bad "--after is not understood: $(cat out)"
ok fmove ls --partial n2:s
[ -s out ] && bad "they are not of this directory: $(cat out)"
no 1 'no such' fmove ls --partial n2:s/none
use 2
ok fmove ls --partial n2:s/d
[ "$(wc -l <out)" -eq 2 ] || bad "n2 itself does not see two: $(cat out)"
use 1

# Removing them is removing the files; the next list is shorter.
ok fmove put big n2:s/d/one
ok fmove ls --partial n2:s/d
[ "$(wc -l <out)" -eq 1 ] || bad "one is done and still listed: $(cat out)"

# reload: n2 takes over its configuration, and so looks at the store.
reload() {
	lines=$(wc -l <"$dir/c/n2/log")
	kill -HUP "$(cat "$dir/c/n2/pid")"
	for _ in $(seq 200); do
		tail -n +$((lines + 1)) "$dir/c/n2/log" | grep -q 'reloaded' && return
		sleep 0.05
	done
	bad "n2 does not reload: $(tail -n 3 "$dir/c/n2/log")"
}

# A transfer under way when the sweep comes, of which something is written down already, and what the killed one left.
fmove put --limit 8MB/s big n2:s/busy >busy.out 2>busy.err &
busy=$!
for _ in $(seq 200); do
	[ -n "$(find "$(store 2)" -maxdepth 1 -name '.fmove.*.journal' -size +0)" ] && break
	sleep 0.1
done
sleep 1.1
sed -i "s,directory = .*/s\";,& partial_keep = \"1s\";," "$dir/c/n2/fmove.conf"
grep -q partial_keep "$dir/c/n2/fmove.conf" || bad "the configuration was not changed"
reload
for _ in $(seq 200); do
	[ -n "$(find "$(store 2)/d" -name '.fmove*')" ] || break
	sleep 0.1
done
ok fmove ls --partial n2:s/d
[ -s out ] && bad "it was not swept: $(cat out)"
[ -z "$(find "$(store 2)/d" -name '.fmove*')" ] || bad "the sweep left $(find "$(store 2)/d" -name '.fmove*')"
wait $busy || bad "a transfer under way was swept: $(cat busy.err)"
same big "$(store 2)/busy"
same big "$(store 2)/d/whole"
same big "$(store 2)/d/one"

# What lies beside a caller's own file is the caller's: it is still there, and of use.
ok fmove get --json n2:s/d/whole got
[ "$(json resumed_bytes out)" -gt 0 ] || bad "the get began afresh: $(cat out)"
same big got
no_partials
