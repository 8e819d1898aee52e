#!/bin/bash
# Goal:   what comes into a store in memory (tmpfs), or to a caller there, is whole: a file, a large file
#         of a directory, one of an odd length. It comes through mappings, or through none where the file
#         has holes, is small, or was opened for writing only.
# Method: two nodes whose stores are on /dev/shm; their logs say how many bytes went which way.
. "$(dirname "$0")/lib.sh"
[ "$(stat -f -c %T /dev/shm)" = tmpfs ] || skip "/dev/shm is no tmpfs"
[ "$(df --output=avail -B1M /dev/shm | tail -n 1)" -gt 1000 ] || skip "no room in /dev/shm"
export TMPDIR=/dev/shm
export FM_CLUSTER_CONF='mover = { lanes = 8; };'	# fewer map nothing
export FM_CLUSTER_ARGS="--log-level debug"

# mapped I BYTES: the log of nI says so many times, from here on, that so many bytes came that way.
mapped() {
	grep -c "$2 of $2 bytes of a file in memory were written through mappings" "$dir/c/n$1/log"
}

# was_mapped COUNT I BYTES
was_mapped() {
	await are_mapped "$@" || bad "$3 bytes at n$2: $(mapped "$2" "$3") times through mappings, not $1"
}

are_mapped() {
	[ "$(mapped "$2" "$3")" -eq "$1" ]
}

size=70000001			# two windows, and an odd length

up 2
random $size f
fmove put -q f n2:s/f || bad "put"
same f "$(store 2)/f"
was_mapped 1 2 $size
fmove get -q n2:s/f got || bad "get"
same f got
was_mapped 1 1 $size

mkdir tree
cp f tree/large
random 1000 tree/small
fmove put -q -r tree n2:s/tree || bad "put -r"
same f "$(store 2)/tree/large"
same tree/small "$(store 2)/tree/small"
was_mapped 2 2 $size

fmove get -q n2:s/f - >written || bad "get to a descriptor"
same f written
was_mapped 1 1 $size

truncate -s 100M holes
printf x | dd of=holes bs=1 seek=50000000 conv=notrunc status=none
fmove put -q holes n2:s/holes || bad "put of a file with holes"
same holes "$(store 2)/holes"
[ "$(du -k "$(store 2)/holes" | cut -f 1)" -lt 10000 ] || bad "the holes are filled"
