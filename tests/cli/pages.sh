#!/bin/bash
# Goal:   what client/pages says of checkpoints, of models, of measuring and of upkeep can be typed as it stands.
# Method: the commands are taken out of the pages, and the entries for fmove.conf, too. first, second and third are nodes of one machine here,
#         their store is called s, and what a service does is done to their daemons. What is measured is too short to be valid.
. "$(dirname "$0")/lib.sh"
. "$FM_SOURCE/tests/pages.sh"
staging=$(page_conf models.md 1)
staging=${staging/peers/settle = \"100ms\"; peers}
export FM_CLUSTER_CONF=${staging/\/scratch\/fmove/@NODE@\/cache}
up 3

sudo() {
	"$@"
}

# systemctl reload|restart fmoved: of the node where it is typed.
systemctl() {
	case $* in
	"reload fmoved")	take_over "$at" ;;
	"restart fmoved")	"$FM_SOURCE/tests/cluster" stop "$dir/c" "n$at" && start_again "n$at" && knows_others ;;
	*)	bad "systemctl $*" ;;
	esac
}

knows_others() {
	local i

	for i in 1 2 3; do
		[ $i = "$at" ] || reachable $i
	done
}

# joined I J: node I has node J as fmove join writes it.
joined() {
	local conf=$dir/c/n$1/fmove.conf

	mkdir -p "$dir/c/n$1/peers.d"
	sed -n 's/^\t{ \(name = "n'"$2"'".*\) },\{0,1\}$/\1/p' "$conf" | sed 's/; /;\n/g' >"$dir/c/n$1/peers.d/n$2.conf"
	sed -i '/^\t{ name = "n'"$2"'"/d; /^\t{ name = /s/,$//' "$conf"
	take_over "$1"
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
		[ "$2" = compare ] && set -- "${@:1:4}" || set -- "$@" --seconds 0.05 --size 4MiB --quiet
		command fmove "$@"; status=$?; [ $status -eq 0 ] || [ $status -eq 3 ] ;;
	*)	command fmove "$@" ;;
	esac
}

# typed NODE COMMAND: it succeeds.
typed() {
	case $1 in
	first)	typed_at 1 "$2" ;;
	second)	typed_at 2 "$2" ;;
	each)	typed_at 1 "$2"; typed_at 2 "$2" ;;
	*)	bad "nobody types at $1: $2" ;;
	esac
	use 1
	tested=$((tested + 1))
}

typed_at() {
	local at=$1 command=$2

	use "$at"
	case $command in *"put -r --update "*) downloaded "$two" ;; esac
	command=${command//first:models/n1:s} command=${command//second:models/n2:s} command=${command//first:hub/n1:hub}
	command=${command//peer second/peer n2} command=${command//\/data\/models/$(store "$at")}
	command=${command//\/etc\/fmove\/peers.d\/third/$dir/c/n1/peers.d/n3} command=${command//\/etc\/fmove\/peers.d\/first/$dir/c/n2/peers.d/n1}
	command=${command//-o fmove -g fmove \/data/$dir/c/n1} command=${command//-o fmove -m 711 \/scratch\/fmove/-m 711 $dir/c/n$at/cache}
	eval "{ $command; }" >>out 2>err </dev/null || bad "$2 -> $?: $(cat err)"
}

# ---- checkpoints
mkdir step9000
for f in step9000/a step9000/b rank0.pt rank1.pt "$(store 1)/a.pt"; do
	random 50000 "$f"
done
tested=0
page_run checkpoints.md typed
[ $tested -eq 8 ] || bad "checkpoints.md: $tested lines"
[ "$(readlink "$(store 2)/run7/newest")" = step9000 ] && same step9000/b "$(store 2)/run7/newest/b"
same rank1.pt "$(store 2)/run8/step100/rank1.pt"

# ---- models: what is downloaded is at second; python3 is a shell here, and serve.py one of its scripts
one=$(printf '1%.0s' {1..40}) two=$(printf '2%.0s' {1..40})
export HOME=$dir/w/home
model=models--ORG--NAME
mkdir bin
ln -s "$(command -v sh)" bin/python3
PATH=$PWD/bin:$PATH
cat >serve.py <<'P'
[ "$HF_HUB_OFFLINE" = 1 ] && [ "$HF_HUB_CACHE" = "$HF_HOME/hub" ] || exit
cat "$HF_HUB_CACHE/models--ORG--NAME/snapshots/$(cat "$HF_HUB_CACHE/models--ORG--NAME/refs/main")/model.safetensors" >>served
P

# downloaded COMMIT: as huggingface_hub has it.
downloaded() {
	local hub=$HOME/.cache/huggingface/hub/$model sum

	mkdir -p "$hub/blobs" "$hub/refs" "$hub/snapshots/$1"
	random 100000 new
	sum=$(sha256sum <new) sum=${sum%% *}
	mv new "$hub/blobs/$sum"
	ln -s "../../blobs/$sum" "$hub/snapshots/$1/model.safetensors"
	printf %s "$1" >"$hub/refs/main"
}

entry=$(page_conf models.md 2)
sed -i "s,^stores = ( ,&${entry/\/data/$dir/c/n1}\, ," "$dir/c/n1/fmove.conf"
downloaded "$one"
tested=0
page_run models.md typed
[ $tested -eq 8 ] || bad "models.md: $tested lines"
cached=$HOME/.cache/huggingface/hub/$model/snapshots
for i in 1 2 3; do
	diff -r "$cached/$two" "$dir/c/n$i/cache/hf/hub/$model/snapshots/$two" || bad "models.md: n$i has not the newer one"
	[ "$(<"$dir/c/n$i/cache/hf/hub/$model/refs/main")" = "$two" ] || bad "models.md: n$i has no ref to it"
done
cat "$cached/$one/model.safetensors" "$cached/$one/model.safetensors" >loaded
same loaded served

# ---- measuring
joined 2 1
tested=0
page_run measuring.md typed
[ $tested -eq 8 ] || bad "measuring.md: $tested lines"
for f in before.json after.json; do
	grep -q '"fmove_bench":' $f || bad "measuring.md: no measurement: $(cat $f)"
done

# ---- upkeep
joined 1 3
reachable 3
tested=0
>out
page_run upkeep.md typed
[ $tested -eq 10 ] || bad "upkeep.md: $tested lines"
grep -q '^fmove join ' out || bad "upkeep.md: no line for a new node: $(cat out)"
same "$(store 1)/a.pt" "$(store 2)/a.pt"
command fmove ls n3: >out 2>err && bad "n3 is still known"
