#!/bin/bash
# Goal:   on a full disk what is READY is staged again; what is not has datasets go that nobody needs, or is told what makes room.
# Method: the cache lies on a small tmpfs, which a file of somebody else fills.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "40MiB"; grace = "0s"; peers = [ "*" ]; };'
[ "$(id -u)" -eq 0 ] || skip "needs root to mount"
up 2
mkdir "$(store 2)/set1" "$(store 2)/set2" "$(store 2)/set3" "$(store 1)/own1"
random 1000000 "$(store 2)/set1/f"
random 3000000 "$(store 2)/set2/f"
random 1000000 "$(store 2)/set3/f"
random 1000000 "$(store 2)/file"
random 1000000 "$(store 2)/file2"
mkdir "$(store 2)/set4"
random 1000000 "$(store 2)/set4/f"
random 1000000 "$(store 1)/own1/f"
truncate -s 60M "$(store 2)/large"

"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
cache=$dir/c/n1/cache
mkdir -p "$cache"
mount -t tmpfs -o size=24m,mode=711 none "$cache" || skip "nothing can be mounted"
trap 'umount -l "$cache" 2>/dev/null; down' EXIT
start_again n1
reachable 2

# Fills the file system, as others may, beside set2, which can go: for the file of a hold.
is_filled() {
	# What a daemon removes meanwhile is room again.
	dd if=/dev/zero bs=64k >>"$cache/others" 2>/dev/null
	[ "$(df --output=avail "$cache" | tail -1)" -eq 0 ]
}
fill() {
	rm -f "$cache/others"
	ok fmove stage n2:s/set2 -- true
	await is_filled || bad "it is not full: $(df "$cache")"
}

for what in n2:s/set1 n2:s/file n1:s/own1; do
	ok fmove stage --pin "$what" -- true
done
for what in n2:s/set1 n2:s/file n1:s/own1; do
	fill
	ok fmove stage "$what" -- true
done
fill
ok fmove stage --nodes n1 n2:s/set1

# What may go goes for what has room then, and for nothing else.
fill
no 1 'no room for large: .*; this makes room: unpin (.*), remove other files from its file system' fmove stage n2:s/large -- true
fmove datasets >out
grep -q '^ready .* set2 ' out || bad "set2 went for what has no room: $(cat out)"
ok fmove stage n2:s/set3 -- true
fmove datasets | grep -q ' set2 ' && bad "nothing went for set3"

# The draft of a manifest has no room at first, and then it has.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
rm "$cache/others"
for what in n2:s/file2 n2:s/set4; do
	FMOVE_FAULT=stage.write:1 start_again n1
	reachable 2
	ok fmove stage "$what" -- true
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
done
start_again n1
reachable 2

# With other nodes, too, nothing goes for a draft whose dataset has no room.
fill
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
FMOVE_FAULT=stage.write:1 start_again n1
reachable 2
no 1 'no room for large: .*; this makes room: unpin (.*), remove other files from its file system' fmove stage --nodes n1,n2 n2:s/large -- true
fmove datasets >out
grep -q '^ready .* set2 ' out || bad "set2 went for the draft of what has no room: $(cat out)"
exit
