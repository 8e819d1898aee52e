#!/bin/bash
# Goal:   what nodes stage together, and single files, leave nothing in the page cache, at the source or here; --warm reads it into it, if it fits into what is
#         free, and says so if not.
# Method: real daemons on a disk; the pages of each file in memory are counted (mincore(2), by fincore), in the source's store and
#         in the cache. What is free is said by a file that is mounted over /proc/meminfo, for one process.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
command -v fincore >/dev/null || skip "needs fincore"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "300MiB"; grace = "0s"; peers = [ "*" ]; };'
up 2
case $(stat -f -c %T "$dir") in
tmpfs | ramfs) skip "files of this file system are in memory always" ;;
esac

# cached PATH: bytes of the files below it that are in memory.
cached() {
	find "$1" -type f -print0 | xargs -0 fincore -b -n -r -o RES | awk '{ sum += $1 } END { print sum + 0 }'
}

size() {
	find "$1" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum + 0 }'
}

# cold PATH: none of it is in memory any more.
cold() {
	sync -f "$1"
	find "$1" -type f -exec dd if={} iflag=nocache count=0 status=none \;
	[ "$(cached "$1")" -eq 0 ] || skip "this file system keeps what nobody wants: $(cached "$1") bytes"
}

# redraw PLACE: it is another version, of which nothing was staged before.
redraw() {
	local file

	find "$1" -type f >files
	while IFS= read -r file; do
		random "$(stat -c %s "$file")" "$file"
	done <files
}

# renew PLACE: another version, of which most was staged before.
renew() {
	random 100 "$1/other"
}

# leaves_nothing AGAIN SOURCE PLACE COMMAND...: staged, with not a page of it left, there or here. The kernel may keep pages that something else of it
# looks at in that moment, so what is left is staged once more: AGAIN makes another version of PLACE. What is never taken out is left each time.
leaves_nothing() {
	local again=$1 source=$2 place=$3 tries left copy

	shift 3
	for ((tries = 0; tries < 3; tries++)); do
		[ $tries = 0 ] || "$again" "$place"
		cold "$place"
		data=$("$@" "$source" 2>err) || bad "$source: $(cat err)"
		left=$(cached "$place") copy=$(cached "$data")
		[ "$((left + copy))" -ne 0 ] || return
	done
	[ "$left" -eq 0 ] || bad "$source: $left bytes of the source are in memory, of $(size "$place"): $(find "$place" -type f -print0 | xargs -0 fincore -n -r -o PAGES,FILE | grep -v '^0 ')"
	[ "$copy" -eq 0 ] || bad "$source: $copy bytes of the copy are in memory, of $(size "$data")"
}

for n in 1 2; do
	mkdir -p "$(store $n)/set$n/d"
	for i in $(seq 30); do random 50000 "$(store $n)/set$n/d/f$i"; done
	random 9000001 "$(store $n)/set$n/large"
	cp -a "$(store $n)/set$n" "$(store $n)/many$n"
	random 100 "$(store $n)/many$n/other"
	random 9000001 "$(store $n)/file$n"
done
leaves_nothing redraw n2:s/set2 "$(store 2)/set2" fmove stage
leaves_nothing redraw n2:s/file2 "$(store 2)/file2" fmove stage
leaves_nothing renew n2:s/many2 "$(store 2)/many2" fmove stage --nodes all
leaves_nothing redraw s/file1 "$(store 1)/file1" fmove stage
leaves_nothing redraw s/file1 "$(store 1)/file1" fmove stage --check content

# It is read into memory, all of it; what does not fit is not, and that is said.
data=$(fmove stage --warm n2:s/set2 2>err) && grep -q -- '--warm: .* read into memory' err || bad "warm: $(cat err)"
[ "$(cached "$data")" -ge "$(size "$data")" ] || bad "warm: $(cached "$data") of $(size "$data") bytes"
if [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
	echo 'MemAvailable: 300000 kB' >meminfo
	unshare -m sh -c 'mount --bind meminfo /proc/meminfo && exec fmove stage --warm --json n2:s/file2' >out 2>err
	grep -q '"warm":true' out || bad "9 MB do not fit into 38 MB: $(cat out err)"
	echo 'MemAvailable: 266000 kB' >meminfo
	unshare -m sh -c 'mount --bind meminfo /proc/meminfo && exec fmove stage --warm --json n2:s/file2' >out 2>err || bad "does not fit: $(cat err)"
	grep -q '"warm":false' out && grep -q 'none of it is read' err || bad "does not fit: $(cat out err)"
fi
exit
