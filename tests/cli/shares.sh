#!/bin/bash
# Goal:   one user who takes all that he is given leaves something to other users and to root.
# Method: `hold` asks, as a user, for as many of one thing as the daemon gives, and keeps it; another user and root are served meanwhile.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root to become somebody else"
up 2
chmod 666 "$dir"/c/n1/fmoved.sock
chmod 755 "$dir/c" "$dir/c/n1" "$dir/w"
random 1000 f
random 20000000 large
chmod 644 f large
mkfifo never
chmod 666 never

as() {
	local uid=$1

	shift
	setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"
}

# held MANY WHAT CONNECTIONS REQUESTS TEXT [FILE]: user 61000 asks for too much and gets so many; others are served while he has them.
held() {
	local many=$1 what=$2 pid

	shift 2
	: >held
	setpriv --reuid 61000 --regid 61000 --clear-groups "$FMOVE_BIN/hold" "$FMOVE_SOCKET" "$@" >held &
	pid=$!
	await test -s held
	grep -q "EBUSY.*too many $what are yours ($many of" held || bad "one user of $what: $(cat held)"
	ok as 61001 fmove status
	ok as 61001 fmove ls n2:s
	ok as 61001 fmove put -f f n2:s/f
	as 61001 fmove put -qf - n2:s/g <f || bad "another user's pipe beside $what"
	ok fmove status
	ok fmove put -f f n2:s/f
	fmove put -qf - n2:s/g <f || bad "root's pipe beside $what"
	kill $pid
	wait $pid 2>/dev/null
}

held 112 'connections to this daemon' 300 0 ''
# A transfer from a pipe that nobody writes to is there until its client goes.
held 56 'places for transfers that begin at once' 10 20 '{"op":"put","id":#,"node":"n2","store":"s","path":"p#"}' never
# So is who waits for a job that takes its time.
job=$(as 61000 fmove put --detach --limit 0.01MB/s large n2:s/large)
held 896 'places for requests at this daemon' 10 200 '{"op":"wait","id":#,"job":"'"$job"'"}'
ok as 61000 fmove cancel "$job"
same f "$(store 2)/f"
same f "$(store 2)/g"
