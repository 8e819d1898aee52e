#!/bin/bash
# Goal:   fmove get takes several sources, and patterns of names, into a directory; what fails is told and the rest comes.
# Method: files whose names a shell would and would not expand, beside names that look like patterns; --json, exit statuses, twins, directories
#         with -r, a store of this node as target, a node that is away.
. "$(dirname "$0")/lib.sh"
up 3
s=$(store 2)
mkdir -p "$s"/run{7,8}/deep "$s/odd"
for i in 1 2 3; do
	random $((i * 1000)) "$s/run7/$i.pt"
done
random 500 "$s/run7/.hidden.pt"
random 500 "$s/run7/log"
random 700 "$s/run8/8.pt"
random 800 "$s/run7/deep/d.pt"
ln -s run7 "$s/link"

# Several names.
mkdir in
ok fmove get n2:s/run7/1.pt n2:s/run8/8.pt in
same "$s/run7/1.pt" in/1.pt
same "$s/run8/8.pt" in/8.pt
[ "$(find in -type f | wc -l)" -eq 2 ] || bad "more than was asked for: $(ls -A in)"

# Patterns: as a shell has them; a dot at the beginning and a slash are matched by themselves only.
got() {
	rm -rf in && mkdir in
	ok fmove get "${@:2}" in/
	[ "$(cd in && find . -type f -o -type l | LC_ALL=C sort | tr '\n' ' ')" = "$1" ] || bad "get ${*:2}: $(cd in && find . | tr '\n' ' ')"
}
got './1.pt ./2.pt ./3.pt ' 'n2:s/run7/*.pt'
same "$s/run7/2.pt" in/2.pt
got './1.pt ./3.pt ' 'n2:s/run7/[13].pt'
got './.hidden.pt ' 'n2:s/run7/.*.pt'
got './8.pt ./d.pt ' 'n2:s/run[7-9]/deep/*.pt' 'n2:s/run8/*.pt'
got './1.pt ./2.pt ./3.pt ./8.pt ' 'n2:s/run?/?.pt'
got './log ' 'n2:s/r*7/log'			# what has no pattern must be there
got './log ' 'n2:s/l*k/log'			# through a link
use 2
fmove get 'n2:s/run7/*.pt' in 2>err		# the node's own store
[ $? -eq 1 ] && [ "$(grep -c 'this node: copy the file with cp' err)" -eq 3 ] || bad "the own store: $(cat err)"
use 1

# A name that is there stands for itself.
for name in '*' '[a]' 'x?' $'\x1b[31m*' 'two *' $'line\n*'; do
	random 100 "$s/odd/$name"
	rm -rf in && mkdir in
	ok fmove get "n2:s/odd/$name" in
	same "$s/odd/$name" "in/$name"
done
rm "$s/odd/x?"
random 100 "$s/odd/x1"
got './x1 ' 'n2:s/odd/x?'
got $'./\x1b[31m* ' $'n2:s/odd/\x1b\\[*'	# a backslash takes a character as it is

# The directory of the caller must be there, however it is spelled; it is said once.
for to in none none/; do
	no 1 "^fmove: get: several sources go into a directory: \"$to\" is none; \"mkdir -p\" makes it$" \
		fmove get 'n2:s/run7/*.pt' $to
	[ "$(wc -l <err)" -eq 1 ] || bad "a directory that is missing is said again and again: $(cat err)"
done
echo >plain
no 1 'several sources go into a directory: "plain" is none$' fmove get 'n2:s/run7/*.pt' plain

# Nothing matches; some fail.
no 1 '^fmove: get: n2:s/none\*: nothing there matches$' fmove get 'n2:s/none*' in
no 1 'n2:s/run7/1.pt/\*: nothing there matches' fmove get 'n2:s/run7/1.pt/*' in
no 1 'x1b\[2J\*: nothing there matches$' fmove get $'n2:s/\x1b[2J*' in
grep -q $'\x1b' err && bad "an escape character came through: $(od -c err)"
rm -rf in && mkdir in
random 10 in/2.pt
fmove get -q 'n2:s/run7/*.pt' in 2>err
[ $? -eq 3 ] || bad "one of three exists: $(cat err)"
grep -q 'in/2.pt' err || bad "it is not said which exists: $(cat err)"
same "$s/run7/3.pt" in/3.pt
fmove get -q 'n2:s/run7/[12].pt' 'n2:s/nothing*' n2:s/none n2:s/run8/8.pt in -f 2>err
[ $? -eq 3 ] || bad "some are not there: $(cat err)"
[ "$(wc -l <err)" -eq 2 ] || bad "two are not there: $(cat err)"
same "$s/run8/8.pt" in/8.pt
fmove get --json -f -q 'n2:s/run7/[12].pt' n2:s/none in >out 2>err
[ $? -eq 3 ] || bad "--json: $(cat err)"
tr -d '\n' <out | grep -Eq '^\{"files":\[\{.*"source":"n2:s/run7/1.pt".*\},\{.*"source":"n2:s/run7/2.pt".*\},\{.*"source":"n2:s/none".*"ENOENT".*\],"done":2,"failed":1,.*"exit":3\}$' ||
	bad "--json of several: $(cat out)"
fmove get --json -f -q 'n2:s/run7/[1].pt' in >out 2>err
grep -q '^{"files":' out || bad "--json of a pattern that matches one: $(cat out)"

# Directories: -r; without it each is refused by itself.
rm -rf in && mkdir in
fmove get -q 'n2:s/run7/*' in 2>err
[ $? -eq 3 ] && grep -q 'deep is a directory.* get -r ' err || bad "a directory among files: $(cat err)"
rm -rf in && mkdir in
ok fmove get -r 'n2:s/run*' in
diff -r "$s/run7" in/run7 || bad "-r of a pattern: $(find in)"
diff -r "$s/run8" in/run8 || bad "-r of a pattern: $(find in)"

# Two that would be one; what is no directory; too many words for standard output.
mkdir -p "$s/twin" && random 10 "$s/twin/1.pt"
rm -rf in && mkdir in
no 6 'would both become .1.pt.' fmove get -f n2:s/run7/1.pt n2:s/twin/1.pt in
no 6 'would both become .1.pt.' fmove get -f 'n2:s/*/1.pt' in
[ -z "$(ls -A in)" ] || bad "one of two twins came: $(ls in)"
no 1 'several sources go into a directory: .nowhere. is none' fmove get n2:s/run7/1.pt n2:s/run7/2.pt nowhere
no 1 'several sources go into a directory' fmove get 'n2:s/run7/*.pt' nowhere
no 1 'mkdir -p' fmove get 'n2:s/run7/1*' nowhere/
no 2 'not to standard output' fmove get n2:s/run7/1.pt n2:s/run7/2.pt -
no 2 'NODE:STORE/PATH' fmove get n2:s/run7/1.pt f in
no 2 'is a directory: get -r' fmove get n2:s/run7/1.pt n2:s/run7/ in

# A store of this node as target, and jobs that go on alone.
ok fmove get -q 'n2:s/run7/*.pt' n1:s/mine/
same "$s/run7/2.pt" "$(store 1)/mine/2.pt"
rm -rf in && mkdir in
ok fmove get --detach 'n2:s/run7/[12].pt' in
[ "$(wc -l <out)" -eq 2 ] || bad "two jobs are not told: $(cat out)"
xargs fmove wait <out 2>err || bad "the jobs fail: $(cat err)"
same "$s/run7/1.pt" in/1.pt
same "$s/run7/2.pt" in/2.pt

# A file that takes longer than --timeout keeps no other one from being tried, unless its node does not answer.
random 8000000 "$s/run7/slow"
rm -rf in && mkdir in
slow 2
for time in 2 8 32 128; do	# a busy machine takes longer for the small ones
	random $((time * 4000000)) "$s/run7/slow"
	fmove get --json -q --timeout ${time}s n2:s/run7/slow n2:s/run7/1.pt n2:s/run8/8.pt in >out 2>err
	status=$?
	[ ! -e in/8.pt ] || break
done
fast 2
[ $status -eq 3 ] && grep -q 'time that --timeout gave' err || bad "one of three takes too long: $(cat err)"
grep -q 'not tried' err && bad "the others were not tried: $(cat err)"
same "$s/run7/1.pt" in/1.pt
same "$s/run8/8.pt" in/8.pt
rm "$s/run7/slow"

# A node that is away is told once; what is on others comes.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
rm -rf in && mkdir in
fmove get -q --timeout 2s n2:s/run7/1.pt n2:s/run7/2.pt n2:s/run7/3.pt in 2>err
[ $? -eq 4 ] || bad "n2 is away: $(cat err)"
grep -q '2 more not tried' err || bad "the others were tried, too: $(cat err)"
fmove get --json -q --timeout 2s n2:s/run7/1.pt n2:s/run7/2.pt n3:s/none n2:s/run7/3.pt in >out 2>err
python3 - <<-'END' || bad "--json of what was not tried: $(cat out)"
import json
result = json.load(open("out"))
assert [f["source"][-4:] for f in result["files"]] == ["1.pt", "2.pt", "none", "3.pt"], result
assert result["failed"] == 4 and result["done"] == 0, result
for n in 1, 3:
    assert result["files"][n]["exit"] == 4, result
    assert result["files"][n]["error"]["text"] == "not tried: the node could not be reached", result
END
random 10 one
random 10 two
fmove put --json -q --timeout 2s one two n2:s/away/ >out 2>err
[ $? -eq 4 ] && grep -q '1 more not tried' err && [ "$(grep -o '"source":"[a-z]*","target":"[^"]*","exit":4' out | wc -l)" -eq 2 ] ||
	bad "puts to a node that is away: $(cat out err)"
random 300 "$(store 3)/3.pt"
for time in 2 8 32 128; do	# a busy machine takes longer for what is on n3
	rm -f in/3.pt
	fmove get -q --timeout ${time}s n2:s/run7/1.pt n3:s/3.pt n2:s/run7/2.pt in 2>err
	status=$?
	[ ! -e in/3.pt ] || break
done
[ $status -eq 3 ] || bad "n2 is away, n3 is not: $(cat err)"
same "$(store 3)/3.pt" in/3.pt
grep -q '1 more not tried' err || bad "n2 was tried again: $(cat err)"
no 4 'n2' fmove get -q --timeout 2s 'n2:s/run7/*.pt' in
start_again n2
