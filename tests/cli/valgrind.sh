#!/bin/bash
# Goal:   what the examples do leaves no memory behind, no descriptor, and touches nothing that is not theirs, when it fails, too.
# Method: run them under valgrind; of descriptors those count that the program did not begin with.
. "$(dirname "$0")/lib.sh"
examples=${FM_BUILD:-$FMOVE_BIN/..}/examples
[ -x "$examples/example-01-put" ] || skip "the examples are not built"
command -v valgrind >/dev/null || skip "no program valgrind"
nm -D "$examples/example-01-put" | grep -q '__[at]san_init' && skip "a sanitizer is built in, and no program has both"

# clean STATUS EXAMPLE ARGUMENT...: it ends with that status, and valgrind finds nothing.
clean() {
	local want=$1 name=$2 status fd
	shift 2
	# From 3.24 on it counts what was inherited as errors.
	(
	for fd in /proc/self/fd/*; do
		fd=${fd##*/}
		[ "$fd" -le 2 ] || exec {fd}>&-
	done
	exec valgrind --log-file=log --leak-check=full --show-leak-kinds=all --errors-for-leak-kinds=all --error-exitcode=99 --track-fds=yes \
		"$examples/example-$name" "$@"
	) >out 2>err
	status=$?
	[ $status -eq "$want" ] || bad "$name $*: status $status: $(cat err log)"
	grep -q 'ERROR SUMMARY: 0 errors' log || bad "$name $*: $(cat log)"
	awk '/Open / { getline next_line; if (next_line !~ /inherited/) print; }' log >open
	[ ! -s open ] || bad "$name $* leaves descriptors: $(cat open)"
}

up 2
random 200000 f
clean 0 01-put f n2 s example
clean 6 01-put f n2 s example
clean 0 02-get n2 s example back
same f back
clean 1 02-get n2 s nothing nothing
clean 0 03-ranges n2 s example
clean 0 04-async n2 s async f
clean 0 05-threads n2 s example 20
clean 0 06-group n2 s ckpt f
clean 1 06-group n2 s other missing
clean 0 07-buffer n2 s buffer
FMOVE_SOCKET=$PWD/none clean 4 01-put f n2 s other
