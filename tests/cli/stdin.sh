#!/bin/bash
# Goal:   a standard input that cannot be read as a stream is refused, and one that fails fails the put: it is not the peer's fault, nor an end.
# Method: sockets and other descriptors from Python as standard input.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "needs python3"
up 2

# with KIND COMMAND...: with that as standard input; its exit status.
with() {
	timeout "$HANG_S" python3 - "$@" 3>&2 <<'PY'
import os, select, socket, struct, subprocess, sys, time

kind, command = sys.argv[1], sys.argv[2:]
keep = []

def connected():
    listener = socket.create_server(("127.0.0.1", 0))
    near = socket.create_connection(listener.getsockname())
    far, _ = listener.accept()
    keep.extend((listener, near, far))
    return near, far

if kind == "epoll":
    end = select.epoll()
elif kind == "listening":
    end = socket.create_server(("127.0.0.1", 0))
elif kind == "messages":
    end, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    other.send(b"x" * 1000)
    other.close()
else:
    other, end = connected()
    other.send(b"x" * 1000)
process = subprocess.Popen(command, stdin=end.fileno(), stderr=3)
if kind == "reset":
    while b'"state":"copying"' not in subprocess.run(["fmove", "status", "--json"], capture_output=True).stdout:
        time.sleep(0.02)
    other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    other.close()
elif kind == "ended":
    other.close()
sys.exit(process.wait())
PY
}

for kind in epoll listening messages reset; do
	with $kind fmove put --quiet - n2:s/$kind 2>err
	status=$?
	[ $status -eq 1 ] || bad "$kind: exit status $status: $(cat err)"
	grep -q '^fmove: put: standard input: ' err || bad "$kind: $(cat err)"
	! grep -q 'n2:' err || bad "$kind is blamed on n2: $(cat err)"
	[ ! -e "$(store 2)/$kind" ] || bad "$kind: something was published"
done
with ended fmove put --quiet - n2:s/ended || bad "a socket that ends does not end the put well"
[ "$(stat -c %s "$(store 2)/ended")" -eq 1000 ] || bad "a socket that ends: not all that it had came"
no_partials

# A terminal that is gone in the midst fails its own put, and what comes behind it is sent.
mkdir "$(store 2)/both" && echo behind >behind
timeout "$HANG_S" python3 - 2>err <<'PY'
import os, subprocess, sys, time, tty

near, far = os.openpty()
tty.setraw(far)
put = subprocess.Popen(["fmove", "put", os.ttyname(far), "behind", "n2:s/both/"])
os.close(far)
os.write(near, b"x" * 1000)
while b'"state":"copying"' not in subprocess.run(["fmove", "status", "--json"], capture_output=True).stdout:
    if put.poll() is not None:
        break
    time.sleep(0.02)
os.close(near)
sys.exit(put.wait())
PY
status=$?
[ $status -eq 3 ] && grep -q 'Input/output error' err || bad "a terminal that goes, and a file: $status, $(cat err)"
grep -q cancelled err && bad "nobody cancelled anything: $(cat err)"
same behind "$(store 2)/both/behind"
