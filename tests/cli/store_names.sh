#!/bin/bash
# Goal:   who may write to a directory of a store cannot have the service remove what is another's by giving it one of fmove's names: not by the
#         sweep, not by a purge, not when room is needed, not when a transfer ends or goes on there.
# Method: as root, the service; nobody renames directories of root's in a store that all may write to.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
need_nobody
export FM_CLUSTER_STORE='owner = "caller"; old_keep = "0s"; partial_keep = "1s"; quota = "20MiB";'
up 2
s=$(store 2)
chmod 755 "$dir/c" "$dir/c/n2" && chmod 777 "$s" && chmod 666 "$dir"/c/n1/fmoved.sock

restart() {
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
	start_again n2
	reachable 2
}

looked_through() {
	fmove df n2:s --json | grep -q '"counting":false'
}

# named NAME: a directory of root's, which nobody else may enter, is called that.
named() {
	mkdir -m 700 "$s/roots" && echo precious >"$s/roots/f"
	as_nobody mv "$s/roots" "$s/$1" || bad 'the directory is not as shared as this test means it'
}

# kept NAME...
kept() {
	local name
	for name; do
		[ "$(cat "$s/$name/f")" = precious ] || bad "$name went, which is root's: $(ls -lA "$s")"
	done
}

# ---- a tree that nobody left unfinished, and its names

mkdir mine && random 6000000 mine/f && chmod 755 mine && chmod 644 mine/f
setpriv --reuid nobody --regid "$(id -gn nobody)" --clear-groups env --default-signal=INT \
	fmove put -r --keep-partial --limit 100kB/s mine n2:s/tree >/dev/null 2>err.left &
put=$!
moved tree 700000
kill -INT $put
wait $put
tree=$(basename "$(find "$s" -maxdepth 1 -name '.fmove.*.tree')")
[ -n "$tree" ] || bad "nothing unfinished is left: $(ls -lA "$s")"
named "${tree%.tree}.new"
named .fmove.0123456789abcde0.new
named .fmove.0123456789abcde1.old
named .fmove.0123456789abcde2.kept
named .fmove.0123456789abcde3.tree
all="${tree%.tree}.new .fmove.0123456789abcde0.new .fmove.0123456789abcde1.old .fmove.0123456789abcde2.kept .fmove.0123456789abcde3.tree"
sleep 1.1	# longer than either is kept
restart
await looked_through || bad "the store is never looked through: $(fmove df n2:s --json)"
# shellcheck disable=SC2086
kept $all

# ---- what a purge leaves it names, with what to do

no 1 '.fmove.0123456789abcde1.old" stays: .*by hand' fmove purge n2:s
ok_room fmove df n2:s --json
grep -q '"aside_trees":1' out || bad "df does not show it: $(cat out)"
random 15000000 first && ok fmove put first n2:s/first
random 15000000 second && no 6 'quota' fmove put second n2:s/second
# shellcheck disable=SC2086
kept $all

# ---- a transfer that goes on there, or ends

ok fmove rm n2:s/first
ok as_nobody fmove put -r mine n2:s/tree
ok as_nobody fmove put -r --replace mine n2:s/tree
restart
await looked_through || bad "the store is never looked through: $(fmove df n2:s --json)"
[ "$(find "$s" -name f -type f -exec grep -l precious {} + | wc -l)" -eq 5 ] || bad "something of root's went: $(find "$s")"
