# about: client/pages/two-sparks.md: fmove init and join with --system under systemd, a user's put and get, and what both log of them
# guests: 2
#
# Goal:   who types what client/pages/two-sparks.md says has two services that run and know each other, and a user of the group fmove puts
#         and gets; who is not in it is told so. Both nodes log what that moved under one id, which fmove logs finds.
# Method: two guests, of which systemd is process 1 and which have the host names first and second. The programs, the unit and the users'
#         file are where make install has them; user, directories, configuration and service come from --system alone. Then
#         both services are restarted, and it is done again.

# shellcheck source=tests/lab/systemd.sh
. "$LAB_TOP/tests/lab/systemd.sh"
# shellcheck source=tests/pages.sh
. "$LAB_TOP/tests/pages.sh"

UNIT=fmoved.service
BYTES=$((1 << 20))
names=('' first second)
me=${names[GUEST]}

# --- before systemd -------------------------------------------------------------------------------

prepare() {
	need systemd-sysusers useradd usermod setpriv
	systemd_prepare
	echo "$me" > /etc/hostname
	printf '%s\n' '127.0.0.1 localhost' "$(wire_addr 0 1) first" "$(wire_addr 0 2) second" > /etc/hosts
	install -m 755 "$FMOVE_BIN/fmoved" "$FMOVE_BIN/fmove" "$FMOVE_BIN/fmove-full" /usr/local/bin/
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

as_alice() {
	setpriv --reuid alice --regid alice --init-groups "$@"
}

# Alice is at both machines. Without the group she is told which one she needs.
alice_comes() {
	check useradd -m -d /srv/alice alice
	head -c $BYTES /dev/urandom > /srv/alice/checkpoint.pt
	chown alice: /srv/alice/checkpoint.pt
}

alice_is_refused() {
	as_alice fmove status > /run/refused 2>&1 && fail "alice may use fmove without the group"
	grep -q 'usermod -aG fmove' /run/refused || fail "alice is told: $(cat /run/refused)"
}

# types COMMAND: root what sudo stands before, alice the rest, in her directory. The token is that of the line that init printed.
types() {
	local command=$1 USER=alice

	case $command in
	*TOKEN*)	command=${command/TOKEN/$(grep -m 1 '^fmove join ' /out/init | sed 's/.* //')} ;;
	*usermod*)	alice_is_refused ;;
	esac
	case $command in
	"sudo fmove init "*)	eval "check ${command#sudo }" > /out/init ;;
	"sudo "*)	eval "check ${command#sudo }" ;;
	*)	eval "(cd /srv/alice && check as_alice $command)" ;;
	esac
	case $command in *--system*) runs_as_installed ;; esac
}

# typed NODE COMMAND: one line of the page after the other, also where two machines are concerned.
typed() {
	step=$((step + 1))
	[ "$1" != "$me" ] && [ "$1" != each ] || types "$2"
	sync_point "line$step"
}

# Each node's journal has the put and the get of the page, under ids that are the same at both.
is_logged() {
	wait_for has_lines
	journalctl -F FMOVE_JOB | sort > "/out/jobs.$me"
	sync_point logged
	check cmp /out/jobs.first /out/jobs.second
}

# What the journal has is there a moment after it was said.
has_lines() {
	local job what

	for job in $(journalctl -F FMOVE_JOB); do
		fmove logs "$job"
	done > /run/lines
	for what in 'put of first:models for second' 'get of first:models for second'; do
		grep -q " fmoved.service\[[0-9]*\]: job [a-z2-7]*: $what begins: run7/step9000.pt" /run/lines || return 1
		grep -q " fmoved.service\[[0-9]*\]: job [a-z2-7]*: $what is done: $BYTES bytes" /run/lines || return 1
	done
}

under_systemd() {
	local step=0

	FMOVE_BIN=/usr/local/bin
	trap 'systemd_journal_of $?' EXIT
	check systemctl start network-online.target	# as it is where somebody is logged in
	no_node_yet
	alice_comes
	page_run two-sparks.md typed || fail "the page has no commands"
	[ "$me" = first ] || check cmp /srv/alice/checkpoint.pt /srv/alice/step9000.pt
	is_logged
	say "init, join, put and get as the page has them, under systemd"
	check systemctl restart $UNIT
	runs_as_installed
	sync_point again
	[ "$me" = first ] || check as_alice fmove put --quiet /srv/alice/checkpoint.pt first:models/run8/step9000.pt
	sync_point end
	check systemctl stop $UNIT
	[ -z "$(pgrep -u fmove)" ] || fail "left behind: $(pgrep -u fmove -a)"
}

if [ -z "${LAB_SYSTEMD:-}" ]; then
	prepare
	systemd_boot
fi
under_systemd
