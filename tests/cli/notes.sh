#!/bin/bash
# Goal:   what the far end has to say of a directory is heard, what it says at the beginning and what at the end.
# Method: an unfinished transfer of another source is of no use, which is said at the beginning; that the file system cannot exchange
#         names is a fault point of the far end, and said at the end..
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
up 2

# unfinished: of another directory of the same name.
unfinished() {
	rm -rf src && mkdir src && random 3000000 src/f && random 100 src/g
	fmove put -r --replace --quiet --limit 50kB/s src n2:s/t 2>/dev/null &
	local put=$!
	is_begun() {
		[ -s "$(echo "$(store 2)"/.fmove.*.tree/journal)" ]
	}
	await is_begun
	kill -KILL $put
	wait $put 2>/dev/null
	ended t
	mv src was && mkdir src && echo 2 >src/version && rm -r was
}

mkdir src && echo 1 >src/version
ok fmove put -r src n2:s/t
unfinished
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
FMOVE_FAULT=tree.rename_flags:3 "$FM_SOURCE/tests/cluster" start "$dir/c" n2 || bad "n2 does not start"
reachable 2
ok fmove put -r --replace --json src n2:s/t
grep -q 'all is sent again' out && grep -q 'two renames' out || bad "not all is said: $(cat out)"
[ "$(grep -o 'all is sent again' out | wc -l)" -eq 1 ] || bad "something is said twice: $(cat out)"
[ "$(cat "$(store 2)/t/version")" = 2 ] || bad "it is not there"
