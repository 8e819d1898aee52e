#!/bin/bash
# Goal:   fmove-nvmed hears what other nodes have of its volumes, through fmoved of both; what is not understood is said and changes nothing.
# Method: two nodes over loopback, for a target that nobody has; what n2 says is written by hand. nvme_silent.sh and nvme_says.sh go on. What
#         needs a target is tried in the lab.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/nvme_peers_lib.sh"

begin n1
says 'elsewhere +n2 does not answer \(fmove-nvmed does not run there\)'
tells "{\"volumes\":[{$one}]}"
says 'elsewhere +n2: mounted read-write, names n2 as the writer'

# Another volume of that name is none of its business.
not_elsewhere() {
	fmove nvme status data --socket "$dir/n1/sock" >out 2>err && ! grep -q elsewhere out
}
tells "{\"volumes\":[{${one/disk1/disk2}}]}"
await not_elsewhere || bad "another volume is taken for this one: $(cat out)"
tells "{\"volumes\":[{$one}"
says 'n2 does not answer'
tells "{\"volumes\":[{$one}]}"
says 'n2: mounted read-write'
end_all
