#!/bin/bash
# Goal:   whatever fails at a node while several stage together, the command ends, what it says is so, and the same command again has it everywhere.
# Method: a daemon that is started anew with one call that will fail, the first or a later one; the node that asks and the source's. Each
#         time another version of the source, of a few extents.
#
#   FM_STAGE_FAULTS   which: NODE:NAME:N each (a sample)
. "$(dirname "$0")/lib.sh"
# A node that is started anew says up to a minute later that what it holds elsewhere is held no more: there is room for all versions.
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "2GiB"; grace = "0s"; peers = [ "*" ]; };'
up 2

source=$(store 2)/set
mkdir -p "$source/d"
for i in $(seq 20); do random 3000 "$source/d/f$i"; done
random 70000000 "$source/large"
ln -s d/f1 "$source/link"

restart() {
	"$FM_SOURCE/tests/cluster" stop "$dir/c" "n$1"
	env ${2:+"FMOVE_FAULT=$2"} "$FM_SOURCE/tests/cluster" start "$dir/c" "n$1" || bad "n$1 does not start for $2"
	reachable 2
}

# what_is_said WHEN: who is said to have it has it. What was compared and was not written to since is not compared again.
declare -A compared
what_is_said() {
	local i data state

	for i in 1 2; do
		data=$(sed -n "s/^fmove: n$i: ready: //p" err)
		[ -n "$data" ] || continue
		state=$(find "$source" "$data" -printf '%p %i %s %T@ %C@\n') || bad "$1: n$i has no $data"
		[ "${compared[$data]:-}" != "$state" ] || continue
		diff -r --no-dereference "$source" "$data" || { bad "$1: n$i differs: $(cat err)"; continue; }
		compared[$data]=$state
	done
}

# Those of one node one after the other: each start of it with another one takes the one before away.
faults=${FM_STAGE_FAULTS:-"1:stage.landed:1 1:stage.op:1 1:stage.laid_write:1 1:cache.syncfs:2 1:stage.landing:3 1:stage.run:1 1:stage.older_extents:1
	1:stage.fill:2 1:stage.manifest_copy:1 1:stage.folded:1 2:stage.landed:1 2:stage.op:1 2:stage.offered:1 2:stage.out:2 2:stage.together:2"}
round=0 armed=
for fault in $faults; do
	node=${fault%%:*}
	round=$((round + 1))
	echo $round >"$source/round"
	[ "$fault" = 1:stage.older_extents:1 ] || touch -d "@$round" "$source/large"	# else it comes from the version before
	[ "${armed:-$node}" = "$node" ] || restart "$armed"
	restart "$node" "${fault#*:}"
	armed=$node
	timeout "$HANG_S" fmove stage --nodes all n2:s/set >out 2>err
	status=$?
	[ $status -ne 124 ] || bad "$fault: it does not end: $(cat err)"
	kill -0 "$(cat "$dir/c/n$node/pid")" || bad "$fault: n$node is gone"
	echo "$fault: $status: $(tail -n 1 err)"
	what_is_said "$fault"
	timeout "$HANG_S" fmove stage --nodes all n2:s/set >out 2>err || bad "$fault: again: $(cat err)"
	what_is_said "$fault, again"
done
restart "$armed"

# fails WHY: n1 does not get it.
fails() {
	timeout "$HANG_S" fmove stage --nodes n1 n2:s/set >out 2>err && bad "it is here, though: $1"
	grep -q "n1: failed: .*$1" err || bad "not told: $1: $(cat err)"
}

# What came, and is damaged before it is made READY, does not become that.
echo damaged >"$source/round"
touch -d "@100" "$source/large"
restart 1 stage.manifest_copy:1
fails 'make the manifest of set'
damaged=$(find "$dir/c/n1/cache/partial" -path '*/set/large')
[ -n "$damaged" ] || bad "what came is not there: $(find "$dir/c/n1/cache/partial")"
printf xxxx | dd of="$damaged" bs=1 seek=1000 conv=notrunc status=none
touch -d "@100" "$damaged"
fails 'n2:s/set before is damaged on the disk of the cache: that is thrown away'
timeout "$HANG_S" fmove stage --nodes all n2:s/set >out 2>err || bad "damaged, again: $(cat err)"
what_is_said "damaged, again"

# The same if another node finds it meanwhile: at once, and nothing of it is left for the next one.
# That is looked at when all came, and last (the third time) when all is synced.
for n in 1 3; do
	echo "spoilt $n" >"$source/round"
	touch -d "@20$n" "$source/large"
	restart 1 stage.spoilt:$n
	fails 'what came of n2:s/set is damaged on the disk of the cache: that is thrown away'
	[ -z "$(find "$dir/c/n1/cache/partial" -path '*/set/large')" ] || bad "spoilt $n: it is kept: $(find "$dir/c/n1/cache/partial")"
	timeout "$HANG_S" fmove stage --nodes all n2:s/set >out 2>err || bad "spoilt $n, again: $(cat err)"
	what_is_said "spoilt $n, again"
done

# Behind that it is ready, and who asked hears what to do.
echo "spoilt 4" >"$source/round"
restart 1 stage.spoilt:4
timeout "$HANG_S" fmove stage --nodes all n2:s/set >out 2>err || bad "spoilt 4: $(cat err)"
what_is_said "spoilt 4"
grep -q 'warning: n2:s/set was found damaged on the disk of n1 just when it became ready: "fmove datasets check set" there mends it' err || bad "spoilt 4: no warning: $(cat err)"

# What came is thrown away where a copy with another source's name is here already: that was not damaged. If that has other bytes, it is said why.
cp -a "$source/d" "$(store 2)/twin"
ok fmove stage n2:s/twin -- true
cp -a "$(store 2)/twin" "$(store 2)/same"
restart 1 stage.spoilt:3
timeout "$HANG_S" fmove stage --nodes n1 n2:s/same >out 2>err || bad "spoilt, another copy: $(cat err)"
[[ $(<out) = */twin ]] || bad "spoilt, another copy: it is not that: $(cat out)"
grep damaged err && bad "the copy that was here is called damaged"
cp -a "$(store 2)/twin" "$(store 2)/third"
printf xxxx | dd of="$(<out)/f1" bs=1 seek=1000 conv=notrunc status=none
touch -r "$(store 2)/twin/f1" "$(<out)/f1"
restart 1 stage.spoilt:3
timeout "$HANG_S" fmove stage --nodes n1 n2:s/third >out 2>err && bad "spoilt, other bytes: it is here, though"
grep -q 'n1: failed: .*what came of n2:s/third is damaged on the disk of the cache: that is thrown away' err || bad "spoilt, other bytes: $(cat err)"

# If what was listed is not to be read again, what came is not called damaged, and stays.
echo draft >"$source/round"
restart 1 stage.lay_end:1
fails 'the draft of the manifest of n2:s/set is damaged on the disk of n1: run it again'
[ -n "$(find "$dir/c/n1/cache/partial" -path '*/large')" ] || bad "the draft: nothing stays: $(find "$dir/c/n1/cache/partial")"
timeout "$HANG_S" fmove stage --nodes all n2:s/set >out 2>err || bad "the draft, again: $(cat err)"
what_is_said "the draft, again"

# A node that has it finds a part of it bad when another one asks for that: all have right bytes, and who asked hears what to do.
echo upload >"$source/round"
touch -d "@300" "$source/large"
restart 2 stage.upload:1
use 2
timeout "$HANG_S" fmove stage s/set >out 2>err || bad "n2 alone: $(cat err)"
use 1
timeout "$HANG_S" fmove stage --nodes all n2:s/set >out 2>err || bad "upload: $(cat err)"
what_is_said upload
grep -q 'warning: extent [0-9]* of n2:s/set is damaged on the disk of n2 (Input/output error): "fmove datasets check set" there mends it' err || bad "upload: no warning: $(cat err)"

# That it has no descriptor left for a moment says nothing of its disk.
restart 2 stage.upload_files:1
await fmove unstage set || bad "n1 keeps it: $(fmove unstage set 2>&1)"
timeout "$HANG_S" fmove stage --nodes all n2:s/set >out 2>err || bad "upload_files: $(cat err)"
what_is_said upload_files
grep -q 'stage.upload_files fails' "$dir/c/n2/log" || bad "upload_files: nothing was read from the disk of n2"
grep damaged err && bad "upload_files: it is called damaged"
[ "$(grep -c 'is damaged on the disk' "$dir/c/n2/log")" = 1 ] || bad "upload_files: n2's log calls it damaged"

# Nor does it if the part has come again, with other bytes, since it was asked for.
restart 2 stage.upload_old:1
await fmove unstage set || bad "n1 keeps it: $(fmove unstage set 2>&1)"
timeout "$HANG_S" fmove stage --nodes all n2:s/set >out 2>err || bad "upload_old: $(cat err)"
what_is_said upload_old
grep -q 'stage.upload_old fails' "$dir/c/n2/log" || bad "upload_old: nothing was read from the disk of n2"
grep damaged err && bad "upload_old: it is called damaged"
[ "$(grep -c 'is damaged on the disk' "$dir/c/n2/log")" = 1 ] || bad "upload_old: n2's log calls it damaged"

# A node that is invited asks the source again, where its session to it was replaced just then.
echo invited >"$source/round"
restart 1 stage.looked:1
use 2
reachable_at_2() {
	fmove ls n1:s
}
await reachable_at_2 || bad "n2 cannot ask n1"
fmove stage --nodes all s/set >out 2>err || bad "n1, invited: $(cat err)"
what_is_said "invited"

# The node of the source has no descriptor left for the draft of its listing: it lists it again.
echo draft >"$source/round"
use 1
restart 2 stage.draft_dup:1
use 2
timeout "$HANG_S" fmove stage --nodes all s/set >out 2>err || bad "draft_dup: $(cat err)"
what_is_said draft_dup
grep -q "^fault: stage.draft_dup" "$dir/c/n2/log" || bad "draft_dup: there was no draft"
exit
