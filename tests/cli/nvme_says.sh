#!/bin/bash
# Goal:   fmove-nvmed says what it has of its volumes, and nothing else; seal and unseal are refused with words where they make no sense.
# Method: as nvme_peers.sh, with fmove-nvmed at both nodes; n1's fmoved is stopped at the end.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/nvme_peers_lib.sh"

conf n2 exclusive n1 >n2.conf
begin n2
await test -s n2/volumes.json || bad "n2 says nothing: $(cat n2.log)"
begin n1		# nvmed[1]
says 'n2: not mounted, names n1 as the writer'

# --- what it says: all of it, and nothing else ---

[ "$(stat -c %a n1/volumes.json)" = 644 ] || bad "volumes.json has mode $(stat -c %a n1/volumes.json)"
grep -q '"name":"data","subsystem":"disk1","wwid":"","writer":"n1","mounted":false,"read_write":false,"sealed":false,"epoch":0' n1/volumes.json ||
	bad "volumes.json is $(cat n1/volumes.json)"
grep -Eq 'address|127.0.0.1|secret|nqn' n1/volumes.json && bad "volumes.json says more than peers may know: $(cat n1/volumes.json)"
# --- seal where it makes no sense ---

# no_seal WORDS ARGUMENT...
no_seal() {
	local words=$1
	shift
	fmove nvme "$@" >out 2>err && bad "$* is taken"
	grep -q -- "$words" err || bad "$*: no \"$words\" in: $(cat err)"
	[ "$(wc -l <err)" -eq 1 ] || bad "$*: not one line: $(cat err)"
}

export FMOVE_NVMED_SOCKET=$dir/n1/sock
no_seal 'say mode = "shared-read"' seal data
no_seal 'no volume "none"' seal none
no_seal '--force' seal data --force
conf n1 shared-read n2 >n1.conf
kill -HUP "${nvmed[1]}"
says 'mode +shared-read, writer n2'
no_seal 'n2 is the writer of "data", this is n1: say it there' seal data
no_seal 'say it there' unseal data
conf n1 shared-read n1 >n1.conf
kill -HUP "${nvmed[1]}"
says 'writer n1 \(this node\)'
no_seal 'not yet' seal data --wait 1s
fmove nvme unseal data --wait 0 >out 2>err || bad "unseal: $(cat err)"
fmove nvme down data >out 2>err || bad "down: $(cat err)"
no_seal 'is not up' seal data

# --- without fmoved ---

"$FM_SOURCE/tests/cluster" stop "$dir/c" n1 || bad "n1 does not stop"
says 'elsewhere +fmoved of this node does not answer'
start_again n1
says 'n2: not mounted'
end_all
