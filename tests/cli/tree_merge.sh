#!/bin/bash
# Goal:   what only the target has stays: --update merges, --delete and --replace remove, and nothing else does; put and get alike.
# Method: a target with files, links, hard links, fifos, deep directories and odd names that the source has not, looked at before and after;
#         daemons and commands that are killed in the midst; another user's files.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_STORE='old_keep = "0s";'
up 2
odd=$'odd \xff\xfe\n"name" *'

# scene put|get: `$source` and what is under `$target` to begin with; `move OPTION...` moves the one to the other.
scene() {
	way=$1
	if [ "$way" = put ]; then
		source=$dir/w/source target=$(store 2)/target at=$dir/w/source to=n2:s/target
	else
		source=$(store 2)/source target=$dir/w/target at=n2:s/source to=target
	fi
	rm -rf "$source" "$target"
	mkdir -p "$source/sub" "$target"
	echo 1 >"$source/f1"
	echo 2 >"$source/f2"
	ln -s f1 "$source/link"
	ln "$source/f2" "$source/sub/hard"
	touch -d @1500000000 "$source/f1" "$source/sub"
	cp -a "$source/." "$target"
}

# What a get replaced goes at once, as in the stores here.
move() {
	local status

	fmove "$way" -r "$@" "$at" "$to"
	status=$?
	[ "$way" = put ] || fmove purge "$dir/w" >/dev/null 2>purge.err || bad "purge: $(cat purge.err)"
	return $status
}

# What only the target has.
extras() {
	local deep=$target/only/$(printf 'd%.0s/' $(seq 200))

	mkdir -p "$deep" "$target/only/empty" "$target/sub/mine"
	echo deep >"$deep/f"
	echo mine >"$target/mine"
	ln "$target/mine" "$target/only/mine2"
	ln "$target/f1" "$target/only/f1-too"
	ln -s nowhere "$target/only/dangling"
	echo x >"$target/sub/mine/x"
	echo odd >"$target/only/$odd"
	mkfifo "$target/only/fifo"
	setfattr -n user.what -v mine "$target/only" 2>/dev/null
	chmod 2750 "$target/only"
	chmod 500 "$target/only/empty"
	chmod 640 "$target/mine"
	touch -d @1400000000.5 "$target/only/empty" "$target/only" "$target/mine"
	touch -h -d @1300000000 "$target/only/dangling"
	names_of >extras.before
}

# Those of `extras`, each with all that can be seen of it; one a line.
names_of() {
	(cd "$target" && find only mine sub/mine -printf '%y %m %U %G %T@ %n %l %p\0' | sort -z | tr '\0\n' '\n?')
	(cd "$target" && getfattr -d only 2>/dev/null)
}

# The target, but for the numbers of links: an unfinished version beside it has some.
looks() {
	(cd "$target" && find . -printf '%y %m %T@ %l %p\0' | sort -z | tr '\0\n' '\n?')
	sums "$target"
}

# What was replaced has links to some of it until it is removed, which may be behind the answer.
are_same_extras() {
	names_of | diff extras.before - >extras.diff
}

same_extras() {
	await are_same_extras || bad "$way: what only the target has is another: $(head -n 6 extras.diff)"
	[ "$target/mine" -ef "$target/only/mine2" ] || bad "$way: hard links are two files now"
	[ "$(cat "$target/only/$odd")" = odd ] || bad "$way: the content of an odd name"
}

# counts ADDED REPLACED REMOVED KEPT: of --json in `out`.
counts() {
	local got

	got="$(json added out) $(json replaced out) $(json removed out) $(json kept out)"
	[ "$got" = "$*" ] || bad "$way: added, replaced, removed, kept: $got, not $*"
}

# Without --delete all of it stays, and the result says so.
merges() {
	scene "$1"
	extras
	echo changed >"$source/f1"
	echo new >"$source/new"
	mkdir "$source/newdir"
	before=$(ls -di "$target")
	kept=$(cd "$target" && find only mine sub/mine -printf x | wc -c)
	ok move -n --json --update || return
	counts 2 1 0 "$kept"
	[ "$before" = "$(ls -di "$target")" ] && [ ! -e "$target/new" ] || bad "$way: a dry run changed something"
	ok move -n --update
	grep -q "2 added, 1 replaced, 0 removed, $kept only there kept" err || bad "$way: a dry run says: $(cat err)"
	ok move --json --update || return
	counts 2 1 0 "$kept"
	grep -q "2 added, 1 replaced, 0 removed, $kept only there kept" err || bad "$way: the last line: $(cat err)"
	[ "$(cat "$target/f1")" = changed ] && [ "$(cat "$target/new")" = new ] && [ -d "$target/newdir" ] || bad "$way: the update did not come"
	[ "$(cat "$target/only/f1-too")" = 1 ] || bad "$way: a hard link was written through"
	# f1-too was another name of what f1 was: it has one name less now.
	sed -i '/f1-too/s/ 2  only/ 1  only/' extras.before
	same_extras
	[ "$target/f2" -ef "$target/sub/hard" ] || bad "$way: hard links of the source are two files"
	no_trees
}

# built: when anything was made beside the target or in it, or got another name, by what the kernel notes of it.
built() {
	stat -c '%Y %y' "$(dirname "$target")"
	find "$target" -printf '%C@ %n %p\0' | sort -z | tr '\0\n' '\n?'
}

# move OPTION..., and nothing was built for it.
moves_nothing() {
	local try

	touch built.after
	for try in 1 2 3; do	# what was replaced before may be removed meanwhile
		built >built.before
		ok move "$@" || return
		built >built.after
		! cmp -s built.before built.after || return 0
	done
	bad "$way: $*: something was built where nothing differs: $(diff built.before built.after | head -n 4)"
}

# Nothing differs: nothing is published, and nothing was made.
unchanged() {
	scene "$1"
	extras
	before=$(ls -di "$target")
	kept=$(cd "$target" && find only mine sub/mine -printf x | wc -c)
	moves_nothing --json --update || return
	counts 0 0 0 "$kept"
	[ "$(json reused_files out)" -eq 2 ] && [ "$(json hard_links out)" -eq 1 ] && [ "$(json links out)" -eq 1 ] && [ "$(json dirs out)" -eq 1 ] ||
		bad "$way: what is unchanged: $(cat out)"
	grep -q 'unchanged.*nothing was published' err || bad "$way: the last line: $(cat err)"
	[ "$before" = "$(ls -di "$target")" ] || bad "$way: the same was published again"
	same_extras
	moves_nothing --update --checksum
	[ "$before" = "$(ls -di "$target")" ] || bad "$way: the same was published again with --checksum"
	chmod 600 "$source/f2"
	ok move --json --update || return
	[ "$(json replaced out)" -gt 0 ] || bad "$way: another mode is no difference: $(cat out)"
	[ "$(stat -c %a "$target/f2")" = 600 ] || bad "$way: another mode did not come"
	same_extras
	before=$(ls -di "$target")
	chmod 700 "$source/sub"
	ok move --json --update || return
	[ "$(stat -c %a "$target/sub")" = 700 ] || bad "$way: another mode of a directory did not come"
	same_extras
	before=$(ls -di "$target")
	ok move --json --update || return
	[ "$before" = "$(ls -di "$target")" ] || bad "$way: the same was published once more: $(cat out)"
	# With --delete there is something to do.
	ok move -n --json --update --delete || return
	counts 0 0 "$kept" 0
	ok move --json --update --delete || return
	counts 0 0 "$kept" 0
	same_tree "$source" "$target"
	moves_nothing --update --delete
	no_trees
}

# A file where a directory is, and the other way.
kinds() {
	scene "$1"
	extras
	echo file >"$source/only"
	no 6 'target/only.*exists.*directory' move --update
	no 6 'target/only.*exists.*directory' move -n --update
	same_extras
	ok move --json --update --force || return
	[ "$(cat "$target/only")" = file ] && [ "$(cat "$target/mine")" = mine ] || bad "$way: --force: $(ls "$target")"
	[ "$(json removed out)" -gt 200 ] && [ "$(json kept out)" -eq 3 ] || bad "$way: --force counts: $(cat out)"

	scene "$1"
	extras
	mkdir "$source/mine"
	echo in >"$source/mine/in"
	no 6 'target/mine.*exists.*no directory' move --update
	same_extras
	# One name is replaced, by a directory, and counts once.
	ok move -n --json --update --delete
	[ "$(json replaced out)" -eq 1 ] || bad "$way: a dry run with a directory in the place of a file: $(cat out)"
	ok move --json --update --delete
	[ "$(json replaced out)" -eq 1 ] && [ "$(json added out)" -eq 1 ] || bad "$way: a directory in the place of a file: $(cat out)"
	same_tree "$source" "$target"
	no_trees
}

# A directory that is there is replaced by --replace alone.
replaces() {
	scene "$1"
	extras
	no 6 'target.*exists.*--update.*--replace.*/' move
	no 6 'target.*exists.*--update.*--replace.*/' move --force
	no 6 'target.*exists.*--update.*--replace.*/' move -n
	same_extras
	ok move -n --json --replace
	[ "$(json removed out)" -gt 200 ] || bad "$way: a dry run of --replace: $(cat out)"
	same_extras
	ok move --json --replace
	[ "$(json removed out)" -gt 200 ] && [ "$(json kept out)" -eq 0 ] || bad "$way: --replace counts: $(cat out)"
	same_tree "$source" "$target"
	echo file >"$source.file"
	no 2 'delete needs --update' move --delete
	no 2 'exclude each other' move --update --replace
	no_trees
}

# Many, and it takes no descriptor and no memory for each.
many() {
	scene "$1"
	mkdir "$target/many"
	(cd "$target/many" && seq -f 'extra-%.0f' 5000 | xargs touch -d @1600000000.123456789)
	echo more >"$source/more"
	ok move --json --update || return
	counts 1 0 0 5001
	[ "$(find "$target/many" -type f -newermt @1600000000 ! -newermt @1600000001 | wc -l)" -eq 5000 ] || bad "$way: not all of 5,000 stayed"
	[ "$(stat -c %h "$target/many/extra-17")" -eq 1 ] || bad "$way: the version that was replaced is still there"
}

for way in put get; do
	merges $way
	unchanged $way
	kinds $way
	replaces $way
	many $way
done

# Options that need others.
no 2 'delete needs --update' fmove put -r --delete source n2:s/x
no 2 'put: --replace needs --recursive' fmove put --replace source/f1 n2:s/x
# A file is replaced by --force, not by --replace; a directory beside it the other way.
mkdir -p beside/d && echo 1 >beside/f && echo 1 >beside/d/f
ok fmove put -r beside/f beside/d n2:s/beside/
echo 22 >beside/f
echo 22 >beside/d/f
fmove put -r --force beside/f beside/d n2:s/beside/ >out 2>err && bad "--force replaced a directory"
[ "$(cat "$(store 2)/beside/f")" = 22 ] && [ "$(cat "$(store 2)/beside/d/f")" = 1 ] || bad "--force of a file and a directory: $(cat err)"
echo 333 >beside/f
fmove put -r --replace beside/f beside/d n2:s/beside/ >out 2>err && bad "--replace replaced a file"
[ "$(cat "$(store 2)/beside/f")" = 22 ] && [ "$(cat "$(store 2)/beside/d/f")" = 22 ] || bad "--replace of a file and a directory: $(cat err)"
ok fmove put -r beside/d n2:s/beside/d/
[ -e "$(store 2)/beside/d/d/f" ] || bad "a / at the end does not put it inside"

# Between stores of two nodes, by the daemons alone.
mkdir -p "$(store 1)/own" "$(store 2)/own" && echo 1 >"$(store 1)/own/a" && echo 2 >"$(store 2)/own/b"
ok fmove put -r --update n1:s/own n2:s/own
[ "$(cat "$(store 2)"/own/?)" = $'1\n2' ] || bad "between stores: $(ls "$(store 2)/own")"
mkdir "$(store 1)/own2" && echo 3 >"$(store 1)/own2/c"
ok fmove get -r --update --json n2:s/own n1:s/own2
[ "$(cat "$(store 1)"/own2/?)" = $'1\n2\n3' ] && [ "$(json kept out)" -eq 1 ] || bad "get between stores: $(ls "$(store 1)/own2"): $(cat out)"
no 6 'exists' fmove get -r --force n2:s/own n1:s/own2
ok fmove get -r --update --delete n2:s/own n1:s/own2
[ -e "$(store 1)/own2/c" ] && bad "--delete between stores removed nothing"

# What was there keeps its digest, what somebody else put there has none; verify finds nothing wrong with either, and what is missing.
scene put
rm -rf "$target"
ok fmove put -r "$source" n2:s/target
echo other >"$target/other"
ln -s f1 "$target/otherlink"
mkdir next && echo 1 >next/n
ok fmove put -r --update next n2:s/target
ok fmove verify n2:s/target
grep -q 'without digest' err || bad "verify of what was merged: $(cat err)"
rm "$target/f1"
fmove verify n2:s/target >out 2>err
[ $? -eq 5 ] && grep -q 'missing: target/f1' out || bad "verify of what is missing: $(cat out err)"

# Killed in the midst: the old version is there, whole, and the same command goes on.
scene put
extras
random 12000000 "$source/large"
looks >looks.before
fmove put -r --update --limit 150kB/s "$source" n2:s/target >out 2>err &
moved target 600000
kill -KILL "$(cat "$dir/c/n2/pid")"
wait $!
looks | diff looks.before - >looks.diff || bad "a killed daemon left another target: $(head -n 4 looks.diff)"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2 >/dev/null 2>&1
ok "$FM_SOURCE/tests/cluster" start "$dir/c" n2
reachable 2
ok fmove put -r --update --json "$source" n2:s/target
cmp -s "$source/large" "$target/large" || bad "it did not go on"
same_extras
scene get
extras
random 12000000 "$source/large"
looks >looks.before
fmove get -r --update --limit 150kB/s n2:s/source target >out 2>err &
moved source 600000
kill -KILL $!
wait $! 2>/dev/null
ended source
looks | diff looks.before - >looks.diff || bad "a killed command left another target: $(head -n 4 looks.diff)"
ok fmove get -r --update n2:s/source target
ok fmove purge .
cmp -s "$source/large" target/large || bad "it did not go on"
same_extras
no_trees
