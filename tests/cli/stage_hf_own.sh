#!/bin/bash
# Goal:   what only the caller's own hub cache has is staged for him alone: read with his rights, into a hub of his, and neither another user
#         nor another node gets or sees anything of it.
# Method: real daemons, hub caches made here, three users. Two of them have other bytes under one commit, and one of them the same as a store.
#         Hostile caches, a home that stops answering (hang_fs, FUSE).
. "$(dirname "$0")/lib.sh"
need_nobody
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "400MiB"; grace = "0s"; peers = [ "*" ]; };'
export FM_CLUSTER_STORE='layout = "hf"; read = [ "*", "peer:*", "group:games" ];'
up 2
umask 022
chmod 755 "$dir/c" "$dir/c/n1" "$dir/w"
chmod 711 "$dir/c/n1/cache"
chmod 755 "$dir/c/n2"
chmod 666 "$dir"/c/n[12]/fmoved.sock

one=$(printf one | sha1sum) one=${one%% *}
two=$(printf two | sha1sum) two=${two%% *}

# has DIRECTORY NAME COMMIT TEXT: a repository in that hub cache, in the older layout: a file of 5,000,000 bytes and a small one.
has() {
	local at=$1/models--me--$2 sum

	mkdir -p "$at/blobs" "$at/refs" "$at/snapshots/$3/sub"
	yes "$4" | head -c 5000000 >"$at/new"
	touch -d '2020-01-01 00:00:00' "$at/new"
	sum=$(sha256sum <"$at/new") sum=${sum%% *}
	mv "$at/new" "$at/blobs/$sum"
	ln -sf "../../blobs/$sum" "$at/snapshots/$3/model.safetensors"
	sum=$({ printf 'blob %s\0' $((${#4} + 1)); echo "$4"; } | sha1sum) sum=${sum%% *}
	echo "$4" >"$at/blobs/$sum"
	touch -d '2020-01-01 00:00:00' "$at/blobs/$sum"
	ln -sf "../../../blobs/$sum" "$at/snapshots/$3/sub/config.json"
	printf %s "$3" >"$at/refs/main"
}

a=61001 b=61002
for user in $a $b; do mkdir -p "home$user/hub"; done
has home$a/hub m "$one" 'of a'
has home$b/hub m "$one" 'of b'
for user in $a $b; do
	chown -R $user:$user home$user
	chmod 700 home$user
done

# as USER COMMAND...: with his own cache.
as() {
	local user=$1

	shift
	setpriv --reuid "$user" --regid "$user" --clear-groups env -u HF_HUB_CACHE -u HUGGINGFACE_HUB_CACHE HF_HOME="$dir/w/home$user" "$@"
}
# refused STATUS PATTERN USER COMMAND...: as `no`; that who runs it is another user is said, too.
refused() {
	local want=$1 pattern=$2 got
	shift 2
	as "$@" >out 2>err </dev/null
	got=$?
	[ $got -eq "$want" ] && grep -q -- "$pattern" err || bad "$* -> $got instead of $want: $(cat err)"
}
home() {
	echo "$dir/c/n1/cache/hf-$1"
}

# Each gets his own bytes of one commit, in a hub of his own, at whose names nobody else can look.
for user in $a $b; do
	as $user fmove stage hf:me/m -- sh -c 'echo "$FMOVE_STAGED" "$HF_HOME" "$HF_HUB_CACHE"; cat "$FMOVE_STAGED/sub/config.json"; ls -R "$FMOVE_STAGED/" | wc -l' \
		>out$user 2>err || bad "$user: $(cat err)"
	path=$(home $user)/hub/models--me--m/snapshots/$one
	{ read -r staged hf_home cache; read -r text; } <out$user
	[ "$staged $hf_home $cache" = "$path $(home $user) $(home $user)/hub" ] || bad "$user: another place: $(cat out$user)"
	grep -q "HF_HOME=$(home $user)" err || bad "$user: no HF_HOME: $(cat err)"
	grep -q "hf://~$user/models--me--m@$one" err || bad "$user: another source: $(cat err)"
	grep -q "home$user/hub, which no node shares" err || bad "$user: it is not said where it is from: $(cat err)"
	diff -r "home$user/hub/models--me--m/snapshots/$one" "$path" || bad "$user: the snapshot differs"
	[ "$(<"$(home $user)/hub/models--me--m/refs/main")" = "$one" ] || bad "$user: refs/main"
done
[ ! -e "$dir/c/n1/cache/hf" ] || bad "it is in the hub of all: $(ls -R "$dir/c/n1/cache/hf")"
as $b sh -c 'ls "$1" 2>/dev/null; cat "$1/hub/models--me--m/refs/main" 2>/dev/null; ls -d "$2"/*/models* 2>/dev/null' - "$(home $a)" "$dir"/c/n1/cache/ready >out
[ ! -s out ] || bad "another user sees it: $(cat out)"
for ready in "$dir"/c/n1/cache/ready/*/models--me--m; do
	case $(cat "$ready/models--me--m/snapshots/$one/sub/config.json") in 'of a') theirs=$ready ;; esac
done
as $b cat "$theirs/models--me--m/snapshots/$one/sub/config.json" >out 2>/dev/null && bad "another user reads it"
as $a cat "$theirs/models--me--m/snapshots/$one/sub/config.json" >/dev/null || bad "he cannot read it himself"

# He sees it, root does, and the other user has only his; so it is after a start, too.
seen() {
	as $a fmove datasets --json >seen.a; as $b fmove datasets --json >seen.b; fmove datasets --json >seen.root
	grep -q "hf://~$a/" seen.a && ! grep -q "hf://~$b/" seen.a || bad "$1: a sees $(cat seen.a)"
	grep -q "hf://~$b/" seen.b && ! grep -q "hf://~$a/" seen.b || bad "$1: b sees $(cat seen.b)"
	grep -q "hf://~$a/" seen.root && grep -q "hf://~$b/" seen.root || bad "$1: root sees $(cat seen.root)"
}
seen "at first"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
start_again n1
chmod 666 "$dir"/c/n1/fmoved.sock
reachable 2
seen "after a start"
for user in $a $b; do
	diff -r "home$user/hub/models--me--m/snapshots/$one" "$(home $user)/hub/models--me--m/snapshots/$one" || bad "after a start: of $user"
done

# What has only zeros in his file is a hole of the copy.
has home$a/hub holes "$one" holes
truncate -s 20000000 sparse
echo tail >>sparse
sum=$(sha256sum <sparse) sum=${sum%% *}
mv sparse "home$a/hub/models--me--holes/blobs/$sum"
ln -s "../../blobs/$sum" "home$a/hub/models--me--holes/snapshots/$one/sparse"
chown -R $a:$a home$a
ok as $a fmove stage hf:me/holes -- sh -c 'cmp "$1" "$FMOVE_STAGED/sparse" && [ "$(stat -Lc %b "$FMOVE_STAGED/sparse")" -lt 1000 ]' - "home$a/hub/models--me--holes/blobs/$sum"
await as $a fmove unstage models--me--holes || bad "what has holes stays: $(cat out err)"
rm -r "home$a/hub/models--me--holes"

# The second time nothing comes. A check is his; a damaged chunk has no source.
ok as $a fmove stage hf:me/m -- true
grep -q 'here and unchanged' err || bad "the second time: $(cat err)"
refused 1 'no dataset here is called' $b fmove pin "hf://~$a/models--me--m@$one"
refused 1 'no dataset here is called' $b fmove unstage "hf://~$a/models--me--m@$one"
ok as $a fmove pin models--me--m
ok as $a fmove datasets check models--me--m
blob=$(readlink -f "$theirs/models--me--m/snapshots/$one/model.safetensors")
printf XXXX | dd of="$blob" bs=1 seek=4000000 conv=notrunc 2>/dev/null
touch -d '2020-01-01 00:00:00' "$blob"
as $a fmove datasets check models--me--m >out 2>err
[ $? -eq 5 ] && grep -q 'own hub cache, which only he can read' out err || bad "damaged: $(cat out err)"

# No other node: neither with the rest, nor for --nodes, nor by what it may ask.
FMOVE_SOCKET=$dir/c/n2/fmoved.sock fmove datasets --json --nodes all >out
! grep -q '~' out || bad "another node hears of it: $(cat out)"
as $a fmove datasets --json --nodes all >out
grep -q '~' out && ! grep -q '"node":"n2"' out || bad "the other node is asked of it: $(cat out)"
FMOVE_SOCKET=$dir/c/n2/fmoved.sock refused 1 'no dataset that user' $a fmove pin --nodes n1 models--me--m
FMOVE_SOCKET=$dir/c/n2/fmoved.sock refused 1 'no dataset that user' $a fmove unstage --nodes n1 models--me--m
refused 1 "no hub cache of any node has models--me--m@main.*your own hub cache has it, for you alone: fmove put -r '.*home$a/hub/models--me--m' NODE:STORE/models--me--m .*layout = " $a fmove stage --nodes all hf:me/m
refused 1 'for you alone: fmove put -r ' $a fmove stage --detach hf:me/m
refused 1 'for you alone: fmove put -r ' $a fmove stage --check content hf:me/m

# A store that has it goes first, though the files be the same, and shares nothing with what is here.
cp -a home$b/hub/models--me--m "$(store 2)/"
ok as $b fmove stage hf:me/m -- sh -c 'echo "$HF_HOME"'
[ "$(<out)" = "$dir/c/n1/cache/hf" ] && grep -q 'hf://n2:s/' err || bad "a store does not go first: $(cat out err)"
[ "$(fmove datasets --json | grep -o '"name":"models--me--m"' | wc -l)" -eq 3 ] || bad "not three copies: $(fmove datasets)"
rm -r "$(store 2)/models--me--m"

# Another commit: what did not change is not read again. A ref that moves leads to it.
has home$a/hub m "$two" 'of a'
echo more >home$a/hub/models--me--m/snapshots/"$two"/more
chown -R $a:$a home$a
ok as $a fmove stage hf:me/m -- sh -c 'cat "$FMOVE_STAGED/more"'
[ "$(<out)" = more ] && [ "$(<"$(home $a)/hub/models--me--m/refs/main")" = "$two" ] || bad "another commit: $(cat out err)"

# What is wrong with it is said, and nothing of it comes: links out, a blob that is not its name, a download under way, somebody else's files.
hostile=home$b/hub/models--me--hostile
made() {
	rm -rf "$hostile"
	has home$b/hub hostile "$one" fine
}
made; ln -s ../../../../../../../etc/passwd "$hostile/snapshots/$one/out"
refused 6 "no node that answers has it, and your own .*home$b/hub: .*leads to where no blobs" $b fmove stage hf:me/hostile
made; ln -s /etc/passwd "$hostile/blobs/out"; ln -s ../../blobs/out "$hostile/snapshots/$one/out"
refused 6 'leads to where no blobs' $b fmove stage hf:me/hostile
made; : >"$hostile/blobs/abc.incomplete"
refused 5 'download.*abc.incomplete' $b fmove stage hf:me/hostile
made; echo evil >"$(readlink -f "$hostile/snapshots/$one/model.safetensors")"
refused 5 'not what its name says' $b fmove stage hf:me/hostile
fmove datasets --json | grep -q hostile && bad "something of it stays: $(fmove datasets)"
made; chown root "$(readlink -f "$hostile/snapshots/$one/model.safetensors")"; chmod 600 "$(readlink -f "$hostile/snapshots/$one/model.safetensors")"
refused 6 'permission denied' $b fmove stage hf:me/hostile
[ ! -e "$(home $b)/hub/models--me--hostile" ] || bad "it is in his hub"

# Who serves other files when they are copied than when they were listed gets nothing taken, and nothing of any try stays: neither more bytes, nor
# others, nor what came before he refused the rest. The liar is well when he does not lie.
liar=(setpriv --reuid $b --regid $b --clear-groups "$FM_BUILD/bin/own_liar")
lie() {
	"${liar[@]}" "$@" >out 2>err </dev/null
}
stays() {
	[ -z "$(ls "$dir/c/n1/cache/partial")" ] || bad "$1: of it stays: $(ls -R "$dir/c/n1/cache/partial")"
	fmove datasets --json | grep -q "~$b/models--me--lies" && bad "$1: it is a dataset: $(fmove datasets)"
	[ ! -e "$(home $b)/hub/models--me--lies" ] || bad "$1: it is in his hub"
}
has lists lies "$one" listed
mkdir more others half
cp -a lists/models--me--lies more/
head -c 6000000 /dev/zero >more/models--me--lies/large
has others lies "$one" 'others'
has half lies "$one" 'half'
rm -r {lists,more,others,half}/models--me--lies/refs	# of no revision
mkdir half/models--me--lies/closed
chown -R $b:$b lists more others half
chmod 0 half/models--me--lies/closed
lie lists more "models--me--lies@$one" && bad "more bytes are taken"
grep -q 'changed while it was copied' err || bad "more: $(cat err)"
stays more
lie lists others "models--me--lies@$one" && bad "other files are taken"
grep -q 'changed while it was fetched' err || bad "others: $(cat err)"
stays others
for i in 1 2 3; do
	lie lists half "models--me--lies@$one" && bad "half of it is taken"
	grep -q 'permission denied' err || bad "half: $(cat err)"
	stays "half $i"
done
# What he pins meanwhile stays, and the next try begins anew: else each could add other files to what is there.
mkfifo go
"${liar[@]}" lists lists "models--me--lies@$one" wait >said.lies 2>err <go &
waits=$!
exec 9>go
waits_in_it() { [ -s said.lies ]; }
await waits_in_it || bad "he does not come to the copy: $(cat err)"
ok as $b fmove pin models--me--lies
exec 9>&-
wait $waits && bad "half of it is taken"
[ -n "$(ls "$dir/c/n1/cache/partial")" ] || bad "what is pinned does not stay"
lie lists half "models--me--lies@$one" && bad "half of it is taken beside what stayed"
[ -z "$(find "$dir/c/n1/cache/partial" -name 'was.*')" ] || bad "a try keeps what the one before brought: $(find "$dir/c/n1/cache/partial")"
ok as $b fmove unpin models--me--lies
ok as $b fmove unstage models--me--lies
stays pinned
lie - half "models--me--m@$one" && bad "what cannot be listed is taken"
grep -q 'forbidden' err || bad "not listed: $(cat err)"
as $b cat "$(home $b)/hub/models--me--m/snapshots/$one/sub/config.json" >/dev/null || bad "a listing that failed takes his own copy from him"
lie lists lists "models--me--lies@$one" || bad "the truth is not taken: $(cat err)"
ok as $b fmove unstage models--me--lies

# Callers of the API, who live and serve nothing of what they ask for.
cat >callers.py <<'P'
import json, os, socket, sys, threading

PULSE_AT = 7 << 20      # FM_CHANNEL_PULSE_AT
COMMIT = sys.argv[3]
memories = []

def beat():
    n = 0
    while not threading.Event().wait(0.5):
        n += 1
        for memory in list(memories):
            os.pwrite(memory, n.to_bytes(8, "little"), PULSE_AT)

class Caller:
    def __init__(self, uid):
        os.seteuid(uid)
        self.api = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.api.connect(sys.argv[2])
        self.api.settimeout(float(os.environ["HANG_S"]))
        os.seteuid(0)
        self.asked = 0
        self.theirs = []

    def send(self, op, fds=(), **keys):
        self.asked += 1
        socket.send_fds(self.api, [json.dumps({"op": op, "id": self.asked, **keys}).encode()], fds)
        return self.asked

    def hear(self, to):
        while True:
            said = json.loads(self.api.recv(65536))
            if said.get("id") == to and said.get("event") in ("accepted", "done", "error"):
                return said

    def memory(self):
        memory = os.memfd_create("unserved")
        os.ftruncate(memory, PULSE_AT + 8)
        memories.append(memory)
        return memory

    def ask(self, listing=None):
        fds = []
        for memory in (listing or self.memory(), self.memory()):
            fds.append(memory)
            for _ in range(3):
                pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self.theirs += pair
                fds.append(pair[0].fileno())
        number = self.send("stage_own", fds, path="models--me--unserved@" + COMMIT, to="main", progress_ms=1000000)
        return number, self.hear(number)

    def cancel(self, number):
        self.send("cancel", job=number)
        return self.hear(number).get("code")

def check(is_so, what):
    if not is_so:
        print(what, flush=True)
        os._exit(1)

def bound():
    callers = [Caller(61011 + i) for i in range(7)]
    first, asked = callers[0], []
    for i in range(4):
        number, said = first.ask()
        check(said["event"] == "accepted", "request %d: %s" % (i, said))
        asked.append(number)
    number, said = first.ask()
    check(said.get("code") == "EBUSY" and said.get("full") and "yours (4 of 32)" in said["text"] and
          "when one of them has ended" in said["text"], "a fifth: %s" % said)
    for caller in callers[1:]:
        check(caller.ask()[1]["event"] == "accepted", "another user is refused")
        for _ in range(3):
            caller.ask()
    print("asked", flush=True)
    sys.stdin.readline()
    for number in asked:
        code = first.cancel(number)
        check(code == "ECANCELED", "cancelled: %s" % code)
    number, said = first.ask()
    check(said["event"] == "accepted", "behind that: %s" % said)

# For a memory file one that does not answer when it is closed.
def wrong():
    caller = Caller(61012)
    shut = os.open(sys.argv[4], os.O_RDWR)
    print("asked", flush=True)
    sys.stdin.readline()
    number, said = caller.ask(listing=shut)
    if said["event"] == "accepted":
        said = caller.hear(number)
    check(said.get("code") == "EINVAL" and "no memory file" in said["text"], "wrong descriptors: %s" % said)

# Behind a holder that never says what the descriptors are.
def unmade():
    caller = Caller(61011)
    number, said = caller.ask()
    check(said["event"] == "accepted", "not taken: %s" % said)
    print("asked", flush=True)
    sys.stdin.readline()
    code = caller.cancel(number)
    check(code == "ECANCELED", "cancelled: %s" % code)
    for i in range(3):
        check(caller.ask()[1]["event"] == "accepted", "request %d behind that" % i)
    number, said = caller.ask()
    check(said.get("full"), "it keeps no place: %s" % said)

threading.Thread(target=beat, daemon=True).start()
globals()[sys.argv[1]]()
print("done", flush=True)
os._exit(0)
P
# callers WHAT [FILE]: says "asked", and goes on with a line through descriptor 8.
callers() {
	rm -f go
	mkfifo go
	HANG_S=$HANG_S python3 callers.py "$1" "$dir/c/n1/fmoved.sock" "$one" "${2-}" <go >callers.out 2>&1 &
	callers=$!
	exec 8<>go	# also if nobody reads
}
have_asked() { grep -q asked callers.out || ! kill -0 $callers 2>/dev/null; }

# A home that stops answering in the midst: only who asked waits, he can leave, and others stage their own meanwhile.
hung=home$b/hub/models--me--hung
mkdir -p "$hung/blobs" "$hung/refs" "$hung/snapshots/$one"
printf %s "$one" >"$hung/refs/main"
mkfifo said
"$FM_BUILD/bin/hang_fs" "$hung/snapshots/$one" 2 $((32 << 20)) $b $((40 << 20)) >said &
fs=$!
read -r said <said
if [ "$said" = mounted ]; then
	trap 'status=$?; kill -KILL $fs; umount -l "$dir/w/$hung/snapshots/$one"; (exit $status); down' EXIT
	setpriv --reuid $b --regid $b --clear-groups env HF_HUB_CACHE="$PWD/home$b/hub" "$FMOVE_BIN/fmove" stage hf:me/hung >out.hung 2>err.hung &
	waits=$!
	is_copying() { as $b fmove datasets --json | grep -q '"name":"models--me--hung","state":"copying"'; }
	await is_copying || bad "nothing of the hung home comes: $(cat err.hung)"
	has home$a/hub n "$one" 'another of a'
	chown -R $a:$a home$a
	ok as $a timeout "$HANG_S" fmove stage hf:me/n -- true
	kill -0 $waits || bad "it did not hang: $(cat err.hung)"
	kill -TERM $waits
	left() { ! kill -0 $waits 2>/dev/null; }
	await left || bad "he cannot leave"
	grep -q 'nothing of it stays, and the same command begins anew' err.hung || bad "it is not said that it ends: $(cat err.hung)"
	none_copies() { ! is_copying; }
	await none_copies || bad "it goes on without him: $(fmove datasets)"
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n1 || bad "the daemon does not stop"
	kill -KILL $fs
	umount -l "$hung/snapshots/$one"
	trap down EXIT
else
	echo "not tried: ${said#SKIP: }"
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
fi

# A memory file that is none, and hangs when it is closed: whoever passes it has an answer.
mkdir shut
rm said
mkfifo said
said=
if command -v python3 >/dev/null; then
	"$FM_BUILD/bin/hang_fs" "$PWD/shut" 1 4096 0 >said &
	fs=$!
	read -r said <said
fi
if [ "$said" = mounted ]; then
	trap 'status=$?; kill -KILL $fs; umount -l "$dir/w/shut"; (exit $status); down' EXIT
	start_again n1
	chmod 666 "$dir"/c/n1/fmoved.sock
	callers wrong shut/0
	await have_asked
	kill -USR1 $fs
	echo >&8
	exec 8>&-
	says_more() { grep -qv asked callers.out; }
	await says_more || bad "descriptors that are none, and do not close: no answer"
	grep -q done callers.out || bad "descriptors that are none: $(cat callers.out)"
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n1 || bad "behind a file that does not close the daemon does not stop"
	kill -KILL $fs
	umount -l shut
	trap down EXIT
fi

# Two requests for one revision are one copy. Whoever leaves is answered at once, though only the other's home could let it go on; when both have left
# it ends, the next request has it, and the daemon stops. (The point that is late is in the holder: as a home that never answers.)
# started FAULT: n1, with that.
started() {
	FMOVE_FAULT=$1 start_again n1
	chmod 666 "$dir"/c/n1/fmoved.sock
}
log=$dir/c/n1/log
started served.buf:2+100000
has home$a/hub joined "$one" 'of a'
chown -R $a:$a home$a
gone_is() { ! kill -0 "$1" 2>/dev/null; }
# asks NAME: in the background, as $waits.
asks() {
	setpriv --reuid $a --regid $a --clear-groups env HF_HUB_CACHE="$PWD/home$a/hub" "$FMOVE_BIN/fmove" stage hf:me/joined >out."$1" 2>err."$1" &
	waits=$!
}
asks first
first=$waits
is_logged 'fault: served.buf is late' "$log" || bad "nothing is copied: $(cat err.first)"
asks second
is_logged 'what job .* brings is waited for' "$log" || bad "the second does not join: $(cat err.second)"
kill -TERM $waits
await gone_is $waits || bad "who joined cannot leave: $(cat err.second)"
kill -0 $first || bad "with him who joined the first goes: $(cat err.first)"
kill -TERM $first
await gone_is $first || bad "the first cannot leave: $(cat err.first)"
is_logged 'staging of .* ended: nobody waits for it any more' "$log" || bad "it goes on without them"
ok as $a timeout "$HANG_S" fmove stage hf:me/joined -- true
as $a fmove unstage models--me--joined || bad "unstage: $(fmove datasets)"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1 || bad "behind what never ends the daemon does not stop"
start_again n1

# Callers who live, and serve nothing of what they ask for: each has four requests at most, and all together not the threads that whoever stages
# from a store needs, though its rules name a group: whose users those are may be asked without end as well.
chmod 666 "$dir"/c/n1/fmoved.sock
if command -v python3 >/dev/null; then
	mkdir "$(store 1)/plain"
	echo plain >"$(store 1)/plain/file"
	callers bound
	await have_asked || bad "they do not ask"
	ok as $b timeout "$HANG_S" fmove stage n1:s/plain -- true
	echo >&8
	wait $callers || bad "requests that nobody serves: $(cat callers.out)"
	exec 8>&-
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
	started channel.remote:1+100000
	callers unmade
	is_logged 'fault: channel.remote is late' "$log" || bad "it is not looked at what he passed: $(cat callers.out)"
	echo >&8
	wait $callers || bad "a request that is looked at without end: $(cat callers.out)"
	exec 8>&-
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n1 || bad "what he passed is looked at, and the daemon does not stop"
	start_again n1
else
	echo "not tried: no python3"
fi

# It goes with its names, and with the last one his hub.
chmod 666 "$dir"/c/n1/fmoved.sock
reachable 2
for name in models--me--m models--me--n; do
	while as $a fmove unstage $name 2>/dev/null; do :; done
done
as $a fmove unpin models--me--m 2>/dev/null
gone() {
	as $a fmove unpin models--me--m; as $a fmove unstage models--me--m
	[ ! -e "$(home $a)" ]
}
await gone || bad "his hub stays: $(ls -lR "$(home $a)"; fmove datasets)"
exit
