#!/bin/bash
# Goal:   whom the rules of a store let read, by user, by group or all, may read the copy that somebody else staged, and nothing more; what a
#         reload changes there changes it for them.
# Method: two users and three groups that every system has, under rules of a store of this node. Then a store in which files have owners; and a
#         pipe that nobody writes into for /etc/passwd.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; };'
need_nobody
up 1
chmod 755 "$dir/c" "$dir/c/n1"
for name in daemon bin games; do
	getent group $name >/dev/null || skip "there is no group $name"
done
id daemon >/dev/null 2>&1 || skip "there is no user daemon"

# rules RULES [MORE]: of the store, by a reload.
rules() {
	sed -i -e '/^read = /d' -e "s|directory = \"$(store 1)\";|&\nread = [ $1 ];${2-}|" "$dir/c/n1/fmove.conf"
	take_over 1
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

mkdir "$(store 1)/set"
echo text >"$(store 1)/set/f"

# By user and by group.
rules '"user:root", "user:daemon", "group:games"'
copy=$(fmove stage s/set 2>err) || bad "stage: $(cat err)"
reads daemon bin || bad "the rules name daemon, who cannot read the copy: $(stat "$copy/..")"
reads nobody games || bad "the rules name games, whose member cannot read the copy"
reads_not nobody bin || bad "the rules name neither nobody nor bin, and he reads the copy"
as daemon bin touch "$copy/../new" 2>/dev/null && bad "daemon writes into the copy's directory"

# They staged nothing: the copy is not theirs to pin or to remove, until they did.
no 6 'staged' as daemon daemon fmove pin set
no 6 'staged' as nobody games fmove unstage set
ok as daemon daemon sh -c 'fmove stage s/set; :'
ok as daemon daemon fmove pin set
ok as daemon daemon fmove unpin set

# A reload says who may. Of whom it lets read no more, nobody does, who staged it neither.
rules '"user:root", "group:bin"'
await reads nobody bin || bad "bin may read it since the reload, and its member cannot"
await reads_not daemon daemon || bad "daemon may read it no more since the reload, and does"
reads_not nobody games || bad "games may read it no more since the reload, and its member does"
rules '"user:root", "user:daemon"'
await reads daemon daemon || bad "daemon may again since the reload, and cannot"
reads_not nobody bin || bad "bin may read it no more, and its member does"

# All are all, those in the group of the copy's directory too.
rules '"*"'
await reads nobody bin || bad "all may read it since the reload, and nobody cannot"
reads nobody root || bad "all may read it, and who has the group of its directory cannot"

# The rules are asked when the daemon starts. All are those who may use its socket.
sed -i 's/socket_mode = "0666";/socket_mode = "0660"; socket_group = "games";/' "$dir/c/n1/fmove.conf"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
start_again n1
await reads_not nobody bin || bad "nobody may not use the socket, and reads the copy"
reads nobody games || bad "the socket is for games, whose member cannot read the copy"
as daemon daemon fmove ls n1:s >out 2>&1 && bad "daemon uses a socket that is for games"
rules '"user:root", "user:daemon"'
await reads daemon daemon || bad "the rules name daemon, who may not use the socket and cannot read the copy"

# Where files have owners, the store's rules are not all that counts: who staged it reads the copy.
rules '"*"' 'owner = "caller";'
await reads_not nobody games || bad "files have owners, and games reads a copy"
ok as nobody games sh -c 'fmove stage s/set; :'
reads nobody games || bad "nobody staged it, and cannot read it"
reads_not daemon daemon || bad "files have owners, and daemon reads a copy that he did not stage"

# A database of users that does not answer holds up who asks it, and not the rest: a hold still ends with its process, and so does the daemon.
asks_users() {
	local pid of
	pid=$(cat "$dir/c/n1/pid")
	read -ra of < <(cat "/proc/$pid/task"/*/children 2>/dev/null | tr '\n' ' ')
	for of in "$pid" "${of[@]}"; do
		grep -qs wait_for_partner "/proc/$of/task"/*/wchan && return
	done
	return 1
}

is_held() {
	fmove datasets --json | grep -q "{\"pid\":$holder,"
}

is_free() {
	! is_held
}

rules "\"user:root\", \"group:$(id -gn nobody)\""
unshare -m true 2>/dev/null || skip "there are no mount namespaces here"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
unshare -m "$FM_SOURCE/tests/cluster" start "$dir/c" n1 || bad "n1 does not start with users of its own"
sleep 1000 &
holder=$!
as_nobody sh -c 'fmove stage s/set; :' >out 2>&1
ok fmove stage --hold-pid $holder s/set
is_held || bad "a process holds it, and nobody says so: $(fmove datasets --json)"
mkfifo silent
within=(nsenter -m -r -t "$(cat "$dir/c/n1/pid")")
"${within[@]}" mount --bind "$PWD/silent" /etc/passwd || bad "no other users"

# Many users who ask for what only a group's rule may let them take few threads: who asks for something else does not wait.
lists=()
for i in {1..24}; do
	as $((61000 + i % 12)) games fmove ls n1:s >/dev/null 2>&1 &
	lists+=($!)
done
count_looking() {
	looking=$(cat "/proc/$(cat "$dir/c/n1/pid")/task"/*/wchan 2>/dev/null | grep -o wait_for_partner | wc -l)
}
do_five_look() {
	count_looking
	[ "$looking" -ge 5 ]
}
await do_five_look || bad "users who may be in the group are not looked up: $looking"
ok as 61500 games timeout "$HANG_S" fmove datasets
count_looking
[ "$looking" -eq 5 ] || bad "$looking threads look users up"
"${within[@]}" umount -l /etc/passwd
timeout "$HANG_S" bash -c ': >silent'
wait "${lists[@]}"
"${within[@]}" mount --bind "$PWD/silent" /etc/passwd || bad "no other users"
fmove stage s/set >out 2>&1 &		# by a group: whether it has nobody still, whom the copy lists
asker=$!
await asks_users || bad "a request asks not which users there are"
mkdir "$dir/c/n1/more"
sed -i "s|^stores = (|&{ name = \"more\"; directory = \"$dir/c/n1/more\"; }, |" "$dir/c/n1/fmove.conf"
take_over 1
kill $holder
await is_free || bad "a hold outlives its process: $(fmove datasets --json)"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
wait $asker
is_logged 'a look-up of a user or group, does not' "$dir/c/n1/log" || bad "n1 ended in another way: $(tail -n 20 "$dir/c/n1/log")"
start_again n1
exit
