#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Goal:   lanes, the control thread, workers and the ring's threads share nothing without order.
# Method: whole daemons under the thread sanitizer, with more lanes than cores and with io_uring as well as with threads, move files both
#         ways at once, reload, cancel, and stop, while somebody looks at their status; a report ends up in a log, where the cluster finds it.
. "$FM_SOURCE/tests/cli/lib.sh"
. "$FM_SOURCE/tests/cli/tree_lib.sh"

# watch: somebody looks at both nodes all the time, until `seen` is there or all is gone.
watch() {
	until [ -e seen ] || [ ! -d "$dir/c" ]; do
		for i in 1 2; do
			fmove --socket "$dir/c/n$i/fmoved.sock" status --json >/dev/null
		done
	done
}

for io in auto threads; do
	export FM_CLUSTER_CONF="memory = { arena = \"32MiB\"; total = \"128MiB\"; slab = \"4MiB\"; };
		mover = { lanes = 4; chunk = \"256KiB\"; io = \"$io\"; };"
	export FM_CLUSTER_STORE="replace = true;"
	up 2
	random 20000000 big
	(watch &)	# none of ours to wait for
	for i in 1 2 3 4; do
		fmove put --quiet big "n2:s/big$i" &
	done
	fmove put --quiet --durability memory big n2:s/small &
	wait
	same big "$(store 2)/small"
	for i in 1 2 3 4; do
		same big "$(store 2)/big$i"
		fmove get --quiet "n2:s/big$i" "back$i" &
	done
	kill -HUP "$(cat "$dir/c/n1/pid")" "$(cat "$dir/c/n2/pid")"
	wait
	for i in 1 2 3 4; do
		same big "back$i"
	done
	head -c 100 big >short
	ok fmove put --quiet short n2:s/short
	for i in $(seq 40); do		# each is opened while somebody looks
		ok fmove get --quiet --force n2:s/short got
	done
	same short got
	mkdir -p "tree.$io/d"
	for i in $(seq 200); do
		random $((i * 100)) "tree.$io/d/f$i"
	done
	random 9000000 "tree.$io/large"
	ln "tree.$io/large" "tree.$io/hard"
	for i in 1 2; do
		fmove put -r --quiet "tree.$io" "n2:s/tree$i" &
	done
	wait
	fmove get -r --quiet n2:s/tree1 "back.$io" &
	fmove put -r --quiet --update --checksum "tree.$io" n2:s/tree2 &
	wait
	touch seen
	for tree in "$(store 2)/tree1" "$(store 2)/tree2" "back.$io"; do
		diff -r "tree.$io" "$tree" || bad "$tree is not what it was"
	done
	rm "back.$io/d/f1"
	fmove get -r -n --update -v n2:s/tree1 "back.$io" >/dev/null || bad "what a get would change cannot be told: $?"
	fmove put -r --quiet --limit 200kB/s "tree.$io" n2:s/tree3 &
	moved tree3 300000
	kill -KILL $!
	wait $! 2>/dev/null
	idle		# the nodes have seen it go
	fmove put -r --quiet "tree.$io" n2:s/tree3 || bad "a tree does not go on"
	env --default-signal=INT fmove put --quiet --limit 100kB/s big n2:s/cancelled &
	moved cancelled 0
	kill -INT $!
	wait $! && bad "a put that was cancelled succeeded"
	[ -e "$(store 2)/cancelled" ] && bad "a cancelled put is there"
	# The second round is the last one's clean-up, too.
	[ "$io" = threads ] && break
	"$FM_SOURCE/tests/cluster" down "$dir/c" || bad "io = auto: a node did not end well"
	nodes=0
	cd / && rm -rf "$dir"
done
