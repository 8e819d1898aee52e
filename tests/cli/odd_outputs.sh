#!/bin/bash
# Goal:   whatever a name has in it (escape sequences, line feeds, C1 controls, DEL, bytes that are no UTF-8, marks that turn the text around),
#         no command lets a terminal see more of it than plain characters, be it done or refused.
# Method: each command of fmove --help, on a terminal, with one such name wherever a name may stand. All that comes is looked at byte by byte; the
#         name itself must be there, escaped. A command that is new has to be put into the table of odd_outputs.py.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "needs python3"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; grace = "0s"; };'
up 2
FMOVE_NVMED_SOCKET=$dir/nobody timeout "$HANG_S" python3 "$FM_SOURCE/tests/cli/odd_outputs.py" "$(store 1)" "$(store 2)" 2>seen || bad "$(cat seen)"
exit
