#!/bin/bash
# Goal:   fmove rm takes patterns and removes what they match, nothing else; -n says what would go and removes nothing.
# Method: names that a shell would and would not expand, beside names that look like patterns; links that lead out; --json;
#         a store that may not be written to.
. "$(dirname "$0")/lib.sh"
up 2
s=$(store 2)
outside=$(mktemp -d "$dir/outside.XXXXXX")
echo >"$outside/1.pt"

fill() {
	rm -rf "${s:?}"/* "$s"/.[!.]*
	mkdir -p "$s/run/deep/empty"
	printf 12345 >"$s/run/1.pt"
	printf 123 >"$s/run/2.pt"
	printf 12 >"$s/run/log"
	printf 1 >"$s/run/.hidden.pt"
	printf 1234 >"$s/run/deep/d.pt"
	ln -s "$outside" "$s/out"
}

# left WHAT: all that is in the store.
left() {
	[ "$(cd "$s" && find . -mindepth 1 -printf '%P ' | tr ' ' '\n' | grep -v '^\.fmove' | LC_ALL=C sort | tr '\n' ' ')" = "$1 " ] ||
		bad "left: $(cd "$s" && find . -mindepth 1 -printf '%P '), not $1"
}
all='out run run/.hidden.pt run/1.pt run/2.pt run/deep run/deep/d.pt run/deep/empty run/log'

# ---- patterns ----

fill
ok fmove rm 'n2:s/run/*.pt'
left 'out run run/.hidden.pt run/deep run/deep/d.pt run/deep/empty run/log'
fill
ok fmove rm --json 'n2:s/r*/[12].pt' n2:s/run/log
grep -q '"name":"n2:s/run/1.pt","exit":0' out && grep -q '"name":"n2:s/run/log","exit":0' out || bad "--json: $(cat out)"
left 'out run run/.hidden.pt run/deep run/deep/d.pt run/deep/empty'
fill
no 2 'n2:s/run/deep: .*is a directory.*-r' fmove rm 'n2:s/run/d*'
no 1 'n2:s/none\*: nothing there matches$' fmove rm 'n2:s/none*'
no 1 'n2:s/none\*: nothing there matches$' fmove rm -r 'n2:s/none*'
left "$all"
ok fmove rm -f 'n2:s/none*'
no 1 'nostore' fmove rm -f 'n2:nostore/*'
no 1 'nostore' fmove rm 'n2:nostore/*'
no 3 'nothing there matches$' fmove rm 'n2:s/run/1*' 'n2:s/none*'
left 'out run run/.hidden.pt run/2.pt run/deep run/deep/d.pt run/deep/empty run/log'

# A link that leads out of the store is removed, not followed.
fmove rm 'n2:s/out/*' >out 2>err && bad "what is outside of the store was removed"
[ -e "$outside/1.pt" ] || bad "a file outside of the store is gone"
fill
ok fmove rm -r 'n2:s/*'
[ -z "$(ls "$s")" ] && [ -e "$outside/1.pt" ] || bad "-r of all: $(ls "$s" "$outside")"

# A name that is there stands for itself.
fill
echo >"$s/run/*.pt"
ok fmove rm 'n2:s/run/*.pt'
left "$all"

# ---- a dry run ----

fill
ok fmove rm -n 'n2:s/run/*.pt'
[ "$(cat out)" = $'would remove n2:s/run/1.pt, 5 B\nwould remove n2:s/run/2.pt, 3 B' ] || bad "-n of two: $(cat out)"
ok fmove rm -rn 'n2:s/r*'
[ "$(cat out)" = 'would remove n2:s/run/: 5 files and 2 directories in it, 15 B' ] || bad "-n of a directory: $(cat out)"
ok fmove rm -n n2:s/out
grep -q '^would remove n2:s/out, ' out || bad "-n of a link: $(cat out)"
ok fmove rm -rn --json n2:s/run n2:s/run/log
grep -q '"name":"n2:s/run","exit":0,"dry_run":true,"files":5,"dirs":2,"bytes":15}' out &&
	grep -q '"name":"n2:s/run/log","exit":0,"dry_run":true,"files":1,"dirs":0,"bytes":2}' out || bad "-n --json: $(cat out)"
no 2 'is a directory.*-r' fmove rm -n n2:s/run
no 2 'the store itself' fmove rm -rn n2:s
no 1 'o such file' fmove rm -n n2:s/none
no 1 'nothing there matches' fmove rm -n 'n2:s/none*'
ok fmove rm -nf n2:s/none 'n2:s/none*'
[ -s out ] && bad "-n of what is not there: $(cat out)"
no 1 'nostore' fmove rm -nf n2:nostore/x
left "$all"

# A link that leads nowhere, whose name is a pattern as well, stands for itself: what it matches stays.
mkdir "$s/odd"
echo 1 >"$s/odd/logs"
ln -s nothing "$s/odd/log?"
ok fmove rm -n 'n2:s/odd/log?'
grep -q '^would remove n2:s/odd/log?, ' out || bad "-n of a link named as a pattern: $(cat out)"
no 1 'log?.*o such file' fmove get 'n2:s/odd/log?' got
[ -e got ] && bad "what a link's name matches came instead: $(cat got)"
ok fmove rm 'n2:s/odd/log?'
[ "$(ls -A "$s/odd")" = logs ] || bad "rm of a link named as a pattern left: $(ls -A "$s/odd")"
rm -r "$s/odd"

# More than a page, and names that a terminal would obey.
mkdir "$s/many"
(cd "$s/many" && seq 1500 | xargs mkdir)
echo >"$s/many"/$'\x1b[2J'
ok fmove rm -rn 'n2:s/many'
[ "$(cat out)" = 'would remove n2:s/many/: 1 file and 1,500 directories in it, 1 B' ] || bad "-n of many: $(cat out)"
ok fmove rm -n $'n2:s/many/\x1b\\[*'
grep -q $'\x1b' out && bad "an escape character came through: $(od -c out)"
rm -rf "$s/many"

# As the removal, it is refused where nobody may write.
sed -i 's/name = "s";/& write = [ ];/' "$dir/c/n2/fmove.conf"
take_over 2
no 6 'n2:s/run/log' fmove rm n2:s/run/log
no 6 'n2:s/run/log: you may not write to that store' fmove rm -n n2:s/run/log
left "$all"
