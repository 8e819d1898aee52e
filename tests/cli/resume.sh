#!/bin/bash
# Goal:   a put or get that was killed goes on with what came when the same command is run again: less is sent, the content is right; a
#         source that changed meanwhile, or a cancelled transfer, begins afresh.
# Method: slow transfers, ended when the journal says that something is there; then again at full speed. What has nothing to do with each other
#         goes on side by side, each in a directory of its own in the stores.
. "$(dirname "$0")/lib.sh"
up 3
SIZE=20000000
SLOW=--limit=500kB/s
big=$dir/w/big
random $SIZE "$big"
random $SIZE "$big.other"

# start COMMAND...: in the background.
start() {
	env --default-signal=INT "$@" >out 2>err &
	pid=$!
}

# stop SIGNAL STATUS
stop() {
	kill "-$1" $pid
	wait $pid 2>/dev/null
	status=$?
	[ $status -eq "$2" ] || bad "SIG$1 ended it with $status instead of $2: $(cat err)"
}

# interrupted DIR PATH SIGNAL STATUS COMMAND...: the command is ended once a journal in DIR has something; no node has its transfer any more.
interrupted() {
	local where=$1 path=$2 signal=$3 want=$4

	shift 4
	start "$@"
	journaled "$where"
	stop "$signal" "$want"
	ended "$path"
}

# resumed COMMAND...: it must succeed and have found a part of the file; with --json.
resumed() {
	ok "$@" || return
	was=$(json resumed_bytes out)
	[ "${was:-0}" -gt 0 ] || bad "$* found nothing to go on with: $(cat out)"
	[ "${was:-0}" -lt $SIZE ] || bad "$* had nothing to do: $(cat out)"
	[ "$(json data_bytes out)" = $SIZE ] || bad "$*: $(cat out)"
}

# afresh COMMAND...: it must succeed and have sent everything.
afresh() {
	ok "$@" || return
	[ "$(json resumed_bytes out)" = 0 ] || bad "$* went on with what is of no use: $(cat out)"
}

# ---- put ----

put() {
	interrupted "$(store 2)/put" put/x KILL 137 fmove put $SLOW "$big" n2:s/put/x
	[ -e "$(store 2)/put/x" ] && bad "half a put was published"
	resumed fmove put --json "$big" n2:s/put/x
	same "$big" "$(store 2)/put/x"
	no_partials . "$(store 2)/put"

	# What was there and what came then are both known by blocks (where the file system keeps attributes of users).
	if fmove verify -q n2:s/put/x; then
		flip "$(store 2)/put/x" 100
		flip "$(store 2)/put/x" $((SIZE - 1))
		fmove verify n2:s/put/x >out 2>err
		grep -Eq '^corrupt: put/x at byte 0, somewhere in 4,194,304 bytes$' out || bad "damage of a file that was gone on with: $(cat out err)"
		flip "$(store 2)/put/x" 100
		fmove verify n2:s/put/x >out 2>err
		grep -Eq '^corrupt: put/x at byte 16,777,216, somewhere in 3,222,784 bytes$' out || bad "damage of its end: $(cat out err)"
		flip "$(store 2)/put/x" $((SIZE - 1))
	fi

	# Into a file that is there: the old one stays until the end.
	interrupted "$(store 2)/put" put/x KILL 137 fmove put --force $SLOW "$big.other" n2:s/put/x
	same "$big" "$(store 2)/put/x"
	no 6 'exists' fmove put "$big.other" n2:s/put/x
	resumed fmove put --force --json "$big.other" n2:s/put/x
	same "$big.other" "$(store 2)/put/x"
	no_partials . "$(store 2)/put"
}

# Twice interrupted; the line for people says where it went on.
twice() {
	for _ in 1 2; do
		interrupted "$(store 2)/twice" twice/x KILL 137 fmove put $SLOW "$big" n2:s/twice/x
	done
	ok fmove put "$big" n2:s/twice/x
	grep -Eq 'resumed at [0-9]+ %' err || bad "it does not say that it went on: $(cat err)"
	same "$big" "$(store 2)/twice/x"
	no_partials . "$(store 2)/twice"
}

put_changed() {
	cp "$big" source
	interrupted "$(store 2)/changed" changed/x KILL 137 fmove put $SLOW source n2:s/changed/x
	cat "$big.other" >source
	afresh fmove put --json source n2:s/changed/x
	grep -q 'began afresh.*changed' out || bad "it does not say why it began afresh: $(cat out)"
	same "$big.other" "$(store 2)/changed/x"
	no_partials . "$(store 2)/changed"
}

# ---- get ----

get() {
	interrupted . there/get KILL 137 fmove get $SLOW n2:s/there/get got
	[ -e got ] && bad "half a get was published"
	resumed fmove get --json n2:s/there/get got
	same "$big" got
	no_partials .
}

get_changed() {
	interrupted . there/changed KILL 137 fmove get $SLOW n2:s/there/changed got
	ok fmove put --force "$big.other" n2:s/there/changed
	afresh fmove get --json n2:s/there/changed got
	same "$big.other" got
	no_partials .
}

# Two at once into one name, the first from a node that is slow until the second is through: nobody's bytes get into the other's.
two_gets() {
	slow 3
	start fmove get --force n3:s/two got
	journaled .
	ok fmove get --force n2:s/there/other got
	same "$big.other" got
	kill -0 $pid 2>/dev/null || bad "the first of two gets had ended before the second: $(cat err)"
	fast 3
	wait $pid || bad "the first of two gets failed: $(cat err)"
	same "$(store 3)/two" got
	no_partials .
}

# ---- Ctrl-C: only if asked for ----

put_cancelled() {
	interrupted "$(store 2)/int" int/x INT 130 fmove put $SLOW "$big" n2:s/int/x
	no_partials . "$(store 2)/int"
	interrupted "$(store 2)/int" int/x INT 130 fmove put --keep-partial $SLOW "$big" n2:s/int/x
	resumed fmove put --json "$big" n2:s/int/x
	same "$big" "$(store 2)/int/x"
	no_partials . "$(store 2)/int"
}

get_cancelled() {
	interrupted . there/int INT 130 fmove get $SLOW n2:s/there/int int
	no_partials .
	interrupted . there/int INT 130 fmove get --keep-partial $SLOW n2:s/there/int int
	grep -q 'run the same command again' err || bad "it does not say that it can go on: $(cat err)"
	resumed fmove get --json n2:s/there/int int
	same "$big" int
	no_partials .
}

# ---- between stores: what can be gone on with is said ----

between() {
	interrupted "$(store 2)/between" between/x INT 130 fmove put --json --keep-partial $SLOW n1:s/from n2:s/between/x
	grep -q '"kept":true' out || bad "it does not say that it can go on: $(cat out)"
	resumed fmove put --json n1:s/from n2:s/between/x
	interrupted "$(store 1)/back" between/x INT 130 fmove get --json --keep-partial $SLOW n2:s/between/x n1:s/back/x
	grep -q '"kept":true' out || bad "it does not say that it can go on: $(cat out)"
	resumed fmove get --json n2:s/between/x n1:s/back/x
	same "$big" "$(store 1)/back/x"
	no_partials . "$(store 2)/between" "$(store 1)/back"
}

mkdir "$(store 2)"/{there,put,twice,changed,int,between,receiver,sender} "$(store 1)/back"
cp "$big" "$(store 1)/from"
for name in get changed int received; do cp "$big" "$(store 2)/there/$name"; done
cp "$big.other" "$(store 2)/there/other"
cat "$big" "$big.other" "$big" >"$(store 3)/two"		# a minute, while its node is slow
for story in put twice put_changed get get_changed two_gets put_cancelled get_cancelled between; do
	aside $story
done
together
idle

# ---- a daemon is killed: first the one that receives, then the one of the caller ----

# restart I: the daemon of node I is killed, and comes back.
restart() {
	crash "n$1"
	start_again "n$1"
}

# ends_badly [SAYS]: what was begun last fails; and says how to go on, if that is asked.
ends_badly() {
	wait $pid
	status=$?
	[ $status -ne 0 ] || bad "it succeeded although a daemon was killed"
	[ -z "${1:-}" ] || grep -q 'run the same command again' err || bad "it does not say that it can go on: $(cat err)"
}

start fmove put $SLOW "$big" n2:s/receiver/x
journaled "$(store 2)/receiver"
restart 2
ends_badly says
resumed fmove put --json --retry ${HANG_S}s "$big" n2:s/receiver/x
same "$big" "$(store 2)/receiver/x"

# One of each.
start fmove put $SLOW "$big" n2:s/sender/x
put=$pid
mkdir get
(
	cd get || exit 1
	start fmove get $SLOW n2:s/there/received received
	fails=0
	ends_badly says
	exit $fails
) &
get=$!
journaled "$(store 2)/sender"
journaled get
restart 1
wait $get || fails=$((fails + 1))
pid=$put
ends_badly
resumed fmove put --json --retry ${HANG_S}s "$big" n2:s/sender/x
same "$big" "$(store 2)/sender/x"
cd get || exit 1
resumed fmove get --json --retry ${HANG_S}s n2:s/there/received received
same "$big" received
idle
no_partials
