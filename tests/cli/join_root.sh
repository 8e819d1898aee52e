#!/bin/bash
# Goal:   what root makes for a daemon that is not root is that daemon's: it sees the invitation, and takes who joins.
# Method: a configuration that a person wrote, without peers.d and invites, and a daemon of nobody's; root invites and joins.
. "$(dirname "$0")/lib.sh"
need_nobody
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cli.XXXXXX") || exit 1
chmod 755 "$dir"
mkdir "$dir/w" "$dir/c" "$dir/s" && mkdir -m 700 "$dir/run"
cd "$dir/w" || exit 1
pid=
trap '[ -z "$pid" ] || kill $pid 2>/dev/null; down' EXIT
own_ports
address=127.0.0.1:$ports_from
cat >"$dir/c/fmove.conf" <<-END
	node = { name = "srv"; listen = "$address"; socket = "$dir/run/sock"; state_directory = "$dir/run/state"; };
	$node_memory
	stores = ( { name = "s"; directory = "$dir/s"; } );
END
ok fmove keygen "$dir/c/node.key"
chown nobody "$dir/c/node.key" "$dir/s" "$dir/run"
setpriv --reuid nobody --regid "$(id -gn nobody)" --clear-groups fmoved --config "$dir/c/fmove.conf" >"$dir/log" 2>&1 &
pid=$!
await answers "$dir/run/sock" || bad "it does not start: $(cat "$dir/log")"

ok fmove invite --dir "$dir/c" --address "$address"
[ "$(stat -c %U:%a "$dir/c/invites" "$dir/c/peers.d" | tr '\n' ' ')" = 'nobody:700 nobody:755 ' ] || bad "whose they are: $(ls -l "$dir/c")"
ok fmove join --dir "$dir/j" --node j "$address" "$(cut -d ' ' -f 4 out)"
[ "$(stat -c %U "$dir/c/peers.d/j.conf")" = nobody ] || bad "j is not written down: $(ls -l "$dir/c/peers.d")"

# At the other end, too: the configuration of a daemon of nobody's joins, as root.
cp -r "$dir/c" "$dir/d" && rm -r "$dir/d/peers.d" "$dir/d/invites" "$dir/d/node.key"
sed -i 's/name = "srv"/name = "d"/; s/listen = "[^"]*"/listen = "127.0.0.1:0"/' "$dir/d/fmove.conf"
ok fmove keygen "$dir/d/node.key"
chown nobody "$dir/d/node.key"
ok fmove invite --dir "$dir/c" --address "$address"
ok fmove join --dir "$dir/d" "$address" "$(cut -d ' ' -f 4 out)"
[ "$(stat -c %U "$dir/d/peers.d" "$dir/d/peers.d/srv.conf" | sort -u)" = nobody ] || bad "whose they are: $(ls -lR "$dir/d/peers.d")"

# One that is there already, and that the daemon cannot use.
chown root "$dir/c/invites"
no 6 'cannot write there: chown [0-9]* .*/invites' fmove invite --dir "$dir/c" --address "$address"

kill "$pid" && wait "$pid" || bad "it does not end well: $(tail -n 3 "$dir/log")"
pid=
