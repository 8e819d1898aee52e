#!/bin/bash
# Goal:   whom the rules of another node's store name may read the copy here, as their names resolve here, as long as both nodes stage together
#         and that node lets this one read.
# Method: two daemons, each with groups of its own: one name has another number here, one is not known here. The rules change by reloads.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; peers = [ "*" ]; };'
need_nobody
unshare -m true 2>/dev/null || skip "there are no mount namespaces here"
for name in daemon bin games; do
	getent group $name >/dev/null || skip "there is no group $name"
done
id daemon >/dev/null 2>&1 || skip "there is no user daemon"
up 2
chmod 755 "$dir/c" "$dir/c/n1"

# with_groups I: node nI starts again, with what is in ./groups.I for /etc/group.
with_groups() {
	"$FM_SOURCE/tests/cluster" stop "$dir/c" "n$1"
	unshare -m sh -c "mount --bind groups.$1 /etc/group && exec \"\$FM_SOURCE/tests/cluster\" start \"$dir/c\" n$1" ||
		bad "n$1 does not start with other groups"
}

# rules RULES: of n2's store, by a reload.
rules() {
	sed -i -e '/^read = /d' -e "s|directory = \"$(store 2)\";|&\nread = [ $1 ];|" "$dir/c/n2/fmove.conf"
	take_over 2
}

# as USER GROUP COMMAND...
as() {
	setpriv --reuid "$1" --regid "$2" --clear-groups "${@:3}"
}

# reads USER GROUP; reads_not USER GROUP: the copy.
reads() {
	[ "$(as "$1" "$2" cat "$copy/f" 2>/dev/null)" = text ]
}

reads_not() {
	! reads "$@"
}

# asked_reads [not] USER GROUP: n1's root asks for it, and then the user can, or cannot. Another request may have heard an older answer.
asked_reads() {
	fmove stage n2:s/set -- true && if [ "$1" = not ]; then reads_not "$2" "$3"; else reads "$1" "$2"; fi
}

mkdir "$(store 2)/set"
echo text >"$(store 2)/set/f"
here=54321 more=
sed "s/^games:[^:]*:[0-9]*:/games:x:$here:/" /etc/group >groups.1
{ cat /etc/group; echo onlythere:x:54322:; } >groups.2
for i in {1..12}; do
	mkdir -p "$dir/c/n2/x$i/set"
	more+="{ name = \"x$i\"; directory = \"$dir/c/n2/x$i\"; read = [ \"peer:n1\", \"group:games\" ]; }, "
done
sed -i "s|^stores = (|&$more|" "$dir/c/n2/fmove.conf"
with_groups 1
with_groups 2
reachable 2
rules '"peer:n1", "user:root", "user:daemon", "group:onlythere", "group:games"'

# The name of a group is this node's, whatever number it has there. Who is not known here is left out.
copy=$(fmove stage n2:s/set 2>err) || bad "stage: $(cat err)"
await reads daemon bin || bad "n2's rules name daemon, who cannot read the copy: $(cat "$dir/c/n1/log")"
reads nobody $here || bad "n2's rules name games, whose member here cannot read the copy"
reads_not nobody games || bad "who has the number of games at n2 reads the copy"
reads_not nobody 54322 || bad "who has the number of a group that only n2 has reads the copy"
no 6 'staged' as daemon daemon fmove pin set

# Rules that change there change it here. Those for peers open nothing to users here, but by their own request.
rules '"peer:n1", "group:bin"'
await asked_reads nobody bin || bad "n2's rules name bin, whose member cannot read the copy"
reads_not daemon daemon || bad "n2's rules name daemon no more, and he reads the copy"
reads_not nobody $here || bad "n2's rules name games no more, and its member reads the copy"
ok as nobody games sh -c 'fmove stage n2:s/set; :'
reads nobody games || bad "nobody staged it, and cannot read it"
rules '"*"'
await asked_reads daemon daemon || bad "all may read it, and daemon cannot"

# A database of groups that does not answer holds nobody up who stages, nor a stop; the list stays as it was.
rules '"peer:n1", "user:daemon", "group:bin"'
await asked_reads nobody bin || bad "n2's rules name bin, whose member cannot read the copy"
mkfifo silent
# -r: the root of its own, for who runs this in a chroot.
nsenter -m -r -t "$(cat "$dir/c/n1/pid")" mount --bind "$PWD/silent" /etc/group || bad "no other groups"
rules '"peer:n1", "group:games"'
for i in 1 2 3; do
	ok fmove stage n2:s/set -- true
done
# Look-ups for more stores of n2 than a peer has threads here: what else n2 asks for goes on.
for i in {1..12}; do
	ok fmove stage "n2:x$i/set" -- true
done
FMOVE_SOCKET=$dir/c/n2/fmoved.sock timeout $HANG_S fmove ls n1:s >out 2>err || bad "n2 gets no answer while names of its rules are looked up: $(cat err)"
reads daemon bin || bad "while names cannot be looked up, the list was changed"
with_groups 1
is_logged 'a look-up of a user or group, does not' "$dir/c/n1/log" || bad "n1 ended in another way: $(tail -n 20 "$dir/c/n1/log")"
reachable 2
await asked_reads nobody $here || bad "names can be looked up again, and games is not in the list"
reads_not daemon daemon || bad "n2's rules name daemon no more, and he reads the copy"

# If n2 lets this node read no more, nobody may by its rules, at once.
rules '"user:root", "user:daemon"'
refused() {
	! fmove stage n2:s/set -- true 2>err && grep -q 'may not read' err
}
await refused || bad "n2 refuses nothing: $(cat err)"
reads_not daemon daemon || bad "n2 lets n1 read no more, and daemon reads the copy"

# A node that does not stage with this one says nothing of its rules: it is asked when it connects.
rules '"*"'
await asked_reads daemon daemon || bad "all may read it again, and daemon cannot"
sed -i 's/ peers = \[ "\*" \];//' "$dir/c/n2/fmove.conf"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
start_again n2
reachable 2
await reads_not daemon daemon || bad "n2 does not stage with n1 any more, and its rules count"
exit
