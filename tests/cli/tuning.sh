#!/bin/bash
# Goal:   fmoved chooses numbers that suit the processors it may use; status and the log say which and why; a setting wins; of two nodes the one with
#         fewer connections has the say.
# Method: two nodes, started again with another affinity and with settings on either side, since either may be the one that dials.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF='# memory: the default'
up 2
random 3000000 f

chosen() {
	fmove status --json | sed -n 's/.*"chosen":"\([^"]*\)".*/\1/p'
}

number() {
	fmove status --json | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"
}

# again I SETTINGS [COMMAND...]: node nI is started again with these settings of `mover`, by that command.
again() {
	local i=$1 settings=$2
	shift 2

	"$FM_SOURCE/tests/cluster" stop "$dir/c" "n$i"
	sed -i '/^mover = /d' "$dir/c/n$i/fmove.conf"
	echo "mover = { stall_timeout = \"$STALL\"; $settings };" >>"$dir/c/n$i/fmove.conf"
	"$@" "$FM_SOURCE/tests/cluster" start "$dir/c" "n$i" || bad "n$i does not start with $settings"
	use "$i"
}

# Both say the same, in one line.
line=$(chosen)
[ -n "$line" ] || bad "status --json does not say what was chosen: $(fmove status --json)"
fmove status | grep -Fqx "chosen  $line" || bad "status does not say it: $(fmove status)"
await grep -Fq "chosen: $line" "$dir/c/n1/log" || bad "the log does not say: $line"
pattern='^[0-9]+ lanes \([0-9]+ .*processors?.*\); a rail at most [0-9]+ TCP connections \(.*\) and [0-9]+ queue pairs \(.*\);'
pattern+=' slabs of [0-9]+MiB \(.*\), chunks of 1MiB \(.*\)$'
grep -Eq "$pattern" <<<"$line" || bad "chosen: $line"
[ "$(number chunk_bytes)" = 1048576 ] && [ "$(number slab_bytes)" -ge 4194304 ] || bad "sizes: $(fmove status --json)"
[ "$(number tcp_conns)" -ge 2 ] && [ "$(number rdma_conns)" -ge 2 ] || bad "connections: $(fmove status --json)"

# What the machine has is not what the service may use.
if command -v taskset >/dev/null && [ "$(nproc)" -ge 2 ]; then
	again 1 '' taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')"
	grep -Eq '^2 lanes \(1 of [0-9]+ processors, by affinity\)' <<<"$(chosen)" || bad "one processor: $(chosen)"
fi

# between I N: node nI has N connections to the other, and no more however long they are used.
between() {
	use "$1"
	await have_conns "$2" || bad "n$1 has not $2 connections: $(fmove status)"
	fmove put -f f "n$((3 - $1)):s/f" || bad "put over $2 connections: $?"
	have_conns "$2" || bad "n$1 has not $2 connections any more: $(fmove status)"
}

have_conns() {
	fmove status --json | grep -Eq "\"kind\":\"tcp\"[^}]*\"up\":true,\"connections\":$1,"
}

again 1 'lanes = 3; tcp_conns = 1;'
grep -Eq '^3 lanes \(set\); a rail at most 1 TCP connection \(set\) and [0-9]+ queue pairs \(' <<<"$(chosen)" || bad "set: $(chosen)"
between 1 1
between 2 1
again 1 'tcp_conns = 16;'
again 2 'tcp_conns = 2;'
between 1 2
between 2 2
again 2 'tcp_conns = 16;'
between 1 16
between 2 16
