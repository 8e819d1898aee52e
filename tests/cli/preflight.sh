#!/bin/bash
# Goal:   fmove init and fmoved --check try what fmoved will do, as the user who will do it; each
#         fault is said with the command that mends it. A store that this user cannot write to does
#         not pass; a start warns of it.
# Method: as root, for the user nobody: one fault after the other. What is printed behind "To mend
#         it:" is run as it stands, and the check must pass then.
. "$(dirname "$0")/lib.sh"
need_nobody
command -v setpriv >/dev/null || skip "no setpriv"
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cli.XXXXXX") || exit 1
chmod 755 "$dir"
mkdir "$dir/w" && cd "$dir/w" || exit 1
trap down EXIT
conf=$dir/n/fmove.conf
group=$(id -gn nobody)

# mend: run what err says behind "To mend it:", the memlock line excepted: that one is this machine's.
mend() {
	grep -v 'memlock' err | sed -n 's/.*To mend it: //p' | sort -u >mend.sh
	[ -s mend.sh ] || bad "nothing mends it: $(cat err)"
	bash -e mend.sh || bad "does not work: $(cat mend.sh)"
}

# faulty PATTERN: --check fails with a line that matches; once it is mended as it says, it passes.
faulty() {
	"${enter[@]}" fmoved --config "$conf" --check 2>err
	[ $? -eq 2 ] || bad "--check passes: $1"
	grep -Eq -- "$1" err || bad "--check: \"$(cat err)\" does not match \"$1\""
	mend
	ok fmoved --config "$conf" --check
}
enter=()

# init: of another's directory nothing is taken, nothing is left, and the line mends it.
mkdir "$dir/models"
init=(fmove init --dir "$dir/n" --node n --address 127.0.0.1:1 --user nobody --store "m=$dir/models")
"${init[@]}" >out 2>err
[ $? -eq 6 ] || bad "init takes a store that fmoved cannot write to"
grep -q "store \"m\": fmoved, as user nobody, cannot write to $dir/models: Permission denied. To mend it: chown nobody: " err ||
	bad "init: $(cat err)"
[ ! -e "$dir/n" ] || bad "an init that failed left $(ls -A "$dir/n")"
mend
ok "${init[@]}"
[ -z "$(ls -A "$dir/models")" ] || bad "the try left $(ls -A "$dir/models")"
whose=$(stat -c %U "$dir/n" "$dir"/n/{node.key,fmove.conf,peers.d,invites,state} | sort -u)
[ "$whose" = nobody ] || bad "what init made for nobody is of $whose: $(ls -la "$dir/n")"
ok fmoved --config "$conf" --check

# A store that would hold what init is about to make, by a link; and one that leads to what lets peers in.
ln -s . "$dir/here"
fmove init --dir "$dir/new" --node n --address 127.0.0.1:1 --user nobody --store "m=$dir/here" >out 2>err
[ $? -eq 6 ] && grep -q 'here" (really .*) and the jobs of node.state_directory in .*/new/state must not be within each other' err ||
	bad "an init in a store: $(cat err)"
[ ! -e "$dir/new" ] || bad "an init in a store left $(ls -A "$dir/new")"
rm "$dir/here"
ln -s n/peers.d "$dir/other"
sed "s,$dir/models,$dir/other," "$conf" >"$dir/n/other.conf"
fmoved --config "$dir/n/other.conf" --check 2>err
[ $? -eq 2 ] && grep -q 'other" (really .*/n/peers.d) and the entries of peers .* must not be within each other' err ||
	bad "a store that leads to peers.d: $(cat err)"
rm "$dir/n/other.conf" "$dir/other"

# A store that is root's, the owner being nobody; a start warns and goes on.
chown root: "$dir/models"
faulty 'fmove.conf:[0-9]+: store "m": fmoved, as user nobody, cannot write to .*/models: Permission denied'
chown root: "$dir/models"
echo 'memory = { arena = "16MiB"; };' >>"$conf"
sed -i 's/listen = .*/listen = "127.0.0.1:0";/' "$conf"
setpriv --reuid nobody --regid "$group" --clear-groups "$FMOVE_BIN/fmoved" --config "$conf" 2>log &
pid=$!
await answers "$dir/n/fmoved.sock" || bad "it does not start: $(cat log)"
is_logged 'warning: .*store "m": .*cannot write.*To mend it: chown nobody: ' log || bad "a start does not warn: $(cat log)"

# So does a reload: it was writable when it was looked at last.
warned() {
	[ "$(grep -c 'warning: .*store "m": .*cannot write.*To mend it: chown nobody: ' log)" "$1" "$2" ]
}
reload() {
	local before

	before=$(grep -c ': reloaded' log)
	kill -HUP $pid
	await reloaded_more log "$before" || bad "no reload: $(cat log)"
}
chown nobody: "$dir/models"
reload
warned -eq 1 || bad "a reload warns of a store that can be written to: $(cat log)"
chown root: "$dir/models"
reload		# the look of the former one may be as late as this: then both warn
await warned -ge 2 || bad "a reload does not warn: $(cat log)"
kill $pid && wait $pid || bad "it does not end well: $(cat log)"
chown nobody: "$dir/models"

# A store that leads to the key, whose directory is no other of the node's: neither a look nor a start takes it.
mkdir "$dir/keys" && cp -p "$dir/n/node.key" "$dir/keys" && ln -s keys "$dir/other"
chown nobody: "$dir/keys"
sed "s,$dir/models,$dir/other,; s,socket = ,key_file = \"$dir/keys/node.key\"; &," "$conf" >"$dir/n/other.conf"
twice='other" (really .*/keys) and the key of the node .* must not be within each other'
fmoved --config "$dir/n/other.conf" --check 2>err
[ $? -eq 2 ] && grep -q "$twice" err || bad "a store that leads to the key: $(cat err)"
setpriv --reuid nobody --regid "$group" --clear-groups "$FMOVE_BIN/fmoved" --config "$dir/n/other.conf" 2>log
[ $? -eq 1 ] && await grep -q "error: .*$twice" log || bad "a start with a store that leads to the key: $(cat log)"
# It is mounted in a second place, so no path tells.
rm "$dir/other" && mkdir "$dir/other"
if unshare -m true 2>/dev/null; then
	cat >twice.sh <<-END
		mount --bind "$dir/keys" "$dir/other" || exit 77
		fmoved --config "$dir/n/other.conf" --check 2>err
		echo \$? >status
	END
	if unshare -m bash twice.sh; then
		[ "$(cat status)" = 2 ] && grep -q 'other" and the key of the node .* must not be within each other' err ||
			bad "a store that is the directory of the key, mounted twice: $(cat status err)"
	fi
fi
rm -r "$dir/n/other.conf" "$dir/other" "$dir/keys"

# One that is only read need not be writable, and one that nobody may search is a fault all the same.
chown root: "$dir/models"
sed -i 's/write = .*/write = [ ];/' "$conf"
ok fmoved --config "$conf" --check
sed -i 's/write = .*/write = [ "*" ];/' "$conf"
chown nobody: "$dir/models"

# Another user's, and a parent that is closed: he keeps it, nobody gets rights of his own.
if command -v setfacl >/dev/null; then
	chown 12345 "$dir/models"
	faulty 'cannot write to .*To mend it: setfacl -m u:nobody:rwx'
	mkdir -m 700 "$dir/home" && mkdir "$dir/home/m" && chown nobody "$dir/home/m"
	sed -i "s,directory = .*models,directory = \"$dir/home/m," "$conf"
	faulty "cannot read .*To mend it: setfacl -m u:nobody:x '$dir/home'$"
	sed -i "s,directory = .*home/m,directory = \"$dir/models," "$conf"
fi
chown nobody "$dir/models"

# A directory that is gone; the key, which init gave away; where jobs are; the socket's; invitations.
rmdir "$dir/models"
faulty 'cannot read .*models: No such file.*To mend it: install -d -o nobody '
chown root "$dir/n/node.key"
chown root "$dir/n/node.key" && ok fmoved --config "$conf" --check	# then root runs it
chown nobody "$dir/n/node.key" && chmod 440 "$dir/n/node.key"
faulty 'node.key.*To mend it: chown nobody: .*chmod 0400'
chown root: "$dir/n/state"
faulty 'node.state_directory: .*cannot read .*To mend it: chown nobody: '
chown root: "$dir/n"
faulty 'node.socket: .*To mend it: chown nobody: '
chown root: "$dir/n/invites" && chmod 755 "$dir/n/invites"
faulty 'invitations: .*To mend it: chown nobody: '
sed -i 's/^node = {/&\n\tsocket_group = "no-such-group";/' "$conf"
fmoved --config "$conf" --check 2>err
grep -q 'no group "no-such-group". To mend it: groupadd no-such-group' err || bad "socket_group: $(cat err)"
sed -i '/socket_group/d' "$conf"

# A file system that is mounted read-only. Its own mount namespace goes with the shell.
if unshare -m true 2>/dev/null; then
	cat >ro.sh <<-END
		mount --bind "$dir/models" "$dir/models" && mount -o remount,ro,bind "$dir/models" || exit 77
		fmoved --config "$conf" --check 2>err
		echo \$? >status
	END
	if unshare -m bash ro.sh; then
		[ "$(cat status)" = 2 ] && grep -q "Read-only file system. To mend it: mount -o remount,rw '$dir/models'" err ||
			bad "read-only: $(cat status err)"
	fi
fi

# A file system of /etc/fstab that is not mounted yet, which is a warning: what is stored meanwhile would lie beneath it. When it is mounted
# nothing is said.
if [ -e /etc/fstab ] && unshare -m true 2>/dev/null; then
	printf 'none /elsewhere tmpfs\nnone /\nserver:/x %s nfs defaults 0 0\n' "$dir/models" >fstab
	cat >late.sh <<-END
		mount --bind fstab /etc/fstab && fmoved --config "$conf" --check 2>err && mount -t tmpfs none "$dir/models" && chmod 777 "$dir/models" &&
			fmoved --config "$conf" --check 2>mounted
	END
	unshare -m bash late.sh || bad "a file system that is late is more than a warning: $(cat err mounted)"
	grep -q "store \"m\": $dir/models of /etc/fstab is not mounted: .* beneath it. To mend it: mount '$dir/models'" err || bad "late: $(cat err)"
	grep -q fstab mounted && bad "mounted: $(cat mounted)"
fi

# Who is not root tries it as himself; little locked memory is a warning.
chown -R nobody "$dir/n"
sed -i 's/arena = "16MiB"/arena = "64MiB"/' "$conf"
: >out && : >err && chmod 666 out err
(ulimit -l 64 && as_nobody "$FMOVE_BIN/fmoved" --config "$conf" --check) 2>err || bad "--check as nobody: $(cat err)"
grep -q "memlock: user nobody may lock 64KiB .* need 64MiB and more. To mend it: echo 'nobody - memlock unlimited' >>/etc/security/limits.conf" err ||
	bad "memlock: $(cat err)"
