#!/bin/bash
# Goal:   what nodes do to stage one dataset is logged by all of them under one id: the source's listing, who takes part, how it ended, and why not
#         on one of them. fmove stage --json says that id, also of a request that fails, and one that joins another's run has that one's.
# Method: three real daemons; the lines of each one's log that begin with "job ID:". cli.logs has the journal and fmove logs.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };'
up 3

source=$(store 2)/set
mkdir "$source"
for i in 1 2 3; do random 3000 "$source/f$i"; done

# said I JOB TEXT: nI has a line of that job with it.
said() {
	grep -qE "job $2: $3" "$dir/c/n$1/log"
}

# must I JOB TEXT
must() {
	await said "$@" || bad "n$1 has no line of job $2 with \"$3\": $(grep "job $2:" "$dir/c/n$1/log")"
}

# n1 asks, n2 has the source, and n3 was not asked for anything.
fmove stage --nodes n1,n2 --json n2:s/set >out 2>err || bad "stage: $(cat out err)"
job=$(json job out)
[[ $job =~ ^[a-z2-7]{8}$ ]] || bad "no id: $(cat out)"
must 1 "$job" 'get of n2:s for n1 begins: set$'
must 2 "$job" 'get of n2:s for n1 begins: set$'		# the listing
for i in 1 2 3; do
	must $i "$job" 'staging of n2:s/set begins here: 9000 bytes, asked for by n[12]$'	# it may hear of it by n2
	must $i "$job" 'staging of n2:s/set is over here: [0-9]+ bytes read from the source$'
done
for i in 1 2; do must $i "$job" "n2:s/set is ready here: $dir/c/n$i/cache/"; done
must 1 "$job" 'n2 takes part$'
must 1 "$job" "n1: ready: $dir/c/n1/"
must 1 "$job" "n2: ready: $dir/c/n2/"

# All have it: another request, another id.
fmove stage --nodes all --json n2:s/set >out 2>err || bad "again: $(cat out err)"
again=$(json job out)
[ "$again" != "$job" ] || bad "the same id"
must 1 "$again" 'n2:s/set is here already$'
must 3 "$again" 'n2:s/set is ready here: '

# What is held, pinned and removed on other nodes, too, by a request to stage and by one of its own.
sleep infinity &
sleeper=$!
fmove stage --nodes n2,n3 --pin --hold-pid $sleeper --json n2:s/set >out 2>err || bad "--pin: $(cat out err)"
kept=$(json job out)
for i in 2 3; do
	for verb in hold pin; do
		must $i "$kept" "$verb for user 0 of n1 is done: set$"
		must 1 "$kept" "$verb for user 0 on n$i is done: set$"
	done
done
# The nodes hold it already: that is said under the id of the request that finds it so.
fmove stage --nodes n2,n3 --hold-pid $sleeper --json n2:s/set >out 2>err || bad "--hold-pid again: $(cat out err)"
kept=$(json job out)
for i in 2 3; do
	must $i "$kept" "hold for user 0 of n1 is done: set$"
	must 1 "$kept" "hold for user 0 on n$i is done: set$"
done
kill $sleeper
fmove unpin --nodes all --json set >out 2>err
kept=$(json job out)
for i in 2 3; do must $i "$kept" 'unpin for user 0 of n1 is done: set$'; done
fmove pin --nodes n1,n2 --json nothing >out 2>err && bad "it pinned nothing"
kept=$(json job out)
must 2 "${kept:-none}" 'pin for user 0 of n1 ended: nothing: no dataset that user 0 staged'
must 1 "${kept:-none}" 'pin for user 0 on n2 ended: nothing: no dataset that user 0 staged'

# One that the rules leave out: why, in the log of the node that asked.
sed -i "s|directory = \"$dir/c/n2/s\";|&\nread = [ \"peer:n1\" ];|" "$dir/c/n2/fmove.conf"
take_over 2
echo new >"$source/f4"
fmove stage --nodes all --json n2:s/set >out 2>err
[ $? -eq 3 ] || bad "n3 has it: $(cat out err)"
job=$(json job out)
grep -q "fmove logs $job, here and on each of them, tells how it went" err || bad "no way to what was logged: $(cat err)"
must 1 "$job" 'n3: failed: .*may not read'
must 2 "$job" 'n2:s/set is ready here'

# However long its name is, why stands in the line.
long=$(printf 'x%.0s' {1..240})
long=$long/$long/$long/$long/$long
mkdir -p "$(store 2)/$long"
echo new >"$(store 2)/$long/f"
fmove stage --nodes all --json "n2:s/$long" >out 2>err
[ $? -eq 3 ] || bad "n3 has what has a long name: $(cat out err)"
must 3 "$(json job out)" 'n2:s/x*/.* does not come here: n3 may not read n2:s/x.*, says n2; '

# Asked for by the node that leaves it out, too: the log of that one warns, since it was to have it.
echo newer >"$source/f4"
FMOVE_SOCKET=$dir/c/n2/fmoved.sock fmove stage --nodes all --json n2:s/set >out 2>err
[ $? -eq 3 ] || bad "n3 has what n2 asked for: $(cat out err)"
await grep -qE "warning: job $(json job out): n2:s/set does not come here: n3 may not read" "$dir/c/n3/log" || bad "n3 does not warn: $(grep 'may not read' "$dir/c/n3/log")"

# What fails before there is a run has an id, too, and so has what one node stages alone.
fmove stage --json n2:s/missing >out 2>err && bad "it staged nothing"
must 1 "$(json job out)" 'missing is not staged: .*no such file'
mkdir "$(store 2)/alone"
: >"$(store 2)/alone/none"
fmove stage --json n2:s/alone >out 2>err || bad "alone: $(cat out err)"
must 1 "$(json job out)" 'n2:s/alone is ready here: 0 bytes$'
must 2 "$(json job out)" 'get of n2:s for n1 is done: '

# What goes on by itself: --detach says where it is logged. A request behind it waits for that one's, and has its id; where that one has ended before the
# other could join, with another dataset.
has_joined() {
	grep -q "large$i: what job $job brings is waited for" "$dir/c/n1/log"
}

has_joined_or_ended() {
	has_joined || ! kill -0 $waits
}

slow 1
for i in 1 2 3 4 5; do
	mkdir "$(store 1)/large$i"
	random $((i * 8000000)) "$(store 1)/large$i/f"
	fmove stage --detach --nodes n2 --json "s/large$i" >out 2>err || bad "--detach: $(cat out err)"
	job=$(json job out)
	grep -q "fmove logs $job tells how it goes" err || bad "--detach says nothing: $(cat err)"
	fmove stage --nodes n2 --json "s/large$i" >out 2>err &
	waits=$!
	await has_joined_or_ended
	! has_joined || break
done
has_joined || bad "no request joined another: $(grep large "$dir/c/n1/log")"
fast 1
wait $waits || bad "it did not come: $(cat out err)"
[ "$(json job out)" = "$job" ] || bad "the id of what was waited for: $(cat out), and not $job"
must 2 "$job" "staging of n1:s/large$i begins here"
