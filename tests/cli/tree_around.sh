#!/bin/bash
# Goal:   what is put into a directory is there under its name when it is called done, also if the directory around it was replaced by a new version
#         meanwhile. As long as it comes, the old version that it began in stays, whatever asks for room; so does what is nowhere else.
# Method: a put of a file and one of a tree, both slow; meanwhile the directory around them is brought up to date, or replaced by one that lacks the
#         place they go to; then they may be fast.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_STORE='old_keep = "1h";'
up 2
s=$(store 2)
random 24000000 big
mkdir w v && split -b 1000000 big w/

# begin DIR: slow puts of `big` and `w` into n2:s/DIR.
begin() {
	slow 1
	fmove put --quiet big "n2:s/$1/big" 2>file.err &
	file=$!
	fmove put -r --quiet w "n2:s/$1/w" 2>tree.err &
	tree=$!
	journaled "$s/$1"
	moved "$1/w" 1
}

# finish DIR: they are still on their way; when they end they are there.
finish() {
	fmove status --json >out
	grep -q "\"path\":\"$1/w\"" out && grep -q "\"path\":\"$1/big\"" out || bad "they ended before: the test looks at nothing"
	fast 1
	wait $file || bad "put big: $(cat file.err)"
	wait $tree || bad "put -r w: $(cat tree.err)"
	same big "$s/$1/big"
	same_tree w "$s/$1/w"
	[ -n "$(find "$s/$1" -maxdepth 1 -name '.fmove.*.manifest')" ] || bad "the manifest did not come along: $(ls -la "$s/$1")"
	ok fmove verify "n2:s/$1"
}

# ---- brought up to date

echo 1 >v/version
ok fmove put -r v n2:s/a
begin a
mkdir "$s/a/.fmove.0123456789abcdef.kept" && echo 'nowhere else' >"$s/a/.fmove.0123456789abcdef.kept/f"
echo 2 >v/version
ok fmove put -r --update v n2:s/a
fmove purge n2:s >out 2>&1
old=$(find "$s" -maxdepth 1 -name '.fmove.*.old')
[ -d "$old" ] || bad "what transfers go on in was removed: $(cat out)"
finish a
[ "$(cat "$s/a/version")" = 2 ] || bad "the new version went"
# Now only what is nowhere else holds it.
fmove purge n2:s >out 2>&1
[ -f "$old/a/.fmove.0123456789abcdef.kept/f" ] || bad "what is nowhere else was removed: $(cat out)"
rm -r "$old/a/.fmove.0123456789abcdef.kept"
ok fmove purge n2:s
[ ! -e "$old" ] || bad "purge left $(find "$old")"

# ---- replaced as a whole, by one that has no such directory

mkdir v/sub && echo 1 >v/sub/f
ok fmove put -r v n2:s/b
begin b/sub
rm -r v/sub
ok fmove put -r --replace v n2:s/b
[ ! -e "$s/b/sub" ] || bad "the replaced directory is there"
finish b/sub
