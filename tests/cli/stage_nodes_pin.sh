#!/bin/bash
# Goal:   --pin with --nodes pins the copy of this node and says so: who asks for others alone is refused before anything is staged, and
#         who asks for others too hears what keeps theirs.
# Method: two nodes, of which each pins and unstages.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stage_lib.sh"
export FM_CLUSTER_CONF=$'memory = { arena = "64MiB"; };\nstaging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };'
up 2

mkdir "$(store 2)/set"
random 30000 "$(store 2)/set/f"
no 2 'nodes n2: --pin is for the copy on n1, which is not one of them' fmove stage --pin --nodes n2 n2:s/set
no 1 'no dataset here is called "set"' at 2 pin set

fmove stage --pin --nodes all n2:s/set >out 2>err || bad "all: $(cat err)"
grep -q 'pinned on this node only: on each of the others, run "fmove pin set"' err || bad "it says: $(cat err)"
no 1 'it is pinned' fmove unstage set
# The way that it names: as long as the other one is there.
await at 2 pin set || bad "not at n2: $(at 2 datasets)"
no 1 'it is pinned' at 2 unstage set
ok at 2 unpin set
await at 2 unstage set || bad "n2 keeps it: $(at 2 datasets)"

# With nobody else there is nothing to say.
fmove stage --pin --nodes n1 n2:s/set >out 2>err || bad "n1: $(cat err)"
grep -q 'on each of the others' err && bad "of n1 alone it says: $(cat err)"
exit
