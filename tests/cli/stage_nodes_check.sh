#!/bin/bash
# Goal:   with --nodes, --check none takes what the nodes have without asking the source, also when that is off or another one by now; and --check
#         content has this node read the source again: a node counts only if its copy has those bytes.
# Method: three real daemons. The source changes, its node is stopped; one bit of the source is turned and its time set back, beneath copies that
#         are on all nodes, or on one.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stage_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; grace = "0s"; peers = [ "*" ]; };'
up 3

source=$(store 2)/set
mkdir "$source"
random 3000 "$source/f"
random 9000001 "$source/large"
cp -a "$source" before

# flip FILE: one bit of it is another, and its time as it was.
flip() {
	local byte

	touch -r "$1" stamp
	byte=$(od -An -tu1 -j 100 -N 1 "$1")
	printf "\\x$(printf %x $((byte ^ 1)))" | dd of="$1" bs=1 seek=100 conv=notrunc status=none
	touch -r stamp "$1"
}

# all_have DIR: what out says of each node is the same as DIR.
all_have() {
	local i

	for i in ${2:-1 2 3}; do
		diff -r "$1" "$(path_of "$i" out)" || bad "n$i has not $1: $(cat out err)"
	done
}

sleep 10000 &
job=$!
asides=$job
stage() {
	settled fmove stage --hold-pid $job --json "$@"
}

# What none of them has is listed, and comes.
stage --check none --nodes all n2:s/set || bad "none, of which nothing is here: $(cat out err)"
all_have "$source"

# The source is read again, by this node, and all have that.
stage --check content --nodes all n2:s/set || bad "content: $(cat out err)"
all_have "$source"
mkdir "$(store 2)/new"
random 3000 "$(store 2)/new/f"
stage --check content --nodes all n2:s/new || bad "content, of what is nowhere: $(cat out err)"
[ "$(grep -c ' get of n2:s for n1 begins: new$' "$dir/c/n2/log")" -ge 2 ] || bad "what came for the request was not read again: $(cat "$dir/c/n2/log")"
no 2 'check content is for the copy on n1' fmove stage --check content --nodes n2,n3 n2:s/set

# A bit of it turns: no listing shows it; content does, and no node counts. Nothing goes.
flip "$source/large"
stage --nodes all n2:s/set || bad "a turned bit, by listing: $(cat out err)"
stage --check content --nodes all n2:s/set
[ $? -eq 5 ] && grep -q 'n1: failed: .*"large" has other bytes at the source' err && grep -q 'n3: failed: .*not found to be what the source has' err ||
	bad "a turned bit: $(cat out err)"
stage --check none --nodes all n2:s/set || bad "what was here is gone: $(cat out err)"
all_have before

# A node that has the same bytes of another store has two copies; of the one that is asked for all have the same bytes.
mkdir "$(store 1)/twin"
random 3000 "$(store 1)/twin/f"
cp -a "$(store 1)/twin" "$(store 2)/twin"
ok fmove stage --pin s/twin -- true
stage --check content --nodes all n2:s/twin || bad "n1 has the bytes of its own store, too: $(cat out err)"
all_have "$(store 1)/twin"
settled at 3 stage --check content --nodes all --hold-pid $job --json n2:s/twin || bad "asked for at n3: $(cat out err)"
all_have "$(store 1)/twin"

# It is another one: none does not see that, not even at its own node; listing does.
echo more >"$source/more"
stage --check none --nodes all n2:s/set || bad "none saw another source: $(cat out err)"
all_have before
at 2 stage --check none --nodes all --hold-pid $job --json s/set >out 2>err || bad "none, at the node of the source: $(cat out err)"
all_have before
rm "$source/more"

# Its node is off: those that have it have it.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
stage --check none --nodes n1,n3 n2:s/set || bad "without the node of the source: $(cat out err)"
all_have before "1 3"
stage --check none --nodes all n2:s/set
[ $? -eq 3 ] && grep -q 'n2: silent' err || bad "n2 is off: $(cat out err)"
start_again n2
reachable 2

# n1 has what the source has now; n3's copy is told from it.
kill $job
await at 1 unstage set || bad "n1 keeps it: $(at 1 unstage set 2>&1)"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n3
await at 2 unstage set || bad "n2 keeps it: $(at 2 unstage set 2>&1)"
fmove stage n2:s/set >out 2>err || bad "n1 alone: $(cat out err)"
diff -r "$source" "$(cat out)" || bad "n1 has not what the source has"
start_again n3
reachable 3
settled fmove stage --check content --nodes n1,n3 n2:s/set -- true
[ $? -eq 3 ] && grep -q 'n3: failed: its copy is of another version .*other bytes' err && grep -q 'n1: ready' err || bad "another copy: $(cat out err)"

# The second reading fails at n1, which has it; n3, which has not, is waited for all the same, and is told as one that has it by now. It is asked to
# keep nothing: nobody would know of such a pin.
for what in tree_file.new:2=set job.new:2=set job.new:1=set/large; do
	path=${what#*=}
	fmove stage "n2:s/$path" >out 2>err || bad "n1 has no $path: $(cat out err)"
	at 3 datasets | grep -q "${path##*/}" && { await at 3 unstage "${path##*/}" || bad "n3 keeps it: $(at 3 unstage "${path##*/}" 2>&1)"; }
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
	FMOVE_FAULT=${what%=*} "$FM_SOURCE/tests/cluster" start "$dir/c" n1 || bad "n1 does not start for $what"
	reachable 3
	fmove stage --check content --nodes n1,n3 --pin "n2:s/$path" >out 2>err && bad "$what: all went well: $(cat out err)"
	grep -q 'n1: failed: .*memory' err && grep -q 'n3: failed: it is there, and was not found to be what the source has' err ||
		bad "$what: n3 was not waited for: $(cat out err)"
	at 3 unstage "${path##*/}" >out 2>err || bad "$what: n3 keeps what was not found to be right: $(cat err)"
done
exit
