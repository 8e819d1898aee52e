#!/bin/bash
# Goal:   in a store with access = "group" the group of its directory reads what comes, whatever
#         modes it had; what is sent again without a change stays as it is.
# Method: files, a tree and a directory that is made, all closed to others, are read by a user who
#         has that group and by one who has not.
. "$(dirname "$0")/lib.sh"
need_nobody
up 2

group=54321

# reads yes|no FILE: whether nobody can, with that group; without it never.
reads() {
	local got=no

	setpriv --reuid nobody --regid $group --clear-groups cat "$(store 2)/$2" >/dev/null 2>&1 && got=yes
	[ $got = "$1" ] || bad "$2 is read by the group: $got: $(stat -c '%a %g' "$(store 2)/$2")"
	as_nobody cat "$(store 2)/$2" >/dev/null 2>&1 && bad "$2 is read by others"
}

umask 077
mkdir -p tree/sub && echo 1 >tree/f && echo 2 >tree/sub/g && random 5000000 tree/large
chmod 0200 tree/sub/g && echo 3 >one && chmod 700 tree/f
chgrp $group "$(store 2)" && chmod 2750 "$(store 2)"
chmod 755 "$dir/c" "$dir/c/n2"
ok fmove put one n2:s/before
reads no before

"$FM_SOURCE/tests/cluster" stop "$dir/c" n2 || bad "n2 does not stop"
sed -i 's/^\( *name = "s";\)/\1 access = "group";/' "$dir/c/n2/fmove.conf"
start_again n2
reachable 2
ok fmove put one n2:s/one
ok fmove put -r tree n2:s/tree
ok fmove put one n2:s/new/dir/one
ok fmove mkdir n2:s/made
ok fmove put one n2:s/made/one
ok fmove put one n2:s/tree/sub/one
for file in one tree/f tree/large new/dir/one made/one tree/sub/one; do
	reads yes $file
done
reads no tree/sub/g		# its owner may not read it
[ "$(stat -c %a "$(store 2)/tree/f")" = 750 ] || bad "an executable: $(stat -c %a "$(store 2)/tree/f")"

rm "$(store 2)/tree/sub/one"
inode=$(stat -c %i "$(store 2)/tree")
ok fmove put -r --update tree n2:s/tree
grep -q unchanged err || bad "an update without changes: $(cat err)"
[ "$(stat -c %i "$(store 2)/tree")" -eq "$inode" ] || bad "an update without changes published"
echo 4 >tree/f && ok fmove put -r --update tree n2:s/tree
reads yes tree/f
reads yes tree/large
ok fmove get -r n2:s/tree back
