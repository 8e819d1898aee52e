#!/bin/bash
# Goal:   a user who starts more at once than his share loses nothing: what finds no place free waits until there is one.
# Method: `hold` takes all the connections that one user may have, and all the transfers from pipes of another: commands wait, say so once,
#         end at Ctrl-C with nothing left behind, and go on when it lets go. Then far more files, and more directories, are put at once than
#         there are places.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root to become somebody else"
PUTS=200 TREES=50
up 3
chmod 666 "$dir/c/n1/fmoved.sock"
chmod 755 "$dir/c" "$dir/c/n1"
random 100000 f
mkdir tree
random 50000 tree/a
random 3000 tree/b
chmod -R a+rX f tree
cp f "$(store 2)/there"
mkdir stopped got
chown 61000 stopped got

# What is a child of ours must be fmove itself, for signals to reach it: as UID COMMAND...
as() {
	local uid=$1

	shift
	exec setpriv --reuid "$uid" --regid "$uid" --clear-groups env --default-signal=INT "$@"
}

# take NAME UID CONNECTIONS REQUESTS TEXT [FILE]: as `hold`, until give_back NAME.
take() {
	local name=$1 uid=$2

	shift 2
	: >"$name"
	(as "$uid" "$FMOVE_BIN/hold" "$FMOVE_SOCKET" "$@") >"$name" &
	pids[$name]=$!
	await test -s "$name" || bad "$name: nothing is held"
}

give_back() {
	kill "${pids[$1]}"
	wait "${pids[$1]}" 2>/dev/null
}

# begin NAME UID COMMAND...
begin() {
	local name=$1 uid=$2

	shift 2
	(as "$uid" "$@") >"$name.out" 2>"$name.err" &
	pids[$name]=$!
}

# wait_all WHAT NAME...: they say that they wait for that.
wait_all() {
	local what=$1 name

	shift
	for name; do
		await grep -q "waiting: too many $what are yours" "$name.err" || bad "$name does not say that it waits: $(cat "$name.err")"
	done
}

# ends NAME STATUS LINES: with that status, and so many lines on standard error.
ends() {
	wait "${pids[$1]}"
	got=$?
	[ $got -eq "$2" ] || bad "$1: $got instead of $2: $(cat "$1.err")"
	[ "$(wc -l <"$1.err")" -eq "$3" ] || bad "$1 says $(wc -l <"$1.err") lines: $(cat "$1.err")"
}

declare -A pids
mkfifo never
chmod 666 never
take conns 61000 300 0 ''
take pipes 61002 10 20 '{"op":"put","id":#,"node":"n2","store":"s","path":"never#"}' never
begin put-stopped 61000 fmove put f n2:s/stopped
begin get-stopped 61000 fmove get n2:s/there stopped/f
begin ls 61000 fmove ls n2:s
begin verify 61000 fmove verify n2:s/there
begin timeout 61000 fmove put -q --timeout 1500ms f n2:s/timeout
begin put 61000 fmove put f n2:s/put
begin get 61000 fmove get n2:s/there got/f
begin tree 61000 fmove put -r tree n2:s/put-tree
begin job 61000 fmove put --detach f n2:s/job
begin attended 61000 fmove put -r --detach tree n2:s/attended
begin late 61002 fmove put --timeout 1500ms f n2:s/timeout n3:s/timeout
# What is at the other end of a pipe may have the place that this would wait for.
cat f | (as 61002 fmove put - n2:s/pipe) >out 2>err
[ $? -eq 1 ] && grep -q 'too many places for transfers that begin at once are yours' err || bad "a pipe beside too many: $(cat err)"
begin several 61002 fmove put f n2:s/several n3:s/several
(as 61001 fmove put -q f n2:s/other) || bad "another user's put beside those who wait"
same f "$(store 2)/other"
wait_all 'connections to this daemon' put-stopped get-stopped ls verify put get tree job attended
wait_all 'places for transfers that begin at once' several
for name in put-stopped get-stopped ls verify; do
	kill -INT "${pids[$name]}"
done
ends put-stopped 130 2
ends get-stopped 130 2
ends ls 130 2
ends verify 130 2
# It says nothing while it waits, and waits no longer than it may take.
ends timeout 4 1
wait "${pids[late]}"
[ $? -eq 4 ] || bad "--timeout of several: $(cat late.err)"
grep -q 'not begun within 1.5 s: too many connections' timeout.err || bad "--timeout says: $(cat timeout.err)"
left=$(ls -A stopped; find "$(store 2)" -name '.fmove*' ! -name '*.manifest' ! -name '*.part')
[ -z "$left" ] || bad "left behind: $left"
give_back conns
give_back pipes
ends put 0 2
ends get 0 2
ends tree 0 2
ends job 0 1
ends attended 0 1
ends several 0 3
for name in put several; do
	same f "$(store 2)/$name"
done
same f "$(store 3)/several"
same f got/f
diff -r tree "$(store 2)/put-tree" || bad "the directory differs"
for name in job attended; do
	(as 61000 fmove wait -q "$(cat $name.out)") || bad "the job of $name failed"
done
same f "$(store 2)/job"
diff -r tree "$(store 2)/attended" || bad "the directory of the job differs"
[ -z "$(find "$(store 2)" -name stopped -o -name timeout)" ] || bad "what was stopped was put all the same"

# all COUNT COMMAND...: so many at once, as user 61000; "%" is the number of each.
all() {
	local count=$1 i

	shift
	for ((i = 0; i < count; i++)); do
		(as 61000 "${@//%/$i}") >/dev/null 2>>all.err &
		many+=($!)
	done
}

many=()
all $PUTS fmove put -q f n2:s/p%
all $TREES fmove put -rq tree n2:s/t%
(as 61001 fmove put -q f n2:s/beside) || bad "another user's put beside all those"
for pid in "${many[@]}"; do
	wait "$pid" || bad "one of $PUTS puts and $TREES trees: $?"
done
[ ! -s all.err ] || bad "they said: $(cat all.err)"
same f "$(store 2)/beside"
for ((i = 0; i < PUTS; i++)); do
	echo "$(store 2)/p$i"
done | xargs md5sum | cut -d ' ' -f 1 | sort -u >sums
[ "$(cat sums)" = "$(md5sum <f | cut -d ' ' -f 1)" ] || bad "not all that was put is what it was"
for ((i = 0; i < TREES; i++)); do
	diff -r tree "$(store 2)/t$i" || bad "directory $i differs"
done
no_partials
