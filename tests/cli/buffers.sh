#!/bin/bash
# Goal:   what is put from memory that the daemon maps is what was there, and what is received into it; whatever the caller does meanwhile, only his own
#         transfer suffers; nobody has more of it than his share, and all of it comes back.
# Method: a program with libfmove, a step after the other; killed, its daemon killed, its memory changed and given back under a put; and one that
#         speaks to the daemon by itself, of another user, which gives back twice and names what is not its own.
. "$(dirname "$0")/lib.sh"
FM_CLUSTER_CONF=$'memory = { arena = "32MiB"; buffers = "256MiB"; };' up 2
random 20000000 f

# step ARGUMENT...: of the program, that says nothing is wrong.
step() {
	"$FMOVE_BIN/buffers" f "$@" >said 2>&1 || bad "buffers $*: $(cat said)"
}

# mapped: how many buffers the daemon of n1 has mapped.
mapped() {
	grep -c 'memfd:fmove buffer' "/proc/$(cat "$dir/c/n1/pid")/maps"
}

none_mapped() {
	[ "$(mapped)" = 0 ]
}

step moves
step freed
cmp -s f "$(store 2)/freed" || bad "what was put from a buffer that was given back is another"
step changed
step moves
await none_mapped || bad "$(mapped) buffers are still mapped"

# ---- who goes away ----

mkfifo lines
# Of the 256 MiB an eighth is root's alone; this one is root here, perhaps.
step share 16777216
before=$(cat said)
for i in 1 2 3; do
	rm -f ready
	"$FMOVE_BIN/buffers" f hold 67108864 <lines >ready 2>&1 &
	pid=$!
	exec 3>lines
	await grep -q ready ready || bad "no buffer: $(cat ready)"
	[ "$(mapped)" = 1 ] || bad "a buffer is mapped $(mapped) times"
	kill -KILL $pid
	wait $pid 2>/dev/null
	exec 3>&-
	await none_mapped || bad "a buffer of somebody who was killed is still mapped"
done
step share 16777216
[ "$(cat said)" = "$before" ] || bad "of $before shares $(cat said) are left"

# ---- the daemon goes away ----

rm -f ready
"$FMOVE_BIN/buffers" f wait first <lines >ready 2>&1 &
pid=$!
exec 3>lines
await grep -q ready ready || bad "no put: $(cat ready)"
cmp -s f "$(store 2)/first" || bad "what was put from a buffer is another"
crash n1
start_again n1
echo more >&3
twice() {
	[ "$(grep -c ready ready)" = 2 ]
}
await twice || bad "after the daemon was started again: $(cat ready)"
cmp -s f "$(store 2)/again" || bad "what was put to another daemon is another"
exec 3>&-
wait $pid || bad "after the daemon was started again: $(cat ready)"
await none_mapped || bad "$(mapped) buffers are still mapped"

# ---- a hostile program: it gives buffers back twice, in the midst of their transfers, and names those of another user

cat >hostile.py <<'P'
import fcntl, json, os, socket, sys

BYTES = 8 << 20
role, path = sys.argv[1], sys.argv[2]
api = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
api.connect(path)
asked = 0

def ask(op, fds=(), **keys):
    global asked
    asked += 1
    text = json.dumps({"op": op, "id": asked, **keys}).encode()
    socket.send_fds(api, [text], list(fds))
    return asked

def answer(to):
    while True:
        said = json.loads(api.recv(65536))
        if said.get("id") == to and said.get("event") in ("done", "error"):
            return said

def buffer(byte):
    fd = os.memfd_create("fmove buffer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.posix_fallocate(fd, 0, BYTES)
    os.pwrite(fd, bytes([byte]) * BYTES, 0)
    fcntl.fcntl(fd, 1033, 6)    # F_ADD_SEALS: shrink, grow
    return fd, answer(ask("buffer", [fd], bytes=BYTES))["buffer"]

def at_n2(path):
    return {"node": "n2", "store": "s", "path": path}

def code(to):
    return answer(to).get("code", "")

if role == "victim":
    fd, number = buffer(7)
    print(number, flush=True)
    sys.stdin.readline()
    if os.pread(fd, BYTES, 0) != bytes([7]) * BYTES:
        sys.exit("its memory is another")
    if code(ask("put", buffer=[number], **at_n2("victim"))):
        sys.exit("its put failed")
else:
    theirs = int(sys.argv[3])
    for number in (theirs, theirs + 1, 0, 2**53):
        for op, keys in (("put", at_n2("stolen")), ("get", at_n2("first")), ("buffer_free", {})):
            if code(ask(op, buffer=[number], **keys)) not in ("EBADF", "EINVAL"):
                sys.exit("%s of %d" % (op, number))
    for i in range(20):
        fd, mine = buffer(i)
        put = ask("put", buffer=[mine], limit=BYTES * 4, force=True, **at_n2("hostile"))
        free = [ask("buffer_free", buffer=[mine]) for _ in range(3)]
        again = ask("put", buffer=[mine], **at_n2("stolen"))
        got = {}
        while len(got) < 5:
            said = json.loads(api.recv(65536))
            if said.get("event") in ("done", "error"):
                got[said["id"]] = said.get("code", "")
        if got[free[0]] or got[put] or [got[i] for i in free[1:] + [again]] != ["EBADF"] * 3:
            sys.exit("a buffer given back: %s" % got)
P
if [ "$(id -u)" -eq 0 ] && command -v python3 >/dev/null; then
	rm -f ready
	python3 hostile.py victim "$FMOVE_SOCKET" <lines >ready 2>&1 &
	pid=$!
	exec 3>lines
	await grep -q '^[0-9]*$' ready || bad "no buffer: $(cat ready)"
	chmod 755 .
	as_nobody timeout $HANG_S python3 "$PWD/hostile.py" hostile "$FMOVE_SOCKET" "$(cat ready)" >said 2>&1 || bad "hostile: $(cat said)"
	echo >&3
	wait $pid || bad "the one beside it: $(cat ready)"
	exec 3>&-
	head -c 8388608 /dev/zero | tr '\0' '\7' | cmp - "$(store 2)/victim" || bad "what another one put is another"
	[ ! -e "$(store 2)/stolen" ] || bad 'a buffer that is not his was put'
	await none_mapped || bad "$(mapped) buffers are still mapped"
	alive
fi
idle
