#!/bin/bash
# Goal:   --update moves only what differs, and still publishes a whole tree; --dry-run says the same and changes nothing.
# Method: count what was moved from --json, and compare the trees; the old version is held open and must not change.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_STORE='old_keep = "0s";'
up 2

mkdir -p a/sub
for i in $(seq 100); do random 5000 "a/f$i"; done
random 6000000 a/sub/large
random 7000000 a/sub/large2
ln -s f1 a/link
ln a/f2 a/hard
ok fmove put -r a n2:s/a
inode=$(stat -c %i "$(store 2)/a/f10")

# Nothing differs.
ok fmove put -r -n --json --update a n2:s/a
[ "$(json wanted_files out)" -eq 0 ] && [ "$(json files out)" -eq 102 ] && [ "$(json dry_run out)" = true ] || bad "a dry run: $(cat out)"
ok fmove put -r --json --update a n2:s/a
[ "$(json reused_files out)" -eq 102 ] || bad "an update without changes: $(cat out)"
[ "$(json data_bytes out)" -lt 100000 ] || bad "an update without changes sent $(json data_bytes out) bytes"
same_tree a "$(store 2)/a"
grep -q 'unchanged' err || bad "the last line of an update: $(cat err)"

# Some differ: in content and time, in mode only, new ones, ones that are gone, a directory that became a file.
echo changed >a/f1
chmod 600 a/f3
rm a/f4
mkdir a/new
random 3000 a/new/f
random 6000000 a/sub/large
rm a/link
mkdir a/link
ok fmove put -r -n --update --delete a n2:s/a
grep -Eq 'would send [34] of 102 files' err || bad "a dry run: $(cat err)"
[ "$(cat "$(store 2)/a/f1" | wc -c)" -eq 5000 ] || bad "a dry run changed something"
no_trees
exec 9<"$(store 2)/a/f1"
ok fmove put -r --json --update --delete a n2:s/a
[ "$(json reused_files out)" -ge 98 ] || bad "an update: $(cat out)"
[ "$(json data_bytes out)" -lt 6200000 ] || bad "an update sent $(json data_bytes out) bytes"
grep -q ', 6[.0-9]* MB of it moved, ' err || bad "an update says what it moved, not a rate: $(cat err)"
same_tree a "$(store 2)/a"
[ "$(wc -c <&9)" -eq 5000 ] || bad "the old version changed under its reader"
exec 9<&-
no_trees
# By hard link, unless the file system has reflinks; what is not the same must never share.
case $(stat -f -c %T "$(store 2)") in
btrfs | xfs) ;;
*) [ "$(stat -c %i "$(store 2)/a/f10")" -eq "$inode" ] || bad "an unchanged file was copied" ;;
esac

# --checksum: the same size and time, other content; and the same content, another time.
ok fmove put -r --update a n2:s/a
touch -r a/f20 stamp
random 5000 a/f20
touch -r stamp a/f20
touch -d @1500000000 a/f21
ok fmove put -r -n --update --json a n2:s/a
[ "$(json wanted_files out)" -eq 1 ] || bad "by time: $(cat out)"
ok fmove put -r --checksum --json a n2:s/a
[ "$(json data_bytes out)" -lt 100000 ] || bad "--checksum sent $(json data_bytes out) bytes"
same_tree a "$(store 2)/a"

# The same way back.
ok fmove get -r n2:s/a b
same_tree a b
echo other >a/f30
ok fmove put -r --update a n2:s/a
ok fmove get -r -n --json --update n2:s/a b
[ "$(json wanted_files out)" -eq 1 ] && [ "$(json files out)" -eq 102 ] || bad "a dry get: $(cat out)"
[ "$(head -c 5 b/f30)" = other ] && bad "a dry get changed something"
ok fmove get -r --json --update n2:s/a b
[ "$(json reused_files out)" -eq 101 ] || bad "get --update: $(cat out)"
ok fmove purge .		# what was replaced, and has names of the same files
same_tree a b
no_trees

# Without --update a dry run of something new says all of it.
ok fmove put -r -n --json a n2:s/fresh
[ "$(json wanted_files out)" -eq 102 ] || bad "a dry run of a new tree: $(cat out)"
[ -e "$(store 2)/fresh" ] && bad "a dry run made something"
no_trees

# One in which there is no file: nothing of it is offered.
mkdir -p bare/empty && ln -s nowhere bare/link
ok fmove put -r -n --json bare n2:s/bare
[ "$(json added out)" -eq 3 ] && [ "$(json files out)" -eq 0 ] || bad "a dry run of directories and links: $(cat out)"
ok fmove put -r bare n2:s/bare
ok fmove put -r -n --update bare n2:s/bare
ln -sfn elsewhere bare/link
ok fmove get -r -n --update -v n2:s/bare bare
[ "$(cat out)" = 'replaced bare/link' ] || bad "a dry get of directories and links: $(cat out)"

# Files beside directories.
ok fmove put -r a/f1 n2:s/one
ok fmove put -r --update a/f1 n2:s/one
grep -q 'unchanged' err || bad "a file that is the same: $(cat err)"
ok fmove get -r --update n2:s/one one
ok fmove get -r --update n2:s/one one
grep -q 'unchanged' err || bad "a file that is the same: $(cat err)"
echo 2 >a/f1
ok fmove put -r -n a/f1 n2:s/two
[ -e "$(store 2)/two" ] && bad "a dry run sent a file"
ok fmove put -r --update a/f1 n2:s/one
same a/f1 "$(store 2)/one"

# An update goes through the source once, where the target has room for all that the source's file system holds: a second walk would come
# to the reading that fails here.
if [ "$(stat -f -c '%b - %f' . | xargs expr)" -lt "$(stat -f -c %a .)" ]; then
	mkdir flat && echo >flat/f
	ok fmove put -r flat n2:s/flat
	ok env FMOVE_FAULT=scan.getdents:3 fmove put -r --update flat n2:s/flat
	FMOVE_FAULT=scan.getdents:1 fmove put -r --update flat n2:s/flat 2>err && bad "the source was not read: $(cat err)"
fi
