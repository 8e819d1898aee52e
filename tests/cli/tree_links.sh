#!/bin/bash
# Goal:   symbolic links that lead out of a directory are counted and told of; with -L what links
#         lead to is sent; a snapshot of a hub cache is known, and what to do with it is said.
# Method: a hub cache and a tree with links of every kind, by put with and without -L, and by get.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
up 2

repo=hub/models--org--name
mkdir -p $repo/blobs $repo/snapshots/rev/sub
for file in a b; do
	random 5000 $repo/blobs/$file
	ln -s ../../blobs/$file $repo/snapshots/rev/$file
done
random 5000000 $repo/blobs/large
ln -s ../../../blobs/large $repo/snapshots/rev/sub/large

# Links as they are: nobody takes that for the files.
ok fmove put -r --json $repo/snapshots/rev n2:s/bare
[ "$(json leaving_links out)" = 3 ] || bad "links that lead out: $(cat out)"
grep -q '3 symbolic links lead into the blobs of this hub cache, .*put -r -L .*fmove stage hf:org/name,' err ||
	bad "what is said of a snapshot: $(cat err)"
ok fmove get -r --json n2:s/bare bare
[ "$(json leaving_links out)" = 3 ] || bad "links that lead out, in a get: $(cat out)"
grep -q '3 symbolic links lead out of it, .* put -r -L, run at the node that has it, sends' err ||
	bad "what is said in a get: $(cat err)"
ok fmove put -r --json $repo n2:s/repo
[ "$(json leaving_links out)" = 0 ] || bad "links of a whole repository: $(cat out)"
ok fmove get -r n2:s/repo/snapshots/rev bare-too
! grep -q 'links lead into the blobs' err || bad "no repository's name, but it is said: $(cat err)"
ok fmove put -r hub n2:s/hub
ok fmove get -r n2:s/$repo/snapshots/rev bare-three
grep -q '3 symbolic links lead into the blobs of that hub cache, .*: fmove stage hf:org/name brings the files' err ||
	bad "what is said of a snapshot in a get: $(cat err)"

# What they lead to; again, nothing differs.
ok fmove put -r -L --json $repo/snapshots/rev n2:s/files
[ "$(json files out)" = 3 ] && [ "$(json links out)" = 0 ] && [ "$(json leaving_links out)" = 0 ] ||
	bad "a snapshot with -L: $(cat out)"
for file in a b; do
	same $repo/blobs/$file "$(store 2)/files/$file"
	[ -L "$(store 2)/files/$file" ] && bad "$file is a link"
done
same $repo/blobs/large "$(store 2)/files/sub/large"
ok fmove put -r -L --update $repo/snapshots/rev n2:s/files
grep -q unchanged err || bad "an update with -L: $(cat err)"

# Directories, deep and twice; a size for which names are read in parts.
mkdir -p tree/d outside/deep
echo 1 >outside/deep/f
ln -s ../../outside tree/d/out
ln -s d/out tree/again
ln -s "$PWD/outside/deep/f" tree/abs
ok fmove put -r -L tree n2:s/tree
for path in d/out/deep/f again/deep/f abs; do
	same outside/deep/f "$(store 2)/tree/$path"
done
ok fmove put -r --json tree n2:s/links
[ "$(json leaving_links out)" = 2 ] || bad "two of three links lead out: $(cat out)"

# What has no end, and what leads to nothing, are named; what is excluded is not looked at.
ln -s .. outside/deep/up
no 1 '"deep/up" leads back to a directory that it is in' fmove put -r -L outside n2:s/loop
rm outside/deep/up
ln -s nothing outside/gone
no 1 '"gone" is a symbolic link that leads to nothing' fmove put -r -L outside n2:s/gone
ok fmove put -r -L --exclude gone outside n2:s/gone
no 2 'copy-links' fmove put -L tree/abs n2:s/one
no 2 'detach' fmove put -r -L --detach tree n2:s/later
cp -a tree "$(store 1)/own"
no 1 'links in a store are not followed' fmove put -r -L n1:s/own n2:s/own
no_trees
