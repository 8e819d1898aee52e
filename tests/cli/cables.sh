#!/bin/bash
# Goal:   of two cables, one that is cut costs its connections and nothing else: a put, a get and a put of a file as standard
#         input go on over the other. Status says which is down and why. It is used again when it is back.
# Method: two nodes with two slow wires; the second, on which the session is not, is cut in each of four ways (cables_lib.sh).
#         Beside this one: cables_session.sh, where the session is on the cable; cables_pipes.sh; cables_restart.sh.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables_lib.sh"

wire=2
files_survive
