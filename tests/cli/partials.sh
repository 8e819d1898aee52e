#!/bin/bash
# Goal:   what interrupted transfers left is listed with its final name, by who may read the store, and goes after the time that the
#         configuration says; what a transfer works on stays.
# Method: two puts and a get that are killed when their journal has something; a store whose time is a second.
. "$(dirname "$0")/lib.sh"
up 2
random 20000000 big
big=$dir/w/big

# interrupted DIR COMMAND...: killed once a journal in DIR, where there was none, has something.
interrupted() {
	where=$1
	shift
	"$@" >out 2>err &
	pid=$!
	journaled "$where"
	kill -KILL $pid || bad "$* was not to end: $(cat err)"
	wait $pid 2>/dev/null
}

ok fmove ls --partial n2:s
[ -s out ] && bad "an empty store has unfinished transfers: $(cat out)"
ok fmove put big n2:s/d/whole
# Two are killed when both journals have something.
two_puts() {
	fmove put --limit 500kB/s "$big" n2:s/d/one >out 2>err &
	pid1=$!
	fmove put --limit 500kB/s "$big" "n2:s/d/two words" >out2 2>err2 &
	pid2=$!
	await two_journals || bad "nothing was written down: $(cat err err2)"
	kill -KILL $pid1 $pid2 || bad "they were not to end: $(cat err err2)"
	wait $pid1 $pid2 2>/dev/null
}

two_journals() {
	[ "$(find "$(store 2)/d" -name '.fmove.*.journal' -size +0 | wc -l)" -eq 2 ]
}

aside two_puts
interrupted . fmove get --limit 500kB/s n2:s/d/whole got
together
idle

ok fmove ls n2:s/d
[ "$(cat out)" = whole ] || bad "unfinished files are listed as if they were there: $(cat out)"
ok fmove ls --partial n2:s/d
[ "$(wc -l <out)" -eq 2 ] || bad "not two unfinished transfers: $(cat out)"
grep -Eq '^ *[0-9]+ of +20000000 +[0-9]+ % .* one$' out || bad "one is not there: $(cat out)"
grep -q 'two words$' out || bad "two is not there: $(cat out)"
ok fmove ls --partial --json n2:s/d
grep -q '"name":"one","type":"file","size":[1-9][0-9]*,.*"whole":20000000' out || bad "the JSON lacks something: $(cat out)"
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

# A transfer under way when the sweep comes, of which something is written down already, and what the killed one left, more than a second ago.
slow 1
random 60000000 long
fmove put long n2:s/busy >busy.out 2>busy.err &
busy=$!
journaled "$(store 2)"
sleep 1.1
sed -i "s,directory = .*/s\";,& partial_keep = \"1s\";," "$dir/c/n2/fmove.conf"
grep -q partial_keep "$dir/c/n2/fmove.conf" || bad "the configuration was not changed"
take_over 2
swept() {
	[ -z "$(find "$(store 2)/d" -name '.fmove*')" ]
}
await swept
ok fmove ls --partial n2:s/d
[ -s out ] && bad "it was not swept: $(cat out)"
[ -z "$(find "$(store 2)/d" -name '.fmove*')" ] || bad "the sweep left $(find "$(store 2)/d" -name '.fmove*')"
kill -0 $busy 2>/dev/null || bad "there was no transfer under way: $(cat busy.err)"
fast 1
wait $busy || bad "a transfer under way was swept: $(cat busy.err)"
same long "$(store 2)/busy"
same big "$(store 2)/d/whole"
same big "$(store 2)/d/one"

# What lies beside a caller's own file is the caller's: it is still there, and of use.
ok fmove get --json n2:s/d/whole got
[ "$(json resumed_bytes out)" -gt 0 ] || bad "the get began afresh: $(cat out)"
same big got
no_partials
