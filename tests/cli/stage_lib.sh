# stage_lib.sh - what tests of staging by several nodes share; sourced by them, behind lib.sh.

# at I COMMAND...: fmove at node nI.
at() {
	local node=$1

	shift
	FMOVE_SOCKET=$dir/c/n$node/fmoved.sock fmove "$@"
}

# settled COMMAND...: with `out` and `err`; once more while a run that others had begun ended before this node had its part, which says so.
settled() {
	local status tries

	for ((tries = 0; tries < 20; tries++)); do
		"$@" >out 2>err
		status=$?
		grep -q 'the run ended before it was here; run it again' err || break
	done
	return $status
}

# read_of I: bytes that nI has read from sources.
read_of() {
	at "$1" datasets --json >"sums.$1"
	json source_bytes "sums.$1"
}

# path_of I FILE: where nI has it, out of what stage --json said.
path_of() {
	grep -o "{\"node\":\"n$1\",[^}]*}" "$2" >row
	json path row
}

# is_copy NAME PATH: of the directory of that name in n1's store.
is_copy() {
	[ -d "$2" ] && same_content "$(store 1)/$1" "$2" >&2 || bad "$1: what is in \"$2\" differs"
}
