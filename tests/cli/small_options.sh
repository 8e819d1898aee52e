#!/bin/bash
# Goal:   options that other tools have do here what they do there: rm -f, -V, ls -0, times and rates
#         as systemd and rsync read them.
# Method: each on a real cluster, and what it must not let pass.
. "$(dirname "$0")/lib.sh"
up 2

echo 1 >f
ok fmove put f n2:s/f
no 3 'no such file' fmove rm n2:s/f n2:s/none
ok fmove rm -f n2:s/none
ok fmove put f n2:s/f
ok fmove rm -f --json n2:s/none n2:s/f n2:s/none/too
! grep -q '"exit":[1-9]' out || bad "rm -f of what is not there: $(cat out)"
[ -e "$(store 2)/f" ] && bad "rm -f leaves what is there"
mkdir "$(store 2)/dir"
no 2 'is a directory' fmove rm -f n2:s/dir
no 1 'no store' fmove rm -f n2:none/f

ok fmove -V
[ "$(cat out)" = "$(fmove --version)" ] || bad "-V: $(cat out)"

touch "$(store 2)/one"$'\n'"name"
printf 'one\nname\0dir/\0' | sort -z >want
ok fmove ls -0 n2:s
sort -z out >got
cmp want got || bad "ls -0: $(tr '\0' '!' <out)"
no 2 'long' fmove ls -0 -l n2:s

for time in 300 5m 5min 300s; do
	ok fmove put --timeout $time f n2:s/t$time
done
for rate in 100M/s 100MB/s 1G/s 800Mbit/s; do
	ok fmove put --limit $rate f "n2:s/r${rate%/s}"
done
no 2 'timeout' fmove put --timeout 5x f n2:s/x
no 2 'limit' fmove put --limit 100 f n2:s/x
