#!/bin/bash
# Goal:   fmove-nvmed says what other nodes have of its volumes, through fmoved of both; what does not answer, or is not understood, is said and
#         changes nothing; seal and unseal are refused with words where they make no sense.
# Method: two nodes, each with fmoved and fmove-nvmed, over loopback, for a target that nobody has. What n2 says is written by hand at first. What
#         needs a target is tried in the lab.
. "$(dirname "$0")/lib.sh"
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
	local i

	for ((i = 0; i < 600; i++)); do
		fmove nvme status data --socket "$dir/n1/sock" >out 2>err && grep -Eq "$1" out && return
		sleep 0.1
	done
	bad "status does not say \"$1\": $(cat out err n1.log)"
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
begin n1

# --- what it hears ---

says 'elsewhere +n2 does not answer \(fmove-nvmed does not run there\)'
one='"name":"data","subsystem":"disk1","wwid":"","writer":"n2","mounted":true,"read_write":true,"sealed":false,"epoch":0'
tells "{\"volumes\":[{$one}]}"
says 'elsewhere +n2: mounted read-write, names n2 as the writer'
tells "{\"volumes\":[{${one/disk1/disk2}}]}"
for ((i = 0; i < 300; i++)); do
	fmove nvme status data --socket "$dir/n1/sock" >out 2>err && ! grep -q elsewhere out && break
	sleep 0.1
done
grep -q elsewhere out && bad "another volume is taken for this one: $(cat out)"
tells "{\"volumes\":[{$one}"
says 'n2 does not answer'
tells "{\"volumes\":[{$one}]}"
says 'n2: mounted read-write'
kill -STOP "$(cat c/n2/pid)"
says 'n2 does not answer \(.*\); before: mounted read-write'
kill -CONT "$(cat c/n2/pid)"
says 'n2: mounted read-write'

# --- what it says: all of it, and nothing else ---

[ "$(stat -c %a n1/volumes.json)" = 644 ] || bad "volumes.json has mode $(stat -c %a n1/volumes.json)"
grep -q '"name":"data","subsystem":"disk1","wwid":"","writer":"n1","mounted":false,"read_write":false,"sealed":false,"epoch":0' n1/volumes.json ||
	bad "volumes.json is $(cat n1/volumes.json)"
grep -Eq 'address|127.0.0.1|secret|nqn' n1/volumes.json && bad "volumes.json says more than peers may know: $(cat n1/volumes.json)"
conf n2 exclusive n1 >n2.conf
begin n2
says 'n2: not mounted, names n1 as the writer'

# --- seal where it makes no sense ---

# no_seal WORDS ARGUMENT...
no_seal() {
	local words=$1
	shift
	fmove nvme "$@" >out 2>err && bad "$* is taken"
	grep -q -- "$words" err || bad "$*: no \"$words\" in: $(cat err)"
	[ "$(wc -l <err)" -eq 1 ] || bad "$*: not one line: $(cat err)"
}

export FMOVE_NVMED_SOCKET=$dir/n1/sock
no_seal 'say mode = "shared-read"' seal data
no_seal 'no volume "none"' seal none
no_seal '--force' seal data --force
conf n1 shared-read n2 >n1.conf
kill -HUP "${nvmed[0]}"
says 'mode +shared-read, writer n2'
no_seal 'n2 is the writer of "data", this is n1: say it there' seal data
no_seal 'say it there' unseal data
conf n1 shared-read n1 >n1.conf
kill -HUP "${nvmed[0]}"
says 'writer n1 \(this node\)'
no_seal 'not yet' seal data --wait 1s
fmove nvme unseal data --wait 0 >out 2>err || bad "unseal: $(cat err)"
fmove nvme down data >out 2>err || bad "down: $(cat err)"
no_seal 'is not up' seal data

# --- without fmoved ---

"$FM_SOURCE/tests/cluster" stop "$dir/c" n1 || bad "n1 does not stop"
says 'elsewhere +fmoved of this node does not answer'
"$FM_SOURCE/tests/cluster" start "$dir/c" n1 || bad "n1 does not start again"
says 'n2: not mounted'
kill -TERM "${nvmed[@]}"
for pid in "${nvmed[@]}"; do
	wait "$pid" || bad "it ends with status $?: $(cat n1.log n2.log)"
done
nvmed=()
