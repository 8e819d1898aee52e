#!/bin/bash
# Goal:   standard input and output are files like others: of unknown size, broken, full, open in the middle.
# Method: pipes, redirected files, devices, at both ends; what must fail leaves nothing behind.
. "$(dirname "$0")/lib.sh"
up 2

for size in 0 1 4096 100000 3000013; do
	random $size "f$size"
	cat "f$size" | fmove put - "n2:s/pipe$size" 2>err || bad "put - of $size bytes: $(cat err)"
	same "f$size" "$(store 2)/pipe$size"
	fmove get "n2:s/pipe$size" - 2>err | cmp - "f$size" || bad "get - of $size bytes: $(cat err)"
	fmove put - "n2:s/file$size" <"f$size" 2>err || bad "put - from a file of $size bytes: $(cat err)"
	same "f$size" "$(store 2)/file$size"
	fmove get "n2:s/pipe$size" - >to 2>err || bad "get - into a file of $size bytes: $(cat err)"
	same "f$size" to
done

# A writer that is slow, as those of checkpoints are.
{ for i in 1 2 3 4 5; do cat f100000; sleep 0.2; done; } | fmove put - n2:s/slow 2>err || bad "slow pipe: $(cat err)"
cat f100000 f100000 f100000 f100000 f100000 | cmp - "$(store 2)/slow" || bad "slow pipe: other bytes"

# From where the shell left it, to where it is: not from the start, not over what is there.
{ read -r -N 10 _ <&0; fmove put - n2:s/middle 2>err; } < <(cat f3000013) >/dev/null 2>&1
seq 1000 >numbers
{ read -r _; fmove put - n2:s/tail 2>err || bad "put - in the middle of a file: $(cat err)"; } <numbers
tail -n +2 numbers | cmp - "$(store 2)/tail" || bad "put - did not go on where the shell was"
echo before >appended
fmove get n2:s/tail - >>appended 2>err || bad "get - >>: $(cat err)"
{ echo before; tail -n +2 numbers; } | cmp - appended || bad "get - >> wrote over something"
fmove get n2:s/tail - >/dev/null 2>err || bad "get - >/dev/null: $(cat err)"
mkfifo fifo
cat numbers >fifo &
ok fmove put fifo n2:s/fifo
same numbers "$(store 2)/fifo"

# What cannot be written is an error; a reader that has enough is one too, but quickly.
fmove get n2:s/pipe3000013 - >/dev/full 2>err && bad "a full device went unnoticed"
grep -q 'No space left' err || bad "a full device: $(cat err)"
fmove ls n2:s >/dev/full 2>err && bad "ls into a full device went unnoticed"
fmove get n2:s/pipe3000013 - 2>err | head -c 10 >/dev/null
[ "${PIPESTATUS[0]}" -eq 1 ] || bad "get - | head gave ${PIPESTATUS[0]}: $(cat err)"
no 2 'both want standard output' fmove get --json n2:s/tail -
no 2 'standard input has no name' fmove put - n2:s/d/

# A source that changes while it is read is an error, and nothing appears.
random 20000000 growing
slow 1
( moved growing 0; echo more >>growing; fast 1; [ "$fails" -eq 0 ] ) &
no 1 'chang' fmove put growing n2:s/growing
wait $! || bad "it was not changed while it was read"
[ -e "$(store 2)/growing" ] && bad "a file that changed while it was read was published"
no_partials

# A named pipe's target is looked at before, and --timeout is that of both: a daemon that takes a second for the look, and says what it is asked.
cat >slow.py <<'END'
import json, socket, threading, time
def serve(one):
    while asked := one.recv(65536):
        asked = json.loads(asked)
        if asked["op"] == "stat":
            time.sleep(1)
            said = {"event": "error", "code": "ENOENT", "exit": 1, "text": "none"}
        else:
            said = {"event": "done"}
        if asked["op"] == "put":
            print(asked["timeout_ms"], flush=True)
        one.send(json.dumps(said | {"id": asked["id"]}).encode())
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind("slow.sock")
listener.listen()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
END
python3 slow.py >asked &
daemon=$!
await test -S slow.sock
mkfifo named
sleep $HANG_S >named &
writer=$!
ok fmove --socket slow.sock put -q --timeout 100s named n2:s/named
kill $daemon $writer
[ "$(cat asked)" -le 99000 ] || bad "--timeout counts twice: $(cat asked) ms of 100000 are left behind a second"
