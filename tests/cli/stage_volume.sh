#!/bin/bash
# Goal:   a store on a volume is there while the volume is mounted; sealed, it is one source at all nodes that have mounted this seal, and a
#         copy that is here is it for ever; one that another node writes to is no source, but with --live. A reload may move it from there.
# Method: two real daemons whose stores are one directory; what fmove-nvmed would say of it is written by hand (that it says so:
#         unit.supervisor). The source changes under a seal, which no node could do: who does not see that has not looked.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
. "$(dirname "$0")/stage_lib.sh"
export FM_CLUSTER_CONF='staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };
nvme = { socket = "@NODE@/nvmed/sock"; };
volumes = ( { name = "data"; subsystem = "disk1"; address = "127.0.0.1:1"; mode = "shared-read"; writer = "n1";
mount = "@NODE@/s"; } );'
export FM_CLUSTER_STORE='volume = "data";'
up 2
mkdir "$dir/c/n1/nvmed" "$dir/c/n2/nvmed"

# says I DEVICE SEAL WRITER: what fmove-nvmed of nI says of the volume.
says() {
	local to=$dir/c/n$1/nvmed/volumes.json

	echo "{\"volumes\":[{\"name\":\"data\",\"subsystem\":\"disk1\",\"wwid\":\"uuid.test\",\"writer\":\"n1\",\"mounted\":true,\"read_write\":false,\
\"sealed\":false,\"epoch\":$3,\"device\":$2,\"mounted_epoch\":$3,\"written_by\":\"$4\"}]}" >"$to.new"
	mv "$to.new" "$to"
}

has_store() {
	at "$1" ls n1:s >out 2>err
}

has_none() {
	! has_store "$1"
}

# Not mounted yet: who can wait does, and hears why.
no 1 'store s is on volume data, which is not mounted at n1: fmove nvme status data' fmove stage s/set
random 1000 f
use 2
job=$(fmove put --detach f n1:s/waited) || bad "put --detach is refused"
waits() {
	fmove jobs --json | grep -q 'is on volume data, which is not mounted at n1'
}
await waits || bad "it does not wait for the volume: $(fmove jobs --json)"
use 1
mkdir "$(store 1)/set"
random 3000000 "$(store 1)/set/kept"
random 1000000 "$(store 1)/set/changed"
device=$(stat -c %d "$(store 1)")

# Something else is at the mount point than what is said to be mounted.
says 1 $((device + 1)) 0 ""
is_logged 'is not the volume "data"' "$dir/c/n1/log" || bad "another directory is taken for the volume"
has_none 1 || bad "the store is another directory"

# Mounted, and not sealed: as any source.
says 1 "$device" 0 ""
await has_store 1 || bad "the store does not come: $(cat err)"
at 2 wait "$job" >out 2>err && cmp f "$(store 1)/waited" || bad "what waited for the volume: $(cat out err)"
first=$(fmove stage s/set 2>err) || bad "not sealed: $(cat err)"
[ "$(fmove stage s/set 2>err)" = "$first" ] && grep -q 'n1:s/set.* here and unchanged' err || bad "not sealed, again: $(cat err)"

# Without the volume n1 does not know whom the store lets read: what both have is no answer to who asks for it on both. n2 may have said that it has it
# before it hears so.
at 2 stage n1:s/set >out 2>err || bad "n2: $(cat err)"
says 1 0 0 ""
await has_none 1 || bad "the store stays without its volume: $(cat out)"
at 2 stage --check none --nodes n1,n2 n1:s/set >out 2>err && bad "whom n1 lets read it is not known, and n2 has it: $(cat err)"
away='n[12]: failed: .*on a volume that is not mounted: who may read it is not known'
grep -q "$away" err || bad "n1 without the volume: $(cat err)"
at 1 stage --check none --nodes n1,n2 n1:s/set >out 2>err && bad "asked at n1: $(cat err)"
grep -q "$away" err && ! grep -q 'may not read' err || bad "asked at n1: $(cat err)"
! grep 'may not read' "$dir/c/n2/log" || bad "n2 is told that n1 says whom it lets read"
says 1 "$device" 0 ""
await has_store 1 || bad "the store does not come again: $(cat err)"

# Another node writes to it.
says 1 "$device" 0 n2
is_logged 'and read-write at n2' "$dir/c/n1/log" || bad "it is not known that n2 writes"
no 1 'n2 has its volume mounted read-write' fmove stage s/set
use 2
no 1 'n2 has its volume mounted read-write' fmove stage n1:s/set
use 1
fmove stage --live s/set >out 2>err || bad "live: $(cat err)"
[ "$(cat out)" = "$first" ] || bad "live: $(cat out err)"

# Sealed, and mounted so at both nodes: one source, read once.
says 2 "$device" 3 ""
sed -i "s|\"$dir/c/n2/s\"|\"$(store 1)\"|" "$dir/c/n2/fmove.conf"
take_over 2
says 1 "$device" 3 ""
for i in 1 2; do
	is_logged 'sealed as uuid.test@3' "$dir/c/n$i/log" || bad "n$i does not know of the seal"
	before[i]=$(read_of $i)
done
rm -r "$(store 1)/set"
mkdir "$(store 1)/set"
random 3000000 "$(store 1)/set/kept"
random 1000000 "$(store 1)/set/changed"
settled fmove stage --nodes n1,n2 --json s/set || bad "two nodes: $(cat err)"
sum=$(($(read_of 1) - before[1] + $(read_of 2) - before[2]))
[ "$sum" -ge 4000000 ] && [ "$sum" -lt 8000000 ] || bad "two nodes: $sum bytes were read of 4000000"
sealed=$(path_of 1 out) second=$(path_of 2 out)
is_copy set "$sealed"
is_copy set "$second"
at 2 datasets --json >out
grep -q '"source":"shared uuid.test@3/set"' out || bad "its source: $(cat out)"

# Nobody looks at it again, at any node and by any name.
random 1000000 "$(store 1)/set/changed"
[ "$(fmove stage s/set 2>err)" = "$sealed" ] && grep -q 'here, and its volume sealed since' err || bad "sealed, again: $(cat err)"
fmove stage --json s/set >out 2>err
grep -q '"fetched":false,"check":"seal"' out || bad "sealed, again: $(cat out err)"
[ "$(at 2 stage n1:s/set 2>err)" = "$second" ] && grep -q 'here, and its volume sealed since' err || bad "sealed, at n2: $(cat err)"

settled fmove stage --nodes n1,n2 --json s/set || bad "sealed, on two nodes again: $(cat out err)"
[ "$(path_of 1 out) $(path_of 2 out) $(json source_bytes out)" = "$sealed $second 0" ] || bad "sealed, on two nodes again: $(cat out err)"
settled at 2 stage --nodes n1,n2 --json n1:s/set || bad "sealed, on two nodes by n2: $(cat out err)"
[ "$(path_of 1 out) $(path_of 2 out) $(json source_bytes out)" = "$sealed $second 0" ] || bad "sealed, on two nodes by n2: $(cat out err)"

# The next seal is another source.
says 1 "$device" 4 ""
is_logged 'sealed as uuid.test@4' "$dir/c/n1/log" || bad "n1 does not know of the next seal"
fmove stage s/set >out 2>err && grep -q 'fetched as' err || bad "the next seal: $(cat err)"
is_copy set "$(cat out)"
[ "$(cat out)" != "$sealed" ] || bad "the next seal: the copy of the last one"

# It is about to be unmounted: nothing of it is open.
says 1 0 4 ""
await has_none 1 || bad "the store stays: $(cat out)"
is_open() {
	find "/proc/$(cat "$dir/c/n1/pid")/fd" \( -lname "$(store 1)" -o -lname "$(store 1)/*" \) 2>/dev/null | grep -q .
}
is_closed() {
	! is_open
}
await is_closed || bad "fmoved has it open: $(ls -l "/proc/$(cat "$dir/c/n1/pid")/fd")"

# A reload moves the store to a directory on no volume, and back: what was going to the former one is not done, since nobody looks for it there. Where it
# leads to the same one, that goes on.
conf=$dir/c/n1/fmove.conf
cp "$conf" on_volume
mkfifo more
begun() {
	exec {end}<>more
	fmove put - "n1:s/$1" <more >put.out 2>&1 {end}>&- &
	writer=$!
	is_logged "put of n1:s for n2 begins: $1\$" "$dir/c/n1/log" || bad "s/$1 does not begin: $(cat put.out)"
	echo data >&$end
}
# on DIRECTORY: it is there, on no volume. on_volume: as it was.
on() {
	sed "s|directory = \"$(store 1)\"|directory = \"$1\"|; s|volume = \"data\"; *||" on_volume >"$conf"
	take_over 1
}
on_volume() {
	cp on_volume "$conf"
	take_over 1
}
ends_left() {
	exec {end}>&-
	! wait $writer || bad "$1: it is done"
	grep -q 'its path leads to another directory' put.out || bad "$1: it is not told why: $(cat put.out)"
	[ ! -e "$(store 1)/$1" ] && [ ! -e "$dir/plain/$1" ] || bad "$1: what was refused is there"
}
is_there() {
	exec {end}>&-
	wait $writer || bad "$1: $(cat put.out)"
	[ -s "$(store 1)/$1" ] || bad "$1: it is not there"
}
mkdir "$dir/plain"
use 2
says 1 "$device" 0 ""
await has_store 1 || bad "the store does not come: $(cat err)"
begun from_volume
on "$dir/plain"
ends_left from_volume
begun to_volume
on_volume
ends_left to_volume
await has_store 1 || bad "the store does not come again: $(cat err)"
begun stays
on "$(store 1)"
is_there stays
begun stays_too
on_volume
is_there stays_too
on "$(store 1)"
begun beneath
says 1 $((device + 1)) 0 ""
on_volume
ends_left beneath
exit
