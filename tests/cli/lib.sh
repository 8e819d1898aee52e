# lib.sh - what the tests of fmove's command line share; sourced by each. A cluster of real daemons on this machine, real files.
#
# From the environment: FMOVE_BIN (the programs), FM_SOURCE (the tree). A test ends with 0, 1, or 77 if it cannot run here.

set -u
: "${FMOVE_BIN:?directory of fmove and fmoved}" "${FM_SOURCE:?top of the source tree}"
export FMOVE_BIN
PATH=$FMOVE_BIN:$PATH
export LC_ALL=C.UTF-8
fails=0
dir=
nodes=0

skip() {
	echo "SKIP: $*"
	exit 77
}

# A test that goes wrong says what, and goes on: one run shows everything.
bad() {
	printf 'FAIL: %s\n' "$*" | cut -c 1-600 >&2
	fails=$((fails + 1))
}

# The options that a --help, or the source of a manual, has entries for; from standard input, one a line.
help_options() {
	sed -n 's/^  --\([a-z-]*\).*/\1/p' | sort -u
}

man_options() {
	sed 's/\\-/-/g' | grep -oE -- '^\.(BR|B|BI|IR) "?--[a-z-]+' | grep -oE '[a-z][a-z-]+$'
}

# up N: nodes n1 .. nN, joined; $dir/nI/s is the store "s" of nI. fmove talks to n1.
up() {
	dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cli.XXXXXX") || exit 1
	chmod 755 "$dir"
	trap down EXIT
	trap 'bad interrupted; exit' INT TERM
	if ! "$FM_SOURCE/tests/cluster" up "$dir/c" "$1"; then
		bad "the cluster does not start"
		"$FM_SOURCE/tests/cluster" down "$dir/c"
		exit
	fi
	nodes=$1
	mkdir "$dir/w"
	cd "$dir/w" || exit 1
	use 1
}

# use I: talk to node nI from here on.
use() {
	export FMOVE_SOCKET="$dir/c/n$1/fmoved.sock"
}

store() {
	echo "$dir/c/n$1/s"
}

down() {
	status=$?
	trap - EXIT
	if [ "$nodes" -gt 0 ]; then
		alive
		"$FM_SOURCE/tests/cluster" down "$dir/c" || bad "the cluster does not stop cleanly"
	fi
	# What the last command of a script gave says nothing.
	[ $status -eq 77 ] && [ "$fails" -eq 0 ] && { rm -rf "$dir"; exit 77; }
	[ "$fails" -eq 0 ] && { rm -rf "$dir"; exit 0; }
	tail -n 20 "$dir"/c/n*/log 2>/dev/null
	[ -n "${FM_KEEP:-}" ] && echo "kept: $dir" || rm -rf "$dir"
	exit 1
}

# Every daemon still answers.
alive() {
	for i in $(seq "$nodes"); do
		fmove --socket "$dir/c/n$i/fmoved.sock" status --json >/dev/null 2>&1 || bad "n$i does not answer any more"
	done
}

# ok COMMAND...: it must succeed.
ok() {
	"$@" >out 2>err || { bad "$* -> $?: $(cat err)"; return 1; }
}

# no STATUS PATTERN COMMAND...: it must fail with this exit status and one line on standard error that matches PATTERN.
no() {
	want=$1 pattern=$2
	shift 2
	"$@" >out 2>err </dev/null
	got=$?
	[ $got -eq "$want" ] || bad "$* -> $got instead of $want: $(cat err)"
	[ "$(wc -l <err)" -eq 1 ] || bad "$* says $(wc -l <err) lines: $(cat err)"
	grep -Eq -- "$pattern" err || bad "$*: \"$(cat err)\" does not match \"$pattern\""
}

same() {
	cmp "$1" "$2" || bad "$1 and $2 differ"
}

# random BYTES FILE
random() {
	head -c "$1" /dev/urandom >"$2"
}

# no_useless_partials: as no_partials, but what a journal stands beside may stay for the next try: a failure left it, not a cancel.
no_useless_partials() {
	local part

	find "$dir/w" "$dir"/c/n*/s -name '.fmove.*.part' -type f 2>/dev/null | while read -r part; do
		[ ! -s "${part%.part}.journal" ] || rm -f "$part" "${part%.part}.journal"
	done
	no_partials
}

# no_partials: nothing half-done lies about, here or in any store. The daemon may take a moment.
no_partials() {
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		left=$(find "$dir/w" "$dir"/c/n*/s -name '.fmove*' -type f 2>/dev/null)
		[ -z "$left" ] && return
		sleep 0.2
	done
	bad "left behind: $left"
}

# json KEY FILE: the value of a key in one flat JSON object, without its quotes.
json() {
	sed -n "s/.*\"$1\":\"\\{0,1\\}\\([^,\"}]*\\).*/\\1/p" "$2"
}
