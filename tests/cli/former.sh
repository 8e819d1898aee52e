#!/bin/bash
# Goal:   what `get -r` replaces in a directory of the caller's stays for a while, and nothing goes but that.
# Method: gets that replace and update, looked at in the directory; that its time is over is a fault point, since
#         no clock that counts can be set. Things of the same name that somebody else put there, links, another
#         user's, root's under a name that another user gave it; what the user put in its place himself. A file
#         system that has room for some of it.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
up 2

stashes() {
	find "${1:-.}" -mindepth 2 -maxdepth 2 -path '*/.fmove.*.old/.fmove.held.*' -type f -printf '%h\n' | sort
}

count() {
	stashes "${1:-.}" | wc -l
}

src=$(store 2)/src
mkdir -p "$src/sub" && echo 1 >"$src/version" && echo same >"$src/sub/same"

# ---- kept, said, and had back ----

ok fmove get -r n2:s/src t
grep -q 'what was there' err && bad "nothing was replaced: $(cat err)"
echo mine >t/mine
chmod 555 t
echo 2 >"$src/version"
ok fmove get -r --replace --json n2:s/src t
[ "$(count)" -eq 1 ] || bad "what was replaced is not kept: $(ls -lA)"
stash=$(stashes)
[ "$(stat -c '%a %u' "$stash")" = "755 $(id -u)" ] || bad "others may write to what is kept, or read it no more: $(stat "$stash")"
[ "$(cat "$stash/t/mine" "$stash/t/version" t/version)" = "mine
1
2" ] || bad "what is kept is not what was there: $(find . | head -n 20)"
[ "$(stat -c %a "$stash/t")" = 555 ] || bad "its mode is another: $(stat "$stash/t")"
grep -q "\"former\":{\"path\":\"${stash#./}/t\",\"until_ns\":[0-9]*}" out || bad "--json does not name it: $(cat out)"
grep -Eq "what was there is ${stash#./}/t until [0-9:]{5}" err || bad "the last line does not name it: $(cat err)"
grep -q 'at least; \|at least$' err || bad "the last line promises too much: $(cat err)"
chmod 755 "$stash/t"
mv "$stash/t" back && [ "$(cat back/mine)" = mine ] || bad "it cannot be had back"
echo 3 >"$src/version"
ok fmove get -r --update n2:s/src t
[ "$(count)" -eq 2 ] && [ "$(cat t/version)" = 3 ] || bad "an update keeps nothing: $(ls -lA)"
ok fmove get -r --update --json n2:s/src t
grep -q '"former"' out && bad "where nothing differs nothing was replaced: $(cat out)"
ok fmove get -r --update -n n2:s/src t
[ "$(count)" -eq 2 ] || bad "a dry run changed what is kept: $(ls -lA)"

# ---- the directory around it is sent without what is kept in it, and with what only looks like that ----

mkdir around && ok fmove get -r n2:s/src around/t && ok fmove get -r --replace n2:s/src around/t
former=$(sed -n 's/.*what was there is \(.*\) until .*/\1/p' err)
[ "$(cat "$former/version")" = 3 ] || bad "what the last line names is not there: $(cat err)"
ok fmove put -r around n2:s/around
[ "$(count around)" -eq 1 ] && [ "$(ls -A "$(store 2)/around")" = t ] || bad "sent: $(ls -lA around "$(store 2)/around")"
echo mine >around/.fmove.notes
ok fmove put -r --update around n2:s/around
grep -q "names that begin with .fmove. are fmove's own: not sent" err || bad "a name of fmove's own: $(cat err)"
[ "$(ls -A "$(store 2)/around")" = t ] || bad "sent: $(ls -lA "$(store 2)/around")"
ok fmove rm -r n2:s/around
rm -r around

# ---- purge: names what goes, and takes nothing else ----

latest=$(stashes | while read -r h; do [ ! -d "$h/t" ] || echo "$h"; done | head -n 1)
mkdir .fmove.0123456789abcdef.old .fmove.00000000000000aa.new && echo mine >.fmove.0123456789abcdef.old/f
mkdir other && echo mine >other/f && ln -s other .fmove.0123456789abcde0.old
echo mine >.fmove.0123456789abcde1.old
mkdir .fmove.0123456789abcde2.old && ln -s ../other/f .fmove.0123456789abcde2.old/.fmove.former
mkdir -m 755 .fmove.0123456789abcde3.old && touch .fmove.0123456789abcde3.old/.fmove.former
# Something else under the mark: what was had back, and put there instead of it.
mkdir -m 700 .fmove.0123456789abcde4.old && mkdir .fmove.0123456789abcde4.old/t
printf %016x "$(stat -c %i back)" >.fmove.0123456789abcde4.old/.fmove.former
mkdir -m 700 .fmove.0123456789abcde5.old	# of one that died on its way
planted() {
	[ -d .fmove.0123456789abcde4.old/t ] || bad "$1: what the user put there went"
	[ "$(cat .fmove.0123456789abcdef.old/f .fmove.0123456789abcde0.old/f .fmove.0123456789abcde1.old)" = "mine
mine
mine" ] && [ -L .fmove.0123456789abcde2.old/.fmove.former ] && [ -e .fmove.0123456789abcde3.old/.fmove.former ] || bad "$1: something else went: $(ls -lA)"
}
ok fmove purge -n .
grep -q 'would remove 1 directory' out && [ "$(grep -c ' replaced ' out)" -eq 1 ] && grep -Eq ' t \(\.fmove\.[0-9a-f]*\.old/t\)$' out || bad "purge -n: $(cat out)"
[ -d "$stash" ] || bad "purge -n removed something"
# What is in it goes, and not what a link in it leads to.
ln -s "$PWD/other" "$latest/t/link"
ok fmove purge --json ./
grep -q '"path":"[^"]*.old/t","name":"t"' out && grep -q '"exit":0}' out || bad "purge --json: $(cat out)"
[ ! -e "$stash" ] && [ ! -e "$latest" ] && [ ! -e .fmove.0123456789abcde5.old ] || bad "purge left something: $(ls -lA)"
[ "$(cat other/f)" = mine ] || bad "purge followed a link"
planted purge
ok fmove purge "$PWD"
grep -q 'removed 0 directories' out || bad "nothing to purge: $(cat out)"
no 1 'nowhere' fmove purge ./nowhere
no 2 'no directory here' fmove purge nowhere

# A signal ends it behind what went, which is said. It cannot be through: nobody reads what it prints until then.
mkdir many
long=$(printf 'x%.0s' {1..200})
(cd many && mkdir -m 700 $(seq -f '.fmove.%016.0f.old' 1500) && for at in .fmove.*.old; do echo "$at/$long"; done | xargs mkdir &&
	find . -mindepth 2 -name "$long" -printf '%i %h\n' | while read -r ino at; do printf -v mark %016x "$ino"; : >"$at/.fmove.held.$mark"; done)
left() {
	ls -A many | wc -l
}
has_begun() {
	[ "$(left)" -lt 1500 ]
}
# Some stay, and end it no other way.
for at in many/.fmove.*{0,5}.old; do mkdir "$at/$long/.fmove.0123456789abcdef.kept" && echo nowhere >"$at/$long/.fmove.0123456789abcdef.kept/f"; done
mkfifo printed
env --default-signal=INT fmove purge many >printed 2>err &
pid=$!
exec 7<printed
await has_begun || bad "purge does not begin"
kill -INT $pid
cat <&7 >out
exec 7<&-
wait $pid
[ $? -eq 130 ] && grep -q 'many: cancelled' err || bad "purge, cut off by a signal: $(cat err)"
[ "$(left)" -gt 0 ] && [ "$(grep -c ' replaced ' out)" -eq $((1500 - $(left))) ] || bad "$(left) are left, and $(grep -c ' replaced ' out) said to be gone"
grep -q "^many: removed $((1500 - $(left))) directories" out || bad "purge, cut off: $(tail -n 1 out)"
rm -r many/.fmove.*.old/x*/.fmove.*.kept
ok fmove purge many
[ "$(left)" -eq 0 ] || bad "not all went: $(left)"

# ---- what only looks like fmove's own is the user's; what is nowhere else keeps the version that it lies in ----

mkdir keep && ok fmove get -r n2:s/src keep/t
lost=keep/t/sub/.fmove.0123456789abcdef.kept
mkdir "$lost" && echo nowhere >"$lost/f" && echo mine >keep/t/.fmove.notes
echo 4 >"$src/version"
ok fmove get -r -n --update n2:s/src keep/t
grep -q ' 1 only there kept' err || bad "a dry run does not tell of it: $(cat err)"
ok fmove get -r --update n2:s/src keep/t
[ "$(cat keep/t/.fmove.notes)" = mine ] || bad "an update removed a name of the user's: $(ls -lA keep/t)"
for how in '' -n; do
	no 1 'stays: .* nowhere else' fmove purge $how keep
	[ "$(cat keep/.fmove.*.old/t/sub/.fmove.*.kept/f)" = nowhere ] || bad "purge $how took what is nowhere else"
done
ok fmove get -r n2:s/src keep/u
mkdir keep/u/sub/.fmove.0123456789abcdef.kept && echo nowhere >keep/u/sub/.fmove.0123456789abcdef.kept/f
echo 4a >"$src/version"
ok fmove get -r --update n2:s/src keep/u
no 1 'stays: .* nowhere else.*; 1 more stay' fmove purge keep
rm -r keep/u keep/.fmove.*.old/u
echo 5 >"$src/version"
ok env FMOVE_FAULT=former.old:1 fmove get -r --update n2:s/src keep/t
[ "$(cat keep/.fmove.*.old/t/sub/.fmove.*.kept/f)" = nowhere ] || bad "a later get took what is nowhere else"
rm -r keep

# ---- a get into a directory around which another one puts a new version: it is in that when it is done ----

# Its journal tells that a transfer goes on: of a file beside it, of a directory in its staging directory.
is_coming() {
	[ -n "$(find around/t/sub '(' -name '.fmove.*.journal' -o -path '*/.fmove.*.tree/journal' ')' -size +0 | head -n 1)" ]
}

mkdir around "$(store 2)/late" && random 60000000 "$(store 2)/late/f"
ok fmove get -r n2:s/src around/t
for what in late/f late; do
	slow 2
	fmove get -r -q n2:s/$what around/t/sub/ 2>late.err &
	get=$!
	await is_coming || bad "nothing of $what comes"
	echo "around $what" >"$src/version"
	ok fmove get -r --update n2:s/src around/t
	kill -0 $get || bad "$what came before the version around it was replaced"
	no 1 'stays: a transfer goes on' fmove purge around
	# What another get of the same file has in the new version by now.
	journal=$(find around/.fmove.*.old -name '.fmove.*.journal' -printf '%f\n')
	[ -n "$journal" ] || [ "$what" = late ] || bad "a get has no journal: $(find around)"
	[ -z "$journal" ] || echo another >"around/t/sub/$journal"
	fast 2
	wait $get || bad "a get of $what into what is replaced meanwhile: $(cat late.err)"
	[ -z "$journal" ] || [ "$(cat "around/t/sub/$journal")" = another ] || bad "it removed the journal of another get"
	ok fmove purge around
done
same "$(store 2)/late/f" around/t/sub/f
same "$(store 2)/late/f" around/t/sub/late/f
# Where that has no such directory the get says so, and not that it is done.
slow 2
fmove get -q n2:s/late/f around/t/sub/late/g 2>late.err &
get=$!
await is_coming || bad 'nothing comes'
ok fmove get -r --replace n2:s/src around/t
fast 2
wait $get && bad 'a get is done, of a directory that is no more'
grep -q 'around/t/sub/late, of which another get put the version that was there aside' late.err || bad "its error: $(cat late.err)"
rm -r around "$(store 2)/late"

# ---- a process that dies between the exchange and what follows: the next get puts aside what it left ----

# Its lock says which directory is the new version, and with that what is to become of the old one.
is_begun() {
	[ "$(head -c 16 crash/.fmove.*.tree/lock)" = "$(printf %016x "$(stat -c %i crash/.fmove.*.tree/data)")" ]
}

mkdir crash && random 5000000 "$src/large"
for how in --replace --update; do
	ok fmove get -r --replace n2:s/src crash/t
	random 5000000 "$src/large"
	env --default-signal=INT fmove get -r $how --quiet --limit 50kB/s n2:s/src crash/t 2>/dev/null &
	get=$!
	await is_begun || bad "$how does not begin: $(ls -lA crash)"
	kill -KILL $get
	wait $get 2>/dev/null
	tree=$(echo crash/.fmove.*.tree)
	mkdir "${tree%.tree}.new" && echo saved >"${tree%.tree}.new/saved"
	# What it says of the version that it is about to replace.
	printf %016x "$(stat -c %i "${tree%.tree}.new")" | dd of="$tree/lock" bs=1 seek=17 conv=notrunc status=none
	ok fmove get -r $how n2:s/src crash/t
	same "$src/large" crash/t/large
	[ ! -e "${tree%.tree}.new" ] || bad "$how: it is there still: $(ls -lA crash)"
	if [ $how = --replace ]; then
		[ "$(cat crash/.fmove.*.old/t/saved)" = saved ] || bad "what was replaced is not kept: $(ls -lA crash)"
	else
		kept=$(echo crash/.fmove.*.kept)
		[ "$(cat "$kept/t/saved")" = saved ] && grep -q "${kept#crash/}" err || bad "nobody hears of what was saved: $(cat err)"
	fi
	ok fmove purge crash
done
[ -e "$kept/t/saved" ] || bad "purge took what is nowhere else"
rm -r crash "$src/large"

# ---- who may: nobody who is not its owner ----

if [ "$(id -u)" -eq 0 ] && id nobody >/dev/null 2>&1; then
	mkdir -m 777 shared && chmod 755 "$dir" "$dir/w" "$dir/c" "$dir/c/n1" && chmod 666 "$dir/c/n1/fmoved.sock"
	as_nobody mkdir shared/.fmove.0123456789abcdef.old && as_nobody chmod 700 shared/.fmove.0123456789abcdef.old
	as_nobody mkdir shared/.fmove.0123456789abcdef.old/x
	printf %016x "$(stat -c %i shared/.fmove.0123456789abcdef.old/x)" |
		as_nobody tee shared/.fmove.0123456789abcdef.old/.fmove.former >mark
	# Something of root's, which anybody may name as he likes there.
	mkdir -m 700 shared/roots && echo roots >shared/roots/f
	as_nobody mv shared/roots shared/.fmove.0123456789abcdee.old || bad 'the directory is not as shared as this test means it'
	ok fmove purge shared
	[ -d shared/.fmove.0123456789abcdef.old/x ] && [ -e shared/.fmove.0123456789abcdee.old/f ] || bad "purge took what is not its own: $(ls -lA shared)"
	ok fmove get -r n2:s/src shared/t
	ok fmove get -r --replace n2:s/src shared/t
	ok as_nobody fmove purge shared
	grep -q 'removed 1 directory' out || bad "nobody's own is not his: $(cat out)"
	[ "$(count shared)" -eq 1 ] && [ ! -e shared/.fmove.0123456789abcdef.old ] && [ -e shared/.fmove.0123456789abcdee.old/f ] || bad "nobody's own is there still, or root's went: $(ls -lA shared)"
	# A directory that he may not read himself hides nothing of what is beside it, whichever is met first.
	ok as_nobody fmove get -r n2:s/src shared/closed
	for i in 1 3; do
		as_nobody mkdir -m 0 shared/closed/$i
		as_nobody mkdir -m 0 shared/closed/.fmove.000000000000000$i.kept
	done
	ok as_nobody fmove get -r --replace n2:s/src shared/closed
	no 1 'stays: a transfer goes on' as_nobody fmove purge shared
	[ -n "$(find shared -name '.fmove.*1.kept')" ] || bad "what is nowhere else went: $(find shared)"
	rm -r shared/.fmove.*.old/closed/.fmove.*.kept
	ok as_nobody fmove purge shared
	grep -q 'removed 1 directory' out || bad "a directory with a closed one in it stays: $(cat out)"
	ok fmove purge shared
	[ "$(count shared)" -eq 0 ] && [ -e shared/.fmove.0123456789abcdee.old/f ] || bad "root's is there still: $(ls -lA shared)"
	# The version of another owner, which only he or root can move elsewhere, stays; what to do is said.
	mkdir -m 777 others && ok fmove get -r n2:s/src others/t
	echo theirs >"$src/version"
	ok as_nobody fmove get -r --update n2:s/src others/t
	grep -q 'stays in \.fmove\..*its owner or root removes it (rm -r)' err || bad "what to do with it: $(cat err)"
	# The names of what is made and replaced are no secret.
	for kind in new tree; do
		rm -rf shared/t && mkdir -m 700 "shared/$kind" && echo "$kind" >"shared/$kind/precious"
		as_nobody mv "shared/$kind" "shared/$(basename "${tree%tree}$kind")"
		fmove get -r n2:s/src shared/t >out 2>err || grep -q 'no staging directory' err || bad "$kind: $(cat err)"
		ok fmove purge shared
		[ "$(cat shared/.fmove.*/precious)" = "$kind" ] || bad "$kind: what another user gave that name went: $(ls -lA shared)"
		rm -r shared/.fmove.*[0-9a-f].*
	done
fi

# ---- the next get removes it when its time is over ----

ok fmove get -r --replace n2:s/src t
stash=$(stashes | while read -r h; do [ "$h" -ef .fmove.0123456789abcde4.old ] || [ ! -d "$h/t" ] || echo "$h"; done)
[ -n "$stash" ] || bad "what was replaced is not kept: $(ls -lA)"
ok fmove get -r --update n2:s/src t
[ -d "$stash" ] || bad "it went before its time"
for n in 1 2; do	# the fault is of one: there is another, out of which the user took what it held
	ok env FMOVE_FAULT=former.old:$n fmove get -r --update n2:s/src t
done
[ ! -e "$stash" ] || bad "its time is over, and it is there still: $(ls -lA)"
planted 'the next get'

# ---- or when room is needed: the oldest, and no more than that takes ----

if [ "$(id -u)" -eq 0 ] && mkdir little && mount -t tmpfs -o size=7m,mode=700 none little 2>/dev/null; then
	trap 'umount -l little; down' EXIT
	for i in 1 2 3; do
		random 2000000 "$src/large"
		ok fmove get -r --replace n2:s/src little/t
		[ "$i" -ne 1 ] || first=$(stat -c %i little/t)
	done
	[ "$(count little)" -eq 2 ] || bad "they are not kept: $(ls -lA little)"
	random 2000000 "$src/large"
	ok fmove get -r --replace n2:s/src little/t
	same "$src/large" little/t/large
	[ "$(count little)" -eq 2 ] || bad "room was needed, for one: $(ls -lA little)"
	[ -z "$(find little -mindepth 2 -maxdepth 2 -inum "$first")" ] || bad "the oldest is there still: $(ls -lAR little)"
	# What is mounted in one is not removed, and the reason is said.
	mount --bind other "$(stashes little | head -n 1)/t/sub" || bad 'no mount'
	no 3 'stays: another file system is mounted in it; unmount it first' fmove purge -n little
	umount "$(stashes little | head -n 1)/t/sub"
	random 9000000 "$src/large"
	no 1 'no space for the directory: its files take 90[0-9]* bytes at least' fmove get -r --replace n2:s/src little/t
	[ "$(count little)" -eq 2 ] || bad "it went, though all of it is too little: $(ls -lA little)"
	# For a file, too.
	no 1 'no space: 9000000 bytes are needed' fmove get n2:s/src/large little/file
	[ "$(count little)" -eq 2 ] || bad "it went for a file, though all of it is too little: $(ls -lA little)"
	random 2000000 "$src/large"
	ok fmove get --json n2:s/src/large little/file && same "$src/large" little/file
	grep -q '"exit":0' out || bad "it came, and the result is another: $(cat out err)"
	[ "$(count little)" -eq 1 ] || bad "room was needed for a file, as one of them has: $(ls -lA little)"
	umount little
	trap down EXIT
fi
