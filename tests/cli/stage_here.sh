#!/bin/bash
# Goal:   a directory of a store of this node is staged as one of another node is: whole, read with the caller's rights, never a
#         mixture, and once.
# Method: a real daemon. What is READY is compared with its source. The source changes between two requests, and so do the store's rules.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; grace = "0s"; };'
up 2

source=$(store 1)/set
mkdir -p "$source/d/empty"
for i in $(seq 50); do random 3000 "$source/d/f$i"; done
random 20000001 "$source/large"
truncate -s 9000000 "$source/holes"
random 5000 "$source/holey"
truncate -s 12000000 "$source/holey"
ln -s d/f1 "$source/link"
ln "$source/d/f2" "$source/hard"

# By STORE/PATH and by the node's own name it is the same.
data=$(fmove stage s/set 2>err) || bad "stage: $(cat err)"
grep -q 'n1:s/set.*fetched as' err || bad "it was not fetched: $(cat err)"
[ "$(grep -c 'warning: the cache of this node is on the file system of the source: the copy uses no second disk' err)" = 1 ] ||
	bad "not said once that it is the same disk: $(cat err)"
fmove stage --json s/set 2>err | grep -q '"warning":"the cache of this node is on the file system of the source' ||
	bad "not said in the object: $(cat err)"
diff -r --no-dereference "$source" "$data" || bad "the copy differs"
[ "$(stat -c %i "$data/d/f2")" = "$(stat -c %i "$data/hard")" ] || bad "a hard link was lost"
[ "$(stat -c %i "$data/large")" != "$(stat -c %i "$source/large")" ] || bad "it is the source's own file"
(($(stat -c %b "$data/holes") * 512 < 1000000)) || bad "a hole was filled"
(($(stat -c %b "$data/holey") * 512 < 1000000)) || bad "a hole was filled behind data"
[ -z "$(find "$data" ! -type l -perm /222)" ] || bad "something can be written to"
[ "$(fmove stage n1:s/set 2>err)" = "$data" ] && grep -q 'unchanged' err || bad "the second time: $(cat err)"

# The same content elsewhere in the store is the same dataset, once it was compared; on another node, with rules of its own, it is another one.
cp -a "$source" "$(store 1)/same"
[ "$(fmove stage s/same 2>err)" = "$data" ] || bad "of the same store: $(cat err)"
cp -a "$source" "$(store 2)/set"
far=$(fmove stage n2:s/set 2>err) && [ "$far" != "$data" ] && diff -r --no-dereference "$source" "$far" || bad "of another node: $(cat err)"
grep warning err && bad "another node's disk is said to be this one's"

# A change is another version.
echo more >"$source/d/new"
other=$(fmove stage s/set 2>err) || bad "a changed source: $(cat err)"
[ "$other" != "$data" ] && diff -r --no-dereference "$source" "$other" || bad "the new version differs"

# Five at once: one copy.
cp -a "$source" "$(store 1)/many"
echo many >"$(store 1)/many/d/many"
for i in $(seq 5); do fmove stage s/many >"many.$i" 2>"many.err.$i" & done
wait
[ "$(sort -u many.[0-9]* | wc -l)" -eq 1 ] && [ -s many.1 ] || bad "five at once: $(cat many.err.*)"
diff -r --no-dereference "$(store 1)/many" "$(cat many.1)" || bad "five at once differ"

# Whom the store does not let read, may not stage, and not even what is there already.
if [ "$(id -u)" -eq 0 ] && id nobody >/dev/null 2>&1; then
	chmod 755 "$dir/c" "$dir/c/n1"
	ok as_nobody fmove stage s/set
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
	sed -i '/stores = /,$ s,directory = "[^"]*/s";,& read = ( "peer:n2" );,' "$dir/c/n1/fmove.conf"
	grep -q 'read = ( "peer:n2" )' "$dir/c/n1/fmove.conf" || bad "the store's rules: $(cat "$dir/c/n1/fmove.conf")"
	start_again n1
	as_nobody fmove stage s/set >out 2>err
	[ $? -eq 6 ] && [ ! -s out ] && grep -q 'may not read here' err || bad "nobody may not read the store: $(cat out err)"
fi
exit
