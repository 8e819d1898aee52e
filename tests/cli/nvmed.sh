#!/bin/bash
# Goal:   fmove-nvmed says in --help what its manual says; --check finds what a start would trip over; it is for root; it needs no target,
#         no module and no network to be up, and ends when it is told to.
# Method: the program itself. What needs a target is tried in the lab.
. "$(dirname "$0")/lib.sh"
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cli.XXXXXX") && cd "$dir" || exit 1
trap 'down' EXIT
HOSTID=11111111-2222-3333-4444-555555555555

# conf ID [WRITER]: an address where nobody listens.
conf() {
	cat <<-C
	node = { name = "n1"; state_directory = "null:"; };
	nvme = { host_nqn = "nqn.2014-08.org.nvmexpress:uuid:$HOSTID"; host_id = "$1"; socket = "$dir/run/sock"; state_directory = "$dir/state"; };
	volumes = ( { name = "data"; subsystem = "disk1"; address = "127.0.0.1:1"; mount = "$dir/mnt"; writer = "${2:-n1}"; } );
	C
}

# --- words ---

man=$FM_SOURCE/config/man/fmove-nvmed.8
fmove-nvmed --help >help 2>err || bad "--help fails"
[ -s err ] && bad "--help talks on standard error"
awk 'length($0) > 80 { exit 1 }' help || bad "--help is wider than 80"
for option in $(help_options <help); do
	sed 's/\\-/-/g' "$man" | grep -q -- "--$option" || bad "fmove-nvmed(8): --$option is missing"
done
for option in $(man_options <"$man"); do
	help_options <help | grep -qx -- "$option" || bad "fmove-nvmed(8) has --$option, --help has not"
done
fmove-nvmed --version | grep -Eq '^fmove-nvmed [0-9]+\.[0-9]+' || bad "--version"
if command -v man >/dev/null; then
	for page in "$man" "$FM_SOURCE/nvmetcp/man/fmove-nvmed-api.7"; do
		MANWIDTH=80 man --warnings -l "$page" 2>&1 >/dev/null | grep . && bad "$page has mistakes"
	done
fi

# --- bad input: status 2 and one line ---

# wrong WORD ARGUMENT...
wrong() {
	local word=$1 status=0
	shift
	fmove-nvmed "$@" >out 2>err || status=$?
	[ $status -eq 2 ] || bad "$*: status $status"
	grep -q -- "$word" err || bad "$*: no \"$word\" in: $(cat err)"
	[ "$(wc -l <err)" -eq 1 ] || bad "$*: not one line: $(cat err)"
}

wrong "no argument" more
wrong "must be error" --log-level loud
wrong 'not an option' --no-such
wrong "none is not there: is the name right" --config none
conf 99999999-2222-3333-4444-555555555555 >bad
wrong "must be the same" --config bad --check
printf 'node = { name = "n1"; };\nnvme = { host_nqn_file = "%s/none"; };\n' "$dir" >bad
wrong "fmove nvme discover --system ADDRESS" --config bad --check
conf $HOSTID >conf
fmove-nvmed --config conf --check || bad "--check of a good configuration"

# --- peers.d is another user's: from here on it holds a link to a secret and other nonsense, and nobody looks at it ---

mkdir peers.d
echo "the word is hunter2" >secret
ln -s ../secret peers.d/link.conf
mkfifo peers.d/pipe.conf
echo "hunter2 = ;" >peers.d/broken.conf
fmove-nvmed --config conf --check >out 2>&1 || bad "--check with nonsense in peers.d: $(cat out)"
[ -s out ] && bad "--check says something of peers.d: $(cat out)"
fmove nvme units --config conf --stdout >out 2>&1
grep -q -e hunter2 -e peers.d out && bad "units looks into peers.d: $(cat out)"
fmove config check conf >out 2>&1 && bad "nobody says that peers.d holds nonsense: $(cat out)"
grep -q hunter2 out && bad "the error shows what stands in a file: $(cat out)"

# --- for root ---

if [ "$(id -u)" -ne 0 ]; then
	fmove-nvmed --config conf >out 2>err && bad "it runs without root"
	grep -q "must be root" err || bad "without root: $(cat err)"
	exit
fi
ln -s conf a.conf		# a reload reads what the link leads to then
fmove-nvmed --config a.conf >log 2>&1 &
pid=$!
export FMOVE_NVMED_SOCKET=$dir/run/sock
# its_status [WORD]: it answers, with that word in it; or it has ended.
its_status() {
	kill -0 $pid 2>/dev/null || return 0
	fmove nvme status data >out 2>err && grep -q "${1:-}" out
}
await its_status waiting
grep -q "waiting" out || bad "its status: $(cat out err log)"
# Its helpers are forks.
[ "$(ls /proc/$pid/task | wc -l)" -eq 1 ] || bad "it has more than one thread"
fmove-nvmed --config conf >out 2>err && bad "a second one runs beside it"
grep -q "another fmove-nvmed" err || bad "a second one: $(cat err)"
fmove nvme down --all >out 2>err || bad "down --all: $(cat err)"
fmove nvme up data --wait 0 >out 2>err && bad "up during down --all"
grep -q "up --all" err || bad "up during down --all: $(cat err)"
fmove nvme up --all >out 2>err || bad "up --all: $(cat err)"
fmove nvme up data --wait 1s >out 2>err && bad "it is up without a target"
grep -q "not yet" err || bad "up after up --all: $(cat err)"
for words in "down data --all" "down --all --force" "down data --force-after 1s" "up --all --for-unit" "up" "connect --all"; do
	# shellcheck disable=SC2086
	fmove nvme $words >out 2>err
	[ $? -eq 2 ] || bad "nvme $words is taken: $(cat out err)"
done
fmove nvme up none >out 2>err && bad "a volume that is not configured goes up"
grep -q 'no volume "none" is configured' err || bad "an unknown volume: $(cat err)"
[ "$(wc -l <err)" -eq 1 ] || bad "an unknown volume: not one line: $(cat err)"
fmove nvme down data >out 2>err || bad "down: $(cat err)"
# reloaded: it has said what became of the configuration, or has ended.
reloaded() {
	kill -0 $pid 2>/dev/null || return 0
	grep -q reload log
}
kill -HUP $pid
await reloaded
grep -q -e hunter2 -e peers.d -e "nothing is changed" log && bad "it reads peers.d: $(cat log)"
# A reload that finds a mistake changes nothing, and the status says so until one succeeds.
says_mistake() {
	fmove nvme status >out && grep -Eq '^warning: the configuration was changed but has a mistake: .*conf:[0-9]+: .*syntax error.*; what runs is that of [0-9-]+ [0-9:]+$' out &&
		fmove nvme status --json >out && grep -Eq '"config_mistake": ?"[^"]*syntax error' out
}
says_none() {
	fmove nvme status >out && ! grep -q mistake out && fmove nvme status --json >out && grep -Eq '"config_mistake": ?""' out
}
says_none || bad "a mistake in a good configuration: $(cat out)"
# The removal of the package looks for it as it stands here (config/debian/fmove.prerm).
grep -Eq '"mount_point": *"[^"]*", *"is_mounted": *false, *"is_read_write": *false' out || bad "status --json: $(cat out)"
cp conf worse && echo nonsense >>worse && ln -sfn worse a.conf
kill -HUP $pid
await says_mistake || bad "the mistake is not said: $(cat out log)"
ln -sfn conf a.conf
kill -HUP $pid
await says_none || bad "the mistake that was mended: $(cat out log)"
kill -TERM $pid
wait $pid || bad "it ends with status $?: $(cat log)"
[ -e run/sock ] && bad "its socket is still there"
fmove-nvmed --config conf >log 2>&1 &
pid=$!
await its_status
grep -q "wanted down" out || bad "the wish is forgotten: $(cat out err log)"
kill -TERM $pid
wait $pid || bad "it ends with status $?: $(cat log)"

# --- files of state that others could have written count for nothing ---

chmod 0777 state
fmove-nvmed --config conf >log 2>&1 &
pid=$!
await its_status
grep -q "wanted up" out || bad "it believes a directory that everybody may write to: $(cat out err log)"
grep -q "others than root may write to $dir/state" log || bad "nothing is said of the directory: $(cat log)"
grep -q "nothing is mounted until that is mended" log || bad "nor what follows: $(cat log)"
# A wish is written where a mount is noted: what cannot be is in force, and the line says why and what to do.
fmove nvme down data >out 2>err || bad "down: $(cat err)"
grep -q "^fmove: warning: the wish is in force, but would not survive a restart: .*$dir/state" err || bad "down is not remembered, and says: $(cat err)"
is_logged "would not survive a restart: .*others than root may write to $dir/state.*then systemctl restart fmove-nvmed" log ||
	bad "a wish is written down nowhere, and nobody is told: $(cat log)"
kill -TERM $pid
wait $pid || bad "it ends with status $?: $(cat log)"
