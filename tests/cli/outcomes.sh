#!/bin/bash
# Goal:   with --json every command prints exactly one object, whatever comes of it, and an exit status means the same of every command:
#         fmove(1), EXIT STATUS.
# Method: every verb that --help names, so that a new one is tried as well, with operands made of its usage line: a wrong option, no
#         daemon, a peer that is off, a signal while the daemon says nothing. Then each status, with verbs that can end so.
. "$(dirname "$0")/lib.sh"
# The store needs extended attributes of users, which not every /tmp has.
[ -n "${FM_BUILD:-}" ] && export TMPDIR=$FM_BUILD
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; grace = "0s"; };'
up 3
mkdir said

# outcome STATUS COMMAND...: it ends so. What it printed is looked at in the end, all at once.
outcome() {
	local want=$1 at status=0

	shift
	at=$(mktemp said/XXXXXX)
	"$@" >"$at.out" 2>"$at.err" </dev/null || status=$?
	printf '%s\n' "$want" "$status" "$*" >"$at"
}

# looked_at: every object.
looked_at() {
	python3 - said/?????? <<-'END' || fails=$((fails + 1))
	import json, sys
	bad = 0
	for at in sys.argv[1:]:
	    want, got, command = open(at).read().split("\n", 2)
	    printed, said = open(at + ".out").read(), open(at + ".err").read()
	    wrong = "" if want == got else "ends with %s instead of %s" % (got, want)
	    try:
	        one = json.loads(printed)
	        if not isinstance(one, dict):
	            wrong = "prints no object"
	        elif str(one.get("exit", 0)) != got:
	            wrong = "says exit %s and ends with %s" % (one.get("exit"), got)
	        elif got not in ("0", "5") and '"text":"' not in printed:
	            wrong = "says no reason"
	    except ValueError:
	        wrong += " prints not one object"
	    if wrong:
	        print("FAIL: %s: %s: %s %s" % (command.strip(), wrong, printed[:300], said[:300]), file=sys.stderr)
	        bad = 1
	sys.exit(bad)
	END
}

# ---- the verbs, and what they want ----

verbs_of() {
	fmove $1 --help | sed -n "/^Commands:/,/^\$/s/^  \([a-z]\+\) .*/${1:+$1 }\1/p"
}
# `top` draws a picture, and `status --json` says the same: cli.top has it.
verbs=$(verbs_of '' | grep -vxE 'nvme|group|top'; verbs_of nvme; verbs_of group)

# What each says of itself, asked once.
mkdir help
# Words of a verb are arguments of their own.
# shellcheck disable=SC2086
while read -r verb; do
	fmove $verb --help >"help/$verb"
done <<<"$verbs"

no_group=0123456789abcdef0123456789abcdef	# an ID that nobody has

# operands VERB NODE: what its usage line asks for, without what may be left out.
operands() {
	local words word

	case $1 in
	ln)				echo '-s ' ;;			# it makes no other links
	group\ commit | group\ discard)	echo "$no_group " ;;	# which the environment may have
	esac
	words=$(sed -nE "1{s/^Usage: fmove $1( \[OPTION\.\.\.\])?//; s/ \|.*//; s/ -- .*//; s/ \[[^]]*\]( |\$)/\1/g; p}" "help/$1")
	for word in $words; do
		case $word in
		-*)						echo "$word" ;;
		'['*']' | '[NAME')				;;
		*SRC* | FILE* | TARGET)				echo f ;;
		DST)						echo g ;;
		NODE:STORE'[/PATH]' | *'|DIR')			echo "$2:s" ;;
		NODE:STORE/* | '[NODE:]STORE/PATH')		echo "$2:s/x" ;;
		NODE)						echo "$2" ;;
		JOB...)						echo abcdefgh ;;
		NAME | VOLUME)					echo x ;;
		ADDRESS*)					echo 127.0.0.1:1 ;;
		check | bash'|'zsh'|'fish | COMMAND)		echo "${word%%|*}" ;;
		*)						bad "$1: what does $word stand for? It is to be said in this test" ;;
		esac
	done | tr '\n' ' '
}

# Does without a daemon what it can, or needs none.
is_alone() {
	case $1 in doctor | topology | bench) return 0 ;; esac
	! grep -q -- '--socket' "help/$1"
}

echo content >f
"$FM_SOURCE/tests/cluster" stop "$dir/c" n3 || bad "n3 does not stop"

# Words of a verb are arguments of their own, and so are operands.
# shellcheck disable=SC2086
while read -r verb; do
	case $verb in
	help | completion)	;;	# print a text, and nothing else
	*)			grep -q -- '--json' "help/$verb" || bad "$verb has no --json" ;;
	esac
	outcome 2 fmove $verb --json --no-such-option
	is_alone "$verb" && continue
	outcome 4 fmove $verb --socket "$PWD/none" --json $(operands "$verb" n2)
	grep -q n3: <<<"$(operands "$verb" n3)" && outcome 4 fmove $verb --json $(operands "$verb" n3)
done <<<"$verbs"
outcome 2 fmove --json
outcome 2 fmove --json ls n2:s
outcome 2 fmove no-such-verb --json
outcome 2 fmove nvme --json list
outcome 2 fmove nvme no-such-verb --json
outcome 2 fmove stat --json

# ---- a signal ----

# interrupted COMMAND...: SIGTERM, as soon as it has asked. (What runs aside does not hear a SIGINT.)
interrupted() {
	"$@" &
	await asks $! || bad "$* asks nobody"
	kill -TERM $!
	wait $!
}

# It has a handler for SIGTERM, too.
asks() {
	local mask

	ls -l "/proc/$1/fd" 2>/dev/null | grep -q socket: && mask=$(awk '/^SigCgt/ { print $2 }' "/proc/$1/status") && ((0x${mask:-0} & 0x4000))
}

# has_seen PID: every signal that was sent there, of which two that wait are one.
has_seen() {
	grep -q '^ShdPnd:[[:space:]]*0*$' "/proc/$1/status"
}

# twice COMMAND...: a second one, which waits for nobody.
twice() {
	"$@" &
	await asks $! || bad "$* asks nobody"
	kill -TERM $!
	await has_seen $! || bad "$* does not see a signal"
	kill -TERM $!
	wait $!
}

pid=$(cat "$dir/c/n1/pid")
kill -STOP "$pid"
outcome 130 twice fmove put --json f n2:s/x
outcome 130 twice fmove get --json n2:s/x g
# shellcheck disable=SC2086
while read -r verb; do
	is_alone "$verb" || outcome 130 interrupted fmove $verb --socket "$FMOVE_SOCKET" --json $(operands "$verb" n2) &
	signalled="${signalled:-} $!"
	[ $(($(wc -w <<<"$signalled") % 6)) -ne 0 ] || wait $signalled
done <<<"$verbs"
# shellcheck disable=SC2086
wait $signalled
kill -CONT "$pid"
reachable 2

# ---- 0 ----

random 3000 "$(store 2)/set"
outcome 0 sh -c 'fmove stage --json n2:s/set; exit'	# what holds it ends then
outcome 0 fmove datasets --json
outcome 0 fmove datasets check --json set
outcome 0 fmove pin --json set
outcome 1 fmove unstage --json set		# it is pinned
outcome 0 fmove unpin --json set
await fmove unstage set || bad "set stays"
outcome 0 fmove put --json f n2:s/there
outcome 0 fmove get --json n2:s/there g
outcome 0 fmove ls --json n2:s
outcome 0 fmove stat --json n2:s/there
outcome 0 fmove mkdir --json n2:s/d
outcome 0 fmove rm -r --json n2:s/d
outcome 0 fmove group begin --json n2:s/other
ok fmove group begin n2:s/g --members 1
id=$(cat out)
outcome 1 fmove group commit --json --members 1 "$id" n2:s/g
outcome 4 fmove group commit --json --members 1 "$id" n2:s/g n3:s/g
outcome 6 fmove group begin --json n2:s/g
outcome 6 fmove group commit --json --members 1 $no_group n2:s/g
outcome 3 fmove group discard --json "$id" n2:s/g n3:s/g
ok fmove group begin n2:s/g --members 1
id=$(cat out)
ok fmove put --group "$id" f n2:s/g/f
outcome 0 fmove group commit --json "$id" n2:s/g
ok fmove group begin n2:s/h
outcome 0 fmove group discard --json "$(cat out)" n2:s/h
outcome 0 fmove df --json
outcome 0 fmove group list --json n2:s
outcome 0 fmove purge --json n2:s
outcome 0 fmove jobs --json
outcome 0 fmove status --json
mkdir here
outcome 0 fmove df --json ./here
outcome 0 fmove purge --json ./here
outcome 0 fmove init --json --dry-run --dir "$PWD/conf" --address 127.0.0.1
outcome 0 fmove init --json --dir "$PWD/conf" --address 127.0.0.1 --store "data=$PWD/here"
outcome 0 fmove invite --json --dir "$PWD/conf"
outcome 0 fmove config check --json "$PWD/conf/fmove.conf"
outcome 0 fmove keygen --json "$PWD/key"
outcome 0 fmove nvme units --json --config "$PWD/conf/fmove.conf" --directory "$PWD/here"

# ---- 1, 3: not there ----

for verb in "stat n2:s/none" "rm n2:s/none" "ls n2:s/none" "verify n2:s/none" "get n2:s/none h" "put none n2:s/y" "stage n2:s/none" \
	"pin none" "unpin none" "unstage none" "datasets check none" "wait abcdefgh" "cancel abcdefgh" "resume abcdefgh" "purge ./none" \
	"keygen --show none" "config check none" "init --dir /dev/null/x --address 127.0.0.1" "invite --dir none" "nvme units --config none"; do
	# shellcheck disable=SC2086
	outcome 1 fmove $verb --json
done
outcome 3 fmove put --json f none n2:s/two/
echo >"$(store 2)/gone"
outcome 3 fmove rm --json n2:s/gone n2:s/none
outcome 3 fmove mkdir --json n2:s/made n2:s/there/below

# ---- 6: it is refused ----

outcome 6 fmove put --json f n2:s/there
outcome 6 fmove get --json n2:s/there g
outcome 6 fmove keygen --json "$PWD/key"
outcome 6 fmove init --json --dir "$PWD/conf" --address 127.0.0.1
outcome 6 fmove stat --json n2:s/../out
sed -i 's/name = "s";/& read = [ ]; write = [ ];/' "$dir/c/n2/fmove.conf"
take_over 2
for verb in "put f n2:s/y" "get n2:s/there h" "ls n2:s" "stat n2:s/there" "rm n2:s/there" "mkdir n2:s/e" "verify n2:s/there" "df n2:s" "purge n2:s" \
	"stage n2:s/there"; do
	# shellcheck disable=SC2086
	outcome 6 fmove $verb --json
done
sed -i 's/ read = \[ \]; write = \[ \];//' "$dir/c/n2/fmove.conf"
take_over 2

# ---- 5: it is damaged ----

random 5000000 large
ok fmove put large n2:s/large
fmove verify n2:s/large >out 2>err
if [ $? -eq 0 ]; then
	flip "$(store 2)/large" 1000
	outcome 5 fmove verify --json n2:s/large
	outcome 5 fmove get --json n2:s/large h
fi
"$FM_SOURCE/tests/cluster" start "$dir/c" n3 || bad "n3 does not start again"

looked_at
