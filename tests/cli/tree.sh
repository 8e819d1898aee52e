#!/bin/bash
# Goal:   what put -r sends is there as it was, and what get -r brings too: every kind of entry, every attribute that is kept.
# Method: one tree with everything in it, there and back, compared by a listing and checksums; where it may go, and what is said.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_STORE='old_keep = "0s";'
up 2

mkdir -p a/d/e a/empty a/' spaces and
lines ' a/deep
for i in $(seq 400); do echo "$i" >"a/d/f$i"; done
: >a/zero
random 1 a/one
random 65536 a/d/e/block
random 65537 a/d/e/more
random 4194304 a/edge
random 4194305 a/large1
random 30000001 a/d/large2
truncate -s 3000000 a/hole-only
truncate -s 9000000 a/holes
printf x | dd of=a/holes bs=1 seek=5000000 conv=notrunc status=none
printf y >>a/holes
ln -s nowhere a/broken
ln -s ../one a/d/link
ln -s /etc/passwd a/absolute
ln -s . a/d/e/round
ln a/one a/d/one-again
ln a/one a/empty/../one-more
ln a/large1 a/d/large-again
touch "a/d/$(printf 'latin \xe9\xff')" "a/$(printf 'tab\tand \x01')" 'a/ -n' 'a/*' a/.hidden
touch "a/$(head -c 255 /dev/zero | tr '\0' n)"
long=a/deep
for _ in $(seq 40); do long=$long/$(head -c 80 /dev/zero | tr '\0' d); mkdir "$long"; done
echo deep >"$long/f"
chmod 600 a/d/f1
chmod 755 a/d/f2
chmod 444 a/d/f3
chmod 000 a/empty
chmod 1777 a/deep
chmod 700 a/d
chmod 4755 a/d/f4	# a set-id bit, which does not travel
touch -d @1234567890.123456789 a/one
touch -d @-5.5 a/d/f5
touch -h -d @987654321.987654321 a/broken
touch -d @1111111111.000000001 a/d a

ok fmove put -r a n2:s/a
grep -Eq '^fmove: a -> n2:s/a: [0-9,]+ files, .*, plain tcp .*, durable$' err || bad "the last line: $(cat err)"
chmod 755 a/d/f4
same_tree a "$(store 2)/a"
ok fmove get -r n2:s/a b
same_tree a b
[ "$(stat -c %b "$(store 2)/a/hole-only")" -lt 20 ] || bad "a file of holes takes $(stat -c %b "$(store 2)/a/hole-only") blocks"
[ "$(stat -c %b "$(store 2)/a/holes")" -lt 1000 ] || bad "holes were filled in the store"
[ "$(stat -c %b b/holes)" -lt 1000 ] || bad "holes were filled on the way back"
[ "$(stat -c %i b/one)" = "$(stat -c %i b/d/one-again)" ] || bad "hard links are copies"
[ "$(stat -c %i b/large1)" = "$(stat -c %i b/d/large-again)" ] || bad "hard links of a large file are copies"
no_trees

# Where to: PATH becomes the tree, PATH/ gets it. Missing parents are made.
mkdir small
echo 1 >small/f
ok fmove put -r small n2:s/x/y/z
same_tree small "$(store 2)/x/y/z"
ok fmove put -r small n2:s/x/
same_tree small "$(store 2)/x/small"
ok fmove put -r small/ n2:s
same_tree small "$(store 2)/small"
ok fmove put -r small a/one n2:s/both/
same_tree small "$(store 2)/both/small"
same a/one "$(store 2)/both/one"
no 2 'several sources' fmove put -r small a/one n2:s/nowhere
no 1 'has no name' fmove put -r . n2:s/x/
(cd small && fmove put -r . n2:s/dot) 2>err || bad "put -r .: $(cat err)"
same_tree small "$(store 2)/dot"
ln -s small link
ok fmove put -r link n2:s/linked
same_tree small "$(store 2)/linked"

ok fmove get -r n2:s/x/small got
same_tree small got
mkdir into
ok fmove get -r n2:s/x/small into/
same_tree small into/small
(cd into && rm -rf small && fmove get -r n2:s/x/small .) 2>err || bad "get -r into .: $(cat err)"
same_tree small into/small
ok fmove get -r n2:s whole
same_tree small whole/x/small
no 2 'name of its own' fmove get -r n2:s into/
no 2 'standard output' fmove get -r n2:s/x -

# A file with -r is a file.
ok fmove put -r a/one n2:s/file
same a/one "$(store 2)/file"
ok fmove get -r n2:s/file file
same a/one file
mkdir nothing
ok fmove put -r nothing n2:s/nothing
same_tree nothing "$(store 2)/nothing"
ok fmove get -r n2:s/nothing nothing2
same_tree nothing nothing2

# --exclude: names, or paths.
mkdir -p ex/.git/x ex/sub/.git ex/sub/keep
touch ex/a.o ex/sub/b.o ex/sub/keep/c ex/.git/y ex/sub/keep/d.o
ok fmove put -r --exclude '*.o' --exclude .git --exclude 'sub/keep/c' ex n2:s/ex
(cd "$(store 2)/ex" && find . | sort) >out
printf '%s\n' . ./sub ./sub/keep | cmp - out || bad "--exclude sent $(cat out)"
ok fmove put -r ex n2:s/ex2
ok fmove get -r --exclude '*.o' --exclude 'sub/*' n2:s/ex2 ex3
(cd ex3 && find . | sort) >out
printf '%s\n' . ./.git ./.git/x ./.git/y ./sub | cmp - out || bad "get --exclude brought $(cat out)"

# More to exclude than a request holds, as each of these characters takes six bytes of it: it says so.
odd=$(printf '\001%.0s' $(seq 255))
many=()
for _ in $(seq 64); do
	many+=(--exclude "$odd")
done
no 1 'patterns to exclude' fmove get -r "${many[@]}" n2:s/ex2 ex4

# --json, --quiet, --durability.
ok fmove put -r --json --quiet --durability memory a n2:s/j
[ -s err ] && bad "--quiet says $(cat err)"
[ "$(json tree out)" = true ] && [ "$(json durable out)" = false ] && [ "$(json dry_run out)" = false ] || bad "--json: $(cat out)"
[ "$(json files out)" -eq "$(find a -type f -printf '%i\n' | sort -u | wc -l)" ] || bad "files in --json: $(cat out)"
[ "$(json hard_links out)" -eq 3 ] && [ "$(json links out)" -eq 4 ] || bad "links in --json: $(cat out)"
[ "$(json dirs out)" -eq "$(find a -mindepth 1 -type d -printf x | wc -c)" ] || bad "directories in --json: $(cat out)"
[ "$(json bytes out)" -eq "$(find a -type f -printf '%i %s\n' | sort -u | awk '{ n += $2 } END { print n }')" ] || bad "bytes in --json: $(cat out)"

# A whole tree takes the place of another, and who is in the old one reads on.
exec 9<"$(store 2)/x/small/f"
echo 22 >small/f
echo new >small/g
no 6 'exists' fmove put -r small n2:s/x/small
ok fmove put -r --replace small n2:s/x/small
same_tree small "$(store 2)/x/small"
[ "$(cat <&9)" = 1 ] || bad "the old version changed under its reader"
rm small/g
ok fmove get -r --replace n2:s/x/small got
[ -e got/g ] || bad "get -r --replace did not bring the new version"
ok fmove put -r --replace small n2:s/x/small
[ -e "$(store 2)/x/small/g" ] && bad "what was removed is still there"
chmod 755 "$(store 2)"/*/empty b/empty a/empty whole/*/empty
no_trees
