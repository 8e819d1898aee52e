#!/bin/bash
# Goal:   what each node said of its addresses is kept: nodes that start while the cable is cut which the configuration names
#         find each other over the other. Where that is cut as well, the error names both, and our ports to them.
# Method: two nodes with two wires (cables_lib.sh), which knew each other, are started again while the first has no carrier; for a
#         while the second loses everything, too.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables_lib.sh"

node_stop "$dir/n1"
node_stop "$dir/n2"
wire=1
cut_wire carrier_here
start 1
wire=2
lose 1
! fmove put -q -f f n2:s/put 2>err || bad "a put over no wire at all"
grep -q 'from 10\.78\.1\.1 over w1, which carries nothing: 10\.78\.1\.2:7471: ' err && grep -q 'from 10\.78\.2\.1 over w2: 10\.78\.2\.2:7471: ' err ||
	bad "the error does not name the wires: $(cat err)"
find_again 1
start 2
await is true 2 || bad "no session over the second wire: $(fmove status)"
session_on 2 || bad "status does not say that the session is on the second wire: $(fmove status)"
fmove put -q -f f n2:s/put || bad "a put over the second wire alone"
same f "$dir/n2/s/put"
