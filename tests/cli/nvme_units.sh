#!/bin/bash
# Goal:   fmove nvme units writes mount units that systemd takes, replaces and removes its own only, and changes nothing on a mistake.
# Method: real configurations and directories; systemd-escape and systemd-analyze, where they are, say whether names and texts are right.
. "$(dirname "$0")/lib.sh"
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cli.XXXXXX") && mkdir "$dir/w" "$dir/u" && cd "$dir/w" || exit 1
trap down EXIT
u=$dir/u
uuid=5b1e0c2a-6f4d-4b8e-9a37-0d2f1c3e4a5	# and one more digit

# volume NAME DIGIT MORE: an element of the list.
volume() {
	printf '{ name = "%s"; subsystem = "nqn.2026-01.org.example:%s"; address = "10.0.0.9:4420"; ' "$1" "$1"
	printf 'uuid = "%s%s"; %s }' $uuid "$2" "$3"
}
# config NODE ELEMENT...
config() {
	node=$1
	shift
	(
		IFS=,
		printf 'node = { name = "%s"; };\nvolumes = ( %s );\n' "$node" "$*"
	) >f.conf
}
units() {
	fmove nvme units --config f.conf --directory "$u" "$@"
}
three() {
	config "$1" "$(volume data 1 'mount = "/srv/my-data"; type = "ext4"; writer = "n1"; options = "noatime";')" \
		"$(volume sets 2 'mount = "/srv/data sets/50%"; type = "xfs"; mode = "shared-read"; writer = "n1";')" "$(volume raw 3 '')"
}

config n1
ok units
grep -qx 'no volumes are configured' out || bad "no word of having none: $(cat out)"

# The writer.
three n1
ok units
grep -qx "wrote $u/srv-my\\\\x2ddata.mount" out || bad "$(cat out)"
grep -qx 'raw: no unit here: it has no mount point' out || bad "no word about raw: $(cat out)"
grep -qx 'next: systemctl daemon-reload' out || bad "nothing is next: $(cat out)"
grep -qx "at every boot: systemctl enable 'srv-my\\\\x2ddata.mount' 'srv-data\\\\x20sets-50\\\\x25.mount'" out ||
	bad "not how to enable: $(cat out)"
grep -qx 'Options=_netdev,nofail,rw,noatime' "$u/srv-my\\x2ddata.mount" || bad "writer: $(cat "$u"/*my*)"
grep -qx 'Options=_netdev,nofail,rw' "$u/srv-data\\x20sets-50\\x25.mount" || bad "shared writer: $(cat "$u"/*sets*)"
[ "$(find "$u" -type f | wc -l)" -eq 2 ] || bad "files: $(ls -a "$u")"
[ "$(stat -c %a "$u"/*.mount | sort -u)" = 644 ] || bad "modes: $(ls -l "$u")"
if command -v systemd-escape >/dev/null; then
	for point in /srv/my-data "/srv/data sets/50%"; do
		[ -f "$u/$(systemd-escape --path --suffix=mount "$point")" ] || bad "$point has another name"
	done
fi

# What systemd makes of them, beside the service that they need.
if command -v systemd-analyze >/dev/null; then
	service=${FM_BUILD:-$FMOVE_BIN/..}/config/fmove-nvme@.service
	cp "$service" "${service%/*}/fmove-nvme-ask@.service" "$u" &&
		sed -i "s|^Exec\(.*\)=[^ ]*/fmove |Exec\1=$FMOVE_BIN/fmove |" "$u"/fmove-nvme*@.service
	for unit in fmove-nvmed fmove-volumes; do
		sed "s|^Exec\(.*\)=\(-*\)[^ ]*/fmove\([^ /]*\) |Exec\1=\2$FMOVE_BIN/fmove\3 |" "${service%/*}/$unit.service" >"$u/$unit.service"
	done
	for unit in fmove-nvme fmove-nvme-ask; do
		cp "$u/$unit@.service" "$u/$unit@data.service"
	done
	for unit in "$u"/*.mount "$u"/fmove-nvme*@data.service "$u/fmove-nvmed.service" "$u/fmove-volumes.service"; do
		# Documentation is looked up; the page is not installed here.
		SYSTEMD_UNIT_PATH=$u: systemd-analyze verify --man=no "$unit" >verify 2>&1 ||
			bad "systemd-analyze $unit: $(cat verify)"
		grep -F "$u" verify && bad "systemd says of $unit: $(cat verify)"
	done
	rm "$u"/*.service
fi

# The same again changes nothing; so does --stdout, and it prints what the files have.
before=$(stat -c '%i %y' "$u"/*.mount)
ok units
grep -q 'wrote\|next' out && bad "written again: $(cat out)"
[ "$(grep -c ^unchanged out)" -eq 2 ] || bad "not unchanged: $(cat out)"
ok units --stdout
[ "$before" = "$(stat -c '%i %y' "$u"/*.mount)" ] || bad "the files were touched"
while read -r line; do
	grep -qxF -- "$line" out || bad "--stdout has no line \"$line\""
done <"$u/srv-my\\x2ddata.mount"
grep -qx '# raw: no unit here: it has no mount point' out || bad "--stdout: a note is no comment"
fmove nvme units --config f.conf --directory /nonexistent --stdout >/dev/null || bad "--stdout needs a directory"

# Another node: what is exclusive is not its business, the rest is read-only. The file of before is spoken of, and stays.
three n2
ok units
grep -qx 'data: no unit here: it is exclusive to another node' out || bad "exclusive: $(cat out)"
grep -qx 'Options=_netdev,nofail,ro,norecovery' "$u/srv-data\\x20sets-50\\x25.mount" || bad "reader: $(cat "$u"/*sets*)"
grep -q 'my.*x2ddata.mount was written earlier, and no volume of this configuration has it' err || bad "left over: $(cat err)"

# What somebody else wrote is in the way: nothing is written at all, and it stays when ours goes.
three n1
echo '[Mount]' >"$u/srv-my\\x2ddata.mount"
rm "$u"/*sets*
no 6 'my.x2ddata.mount: there is one already that fmove did not write' units
[ "$(ls "$u")" = 'srv-my\x2ddata.mount' ] || bad "written beside: $(ls "$u")"
ln -sf /dev/null "$u/srv-my\\x2ddata.mount"
no 6 'there is one already' units
rm "$u"/*
ok units
echo '[Mount]' >"$u/other.mount"
ok units --remove
[ "$(ls "$u")" = other.mount ] || bad "left: $(ls "$u")"
[ "$(grep -c ^removed out)" -eq 2 ] || bad "--remove says: $(cat out)"
grep -qx 'next: systemctl daemon-reload' out || bad "--remove: $(cat out)"
ok units --remove
[ -s out ] && bad "removed nothing, said: $(cat out)"

# Mistakes: one line each, and nothing is written.
no 1 'No such file' fmove nvme units --config f.conf --directory /nonexistent
no 1 'nowhere' fmove nvme units --config nowhere --directory "$u"
config n1 "$(volume data 1 'mount = "/a"; type = "ext4"; writer = "n1";')" "$(volume sets 2 'mount = "/b"; mode = "read-only";')"
no 1 'volumes.type: missing' units
config n1 "$(volume data 1 'mount = "/a"; type = "ext4"; writer = "n1";' | sed 's/ uuid = "[^"]*";//')"
no 1 'f.conf:2: volumes.uuid: missing' units
[ "$(ls "$u")" = other.mount ] || bad "written in spite of a mistake: $(ls "$u")"
no 2 'do not go together' units --remove --stdout
