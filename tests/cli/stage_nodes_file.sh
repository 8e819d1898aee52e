#!/bin/bash
# Goal:   a single file of one node is staged on several as a directory is: read there once, one version on all, and the path is the file's.
# Method: three real daemons. What each has is compared with the source; what was read of it is counted by the daemon that reads. Another
#         name; holes; a second request, which compares, also the content; a node that comes late, from nodes whose source is off; a damaged copy;
#         a daemon killed between the file's name and READY; a source that changes; a directory in the file's place.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stage_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };'
up 3

mkdir "$(store 1)/d"
source=$(store 1)/d/model
random 40000001 "$source"
truncate -s 60000000 "$source"
echo tail >>"$source"
chmod 640 "$source"
bytes=$(stat -c %s "$source")

# is_whole I: what nI has, in out, is the source, alone in its directory, whose name is the SHA-256 of the manifest.
is_whole() {
	data=$(path_of "$1" out)
	[ -f "$data" ] && cmp "$source" "$data" || bad "n$1 has \"$data\": $(cat out err)"
	[ "$(stat -c '%Y %a' "$data")" = "$(stat -c %Y "$source") 444" ] || bad "n$1: not its time, or it can be written to: $(stat -c '%Y %a' "$data")"
	[ "$(ls -A "${data%/*}" | grep -v '^\.\(dataset\|manifest\|use\|made\.[0-9a-f]*\)$')" = "${data##*/}" ] || bad "n$1 has more: $(ls -A "${data%/*}")"
	[ "$(sha256sum <"${data%/*}/.manifest" | cut -d ' ' -f 1)" = "$(basename "${data%/*}")" ] || bad "n$1: not its manifest's name"
	(($(stat -c %b "$data") * 512 < bytes - 10000000)) || bad "n$1: a hole was filled"
}

# Read once, and one version.
sleep 10000 &
job=$!
fmove stage --nodes all --json --hold-pid $job n1:s/d/model >out 2>err || bad "all: $(cat out err)"
for i in 1 2 3; do
	is_whole $i
	version[i]=$(basename "${data%/*}")
done
[ "${version[1]}" = "${version[2]}" ] && [ "${version[1]}" = "${version[3]}" ] || bad "not one version: ${version[*]}"
read=$(read_of 1)
((read >= bytes && read < 2 * bytes)) || bad "$read bytes were read of $bytes"
[ "$(path_of 1 out)" = "$(fmove stage n1:s/d/model 2>err)" ] && grep -q unchanged err || bad "alone it is another one: $(cat err)"
[ "$fails" -eq 0 ] || { tail -n 20 "$dir"/c/n*/log >&2; exit; }

# Again: nothing is read. Another name is another dataset, and its name is the file's everywhere.
ok fmove stage --nodes all n1:s/d/model -- true
[ "$(read_of 1)" -eq "$read" ] || bad "it was read again"
fmove stage --nodes n1,n3 --as other --json n1:s/d/model >out 2>err || bad "as other: $(cat out err)"
is_whole 1
is_whole 3
[ "${data##*/}" = other ] || bad "it is called ${data##*/}"
kill $job

# One that comes late has it from the others.
await at 3 unstage model || bad "n3 keeps it: $(at 3 unstage model 2>&1)"
read=$(read_of 1)
settled fmove stage --nodes n3 --json n1:s/d/model || bad "late: $(cat out err)"
is_whole 3
[ "$(read_of 1)" -eq "$read" ] || bad "for who came late it was read again"

# A damaged chunk comes again.
chmod u+w "$data" && printf XXXX | dd of="$data" bs=1 seek=5000000 conv=notrunc status=none && touch -r "$source" "$data" && chmod u-w "$data"
at 3 datasets check model >out 2>err || bad "it is not mended: $(cat out err)"
cmp "$source" "$data" || bad "it was not mended"

# It fails, or is killed, when the file has its name and is not READY: the same command has it then, and nothing came again.
round=0
for fault in stage.named:1 stage.manifest_copy:1; do
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n3
	FMOVE_FAULT=$fault "$FM_SOURCE/tests/cluster" start "$dir/c" n3 || bad "n3 does not start for $fault"
	reachable 3
	touch -d "@$((++round))" "$source"
	settled fmove stage --nodes n3 --json n1:s/d/model
	[ $? -eq 1 ] && grep -q 'n3: failed' err || bad "$fault: $(cat out err)"
	read=$(read_of 1)
	crash n3
	start_again n3
	reachable 3
	settled fmove stage --nodes n3 --json n1:s/d/model || bad "$fault, again: $(cat out err)"
	is_whole 3
	[ "$(read_of 1)" -eq "$read" ] || bad "$fault: it came again"
done

# What changed is another version; without bytes it is staged by no run, and the line says what to do.
echo more >>"$source"
bytes=$((bytes + 5))
settled at 2 stage --nodes all --json n1:s/d/model || bad "changed: $(cat out err)"
for i in 1 2 3; do is_whole $i; done
: >"$(store 1)/empty"
no 1 'no file in it has a byte' fmove stage --nodes all n1:s/empty

# A directory in its place is one.
rm "$source"
mkdir "$source"
echo in >"$source/in"
settled fmove stage --nodes all --json n1:s/d/model || bad "a directory: $(cat out err)"
for i in 1 2 3; do
	[ "$(cat "$(path_of $i out)/in")" = in ] || bad "n$i has no directory: $(cat out err)"
done
exit
