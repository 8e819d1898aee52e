#!/bin/bash
# Goal:   as cables.sh; the cable that is cut is the one on which the session of the nodes is, which goes on over the other.
# Method: the first of two wires is cut in each of four ways (cables_lib.sh).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cables_lib.sh"

wire=1
files_survive
is_logged 'session with n[12] goes on over 10.78.2' "$dir"/n?/log || bad "the session never left its cable"
