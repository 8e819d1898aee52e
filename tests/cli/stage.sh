#!/bin/bash
# Goal:   a directory of another node is on this node's disk: whole, read-only, held by who asked, fetched once, and never
#         a mixture.
# Method: real daemons. What is READY is compared with its source, with the source away. Requests at once share a fetch. The
#         daemon is killed in the midst of one. The source changes, before and while it is fetched. A holder ends.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; grace = "0s"; };'
up 2

source=$(store 2)/set
mkdir -p "$source/d/empty"
for i in $(seq 50); do random 3000 "$source/d/f$i"; done
random 20000000 "$source/large"
truncate -s 9000000 "$source/holes"
ln -s d/f1 "$source/link"
ln "$source/d/f2" "$source/hard"

# rows PATTERN: the datasets that match it, a line each.
rows() {
	fmove datasets --json | grep -o '{"name":[^}]*}' | grep -e "$1"
}

# field FIELD: of the only dataset.
field() {
	rows . >row
	json "$1" row
}

# The path, and nothing else; the content; the manifest's name; nobody can write.
data=$(fmove stage n2:s/set 2>err) || bad "stage: $(cat err)"
grep -q 'fetched as' err || bad "it was not fetched: $(cat err)"
[ "$(echo "$data" | wc -l)" -eq 1 ] && [ -d "$data" ] || bad "no path: $data"
diff -r --no-dereference "$source" "$data" || bad "the copy differs"
[ "$(stat -c %i "$data/d/f2")" = "$(stat -c %i "$data/hard")" ] || bad "a hard link was lost"
[ "$(sha256sum <"$(dirname "$data")/.manifest" | cut -d ' ' -f 1)" = "$(basename "$(dirname "$data")")" ] ||
	bad "its directory is not called after its manifest"
[ -z "$(find "$data" ! -type l -perm /222)" ] || bad "something can be written to"
[ "$(field state) $(field name) $(field holds)" = "ready set 1" ] || bad "datasets: $(fmove datasets)"

# The second time nothing is fetched; under another name the same is the same.
[ "$(fmove stage n2:s/set 2>err)" = "$data" ] && grep -q 'unchanged' err || bad "the second time: $(cat err)"

# A command: held by it, in its place; ends as it does.
ok fmove stage n2:s/set -- sh -c 'test "$FMOVE_STAGED" = "$0" && fmove datasets --json | grep -q "\"holds\":[1-9]"' "$data"
fmove stage n2:s/set -- sh -c 'exit 42' 2>err
[ $? -eq 42 ] || bad "a command's status: $(cat err)"
fmove stage n2:s/set -- nothing-like-that 2>err
[ $? -eq 127 ] && grep -q 'nothing-like-that: No such file' err || bad "a command that is not there: $(cat err)"
fmove stage n2:s/set -- /dev/null 2>err
[ $? -eq 126 ] && grep -q '/dev/null: Permission denied' err || bad "a command that cannot be run: $(cat err)"

# It has SIGPIPE as who started fmove had it, though fmove itself ignores it.
for signal in default ignore; do
	env "--$signal-signal=PIPE" grep SigIgn /proc/self/status >want
	env "--$signal-signal=PIPE" fmove stage n2:s/set -- grep SigIgn /proc/self/status >out 2>err
	cmp -s want out || bad "the signals of a command, SIGPIPE to $signal: $(cat out err), and not $(cat want)"
done

# What only starts it as another user, as sudo does, is gone with it and holds nothing: that is said.
printf '#!/bin/bash\n"$@"\nexit\n' >sudo && chmod +x sudo
[ "$(./sudo fmove stage n2:s/set 2>err)" = "$data" ] || bad "as by sudo: $(cat err)"
grep -q 'which runs this, ends with it, as sudo does: the copy stays for staging.grace only; --hold-pid' err || bad "as by sudo: $(cat err)"
fmove stage n2:s/set 2>err >out
grep -q 'which runs this' err && bad "this shell stays, and it says: $(cat err)"
rm sudo

# Held, it is not removed. Its holder ends: it may be.
cp -a "$source" "$(store 2)/held"
echo held >"$(store 2)/held/held"
sleep 1000 &
holder=$!
held=$(fmove stage --hold-pid $holder n2:s/held 2>err) || bad "held by a process: $(cat err)"
no 1 'held: processes hold it, such as a shell .*datasets. names them' fmove unstage held
no 1 'held: processes hold it, such as a shell .*datasets. names them' fmove unstage --dry-run held
kill $holder
wait $holder 2>/dev/null
ok fmove unstage -n held
grep -Eq '^would remove held, [0-9.]+ [kMG]?B$' out || bad "unstage -n: $(cat out)"
ok fmove unstage -n --json held
grep -Eq '^\{"name":"held","exit":0,"dry_run":true,"bytes":[0-9]+\}$' out || bad "unstage -n --json: $(cat out)"
exec 9<"$held/held"
no 1 'held: a file of it is open' fmove unstage -n held
exec 9<&-
[ -e "$held/held" ] || bad "unstage -n removed it"
fmove unstage held 2>/dev/null || bad "its holder is gone, and it stays: $(fmove datasets)"
[ ! -e "$held" ] || bad "it was removed, and is there"

# Names are completed, and nothing of them is run.
fmove completion bash >fmove.bash
complete_of() {
	bash -c '. ./fmove.bash; compopt() { :; }; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; _fmove
		printf "%s\n" "${COMPREPLY[@]}"' x "$@"
}
odd='$(touch ran) it'
ok fmove stage --as "$odd" n2:s/held -- true
complete_of fmove unstage '' >out
grep -qx set out && grep -qxF "$(printf %q "$odd")" out || bad "completion of names: $(cat out)"
complete_of fmove pin se | grep -qx set || bad "completion of pin se"
complete_of fmove datasets check se | grep -qx set || bad "completion of datasets check se"
complete_of fmove datasets ch | grep -qx check || bad "completion of datasets ch"
complete_of fmove datasets --j | grep -qx -- --json || bad "completion of datasets --j"
[ ! -e ran ] || bad "a name was run"
await fmove unstage "$odd" 2>/dev/null || bad "it stays: $(fmove datasets)"

# Who may read the source may read the copy; who did not ask may not, and whose it is does not matter.
if [ "$(id -u)" -eq 0 ] && id nobody daemon >/dev/null 2>&1; then
	chmod 755 "$dir/c" "$dir/c/n1"
	as_nobody test -r "$data/d/f1" && bad "nobody may read it, who did not ask"
	nobody_sleeps
	[ "$(as_nobody fmove stage --hold-pid $holder n2:s/set 2>err)" = "$data" ] || bad "nobody: $(cat err)"
	as_nobody cmp "$source/d/f1" "$data/d/f1" || bad "nobody may not read it"
	setpriv --reuid daemon --regid daemon --clear-groups fmove stage n2:s/set >out 2>err || bad "daemon: $(cat err)"
	as_nobody test -r "$data/d/f1" || bad "nobody holds it, and lost it when another one asked"
	kill $holder
	wait $holder 2>/dev/null
	no 6 '' as_nobody fmove stage --hold-pid 1 n2:s/set
fi

# What cannot be.
no 1 'No such file' fmove stage /no/where
no 1 'stores = \( \{ name = "tmp"; directory = "/tmp"; \} \);' fmove stage /tmp
no 2 'absolute path in a store' fmove stage ./set
no 1 'no.*"nowhere"|nowhere' fmove stage n2:s/nowhere
no 1 '' fmove stage nobody:s/set
no 1 'no store none' fmove stage n1:none/set
no 1 'no store none; fmove df n1 ' fmove stage none/set
no 1 'no store none; fmove df n1 ' fmove verify n1:none/set
no 1 'nowhere' fmove stage s/nowhere
mkfifo "$(store 2)/fifo"
no 1 'neither a directory nor a file' fmove stage n2:s/fifo
# Inside of a directory, here and on another node: what is said is what can be done, and stage leaves nothing out.
for i in 1 2; do
	mkdir -p "$(store $i)/special/d"
	mkfifo "$(store $i)/special/d/pipe"
	no 1 '"d/pipe" is a fifo: only files, directories and links can be sent; move it away, or leave it out with --exclude of put or get' fmove stage "n$i:s/special"
done
no 1 'no dataset here is called "none"' fmove unstage none
no 1 'no dataset here is called "none"' fmove unstage -n none
no 2 'not the number' fmove stage --hold-pid x n2:s/set
no 2 'set names a whole store.*fmove df" lists' fmove stage set
no 2 'n2:s names a whole store.*--as.*fmove df n2' fmove stage n2:s
no 2 'standard output is the command' fmove stage --json n2:s/set -- true
fmove stage --json n2:s/nowhere >out 2>err
grep -Eqx '\{"source":"n2:s/nowhere","job":"[a-z2-7]{8}","exit":1,"error":\{"code":"ENOENT","text":".*nowhere.*"\}\}' out ||
	bad "no object for what failed: $(cat out err)"
fmove stage --json n2:s/set >out 2>err
grep -q '^{"path":"/.*,"fetched":false,"check":"listing","job":"[^"]*","exit":0}$' out || bad "the object: $(cat out err)"
[ "$(fmove datasets --quiet)" = set ] || bad "names: $(fmove datasets --quiet)"
no 1 'begin with a dot' fmove stage --as .x n2:s/set
no 2 'as: an empty name' fmove stage --as '' n2:s/set
no 2 'as: an empty name' fmove stage --as '' n2:s
# What has a place in the cache is what its files' sizes are, with their holes: nobody knows them before it comes.
mkdir "$(store 2)/sparse"
truncate -s 1T "$(store 2)/sparse/f"
no 1 'room' fmove stage n2:s/sparse

# A source that changed is another version; both are there.
echo more >"$source/d/new"
other=$(fmove stage n2:s/set 2>err) || bad "a changed source: $(cat err)"
[ "$other" != "$data" ] && diff -r --no-dereference "$source" "$other" || bad "the new version differs"
[ "$(rows '"state":"ready"' | wc -l)" -eq 2 ] || bad "not two versions: $(fmove datasets)"

# Ten at once: one fetch.
cp -a "$source" "$(store 2)/many"
echo many >"$(store 2)/many/d/many"
for i in $(seq 10); do fmove stage n2:s/many >"many.$i" 2>"many.err.$i" & done
wait
[ "$(sort -u many.[0-9]* | wc -l)" -eq 1 ] && [ -s many.1 ] || bad "ten at once: $(cat many.err.*)"
diff -r --no-dereference "$(store 2)/many" "$(cat many.1)" || bad "ten at once differ"
gets=$(fmove jobs --json | grep -o '{"job":[^}]*}' | grep '"path":"many"' | grep -Ec '"bytes":[0-9]{7}')
[ "$gets" -le 1 ] || bad "ten at once were $gets fetches"

# Pinned, it does not go; unpinned and unheld, it does.
ok fmove pin many
no 1 'many: it is pinned' fmove unstage many
no 1 'many: it is pinned' fmove unstage -n many
ok fmove unpin many

# SIGKILL in the midst: the next one goes on, or begins anew; it is whole.
random 30000000 "$(store 2)/many/large"
slow 2
fmove stage n2:s/many >out 2>err &
stager=$!
moved many 3000000
crash n1
wait $stager && bad "it ended well without its daemon"
fast 2
start_again n1
reachable 2
[ "$(rows '"name":"many","state":"ready"' | wc -l)" -eq 1 ] ||
	bad "half of it is ready: $(fmove datasets)"
data=$(fmove stage n2:s/many 2>err) || bad "after a kill: $(cat err)"
diff -r --no-dereference "$(store 2)/many" "$data" || bad "after a kill it differs"

# It changes while it comes: told, and nothing of it stays, since no later request could go on with it.
cp -a "$(store 2)/many" "$(store 2)/moving"
random 30000000 "$(store 2)/moving/large"
slow 2
fmove stage n2:s/moving >out 2>err &
stager=$!
moved moving 2000000
echo late >>"$(store 2)/moving/large"
fast 2
wait $stager && bad "what changed while it came is ready: $(cat out)"
grep -q 'changed while' err || bad "a source that changes: $(cat err)"
[ -z "$(rows '"name":"moving"')" ] || bad "something of it stays: $(fmove datasets)"

# Who waits is ended: the fetch goes on, is named as what keeps the dataset, and is cancelled as a job.
slow 2
fmove stage n2:s/moving >out 2>err &
stager=$!
moved moving 1000000
kill -KILL $stager
wait $stager 2>/dev/null
no 1 'fetched just now.*fmove jobs.*fmove cancel' fmove unstage moving
fmove jobs --json | grep -o '{"job":[^}]*"state":"running"[^}]*}' >row
ok fmove cancel "$(json job row)"
await fmove unstage moving 2>/dev/null || bad "a fetch that was cancelled: $(fmove datasets)"
fast 2

# Ctrl-C says what is left, and it is so: it goes on, and comes to be ready. No command is run.
slow 2
fmove stage n2:s/moving -- touch ran >out 2>err &
stager=$!
moved moving 1000000
kill -TERM $stager
wait $stager
[ $? -eq 130 ] && [ ! -s out ] || bad "interrupted: $(cat out err)"
grep -q 'no longer waited for, but it goes on, held for nobody: fmove datasets' err && [ "$(wc -l <err)" -eq 1 ] || bad "interrupted: $(cat err)"
fmove datasets | grep -Eq '^(planned|fetching) .* moving ' || bad "it does not go on: $(fmove datasets)"
fast 2
is_ready() { [ -n "$(rows '"name":"moving","state":"ready"')" ]; }
await is_ready || bad "it does not come: $(fmove datasets)"
[ ! -e ran ] || bad "who was interrupted ran his command"
await fmove unstage moving 2>/dev/null || bad "who was interrupted holds it: $(fmove datasets)"
slow 2
cp -a "$(store 2)/moving" "$(store 2)/json"
fmove stage --json n2:s/json >out 2>err &
stager=$!
moved json 1000000
kill -TERM $stager
wait $stager
[ $? -eq 130 ] && [ "$(json exit out)" = 130 ] && grep -q '"code":"ECANCELED"' out || bad "interrupted, --json: $(cat out err)"
fast 2
is_ready() { [ -n "$(rows '"name":"json","state":"ready"')" ]; }
await is_ready || bad "json does not come: $(fmove datasets)"
grep -q 'held for nobody: fmove datasets' out || bad "interrupted, it does not say who holds it: $(cat out)"
await fmove unstage json || bad "who was interrupted holds it: $(fmove datasets)"

# --detach ends when it comes, and says what is refused; of one that is here it has the path.
cp -a "$(store 2)/json" "$(store 2)/detached"
echo own >"$(store 2)/detached/own"	# json may still be here: of one version, it would be the answer
slow 2
no 2 'detach' fmove stage --detach n2:s/detached -- true
no 2 'use --pin' fmove stage --detach --hold-pid $$ n2:s/detached
no 1 'no such file' fmove stage --detach n2:s/nowhere
ok fmove stage --detach --pin n2:s/detached
[ ! -s out ] && grep -q 'n2:s/detached: comes' err || bad "detached: $(cat out err)"
fmove datasets | grep -Eq '^(planned|fetching) .* detached ' || bad "it does not come: $(fmove datasets)"
ok fmove stage --detach --json n2:s/detached
[ "$(json exit out)" = 0 ] && grep -q '"detached":true' out || bad "detached, --json: $(cat out)"
fast 2
is_ready() { [ -n "$(rows '"name":"detached","state":"ready"')" ]; }
await is_ready || bad "detached does not come: $(fmove datasets)"
here=$(fmove stage --detach n2:s/detached 2>err) && [ -d "$here" ] || bad "detached and here: $(cat err)"
no 1 'it is pinned' fmove unstage detached
# Where it came from is a name, too.
ok fmove unpin n2:s/detached
no 1 'no dataset here is called "n2:s/detache"' fmove unstage n2:s/detache
await fmove unstage n2:s/detached 2>/dev/null || bad "it is held: $(fmove datasets)"
[ -z "$(rows '"name":"detached"')" ] || bad "unstage by its source left it: $(fmove datasets)"

# A command that is none: as a shell has it.
fmove stage n2:s/set -- ./none 2>err
[ $? -eq 127 ] && grep -q './none: ' err || bad "a command that is not there: $(cat err)"
fmove stage n2:s/set -- / 2>err
[ $? -eq 126 ] || bad "a command that is a directory: $(cat err)"

# The daemon is stopped in the midst: nothing hangs.
slow 2
fmove stage n2:s/moving >out 2>err &
stager=$!
moved moving 2000000
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
wait $stager && bad "it ended well without its daemon"
fast 2
start_again n1
reachable 2

# A directory that fmoved cannot make: it says what root types, who stages hears it, and all else goes on.
sed "s|/n1/cache\"|/nowhere/cache\"|; /listen/s|:[0-9]*\"|:0\"|; s|/n1/state|/n1/other|; s|/fmoved.sock|/other.sock|" "$dir/c/n1/fmove.conf" >nowhere.conf
root="install -d -o $(id -u) -m 711 $dir/c/nowhere/cache): No such file"
fmoved --config nowhere.conf 2>log &
nowhere=$!
await fmove --socket "$dir/c/n1/other.sock" ls "n1:s" >/dev/null || bad "it does not serve without its cache: $(cat log)"
await grep -qF "$root" log || bad "no word of root: $(cat log)"
fmove --socket "$dir/c/n1/other.sock" datasets 2>err && bad "datasets of a cache that is none"
grep -qF "$root" err || bad "who asks hears not why: $(cat err)"
kill $nowhere
wait $nowhere || bad "it ends with $?"

# The source is away: what is READY is whole.
mv "$(store 2)/many" "$(store 2)/kept"
diff -r --no-dereference "$(store 2)/kept" "$data" || bad "it needs its source"
exit
