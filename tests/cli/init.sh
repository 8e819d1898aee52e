#!/bin/bash
# Goal:   fmove init needs an address before it writes anything: it asks for it on a terminal, or
#         says what to say; it takes several. When it fails, nothing of it is left, so that the same
#         command can be said again. invite says other addresses on demand; join tries one after the
#         other.
# Method: a network namespace without any interface that is up, or without a default route; script(1) as the terminal; a
#         directory in which nothing can be written at one step after the other.
. "$(dirname "$0")/lib.sh"
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cli.XXXXXX") || exit 1
chmod 755 "$dir"
mkdir "$dir/w" && cd -P "$dir/w" || exit 1
dir=${PWD%/w} # without links
pids=
trap 'for p in $pids; do kill $p 2>/dev/null; done; down' EXIT

# left: nothing is, of what began in $dir/n.
nothing_left() {
	[ ! -e "$dir/n" ] || bad "$1: left $(find "$dir/n")"
}

if unshare -n true 2>/dev/null; then
	no 1 'no interface of this machine is up.*--address HOST:PORT' unshare -n fmove init --dir "$dir/n/sub" --node n
	nothing_left "without an address"
	no 1 'no interface of this machine is up.*--address HOST:PORT' unshare -n fmove init --dir "$dir/n/sub" --node n
	ok unshare -n fmove init --dir "$dir/n/sub" --node n --address 10.1.2.3
	rm -rf "$dir/n"

	# A network that leads nowhere else is enough.
	ok unshare -n sh -c "ip link add here type veth peer name there && ip addr add 10.5.5.5/24 dev here &&
		ip link set here up && ip link set there up && exec fmove init --dir '$dir/n' --node n"
	grep -q '^fmove join 10.5.5.5:7471 ' out || bad "without a default route: $(cat out err)"
	rm -rf "$dir/n"

	# On a terminal it asks until it is told one.
	printf 'no address\n10.9.8.7\n' | script -qec "unshare -n fmove init --dir $dir/n --node n" /dev/null >talk
	grep -q 'reach this one.*?' talk || bad "it does not ask: $(cat talk)"
	grep -q '"no address" is no address' talk || bad "it takes nonsense: $(cat talk)"
	grep -q '^fmove join 10.9.8.7:7471 ' talk || bad "it does not use what was said: $(cat talk)"
	grep -q 'address = "10.9.8.7:7471"' "$dir/n/fmove.conf" || bad "it does not write it down"
	rm -rf "$dir/n"
	: | script -qec "unshare -n fmove init --dir $dir/n --node n" /dev/null >talk
	grep -q 'no address was said' talk || bad "the end of a terminal: $(cat talk)"
	nothing_left "nothing said on a terminal"
fi

# Each step that can fail.
ok fmove init --dir "$dir/other" --node other --address 127.0.0.1:1
read -r _ _ _ token <out
init=(fmove init --dir "$dir/n/sub" --node n --address 127.0.0.1:1)
for point in config.write:1 config.write:2; do
	FMOVE_FAULT=$point "${init[@]}" >out 2>err
	[ $? -eq 0 ] && continue		# this build has no faults, or fewer
	nothing_left "$point"
	grep -q 'No space left' err || bad "$point: $(cat err)"
done
rm -rf "$dir/n"
echo x >file
no 1 'no directory' "${init[@]}" --store "s=$dir/w/file"
nothing_left "a store that is a file"
no 1 'file' "${init[@]}" --store "s=$dir/n/stores/s" --store "t=$dir/w/file/t"
nothing_left "a store below a file"
no 1 'node.name' "${init[@]}" --node 'a b'
nothing_left "a name that is none"
mkdir "$dir/n" && echo mine >"$dir/n/mine"
no 1 'no directory' "${init[@]}" --store "s=$dir/w/file"
[ "$(ls -A "$dir/n")" = mine ] || bad "of what was there before: $(find "$dir/n")"
rm -r "$dir/n"

# What is not its own stays: a key or a configuration that is a link to what is not mounted just now ...
for name in node.key fmove.conf; do
	mkdir -p "$dir/n/sub" && ln -s "$dir/n/volume/$name" "$dir/n/sub/$name"
	no 6 "$name is a link to what is not there now" "${init[@]}"
	no 6 "$name is a link to what is not there now" fmove join --dir "$dir/n/sub" --node n 127.0.0.1:1 "$token"
	[ "$(ls -A "$dir/n/sub")" = "$name" ] || bad "of a link at $name: $(find "$dir/n")"
	rm -r "$dir/n"
done
# ... and what another one makes at the same moment: of several at once one does all of it, the others nothing.
for round in 1 2 3; do
	all=
	for i in 1 2 3 4; do
		"${init[@]}" >"out.$i" 2>"err.$i" &
		all="$all $!"
	done
	won=0
	for p in $all; do
		wait "$p" && won=$((won + 1))
	done
	[ $won = 1 ] || bad "of four at once $won did it: $(cat err.?)"
	for name in node.key fmove.conf peers.d invites state data; do
		[ -e "$dir/n/sub/$name" ] || bad "of four at once: no $name, but $(ls -A "$dir/n/sub")"
	done
	rm -r "$dir/n"
	# once for another user, to whom all of it is given, whoever of the four made the directory
	if [ $round = 2 ] && [ "$(id -u)" -eq 0 ] && id nobody >/dev/null 2>&1; then
		init+=(--user nobody)
	fi
done
if [ "$(id -u)" -eq 0 ] && id nobody >/dev/null 2>&1; then
	mkdir -p "$dir/n/sub" # by another one, just now
	no 1 'no directory' "${init[@]}" --store "s=$dir/w/file"
	[ "$(stat -c %U "$dir/n/sub")" = root ] && [ -z "$(ls -A "$dir/n/sub")" ] || bad "an init that failed has given the directory: $(ls -la "$dir/n/sub")"
	ok "${init[@]}"
	[ "$(stat -c %U "$dir/n/sub" "$dir/n/sub/fmove.conf" | sort -u)" = nobody ] || bad "it is not given: $(ls -la "$dir/n/sub")"
	rm -r "$dir/n"
	# An empty directory of root's to which a link leads, there or on the way, is not given: the link may be nobody's.
	mkdir -p "$dir/roots/sub" "$dir/n"
	for link in "$dir/n/sub $dir/roots/sub" "$dir/n $dir/roots"; do
		rm -rf "$dir/n/sub" && { [ "${link% *}" != "$dir/n" ] || rmdir "$dir/n"; }
		ln -s "${link#* }" "${link% *}"
		"${init[@]}" >out 2>err && bad "what $link leads to was good enough"
		[[ $(<err) == *"cannot write to $dir/roots/sub"* ]] || bad "at $link: $(<err)"
		[ "$(stat -c %U "$dir/roots/sub")" = root ] && [ -z "$(ls -A "$dir/roots/sub")" ] ||
			bad "what $link leads to was given, or has something left: $(ls -la "$dir/roots/sub")"
	done
	rm -r "$dir/n" "$dir/roots"
	unset 'init[-1]' 'init[-1]'
else
	echo "not looked at, for lack of root or nobody: which directories init --user gives away"
fi

# Several addresses, with and without a port; each stands in the line, the first is the node's.
no 2 'HOST or HOST:PORT' "${init[@]}" --address 'a b'
no 2 'more than 8' "${init[@]}" $(printf -- '--address 10.0.0.%s ' 1 2 3 4 5 6 7 8)
ok fmove init --dir "$dir/n" --node n --address 10.1.1.1 --address fd00::1 --address gpu1:99
grep -q '^fmove join 10.1.1.1:7471,\[fd00::1\]:7471,gpu1:99 ' out || bad "the line: $(cat out)"
grep -q 'address = "10.1.1.1:7471"' "$dir/n/fmove.conf" || bad "node.address: $(cat "$dir/n/fmove.conf")"
ok fmove invite --dir "$dir/n"
grep -q '^fmove join 10.1.1.1:7471 ' out || bad "invite: $(cat out)"
ok fmove invite --dir "$dir/n" --address 10.2.2.2 --address '[fd00::2]:5'
grep -q '^fmove join 10.2.2.2:7471,\[fd00::2\]:5 ' out || bad "invite --address: $(cat out)"
no 2 'HOST or HOST:PORT' fmove invite --dir "$dir/n" --address ':'
rm -r "$dir/n"

# -n says it and does nothing.
mkdir there
ok fmove init -n --dir "$dir/n" --store "a=$dir/w/there" --store "b=$dir/n/b"
grep -q "write $dir/n/fmove.conf" out && grep -q "  make $dir/n/b" out && grep -q "there is there, and stays" out ||
	bad "--dry-run: $(cat out)"
nothing_left "--dry-run"

# join: an address where nobody is, one where another node is, and then the right one.
own_ports
port=$ports_from
for node in a x; do
	port=$((port + 1))
	ok fmove init --dir "$dir/$node" --node $node --address "127.0.0.1:$port" --store "s=$dir/$node/files"
	sed -i 's/\[::\]/127.0.0.1/' "$dir/$node/fmove.conf"
	echo 'memory = { arena = "16MiB"; };' >>"$dir/$node/fmove.conf"
	fmoved --config "$dir/$node/fmove.conf" 2>"$dir/$node/log" &
	pids="$pids $!"
	await answers "$dir/$node/fmoved.sock" || bad "$node does not start: $(cat "$dir/$node/log")"
done
places=127.0.0.1:1,127.0.0.1:$port,127.0.0.1:$((port - 1))
ok fmove invite --dir "$dir/a" --address 127.0.0.1:1 --address "127.0.0.1:$port" --address "127.0.0.1:$((port - 1))"
read -r _ _ address token <out
[ "$address" = "$places" ] || bad "the line has $address"
no_three() {
	fmove join --dir "$dir/n" --node b "$1" "$token" >out 2>err
	[ $? -eq "$2" ] || bad "join $1: $(cat err)"
	grep -Eq "$3" err || bad "join $1: $(cat err)"
	nothing_left "join $1"
}
no_three 127.0.0.1:1,127.0.0.1:2 4 '^fmove: join: 127.0.0.1:1.*refused'
no_three "127.0.0.1:$port,127.0.0.1:1" 6 'has not the key'
no_three "127.0.0.1:1,nonsense" 2 'nonsense: must be'
ok fmove join --dir "$dir/n" --node b --address 127.0.0.1:1 "$places" "$token"
[ "$(grep -c 'the next address' err)" = 2 ] || bad "join does not say which addresses lead nowhere: $(cat err)"
grep -q "\"127.0.0.1:$((port - 1))\"" "$dir/n/peers.d/a.conf" || bad "the address that it was reached at: $(cat "$dir/n/peers.d/a.conf")"

# A node that was configured by hand has no directory of invitations. The service may not write to one that it did not find at its start: who
# invites is told, once.
if [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
	ok fmove init --dir "$dir/h" --node h --address 127.0.0.1:1
	rm -r "$dir/h/invites"
	cat >hand.sh <<-'END'
	mount -t tmpfs none /etc && mkdir -p /etc/systemd/system /etc/fmove && : >/etc/systemd/system/fmoved.service && cp -r "$1/." /etc/fmove &&
		fmove invite && echo once more >&2 && fmove invite
	END
	ok unshare -m sh hand.sh "$dir/h"
	[ "$(grep -n 'systemctl restart fmoved' err | cut -d: -f1)" = 1 ] || bad "whom the service lets write there: $(cat err)"
	[ "$(grep -c '^fmove join ' out)" = 2 ] || bad "invitations: $(cat out err)"
fi
