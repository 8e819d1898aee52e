#!/bin/bash
# Goal:   a run waits for a node that lays the dataset out, however long that takes, and not only as long as requests are collected.
# Method: so many names that laying them out takes longer than staging.settle, the least there may be; each node asks for itself alone.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stage_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; settle = "100ms"; peers = [ "*" ]; };'
up 2

source=$(store 1)/set
mkdir "$source"
(cd "$source" && seq "${FM_NAMES:-2000}" | split -a 5 -l 1)
for i in 2 1; do
	at $i stage "n1:s/set" >out.$i 2>err.$i || bad "n$i: $(cat err.$i)"
	diff -r "$source" "$(cat out.$i)" >&2 || bad "n$i differs"
done
[ "$(read_of 1)" = "$(cat "$source"/* | wc -c)" ] || bad "n1 read $(read_of 1) bytes"
exit
