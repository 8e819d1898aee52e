#!/bin/bash
# Goal:   what client/pages says of checkpoints, of measuring and of upkeep can be typed as it stands.
# Method: the commands are taken out of the pages. first, second and third are nodes of one machine here, their store is called s, and what a
#         service does is done to their daemons. What is measured is too short to be valid.
. "$(dirname "$0")/lib.sh"
. "$FM_SOURCE/tests/pages.sh"
up 3

sudo() {
	"$@"
}

# systemctl reload|restart fmoved: of n1.
systemctl() {
	case $* in
	"reload fmoved")	take_over 1 ;;
	"restart fmoved")	"$FM_SOURCE/tests/cluster" stop "$dir/c" n1 && start_again n1 && reachable 2 && reachable 3 ;;
	*)	bad "systemctl $*" ;;
	esac
}

# What no page says: where the one configuration of several is, and that little is measured. These may end with another status than 0: doctor, where
# this machine has findings; bench; logs, where it has no journal.
fmove() {
	local status

	case $1 in
	invite)	command fmove "$@" --dir "$dir/c/n1" ;;
	doctor)	command fmove "$@" --config "$dir/c/n1/fmove.conf"; status=$?; [ $status -le 1 ] ;;
	logs)	command fmove "$@" 2>err-logs; status=$?; [ $status -eq 0 ] || grep -q 'journal' err-logs ;;
	bench)	set -- "$@" --config "$dir/c/n1/fmove.conf"
		[ "$2" = compare ] && set -- "${@:1:4}" || set -- "$@" --seconds 0.1 --size 4MiB --quiet
		command fmove "$@"; status=$?; [ $status -eq 0 ] || [ $status -eq 3 ] ;;
	*)	command fmove "$@" ;;
	esac
}

# typed NODE COMMAND: it succeeds.
typed() {
	local command=$2

	[ "$1" = first ] || bad "nobody types at $1: $command"
	command=${command//first:models/n1:s} command=${command//second:models/n2:s}
	command=${command//peer second/peer n2} command=${command//\/etc\/fmove\/peers.d\/third/$dir/c/n1/peers.d/n3}
	eval "$command" >>out 2>err </dev/null || bad "$2 -> $?: $(cat err)"
	tested=$((tested + 1))
}

# ---- checkpoints
mkdir step9000
for f in step9000/a step9000/b rank0.pt rank1.pt "$(store 1)/a.pt"; do
	random 50000 "$f"
done
tested=0
page_run checkpoints.md typed
[ $tested -eq 7 ] || bad "checkpoints.md: $tested lines"
unset FMOVE_GROUP
[ "$(readlink "$(store 2)/run7/newest")" = step9000 ] && same step9000/b "$(store 2)/run7/newest/b"
same rank1.pt "$(store 2)/run8/step100/rank1.pt"

# ---- measuring
sed -i 's/{ name = "n1";/{ name = "n1"; bench = true;/' "$dir/c/n2/fmove.conf"
take_over 2
tested=0
page_run measuring.md typed
[ $tested -eq 5 ] || bad "measuring.md: $tested lines"
grep -q '"fmove_bench":' before.json || bad "measuring.md: no measurement: $(cat before.json)"

# ---- upkeep: n3 as fmove join writes a peer
mkdir -p "$dir/c/n1/peers.d"
sed -n 's/^\t{ \(name = "n3".*\) },\{0,1\}$/\1/p' "$dir/c/n1/fmove.conf" | sed 's/; /;\n/g' >"$dir/c/n1/peers.d/n3.conf"
sed -i '/^\t{ name = "n3"/d' "$dir/c/n1/fmove.conf"
sed -i '/^\t{ name = "n2"/s/,$//' "$dir/c/n1/fmove.conf"
take_over 1
reachable 3
tested=0
>out
page_run upkeep.md typed
[ $tested -eq 10 ] || bad "upkeep.md: $tested lines"
grep -q '^fmove join ' out || bad "upkeep.md: no line for a new node: $(cat out)"
same "$(store 1)/a.pt" "$(store 2)/a.pt"
command fmove ls n3: >out 2>err && bad "n3 is still known"
