# about: the Debian packages of make deb under systemd: five commands to the first file, upgrades under transfers, downgrade, removal, purge
# guests: 2
# timeout: 2400
# when: soak
#
# Goal:   who installs what make deb built on two machines, and types what README.md and client/pages/two-sparks.md say, has put a file
#         with five commands as root, and has edited none. A port that is taken is named. An upgrade restarts a daemon at rest, and none that
#         is at work: after the restart that it names a detached transfer goes on, and an attached one when its command is typed again,
#         which says so; at the receiving node as at the sending one. apt refuses a downgrade; dpkg makes one, and the node is what it was. A
#         removal leaves a node that the next installation goes on with, a purge leaves its store.
# Method: two guests, of which systemd is process 1. The version before is what make deb built, the next one the same with another number.
#         Transfers are slow enough to be under way meanwhile. tests/package has what needs no systemd: halves, other packages' files, wrong
#         configurations.

# shellcheck source=tests/lab/systemd.sh
. "$LAB_TOP/tests/lab/systemd.sh"
# shellcheck source=tests/pages.sh
. "$LAB_TOP/tests/pages.sh"

UNIT=fmoved.service
NEXT=/srv/debs/next.deb
BYTES=$((4 << 20))
LARGE=$((24 << 20))
COMMANDS=5		# from the package to the first file, as config/debian/README.md says
names=('' first second)
me=${names[GUEST]}
deb=("$LAB_TOP"/build/deb/fmove_*.deb)
export DEBIAN_FRONTEND=noninteractive

# --- before systemd -------------------------------------------------------------------------------

make_next() {
	local tree=/srv/debs/tree

	mkdir -p /srv/debs
	check dpkg-deb -R "${deb[0]}" $tree
	check sed -i '/^Version:/s/-1$/-2/' $tree/DEBIAN/control
	check dpkg-deb --root-owner-group -Znone -b $tree $NEXT
	rm -rf $tree
}

prepare() {
	need dpkg-deb apt-get deb-systemd-invoke systemd-socket-activate ss
	[ -e "${deb[0]}" ] || skip "no packages: make deb"
	systemd_prepare
	echo "$me" > /etc/hostname
	printf '%s\n' '127.0.0.1 localhost' "$(wire_addr 0 1) first" "$(wire_addr 0 2) second" > /etc/hosts
	systemd_more_time $UNIT
	make_next
	# What could be fetched is nothing to an apt without a network, and reading all of Debian takes it minutes here.
	rm -rf /var/lib/apt/lists
	mkdir -p /var/lib/apt/lists/partial
	rm -f /var/lib/man-db/auto-update	# nor is an index of all manual pages
	rm -f /usr/sbin/policy-rc.d		# by which a container keeps packages from its services
}

# --- what is asked of a node -----------------------------------------------------------------------

# says WORDS: the command before said so, whose words are in /out/said.$GUEST.
says() {
	grep -q -- "$*" /out/said.$GUEST || fail "nobody says \"$*\": $(tail -n 5 /out/said.$GUEST)"
}

# told COMMAND...: it succeeds, and what it says is in /out/said.$GUEST.
told() {
	"$@" > /out/said.$GUEST 2>&1 || fail "$*: $(tail -n 5 /out/said.$GUEST)"
}

has_version() {
	local version

	version=$(dpkg-query -W -f '${db:Status-Status} ${Version}' fmove)
	[[ $version = "installed "*"-$1" ]] || fail "fmove is $version, not $1"
}

main_pid() {
	systemd_property $UNIT MainPID
}

# runs_new PID: the unit runs what is installed, in another process.
runs_new() {
	wait_for systemctl --quiet is-active $UNIT
	[ "$(main_pid)" != "$1" ] || fail "the daemon was not restarted"
	[ "$(readlink "/proc/$(main_pid)/exe")" = /usr/bin/fmoved ] || fail "what runs is $(readlink "/proc/$(main_pid)/exe")"
	[ "$(stat -c %U "/proc/$(main_pid)")" = fmove ] || fail "$UNIT is not the user fmove's"
}

# runs_old PID: it runs on.
runs_old() {
	[ "$(main_pid)" = "$1" ] || fail "the daemon was restarted"
	check systemctl --quiet is-active $UNIT
}

# It is there, too, for a transfer that comes.
is_connected() {
	fmove ls "$1:models" > /dev/null
}

# --- the steps -------------------------------------------------------------------------------------

# A port that somebody has is the reason that a person is told, with the command that says who it is; nothing stays.
port_taken() {
	local holder

	systemd-socket-activate -l 7471 /bin/true 2> /dev/null &
	holder=$!
	wait_for is_listening 7471
	! fmove init --system --store models=/data/models > /out/said.$GUEST 2>&1 || fail "a node at a port that is taken: $(cat /out/said.$GUEST)"
	says "the port is in use.*ss -ltnp 'sport = :7471'"
	[ ! -e /etc/fmove/fmove.conf ] || fail "a node that did not start left its configuration"
	check_not systemctl --quiet is-enabled $UNIT
	kill $holder
	wait $holder || true
	say "a port that is taken: it says so, and nothing stays"
}

# The line of README.md that installs, without sudo.
install_line() {
	local line

	line=$(grep -o '`sudo apt install [^`]*`' "$LAB_TOP/README.md") || fail "README.md does not say how a package is installed"
	line=${line#'`sudo '}
	echo "${line%'`'}"
}

# typed NODE COMMAND: as root, who needs no group; all count, whoever types them, until a file is put.
typed() {
	local command=${2#sudo }

	case $command in usermod*) return ;; esac
	is_first_put=${is_first_put:-$([[ $command != *'fmove put '* ]] || echo "$((commands + 1))")}
	commands=$((commands + 1))
	if [ "$1" = "$me" ]; then
		case $command in
		*TOKEN*)	command=${command/TOKEN/$(grep -m 1 '^fmove join ' /out/init | sed 's/.* //')} ;;
		*' init '*)	command+=' > /out/init' ;;
		esac
		eval "check $command"
	fi
	sync_point "typed$commands"
}

first_contact() {
	local commands=2 is_first_put=''

	(cd "$LAB_TOP" && eval "$(install_line)") > /out/said.$GUEST 2>&1 || fail "$(cat /out/said.$GUEST)"
	says 'fmove init --system'
	has_version 1
	[ ! -e /etc/fmove ] || fail "installing made a configuration"
	check_not systemctl --quiet is-active $UNIT
	[ "$me" = second ] || port_taken
	sync_point installed
	cd /srv
	head -c $BYTES /dev/urandom > checkpoint.pt
	page_run two-sparks.md typed || fail "the page has no commands"
	[ "$is_first_put" = $COMMANDS ] || fail "the first file is put by command $is_first_put, not $COMMANDS"
	[ "$me" = first ] || check cmp checkpoint.pt step9000.pt
	say "the first file is put by command $is_first_put, no file edited"
}

upgrade_at_rest() {
	local pid
	pid=$(main_pid)

	told dpkg -i $NEXT
	has_version 2
	runs_new "$pid"
	sync_point upgraded
	wait_for is_connected "${names[3 - GUEST]}"
	[ "$me" = first ] || check fmove put --quiet checkpoint.pt first:models/after
	sync_point at_rest
	say "an upgrade at rest: the daemon is the next one"
}

# A megabyte of each has come, in this try or an earlier one.
both_move() {
	[ "$(fmove status --json | grep -oE '"bytes":[0-9]{7,}' | wc -l)" = 2 ]
}

# It takes four minutes, in which the upgrades and the restarts below are.
attached_put() {
	fmove put --limit 100kB/s large.pt first:models/attached
}

begin_transfers() {
	head -c $LARGE /dev/urandom > large.pt
	check install -o fmove -g fmove -m 644 large.pt /data/models/large
	detached=$(fmove put --detach --limit 100kB/s second:models/large first:models/detached)
	begin_attached
	wait_for both_move
}

begin_attached() {
	attached_put > /run/attached 2>&1 &
	attached=$!
}

# A restart ended it, and it says what goes on with it.
attached_ends() {
	local status=0

	wait "$attached" || status=$?
	[ $status != 0 ] || fail "a restart did not end the put that was attached"
	grep -q 'run the same command again to go on' /run/attached || fail "the put that ended says: $(cat /run/attached)"
	wait_for is_connected first
}

upgrade_at_work() {
	local pid attached='' detached=''
	pid=$(main_pid)

	[ "$me" = first ] || begin_transfers
	sync_point moving
	told dpkg -i "${deb[0]}"	# dpkg asks nobody which of two is the newer one
	says 'transfers are under way'
	says 'systemctl restart fmoved'
	has_version 1
	runs_old "$pid"
	sync_point at_work
	say "under transfers: the daemon runs on, at both nodes"
	if [ "$me" = first ]; then
		check systemctl restart $UNIT
		runs_new "$pid"
	fi
	sync_point receiver_again
	[ "$me" = first ] || ends_transfers "$pid"
	sync_point all_there
	[ "$me" = second ] || check cmp /data/models/attached /data/models/detached
	say "after the restarts: the detached transfer went on by itself, the attached one when it was typed again"
}

# Behind the receiver's restart comes the sender's.
ends_transfers() {
	attached_ends
	begin_attached
	wait_for both_move
	check systemctl restart $UNIT
	runs_new "$1"
	attached_ends
	told attached_put
	says 'resumed at [1-9]'
	told fmove wait "$detached"
}

# The key is what the other node knows this one by.
downgrade() {
	local pid key
	told dpkg -i $NEXT
	pid=$(main_pid) key=$(sha256sum < /etc/fmove/node.key)

	! (cd "$LAB_TOP" && eval "$(install_line) -y") > /out/said.$GUEST 2>&1 || fail "apt makes a downgrade unasked"
	says 'allow-downgrades'
	has_version 2
	runs_old "$pid"
	told dpkg -i "${deb[0]}"
	has_version 1
	runs_new "$pid"
	[ "$(sha256sum < /etc/fmove/node.key)" = "$key" ] || fail "the key is another one"
	sync_point downgraded
	wait_for is_connected "${names[3 - GUEST]}"
	[ "$me" = first ] || check fmove put --quiet checkpoint.pt first:models/downgraded
	sync_point as_before
	say "a downgrade: refused by apt, safe by dpkg"
}

remove() {
	check systemctl --quiet is-enabled $UNIT
	told dpkg -r fmove
	[ -z "$(pgrep -u fmove)" ] || fail "left behind: $(pgrep -u fmove -a)"
	check_not systemctl --quiet is-active $UNIT
	[ ! -e /usr/lib/systemd/system/$UNIT ] || fail "the unit is still there"
	told dpkg -i $NEXT
	check_not systemctl --quiet is-active $UNIT
	check systemctl --quiet is-enabled $UNIT
	check systemctl start $UNIT
	sync_point removed
	wait_for is_connected "${names[3 - GUEST]}"
	[ "$me" = first ] || check fmove put --quiet checkpoint.pt first:models/removed
	sync_point again
	say "removed, and installed again: the node is what it was"
}

purge() {
	told dpkg -P fmove
	[ -z "$(pgrep -u fmove)" ] || fail "left behind: $(pgrep -u fmove -a)"
	check_not systemctl --quiet is-enabled $UNIT
	[ ! -e /etc/fmove ] && [ ! -e /var/lib/fmove ] || fail "the purge left $(find /etc/fmove /var/lib/fmove)"
	[ "$me" = second ] || check [ -s /data/models/run7/step9000.pt ]
	check id fmove
	say "purged: the store stays"
}

under_systemd() {
	trap systemd_journal EXIT
	check systemctl start network-online.target	# as it is where somebody is logged in
	first_contact
	upgrade_at_rest
	upgrade_at_work
	downgrade
	remove
	purge
	sync_point end
	say "in all: $COMMANDS commands to the first file, upgrades at rest and under transfers, a downgrade, removals, a purge"
}

if [ -z "${LAB_SYSTEMD:-}" ]; then
	prepare
	systemd_boot
fi
under_systemd
