#!/bin/bash
# Goal:   a dry run of a file says what the run itself would do with what is there: refuse it, replace it, leave it; a
#         symbolic link is replaced itself, and what it leads to stays.
# Method: put and get of one file onto nothing, a file, a link, a directory and a FIFO, with -n and then without.
. "$(dirname "$0")/lib.sh"
up 2
s=$(store 2)
echo new >new
echo other >"$s/f" && mkdir "$s/d" && echo inner >"$s/d/new"
echo remote >"$s/src"

state() {
	find . "$s" ! -name out ! -name err ! -name before ! -name diff.out -printf '%y %s %i %l %p\n' | sort
}

# dry_refused STATUS PATTERN CMD...: with -n as without it, and nothing changes.
dry_refused() {
	state >before
	no "$1" "$2" fmove "$3" -r -n "${@:4}"
	no "$1" "$2" fmove "$3" -r "${@:4}"
	state | diff before - >diff.out || bad "refused, but something changed: $(cat diff.out)"
}

# dry PATTERN CMD...: it would go, and nothing changes.
dry() {
	state >before
	ok fmove "$2" -r -n "${@:3}"
	grep -Eq -- "$1" err || bad "${*:2}: \"$(cat err)\" does not match \"$1\""
	state | diff before - >diff.out || bad "a dry run changed something: $(cat diff.out)"
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
