#!/bin/bash
# Goal:   fmoved starts, or says in one line why not; it tells systemd what systemd waits for; it ends as it is asked to.
# Method: one daemon, started again and again with something wrong; a datagram socket in place of systemd.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF='# memory: the default'
up 1
conf=$dir/c/n1/fmove.conf

# refuse STATUS PATTERN ARGUMENT...: fmoved ends with this status at once, its last line matching PATTERN.
refuse() {
	want=$1 pattern=$2
	shift 2
	timeout $HANG_S fmoved "$@" >out 2>err </dev/null
	got=$?
	[ $got -eq "$want" ] || bad "fmoved $* -> $got instead of $want: $(cat err)"
	tail -n 1 err | grep -Eq -- "$pattern" || bad "fmoved $*: \"$(cat err)\" does not match \"$pattern\""
}

# with SED_SCRIPT: the configuration, changed and under another socket, as ./conf.
with() {
	sed "s,socket = .*,socket = \"$dir/w/sock\";,; s/listen = .*/listen = \"127.0.0.1:0\";/; $1" "$conf" >conf
}

# The command line.
refuse 2 'log-level must be' --log-level loud
refuse 2 'no argument is wanted: x' x
refuse 2 'not an option.*: --bogus; see fmoved --help' --bogus
refuse 2 'not an option.*: -config; see' -config conf
refuse 2 'not an option.*: -x; see' --check -x conf
refuse 2 'not an option.*: --config; see' --config
refuse 2 'no.such is not there: is the name right\?$' --config no.such
if [ "$(id -u)" = 0 ]; then	# whom that is said to is the user fmoved runs as
	chmod 755 . && cp "$conf" shut && chmod 600 shut
	status=0
	as_nobody "$(type -P fmoved)" --config "$dir/w/shut" 2>err || status=$?
	[ $status = 2 ] && grep -q "shut may not be read by user $(id -u nobody) (namei -l shows why): .* must be its user's" err ||
		bad "a configuration of another user's: $status: $(cat err)"
	rm -f shut
fi
refuse 2 'not a regular file' --config .
fmoved --help | grep -q 'mover.stall_timeout' || bad "fmoved --help does not list the options"
[ "$(fmoved --help | awk 'length($0) > 80' | wc -l)" -eq 0 ] || bad "fmoved --help is wider than 80"
fmoved --version | grep -Eq '^fmoved [0-9]' || bad "fmoved --version"

# The configuration, each kind of mistake once: fmove config check and fmoved say the same and mean the same.
mistake() {
	with "$1"
	refuse 2 "$2" --config conf
	no 1 "$2" fmove config check conf
}
mistake 's/name = "n1"/nam = "n1"/' 'conf:[0-9]+: node.nam: unknown key; did you mean node.name'
mistake 's/name = "n1"/name = n1/' 'conf:[0-9]+: syntax error'
mistake 's/name = "n1"/name = "n 1"/' 'conf:[0-9]+: node.name: "n 1" is not allowed; must be'
mistake 's,^directory = .*,directory = "s";,' 'conf:[0-9]+: stores.directory: "s" is not allowed; must be an absolute path'
mistake "s,^directory = .*,directory = \"$PWD/peers.d\";," 'conf:[0-9]+: stores.directory: .* must not be within each other'
mistake "s,^directory = .*,directory = \"$PWD/keys\";,; s,key_file = .*,key_file = \"$PWD/keys/k\";," 'conf:[0-9]+: stores.directory: .* and the key of the node .* must not be within each other'
mistake 's/^mover = {/& lanes = 99;/' 'conf:[0-9]+: mover.lanes: 99 is not allowed; must be 0 .. 16'
mistake '$ a memory = { total = "100MiB"; };' 'conf:[0-9]+: memory.total: 100MiB is not allowed; must be at least'
mistake '$ a memory = { arena = "1PB"; };' 'conf:[0-9]+: memory.arena: "1PB" is not allowed'
with ''
ok fmove config check conf
grep -q 'ok: node n1, 1 store, 0 peers' out || bad "config check: $(cat out)"
ok fmoved --config conf --check
no 2 'check, options or example' fmove config bogus
fmove config example >example || bad "config example"
ok fmove config check example

# What only a start sees.
with "s,key_file = .*,key_file = \"$dir/w/none\";,"
refuse 1 'none' --config conf
refuse 2 'none' --config conf --check
cp "$dir/c/n1/node.key" open.key && chmod 644 open.key
with "s,key_file = .*,key_file = \"$dir/w/open.key\";,"
refuse 1 'open.key.*(644|may read)' --config conf
with "s,^directory = .*,directory = \"$dir/w/gone\";,"
refuse 1 'conf:[0-9]+: store "s".*gone' --config conf
# As many faults as a configuration can have: each is said, and none is too many.
stores= sockets=
for i in {1..63}; do
	stores+="{ name = \"s$i\"; directory = \"$dir/w/gone/$i\"; }, "
	sockets+="{ path = \"$dir/w/of/$i\"; user = \"no-user-$i\"; group = \"no-group-$i\"; }, "
done
with "s|^stores = (|&$stores|; \$ a sockets = ( ${sockets%, } );"
refuse 2 . --config conf --check
[ "$(grep -c -e gone/ -e no-user- -e no-group- err)" -eq 189 ] || bad "of 189 faults it says $(grep -c . err)"
with 's/socket_mode = .*/socket_group = "no-such-group";/'
refuse 1 'socket_group: this machine has no group "no-such-group"' --config conf
port=$(sed -n 's/.*listen = ".*:\([0-9]*\)".*/\1/p' "$conf")
with '' && sed -i "s/listen = .*/listen = \"127.0.0.1:$port\";/" conf
refuse 1 'in use' --config conf
with '' && sed -i "s,socket = .*,socket = \"$dir/c/n1/fmoved.sock\";," conf
refuse 1 'another|in use|serves' --config conf
with '$ a memory = { arena = "1TiB"; total = "2TiB"; huge_pages = "always"; };'
huge_kib=$(awk '/^Hugepagesize:/ { print $2 }' /proc/meminfo)
refuse 1 "huge_pages is \"always\".*${huge_kib:+vm.nr_hugepages=$((1024 ** 3 / ${huge_kib:-1}))}" --config conf
with '$ a memory = { arena = "1023MiB"; total = "2GiB"; slab = "1MiB"; huge_pages = "always"; };'
refuse 1 "memory.arena is no multiple.*huge pages, ${huge_kib:+$((huge_kib / 1024))} MiB" --config conf
alive

# A name that /etc/hosts has twice with one address is one address.
with 's/listen = .*/listen = "twice:0";/'
printf '127.0.0.1 localhost\n127.0.0.1 twice\n127.0.0.1 twice\n' >hosts
if [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
	unshare -m sh -c 'mount --bind hosts /etc/hosts && exec "$FMOVE_BIN/fmoved" --config conf' 2>err &
	pid=$!
	await answers "$dir/w/sock" || bad "a name that is there twice: $(cat err)"
	kill $pid && wait $pid || bad "it does not end well: $(cat err)"
fi

# Little locked memory: said with the lines that mend it, and gone on without. Root has no limit, so somebody else.
with ''
if [ "$(id -u)" -eq 0 ] && id nobody >/dev/null 2>&1 && command -v setpriv >/dev/null; then
	mkdir -m 777 small && cp conf small/conf
	cp "$dir/c/n1/node.key" small/key && mkdir small/s && chown -R nobody small
	sed -i "s,key_file = .*,key_file = \"$dir/w/small/key\";,; s,^directory = .*,directory = \"$dir/w/small/s\";,
		s,socket = .*,socket = \"$dir/w/small/sock\";," small/conf
	(ulimit -l 64 && exec setpriv --reuid=nobody --clear-groups "$FMOVE_BIN/fmoved" --config small/conf) >out 2>err &
	pid=$!
	await answers "$dir/w/small/sock" || bad "with 64 KiB of locked memory it does not serve: $(cat err)"
	is_logged 'memlock: the limit is 64KiB, .* need [0-9]+[MG]iB.*LimitMEMLOCK=infinity.*nobody - memlock unlimited' err ||
		bad "memlock: $(cat err)"
	kill $pid && wait $pid || bad "it does not end well: $(cat err)"
fi

# systemd's end: ready, reloading, stopping, and alive in between.
if command -v systemd-notify >/dev/null && command -v python3 >/dev/null; then
	python3 - "$dir/w/notify" >notified <<-'END' &
	import socket, sys
	s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
	s.bind(sys.argv[1])
	while True:
	    m = s.recv(4096).decode()
	    print(m, flush=True)
	    if "STOPPING" in m:
	        break
	END
	listener=$!
	watchdog_was_told() {
		[ "$(grep -c '^WATCHDOG=1' notified)" -ge 2 ]
	}
	ready_again() {
		[ "$(grep -c '^READY=1' notified)" -eq 2 ]
	}
	while [ ! -S notify ]; do pause 0.02; done
	NOTIFY_SOCKET=$dir/w/notify WATCHDOG_USEC=200000 fmoved --config conf >out 2>err &
	pid=$!
	until grep -q '^READY=1' notified; do pause 0.05; kill -0 $pid || break; done
	await watchdog_was_told
	kill -HUP $pid
	until grep -q '^RELOADING=1' notified; do pause 0.05; kill -0 $pid || break; done
	await ready_again
	kill -TERM $pid
	wait $pid || bad "it does not end well: $(cat err)"
	wait $listener
	[ "$(grep -c '^WATCHDOG=1' notified)" -ge 2 ] || bad "the watchdog was told too little: $(cat notified)"
	[ "$(grep -c '^READY=1' notified)" -eq 2 ] || bad "ready must be said after the start and after a reload: $(cat notified)"
	grep -q '^STATUS=node n1, port [0-9]*, 0 peers, 1 stores' notified || bad "no status: $(cat notified)"
fi
