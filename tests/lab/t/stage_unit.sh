# about: a training unit starts when the dataset that it requires is staged and held, and does not when that fails
# guests: 1
#
# Goal:   the units of staging/examples: the data is there, whole and held, before the training begins, whatever comes up last; a restart
#         of fmoved does not end it; behind it nothing is held; without the data it does not begin.
# Method: systemd is process 1, the units lie as their README puts them, and run as a user. Node n1 is the unit's, n2, which has the source,
#         is started by hand and late. The training is a script here that reads the data and waits.

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"
# shellcheck source=tests/lab/systemd.sh
. "$LAB_TOP/tests/lab/systemd.sh"

D=/run/stage_unit
CACHE=/srv/cache
STAGE=fmove-stage@imagenet.service
DATA=/run/fmove-stage/imagenet/data
T=/srv/train
LIMITS='memory = { arena = "8MiB"; slab = "1MiB"; total = "256MiB"; };'

# --- before systemd -------------------------------------------------------------------------------

# drop_in UNIT LINE...: of its [Service], beside those it has.
drop_in() {
	local dir=/etc/systemd/system/$1.d
	shift

	mkdir -p "$dir"
	printf '%s\n' '[Service]' "$@" > "$dir/lab.conf"
}

install_units() {
	install -m 755 "$FMOVE_BIN/fmoved" "$FMOVE_BIN/fmove" "$FMOVE_BIN/fmove-full" /usr/local/bin/
	FMOVE_BIN=/usr/local/bin
	systemd_install fmoved.service
	systemd_more_time fmoved.service
	cp -r "$LAB_TOP"/staging/examples/*.service* /etc/systemd/system/
	source_is n2:s/set
	drop_in train.service ExecStart= "ExecStart=/bin/sh $T/train"
}

source_is() {
	sed -i "s,^Environment=SOURCE=.*,Environment=SOURCE=$1," "/etc/systemd/system/$STAGE.d/source.conf"
}

prepare() {
	need systemd-sysusers systemd-notify
	systemd_prepare
	install_units
	cp "$LAB_TOP/config/systemd/fmove.sysusers" /run/fmove.conf
	printf 'u train - - %s\nm train fmove\n' $T > /run/train.conf
	check systemd-sysusers /run/fmove.conf /run/train.conf
}

# --- two nodes ------------------------------------------------------------------------------------

configure() {
	mkdir -p /etc/fmove
	install -d -o train $T
	install -d -o fmove -m 711 $CACHE
	printf 'set -e\ncat %s/file > %s/seen\ntouch %s/runs\nuntil [ -e %s/end ]; do sleep 0.2; done\n' $DATA $T $T $T > $T/train
	node_key $D/n2
	mkdir -p $D/n2/s/set
	head -c 3000000 /dev/urandom > $D/n2/s/set/file
	/usr/local/bin/fmove keygen /etc/fmove/node.key > $D/n1.pub
	chown fmove: /etc/fmove/node.key
	cat > /etc/fmove/fmove.conf <<-C
	node = { name = "n1"; };
	staging = { directory = "$CACHE"; size = "64MiB"; grace = "0s"; };
	peers = ( $(node_peer n2 127.0.0.1:7472 $D/n2/pub) );
	$LIMITS
	C
	node_conf $D/n2 n2 127.0.0.1:7472 "$(node_peer n1 127.0.0.1:7471 $D/n1.pub)" <<< "$LIMITS"
}

# is UNIT STATE
is() {
	[ "$(systemd_property "$1" ActiveState)" = "$2" ]
}

holds() {
	fmove datasets --json | grep -q "\"holds\":$1,"
}

said() {
	journalctl -b -u "$STAGE" -o cat --no-pager
}

# has_said TEXT COUNT: so often, or more.
has_said() {
	(($(said | grep -c "$1" || true) >= $2))	# grep fails where it counts none
}

# --- what is done ---------------------------------------------------------------------------------

# As after a boot of all nodes: it waits for that which has the source, and tries again.
waits_for_the_source() {
	check systemctl start --no-block train.service
	wait_for has_said 'fmove: stage: .*n2' 2
	is "$STAGE" activating || fail "$STAGE is $(systemd_property "$STAGE" ActiveState)"
	is train.service inactive || fail "the training is $(systemd_property train.service ActiveState)"
	node_start $D/n2
	wait_for test -e $T/runs
	check cmp $D/n2/s/set/file $T/seen
	say "it began when the source could be reached"
}

is_held() {
	check is "$STAGE" active
	check is train.service active
	wait_for holds 1		# the look before it held it, too
	check_not fmove unstage set
	check systemctl restart fmoved.service
	wait_for holds 1
	check is train.service active
	check is "$STAGE" active
	say "held, also over a restart of fmoved"
}

ends() {
	touch $T/end
	wait_for is train.service inactive
	wait_for is "$STAGE" inactive
	wait_for holds 0
	check_not test -e "${DATA%/data}"
	check fmove unstage set
	rm $T/end $T/runs
	say "behind the training nothing is held"
}

fails() {
	source_is n2:s/nowhere
	check systemctl daemon-reload
	check_not systemctl start train.service
	wait_for has_said 'nowhere' 1
	check is "$STAGE" failed
	check is train.service inactive
	check_not test -e $T/runs
	say "without the data it did not begin"
}

under_systemd() {
	FMOVE_BIN=/usr/local/bin
	trap 'systemd_journal_of $?' EXIT
	check configure
	check systemctl start fmoved.service
	check waits_for_the_source
	check is_held
	check ends
	check fails
	node_stop $D/n2
}

if [ -z "${LAB_SYSTEMD:-}" ]; then
	prepare
	systemd_boot
fi
under_systemd
