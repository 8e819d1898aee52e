#!/bin/bash
# Goal:   one handle of libfmove serves a thousand threads of a user who may have few connections, children of the program, also those that come back
#         from the midst of a call, and a program that gets signals all the time. Without a daemon, or rights to ask it, a program is told so.
# Method: a program (threads.c) beside real daemons; `hold` takes all but a few of the connections that its user may have.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root to become somebody else"
THREADS=1000 LEFT=4
up 2
chmod 666 "$dir/c/n1/fmoved.sock"
chmod 755 "$dir/c" "$dir/c/n1"
random 20000 f
mkdir tree
random 30000 tree/a
random 100 tree/b
mkdir large
for i in 1 2 3 4; do
	random 1000000 large/$i
done
chmod a+r f

# The user who may have few.
AS='setpriv --reuid 61000 --regid 61000 --clear-groups'

# hold_for COUNT: so many connections of the user are taken, or as many as there are; in `held`.
hold_for() {
	: >held.out
	$AS "$FMOVE_BIN/hold" "$FMOVE_SOCKET" "$1" 0 '' >held.out &
	holder=$!
	await test -s held.out || bad "nothing is held"
	held=$(grep -oE '^[0-9]+' held.out)
}

let_go() {
	kill "$holder"
	wait "$holder" 2>/dev/null
}

# right NAME: it said nothing but that no descriptor is left.
right() {
	[ "$(cat "$1")" = "0 descriptors are left" ] || bad "$1: $(sort "$1" | uniq -c | head -n 5)"
}

# What a shell can say of a program that could not even connect.
refused() {
	local status=$1 pattern=$2

	shift 2
	"$@" >out 2>&1
	[ $? -eq "$status" ] && grep -q "$pattern" out || bad "$*: $(cat out)"
}

hold_for 1000
most=$held
let_go
hold_for $((most - LEFT))
$AS "$FMOVE_BIN/threads" many "$PWD/f" $THREADS many >many.out 2>&1
right many.out
[ "$(find "$(store 2)/many" -type f | wc -l)" -eq $THREADS ] || bad "not all were put"
let_go
"$FMOVE_BIN/threads" storm f storm >storm.out 2>&1
right storm.out
diff -r tree back || bad "the tree is another one"
"$FMOVE_BIN/threads" fork f fork >fork.out 2>&1
right fork.out
diff -r large large_back || bad "beside children the tree is another one"
[ "$(find "$(store 2)/fork" -maxdepth 1 -type f -name '[0-9]*' | wc -l)" -eq 11 ] || bad "not all were put by children"
FMOVE_SOCKET=$dir/none refused 2 "no fmoved listens at $dir/none" "$FMOVE_BIN/threads" fork f x
chmod 600 "$dir/c/n1/fmoved.sock"
refused 2 'may not be used by you' $AS "$FMOVE_BIN/threads" fork "$PWD/f" x
# Whoever calls a program with the rights of somebody else does not tell it whom to ask.
cp "$FMOVE_BIN/threads" trusted
chmod u+s trusted
if [ "$($AS ./trusted uid)" = 0 ] && [ ! -e /run/fmove/fmoved.sock ]; then
	refused 2 'no fmoved listens at /run/fmove/' $AS ./trusted fork "$PWD/f" x
fi
