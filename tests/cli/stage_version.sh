#!/bin/bash
# Goal:   of a new version of a dataset only what changed is fetched; the rest comes from the version that is here, if that is what it
#         should be, and that version stays whole.
# Method: real daemons. One of 30 files changes: bytes that came, and inodes, tell what was taken. A node that never had the old version
#         says under which name the new one must be. Files of the old version are damaged, the daemon is killed in the midst, names change.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
. "$(dirname "$0")/stage_lib.sh"
# What a reflink shares counts in full, a hard link does not: then two versions and the room of a third fit.
size=130MiB
probe=$(mktemp -d)
touch "$probe/a"
cp --reflink=always "$probe/a" "$probe/b" 2>/dev/null && size=600MiB
rm -r "$probe"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "'$size$'"; grace = "0s"; };'
up 3

source=$(store 2)/set
mkdir -p "$source/d/e"
for i in $(seq 20); do random 3000 "$source/d/small$i"; done
for i in $(seq 10); do random 5000000 "$source/d/e/large$i"; done
chmod 600 "$source/d/small1"
chmod 755 "$source/d/small2" "$source/d/e/large2"
chmod 640 "$source/d/e/large1"
ln "$source/d/small3" "$source/hard"
ln -s d/small3 "$source/link"

# got: bytes that n1 has received.
got() {
	fmove status --json | grep -o '"received_bytes":[0-9]*' | awk -F : '{ sum += $2 } END { print sum }'
}

# takes SOURCE BYTES: stages it; no more bytes than that come, each twice at most (beside a load a connection seems dead, and what was
# under way on it is sent again); it is right, and has the name that a node gives it that has nothing older.
takes() {
	local path=${1#*/} from before

	from=$(store 2)/$path
	before=$(got)
	new=$(fmove stage "$1" 2>err) || bad "stage $1: $(cat err)"
	[ "$(($(got) - before))" -le $((2 * $2)) ] || bad "$1: $(($(got) - before)) bytes came"
	same "$from" "$new"
	fresh=$(at 3 stage "$1" -- sh -c 'echo "$FMOVE_STAGED"' 2>err) || bad "stage $1 at n3: $(cat err)"
	[ "$(basename "$(dirname "$new")")" = "$(basename "$(dirname "$fresh")")" ] || bad "$1: another version than $fresh: $new"
	at 3 unstage "$path" 2>err || bad "unstage at n3: $(cat err)"
	[ -z "$(find "$(dirname "$new")" -mindepth 1 -maxdepth 1 -name '.fmove*' -o -maxdepth 1 -name .taken)" ] ||
		bad "left beside $new: $(ls -A "$(dirname "$new")")"
}

# same A B
same() {
	diff -r --no-dereference "$1" "$2" >diff || bad "$1 and $2 differ: $(head -n 3 diff)"
	[ -z "$(find "$2" ! -type l -perm /222)" ] || bad "$2 can be written to"
}

# One file of 30 changes: it comes. The old version stays whole, and both are what their manifests say.
old=$(fmove stage n2:s/set 2>err) || bad "stage: $(cat err)"
[ "$(got)" -gt 50000000 ] || bad "the first time $(got) bytes came"
cp -a "$source" before
random 5000001 "$source/d/e/large7"
takes n2:s/set 5500000
same before "$old"
[ "$new/d/small3" -ef "$new/hard" ] || bad "a hard link was lost"
if [ $size = 130MiB ]; then
	for f in d/small1 d/small2 d/e/large1 d/e/large2; do
		[ "$old/$f" -ef "$new/$f" ] || bad "$f is there twice"
	done
fi
ok fmove datasets check set

# Names go, come, change places; a file becomes a directory, and the other way.
second=$new
rm -r "$source/d/small4" "$source/d/small5" "$source/hard"
mkdir "$source/d/small5" "$source/empty"
mv "$source/d/small6" "$source/d/small5/in"
mv "$source/d/e/large3" "$source/d/e/moved"
ln "$source/d/e/large4" "$source/d/hard4"
takes n2:s/set 5500000
same before "$old"
[ "$(stat -c %h "$second/d/small3")" -gt 1 ] || bad "the version between lost a name"

# The source is not read for what did not change: other bytes with size and time put back are not seen, but by --check content.
cp -a "$source/d/e/large5" large5
flip "$source/d/e/large5" 1000
echo changed >"$source/d/small7"
third=$(fmove stage n2:s/set 2>err) || bad "stage: $(cat err)"
cmp large5 "$third/d/e/large5" || bad "the source was read for what did not change"
fmove stage --check content n2:s/set >out 2>err
grep -q 'large5' err || bad "--check content does not see other bytes: $(cat out err)"

# What is damaged in the old version comes again, and the old one is not written to.
mkdir "$(store 2)/part"
for i in $(seq 6); do random 1000000 "$(store 2)/part/f$i"; done
old=$(fmove stage n2:s/part 2>err) || bad "stage part: $(cat err)"
spoil "$old/f1" 500000
chmod u+w "$old/f2"
truncate -s 5 "$old/f2"
rm "$old/f3"
mkfifo "$old/f3"
cp "$old/f1" damaged
echo more >>"$(store 2)/part/f4"
takes n2:s/part 4500000
cmp damaged "$old/f1" || bad "the old version was written to"

# The daemon is killed while the rest comes: the next call goes on, and nothing is left of the first.
mkdir "$(store 2)/killed"
for i in $(seq 6); do random 1000000 "$(store 2)/killed/f$i"; done
old=$(fmove stage n2:s/killed 2>err) || bad "stage killed: $(cat err)"
cp -a "$old" whole
for i in 1 2 3; do random 5000000 "$(store 2)/killed/f$i"; done
slow 2
fmove stage n2:s/killed >out 2>err &
stager=$!
moved killed 500000
crash n1
wait $stager && bad "it ended well without its daemon"
fast 2
[ -d "$(echo "$dir"/c/n1/cache/partial/*/.taken)" ] || bad "nothing was taken before it was killed"
start_again n1
reachable 2
takes n2:s/killed 15500000
same whole "$old"

# The daemon stops while it reads the old version: what was taken stays, and the next call goes on.
old=$new
echo more >>"$(store 2)/killed/f6"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
FMOVE_FAULT=stage.read_data:3+2 start_again n1
reachable 2
fmove stage n2:s/killed >out 2>err &
stager=$!
is_logged 'stage.read_data is late' "$dir/c/n1/log" || bad "the old version is not read: $(cat out err)"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
wait $stager && bad "it ended well without its daemon"
[ -d "$(echo "$dir"/c/n1/cache/partial/*/.taken)" ] || bad "what was taken is gone"
start_again n1
reachable 2
takes n2:s/killed 1500000

# A store of the node itself.
own=$(at 2 stage n2:s/part 2>err) || bad "its own store: $(cat err)"
echo more >>"$(store 2)/part/f5"
newer=$(at 2 stage n2:s/part 2>err) || bad "its own store, a new version: $(cat err)"
same "$(store 2)/part" "$newer"
[ $size = 600MiB ] || [ "$own/f6" -ef "$newer/f6" ] || bad "f6 is there twice at n2"
exit
