#!/bin/bash
# Goal:   a dry run of a file says what the run itself would do with what is there: refuse it, replace it, leave it; a
#         symbolic link is replaced itself, and what it leads to stays.
# Method: put and get of one file onto nothing, a file, a link, a directory and a FIFO, with -n and then without; between stores; what
#         has no size. -v names a file that is moved.
. "$(dirname "$0")/lib.sh"
up 2
s=$(store 2)
echo new >new
echo other >"$s/f" && mkdir "$s/d" && echo inner >"$s/d/new"
echo remote >"$s/src"

state() {
	# The size of a directory on tmpfs counts its entries, those that are left out here, too.
	find . "$s" ! -name out ! -name err ! -name before ! -name diff.out \
		\( -type d -printf 'd %i %p\n' -o -printf '%y %s %i %l %p\n' \) | sort
}

# dry_refused STATUS PATTERN CMD...: with -n as without it, and nothing changes.
dry_refused() {
	state >before
	no "$1" "$2" fmove "$3" -r -n "${@:4}"
	no "$1" "$2" fmove "$3" -r "${@:4}"
	state | diff before - >diff.out || bad "refused, but something changed: $(cat diff.out)"
}

# dry PATTERN CMD...: it would go, and nothing changes; with -r and, where that is not needed, without it.
dry() {
	local how

	state >before
	for how in -n -rn; do
		[[ $how = -n && $* = *--update* ]] && continue
		ok fmove "$2" $how "${@:3}"
		grep -Eq -- "$1" err || bad "${*:2}: \"$(cat err)\" does not match \"$1\""
		state | diff before - >diff.out || bad "a dry run changed something: $(cat diff.out)"
	done
}

# ---- put ----

dry 'would send 1 of 1 file, 4 B of 4 B' put new n2:s/free
dry_refused 6 'replaced only if asked for \(--force\)' put new n2:s/f
dry_refused 6 'replaced only if asked for \(--force\)' put new n2:s/d
dry 'would send 1 of 1 file, .*; 0 added, 1 replaced, 0 removed' put --force new n2:s/f
dry '-> n2:s/d/new: would send 1 of 1 file, .*; 0 added, 1 replaced, 0 removed' put --update new n2:s/d
[ ! -e "$s/free" ] && [ "$(cat "$s/f" "$s/d/new")" = "other
inner" ] || bad "a dry run put something: $(ls -lR "$s")"
ok fmove put -r --force new n2:s/f
dry 'would send 0 of 1 file' put --update new n2:s/f

# ---- get ----

echo mine >f && ln -s f link && ln -s nowhere dangling && mkdir d && mkfifo fifo && echo inner >d/src
dry 'would send 1 of 1 file, 7 B of 7 B' get n2:s/src free
dry_refused 6 'f exists; --force replaces it' get n2:s/src f
dry_refused 6 'd/src exists; --force replaces it' get n2:s/src d
dry_refused 6 'link is a symbolic link to [^;]+; --force replaces the link, not what it leads to' get n2:s/src link
dry_refused 6 'dangling is a symbolic link to [^;]+; --force replaces the link' get n2:s/src dangling
dry_refused 1 'fifo is not a regular file' get --force n2:s/src fifo
dry_refused 1 'directory nowhere/: No such file.*"mkdir -p" makes it' get n2:s/src nowhere/src
dry '; 0 added, 1 replaced, 0 removed' get --force n2:s/src link
dry '; 0 added, 1 replaced, 0 removed' get --update n2:s/src f
ok fmove get --force n2:s/src link
[ ! -L link ] && [ "$(cat link f)" = "remote
mine" ] || bad "--force wrote through a link: $(ls -l)"
no 6 'dangling is a symbolic link' fmove get n2:s/src dangling

# ---- between stores of both nodes ----

echo own >"$(store 1)/own" && mkdir "$(store 1)/dir"
dry 'would send 1 of 1 file, 4 B of 4 B; 0 added, 0 replaced|would send 1 of 1 file, 4 B of 4 B' put n1:s/own n2:s/free
dry_refused 6 'replaced only if asked for \(--force\)' put n1:s/own n2:s/f
dry '^fmove: n1:s/own -> n2:s/d/own: would send 1 of 1 file, 4 B of 4 B' put n1:s/own n2:s/d
dry 'would send 1 of 1 file, 7 B of 7 B' get n2:s/src n1:s/dir
mkdir "$s/d/own" "$(store 1)/dir/src"
dry_refused 2 'directory' put n1:s/own n2:s/d
dry_refused 2 'directory' get n2:s/src n1:s/dir
rmdir "$s/d/own" "$(store 1)/dir/src"
dry 'would send 1 of 1 file, 7 B of 7 B' get n2:s/src n1:s/free
dry '; 0 added, 1 replaced, 0 removed' get --force n2:s/src n1:s/own
no 6 'replaced only if asked for' fmove get -n n2:s/src n1:s/own

# ---- what is not there, cannot be asked, or has no size ----

no 1 'none: No such file' fmove put -n none n2:s/x
no 1 'no such file' fmove get -n n2:s/none x
no 2 'd is a directory.* put -r ' fmove put -n d n2:s/x
no 2 'd is a directory.* get -r ' fmove get -n n2:s/d x
no 1 'leave out --dry-run' fmove get -n n2:s/src -
echo piped | fmove put -n - n2:s/piped 2>err
[ $? -eq 1 ] && grep -q 'standard input is read as it is sent: .*leave out --dry-run' err || bad "a dry run of a pipe: $(cat err)"
[ ! -e "$s/piped" ] || bad "a dry run of a pipe sent it"
ok fmove put -n - n2:s/redirected <new
grep -q 'would send 1 of 1 file, 4 B of 4 B' err && [ ! -e "$s/redirected" ] || bad "a dry run of standard input: $(cat err)"

# ---- names ----

# named LINE CMD...
named() {
	ok fmove "${@:2}"
	[ "$(cat out)" = "$1" ] || bad "${*:2} prints \"$(cat out)\" instead of \"$1\""
}
named 'added    n2:s/v' put -nv new n2:s/v
named 'added    n2:s/v' put -v new n2:s/v
named 'replaced n2:s/v' put -fnv new n2:s/v
named 'replaced n2:s/v' put -fv new n2:s/v
named 'added    n2:s/v2' put -v n1:s/own n2:s/v2
named 'added    w' get -v n2:s/v w
named 'replaced w' get -fv n2:s/v w
named 'replaced n1:s/own' get -fv n2:s/v n1:s/own
fmove put -v new n2:s/v >out 2>err && bad "it is replaced"
[ -s out ] && bad "a file that was not moved is named: $(cat out)"
ok fmove put -v --json new n2:s/v3
grep -q '{"change":"added","path":"."}' out || bad "--json does not name it: $(cat out)"
