#!/bin/bash
# Goal:   a node that stands still for a while in the midst of a dataset is named meanwhile, and has it in the end, though all others have it
#         already and nothing else is left to do.
# Method: two nodes have it; the daemon of a third one is stopped while it comes, until the line on the terminal says that it is silent.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stage_lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };\nmover = { stall_timeout = "10s"; };'
up 3

source=$(store 2)/set
mkdir "$source"
random 100000000 "$source/large"
ok fmove stage --nodes n1,n2 n2:s/set -- true

# Both send slowly, so that it is still on its way.
slow 1
slow 2
script -qefc 'fmove stage --nodes all n2:s/set' err </dev/null >out &
stager=$!
comes() {
	[ -n "$(find "$dir/c/n3/cache/partial" -name .together)" ]
}
await comes || bad "nothing comes to n3: $(cat err)"
# Who has said nothing of the run yet is not waited for.
is_in() {
	grep -q 'n3 fetching' err
}
await is_in || bad "nobody says that n3 takes part: $(tail -c 300 err)"
kill -STOP "$(cat "$dir/c/n3/pid")"
is_named() {
	grep -q 'n3 silent' err
}
await is_named || bad "nobody says that n3 is silent: $(tail -c 300 err)"
kill -CONT "$(cat "$dir/c/n3/pid")"
fast 1
fast 2
wait $stager || bad "it was given up: $(cat err)"
diff -r --no-dereference "$source" "$(find "$dir"/c/n3/cache/ready -name set)" || bad "n3 has something else: $(cat err)"

# While the run goes on for n3, n1 loses what it has, and asks for it again: it takes none of it for what is there still.
unstaged() {
	at "$1" unstage set
}
for i in 1 2 3; do
	await unstaged $i || bad "n$i keeps it"
done
"$FM_SOURCE/tests/cluster" stop "$dir/c" n3
FMOVE_FAULT=stage.laid_write:1+6 start_again n3
reachable 3
await at 2 ls n3:s || bad "n2 has no session with n3"
at 2 stage --nodes all n2:s/set -- true >out.all 2>err.all &
stager=$!
await unstaged 1 || bad "n1 does not get it: $(cat err.all)"
settled at 1 stage n2:s/set || bad "n1 does not get it again: $(cat err)"
diff -r --no-dereference "$source" "$(cat out)" || bad "n1 has something else the second time: $(cat err)"
is_logged '^fault: stage.laid_write is late' "$dir/c/n3/log" || bad "n3 was not late"
wait $stager || grep -q 'n1: [^r]' err.all || bad "it was given up: $(cat err.all)"

# n1 has the bytes under another name already: what came is thrown away, and n3, which asks n1 for them afterwards, is sent that copy. What is
# found damaged there is called by the name that it has.
mkdir "$source/../twin"
random 40000000 "$source/../twin/large"
ok fmove stage n2:s/twin -- true
cp -a "$source/../twin" "$source/../same"
# However long n3 stands still: its sessions wait.
for i in 1 2 3; do
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n$i
	sed -i 's/stall_timeout = "10s"/stall_timeout = "2min"/' "$dir/c/n$i/fmove.conf"
done
FMOVE_FAULT=stage.upload:1 start_again n1
start_again n2
start_again n3
reachable 2
reachable 3
kill -STOP "$(cat "$dir/c/n3/pid")"
fmove stage --nodes n1,n3 n2:s/same >out 2>err &
stager=$!
await is_logged 'n2:s/same is ready here: .*/twin$' "$dir/c/n1/log" || bad "n1 does not take what it has: $(cat err)"
kill -CONT "$(cat "$dir/c/n3/pid")"
wait $stager || bad "n3 does not get what n1 has: $(cat err)"
diff -r "$source/../twin" "$(find "$dir"/c/n3/cache/ready -name same)" || bad "n3 has other bytes than n1"
grep -q 'warning: extent [0-9]* of n2:s/same is damaged on the disk of n1 (Input/output error): "fmove datasets check twin" there' err || bad "by which name: $(cat err)"
[ "$(grep -c damaged err)" = 1 ] || bad "more is called damaged than was: $(cat err)"
exit
