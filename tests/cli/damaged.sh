#!/bin/bash
# Goal:   what an earlier try left is read again before it is published: where it is not what it was, it comes again, and the result says so.
# Method: transfers that are killed when the journal says that something is there; a bit of that is flipped, with its time put back; then the
#         same command again. Files and trees, put and get; what has nothing to do with each other goes on side by side.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
up 2
SLOW=--limit=500kB/s
big=$dir/w/big
random 12000000 "$big"
mkdir tree tree/sub
for i in 1 2 3 4 5 6 7 8 9; do random 300000 tree/sub/$i; done
random 9000000 tree/large

# flip FILE OFFSET: one bit, and nothing tells but the content.
flip() {
	local time byte

	time=$(stat -c %y "$1")
	byte=$(od -An -tu1 -j "$2" -N 1 "$1")
	printf "\\$(printf %o $((byte ^ 8)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
	touch -d "$time" "$1"
}

# killed DIR PATH COMMAND...: it is ended once a journal in DIR has something; no node has its transfer any more.
killed() {
	local where=$1 path=$2

	shift 2
	"$@" >out 2>err &
	await has_any_journal "$where" || bad "nothing was written down in $where"
	kill -KILL $!
	wait $! 2>/dev/null
	ended "$path"
}

# A file's or a tree's.
has_any_journal() {
	[ -n "$(find "$1" -maxdepth 2 -path '*/.fmove.*journal' -size +0)" ]
}

# mended COMMAND...: it succeeds, and says what was damaged.
mended() {
	ok "$@" --json || return
	[ "$(json damaged_bytes out)" -gt 0 ] || bad "$*: nothing was found to be damaged: $(cat out)"
	grep -q 'was damaged since, and came again' err || bad "$*: it does not say what was damaged: $(cat err)"
}

# The same, and the CRC is that of what is there.
mended_file() {
	mended "$@"
	[ "$(json crc32c out)" = "$crc" ] || bad "$*: its CRC32C: $(cat out)"
}

put() {
	killed "$(store 2)/put" put/x fmove put $SLOW "$big" n2:s/put/x
	flip "$(store 2)"/put/.fmove.*.part 5000
	mended_file fmove put "$@" "$big" n2:s/put/x
	same "$big" "$(store 2)/put/x"
	ok fmove verify n2:s/put/x
	no_partials . "$(store 2)/put"
}

put_readback() {
	killed "$(store 2)/readback" readback/x fmove put --verify=readback $SLOW "$big" n2:s/readback/x
	flip "$(store 2)"/readback/.fmove.*.part 5000
	mended_file fmove put --verify=readback "$big" n2:s/readback/x
	same "$big" "$(store 2)/readback/x"
}

get() {
	killed . there fmove get $SLOW n2:s/there got
	flip .fmove.*.part 5000
	mended_file fmove get n2:s/there got
	same "$big" got
	no_partials .
}

# All that is there of the small ones, and the beginning of the large one.
flip_tree() {
	local file

	for file in "$1"/data/sub/* "$1"/data/large; do
		[ ! -s "$file" ] || flip "$file" 5000
	done
}

put_tree() {
	killed "$(store 2)/tree" tree/x fmove put -r $SLOW ../tree n2:s/tree/x
	flip_tree "$(store 2)"/tree/.fmove.*.tree
	mended fmove put -r ../tree n2:s/tree/x
	same_tree ../tree "$(store 2)/tree/x"
	ok fmove verify n2:s/tree/x
}

get_tree() {
	killed . tree-there fmove get -r $SLOW n2:s/tree-there got
	flip_tree .fmove.*.tree
	mended fmove get -r n2:s/tree-there got
	same_tree ../tree got
}

mkdir "$(store 2)"/{put,readback,tree}
ok fmove put --json "$big" n2:s/there
crc=$(json crc32c out)
ok fmove put -r tree n2:s/tree-there
for story in put put_readback get put_tree get_tree; do
	aside $story
done
together
idle
no_trees
