#!/bin/bash
# Goal:   fmove-nvmed says of a node that falls silent what it had before, and hears it when it is back.
# Method: as nvme_peers.sh; fmoved of n2 is stopped with SIGSTOP.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/nvme_peers_lib.sh"

tells "{\"volumes\":[{$one}]}"
begin n1
says 'n2: mounted read-write'
kill -STOP "$(cat c/n2/pid)"
says 'n2 does not answer \(.*\); before: mounted read-write'
kill -CONT "$(cat c/n2/pid)"
says 'n2: mounted read-write'
end_all
