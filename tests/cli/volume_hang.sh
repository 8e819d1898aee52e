#!/bin/bash
# Goal:   a volume whose file system does not answer when its store is opened keeps no other store on a volume from coming, nor the daemon from
#         answering; and it is opened once, not again and again, but when it was mounted anew. What cannot be opened is said once for each store.
# Method: a node with two stores on volumes; what fmove-nvmed would say is written by hand. One of them is on a file system that stops answering
#         (hang_fs, FUSE) before its volume is said to be mounted; the other one is said to be later.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hung_store_lib.sh"
device=$(stat -c %d "$hung")

volume() {
	echo "{ name = \"$1\"; subsystem = \"$1\"; address = \"127.0.0.1:1\"; mode = \"shared-read\"; writer = \"n1\"; mount = \"$2\"; }"
}
export FM_CLUSTER_CONF="nvme = { socket = \"@NODE@/nvmed/sock\"; };
volumes = ( $(volume hung "$hung"), $(volume data @NODE@/s), $(volume bad1 @NODE@/bad1), $(volume bad2 @NODE@/bad2) );"
export FM_CLUSTER_STORE='volume = "data";'
up 1
trap 'status=$?; end_fs; (exit $status); down' EXIT
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
bad=$(for i in 1 2; do echo -n "{ name = \"bad$i\"; directory = \"$dir/c/n1/bad$i\"; volume = \"bad$i\"; }, "; done)
sed -i "s|stores = ( {|stores = ( { name = \"hung\"; directory = \"$hung\"; volume = \"hung\"; }, $bad{|" "$dir/c/n1/fmove.conf"
mkdir "$dir/c/n1/nvmed" "$dir/c/n1/bad1" "$dir/c/n1/bad2"

# says NAME DEVICE ...: the volumes that are mounted.
says() {
	local to=$dir/c/n1/nvmed/volumes.json text=

	while [ $# -gt 0 ]; do
		text="$text${text:+,}{\"name\":\"$1\",\"subsystem\":\"$1\",\"wwid\":\"uuid.$1\",\"writer\":\"n1\",\"mounted\":true,\"read_write\":false,\
\"sealed\":false,\"epoch\":0,\"device\":$2,\"mounted_epoch\":0,\"written_by\":\"\"}"
		shift 2
	done
	echo "{\"volumes\":[$text]}" >"$to.new"
	mv "$to.new" "$to"
}

start_again n1
kill -USR1 "$fs_pid"
says hung "$device"
# A worker opens it, and waits.
hangs() {
	cat "/proc/$(cat "$dir/c/n1/pid")"/task/*/wchan 2>/dev/null | grep -aq 'fuse\|request_wait'
}
await hangs || bad "nobody waits for the file system"
says hung "$device" data "$(stat -c %d "$(store 1)")" bad1 1 bad2 1
await fmove ls n1:s || bad "a store that hangs keeps another one from coming: $(tail -n 3 "$dir/c/n1/log")"
no 1 'store hung is on volume hung, which is not mounted' fmove ls n1:hung
both_are_said() { [ "$(grep -c 'is not the volume "bad[12]"' "$dir/c/n1/log")" -ge 2 ]; }
await both_are_said || bad "two that cannot be opened are not said: $(cat "$dir/c/n1/log")"
sleep 1.2	# more than two looks, after which neither is said again
openings() { cat "/proc/$(cat "$dir/c/n1/pid")"/task/*/wchan | grep -ao 'request_wait_answer' | wc -l; }
[ "$(openings)" -le 1 ] || bad "it is opened again while it hangs"
[ "$(grep -c 'is not the volume "bad[12]"' "$dir/c/n1/log")" -eq 2 ] || bad "of two that cannot be opened: $(cat "$dir/c/n1/log")"
opened_again() { [ "$(openings)" -eq 2 ]; }
says hung $((device + 1))
await opened_again || bad "what was mounted anew is not opened while the earlier opening hangs"
end_fs
exit
