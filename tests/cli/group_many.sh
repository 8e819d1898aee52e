#!/bin/bash
# Goal:   groups that are begun, put, committed and rotated away one after the other leave nothing behind: no memory, descriptors or names.
# Method: many of them, and a look at the daemon and its store when the first ones were through, and at the end. FM_ROUNDS=1000 is the figure.
. "$(dirname "$0")/lib.sh"
up 2
s=$(store 2)
random 4096 small
rounds=${FM_ROUNDS:-40}
[ "$rounds" -ge 40 ] || rounds=40

# look: what the daemon of n2 has: names in its store, KiB that they take, descriptors; and KiB of memory in `memory`.
look() {
	local pid

	pid=$(cat "$dir/c/n2/pid")
	memory=$(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status")
	echo "$(find "$s" | wc -l) $(du -s "$s" | cut -f1) $(find "/proc/$pid/fd" -type l | wc -l)" >looked
}

for i in $(seq "$rounds"); do
	id=$(fmove group begin --members 1 "n2:s/g/$i") || bad "begin $i"
	ok fmove put -q --group "$id" small "n2:s/g/$i/m"
	ok fmove group commit --latest last --keep-last 3 "$id" "n2:s/g/$i" 2>/dev/null
	[ "$i" -ne 20 ] || { look; read -r names kib fds <looked; first=$memory; }
done
look
read -r names_now kib_now fds_now <looked
[ "$names_now $kib_now" = "$names $kib" ] || bad "$names names and $kib KiB were $names_now and $kib_now after $rounds"
[ "$fds_now" -le $((fds + 2)) ] || bad "$fds descriptors were $fds_now"
# A sanitizer keeps what was freed, so its memory says nothing.
grep -qa __asan_init "$FMOVE_BIN/fmoved" || [ "$memory" -le $((first + 8192)) ] || bad "$first KiB of memory were $memory"
[ "$(readlink "$s/g/last")" = "$rounds" ] || bad "the last one is $(readlink "$s/g/last")"
