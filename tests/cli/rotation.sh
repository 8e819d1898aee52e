#!/bin/bash
# Goal:   --keep-last keeps the last of what its link was led to, and removes nothing else, whoever reads, and whoever is killed.
# Method: files, trees, groups and two destinations; a file that is open, links beside, names that were never published by this rule or
#         are something else by now; commands and daemons that are killed at random moments.
. "$(dirname "$0")/lib.sh"
up 3
s=$(store 2)
random 5000 small
random 3000000 large
mkdir -p tree/d
cp small tree/d/

# has DIRECTORY NAME...: these are there, and no others.
has() {
	local at=$1 names

	shift
	names=$(cd "$at" && ls)
	[ "$names" = "$(printf '%s\n' "$@" | sort)" ] || bad "$at has" $names "instead of $*"
}

# step N [OPTION...]: a tree is published as the N-th of the rule.
step() {
	local n=$1

	shift
	ok fmove put -qr --latest last --keep-last 2 "$@" tree "n2:s/r/step$n"
}

# ---- the last two of trees, and what else is there

mkdir -p "$s/r/step0" "$s/r/other"
step 1
step 2
has "$s/r" last other step0 step1 step2
fmove put -r --latest last --keep-last 2 tree n2:s/r/step3 2>said || bad "the third: $(cat said)"
grep -q 'put: removed step1 (--keep-last)' said || bad "what went is not said: $(cat said)"
has "$s/r" last other step0 step2 step3
fmove put --json -r --latest last --keep-last 2 tree n2:s/r/step4 >json || bad "the fourth: $(cat json)"
[ "$(jq -c .rotated json)" = '{"gone":1,"names":["step2"],"stays":""}' ] || bad "JSON: $(jq -c .rotated json)"
ok_room fmove df --json n2:s
jq -e '.stores[0].aside == 0' out >/dev/null || bad "what went is kept aside: $(cat out)"
# Another rule beside it has its own; a put without it counts for none.
ok fmove put -qr --latest best --keep-last 1 tree n2:s/r/best1
ok fmove put -qr --latest best --keep-last 1 tree n2:s/r/best2
ok fmove put -qr --latest last tree n2:s/r/by-hand
step 5
has "$s/r" best best2 by-hand last other step0 step4 step5

# ---- it stays for now: open, led to by a link, not what it was

exec 9<"$s/r/step4/d/small"
fmove put -qr --json --latest last --keep-last 2 tree n2:s/r/step6 >json || bad "beside an open file: $(cat json)"
jq -e '.rotated.gone == 0 and (.rotated.stays | test("\"step4\" stays: a file of it is open.*next rotation"))' json >/dev/null ||
	bad "what stays is not said: $(jq -c .rotated json)"
cmp -s small "$s/r/step4/d/small" || bad "what is read is not there"
exec 9<"$s/r/step4/d"
flock -s 9
fmove put -qr --json --latest last --keep-last 2 tree n2:s/r/step6 --replace >json || bad "beside a lock: $(cat json)"
jq -e '.rotated.gone == 0 and (.rotated.stays | test("\"step4\" stays: .*locked"))' json >/dev/null || bad "a lock: $(jq -c .rotated json)"
exec 9<&-
ln -s step5/d "$s/r/keep"
ln -s ../r/./step6 "$s/r/also"
step 7
step 8
has "$s/r" also best best2 by-hand keep last other step0 step5 step6 step7 step8
rm "$s/r/keep" "$s/r/also"
mv "$s/r/step5" was5			# so that the next one cannot get its inode
cp -r tree "$s/r/step5"			# not what was published under the name
rm -r was5
mv "$s/r/step6" "$s/r/mine"
step 9
has "$s/r" best best2 by-hand last mine other step0 step5 step8 step9
# The same name again is the youngest.
step 8 --replace
step 10
has "$s/r" best best2 by-hand last mine other step0 step10 step5 step8
# A copy of the directory has the record, too, and nothing in it is what that means.
cp -a "$s/r" "$s/copy"
ok fmove put -qr --latest last --keep-last 1 tree n2:s/copy/new
has "$s/copy" best best2 by-hand last mine new other step0 step10 step5 step8
# What is open as the group of somebody goes on.
id=$(fmove group begin n2:s/r/step8/part) || bad "no group"
step 11
step 12
has "$s/r" best best2 by-hand last mine other step0 step11 step12 step5 step8
ok fmove group discard "$id" n2:s/r/step8/part
step 13
has "$s/r" best best2 by-hand last mine other step0 step12 step13 step5

# ---- files, groups, two destinations

for i in 1 2 3 4; do
	ok fmove put -q --latest last --keep-last 3 small "n2:s/f/a$i" "n3:s/f/a$i"
done
has "$s/f" a2 a3 a4 last
has "$(store 3)/f" a2 a3 a4 last
exec 9<"$s/f/a2"
ok fmove put -q --latest last --keep-last 1 small "n2:s/f/a5" "n3:s/f/a5"
has "$s/f" a2 a5 last
has "$(store 3)/f" a5 last
exec 9<&-
for i in 1 2 3; do
	id=$(fmove group begin --members 1 n2:s/g/$i) || bad "no group"
	ok fmove put -q --group "$id" small n2:s/g/$i/m
	fmove group commit --json --latest last --keep-last 2 "$id" n2:s/g/$i >json || bad "the commit: $(cat json)"
done
has "$s/g" 2 3 last
[ "$(find "$s/g" -maxdepth 1 -name '.fmove.*.group' | wc -l)" -eq 2 ] || bad "what was rotated away is kept as a group: $(ls -A "$s/g")"
[ "$(jq -c '.names[0].rotated.names' json)" = '["1"]' ] || bad "the group's JSON: $(cat json)"

# ---- refused

no 2 'say --latest' fmove put --keep-last 2 small n2:s/x
no 2 'say --latest' fmove group commit --keep-last 2 0123456789abcdef0123456789abcdef n2:s/x
no 2 'must be 1 to 1000' fmove put --latest l --keep-last 0 small n2:s/x
no 2 'must be 1 to 1000' fmove put --latest l --keep-last 1001 small n2:s/x
no 2 'must be 1 to 1000' fmove put --latest l --keep-last -1 small n2:s/x
[ -e "$s/x" ] && bad "what is refused is put"

# ---- what was put by a command that was killed before it led the link there stays, until it is put once more

mkdir -p "$s/u"
ok fmove put -qr tree n2:s/u/killed	# as one that is killed leaves it
for i in 1 2 3; do
	ok fmove put -qr --latest last --keep-last 1 tree n2:s/u/$i
done
has "$s/u" 3 killed last
ok fmove put -qr --replace --latest last --keep-last 1 tree n2:s/u/killed
has "$s/u" killed last
ok fmove put -qr --latest last --keep-last 1 tree n2:s/u/4
has "$s/u" 4 last

# ---- groups that are committed at once, some by commands that are killed: what the link leads to is whole all the time

# commit_some NAME: groups, one after the other; each third commit is killed.
commit_some() {
	local i id

	for i in 1 2 3 4 5 6; do
		id=$(fmove group begin --members 1 "n2:s/c/$1$i") || return 1
		fmove put -q --group "$id" small "n2:s/c/$1$i/m" || return 1
		fmove group commit --latest last --keep-last 1 "$id" "n2:s/c/$1$i" >/dev/null 2>&1 &
		if [ $((i % 3)) -eq 0 ]; then
			sleep "0.0$((RANDOM % 10))"
			kill -KILL $! 2>/dev/null
		fi
		wait $! || true
	done 2>/dev/null
}

# It leads to something, and that is whole; unless it was led elsewhere as this looked.
leads_to_whole() {
	local to

	to=$(readlink "$s/c/last") || return 0
	cmp -s small "$s/c/$to/m" || [ "$(readlink "$s/c/last")" != "$to" ]
}

commit_some a &
one=$!
commit_some b &
other=$!
while kill -0 $one 2>/dev/null || kill -0 $other 2>/dev/null; do
	leads_to_whole || bad "commits at once: the link leads to $(readlink "$s/c/last"), and there is $(ls "$s/c")"
done
wait $one && wait $other || bad 'no group beside another one'
id=$(fmove group begin --members 1 n2:s/c/end) || bad 'no group'
ok fmove put -q --group "$id" small n2:s/c/end/m
ok fmove group commit --latest last --keep-last 1 "$id" n2:s/c/end
[ "$(readlink "$s/c/last")" = end ] || bad "the link leads to $(readlink "$s/c/last")"
cmp small "$s/c/last/m" || bad 'what the link leads to is not whole'

# ---- whoever is killed: what the link leads to is whole, at most two and what a kill left unnamed are there, and nothing else went

# whole_or_gone PATH: of a tree.
whole_or_gone() {
	diff -r tree "$1" || [ ! -e "$1" ]
}

mkdir "$s/k"
cp -r tree "$s/k/foreign"
for i in $(seq "${FM_ROUNDS:-10}"); do
	fmove put -qr --latest last --keep-last 2 tree n2:s/k/$i 2>/dev/null &
	pid=$!
	sleep "0.$((RANDOM % 3))$((RANDOM % 10))"
	if [ $((i % 2)) -eq 0 ]; then
		crash n2
	else
		kill -KILL $pid 2>/dev/null
	fi
	wait $pid 2>/dev/null
	[ ! -L "$s/k/last" ] || diff -r tree "$s/k/last" || bad "round $i: what the link leads to is not whole"
	# Where the command was killed, n2 may be taking one of them away, or giving one back, as this looks.
	for at in "$s"/k/*; do
		await whole_or_gone "$at" || bad "round $i: $at is not whole"
	done
	[ $((i % 2)) -ne 0 ] || { start_again n2 && reachable 2; }
done
for i in end1 end2; do
	ok fmove put -qr --latest last --keep-last 2 tree n2:s/k/$i
done
diff -r tree "$s/k/foreign" || bad "what was never published by the rule is not whole"
[ "$(readlink "$s/k/last")" = end2 ] || bad "the link does not lead to the last one"
for at in "$s"/k/.fmove.*; do
	case $at in
	*.rotation | *.old | *.new | *.part | *.journal | *.tree | *.manifest | *'*') ;;
	*) bad "left: $at" ;;
	esac
done
