#!/bin/bash
# Goal:   --latest leads a link to what was put when that is there and whole, and to nothing else.
# Method: files, trees and several destinations; what is refused before anything is sent, and what behind it; puts and daemons that are
#         killed at random moments.
. "$(dirname "$0")/lib.sh"
up 3
s=$(store 2)
random 5000 small
random 8000000 large
mkdir -p tree/d
cp large tree/d/

# leads LINK TARGET
leads() {
	[ "$(readlink "$1")" = "$2" ] || bad "$1 leads to $(readlink "$1"), not $2"
}

# ---- happy path

ok fmove put --latest last small n2:s/runs/1
leads "$s/runs/last" 1
ok fmove get n2:s/runs/last back
same small back
ok fmove put -r --latest last tree n2:s/runs/2
leads "$s/runs/last" 2
ok fmove put --latest last large n2:s/runs/2/
leads "$s/runs/2/last" large
leads "$s/runs/last" 2
mkdir "$s/there"
ok fmove put --latest last small n2:s/there
leads "$s/there/last" small
ok fmove put -q --latest last - n2:s/top <small
leads "$s/last" top
ok fmove put --latest last small n2:s/both n3:s/both
leads "$s/last" both
leads "$(store 3)/last" both
ok fmove put -r --update --latest last tree n2:s/runs/2
leads "$s/runs/last" 2

# What is the same may have been put without a sync: a file comes again, a directory is synced.
ok fmove put --durability memory small n2:s/same/1
ok fmove put -r --update --json small n2:s/same/1
[[ $(<out) == *'"durable":false'*'"reused_files":1'* ]] || bad "the same file: $(cat out)"
ok fmove put -r --update --latest last --json small n2:s/same/1
[[ $(<out) == *'"durable":true'* ]] || bad "the link leads to what may not be on the disk: $(cat out)"
leads "$s/same/last" 1
same small "$s/same/1"
ok fmove put -r --durability memory tree n2:s/same/2
ok fmove put -r --update --latest last --json tree n2:s/same/2
[[ $(<out) == *'"durable":true'*'"reused_files":1'* ]] || bad "the same directory: $(cat out)"
leads "$s/same/last" 2

# ---- refused: before anything is sent, or a name that is no link, behind it

no 2 'beside PATH' fmove put --latest a/b small n2:s/x
no 2 'to one thing' fmove put --latest last small large n2:s/many/
no 2 'to one thing' fmove put --latest last small large n2:s/many/ n3:s/many/
no 2 'leave out --detach' fmove put --latest last --detach small n2:s/x
no 2 'leave out --detach' fmove put --latest last --dry-run small n2:s/x
no 2 'on the disk' fmove put --latest last --durability memory small n2:s/x
no 2 '--group takes no --latest.*group commit .fmove put' fmove put --group 0123456789abcdef0123456789abcdef --latest last small n2:s/x
no 2 'FMOVE_GROUP is set, which takes no --latest.*group commit, or unset FMOVE_GROUP ' \
	env FMOVE_GROUP=0123456789abcdef0123456789abcdef fmove put --latest last small n2:s/x
[ -e "$s/x" ] || [ -e "$s/many" ] && bad "what is refused is put"
no 6 '"x" is put, and the link runs does not lead to it: .*only a link is replaced' fmove put --latest runs small n2:s/x
same small "$s/x"
leads "$s/last" both
no 6 'exists' fmove put --latest last small n2:s/x
leads "$s/last" both
mkdir "$(store 3)/taken"
fmove put -q --latest taken small n2:s/y n3:s/y 2>err
[ $? -eq 3 ] || bad "one of two links: $(cat err)"
grep -q '"y" is put, and the link taken does not lead to it: n3: ' err || bad "which link? $(cat err)"
leads "$s/taken" y
grep -q 'or it is not known' err && bad "what is there is said to be missing: $(cat err)"
mkdir "$s/no" "$(store 3)/no"
fmove put -q --latest no small n2:s/z n3:s/z 2>err
[ $? -eq 6 ] || bad "no link of two: $(cat err)"
[ "$(grep -c '"z" is put, and the link no' err)" -eq 2 ] || bad "which links? $(cat err)"

# ---- whoever is killed: what the link leads to is whole

for i in $(seq "${FM_ROUNDS:-10}"); do
	fmove put -qr --replace --latest now tree n2:s/kill/$((i % 3)) 2>/dev/null &
	pid=$!
	sleep "0.$((RANDOM % 3))$((RANDOM % 10))"
	if [ $((i % 2)) -eq 0 ]; then
		crash n2
	else
		kill -KILL $pid 2>/dev/null
	fi
	[ ! -L "$s/kill/now" ] || diff -r tree "$s/kill/now" || bad "round $i: what the link leads to is not whole"
	wait $pid 2>/dev/null
	[ $((i % 2)) -ne 0 ] || { start_again n2 && reachable 2; }
done
ok fmove put -r --replace --latest now tree n2:s/kill/end
leads "$s/kill/now" end
