#!/bin/bash
# Goal:   a chunk that comes again while its first copy is being taken, as happens behind a cable that was cut, is sent once more over the
#         same connection, and neither end takes that for damage.
# Method: the end that takes a directory for its caller is made to find such a copy, at the first, second and third chunk.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
grep -q drain.coming "$FMOVE_BIN/fmoved" || skip "built without fault points"
up 2
mkdir t && random 3000000 t/large && for i in $(seq 40); do head -c $((i * 1000)) t/large >"t/$i"; done
ok fmove put -r t n2:s/t
# Only n1 dials: of two that do at once, one has its session ended, whenever that is.
sed -i 's/\(name = "n1";\) address = "[^"]*";/\1/' "$dir/c/n2/fmove.conf"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2 || bad "n2 does not stop"
start_again n2

# What became of connections, as n1 tells it.
connections() {
	grep -E 'connection |session ' "$dir/c/n1/log"
}

# Both lanes have theirs.
is_connected() {
	[ "$(connections | tail -n 2 | grep -c 'connection .* is up')" -eq 2 ]
}

for n in 1 2 3; do
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n1 || bad "n1 does not stop"
	: >"$dir/c/n1/log"
	FMOVE_FAULT=drain.coming:$n "$FM_SOURCE/tests/cluster" start "$dir/c" n1 || bad "n1 does not start"
	reachable 2
	await is_connected || bad "n1 is not connected: $(connections)"
	connections >before
	rm -rf got
	ok fmove get -r --json n2:s/t got
	is_logged 'fault: drain.coming fails' "$dir/c/n1/log" || bad "$n: no chunk was found to come: the test looks at nothing"
	[ "$(json corrupt_chunks out)" = 0 ] || bad "$n: called damaged: $(cat out)"
	connections | cmp - before || bad "$n: a connection ended for it: $(connections)"
	same_tree t got
done
