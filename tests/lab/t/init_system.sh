# about: README.md, Two nodes: fmove init and join with --system under systemd, a user's put and get
# guests: 2
#
# Goal:   who does what README.md, Two nodes, says has two services that run and know each other, and a user of the group fmove puts and
#         gets; who is not in it is told so.
# Method: two guests, of which systemd is process 1 and which have the host names first and second. The programs, the unit and the users'
#         file are where make install has them; user, directories, configuration and service come from --system alone. Then
#         both services are restarted, and it is done again.

# shellcheck source=tests/lab/systemd.sh
. "$LAB_TOP/tests/lab/systemd.sh"

UNIT=fmoved.service
BYTES=$((4 << 20))
names=('' first second)
me=${names[GUEST]}

# --- before systemd -------------------------------------------------------------------------------

prepare() {
	need systemd-sysusers useradd usermod setpriv
	systemd_prepare
	echo "$me" > /etc/hostname
	printf '%s\n' '127.0.0.1 localhost' "$(wire_addr 0 1) first" "$(wire_addr 0 2) second" > /etc/hosts
	install -m 755 "$FMOVE_BIN/fmoved" "$FMOVE_BIN/fmove" /usr/local/bin/
	FMOVE_BIN=/usr/local/bin	# what the unit starts
	systemd_install $UNIT
	install -D -m 644 "$LAB_TOP/config/systemd/fmove.sysusers" /usr/lib/sysusers.d/fmove.conf
	systemd_more_time $UNIT
}

# --- what the page says ---------------------------------------------------------------------------

no_node_yet() {
	if getent passwd fmove || [ -e /etc/fmove/fmove.conf ]; then
		fail "there is a node before anybody made one"
	fi
}

runs_as_installed() {
	wait_for systemctl --quiet is-active $UNIT
	check systemctl --quiet is-enabled $UNIT
	[ "$(systemd_property $UNIT NRestarts)" = 0 ] || fail "$UNIT was started again and again"
	[ "$(stat -c %U "/proc/$(systemd_property $UNIT MainPID)")" = fmove ] || fail "$UNIT is not the user fmove's"
	[ "$(stat -c %U:%G /data/models)" = fmove:fmove ] || fail "the store is $(stat -c %U:%G /data/models)"
}

first_begins() {
	check fmove init --system --store models=/data/models > /out/init
	runs_as_installed
	sync_point init
	sync_point join
}

second_joins() {
	local line

	sync_point init
	line=$(grep -m 1 '^fmove join ' /out/init) || fail "no line for the next node: $(cat /out/init)"
	check fmove join first:7471 "${line##* }" --system --store models=/data/models
	runs_as_installed
	sync_point join
}

as_alice() {
	setpriv --reuid alice --regid alice --init-groups "$@"
}

# A user of no group is told which one; then alice is in it.
alice_comes() {
	check useradd -m -d /srv/alice alice
	as_alice fmove status > /run/refused 2>&1 && fail "alice may use fmove without the group"
	grep -q 'usermod -aG fmove' /run/refused || fail "alice is told: $(cat /run/refused)"
	check usermod -aG fmove alice
	head -c $BYTES /dev/urandom > /srv/alice/checkpoint.pt
	chown alice: /srv/alice/checkpoint.pt
}

# puts_and_gets WHERE: by name of the host, as the page has it.
puts_and_gets() {
	check as_alice fmove put --quiet /srv/alice/checkpoint.pt "first:models/$1/step9000.pt"
	check as_alice fmove get --quiet "first:models/$1/step9000.pt" /srv/alice/
	check cmp /srv/alice/checkpoint.pt /srv/alice/step9000.pt
	rm /srv/alice/step9000.pt
}

under_systemd() {
	FMOVE_BIN=/usr/local/bin
	trap systemd_journal EXIT
	check systemctl start network-online.target	# as it is where somebody is logged in
	no_node_yet
	if [ "$GUEST" = 1 ]; then
		first_begins
	else
		second_joins
		alice_comes
		puts_and_gets run7
		say "init, join, put and get as README.md has them, under systemd"
	fi
	sync_point moved
	check systemctl restart $UNIT
	runs_as_installed
	sync_point again
	[ "$GUEST" = 1 ] || puts_and_gets run8
	sync_point end
	check systemctl stop $UNIT
	[ -z "$(pgrep -u fmove)" ] || fail "left behind: $(pgrep -u fmove -a)"
}

if [ -z "${LAB_SYSTEMD:-}" ]; then
	prepare
	systemd_boot
fi
under_systemd
