#!/bin/bash
# Goal:   what many processes put as members of a group is seen at once and whole, or not at all.
# Method: three nodes, several processes at once, files and trees; every refusal; a daemon that is restarted or killed in between; several
#         destinations; a group that expires; who commits is killed at random moments.
. "$(dirname "$0")/lib.sh"
up 3
s=$(store 2)
random 5000 small
random 3000000 large
random 40000000 larger
random 100000000 largest
mkdir -p tree/d
cp small tree/d/f
cp large tree/large

# only DIR NAME...: the directory has these names; what fmove keeps beside trees does not count.
only() {
	local where=$1
	shift
	[ "$(ls "$where")" = "$(printf '%s\n' "$@" | sort)" ] || bad "$where has $(ls "$where" | tr '\n' ' ')instead of $*"
}

# begun ARGUMENT...: begins a group, $id.
begun() {
	ok fmove group begin "$@"
	id=$(cat out)
	[[ $id =~ ^[0-9a-f]{32}$ ]] || bad "begin $* prints $id"
}

# ---- happy path: members of all kinds, from several nodes at once; nothing is seen before the commit

begun n2:s/runs/1 --members 5
fmove put -q --group "$id" small n2:s/runs/1/a &
FMOVE_GROUP=$id fmove put -q large n2:s/runs/1/ &
fmove put -q --group "$id" -r tree n2:s/runs/1/tree &
fmove --socket "$dir/c/n3/fmoved.sock" put -q --group "$id" - n2:s/runs/1/stdin <large &
for pid in $(jobs -p); do
	wait "$pid" || bad "a put of a member failed"
done
[ "$(ls -A "$s/runs" | sed 's/[0-9a-f]\{16\}/HASH/')" = .fmove.HASH.group ] || bad "there is more than a group: $(ls -lA "$s/runs")"
no 1 'no such' fmove ls n2:s/runs/1
ok fmove ls n2:s/runs
[ -s out ] && bad "a group is listed: $(cat out)"
no 1 '"runs/1": 4 of 5 members are there: ' fmove group commit "$id" n2:s/runs/1
no 1 '1 of its members is missing: "sub/deep/x"' fmove group commit "$id" n2:s/runs/1 --expect a,large,tree/d/f,stdin,sub/deep/x
no 1 '1 came that is not expected: "stdin"; --expect of' fmove group commit "$id" n2:s/runs/1 --expect a,large,tree
no 1 '1 of its members is missing: "b"; 1 came that is not expected: "stdin"$' fmove group commit "$id" n2:s/runs/1 --expect a,b,large,tree
ok fmove put small n2:s/runs/1/sub/deep/x --group "$id"
no 6 '"runs/1/a": exists; it is replaced only if asked for' fmove put small n2:s/runs/1/a --group "$id"
no 6 'directory "runs/1/tree" exists; ' fmove put -r tree n2:s/runs/1/tree --group "$id"
no 2 "by: fmove put --group $id -r 'tree' 'n2:s/runs/1/again'" fmove put tree n2:s/runs/1/again --group "$id"
ok fmove put -f large n2:s/runs/1/a --group "$id"
ok fmove group commit "$id" n2:s/runs/1
only "$s/runs/1" a large stdin sub tree
same large "$s/runs/1/a"
same large "$s/runs/1/stdin"
same small "$s/runs/1/sub/deep/x"
diff -r tree "$s/runs/1/tree" || bad "the tree came as another one"
ok fmove verify n2:s/runs/1

# It is committed: again is no error, all else is.
ok fmove group commit "$id" n2:s/runs/1
no 1 'its group was committed' fmove put --group "$id" small n2:s/runs/1/late
no 6 'its group was committed' fmove group discard "$id" n2:s/runs/1
only "$s/runs/1" a large stdin sub tree

# ---- who may what

no 6 'directory "runs/1" exists; --replace' fmove group begin n2:s/runs/1
begun n2:s/runs/2 --expect one,two
first=$id
no 6 '"runs/2": a group was begun for it by uid [0-9]+ of n1, [0-9]+ s ago; fmove group discard with its ID ends it' fmove group begin n2:s/runs/2
other=0123456789abcdef0123456789abcdef
no 6 'another ID, or is another user' fmove put --group $other small n2:s/runs/2/one
no 6 'another ID, or is another user' fmove group commit $other n2:s/runs/2
no 6 'another ID, or is another user' fmove group discard $other n2:s/runs/2
# The ID alone is not enough: it is the group of the user who began it.
if [ "$(id -u)" -eq 0 ] && id nobody >/dev/null 2>&1; then
	chmod 755 "$dir/c" "$dir/c/n1" && chmod 666 "$dir/c/n1/fmoved.sock"
	no 6 'another ID, or is another user' as_nobody fmove group commit "$first" n2:s/runs/2 --members 1
	no 6 'another ID, or is another user' as_nobody fmove put --group "$first" - n2:s/runs/2/one
fi
no 1 'no group was begun' fmove put --group "$first" small n2:s/runs/3/one
no 1 'no group was begun' fmove group commit "$first" n2:s/runs/3
no 1 'no group was begun' fmove group commit "$first" n2:s/none/3
no 1 'a member .--group, FMOVE_GROUP. is named below' fmove put --group "$first" small n2:s/one
no 2 '32 hexadecimal digits' fmove put --group 12 small n2:s/runs/2/one
no 2 '32 hexadecimal digits' fmove group commit 12 n2:s/runs/2
export FMOVE_GROUP=12
no 2 'put: FMOVE_GROUP: .*32 hexadecimal digits' fmove put small n2:s/runs/2/one
no 2 'commit: FMOVE_GROUP: .*32 hexadecimal digits' fmove group commit n2:s/runs/2
no 2 'commit: a group.s ID has 32 hexadecimal digits' fmove group commit 13 n2:s/runs/2
FMOVE_GROUP=$first
no 2 'FMOVE_GROUP is set, which takes no --update' fmove put --update -r tree n2:s/runs/2/one
unset FMOVE_GROUP
no 2 'which group. its ID comes before' fmove group commit n2:s/runs/2
no 2 'whole store' fmove group begin n2:s/
no 2 'members' fmove group begin n2:s/runs/9 --members 0
no 2 'takes no --update' fmove put --group "$first" --update -r tree n2:s/runs/2/one
no 1 'ends after 86400 s at most' fmove group begin n2:s/runs/9 --expires 25h
no 1 '2 of its members are missing: "one", "two"' fmove group commit "$first" n2:s/runs/2
ok fmove group list n2:s
grep -q '^  2 missing: one two$' out || bad "group list: $(cat out)"
no 2 'leave out the path' fmove group list n2:s/runs
no 1 'none' fmove group list n2:none
ok fmove put --group "$first" -q small n2:s/runs/2/one
[ -e "$s/runs/2" ] && bad "a group that is not committed is there"

fmove group commit --json "$first" n2:s/runs/2 --expect one,x/y,z >out 2>/dev/null && bad "it is committed without its members"
python3 - <<-'END' || bad "who is missing, --json: $(cat out)"
import json
row, = json.load(open("out"))["names"]
assert row["exit"] == 1 and row["missing"] == ["x/y", "z"] and row["missing_more"] == 0, row
END
fmove group commit --json "$first" n2:s/runs/2 --members 4 >out 2>/dev/null && bad "it is committed with 1 of 4"
grep -q '"missing":\[\],"missing_more":3' out || bad "who is missing of a number, --json: $(cat out)"
seq -f 'name%08.0f' 2000 >names
fmove group commit --json "$first" n2:s/runs/2 --expect-from names >out 2>/dev/null && bad "it is committed without 2000 members"
python3 - <<-'END' || bad "many who are missing, --json: $(cat out)"
import json
row, = json.load(open("out"))["names"]
assert row["missing"][0] == "name00000001" and len(row["missing"]) + row["missing_more"] == 2000 > row["missing_more"] > 0, row
END

# The record is not the ID, and it survives the daemon.
grep -rq "$first" "$s" && bad "the ID is on the disk"
crash n2
start_again n2
reachable 2
ok fmove put --group "$first" -q large n2:s/runs/2/two
ok fmove group commit "$first" n2:s/runs/2
only "$s/runs/2" one two
same small "$s/runs/2/one"

# ---- an existing directory is replaced as a whole, only if asked for; the old one goes aside

begun n2:s/runs/2 --replace
ok fmove put --group "$id" -q large n2:s/runs/2/three
no 1 'nobody said which members' fmove group commit "$id" n2:s/runs/2
ok fmove group commit "$id" n2:s/runs/2 --members 1
only "$s/runs/2" three
ok_room fmove df n2:s
ok fmove purge n2:s
ok fmove group commit "$id" n2:s/runs/2
only "$s/runs/2" three
echo file >"$s/runs/file"
no 1 'is no directory' fmove group begin n2:s/runs/file --replace

# ---- the directory above is made anew by an update: the group in there is a copy, and is not taken for one that was committed

begun n2:s/above/1 --members 1
ok fmove put --group "$id" -q large n2:s/above/1/f
ok fmove put -q --update -r tree n2:s/above
no 1 'no group was begun' fmove group commit "$id" n2:s/above/1
begun n2:s/above/1 --members 1
ok fmove put --group "$id" -q large n2:s/above/1/f
ok fmove group commit "$id" n2:s/above/1
same large "$s/above/1/f"
ok fmove purge n2:s

# ---- discard

begun n2:s/runs/4 --members 1
ok fmove put --group "$id" -q large n2:s/runs/4/f
# A name that has a line break would be two: it is counted.
ok fmove put --group "$id" -q small $'n2:s/runs/4/two\nlines'
ok fmove group list --json n2:s
grep -q '"path":"runs/4".*"there":{"count":2,"names":\["f"\]}' out || bad "a name that has a line break: $(cat out)"
ok fmove group discard "$id" n2:s/runs/4
no 1 'no group was begun' fmove group commit "$id" n2:s/runs/4
[ -e "$s/runs/4" ] && bad "what was dropped is there"
begun n2:s/runs/4 --members 1
ok fmove group discard "$id" n2:s/runs/4

# ---- who forgets --group is refused; what somebody else puts there is in the way of the group

begun n2:s/runs/forgot --members 1
ok fmove put --group "$id" -q small n2:s/runs/forgot/f
no 1 '"runs/forgot": a group was begun for it by .*with its ID' fmove put -q large n2:s/runs/forgot/forgotten
no 1 '"runs/forgot": a group was begun for it by .*with its ID' fmove put -qr tree n2:s/runs/forgot
[ -e "$s/runs/forgot" ] && bad "what is of no group is published under its name"
mkdir "$s/runs/forgot"
ok fmove put -q large n2:s/runs/forgot/there	# as into any directory that is seen
no 6 'directory "runs/forgot" exists; --replace' fmove group commit "$id" n2:s/runs/forgot
ok fmove group commit --replace "$id" n2:s/runs/forgot
only "$s/runs/forgot" f

# ---- a group goes with the directory that its path is in

begun n2:s/above/7 --members 1
ok fmove put --group "$id" -q small n2:s/above/7/f
ok fmove mv n2:s/above n2:s/other
ok fmove group commit "$id" n2:s/other/7
only "$s/other/7" f
begun n2:s/other/8 --members 1
ok fmove put --group "$id" -q small n2:s/other/8/f
ok fmove rm -r n2:s/other
no 1 'no group was begun' fmove group commit "$id" n2:s/other/8

# ---- a member that comes holds the group, and is named

begun n2:s/runs/5 --members 1
ok fmove group list n2
grep -q '^s/runs/5: begun by uid [0-9]* of n1 20.*, until 20' out || bad "group list: $(cat out)"
grep -q '^  1 missing$' out || bad "group list: $(cat out)"
[ "$(grep -c '^s/' out)" -eq 1 ] || bad "groups that are over are listed: $(cat out)"
slow 1
fmove put -q --group "$id" largest n2:s/runs/5/slowly &
pid=$!
moved runs/5/slowly 100000
ok fmove group list --json n2:s
python3 - "$id" <<-'END' || bad "group list --json: $(cat out)"
import json, sys
text = open("out").read()
one, = json.loads(text)["groups"]
assert one["store"] == "s" and one["path"] == "runs/5" and one["peer"] == "n1" and one["members"] == 1, one
assert one["there"] == {"count": 0, "names": []} and one["coming"] == {"count": 1, "names": ["slowly"]}, one
assert one["missing"]["count"] == 1 and 0 < one["expires_ns"] - one["begun_ns"] <= 86400 * 10**9, one
assert sys.argv[1] not in text, "the ID is said"
END
no 1 '"runs/5": 1 of its members still comes: "runs/5/slowly"' fmove group commit "$id" n2:s/runs/5
no 1 'still comes' fmove group discard "$id" n2:s/runs/5
# Whose it is not is told so at once: he neither waits for members, which keeps others out, nor learns their names.
no 6 'another ID, or is another user' fmove group commit $other n2:s/runs/5
no 6 'another ID, or is another user' fmove group discard $other n2:s/runs/5
no 6 '"runs/5": a group was begun for it by' fmove group begin n2:s/runs/5
fast 1
wait $pid || bad "the member did not come"
ok fmove group commit "$id" n2:s/runs/5
same largest "$s/runs/5/slowly"

# ---- what goes wrong at the end of a member names it as it was put, and not by where it is until the commit

begun n2:s/runs/8 --members 2
slow 1
mkdir big
cp larger big/
fmove put -q --group "$id" larger n2:s/runs/8/file 2>file.err &
one=$!
fmove put -q --group "$id" -r big n2:s/runs/8/tree 2>tree.err &
two=$!
moved runs/8/file 10000
moved runs/8/tree 10000
echo other >"$(echo "$s"/runs/.fmove.*.group/members)/file"
mkdir "$(echo "$s"/runs/.fmove.*.group/members)/tree"
fast 1
wait $one && bad "a file that came meanwhile is replaced"
wait $two && bad "a directory that came meanwhile is replaced"
grep -q '"runs/8/file"' file.err || bad "the file is named otherwise: $(cat file.err)"
grep -q '"runs/8/tree"' tree.err || bad "the tree is named otherwise: $(cat tree.err)"
grep -F .fmove. file.err tree.err && bad "the place of a member is said"
ok fmove group discard "$id" n2:s/runs/8

# ---- a member that was cut off is not there, though its directory is, and it goes on where it was

begun n2:s/runs/7 --members 1
slow 1
fmove put -q --group "$id" larger n2:s/runs/7/rank0/f 2>/dev/null &
pid=$!
moved runs/7/rank0/f 100000
kill -KILL $pid
wait $pid 2>/dev/null
ended runs/7/rank0/f
fast 1
no 1 '"runs/7": 1 that came was cut off: "rank0/f"; put it again' fmove group commit "$id" n2:s/runs/7
ok fmove put -q --group "$id" larger n2:s/runs/7/rank0/f
ok fmove group commit "$id" n2:s/runs/7
same larger "$s/runs/7/rank0/f"

# ---- a directory that goes on in the background is resumed as the member that it was to be

begun n2:s/runs/10 --members 1
slow 1
ok fmove put -q --detach --group "$id" -r big n2:s/runs/10/tree
job=$(cat out)
moved runs/10/tree 10000
# Of this script: another one may run beside it on this machine.
pid=$(grep -lz -- "$dir" $(grep -Fxzl -- n2:s/runs/10/tree /proc/[0-9]*/cmdline 2>/dev/null | sed 's/cmdline$/environ/') /dev/null | cut -d/ -f3)
kill -KILL $pid 2>/dev/null || bad "nobody attends to $job"
paused() {
	fmove jobs --json | grep -q "\"job\":\"$job\".*\"paused\""
}
await paused || bad "it is not paused: $(fmove jobs --json)"
no 1 '0 of 1 members' fmove group commit "$id" n2:s/runs/10
fast 1
ok fmove resume "$job"
ok fmove wait "$job"
ok fmove group commit "$id" n2:s/runs/10
diff -r big "$s/runs/10/tree" || bad "the member that was resumed is another"

# ---- several destinations: all, or none

begun n2:s/both n3:s/both --members 1
ok fmove group discard "$id" n2:s/both
ok fmove group discard "$id" n2:s/both n3:s/both	# as repeated behind a failure at n3
fmove group discard "$id" n2:s/both n3:s/both 2>err && bad "a group that is nowhere is dropped"
begun n2:s/both n3:s/both --members 1
ok fmove put --group "$id" -q small n2:s/both/f n3:s/both/f
ok fmove put --group "$id" -q small n2:s/both/g
no 1 'n2:s/both: .*2 members are there, and 1 expected: ' fmove group commit "$id" n2:s/both n3:s/both
[ -e "$(store 3)/both" ] && bad "one of two was committed"
no 1 'n3:s/both: .*1 of 2 members are there' fmove group commit --members 2 "$id" n2:s/both n3:s/both
[ -e "$s/both" ] && bad "one of two was committed"
# What is ready and was not committed is not said to be.
fmove group commit --json --members 2 "$id" n2:s/both n3:s/both >out 2>/dev/null && bad "one of 2 is enough"
grep -q '"name":"n2:s/both","exit":130,"error":{"code":"ECANCELED","text":"all is there, and it is not committed"}' out ||
	bad "--json: $(cat out)"
ok fmove put --group "$id" -q small n3:s/both/g
ok fmove group commit --json --members 2 "$id" n2:s/both n3:s/both
grep -q '"exit":0}$' out || bad "--json: $(cat out)"
grep -q "\"id\":\"$id\"" out || bad "--json does not say which group: $(cat out)"
only "$s/both" f g
only "$(store 3)/both" f g
mkdir "$(store 3)/half"
no 6 'n3:s/half: .*exists' fmove group begin n2:s/half n3:s/half
fmove group begin --json n2:s/half n3:s/half n2:s/third >out 2>/dev/null && bad "it is begun at one of three"
[ "$(grep -o '"exit":130,"error":{"code":"ECANCELED","text":"it is not begun' out | wc -l)" -eq 2 ] || bad "--json: $(cat out)"
grep -q '"id"' out && bad "an ID of no group: $(cat out)"
begun n2:s/half
ok fmove group discard "$id" n2:s/half

# ---- who is not told the ID leaves no group: where nobody can know that, it is said with the ID

fmove group begin n2:s/untold n3:s/untold >/dev/full 2>err
[ $? -eq 1 ] && grep -q 'standard output' err || bad "an ID that nobody can read: $(cat err)"
fmove group begin --json n2:s/untold >/dev/full 2>err && bad "an ID in --json that nobody can read: $(cat err)"
begun n2:s/untold n3:s/untold
ok fmove group discard "$id" n2:s/untold n3:s/untold
cut_is_open() {
	fmove group list n2:s | grep -q '^s/cut:'
}
kill -STOP "$(cat "$dir/c/n3/pid")"
env --default-signal=INT fmove group begin n2:s/cut n3:s/cut >id.cut 2>err.cut &
pid=$!
await cut_is_open || bad "it is not begun at the first one"
kill -INT $pid
wait $pid
[ $? -eq 130 ] && [ ! -s id.cut ] || bad "a begin that is cut off: $(cat id.cut err.cut)"
kill -CONT "$(cat "$dir/c/n3/pid")"
reachable 3
id=$(sed -n 's/.*n3:s\/cut: it may have been begun, and cannot be dropped: .*; fmove group discard \([0-9a-f]\{32\}\) ends it there$/\1/p' err.cut)
[ -n "$id" ] || bad "it is not said that n3 may have it: $(cat err.cut)"
[ "$(grep -c 'cannot be dropped' err.cut)" -eq 1 ] || bad "it stays at n2: $(cat err.cut)"
cut=$id
fmove group discard "$id" n3:s/cut >out 2>err || grep -q 'no group was begun' err || bad "the ID is another one: $(cat err)"
begun n2:s/cut
ok fmove group discard "$id" n2:s/cut

# A begin whose answer is missing may come behind the discard that finds nothing: of a daemon that answers the one with $1, and the other so.
cat >overtaken.py <<'END'
import json, socket, sys, threading
def serve(one):
    while asked := one.recv(65536):
        asked = json.loads(asked)
        code = {"group_begin": sys.argv[1], "group_discard": "ENOENT"}.get(asked["op"])
        said = {"event": "error", "code": code, "exit": 1, "text": "as told"} if code else {"event": "done"}
        one.send(json.dumps(said | {"id": asked["id"]}).encode())
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind("overtaken.sock")
listener.listen()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
END
for code in EHOSTDOWN ECONNABORTED EHOSTUNREACH ENETDOWN ETIMEDOUT ECANCELED; do
	python3 overtaken.py $code &
	daemon=$!
	await test -S overtaken.sock
	fmove --socket overtaken.sock group begin --json n2:s/late >out 2>err && bad "$code: it is begun"
	grep -Eq 'n2:s/late: it may have been begun, and if not, may come yet: .*; fmove group discard [0-9a-f]{32} ends it there$' err ||
		bad "$code: the ID is not said: $(cat err)"
	grep -q "\"code\":\"$code\",\"text\":\"it may have been begun" out || bad "$code: --json: $(cat out)"
	kill $daemon
	wait $daemon 2>/dev/null
	rm overtaken.sock
done

# ---- more groups than a page has, in order; nobody sees those of a store that he may not read

for i in 9 3 7 1 5 8 2 4 6; do
	begun n2:s/list/$i/x --members 1
	echo "$id" >id.$i
done
ok fmove group list n2:s
grep '^s/list' out | cut -d: -f1 >listed
printf 's/list/%s/x\n' 1 2 3 4 5 6 7 8 9 | diff - listed || bad "not all groups, in order: $(cat listed)"
sed -i 's/name = "s";/& read = [ ];/' "$dir/c/n2/fmove.conf"
take_over 2
no 6 . fmove group list n2:s
ok fmove group list n2
[ -s out ] && bad "groups of a store that may not be read: $(cat out)"
grep -q 'group list: no group is open at n2 that you may read' err || bad "nothing is listed without a word"
ok fmove group list --json n2
[ ! -s err ] || bad "group list --json of nothing: $(cat err)"
sed -i 's/ read = \[ \];//' "$dir/c/n2/fmove.conf"
take_over 2
for i in 1 2 3 4 5 6 7 8 9; do
	ok fmove group discard "$(cat id.$i)" n2:s/list/$i/x
done

# ---- a group that expires says who was missing, and goes

# A machine that is slow has more time.
for expires in 4 16 64 256; do
	begun n2:s/runs/6 --expires ${expires}s --expect here,never
	fmove put --group "$id" -q small n2:s/runs/6/here 2>err && break
done
[ ! -s err ] || bad "nothing comes into a group that expires: $(cat err)"
sleep $expires
no 1 'its group has expired' fmove group commit "$id" n2:s/runs/6
no 1 'its group has expired' fmove put --group "$id" small n2:s/runs/6/never
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
start_again n2
reachable 2
said() {
	grep -q 'has expired, and what had come is removed: 1 of its members is missing: "never"' "$dir/c/n2/log"
}
await said || bad "nobody says who was missing: $(tail "$dir/c/n2/log")"
begun n2:s/runs/6 --expires 1s
sleep 1.1
begun n2:s/runs/6 --members 1
ok fmove group discard "$id" n2:s/runs/6

# ---- a link leads to the last one that was committed, and to no other

for i in 1 2; do
	begun n2:s/ckpt/$i n3:s/ckpt/$i --members 1
	[ $i -eq 2 ] || first=$id
	ok fmove put --group "$id" -q small n2:s/ckpt/$i/f n3:s/ckpt/$i/f
	no 1 'of 7 members' fmove group commit "$id" n2:s/ckpt/$i --members 7 --latest last
	[ $i -eq 1 ] || [ "$(readlink "$s/ckpt/last")" = 1 ] || bad "the link moved before the commit: $(ls -l "$s/ckpt")"
	ok fmove group commit "$id" n2:s/ckpt/$i n3:s/ckpt/$i --latest last
	[ "$(readlink "$s/ckpt/last")$(readlink "$(store 3)/ckpt/last")" = $i$i ] || bad "the link does not lead to $i: $(ls -l "$s/ckpt")"
done
ok fmove get n2:s/ckpt/last/f latest
same small latest
# Again: not back from what was published later; but to the last one, whatever it led to before.
ok fmove group commit "$id" n2:s/ckpt/2 --latest last
ok fmove group commit "$first" n2:s/ckpt/1 n3:s/ckpt/1 --latest last
grep -q 'n2:s/ckpt/1: it was committed before: .*"ckpt/last" leads to "2", which was published later, and stays so' err ||
	bad "it is not said that the link stays: $(cat err)"
[ "$(readlink "$s/ckpt/last")$(readlink "$(store 3)/ckpt/last")" = 22 ] || bad "the link was led back: $(ls -l "$s/ckpt")"
ok fmove group commit --json --keep-last 1 "$first" n2:s/ckpt/1 --latest last
grep -q '"latest":false' out || bad "--json: $(cat out)"
[ -d "$s/ckpt/2" ] || bad "what is later is removed"
ok fmove ln -sf 1 n2:s/ckpt/last
ok fmove group commit --json "$id" n2:s/ckpt/2 --latest last
grep -q '"latest":true' out || bad "--json: $(cat out)"
[ "$(readlink "$s/ckpt/last")" = 2 ] || bad "the link does not lead to the last one: $(ls -l "$s/ckpt")"
ok fmove put -qr --latest last tree n2:s/ckpt/3
ok fmove group commit "$id" n2:s/ckpt/2 --latest last
[ "$(readlink "$s/ckpt/last")" = 3 ] || bad "the link was led back from what is no group's: $(ls -l "$s/ckpt")"
ok fmove rm -r n2:s/ckpt/3
ok fmove group commit "$id" n2:s/ckpt/2 --latest last
[ "$(readlink "$s/ckpt/last")" = 2 ] || bad "the link leads nowhere: $(ls -l "$s/ckpt")"
begun n2:s/top --members 1
ok fmove put --group "$id" -q small n2:s/top/f
no 2 'beside PATH' fmove group commit "$id" n2:s/top --latest a/b
no 6 'n2:s/top: it is committed, but ckpt does not lead to it: .*only a link is replaced' fmove group commit "$id" n2:s/top --latest ckpt
ok fmove group commit "$id" n2:s/top --latest last
[ "$(readlink "$s/last")" = top ] || bad "the link does not lead to top: $(ls -l "$s")"

# ---- a user has so many groups open, of what the daemon before left, too

sed -i 's/name = "s";/name = "s"; group_limit = 2;/' "$dir/c/n3/fmove.conf"
take_over 3
fmove group discard "$cut" n3:s/cut >out 2>err || true	# the begin that was cut off may have come behind the first discard
begun n3:s/limit/1
first=$id
begun n3:s/limit/2
no 6 '"limit/3": uid [0-9]+ has 2 open groups in this store, and 2 are allowed .group_limit.: commit or discard one' fmove group begin n3:s/limit/3
"$FM_SOURCE/tests/cluster" stop "$dir/c" n3
start_again n3
reachable 3
# The store is looked through beside what it is asked.
refused() {
	fmove group begin n3:s/limit/3 >out 2>err && { fmove group discard "$(cat out)" n3:s/limit/3; return 1; }
	grep -q group_limit err
}
await refused || bad "a third group is begun: $(cat out err)"
ok fmove group discard "$first" n3:s/limit/1
begun n3:s/limit/3
ok fmove group discard "$id" n3:s/limit/3
sed -i 's/ group_limit = 2;//' "$dir/c/n3/fmove.conf"
take_over 3

# ---- what is written down of a group is in the quota, however many somebody begins

sed -i 's/name = "s";/name = "s"; quota = "100KiB";/' "$dir/c/n3/fmove.conf"
take_over 3
seq -f 'name%010.0f' 2000 >names
begun n3:s/list/1 --expect-from names
first=$id
begun n3:s/list/2 --expect-from names
no 6 'quota' fmove group begin n3:s/list/3 --expect-from names
ok fmove group discard "$first" n3:s/list/1
begun n3:s/list/3 --expect-from names
ok fmove group discard "$id" n3:s/list/3
sed -i 's/ quota = "100KiB";//' "$dir/c/n3/fmove.conf"
take_over 3

# ---- whole or not there, whoever is killed: a member, who commits, or one of two daemons; and so is what the link leads to

# whole DIR: it has all members, or is not there.
whole() {
	[ ! -e "$1" ] || { only "$1" large tree && diff -r tree "$1/tree" && same large "$1/large"; }
}

# all_whole: at both nodes, and where the link leads, which it does to something if it is there.
all_whole() {
	local at

	for at in "$s" "$(store 3)"; do
		whole "$at/$1"
		[ ! -L "$at/kill/last" ] || [ -d "$at/kill/last" ] || bad "round $i: the link leads to nothing: $(ls -l "$at/kill")"
		whole "$at/kill/last"
	done
}

# A commit whose command was killed goes on, as long as its disk takes. The same one again waits for that, but not for ever.
commits_again() {
	is_committed=
	if fmove group commit "$id" n2:s/$at n3:s/$at --latest last >out 2>err; then
		is_committed=1
	else
		! grep -q 'just now$' err
	fi
}

for i in $(seq "${FM_ROUNDS:-8}"); do
	at=kill/$((i % 4))
	begun n2:s/$at n3:s/$at --expect large,tree --replace
	fmove put -q --group "$id" large n2:s/$at/ n3:s/$at/ 2>/dev/null &
	one=$!
	fmove put -q --group "$id" -r tree n2:s/$at/tree n3:s/$at/tree 2>/dev/null &
	two=$!
	[ $((i % 5)) -eq 0 ] || wait $one $two
	fmove group commit "$id" n2:s/$at n3:s/$at --latest last >/dev/null 2>&1 &
	three=$!
	sleep "0.0$((RANDOM % 10))"
	case $((i % 4)) in
	0 | 1)
		node=n$((2 + i % 2))
		crash $node
		all_whole $at
		start_again $node
		reachable ${node#n}
		;;
	2) kill -KILL $three 2>/dev/null ;;
	3) kill -KILL $two 2>/dev/null ;;
	esac
	wait $one $two $three 2>/dev/null
	all_whole $at
	for n in 2 3; do
		fmove put -qf --group "$id" large n$n:s/$at/ 2>err || grep -q committed err || bad "round $i: $(cat err)"
		fmove put -q --group "$id" -r tree --replace n$n:s/$at/tree 2>err || grep -q committed err || bad "round $i: $(cat err)"
	done
	await commits_again && [ -n "$is_committed" ] || bad "round $i: it is not committed again: $(cat err)"
	all_whole $at
	for n in 2 3; do
		[ "$(readlink "$(store $n)/kill/last")" = "${at#*/}" ] && [ -d "$(store $n)/$at" ] || bad "round $i: it was committed, and is not there"
	done
done
idle
[ -z "$(find "$s" "$(store 3)/kill" -path '*.group/*' -name members)" ] ||
	bad "members are left: $(find "$s" "$(store 3)/kill" -name '.fmove*')"
