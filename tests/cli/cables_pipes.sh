#!/bin/bash
# Goal:   as cables.sh: a put from a pipe and a get into one go on over the other cable, though nobody can read a pipe again, and
#         nothing may go into one twice.
# Method: of two wires that one is cut which carries the pipe: everything on it is lost, or its carrier (cables_lib.sh).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables_lib.sh"

random 12000000 "$dir/n2/s/there"

from_pipe() (
	set -o pipefail
	cat | fmove put -q -f - n2:s/pipe
)

into_pipe() (
	set -o pipefail
	fmove get -q n2:s/there - | cat
)

for how in lost_both carrier_here; do
	survives from_pipe "$how" 1 "1 2" from_pipe
	same f "$dir/n2/s/pipe"
	survives into_pipe "$how" 2 "1 2" into_pipe
	same "$dir/n2/s/there" out-into_pipe
done
