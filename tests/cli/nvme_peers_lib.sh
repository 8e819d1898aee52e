# nvme_peers_lib.sh - two nodes, each with fmoved, and fmove-nvmed for a target that nobody has; sourced behind lib.sh. It asks the other
# node every few seconds, so that each thing that n1 is to hear takes its time: what can be is tried side by side.

[ "$(id -u)" -eq 0 ] || skip "fmove-nvmed must be root"
up 2
cd "$dir" || exit 1
nvmed=()
trap 'kill "${nvmed[@]}" 2>/dev/null; down' EXIT

# conf NODE MODE WRITER
conf() {
	cat <<-C
	node = { name = "$1"; socket = "$dir/c/$1/fmoved.sock"; state_directory = "null:"; };
	nvme = { host_nqn = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"; socket = "$dir/$1/sock";
		state_directory = "$dir/$1/state"; };
	volumes = ( { name = "data"; subsystem = "disk1"; address = "127.0.0.1:1"; mount = "$dir/$1/mnt"; mode = "$2"; writer = "$3"; } );
	C
}

# begin NODE: its fmove-nvmed.
begin() {
	fmove-nvmed --config "$1.conf" >>"$1.log" 2>&1 &
	nvmed+=($!)
}

# says WORDS: n1's status, in the end.
says() {
	await does_say "$1" || bad "status does not say \"$1\": $(cat out err n1.log)"
}

does_say() {
	fmove nvme status data --socket "$dir/n1/sock" >out 2>err && grep -Eq "$1" out
}

# tells TEXT: what n2 says, whole.
tells() {
	echo "$1" >n2/new
	mv n2/new n2/volumes.json
}

for node in n1 n2; do
	mkdir -p $node
	echo "nvme = { socket = \"$dir/$node/sock\"; };" >>"c/$node/fmove.conf"
	"$FM_SOURCE/tests/cluster" stop "$dir/c" $node || bad "$node does not stop"
	"$FM_SOURCE/tests/cluster" start "$dir/c" $node || bad "$node does not start"
done
conf n1 exclusive n1 >n1.conf

# end_all: each of them, as it should.
end_all() {
	kill -TERM "${nvmed[@]}"
	for pid in "${nvmed[@]}"; do
		wait "$pid" || bad "it ends with status $?: $(cat ./*.log)"
	done
	nvmed=()
}

# What n2 has, as it says itself.
one='"name":"data","subsystem":"disk1","wwid":"","writer":"n2","mounted":true,"read_write":true,"sealed":false,"epoch":0'
