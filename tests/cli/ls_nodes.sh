#!/bin/bash
# Goal:   fmove ls says which nodes there are and which are connected, and fmove ls NODE: which stores of one its caller may read or write.
# Method: two nodes with stores that n1 may read, write, both or neither; one node stops. Lines, -l, -0 and --json; options of directories.
. "$(dirname "$0")/lib.sh"

places=$(mktemp -d "${TMPDIR:-/tmp}/fm-stores.XXXXXX") || exit 1
rules() {
	mkdir "$places/$1"
	printf '}, { name = "%s"; directory = "%s"; read = [ %s ]; write = [ %s ]; ' "$1" "${4:-$places/$1}" "$2" "$3"
}
everybody='"*"'
export FM_CLUSTER_STORE
FM_CLUSTER_STORE="$(rules read "$everybody" '')$(rules drop '' "$everybody")$(rules shut '' '"peer:n9"')$(rules null "$everybody" '' null:)"
up 2

# Nodes.
ok fmove ls
printf 'this node     n1:\nconnected     n2:\n' | cmp - out || bad "ls: $(cat out)"
ok fmove ls -0
printf 'n1:\0n2:\0' | cmp - out || bad "ls -0: $(od -c out)"
ok fmove ls -l
grep -Eq '^this node +[0-9:]+ n1:$' out || bad "ls -l, this node: $(cat out)"
grep -Eq '^connected +[0-9:]+ n2: 127\.0\.0\.1:[0-9]+$' out || bad "ls -l, the other one: $(cat out)"
ok fmove ls --json
tr -d '\n' <out | grep -Eq '^\{"nodes":\[\{"name":"n1","self":true,"connected":true,"since_ms":[0-9]+,"address":"","error":""\},\{"name":"n2","self":false,"connected":true,' ||
	bad "ls --json: $(cat out)"

# Stores, of another node and of this one; whoever runs this here may be root, whom no rule stops.
ok fmove ls n2:
printf -- '-w drop/\nr- null/\nr- read/\nrw s/\n' | cmp - out || bad "ls n2: $(cat out)"
ok fmove ls -0 n2:
printf 'drop/\0null/\0read/\0s/\0' | cmp - out || bad "ls -0 n2: $(od -c out)"
ok fmove ls -l n2:
grep -Eq '^-w +- of +- free drop/$' out || bad "a store that may only be written is told of: $(cat out)"
grep -Eq '^rw +[0-9.]+ [kMGT]?B of +[0-9.]+ [kMGT]?B free s/$' out || bad "ls -l n2: $(cat out)"
ok fmove ls --json n2:
tr -d '\n' <out | grep -q '"stores":\[{"name":"drop","read":false,"write":true,"size":null,"free":null},' || bad "ls --json n2: $(cat out)"
grep -q shut out && bad "a store that is neither read nor written is told of"
# Its node says nothing more, whoever asks.
if command -v python3 >/dev/null; then
	python3 - >raw <<-'END'
		import json, os, socket
		s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		s.connect(os.environ["FMOVE_SOCKET"])
		s.send(json.dumps({"op": "space", "id": 1, "node": "n2", "store": "", "path": "", "after": ""}).encode())
		print(s.recv(262144).decode())
	END
	grep -q '"store":"drop","size":null,"free":null,"used":0,"quota":null,"promised":0,.*"read":false,"write":true' raw ||
		bad "a store that may only be written tells: $(cat raw)"
fi
ok_room fmove df n2
grep -q drop out && bad "df tells of a store that may not be read: $(cat out)"
if [ "$(id -u)" -eq 0 ] && id nobody >/dev/null 2>&1; then
	as_nobody fmove ls n1: >out 2>err || bad "ls n1: as nobody: $(cat err)"
	printf -- '-w drop/\nr- null/\nr- read/\nrw s/\n' | cmp - out || bad "ls n1: as nobody: $(cat out)"
fi
ok fmove ls n1:
grep -q '^rw s/$' out || bad "ls n1: $(cat out)"

# -h as other tools have it, and nobody takes a help for the answer.
truncate -s 1230000 "$(store 2)/f"
ok fmove ls -lh n2:s/f
grep -Eq '^-[rwx-]{9} +1\.23 MB [0-9-]+ [0-9:]+ f$' out || bad "ls -lh: $(cat out)"
ok fmove ls -l n2:s/f
grep -Eq ' 1230000 ' out || bad "ls -l: $(cat out)"
ok_room fmove df -h n2:s
grep -Eq '^s +[0-9.]+ [kMGT]?B' out || bad "df -h: $(cat out)"
for verb in ls df; do
	fmove $verb --help | grep -q -- '--help, -h' && bad "$verb --help says that -h is help"
done
no 2 'unknown option -h' fmove rm -rh n2:s/f
no 2 'unknown option -h' fmove rm -hr n2:s/f
ok fmove rm -h
grep -q '^Usage: fmove rm' out || bad "rm -h: $(cat out)"
rm "$(store 2)/f"

# What is for a directory, and what is no node.
no 2 'for a directory' fmove ls --max 3
no 2 'for a directory' fmove ls --partial n2:
no 2 'for a directory' fmove ls --after s n2:
no 2 'names only' fmove ls -0 -l
no 2 'NODE:STORE/PATH' fmove ls n2
no 1 'ls: n9: no node n9' fmove ls n9:
no 2 'NODE:STORE/PATH' fmove ls $'\x1b[31m:'
no 2 'NODE:STORE/PATH' fmove ls :
no 2 'too many' fmove ls n1: n2:

# A node that is away is said to be.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
away() {
	fmove ls | grep -q '^not connected n2:$'
}
await away || bad "n2 is away: $(fmove ls)"
ok fmove ls -l
grep -Eq '^not connected +[0-9:]+ n2: 127\.0\.0\.1:[0-9]+ .' out || bad "ls -l without n2: $(cat out)"
fmove ls --json | grep -q '"name":"n2","self":false,"connected":false' || bad "ls --json without n2"
no 4 'n2' fmove ls n2:
start_again n2
rm -rf "$places"
