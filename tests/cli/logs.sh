#!/bin/bash
# Goal:   fmove logs JOB finds what both nodes of a transfer logged of it, or all that stage a dataset, under one id: when it began and ended, also why it failed. It prints
#         nothing that a terminal obeys, says where each line came from, and where the log is without a journal.
# Method: two nodes whose standard error is a real systemd-journald's, in a mount namespace with a /run of its own.
[ "$(id -u)" -eq 0 ] || { echo "SKIP: not root"; exit 77; }
[ -x /usr/lib/systemd/systemd-journald ] || { echo "SKIP: no systemd-journald"; exit 77; }
[ -s /etc/machine-id ] || { echo "SKIP: no /etc/machine-id"; exit 77; }
if [ -z "${FM_LOGS_INSIDE:-}" ]; then
	unshare -m --propagation private true 2>/dev/null || { echo "SKIP: no mount namespaces"; exit 77; }
	FM_LOGS_INSIDE=1 exec unshare -m --propagation private bash "$0"
fi
set -e
mount -t tmpfs none /run
mkdir -p /run/systemd/journal /run/log
set +e
. "$(dirname "$0")/lib.sh"

programs=$FMOVE_BIN wrapped=$(mktemp -d /run/bin.XXXXXX)
ln -s "$programs"/* "$wrapped"
rm "$wrapped/fmoved"
cat >"$wrapped/fmoved" <<END
#!/bin/bash
[ -S /run/systemd/journal/socket ] || exec "$programs/fmoved" "\$@"
exec systemd-cat -t fmoved bash -c 'JOURNAL_STREAM=\$(stat -Lc %d:%i /proc/self/fd/2) exec "\$@"' - "$programs/fmoved" "\$@"
END
chmod +x "$wrapped/fmoved"
FMOVE_BIN=$wrapped

# Without a journal it says where the log is.
fmove logs abcd2345 >out 2>err; status=$?
[ $status -eq 1 ] && [ ! -s out ] || bad "without a journal: $status: $(cat out)"
grep -q "standard error is the log.*\"job abcd2345:\"" err || bad "without a journal: $(cat err)"
rm -f out err

rm -rf /run/log/*
/usr/lib/systemd/systemd-journald 2>/dev/null &
journald=$!
takes_lines_or_ended() {
	systemd-cat true || ! kill -0 $journald
}
await takes_lines_or_ended && kill -0 $journald 2>/dev/null || { echo "SKIP: systemd-journald does not run here"; exit 77; }
asides=$journald
export FM_CLUSTER_STORE='quota = "3MiB";'
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "100MiB"; grace = "0s"; peers = [ "*" ]; };'
up 2

# logged JOB COUNT: so many lines are found.
logged() {
	[ "$(fmove logs "$1" 2>/dev/null | wc -l)" -eq "$2" ]
}

# job_of ARGUMENT...: the id of a job that this begins and that has ended.
job_of() {
	fmove "$@" --detach --json | sed -n 's/.*"job":"\([a-z2-7]*\)".*/\1/p'
}

# One that is done: its beginning and its end, at either node.
echo content >"$(store 1)/f"
job=$(job_of put n1:s/f "n2:s/$(printf 'odd\033[31m')")
fmove wait "$job" >/dev/null || bad "the put failed"
await logged "$job" 4 || bad "lines of a put: $(fmove logs "$job" 2>&1)"
fmove logs "$job" >out 2>err || bad "logs: $(cat err)"
[ "$(grep -c "fmoved.*\]: job $job: put of n2:s for n1 begins: odd.x1b\[31m$" out)" -eq 2 ] || bad "where it began: $(cat -v out)"
[ "$(grep -c "fmoved.*\]: job $job: put of n2:s for n1 is done: 8 bytes moved in [0-9]* ms$" out)" -eq 2 ] || bad "where it ended: $(cat -v out)"
[ "$(sed 's/.*fmoved\[\([0-9]*\)\].*/\1/' out | sort -u | wc -l)" -eq 2 ] || bad "not two daemons: $(cat -v out)"
grep -q $'\033' out && bad "escapes: $(cat -v out)"

# One that fails.
use 2
job=$(job_of get n1:s/missing n2:s/g)
fmove wait "$job" >/dev/null 2>&1 && bad "a get of nothing is done"
await logged "$job" 4 || bad "lines of a get: $(fmove logs "$job" 2>&1)"
fmove logs "$job" | grep "get of n1:s for n2 ended: .*missing" | grep -q "no such\|not exist\|No such" || bad "why: $(fmove logs "$job")"

# What a store does for it meanwhile, too: an older version goes to make room.
use 1
mkdir "$(store 1)/t"
for version in 1 2; do
	random 1200000 "$(store 1)/t/f$version"
	rm -f "$(store 1)/t/f$((version - 1))"
	ok fmove put -r --replace n1:s/t n2:s/t
done
random 1200000 "$(store 1)/large"
job2=$(job_of put n1:s/large n2:s/large)
fmove wait "$job2" >/dev/null || bad "a put that needs room failed"
await logged "$job2" 5 || bad "lines of a put that needs room: $(fmove logs "$job2" 2>&1)"
fmove logs "$job2" | grep -q "]: job $job2: store s: removed .* to make room" || bad "what went: $(fmove logs "$job2")"
use 2

# As JSON; one that was forged says so, unless the journal looks for its program too late, and is escaped.
printf 'FMOVE_JOB=%s\nMESSAGE=forged \033]0;x\007\n' "$job" | logger --journald
await logged "$job" 5 || bad "a line of somebody else: $(fmove logs "$job" 2>&1)"
fmove logs "$job" | grep -Eq '(logger|\?).*\]: forged .x1b\]0;x.x07$' || bad "forged: $(fmove logs "$job" | cat -v)"
fmove logs --json "$job" >out
python3 - out <<'END' || bad "JSON: $(cat out)"
import json, sys
said = json.load(open(sys.argv[1]))
assert said["exit"] == 0 and len(said["lines"]) == 5
for line in said["lines"]:
    assert set(line) == {"time_us", "host", "from", "pid", "priority", "text"}
assert [line["priority"] for line in said["lines"]][:4] == ["6"] * 4
END

# What both nodes stage together (cli.stage_logs has all of it).
mkdir "$(store 1)/set" && echo content >"$(store 1)/set/f"
fmove stage --nodes all --json n1:s/set >out 2>err || bad "stage: $(cat out err)"
staged=$(json job out)
both_ready() {
	[ "$(fmove logs "$staged" | grep "]: job $staged: n1:s/set is ready here: " | sed 's/.*fmoved\[\([0-9]*\)\].*/\1/' | sort -u | wc -l)" -eq 2 ]
}
await both_ready || bad "lines of what is staged: $(fmove logs "$staged" 2>&1)"

# Lines as they come.
use 1
fmove logs --follow "$job" >out 2>err &
follower=$!
await grep -q forged out || bad "--follow shows nothing: $(cat err)"
printf 'FMOVE_JOB=%s\nMESSAGE=one more\n' "$job" | logger --journald
await grep -q "one more" out || bad "--follow does not go on: $(cat out err)"
kill -TERM $follower
wait $follower; status=$?
[ $status -eq 130 ] || bad "--follow ended with $status: $(cat err)"

# Nothing there, and no id at all.
fmove logs zzzz2222 >out 2>err; status=$?
[ $status -eq 1 ] && grep -q "no line of job zzzz2222" err || bad "nothing there: $status $(cat err)"
for id in abc abcd23451 ABCD2345 'abcd234=' ''; do
	fmove logs "$id" >out 2>err; status=$?
	[ $status -eq 2 ] && grep -q "no id of a job" err || bad "\"$id\": $status $(cat err)"
done

# A journal that stands still keeps no transfer waiting.
kill -STOP $journald
timeout "$HANG_S" fmove put --force "$(store 1)/f" n2:s/again || bad "a journal that stands still: the put failed"
kill -CONT $journald
