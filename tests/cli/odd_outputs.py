"""What odd_outputs.sh runs: each command on a terminal, and what it sends there. Arguments: the stores of n1 and n2."""
import os
import pty
import re
import subprocess
import sys
import tty

NAME = b"x\x1b[31m\n\xc2\x9b31m\xff\x9b\x07\x7f\xe2\x80\xae\t\re"
SHOWN = rb"x\x1b[31m"
ENDED = re.compile(rb"\n(\xc2\x9b|\\xc2)")
near, far = (os.fsencode(path) for path in sys.argv[1:])
failures = []
tried = set()

# What fmove itself sends a terminal: a line of progress that is written anew.
OURS = re.compile(rb"\r([^\r]*?)\x1b\[K")
OBEYED = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def run(argv, stdin=None):
    """What a terminal sees of it."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    process = subprocess.Popen([b"fmove", *argv], stdin=stdin or slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    seen = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:     # nobody has the other end any more
            break
        if not piece:
            break
        seen += piece
    os.close(master)
    process.wait()
    return seen


def look(words, says=True):
    """Runs it; says: the name is to be seen, escaped."""
    argv = [word if isinstance(word, bytes) else word.encode() for word in words]
    verb = argv[0].decode(errors="replace")
    tried.update((verb, b" ".join(argv[:2]).decode(errors="replace")))
    seen = run(argv)
    text = OURS.sub(rb"\1", seen)
    what = repr(argv)
    try:
        found = OBEYED.search(text.decode())
        if found:
            failures.append(f"{what}: a terminal obeys {found.group()!a}: {seen!r}")
    except UnicodeDecodeError:
        failures.append(f"{what}: no UTF-8: {seen!r}")
    if ENDED.search(text):
        failures.append(f"{what}: the name ends a line: {seen!r}")
    if says and SHOWN not in text:
        failures.append(f"{what}: the name is not shown: {seen!r}")


remote = b"n2:s/" + NAME
os.mkdir(b"tree")
for path in (NAME, b"tree/" + NAME):
    with open(path, "wb") as f:
        f.write(bytes(1000000))
os.symlink(NAME, b"tree/link")
os.mkdir(NAME + b"d")

# ---- files ----

look(["put", "--limit", "1MB/s", NAME, "n2:s/"])
look(["put", NAME, "n2:s/"])
look(["put", "n1:s/" "none", remote], False)
look(["put", NAME + b"none", "n2:s/"])
look(["put", "-r", "--verbose", "tree", remote + b"t"])
look(["put", "-r", "--dry-run", "tree", remote + b"u"])
look(["get", remote, NAME + b"d"])
look(["get", "-r", "--verbose", remote + b"t", NAME + b"d/t"])
look(["get", b"n2:s/none" + NAME.replace(b"[", b"("), "there"], False)
look(["ls", "n2:s"])
look(["ls", "--long", "n2:s"])
look(["ls", "n2:s/x*"])
look(["ls", remote + b"none"])
look(["ls", NAME + b":"])
look(["stat", remote])
look(["stat", remote + b"t/link"])
look(["stat", remote + b"none"])
look(["mkdir", remote + b"/d"])
look(["ln", "-s", NAME, remote + b"l"], False)
look(["ln", "-s", NAME, remote + b"l"])
look(["mv", remote, remote + b"t"])
look(["verify", remote], False)
look(["verify", remote + b"none"])
look(["df", b"./" + NAME + b"d"], False)
look(["df", b"./" + NAME + b"none"])
look(["df", NAME + b":s"])
look(["purge", b"./" + NAME + b"d"], False)
look(["purge", "--unfinished", "-n", "n2:s"], False)
look(["purge", b"./" + NAME + b"none"])
look(["rm", "-n", remote, remote + b"t"])
look(["rm", remote + b"none"])

# ---- groups ----

group = run([b"group", b"begin", remote + b"g"]).strip().splitlines()[-1].strip()
look(["put", "--group", group, NAME, remote + b"g/"])
look(["group", "list", "n2:s"])
look(["group", "begin", remote])
look(["group", "commit", "--expect", NAME + b"no", group, remote + b"g"])
look(["group", "commit", group, remote + b"none"])
look(["group", "discard", group, remote + b"none"])
look(["group", "discard", NAME, remote + b"g"], False)

# ---- what is staged ----

look(["stage", remote + b"t"])
look(["stage", "--as", NAME + b"as", remote])
look(["stage", remote + b"none"])
look(["stage", "--as", "good", remote + b"t"])
look(["stage", b"hf:" + NAME])
look(["stage", "--link", NAME + b"k", remote])
look(["stage", remote, "--", NAME + b"run"])
look(["datasets"])
look(["datasets", "--quiet"], False)
look(["datasets", "check", "good"], False)
look(["datasets", "check", NAME + b"t"])
look(["pin", NAME + b"none"])
look(["unpin", NAME + b"none"])
look(["unstage", "-n", NAME + b"t"])
look(["unstage", NAME + b"none"])

# ---- jobs, and this node ----

look(["get", "--detach", b"n2:s/" + NAME, b"n1:s/" + NAME], False)
look(["jobs", "--all"])
for verb in ("wait", "cancel", "resume", "logs"):
    look([verb, NAME])
look(["status"], False)
look(["top", "--once"], False)
look(["top", "--delay", NAME])
look(["doctor", "--from", NAME + b"none"])
look(["doctor", "--peer", NAME])
look(["topology", "--from", NAME + b"none"])
drawn = run([b"topology", b"--json"]).replace(b'"n2"', rb'"x\u001b[31m\n\u009b31m\u202e\te"')
with open("drawn", "wb") as f:
    f.write(drawn)
look(["topology", "--from", "drawn"])
look(["bench", NAME])
look(["bench", "compare", NAME + b"none", NAME])
look(["nvme", "status", NAME], False)
look(["nvme", "units", "--config", NAME + b"none"])
look(["nvme", "discover", NAME])
look(["nvme", "up", NAME], False)
look(["nvme", "down", NAME], False)

# ---- setting up ----

look(["init", "--dir", b"./" + NAME + b"conf", "--address", "127.0.0.1", "--dry-run", "--store", b"s=" + os.getcwdb() + b"/" + NAME])
look(["init", "--dir", b"./" + NAME + b"conf", "--address", "127.0.0.1", "--store", b"s=" + os.getcwdb() + b"/" + NAME])
look(["init", "--dir", b"./" + NAME + b"conf", "--address", "127.0.0.1"])
look(["invite", "--dir", b"./" + NAME + b"conf"], False)
look(["invite", "--dir", NAME + b"none"])
look(["join", NAME, NAME])
look(["keygen", NAME + b"/key"])
look(["config", "check", NAME + b"none"])
look(["config", "options", NAME], False)
look(["completion", NAME])
look(["help", NAME])
look([NAME])
look(["--socket", NAME, "status"])
look([b"put", b"--" + NAME, "a", "b"])

for line in run([b"--help"]).decode().splitlines():
    verb = re.match(r"  ([a-z]+)  +[A-Z]", line)
    if verb and verb.group(1) not in tried:
        failures.append(f"{verb.group(1)} is tried by nobody: put it into the table of {sys.argv[0]}")

sys.stderr.write("\n".join(failures))
sys.exit(1 if failures else 0)
