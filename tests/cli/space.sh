#!/bin/bash
# Goal:   what was replaced and is kept aside is seen, goes when it is told to, and goes by itself, the oldest first, when room is needed: never what
#         is unfinished, never anything of the user's own. A store tells what it has room for, also to a peer. Who says that he brings nearly all
#         that there is room for does not keep others out.
# Method: trees replaced in stores of two nodes; a store with a quota that only has room without what is kept aside; where something can be
#         mounted, a small file system in the place of the quota.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_STORE='old_keep = "1h"; quota = "20MiB";'
up 2
s=$(store 2)

# How many replaced directories lie in n2:s.
asides_there() {
	find "$s" -name '.fmove.*.old' | wc -l
}

# replaced NAME VERSION: a tree of some 2 MB in n2:s is replaced by another.
replaced() {
	rm -rf v && mkdir -p "v" && echo "$2" >v/version && random 2000000 v/data
	ok fmove put -r --replace v "n2:s/$1"
}

# value KEY: of the only store in `out`.
value() {
	grep -o "\"$1\":[^,}]*" out | head -n 1 | sed 's/.*://'
}

# ---- seen

ok_room fmove df n2:s --json
[ "$(value aside)" = 0 ] && [ "$(value aside_trees)" = 0 ] && [ "$(value quota)" = 20971520 ] || bad "an empty store: $(cat out)"
mkdir -p "$s/own" && echo mine >"$s/own/f"
replaced a/t 1
replaced a/t 2
replaced b 1
replaced b 2
[ "$(asides_there)" -eq 2 ] || bad "nothing is kept aside: $(find "$s")"
ok_room fmove df n2:s --json
[ "$(value aside_trees)" = 2 ] && [ "$(value aside)" -gt 4000000 ] && [ "$(value used)" -gt 8000000 ] && [ "$(value free)" -lt 13000000 ] ||
	bad "two are kept aside: $(cat out)"
ok_room fmove df n2
grep -q '^s .* in 2 directories$' out || bad "df n2: $(cat out)"
ok_room fmove df n2:
ok_room fmove df
grep -q '^s ' out || bad "df: $(cat out)"
ok_room fmove df n1:s
use 2
ok_room fmove df n2:s
grep -q 'in 2 directories' out || bad "df of the own node: $(cat out)"
ok_room fmove status
grep -q '^s .* in 2 directories$' out || bad "status does not show it: $(cat out)"
ok_room fmove status --json
grep -q '"space":\[{"store":"s",.*"aside_trees":2' out || bad "status --json does not show it: $(cat out)"
if command -v python3 >/dev/null; then
	cp out status.json && ok python3 -c 'import json, sys; json.load(open(sys.argv[1]))' status.json
fi
use 1

# ---- goes when told to, and nothing else does

printf '\033[31m' >"$s/own/$(printf 'e\033[31m')"
ok fmove purge -n n2:s
[ "$(grep -c ' replaced .*\.old)\?$' out)" -eq 2 ] && grep -q 'would remove 2 directories' out && grep -q 'a/\.fmove\..*\.old' out ||
	bad "purge -n: $(cat out)"
# By the names that they had.
grep -q ' a/t (a/\.fmove\.[0-9a-f]*\.old)$' out && grep -q ' b (\.fmove\.[0-9a-f]*\.old)$' out ||
	bad "purge -n does not say what they were: $(cat out)"
ok fmove purge -n --json n2:s
grep -q '"path":"a/\.fmove\.[0-9a-f]*\.old","name":"a/t"' out || bad "purge -n --json: $(cat out)"
[ "$(asides_there)" -eq 2 ] || bad "purge -n removed something"
ok fmove purge --json n2:s
grep -q '"exit":0}' out && [ "$(grep -o '"path":' out | wc -l)" -eq 2 ] || bad "purge --json: $(cat out)"
[ "$(asides_there)" -eq 0 ] || bad "purge left $(asides_there)"
[ "$(cat "$s/a/t/version" "$s/b/version" "$s/own/f")" = "2
2
mine" ] || bad "purge removed what is no old version"
ok fmove purge n2:s
grep -q 'removed 0 directories' out || bad "nothing to purge: $(cat out)"
ok_room fmove df n2:s --json
[ "$(value aside)" = 0 ] && [ "$(value used)" -lt 5000000 ] || bad "after it: $(cat out)"
# More than one page of them.
for i in $(seq 19); do
	ok fmove put -r --replace v n2:s/many
	rm -rf v && mkdir v && echo "$i" >v/version
done
[ "$(asides_there)" -eq 18 ] || bad "$(asides_there) instead of 18 are kept aside"
ok fmove purge -n n2:s
grep -q ' at least$' out || bad "purge -n of several says a sum that is less than what goes: $(cat out)"
grep -q 'would remove 18 directories' out && [ "$(grep ' replaced ' out | sort -u | wc -l)" -eq 18 ] || bad "pages: $(cat out)"
ok fmove purge n2:s
grep -q ': removed 18 directories' out || bad "pages: $(cat out)"

# ---- what a directory that is nowhere else lies in stays, and a dry run says so, too

mkdir "$s/many/.fmove.0123456789abcdef.kept" && echo nowhere >"$s/many/.fmove.0123456789abcdef.kept/f"
ok fmove put -r --replace v n2:s/many
for how in -n ''; do
	no 1 'stays: .* nowhere else' fmove purge $how n2:s
	[ "$(asides_there)" -eq 1 ] || bad "purge $how took what is nowhere else"
done
rm -r "$s"/.fmove.*.old

# ---- mistakes, and who may

no 2 'leave out the path' fmove purge n2:s/b
no 2 'leave out the path' fmove df n2:s/b
no 2 'too few' fmove purge
no 2 '"n2" names no store, as NODE:STORE does' fmove purge n2
no 2 'NODE' fmove df '*'
no 1 'no store x' fmove purge n2:x
[ ! -s out ] || bad "a purge that did nothing says it did: $(cat out)"
no 1 'no store x' fmove df n2:x
no 1 'no node n9' fmove df n9

# ---- found again by a daemon that starts

replaced b 3
old=$(find "$s" -maxdepth 1 -name '.fmove.*.old')
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
start_again n2
reachable 2
looked_through() {
	fmove df n2:s --json | grep -q '"counting":false'
}
await looked_through || bad "the store is never looked through: $(fmove df n2:s --json)"
[ -d "$old" ] || bad "what is kept aside went by itself"

# ---- goes by itself, the oldest first, when a quota needs it

ok fmove purge n2:s
[ "$(asides_there)" -eq 0 ] || bad "what an earlier daemon left is not found: $(asides_there)"
random 6000000 unfinished
fmove put --quiet --limit 100kB/s unfinished n2:s/unfinished 2>/dev/null &
put=$!
journaled "$s"
kill -KILL $put
wait $put 2>/dev/null
ended unfinished
part=$(find "$s" -maxdepth 1 -name '.fmove.*.part')
[ -f "$part" ] || bad "nothing unfinished is left: the test looks at nothing"
replaced b 4
replaced c 1
replaced c 2
first=$(find "$s" -maxdepth 1 -name '.fmove.*.old' -printf '%C@ %p\n' | sort -n | head -n 1 | cut -d ' ' -f 2)
ok_room fmove df n2:s --json
room=$(value free)
kept=$(asides_there)
random $((room + 1000000)) big
ok fmove put big n2:s/big
[ -e "$first" ] && bad "the oldest is still there"
[ "$(asides_there)" -lt "$kept" ] && [ "$(asides_there)" -gt 0 ] || bad "of $kept that were kept aside $(asides_there) are left"
is_logged 'removed .*\.old to make room' "$dir/c/n2/log" || bad "the log does not say what went: $(tail -n 3 "$dir/c/n2/log")"
[ "$(cat "$s/own/f" "$s/c/version")" = "mine
2" ] || bad "something of the user's went"
# What has no room without them either is refused, with the numbers and what to do, and none of them goes for nothing.
kept=$(asides_there)
random 19000000 huge
no 6 'over the store.s quota: 19000000 bytes are needed' fmove put huge n2:s/huge
[ "$(asides_there)" -eq "$kept" ] || bad "of $kept that were kept aside $(asides_there) are left, for nothing"
[ "$(cat "$s/own/f" "$s/c/version" "$s/b/version")" = "mine
2
4" ] && cmp big "$s/big" || bad "something of the user's went"
[ -f "$part" ] || bad "what is unfinished went"
ok fmove rm n2:s/big
ok fmove put --json unfinished n2:s/unfinished
[ "$(json resumed_bytes out)" -gt 0 ] || bad "what was unfinished is not gone on with: $(cat out)"
same unfinished "$s/unfinished"

# ---- the same for a file system that is full

"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=12m,mode=700 none "$s" 2>/dev/null; then
	promised_nothing() {
		fmove df n2:s --json | grep -q '"promised":0'
	}
	trap 'umount -l "$s"; down' EXIT
	sed -i 's/quota = "20MiB";//' "$dir/c/n2/fmove.conf"
	start_again n2
	reachable 2
	replaced t 1
	replaced t 2
	replaced t 3
	[ "$(asides_there)" -eq 2 ] || bad "two are kept aside there: $(ls -lA "$s")"
	mkdir large && random 15000000 large/file
	no 1 'no space: 15000000 bytes are needed' fmove put large/file n2:s/large
	no 1 'no space for the directory: its files take 15000000 bytes' fmove put -r large n2:s/large
	[ "$(asides_there)" -eq 2 ] || bad "what is kept aside went for nothing: $(ls -lA "$s")"
	random 9000000 nine
	ok fmove put nine n2:s/nine
	[ "$(asides_there)" -eq 0 ] || bad "what is kept aside is there still"
	[ "$(cat "$s/t/version")" = 3 ] && same nine "$s/nine"
	no 1 'no space: 9000000 bytes are needed, [0-9]+ are free' fmove put nine n2:s/again
	# Of a pipe nobody knows how much will come: the disk is full in its midst.
	piped() {
		cat large/file | fmove put - n2:s/piped
	}
	no 1 'n2: store s: write .*No space left.*make room there: fmove df' piped
	[ ! -e "$s/piped" ] || bad "half of a pipe has its name"
	nothing_unfinished() {
		[ -z "$(find "$s" -maxdepth 1 -name '.fmove.*.part')" ]
	}
	await nothing_unfinished || bad "half of a pipe is kept: $(ls -lA "$s")"
	ok fmove rm n2:s/nine
	# A tree as a whole, before its first byte: nothing of it lies there then. What running ones were promised is not free.
	mkdir whole
	for i in 1 2 3 4; do
		head -c 2500000 nine >"whole/$i"
	done
	head -c 2100000 nine >whole/5
	no 1 'no space for the directory: its files take 12100000 bytes at least, [0-9]+ are free.*fmove df.*fmove purge' fmove put -r whole n2:s/whole
	[ -z "$(find "$s" -maxdepth 1 -name '.fmove.*.tree')" ] || bad "refused, but something is left: $(ls -lA "$s")"
	ok fmove put -r --exclude '[345]' whole n2:s/whole
	ok fmove rm -r n2:s/whole
	mkdir slow && split -b 100000 nine slow/ && rm slow/c*
	fmove put -r --quiet --limit 300kB/s slow n2:s/slow &
	put=$!
	moved slow 1
	ok_room fmove df n2:s --json
	[ "$(value promised)" -gt 1000000 ] || bad "nothing is promised: $(cat out)"
	no 1 'no space for the directory.* promised to others' fmove put -r --exclude '[45]' whole n2:s/whole
	kill -TERM $put
	wait $put
	ended slow
	await promised_nothing || bad "what was promised stays so: $(fmove df n2:s --json)"
	# Who says that he brings nearly all holds half of what is left, however slowly he comes: others get in, and he gets the rest.
	ok_room fmove df n2:s --json
	room=$(value free)
	mkdir most few && head -c $((room / 100 * 85)) large/file | split -b 100000 - most/ && head -c 200000 nine >few/f
	fmove put -r --quiet --limit 300kB/s most n2:s/most 2>most.err &
	put=$!
	moved most 1
	ok_room fmove df n2:s --json
	[ "$(value promised)" -gt 1000000 ] && [ "$(value promised)" -le $((room / 2)) ] || bad "more than half of $room is promised, or nothing: $(cat out)"
	no 1 'no space for the directory.* promised to others' fmove put -r --exclude '[45]' whole n2:s/whole
	ok fmove put -r few n2:s/few
	chmod 666 "$dir/c/n1/fmoved.sock" && chmod 755 "$dir/c" "$dir/c/n1" . few
	ok as_nobody fmove put -r few n2:s/few_of_nobody
	ok as_nobody fmove put few/f n2:s/file_of_nobody
	kill -0 $put 2>/dev/null || bad "it was over before the others came: the test looks at nothing"
	wait $put || bad "who holds half does not get the rest: $(cat most.err)"
	same_tree most "$s/most"
	await promised_nothing || bad "what was promised stays so: $(fmove df n2:s --json)"
	ok fmove rm -r n2:s/most
	ok fmove rm -r n2:s/few
	ok fmove rm -r n2:s/few_of_nobody
	ok fmove rm n2:s/file_of_nobody
	# If the others take too much of it, he hears so when it comes to that, and leaves nothing behind on the disk that is full.
	fmove put -r --quiet --limit 300kB/s most n2:s/most 2>most.err &
	put=$!
	moved most 1
	head -c $((room / 4)) nine >few/f
	ok fmove put -r few n2:s/few
	wait $put
	[ $? -eq 1 ] && grep -Eq 'no space.* there was (enough )?when it began.* others .*meanwhile.*run the same again' most.err && [ "$(wc -l <most.err)" -eq 1 ] ||
		bad "others took the room: $(cat most.err)"
	same_tree few "$s/few"
	await promised_nothing || bad "what was promised stays so: $(fmove df n2:s --json)"
	ok fmove rm -r n2:s/few
	[ -z "$(find "$s" -maxdepth 1 -name '.fmove.*.tree')" ] || bad "the disk is kept full: $(ls -lA "$s")"
	ok fmove put -r most n2:s/most
	same_tree most "$s/most"
	ok fmove rm -r n2:s/most
	# What is fetched, too: into a caller's directory, and into a store. A file first.
	mkdir little && mount -t tmpfs -o size=4m,mode=777 none little && mkdir "$(store 1)/little" &&
		mount -t tmpfs -o size=4m,mode=777 none "$(store 1)/little" || bad "no further file systems"
	trap 'umount -l "$s" little "$(store 1)/little"; down' EXIT
	head -c 6000000 nine >"$s/six"
	for to in little/six n1:s/little/six; do
		no 1 'no space: [0-9]+ bytes are needed, [0-9]+ are free; make room there' fmove get n2:s/six $to
	done
	fmove get n2:s/six - 2>err | cmp - "$s/six" || bad "a pipe is not looked at for room: $(cat err)"
	[ -z "$(ls -A little "$(store 1)/little" | grep -v :)" ] || bad "refused, but something is left: $(ls -lA little "$(store 1)/little")"
	# Of one with holes what it holds counts, and of one that was begun what is missing; what is there stays where that has no room.
	truncate -s 10M "$s/holes" && head -c 1000000 nine | dd of="$s/holes" bs=1M seek=5 conv=notrunc status=none
	ok fmove get n2:s/holes little/holes
	ok fmove get n2:s/holes n1:s/little/holes
	rm little/holes "$(store 1)/little/holes"
	head -c 3500000 nine >"$s/most"
	for to in little n1:s/little; do
		at=${to/n1:s/$(store 1)}
		env --default-signal=INT fmove get --keep-partial --quiet --limit 200kB/s n2:s/most "$to/most" 2>/dev/null &
		get=$!
		journaled "$at"
		kill -INT $get
		wait $get
		ended most
		head -c 3000000 nine >"$at/other"
		no 1 'no space: [0-9]+ bytes are needed, [0-9]+ are free' fmove get n2:s/most "$to/most"
		rm "$at/other"
		ok fmove get --json n2:s/most "$to/most"
		[ "$(json resumed_bytes out)" -gt 0 ] || bad "what had come went when the rest had no room: $(cat out)"
		same "$s/most" "$at/most"
	done
	umount little "$(store 1)/little"
	trap 'umount -l "$s"; down' EXIT
	# Into a store that keeps something aside: the oldest goes for it, and no more than that.
	head -c 12000000 large/file >"$(store 1)/twelve"
	ok fmove rm n2:s/six
	ok fmove rm n2:s/most
	replaced k 1
	replaced k 2
	replaced k 3
	replaced k 4
	kept=$(asides_there)
	ok_room fmove df n2:s --json
	head -c $(($(value free) + 1000000)) large/file >"$(store 1)/more"
	use 2
	no 1 'no space: 12000000 bytes are needed, [0-9]+ are free' fmove get n1:s/twelve n2:s/twelve
	[ "$(asides_there)" -eq "$kept" ] || bad "of $kept that were kept aside $(asides_there) are left, for nothing"
	ok fmove get n1:s/more n2:s/more
	[ "$(asides_there)" -eq $((kept - 1)) ] || bad "of $kept that were kept aside $(asides_there) are left: one was enough"
	same "$(store 1)/more" "$s/more"
	use 1
	ok fmove purge n2:s
	ok fmove rm -r n2:s/k
	ok fmove rm n2:s/more
	ok fmove rm n2:s/holes
	mkdir small && mount -t tmpfs -o size=4m,mode=700 none small || bad "no second file system"
	trap 'umount -l "$s" small; down' EXIT
	ok fmove put -r --exclude '[345]' whole n2:s/whole
	no 1 'no space for the directory: its files take 5000000 bytes at least, [0-9]+ are free; make room there' fmove get -r n2:s/whole small/whole
	[ -z "$(ls -A small)" ] || bad "refused, but something is left: $(ls -lA small)"
	ok fmove get -r --exclude 2 n2:s/whole small/whole
	# Of an update only what comes counts, though the whole would not fit.
	head -c 1000 nine >"$s/whole/3"
	ok fmove get -r --update --delete --exclude 2 n2:s/whole small/whole
	[ "$(ls small/whole)" = "1
3" ] || bad "the update: $(ls small/whole)"
	no 1 'no space for the directory: its files take 2500000 bytes at least, [0-9]+ are free; make room there' fmove get -r --update n2:s/whole small/whole
	[ "$(ls small)" = whole ] && [ "$(ls small/whole)" = "1
3" ] || bad "refused, but something changed: $(ls -lAR small)"
	head -c 2000 nine >"$s/whole/3"
	ok fmove get -r --detach --update --exclude 2 n2:s/whole small/whole
	ok fmove wait "$(cat out)"
	same "$s/whole/3" small/whole/3
	no 1 'no space for the directory: its files take 2500000 bytes at least, [0-9]+ are free; make room there' fmove get -r --detach --update n2:s/whole small/whole
	[ "$(ls small)" = whole ] && [ "$(ls small/whole)" = "1
3" ] || bad "refused, but something changed: $(ls -lAR small)"
	# A version that is kept aside goes by itself only where that is enough.
	head -c 6000000 nine >"$s/large"
	no 1 'make room there; fmove purge small/ removes [0-9.]+ kB of what was replaced there' fmove get n2:s/large small/large
	no 1 'fmove purge small/ removes [0-9.]+ kB of' fmove get -r --update n2:s/whole small/whole
	ok fmove rm n2:s/large
	umount small
	ok fmove rm -r n2:s/whole
	# Into a store, by daemons alone.
	mkdir "$(store 1)/small" && mount -t tmpfs -o size=4m,mode=700 none "$(store 1)/small" || bad "no second file system"
	trap 'umount -l "$s" "$(store 1)/small"; down' EXIT
	ok fmove put -r --exclude '[345]' whole n2:s/whole
	no 1 'no space for the directory: its files take 5000000 bytes at least, [0-9]+ are free' fmove get -r n2:s/whole n1:s/small/whole
	[ -z "$(ls -A "$(store 1)/small")" ] || bad "refused, but something is left: $(ls -lA "$(store 1)/small")"
	ok fmove get -r --exclude 2 n2:s/whole n1:s/small/whole
	# Of an update only what comes counts, though the whole would not fit; what has no room is refused before its first byte.
	head -c 1000 nine >"$s/whole/3"
	ok fmove get -r --update --delete --exclude 2 n2:s/whole n1:s/small/whole
	[ "$(ls "$(store 1)/small/whole" | tr -d '\n')" = 13 ] || bad "the update: $(ls "$(store 1)/small/whole")"
	no 1 'no space for the directory: its files take 2500000 bytes at least, [0-9]+ are free' fmove get -r --update n2:s/whole n1:s/small/whole
	ok fmove get -r --update --detach n2:s/whole n1:s/small/whole
	no 1 'no space for the directory: its files take 2500000 bytes at least, [0-9]+ are free' fmove wait "$(cat out)"
	[ "$(ls "$(store 1)/small/whole" | tr -d '\n')" = 13 ] || bad "refused, but something changed: $(ls "$(store 1)/small/whole")"
	no_trees "$(store 1)/small"
	mkdir "$(store 1)/from" && cp whole/[1-5] "$(store 1)/from/"
	ok fmove rm -r n2:s/whole
	no 1 'no space for the directory: its files take 12100000 bytes at least, [0-9]+ are free' fmove put -r n1:s/from n2:s/from
	[ -z "$(find "$s" -maxdepth 1 -name '.fmove.*.tree')" ] || bad "refused, but something is left: $(ls -lA "$s")"
	ok fmove put -r --exclude '[345]' n1:s/from n2:s/from
	ok fmove put -r --update --exclude '[45]' n1:s/from n2:s/from
	ok fmove put -r --update --exclude 5 n1:s/from n2:s/from
	no 1 'no space for the directory: its files take 2100000 bytes at least, [0-9]+ are free' fmove put -r --update n1:s/from n2:s/from
	ok fmove put -r --update --detach n1:s/from n2:s/from
	no 1 'no space for the directory: its files take 2100000 bytes at least, [0-9]+ are free' fmove wait "$(cat out)"
	[ "$(ls "$s/from" | tr -d '\n')" = 1234 ] || bad "refused, but something changed: $(ls "$s/from")"
	no_trees "$s"
	ok fmove rm -r n2:s/from
	umount "$(store 1)/small"
	# Of an update only what comes counts, though the whole would not fit.
	ok fmove put -r --exclude '[345]' whole n2:s/whole
	ok fmove put -r --update --exclude '[45]' whole n2:s/whole
	ok fmove put -r --update --exclude 5 whole n2:s/whole
	no 1 'no space for the directory: its files take 2100000 bytes at least, [0-9]+ are free' fmove put -r --update whole n2:s/whole
	[ "$(ls "$s/whole" | tr -d '\n')" = 1234 ] || bad "refused, but something changed: $(ls "$s/whole")"
	[ -z "$(find "$s" -maxdepth 1 -name '.fmove.*.tree')" ] || bad "refused, but something is left: $(ls -lA "$s")"
	ok fmove rm -r n2:s/whole
	trap 'umount -l "$s"; down' EXIT
	# By the files of a tree, one by one.
	replaced t 4
	replaced t 5
	mkdir files
	for i in $(seq 90); do
		head -c 100000 v/data >"files/$i"
	done
	ok fmove put -r files n2:s/files
	same_tree files "$s/files"
	[ "$(cat "$s/t/version")" = 5 ] || bad "the version that counts went"
	no_trees "$s"
else
	echo "SKIP: nothing can be mounted: full file systems are not tested"
fi
