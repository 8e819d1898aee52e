#!/bin/bash
# Goal:   the ranges of one request come over all rails.
# Method: two nodes with two wires, over TCP; by the daemon's counters each wire carries a part of what was asked for.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns_lib.sh"
netns_begin gr 'netns_down 1 2' 1 2
netns_pair 10.85 </dev/null

# carried: what each wire has brought to n1, the less first.
carried() {
	fmove --socket "$dir/n1/sock" status --json | grep -o '"received_bytes":[0-9]*' | cut -d : -f 2 | sort -n | xargs
}

random 40000000 f
ok fmove --socket "$dir/n1/sock" put f n2:s/f
# 512 of 64 KiB, from the end to the begin.
for ((i = 511; i >= 0; i--)); do
	echo "$((i * 70000)) 65536"
done >ranges
ok fmove --socket "$dir/n1/sock" get --ranges-from ranges n2:s/f got
[ "$(stat -c %s got)" -eq $((512 * 65536)) ] || bad "$(stat -c %s got) bytes came"
read -r less more <<<"$(carried)"
[ "$less" -gt 1000000 ] && [ $((less + more)) -ge $((512 * 65536)) ] || bad "the wires brought $less and $more bytes"
tail -c 65536 got | cmp - <(head -c 65536 f) || bad "the last range is another one"
