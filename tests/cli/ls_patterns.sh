#!/bin/bash
# Goal:   fmove ls of a pattern lists the names that it matches, and nothing that is in them, in lines, -l, -0 and --json.
# Method: names with and without what a pattern needs, one of them a pattern itself; a link, and one that leads to nothing.
. "$(dirname "$0")/lib.sh"
up 2
s=$(store 2)
mkdir -p "$s/run1/deep" "$s/run2" "$s/other"
echo 1 >"$s/run1/a.pt"
echo 22 >"$s/run1/b.pt"
echo 1 >"$s/run2/a.pt"
echo 1 >"$s/run1/.hidden.pt"
ln -s run2 "$s/runlast"
ln -s nothing "$s/run2/gone.pt"

# lists EXPECTED OPERAND...: what is printed, lines joined by blanks.
lists() {
	local expected=$1
	shift

	ok fmove ls "$@"
	[ "$(tr '\n\0' '  ' <out)" = "$expected" ] || bad "ls $*: \"$(tr '\n\0' '  ' <out)\" and not \"$expected\""
}

lists 'run1/ run2/ runlast ' 'n2:s/run*'
lists 'run1/a.pt run1/b.pt run2/a.pt run2/gone.pt runlast/a.pt runlast/gone.pt ' 'n2:s/run*/*.pt'
lists 'run1/ run2/ ' 'n2:s/run[12]'
lists 'run1/deep/ ' 'n2:s/r*1/deep'
lists 'run1/a.pt run1/b.pt ' -0 'n2:s/run1/*.pt'
ok fmove ls -l 'n2:s/run*'
grep -Eq '^drwx.* run1/$' out && grep -Eq '^lrwx.* runlast -> run2$' out || bad "ls -l of a pattern: $(cat out)"
ok fmove ls -l 'n2:s/r*1/b.pt'
grep -Eq '^-rw.* 3 .* run1/b.pt$' out || bad "the last part is a name: $(cat out)"
ok fmove ls --json 'n2:s/run1/b*'
tr -d '\n' <out | grep -q '^{"entries":\[{"name":"run1/b.pt","type":"file","size":3,.*"exit":0}$' || bad "--json: $(cat out)"

# A name that exists stands for itself.
mkdir "$s/run?"
echo 1 >"$s/run?/in"
lists 'in ' 'n2:s/run?'

no 1 'n2:s/none\*: nothing there matches' fmove ls 'n2:s/none*'
no 1 'n2: no store t; fmove df n2 ' fmove ls 'n2:t/none*'
# Pages are of a directory.
no 1 'no such file or directory' fmove ls --max 1 'n2:s/ru*'
fmove ls --json 'n2:s/none*' >out 2>err
[ $? -eq 1 ] && tr -d '\n' <out | grep -q '^{"entries":\[\],"exit":1,"error":' || bad "--json of nothing: $(cat out)"
exit
