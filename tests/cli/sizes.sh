#!/bin/bash
# Goal:   files of every awkward size arrive whole, in both directions, with mode and time, and are what they say they are.
# Method: sizes around sectors, pages, and the chunks of 64 KiB and 1 MiB that clusters are set up with; put, then get back.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF='# memory: the default'
up 2

for size in 0 1 511 4095 4096 4097 65535 65536 65537 1048575 1048576 1048577 $((5 * 1048576 + 13)); do
	random $size "f$size"
	chmod 0640 "f$size"
	touch -d '2001-02-03 04:05:06.789' "f$size"
	ok fmove put --json "f$size" "n2:s/dir/f$size" && cp out put.json
	same "f$size" "$(store 2)/dir/f$size"
	ok fmove get --json "n2:s/dir/f$size" "back$size" && cp out get.json
	same "f$size" "back$size"
	[ "$(stat -c '%a %y %s' "f$size")" = "$(stat -c '%a %y %s' "$(store 2)/dir/f$size")" ] || bad "$size: mode or time there"
	[ "$(stat -c '%a %y %s' "f$size")" = "$(stat -c '%a %y %s' "back$size")" ] || bad "$size: mode or time here"
	for key in crc32c bytes mode mtime_ns; do
		[ -n "$(json $key put.json)" ] || bad "$size: no $key"
		[ "$(json $key put.json)" = "$(json $key get.json)" ] || bad "$size: $key of put and get differ"
	done
	[ "$(json bytes put.json)" = $size ] || bad "$size: bytes is $(json bytes put.json)"
	[ "$(json durable put.json)" = true ] || bad "$size: not durable"
done

# The check value of CRC32C, which every implementation gives for these nine bytes.
printf 123456789 >nine
ok fmove put --json nine n2:s/nine
[ "$(json crc32c out)" = e3069283 ] || bad "CRC32C is $(json crc32c out)"

# says_rate: a rate with a unit that it is not 0 of.
says_rate() {
	grep -Eq ' s, ([1-9][0-9]*|[1-9][0-9]*\.[0-9]+) [kMG]?B/s, ' err || bad "the rate of a small transfer: $(cat err)"
}

# The other way round: n2 sends.
use 2
random 3000013 other
ok fmove put other n1:s/other
says_rate
same other "$(store 1)/other"
ok fmove get n1:s/other other2
same other other2
mkdir tree && echo >tree/f
ok fmove put -r tree n1:s/tree
says_rate

# Holes stay holes.
use 1
truncate -s 64M holes
printf x | dd of=holes bs=1 seek=$((32 << 20)) conv=notrunc status=none
ok fmove put --json holes n2:s/holes
same holes "$(store 2)/holes"
[ "$(stat -c %b "$(store 2)/holes")" -lt 4096 ] || bad "the holes were filled: $(stat -c %b "$(store 2)/holes") blocks"
[ "$(json data_bytes out)" -lt 1048577 ] || bad "data_bytes of a file with holes is $(json data_bytes out)"
no_partials
