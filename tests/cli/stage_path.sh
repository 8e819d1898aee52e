#!/bin/bash
# Goal:   an absolute path is staged as the store that it lies in says; nobody learns more of it than he may.
# Method: a real daemon. Paths of files, directories and stores, through links, in a store within another one; a path that no store
#         has; a user whom the store does not let read, and one whom the directories on the way keep out.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; grace = "0s"; };'
up 2

mkdir -p "$(store 1)/sets/one"
echo one >"$(store 1)/sets/one/f"
echo file >"$(store 1)/sets/file"
ln -s sets "$(store 1)/short"
ln -s "$(store 1)/sets/one" link

# from SOURCE TEXT: TEXT is staged, and SOURCE is what that was.
from() {
	data=$(fmove stage "$2" 2>err) && grep -qF "$1:" err || bad "$2 is not $1: $(cat err)"
}

from n1:s/sets/one "$(store 1)/sets/one"
same "$(store 1)/sets/one/f" "$data/f"
from n1:s/sets/file "$(store 1)/sets/file"
same "$(store 1)/sets/file" "$data"
from n1:s/sets/one "$(store 1)/short/../sets//one/"
from n1:s/sets/one "$PWD/link"
ok fmove stage --as all "$(store 1)" -- sh -c 'test -f "$FMOVE_STAGED/sets/file"'
no 1 'give it one with --as' fmove stage "$(store 1)"

# No store has it: the line that would declare it.
mkdir -p undeclared/set "$(store 1).not"
no 1 "in no store of n1 that you may read.*stores = \( \{ name = \"undeclared\"; directory = \"$PWD/undeclared\"; \} \);" \
	fmove stage "$PWD/undeclared/set"
no 1 'in no store of n1' fmove stage "$(store 1).not"
no 1 'No such file' fmove stage "$(store 1)/nowhere"
no 2 'absolute path' fmove stage ./link

# The innermost of two stores.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
sed -i "s|^stores = (|&\n { name = \"inner\"; directory = \"$(store 1)/sets\"; read = ( \"*\" ); },|" "$dir/c/n1/fmove.conf"
grep -q '"inner"' "$dir/c/n1/fmove.conf" || bad "a second store: $(cat "$dir/c/n1/fmove.conf")"
start_again n1
echo two >"$(store 1)/sets/one/f"
from n1:inner/one "$(store 1)/sets/one"

need_nobody
# What is closed to him on the way is open to him by the rules of the store; what these close stays so, and is not told.
chmod 755 "$dir/c" "$dir/c/n1"
chmod 700 "$(store 1)"
as_nobody test -e "$(store 1)/sets" && bad "nobody may look there"
as_nobody fmove stage "$(store 1)/sets/one" >out 2>err || bad "by the rules of the store: $(cat err)"
grep -qF 'n1:inner/one' err || bad "another store: $(cat err)"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
sed -i 's,read = ( "[*]" ),read = ( "peer:n2" ),; /stores = /,$ s,directory = "[^"]*/s";,& read = ( "peer:n2" );,' "$dir/c/n1/fmove.conf"
start_again n1
for path in "$(store 1)/sets/one" "$(store 1)/sets/nowhere"; do
	no 1 'in no store of n1 that you may read' as_nobody sh -c 'fmove stage "$0"; exit $?' "$path"
done
ok fmove stage "$(store 1)/sets/one"
exit
