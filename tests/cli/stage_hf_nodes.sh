#!/bin/bash
# Goal:   a repository of Hugging Face is in the hub caches of several nodes, read once, with the same refs; a node's hub says
#         nothing before the data is there, keeps what is from another source, and has nothing that is not what its name says.
# Method: three real daemons, hub caches made here, on the node that asks and on another one. Each node's hub is read as
#         huggingface_hub reads it, whose real code does so where it is installed (hf_offline.py).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
. "$(dirname "$0")/liar_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "400MiB"; grace = "0s"; peers = [ "*" ]; settle = "100ms"; };'
export FM_CLUSTER_STORE='layout = "hf";'
up 3
one=$(printf '1%.0s' $(seq 40)) two=$(printf '2%.0s' $(seq 40)) three=$(printf '3%.0s' $(seq 40))

# file I REPOSITORY COMMIT NAME: what is in ./new becomes a file of that snapshot in node I's store, its blob named by its SHA-256.
file() {
	local at=$(store "$1")/$2 sum
	sum=$(sha256sum <new) sum=${sum%% *}
	mkdir -p "$at/blobs" "$at/snapshots/$3" "$at/refs"
	mv new "$at/blobs/$sum"
	ln -sf "../../blobs/$sum" "$at/snapshots/$3/$4"
}

# repository I NAME COMMIT: it has two files, and main is that commit.
repository() {
	random 3000000 new; file "$1" "models--org--$2" "$3" model.safetensors
	echo "$2 $3" >new; file "$1" "models--org--$2" "$3" config.json
	printf %s "$3" >"$(store "$1")/models--org--$2/refs/main"
}

# has I FROM NAME COMMIT REF...: node I's hub has that snapshot as node FROM's store has it, and the refs lead to it.
has() {
	local hub=$dir/c/n$1/cache/hf/hub/models--org--$3 of=$2 commit=$4
	diff -r "$(store "$of")/models--org--$3/snapshots/$commit" "$hub/snapshots/$commit" || bad "n$1: $3 differs"
	[ -L "$hub/snapshots/$commit" ] || bad "n$1: no link into the dataset of $3"
	shift 4
	for ref; do
		[ "$(<"$hub/refs/$ref")" = "$commit" ] || bad "$hub: refs/$ref is not $commit"
	done
}

# On all nodes, of another one's cache. The ref is there last: whoever looks sees none that leads nowhere.
repository 2 m "$one"
{
	until [ -e done ]; do
		for i in 1 2 3; do
			hub=$dir/c/n$i/cache/hf/hub/models--org--m
			[ ! -e "$hub/refs/main" ] || [ -s "$hub/snapshots/$one/model.safetensors" ] || echo "n$i" >>early
		done
		sleep 0.02
	done
} &
looks=$!
fmove stage --nodes all --json hf:org/m >out 2>err || bad "all: $(cat out err)"
: >done
wait $looks
[ ! -e early ] || bad "a ref before its snapshot: $(<early)"
for i in 1 2 3; do
	has $i 2 m "$one" main
	grep -o "{\"node\":\"n$i\",[^}]*}" out >row
	[ "$(json path row)" = "$dir/c/n$i/cache/hf/hub/models--org--m/snapshots/$one" ] || bad "n$i: another path: $(<row)"
done
[ "$(json hf_home out)" = "$dir/c/n1/cache/hf" ] && grep -q "HF_HOME=$dir/c/n1/cache/hf" err || bad "no HF_HOME: $(cat out err)"
grep -q '3 of 3 nodes have it' err || bad "the line: $(<err)"
read=$(json source_bytes out)
[ "$read" -ge 3000000 ] && [ "$read" -lt 6000000 ] || bad "$read bytes were read"

# The same again reads nothing, under a name with a slash: that ref appears, too.
from=$(store 2)/models--org--m
mkdir "$from/refs/pr"
printf %s "$one" >"$from/refs/pr/1"
fmove stage --nodes all --json "hf:org/m@pr/1" >out 2>err && [ "$(json source_bytes out)" = 0 ] || bad "again: $(cat out err)"
for i in 1 2 3; do has $i 2 m "$one" main pr/1; done

# A name that cannot be in the hub of the node that asks is a failure there, and of no other node; nothing runs then.
printf %s "$one" >"$from/refs/v1"
ok fmove stage --nodes n1 hf:org/m@v1
rm "$from/refs/v1"
mkdir "$from/refs/v1"
printf %s "$one" >"$from/refs/v1/x"
fmove stage --nodes n1 hf:org/m@v1/x -- touch ran >out 2>err
[ $? -eq 1 ] && [ ! -e ran ] && grep -q 'n1: failed: .*"v1/x" cannot be in the hub beside "v1"' err || bad "n1 alone, v1/x: $(cat out err)"
fmove stage --nodes n1,n3 hf:org/m@v1/x -- touch ran >out 2>err
[ $? -eq 3 ] && [ ! -e ran ] && grep -q 'n1: failed: .*"v1/x" cannot be' err && grep -q 'n3: ready: /.*snapshots' err || bad "v1/x: $(cat out err)"
has 3 2 m "$one" v1/x
fmove stage --detach --nodes n1 hf:org/m@v1/x 2>err	# what failed then is in the log; it may be soon enough to be told
logged() { grep -q '"v1/x" cannot be in the hub' "$dir/c/n1/log" err; }
await logged || bad "nothing is logged: $(<err)"

# What n1 named there is in the way of no user of n3.
rm -r "$from/refs/v1"
printf %s "$one" >"$from/refs/v1"
use 3
ok fmove stage hf:org/m@v1
has 3 2 m "$one" v1
use 1

# The branch moves at its source, and so everywhere. A node that is not asked for keeps what it has; who asks has no path then.
random 3000000 new; file 2 models--org--m "$two" model.safetensors
printf %s "$two" >"$from/refs/main"
ok fmove stage --nodes n3 hf:org/m
[ ! -s out ] && ! grep -q HF_HOME err || bad "n1 was not asked for: $(cat out err)"
has 3 2 m "$two" main
has 1 2 m "$one" main
ok fmove stage --nodes all hf:org/m -- sh -c 'test "$FMOVE_STAGED" = "$HF_HOME/hub/models--org--m/snapshots/$0" && test "$HF_HUB_CACHE" = "$HF_HOME/hub"' "$two"
for i in 1 2 3; do has $i 2 m "$two" main; done

# Of the cache of the node that asks.
repository 1 own "$one"
ok fmove stage --nodes all hf:org/own
for i in 1 2 3; do has $i 1 own "$one" main; done

# Without a hash in its name a file could be what any node of a run says: each node has it from the source, alone.
repository 2 plain "$one"
echo plain >"$(store 2)/models--org--plain/snapshots/$one/README.md"
fmove stage --nodes n1,n3 hf:org/plain >out 2>err
[ $? -eq 1 ] && grep -q 'n3: failed: .*has files without a hash in their name: stage it on each node, without --nodes' err ||
	bad "a file without a hash: $(cat out err)"
[ ! -e "$dir/c/n3/cache/hf/hub/models--org--plain" ] || bad "n3 has what no hash shows in its hub"
# Nor does it come to be shown because the node failed, or ended, when all of it was there: a later request fetches it anew.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n3
FMOVE_FAULT=stage.manifest_copy:1 start_again n3
reachable 3
fmove stage --nodes n1,n3 hf:org/plain >out 2>err
[ $? -eq 1 ] && ! grep -q 'n3: failed: .*without a hash' err || bad "n3 had no fault: $(cat out err)"
use 3
fmove stage hf:org/plain >out 2>err
[ $? -eq 1 ] && grep -q 'has files without a hash in their name, and came before.*thrown away; run it again' err ||
	bad "what came from other nodes is taken: $(cat out err)"
ok fmove stage hf:org/plain
use 1
ok fmove stage hf:org/plain

# Who asks for it alone while it comes from other nodes does not get that run's error.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n3
FMOVE_FAULT=stage.manifest_copy:1+2 start_again n3
reachable 3
repository 2 bare "$one"
echo bare >"$(store 2)/models--org--bare/snapshots/$one/README.md"
fmove stage --nodes n1,n3 hf:org/bare >out.bare 2>err.bare &
use 3
checks() { fmove datasets | grep -q '^checking .*bare'; }
await checks || bad "n3 checks nothing: $(fmove datasets)"
ok fmove stage hf:org/bare
wait $!
grep -q 'n3: failed: .*without a hash' err.bare || bad "it did not come to n3: $(cat out.bare err.bare)"
use 1
has 1 2 plain "$one" main

# What n3 has from another source stays its main and its snapshot: n1 may not lead it elsewhere, whatever it brings there.
# refused NAME FROM OF: n1's request for NAME did not get its names into n3's hub, which has it from FROM, since it is of OF.
refused() {
	fmove stage --nodes n1,n3 "hf:org/$1" >out 2>err
	[ $? -eq 3 ] && grep -q "n3: failed: it is there, but not in its hub cache: its hub has models--org--$1 from $2, and this is from $3: ask for it there" err ||
		bad "$1 of another source: $(cat out err)"
	[ "$(<out)" = "$dir/c/n1/cache/hf/hub/models--org--$1/snapshots/$4" ] || bad "n1: its own path: $(<out)"
}
mark() {
	local line
	{ read -r line; read -r line; } <"$dir/c/n$1/cache/hf/sources/models--org--$2"
	[ "$line" = "$3" ] || bad "n$1: $2 is from $line, not $3"
}
repository 3 x "$two"
use 3
ok fmove stage --as theirs hf:org/x -- true	# holds it no longer
mark 3 x n3:s
mv "$(store 3)/models--org--x" "$dir/gone"
use 1
repository 2 x "$three"
refused x n3:s n2:s "$three"
has 1 2 x "$three" main
[ "$(<"$dir/c/n3/cache/hf/hub/models--org--x/refs/main")" = "$two" ] || bad "n3: its main was led elsewhere"
diff -r "$dir/gone/snapshots/$two" "$dir/c/n3/cache/hf/hub/models--org--x/snapshots/$two" || bad "n3: its snapshot was replaced"

# Who unstages it there has it from the other source. Two of them have one name, so it is named by its source.
ok fmove stage --nodes n3 --as theirs hf:org/m
ok fmove unstage --nodes n3 "hf://n3:s/models--org--x@$two"
gone() {
	[ ! -e "$dir/c/n3/cache/hf/hub/models--org--x/refs/main" ] && [ ! -e "$dir/c/n3/cache/hf/sources/models--org--x" ]
}
await gone || bad "n3: what was unstaged is in its hub: $(find "$dir/c/n3/cache/hf")"
ok fmove stage --nodes n1,n3 hf:org/x
has 3 2 x "$three" main
mark 3 x n2:s

# The same commit with the same files is not the same source, and leads nobody's main elsewhere.
repository 3 same "$one"
use 3
ok fmove stage hf:org/same
link=$(readlink "$dir/c/n3/cache/hf/hub/models--org--same/snapshots/$one")
mv "$(store 3)/models--org--same" "$(store 2)/"
touch "$(store 2)"/models--org--same/blobs/*	# downloaded at another time
use 1
refused same n3:s n2:s "$one"
has 1 2 same "$one" main
[ "$(readlink "$dir/c/n3/cache/hf/hub/models--org--same/snapshots/$one")" = "$link" ] || bad "n3: its own copy was replaced"
echo other >new; file 2 models--org--same "$two" config.json
printf %s "$two" >"$(store 2)/models--org--same/refs/main"
refused same n3:s n2:s "$two"
has 3 2 same "$one" main

# Who asks for it there has it. Whose the names are is open from then on.
use 3
ok fmove stage --json hf:org/same
has 3 2 same "$two" main
mark 3 same several
told='models--org--same in the hub cache of this node is of several sources from now on: it was from n3:s, and this is from n2:s; so fmove stage --nodes'
grep -q "^fmove: warning: $told" err && grep -q "\"note\":\"$told" out || bad "it says nothing of several sources: $(cat out err)"
is_logged "$told" "$dir/c/n3/log" || bad "n3 logs nothing of several sources"
ok fmove stage hf:org/same
! grep -q 'several sources' err || bad "it is said again: $(<err)"
use 1
refused same "several sources, or one that is not known" n2:s "$two"

# Nobody waits for it: it is in the hubs all the same.
repository 2 later "$one"
ok fmove stage --detach --nodes n1,n3 hf:org/later
for i in 1 3; do
	await test -e "$dir/c/n$i/cache/hf/hub/models--org--later/refs/main" || bad "n$i: nobody waited, and it does not come"
	has $i 2 later "$one" main
done

# A blob that is not what its name says is nowhere, and nothing of it in any hub.
repository 2 bad "$one"
echo evil >"$(store 2)/models--org--bad/snapshots/$one/config.json"
fmove stage --nodes all hf:org/bad >out 2>err
[ $? -eq 5 ] && grep -q 'n3: failed: .*not what its name says' err || bad "a damaged blob: $(cat out err)"
for i in 1 2 3; do
	[ ! -e "$dir/c/n$i/cache/hf/hub/models--org--bad" ] || bad "n$i has a damaged blob in its hub"
done

# A peer that says which commit a branch is does not lead it there: the source is asked. What is so at the source appears.
know_liar
reachable 2
reachable 3
printf %s "$one" >"$from/refs/known"
liar 3 show "models--org--m@$one" 2
ok fmove stage --nodes n3 "hf:org/m@$one"
lied show
refs=$dir/c/n3/cache/hf/hub/models--org--m/refs
await test -e "$refs/known" || bad "n3 did not hear the liar"
[ "$(<"$refs/known")" = "$one" ] && [ "$(<"$refs/main")" = "$two" ] || bad "n3: refs were led elsewhere"
[ ! -e "$refs/made-up" ] && [ ! -e "$refs/made" ] || bad "n3: refs of nothing"
has 3 2 m "$two" main

# The real thing, where it is.
if python=$(command -v python3); then
	for i in 1 2 3; do
		"$python" "$FM_SOURCE/tests/cli/hf_offline.py" "$dir/c/n$i/cache/hf" "model org/m main $two model.safetensors" \
			"model org/own main $one config.json" >out 2>&1
		case $? in
		0)	;;
		77)	echo "not tried: $(<out)"; break ;;
		*)	bad "n$i: huggingface_hub: $(<out)" ;;
		esac
	done
fi
exit
