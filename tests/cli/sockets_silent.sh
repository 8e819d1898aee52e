#!/bin/bash
# Goal:   a user database that does not answer keeps nobody but those it is asked of: a peer that was removed goes, a daemon starts without the
#         sockets of users and the stores whose rules name users, and has them when the database answers, if that takes longer than a start waits;
#         a group that lets people use the socket is waited for, but not for ever. Sockets that could not be opened then are by a later reload.
# Method: pipes that nobody writes into for /etc/passwd and /etc/group, in a mount namespace of the daemon's.
. "$(dirname "$0")/lib.sh"
need_nobody
FM_CLUSTER_STORE='read = [ "peer:*", "user:nobody", "group:daemon" ];' FM_CLUSTER_CONF='sockets = ( { path = "@NODE@/doors/nobody.sock"; user = "nobody"; mode = "0600"; } );' up 2
node=$dir/c/n1
conf=$node/fmove.conf
theirs=$node/doors/nobody.sock
unshare -m true 2>/dev/null || skip "there are no mount namespaces here"
mkfifo silent
mkdir -m 777 "$node/plain"
sed -i '/^read = /,/^} );/s|^} );|}, { name = "plain"; directory = "'"$node"'/plain"; } );|' "$conf"
cp "$conf" before

# start_with FILE: n1 in a namespace of its own, with a pipe for that file.
start_with() {
	rm -f "$node/exit" "$node/pid"
	(
		unshare -m sh -c 'echo $$ >"$1/pid"; mount --bind "$2" "$3" && exec fmoved --config "$1/fmove.conf"' sh "$node" "$PWD/silent" "$1" \
			>>"$node/log" 2>&1 </dev/null
		echo $? >"$node/exit"
	) >/dev/null 2>&1 &
}

# The file in place of the pipe again, and an end for whom reads that.
answer() {
	nsenter -m -r -t "$(cat "$node/pid")" umount -l "$1"
	timeout "$HANG_S" bash -c ': >silent'
}

log_lines() {
	grep -cE "$1" "$node/log"
}

has_logged_more() {
	[ "$(log_lines "$1")" -gt "$said" ]
}

# hup PATTERN: until a new line of the log matches.
hup() {
	said=$(log_lines "$1")
	kill -HUP "$(cat "$node/pid")"
	await has_logged_more "$1" || bad "reload: no \"$1\" in: $(tail -n 5 "$node/log")"
}

has_ended() {
	[ -s "$node/exit" ]
}

# ---- a start: without those sockets, and with all else

"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
start_with /etc/passwd
await answers "$node/fmoved.sock" || bad "n1 does not start: $(tail -n 5 "$node/log")"
[ ! -e "$theirs" ] || bad "there is a socket of a user whom nobody knows"
is_logged 'user database does not answer.*they are opened when it does' "$node/log" || bad "the log does not say what is missing: $(tail -n 5 "$node/log")"
ok fmove put --retry ${HANG_S}s "$conf" n2:s/conf

is_logged 'store "s": the file system of .*, or the user database that its rules need, does not answer' "$node/log" || bad "the store is not named"
no 4 'or the user database that its rules need, has not answered for' fmove df n1:s
ok_room fmove df n1:plain

# It is slow: what it says then counts, and is not asked for once more (this one would not say it again). Each that waits reads a part of it.
hup 'user database does not answer.*nothing is changed$'
for ((i = 0; i < 200; i++)); do
	echo "nobody:x:$(id -u nobody):$(id -g nobody)::/:/bin/false"
done >slow
timeout "$HANG_S" bash -c 'cat slow >silent' 2>/dev/null
await test -S "$theirs" || bad "the database answered, and there is no socket: $(tail -n 5 "$node/log")"
await is_logged 'store "s": the file system of .* answers now' "$node/log" || bad "the database answered, and the store is not there"
nsenter -m -r -t "$(cat "$node/pid")" umount -l /etc/passwd
ok fmove --socket "$theirs" status

# ---- a reload: who was removed goes, the next one is heard, too, and sockets stay

nsenter -m -r -t "$(cat "$node/pid")" mount --bind "$PWD/silent" /etc/passwd || bad "no other users"
sed -i -e '/name = "n2"/d' -e 's/name = "s"/name = "s2"/' "$conf"
hup 'user database does not answer.*these peers were removed: n2$'
fmove status --json >out
grep -q '"connected":true' out && bad "n2 was removed, and is connected: $(cat out)"
ok fmove --socket "$theirs" status
cp before "$conf"
hup 'user database does not answer'
answer /etc/passwd
takes() {
	local before

	before=$(log_lines ' reloaded ')
	hup ' reloaded |user database does not answer'
	[ "$(log_lines ' reloaded ')" -gt "$before" ]
}
await takes || bad "the database answers, and no reload succeeds: $(tail -n 5 "$node/log")"
ok fmove put --retry ${HANG_S}s "$conf" n2:s/again
kill "$(cat "$node/pid")"
await has_ended || bad "n1 does not stop"

# ---- the database answers, and one of two sockets is of a group that is not there: once that is put right, a reload opens both

sed -i '/^sockets = /s|);$|, { path = "'"$node"'/doors/more.sock"; user = "nobody"; group = "no-such-group"; } );|' "$conf"
start_with /etc/passwd
await answers "$node/fmoved.sock" || bad "n1 does not start: $(tail -n 5 "$node/log")"
answer /etc/passwd
await is_logged 'no group "no-such-group".*a reload tries it again$' "$node/log" || bad "not told: $(tail -n 5 "$node/log")"
cp before "$conf"
hup ' reloaded '
[ -S "$theirs" ] || bad "it is recorded as open, and was never opened: $(tail -n 5 "$node/log")"
ok fmove --socket "$theirs" status
kill "$(cat "$node/pid")"
await has_ended || bad "n1 does not stop"

# ---- who may use the socket is not known: it does not start, and does not hang

sed -i 's/socket_mode = "0666";/socket_mode = "0660"; socket_group = "daemon";/' "$conf"
start_with /etc/group
await has_ended || bad "n1 waits for a group without end"
[ "$(cat "$node/exit")" = 1 ] && is_logged 'node.socket_group: the user database does not answer' "$node/log" || bad "n1 ended in another way: $(tail -n 5 "$node/log")"
cp before "$conf"
start_again n1

# ---- nor does a check hang

timeout "$HANG_S" unshare -m sh -c 'mount --bind silent /etc/group && exec fmoved --config "$1" --check' sh "$conf" >out 2>&1
status=$?
[ $status = 2 ] && grep -q 'the user database (NSS), or the file system .*, does not answer' out || bad "--check ended with $status: $(cat out)"

# ---- fmove-nvmed, too

id=11111111-2222-3333-4444-555555555555
cat >nvmed.conf <<-C
	node = { name = "n1"; state_directory = "null:"; };
	nvme = { host_nqn = "nqn.2014-08.org.nvmexpress:uuid:$id"; host_id = "$id"; socket = "$PWD/run/sock"; state_directory = "$PWD/state"; socket_group = "daemon"; };
C
timeout "$HANG_S" unshare -m sh -c 'mount --bind silent /etc/group && exec fmove-nvmed --config nvmed.conf' >out 2>&1
status=$?
[ $status = 1 ] && grep -q 'nvme.socket_group: the user database does not answer' out || bad "fmove-nvmed ended with $status: $(cat out)"
exit
