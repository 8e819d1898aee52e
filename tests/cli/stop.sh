#!/bin/bash
# Goal:   a command whose daemon stops, or the far one, ends with 4 and says so; it was not cancelled by anybody.
# Method: a slow transfer of each kind, and SIGTERM to the daemon that has asked, or to the one that answers.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF='staging = { directory = "@NODE@/cache"; size = "200MiB"; };'
up 2
random 60000000 big
mkdir tree && cp big tree/one && cp big tree/two
ok fmove put big n2:s/there
slow 1
slow 2



# stopped NODE PATTERN PATH COMMAND...: the daemon of NODE stops while the command's transfer of PATH moves.
stopped() {
	local node=$1 pattern=$2 path=$3 pid
	shift 3
	"$@" >out 2>err </dev/null &
	pid=$!
	moved "$path" 0
	"$FM_SOURCE/tests/cluster" stop "$dir/c" "n$node" >stop 2>&1 || bad "n$node: $(cat stop)"
	wait $pid
	got=$?
	[ $got -eq 4 ] || bad "$*: n$node stopped -> $got instead of 4: $(cat err)"
	grep -Eq -- "$pattern" err || bad "$*: n$node stopped, and it says $(cat err)"
	[ "$(wc -l <err)" -eq 1 ] || bad "$*: not one line: $(cat err)"
	"$FM_SOURCE/tests/cluster" start "$dir/c" "n$node" >start 2>&1 || bad "n$node: $(cat start)"
	await fmove ls n2:s || bad "n$node does not come back"
}

for node in 1 2; do
	stopped $node 'fmoved.* stop' x fmove put -q big n2:s/x
	stopped $node 'fmoved.* stop' there fmove get -q n2:s/there got
	stopped $node 'fmoved.* stop|closed the connection' t fmove put -q -r tree n2:s/t
	stopped $node 'fmoved.* stop|closed the connection' there fmove stage n2:s/there
	stopped $node 'fmoved.* stop' p sh -c 'cat big - | fmove put -q - n2:s/p'
done
