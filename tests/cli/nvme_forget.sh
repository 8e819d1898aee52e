#!/bin/bash
# Goal:   a node that does not answer can be forgotten, which is shown and outlives fmove-nvmed, until the node speaks; one that answers cannot.
# Method: as nvme_peers.sh; fmoved of n2 is stopped with SIGSTOP.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/nvme_peers_lib.sh"

# no_forget WORDS NODE
no_forget() {
	fmove nvme forget "$2" >out 2>err && bad "$2 is forgotten"
	grep -q -- "$1" err || bad "forget $2: no \"$1\" in: $(cat err)"
	[ "$(wc -l <err)" -eq 1 ] || bad "forget $2: not one line: $(cat err)"
}

export FMOVE_NVMED_SOCKET=$dir/n1/sock
tells "{\"volumes\":[{$one}]}"
begin n1
says 'n2: mounted read-write'
no_forget 'n2 answers' n2
no_forget 'no node "n3" was ever a peer' n3
kill -STOP "$(cat c/n2/pid)"
says 'n2 does not answer'
fmove nvme forget n2 >out 2>err || bad "forget: $(cat err)"
grep -qx 'n2: forgotten, until it speaks' out || bad "it says $(cat out)"
grep -q 'warning: if n2 is running' err || bad "it does not warn: $(cat err)"
says 'n2 does not answer \(.*\), forgotten since 20.*; before: mounted read-write'
end_all
grep -q '"forgotten"' n1/state/nodes.json || bad "nodes.json has $(cat n1/state/nodes.json)"
begin n1
says 'n2 does not answer \(.*\), forgotten since'
fmove nvme up data --force --wait 0 >out 2>err || bad "up --force: $(cat err)"
grep -q 'warning: if a node that does not answer is running' err || bad "up --force does not warn: $(cat err)"
fmove nvme unseal data --force --wait 0 2>err && bad "a volume that is not shared is unsealed"
grep -q 'warning: if a node that does not answer is running' err || bad "unseal --force does not warn: $(cat err)"
kill -CONT "$(cat c/n2/pid)"
says 'n2: mounted read-write, names n2'
kill -STOP "$(cat c/n2/pid)"
says 'n2 does not answer \([^)]*\); before: mounted read-write'
kill -CONT "$(cat c/n2/pid)"
end_all
