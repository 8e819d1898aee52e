#!/bin/bash
# Goal:   with --verbose, put -r and get -r name what they add, replace and remove, as often as they count it and no more; a dry run names what the
#         same command does then. However many names there are, and whatever is in them: one a line, and nothing that a terminal would obey.
# Method: the same trees by all four ways (the command's directory or a store, put or get); the list of a dry run against that of the real one, and
#         both against what find says of the target before and after.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_STORE='old_keep = "0s";'
up 2

# scene WAY: `$source`, `$target`, and `move OPTION...` from the one to the other.
scene() {
	way=$1
	case $way in
	put) verb=put source=$dir/w/source at=$dir/w/source target=$(store 2)/target to=n2:s/target ;;
	get) verb=get source=$(store 2)/source at=n2:s/source target=$dir/w/target to=target ;;
	put-store) verb=put source=$(store 1)/source at=n1:s/source target=$(store 2)/target to=n2:s/target ;;
	get-store) verb=get source=$(store 2)/source at=n2:s/source target=$(store 1)/target to=n1:s/target ;;
	esac
	rm -rf "$source" "$target"
	mkdir -p "$source/sub/deep" "$source/new" "$target"
	for i in same changed sub/same sub/changed; do
		echo "$i" >"$source/$i"
		touch -d @1500000000 "$source/$i"
	done
	ln -s same "$source/link"
	ln -s same "$source/link-changed"
	ln "$source/sub/same" "$source/sub/deep/hard"
	cp -a "$source/." "$target"
	rmdir "$target/new"
	mkdir -p "$target/mine/mine"
	echo mine >"$target/mine/mine/f"
	ln -sfn mine "$target/link-changed"
	chmod 700 "$target/sub/deep"
	chmod 755 "$source/sub/deep"
	echo other >"$source/changed"
	echo other >"$source/sub/changed"
	echo new >"$source/new/f"
	ln -s f "$source/new/l"
	ln "$source/new/f" "$source/new/h"
	head -c 5000000 /dev/zero >"$source/large"
}

move() {
	fmove "$verb" -r "$@" "$at" "$to"
}

# said CHANGE: the paths of `out` that were named so, sorted; the target's own name is cut off.
said() {
	sed -n "s|^$1 *$to/\\{0,1\\}||p" out | sort
}

# names WHAT ADDED REPLACED REMOVED: each as words.
names() {
	local what=$1 change

	shift
	for change in added replaced removed; do
		diff <(said "$change") <(printf '%s\n' $1 | sed '/^$/d' | sort) >names.diff || bad "$way: $what: $change: $(cat names.diff)"
		shift
	done
}

added="large new new/f new/h new/l"
replaced="changed sub/changed link-changed sub/deep"
removed="mine mine/mine mine/mine/f"

named() {
	scene "$1"
	ok move -n --update -v
	names 'a dry run' "$added" "$replaced" ""
	ok move -n --update --delete -v
	names 'a dry run with --delete' "$added" "$replaced" "$removed"
	ok move -n --update --delete
	[ -s out ] && bad "$way: names without -v: $(cat out)"
	ok move --update -v
	names 'an update' "$added" "$replaced" ""
	ok move --update -v
	[ -s out ] && bad "$way: nothing differs, and is named: $(cat out)"
	ok move -n --update --delete -v
	names 'what is left for --delete' "" "" "$removed"
	ok move --update --delete --verbose
	names '--delete' "" "" "$removed"
	scene "$1"
	ok move -n --replace --json
	local counts
	counts="$(json added out) $(json replaced out) $(json removed out)"
	ok move -n --replace -v
	[ "$(said added | wc -l) $(said replaced | wc -l) $(said removed | wc -l)" = "$counts" ] || bad "$way: -n --replace: $counts, not: $(cat out)"
	ok move --replace -v
	[ "$(said removed)" = "$(printf '%s\n' $removed)" ] || bad "$way: --replace: $(cat out)"
	rm -rf "$target"
	ok move -v
	[ "$(wc -l <out)" -eq "$(find "$source" | wc -l)" ] && [ "$(said added | sed '/^$/d')" = "$(cd "$source" && find . -mindepth 1 | sed 's|^\./||' | sort)" ] ||
		bad "$way: a new directory: $(cat out)"
	no_trees
}

# Odd names, and of those that come and of those that go more than two pages of 16 KiB.
odd() {
	scene "$1"
	mkdir "$source/many" "$target/gone"
	(cd "$source/many" && seq -f 'a-name-that-is-not-short-%.0f' 1000 | xargs touch)
	(cd "$target/gone" && seq -f 'another-name-that-is-not-short-%.0f' 1000 | xargs touch)
	printf '' >"$source/$(printf 'new\nline \033[31m \377')"
	ok move -n --update --delete -v
	sort out >dry
	[ "$(grep -c '^added .*/many/a-name' out)" -eq 1000 ] && [ "$(grep -c '^removed .*/gone/another' out)" -eq 1000 ] ||
		bad "$way: of many names $(wc -l <out) were said"
	grep -qF 'new\nline \x1b[31m \xff' out || bad "$way: an odd name: $(grep -a line out)"
	LC_ALL=C grep -q "$(printf '\033')" out && bad "$way: something that a terminal obeys"
	ok move -n --update --delete -v --json
	[ "$(grep -o '"change":"added"' out | wc -l)" -eq "$(grep -c '^added' dry)" ] && [ "$(json removed out)" -eq "$(grep -c '^removed' dry)" ] ||
		bad "$way: --json says something else: $(tail -c 300 out)"
	if command -v python3 >/dev/null; then
		cp out names.json && ok python3 -c 'import json, sys; d = json.load(open(sys.argv[1]))
assert len(d["names"]) == d["added"] + d["replaced"] + d["removed"]' names.json
	fi
	ok move --update --delete -v
	sort out | diff dry - >odd.diff || bad "$way: a dry run named something else: $(head -n 4 odd.diff)"
	no_trees
}

for way in put get put-store get-store; do
	named $way
	odd $way
done

# A reader who takes his time keeps nobody's memory: a page at a time is on its way.
scene put
mkdir "$source/many" && (cd "$source/many" && seq -f 'a-name-that-is-not-short-%.0f' 10000 | xargs touch)
fmove put -r -n -v --update "$source" n2:s/target 2>err | (sleep 2 && wc -l) >count
[ "$(cat count)" -gt 10000 ] || bad "a slow reader got $(cat count) names"

no 2 'leave out --detach' fmove put -r -v --detach "$source" n2:s/x
