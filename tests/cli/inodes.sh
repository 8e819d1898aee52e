#!/bin/bash
# Goal:   where the file system of the cache, or of the job queue, has room and no inodes left, that is said.
# Method: a tmpfs in the place of each, with one inode more at each try until there are enough.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "20MiB"; grace = "0s"; };'
[ "$(id -u)" -eq 0 ] || skip "needs root to mount"
up 2
mkdir "$(store 2)/set"
random 300000 "$(store 2)/set/f"
random 300000 "$(store 1)/file"

"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
cache=$dir/c/n1/cache state=$dir/c/n1/state
mkdir -p "$cache" "$state"
mount -t tmpfs -o size=60m,nr_inodes=100,mode=711 none "$cache" || skip "nothing can be mounted"
trap 'umount -l "$cache" "$state" 2>/dev/null; down' EXIT
mount -t tmpfs -o size=20m,nr_inodes=100,mode=700 none "$state" || bad "no second file system"
start_again n1
reachable 2

# inodes N DIRECTORY: so many more than there are can be made.
inodes() {
	mount -o "remount,nr_inodes=$(($(df --output=iused "$2" | tail -1) + $1))" "$2" || bad "$2 is not mounted anew"
}

refused=0
for more in $(seq 0 30); do
	inodes "$more" "$cache"
	fmove stage n2:s/set -- true >out 2>err && break
	grep -q 'inodes' err || bad "with $more: $(cat err)"
	refused=$((refused + 1))
done
[ $refused -gt 3 ] && [ "$more" -lt 30 ] || bad "of 30 tries $refused were refused"
ok fmove datasets check set

inodes 0 "$state"
no 1 'write down job .* in node.state_directory: no inodes left' fmove put --detach n1:s/file n2:s/file
