#!/bin/bash
# Goal:   several nodes that have an older version of a dataset copy from it what did not change; the source is read for the rest only.
# Method: real daemons. A large file between two packs, of which one changes: bytes that the source's node read, and that came to the
#         others. Files of the older version are damaged on one node, then on all.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
. "$(dirname "$0")/stage_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };'
up 3

source=$(store 2)/set
mkdir -p "$source"/{a,c,e}
for i in 1 2 3; do
	random 700000 "$source/a/$i"
	random 900000 "$source/c/$i"
	random 500000 "$source/e/$i"
done
random 70000000 "$source/b"

# got I: bytes that nI has received.
got() {
	at "$1" status --json | grep -o '"received_bytes":[0-9]*' | awk -F : '{ sum += $2 } END { print sum }'
}

# takes READ CAME: n1 and n3 stage it, the source is read for so many bytes, no more than that come to each, all of it twice at most (beside
# a load a connection seems dead, and what was under way on it comes again). $one, $three: where it is.
takes() {
	local read one_got three_got more

	read=$(read_of 2)
	one_got=$(got 1)
	three_got=$(got 3)
	fmove stage --json --nodes n1,n3 n2:s/set >out 2>err || bad "stage: $(cat err)"
	one=$(path_of 1 out)
	three=$(path_of 3 out)
	same "$source" "$one"
	same "$source" "$three"
	more=$(($(read_of 2) - read))
	[ $more -ge "$1" ] && [ $more -le $((2 * $1)) ] || bad "n2 read $more bytes and not $1"
	[ "$(($(got 1) - one_got))" -le $((2 * $2)) ] || bad "$(($(got 1) - one_got)) bytes came to n1"
	[ "$(($(got 3) - three_got))" -le $((2 * $2)) ] || bad "$(($(got 3) - three_got)) bytes came to n3"
}

# same A B
same() {
	diff -r --no-dereference "$1" "$2" >diff || bad "$1 and $2 differ: $(head -n 3 diff)"
	[ -z "$(find "$2" ! -type l -perm /222)" ] || bad "$2 can be written to"
}

# One file of a pack: that pack is read. The older version stays as it was.
takes 76300000 80000000
cp -a "$source" before
old=$one
random 900000 "$source/c/2"
takes 4200000 4500000
same before "$old"
[ -z "$(find "$one" -type f -links +1)" ] || bad "it shares files with the older version"
ok fmove datasets check set

# Sizes change, names come and go: what is cut otherwise is the same bytes.
random 100 "$source/a/0"
rm "$source/e/2"
takes 2100100 2500000

# What is damaged on one node comes from the other, and the older version is not mended on the way. If the other has not said yet that it has
# it, as it may not on a busy machine, the source is read for that pack, too.
spoil "$one/a/1" 500000
cp "$one/a/1" damaged
old=$one
echo more >>"$source/e/1"
takes 3700005 6200000
cmp damaged "$old/a/1" || bad "the older version was written to"

# What is damaged on all nodes is read again.
for path in "$one" "$three"; do
	chmod u+w "$path/a" "$path/a/3"
	rm "$path/a/3"
	mkfifo "$path/a/3"
done
echo more >>"$source/e/1"
takes 5800110 6200000
exit
