#!/bin/bash
# Goal:   make install, fmove init --system: a machine that had nothing has the programs, stripped,
#         the user and group fmove, the directories, and the service enabled. What will be done is
#         said before; a failure takes it away again, the user included. make uninstall leaves what
#         a node wrote, and nothing else. Without the packages make says what to install.
# Method: a mount namespace of its own, whose /etc, /var/lib, /run and /usr/local are empty but for
#         the first lines of passwd; the Makefile's own recipes; systemd-sysusers, useradd, userdel
#         and systemctl as they are here. systemd does not run in it, so that part is the lab's.
if [ -z "${FM_BARE:-}" ] && [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	FM_BARE=1 exec unshare -m bash "$0"
fi
. "$(dirname "$0")/lib.sh"
[ -n "${FM_BARE:-}" ] || skip "a mount namespace takes root"
for program in systemctl systemd-sysusers useradd userdel make strip; do
	command -v $program >/dev/null || skip "no program $program"
done
[ -e "${FM_BUILD:-}/cmake_install.cmake" ] || skip "no build directory"
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cli.XXXXXX") || exit 1
chmod 755 "$dir"
mkdir "$dir/w" "$dir/tree" "$dir/root" && cd "$dir/w" || exit 1
trap down EXIT

# --- make, as from a clone whose build directory is the one of these tests ---------------------

ln -s "$FM_SOURCE/.ci" "$FM_BUILD" "$dir/tree/"
mv "$dir/tree/${FM_BUILD##*/}" "$dir/tree/build"
make_here() {
	make -s -C "$dir/tree" -f "$FM_SOURCE/Makefile" -o all DESTDIR="$dir/root" "$@"
}

ok make_here install
for program in bin/fmove bin/fmoved bin/fmove-nvmed libexec/fmove/fmove-full; do
	[ -x "$dir/root/usr/local/$program" ] || bad "$program is not installed"
	readelf -SW "$dir/root/usr/local/$program" | grep -q '\.debug_info' && bad "$program is not stripped"
done
# It is found where it is, and what python3 writes beside it goes with it.
if command -v /usr/bin/python3 >/dev/null; then
	package=$(find "$dir/root" -path '*-packages/fmove')
	cat >installed.py <<-'END'
	import fmove, importlib.metadata as m
	assert m.version("fmove") == fmove.__version__
	(entry,) = m.entry_points(group="fsspec.specs", name="fmove")
	assert entry.value == "fmove.filesystem:FmoveFileSystem"
	END
	PYTHONPATH=${package%/fmove} ok env -u PYTHONDONTWRITEBYTECODE /usr/bin/python3 installed.py
	[ -d "$package/__pycache__" ] || bad "python3 wrote nothing beside $package"
fi
mkdir -p "$dir/root/usr/local/share/man/man1" && touch "$dir/root/usr/local/share/man/man1/another.1"
cp -a "$dir/root" "$dir/gone"
ok make_here uninstall DESTDIR="$dir/gone"
[ "$(find "$dir/gone" -type f -o -type l)" = "$dir/gone/usr/local/share/man/man1/another.1" ] || bad "uninstall leaves $(find "$dir/gone" ! -type d)"
[ -z "$(find "$dir/gone" -name fmove)" ] || bad "uninstall leaves $(find "$dir/gone" -name fmove)"
[ -z "$(find "$dir/gone" -name 'fmove-*' -o -name __pycache__)" ] || bad "uninstall leaves $(find "$dir/gone" -name 'fmove-*' -o -name __pycache__)"
mkdir "$dir/other" && ln -s "$FM_SOURCE/.ci" "$dir/other/"
make -s -C "$dir/other" -f "$FM_SOURCE/Makefile" uninstall >out 2>err && bad "uninstall of what was never installed"
grep -q 'nothing was installed from this tree' err || bad "uninstall: $(cat err)"

# --- a machine that has nothing ----------------------------------------------------------------

sed -n '/^root:/p; /^nobody:/p' /etc/passwd >passwd
sed -n '/^root:/p; /^nogroup:/p; /^shadow:/p' /etc/group >group
for mount in /etc /var/lib /run /usr/local; do
	mount -t tmpfs -o mode=755 tmpfs $mount || bad "no tmpfs at $mount"
done
cp passwd group /etc/ && : >/etc/shadow && : >/etc/gshadow
cp -a "$dir/root/usr/local/." /usr/local/
FMOVE_BIN=/usr/local/bin
PATH=$FMOVE_BIN:/usr/sbin:/usr/bin:/sbin:/bin

is_enabled() {
	[ -L /etc/systemd/system/multi-user.target.wants/fmoved.service ]
}

# Without the user that the unit names, init says so, and which command makes it.
no 1 'no user fmove, as whom fmoved.service runs. To mend it: systemd-sysusers fmove.conf; or .*fmove init --system' \
	fmove init --address 10.0.0.1
no 2 'leave out --dir and --user' fmove init --system --user nobody

# -n says all of it and does none; not everybody may do it.
ok fmove init --system -n --address 10.0.0.1 --store models=/srv/fm-models
for words in 'user and group fmove: systemd-sysusers fmove.conf' '/etc/fmove/fmove.conf' '/srv/fm-models' 'LimitMEMLOCK=infinity' \
	'systemctl enable fmoved'; do
	grep -q "$words" out || bad "-n does not say \"$words\": $(cat out)"
done
[ ! -e /etc/fmove ] && ! getent passwd fmove >/dev/null || bad "-n did something"
chmod 666 out err
as_nobody fmove init --system --address 10.0.0.1 >out 2>err
[ $? -eq 6 ] && grep -q 'takes root' err || bad "--system as nobody: $(cat err)"

# A failure takes the user, too.
mount -t tmpfs -o mode=755 tmpfs /srv && mkdir /srv/fm-theirs || bad "no tmpfs at /srv"
fmove init --system --address 10.0.0.1 --store models=/srv/fm-theirs >out 2>err
[ $? -eq 6 ] || bad "a root-owned store passes: $(cat err)"
grep -q "To mend it: chown fmove: '/srv/fm-theirs'" err || bad "--system: $(cat err)"
[ ! -e /etc/fmove ] && [ ! -e /var/lib/fmove ] && ! is_enabled || bad "left: $(find /etc/fmove /var/lib/fmove)"
getent passwd fmove >/dev/null && bad "the user stays"

# Ctrl-C while another program makes the user or enables the service, which that fails by or not.
# interrupted PROGRAM WORD STATUS: one that fmove runs with that word has done it when it interrupts fmove; it ends with the status.
interrupted() {
	real=$(command -v "$1")
	cat >"/usr/local/bin/$1" <<-END
	#!/bin/sh
	$real "\$@"
	case " \$* " in *" $2 "*) ;; *) exit ;; esac
	of=\$PPID
	for _ in 1 2 3; do
		case \$(cat /proc/\$of/comm) in fmove*) break ;; esac
		of=\$(sed -n 's/^PPid:[^0-9]*//p' /proc/\$of/status)
	done
	kill -INT \$of
	exit $3
	END
	chmod 755 "/usr/local/bin/$1"
	env --default-signal=INT fmove init --system --address 10.0.0.1 >out 2>err
	[ $? -eq 130 ] && grep -q 'init: cancelled' err || bad "cut off in $1, which ends with $3: $(cat err)"
	rm "/usr/local/bin/$1"
	hash -r
	[ ! -e /etc/fmove ] && [ ! -e /var/lib/fmove ] && ! is_enabled || bad "cut off in $1, left: $(find /etc/fmove /var/lib/fmove)"
	getent passwd fmove >/dev/null && bad "cut off in $1, which ends with $3: the user stays"
}
for status in 0 130; do
	interrupted systemd-sysusers fmove.conf $status
	interrupted systemctl enable $status
done

# All of it.
mkdir /srv/fm-sub
ok fmove init --system --address 10.0.0.1 --store models=/srv/fm-sub/models
grep -q '^fmove join 10.0.0.1:7471 ' out || bad "no line for the next node: $(cat out)"
grep -q 'this, as root\|does this:' err || bad "it does not say beforehand what it will do: $(cat err)"
getent passwd fmove >/dev/null && getent group fmove >/dev/null || bad "no user or group"
[ "$(stat -c %U:%G /srv/fm-sub/models)" = fmove:fmove ] || bad "the store is $(stat -c %U:%G /srv/fm-sub/models)"
[ "$(stat -c %U:%a /etc/fmove/node.key)" = fmove:400 ] || bad "the key is $(stat -c %U:%a /etc/fmove/node.key)"
[ "$(stat -c %U:%a /etc/fmove/fmove.conf)" = root:644 ] || bad "the configuration is $(stat -c %U:%a /etc/fmove/fmove.conf)"
is_enabled || bad "the service is not enabled: $(cat err)"
grep -q '^fmove: Start the daemon: setpriv --reuid fmove ' err || bad "systemd does not run here, and nobody says how it is started: $(cat err)"
grep -q 'group fmove: usermod -aG fmove USER' err || bad "nobody says that users need the group: $(cat err)"
ok fmove join -n --system $(sed -n 's/^fmove join //p' out)
grep -q '/etc/fmove/fmove.conf is there, and stays as it is' out && grep -q "other node's entry in /etc/fmove/peers.d" out &&
	! grep -q 'node.key\|make ' out || bad "what another join does: $(cat out)"
ok fmoved --check
rm -r /etc/fmove
SUDO_USER=alice fmove init --address 10.0.0.1 >out 2>err
grep -q 'usermod -aG fmove alice' err || bad "it does not name who called: $(cat err)"
start=$(sed -n 's/^fmove: Start the daemon: //p' err)
[[ $start = 'setpriv --reuid fmove '* ]] || bad "systemd does not run here, and it says to start it by: $start"

# The daemon that the unit would start, and a user of the group.
install -d -o fmove -g fmove /run/fmove
sed -i 's/listen = .*/listen = "127.0.0.1:0";/' /etc/fmove/fmove.conf
echo 'memory = { arena = "16MiB"; };' >>/etc/fmove/fmove.conf
$start 2>log &
pid=$!
await answers /run/fmove/fmoved.sock || bad "it does not start: $(cat log)"
: >out && : >err && chmod 666 out err
no 6 'may not be used by you.*usermod -aG fmove' as_nobody fmove status
ok setpriv --reuid nobody --regid fmove --clear-groups fmove status
kill $pid && wait $pid || bad "it does not end well: $(cat log)"

# A unit that lets nothing be written below /usr.
mkdir -p /usr/local/models && chown fmove: /usr/local/models
sed -i 's,directory = .*,directory = "/usr/local/models";,' /etc/fmove/fmove.conf
fmoved --check 2>err
[ $? -eq 2 ] && grep -q "To mend it: mkdir -p /etc/systemd/system/fmoved.service.d && printf '\[Service\]" err || bad "a store below /usr: $(cat err)"
sed -n 's/.*To mend it: //; s/ && systemctl daemon-reload$//p' err >mend.sh && bash -e mend.sh || bad "does not work: $(cat mend.sh)"
grep -qx 'ReadWritePaths=/usr/local/models' /etc/systemd/system/fmoved.service.d/stores.conf || bad "the drop-in: $(cat /etc/systemd/system/fmoved.service.d/*)"
ok fmoved --check

# A machine without unit and user: nobody is sent to a service or to a group that is not there.
unit=/usr/local/lib/systemd/system/fmoved.service
mkdir away && mv /etc/fmove away/conf && mv /var/lib/fmove away/state && mv $unit /etc/passwd /etc/group away/
cp passwd group /etc/
ok fmove init --address 10.0.0.1
grep -q '^fmove: Start the daemon: fmoved --config /etc/fmove/fmove.conf$' err || bad "how it is started: $(cat err)"
grep -q 'systemctl\|usermod' err && bad "what is not there is named: $(cat err)"
rm -r /etc/fmove /var/lib/fmove
mv away/conf /etc/fmove && mv away/state /var/lib/fmove && mv away/fmoved.service $unit && mv away/passwd away/group /etc/

# --- NVMe: one thing after the other --------------------------------------------------------------

mv /etc/fmove /etc/fmove.away
no 4 'no configuration .*To mend it, as root: fmove init --system; or say --system' fmove nvme discover 127.0.0.1
mv /etc/fmove.away /etc/fmove
no 4 'no host NQN.*To mend it, as root: mkdir -p .*hostnqn' fmove nvme discover 127.0.0.1
[ ! -e /etc/nvme ] || bad "it made something"
fmove nvme discover --system 127.0.0.1 >out 2>err && bad "a discovery without a supervisor"
grep -q 'no host NQN.*: mkdir -p' err || bad "--system does not say what it does: $(cat err)"
grep -Eqx 'nqn.2014-08.org.nvmexpress:uuid:[0-9a-f-]{36}' /etc/nvme/hostnqn || bad "the host NQN: $(cat /etc/nvme/hostnqn)"
[ "nqn.2014-08.org.nvmexpress:uuid:$(cat /etc/nvme/hostid)" = "$(cat /etc/nvme/hostnqn)" ] || bad "host id and NQN differ"
made=$(cat /etc/nvme/hostnqn)
rm /etc/nvme/hostnqn
fmove nvme discover --system 127.0.0.1 >out 2>err
[ "$(cat /etc/nvme/hostnqn)" = "$made" ] || bad "a host id that was there is another one"
if [ -e /dev/nvme-fabrics ]; then
	no 4 'fmove-nvmed does not run. To mend it, as root: systemctl enable --now fmove-nvmed' fmove nvme discover 127.0.0.1
else
	no 4 'no NVMe-TCP loaded .*To mend it, as root: modprobe nvme_tcp' fmove nvme discover 127.0.0.1
fi
no 4 'nobody listens at .*/none' fmove nvme discover --socket "$dir/none" 127.0.0.1
