#!/bin/bash
# Goal:   SIGHUP takes over what can be taken over while running, names what cannot, and a mistake changes nothing.
# Method: two nodes; the configuration of n1 is changed under it.
. "$(dirname "$0")/lib.sh"
up 2
node=$dir/c/n1
conf=$node/fmove.conf
cp "$conf" before
random 100000 f

# reload PATTERN: SIGHUP to n1, until a new line of its log matches.
reload() {
	lines=$(wc -l <"$node/log")
	kill -HUP "$(cat "$node/pid")"
	await has_said "$1" || bad "reload: no \"$1\" in: $(cat new)"
}

has_said() {
	tail -n +$((lines + 1)) "$node/log" >new
	grep -Eq "$1" new
}

# peers N: n1 has N peers and is connected to all of them, within a while.
peers() {
	await has_peers "$1" || bad "not $1 connected peers: $(cat out)"
}

has_peers() {
	fmove status --json >out
	[ "$(grep -o '"connected":[a-z]*' out | grep -c true)" -eq "$1" ] && [ "$(grep -o '"connected":' out | wc -l)" -eq "$1" ]
}

# A store appears, is used, changes its rules, and goes.
mkdir "$node/t"
sed -i "s,^stores = (,& { name = \"t\"; directory = \"$node/t\"; read = [ \"*\" ]; write = [ ]; }\,," "$conf"
reload 'reloaded'
use 2
no 6 't' fmove put f n1:t/f
sed -i 's/write = \[ \]/write = [ "peer:n2" ]/' "$conf"
reload 'reloaded'
ok fmove put f n1:t/f
same f "$node/t/f"
cp before "$conf"
reload 'store "t" is gone'
no 1 'store' fmove put --force f n1:t/f
same f "$node/t/f"
use 1

# logged PATTERN: a new line of the log of n1 says so, within a while.
logged() {
	await has_said "$1" || bad "no \"$1\" in: $(cat new)"
}

# begun NAME [STORE]: a put to a name that is new begins at n1, and goes on until left_over, or goes_on.
mkfifo more
begun() {
	exec {end}<>more
	fmove put - "n1:${2-t}/$1" <more >left.out 2>&1 {end}>&- &
	writer=$!
	is_logged "put of n1:${2-t} for n2 begins: $1\$" "$node/log" || bad "${2-t}/$1 does not begin: $(cat left.out)"
	echo data >&$end
}

# Its path leads where it did.
goes_on() {
	exec {end}>&-
	wait $writer || bad "what was going to a directory that stays: $(cat left.out)"
}

# What was going to a directory when the path left it is not done.
left_over() {
	exec {end}>&-
	local code=0
	wait $writer || code=$?
	[ $code -eq 1 ] || bad "what went to the former directory ended with $code: $(cat left.out)"
	grep -q 'its path leads to another directory' left.out || bad "it is not told why: $(cat left.out)"
}

# unserved PATTERN: nothing goes to the directory that the path has left, nor to another one before a reload; the log
# and the answer say why.
elsewhere='its path leads to another directory than the one that was open, or to none; systemctl reload fmoved'
unserved() {
	logged "store \"t\" at .*/t: $1"
	no 1 "store t: $1" fmove put --force f n1:t/unserved
	no 1 "store t: $1" fmove df n1:t
}

# The directory of a store is another one now. Who renamed it does not choose what is served: a reload does, and not
# what the node keeps for itself. When the path leads back that is served again.
sed -i "s,^stores = (,& { name = \"t\"; directory = \"$node/t\"; }\,," "$conf"
reload 'reloaded'
use 2
begun late
lines=$(wc -l <"$node/log")
mv "$node/t" "$node/former" && mkdir "$node/t"
unserved "$elsewhere"
left_over
rmdir "$node/t" && mv "$node/former" "$node/t"
logged 'store "t": .*/t leads to the directory again that was open'
ok fmove put f n1:t/g
[ ! -e "$node/t/late" ] || bad "what was refused is there"
# So it is with what this node itself gets for one of its stores, which is tried again. Where all of it came before the path was found to lead
# elsewhere, once more.
came_before() {
	fmove jobs --json >jobs.out
	grep -q "\"job\":\"$1\".*\"state\":\"done\"" jobs.out
}
use 1
head -c 64000000 /dev/zero >"$(store 2)/big"
for ((tries = 0; tries < 10; tries++)); do
	slow 2
	job=$(fmove get --detach --force n2:s/big n1:t/between) || bad "get --detach into an own store: $job"
	moved big 0
	lines=$(wc -l <"$node/log")
	mv "$node/t" "$node/former" && mkdir "$node/t"
	use 2
	unserved "$elsewhere"
	use 1
	! came_before "$job" || job=
	fast 2
	if [ -n "$job" ]; then
		logged "$job: get of n2:s .*than the one that this went to; get it again"
		[ ! -e "$node/former/between" ] || bad "it is in the former directory"
		ok fmove cancel "$job"
	fi
	lines=$(wc -l <"$node/log")
	rmdir "$node/t" && mv "$node/former" "$node/t"
	logged 'store "t": .*/t leads to the directory again that was open'
	[ -z "$job" ] || break
done
[ -n "$job" ] || bad "all of it came each time before the path was found to lead elsewhere"
use 2
lines=$(wc -l <"$node/log")
mv "$node/t" "$node/former" && ln -s "$node" "$node/t"
unserved "$elsewhere"
lines=$(wc -l <"$node/log")
kill -HUP "$(cat "$node/pid")"
apart='stores.directory: ".*/t" \(really .*\) and the .* must not be within each other; move one'
logged "error: .*$apart"
no 1 'store t: its path leads to what this node keeps for itself' fmove get n1:t/fmove.conf back
said=$(grep -E "error: .*$apart" new)
"$FMOVE_BIN/fmoved" --config "$conf" --check 2>err
[ $? -eq 2 ] && grep -qF "${said##*stores.directory: }" err || bad "--check says \"$(cat err)\", and a reload \"$said\""
# So it is with the directory where its key is, also where that is over a link.
rm "$node/t"
reload 'error: .*store "t".*No such file'
mkdir "$dir/keys" && mv "$node/node.key" "$dir/keys" && ln -s "$dir/keys/node.key" "$node/node.key"
ln -s "$dir/keys" "$node/t"
reload 'error: .*: stores.directory: ".*/t" \(really .*/keys\) and the key of the node .* must not be within each other'
rm "$node/node.key" && mv "$dir/keys/node.key" "$node/node.key"
rm "$node/t" && mkdir "$node/t"
reload 'store "t": what is at .*/t now is served;'
ok fmove put f n1:t/g
same f "$node/t/g"

# The configuration says another directory: what was going to the former one is not done, either, also where a reload gave that other settings meanwhile.
begun later
mkdir "$node/next"
sed -i 's/{ name = "t";/& durability = "memory";/' "$conf"
reload 'reloaded'
sed -i "s/ durability = \"memory\";//; s,directory = \"$node/t\",directory = \"$node/next\"," "$conf"
reload 'reloaded'
left_over
ok fmove put f n1:t/h
same f "$node/next/h"
sed -i "s,directory = \"$node/next\",directory = \"$node/t\"," "$conf"
reload 'reloaded'
# Nor is it where one reload removed the store, and another one has it in another directory.
begun latest
cp "$conf" with_t
cp before "$conf"
reload 'reloaded'
sed "s,directory = \"$node/t\",directory = \"$node/next\"," with_t >"$conf"
reload 'reloaded'
left_over
cp with_t "$conf"
reload 'reloaded'
for name in later latest; do
	[ ! -e "$node/t/$name" ] && [ ! -e "$node/next/$name" ] || bad "what was refused is there: $name"
done

# A file system is mounted there, as one that is late at boot: that is served by itself. What was going beneath is not done, and when it is unmounted
# nothing goes there, also after a reload that changes the store. A directory that is mounted as another store (--bind) is renamed, and that store stays what
# it is. It is looked at before the other one, whose place in the configuration is ten behind its own: when that is seen to be unmounted it has been.
if mount -t tmpfs none "$node/t" 2>/dev/null; then
	trap 'status=$?; umount -l "$node/t" "$node/bound" 2>/dev/null; (exit $status); down' EXIT
	logged 'store "t": what is at .*/t now is served, which is on another file system'
	mkdir "$node/raid" "$node/bound"
	mount --bind "$node/raid" "$node/bound"
	first="{ name = \"bound\"; directory = \"$node/bound\"; },"
	for i in {1..9}; do first+=" { name = \"null$i\"; directory = \"null:\"; },"; done
	sed -i "s|^stores = (|& $first|" "$conf"
	reload 'reloaded'
	begun late bound
	lines=$(wc -l <"$node/log")
	mv "$node/raid" "$node/raid2"
	umount -l "$node/t"
	gone='what was mounted at its path, or above it, is not mounted any more'
	unserved "$gone"
	has_said 'store "bound"' && bad "what is bound was renamed: $(cat new)"
	goes_on
	[ -s "$node/raid2/late" ] && [ -s "$node/bound/late" ] || bad "it went elsewhere"
	lines=$(wc -l <"$node/log")
	sed -i 's/{ name = "t";/& durability = "memory";/' "$conf"
	reload 'reloaded'
	unserved "$gone"
	[ ! -e "$node/t/unserved" ] || bad "it went beneath the mount point"
	lines=$(wc -l <"$node/log")
	mount -t tmpfs none "$node/t"
	logged 'store "t": what is at .*/t now is served|leads to the directory again'
	ok fmove put f n1:t/i
	same f "$node/t/i"
	umount -l "$node/t"
fi
use 1
cp before "$conf"
reload 'reloaded'

# The file is a link, as where configurations come in versions: a reload reads what it leads to then. What belongs to it stands beside the link.
crash n1
mkdir "$node/versions"
mv "$conf" "$node/versions/1" && ln -s versions/1 "$conf"
start_again n1
peers 1
grep -v 'name = "n2"' before >"$node/versions/2"
ln -sfn versions/2 "$conf"
reload 'peer "n2" is gone'
peers 0
rm "$conf" && cp before "$conf"
reload 'reloaded'
peers 1

# mistaken PATTERN: the status says this of the configuration, and of when the one is that runs. "": nothing.
mistaken() {
	await says_mistake "$1" || bad "the status says another mistake than \"$1\": $(cat out)"
}

says_mistake() {
	fmove status --json >out && [ "$(read_ms)" = "$taken_ms" ] || return
	if [ -z "$1" ]; then
		! grep -q 'mistake' out && fmove status >out && ! grep -q 'mistake' out
	else
		grep -Eq "\"config_mistake\":\"[^,]*$1" out && fmove status >out &&
			grep -Eq "^config +the configuration was changed but has a mistake: .*$1.*; what runs is that of $at\$" out
	fi
}

# When what runs was read, as the status in "out" says.
read_ms() {
	grep -o '"config_read_ms":[0-9]*' out | cut -d: -f2
}

# running SECONDS: what runs was read then or later, and is what runs until a reload succeeds.
running() {
	fmove status --json >out
	taken_ms=$(read_ms)
	at=$(date -d "@$((taken_ms / 1000))" '+%Y-%m-%d %H:%M:%S')
	[ "$taken_ms" -ge "${1}000" ] && [ "$taken_ms" -le "$(date +%s)999" ] || bad "the configuration is said to be read at $taken_ms, not after $1"
}

# A mistake, a store that cannot be opened: nothing changes, and the status says so until a reload succeeds. Where the
# configuration does not tell who its peers are, all of them are still let in.
running 1
mistaken ""
sed -i '/name = "n2"/d' "$conf"
echo 'nonsense' >>"$conf"
reload 'syntax error.*nothing is changed'
mistaken 'syntax error'
peers 1

# What a disk that is full leaves of it, or who is just writing it, is nobody's removal: nothing, the first lines, half a list.
: >"$conf"
reload 'node.name.*nothing is changed$'
mistaken 'node.name'
peers 1
grep -v -e '^node = ' -e '^peers = ' before >"$conf"
reload 'nothing is changed$'
peers 1
half=$(cat before)
printf %s "${half%%name = \"n2\"*}" >"$conf"
reload 'nothing is changed$'
peers 1
cp before "$conf"
sed -i "s,^stores = (,& { name = \"u\"; directory = \"$node/none\"; }\,," "$conf"
reload 'store "u".*nothing is changed'
mistaken 'store .*u'
peers 1
cp before "$conf"
sleep 1
now=$(date +%s)
reload 'reloaded'
running "$now"
mistaken ""
ok fmove put f n2:s/f

# waits [KEYS...]: the status says that these wait for a restart, or that none does.
waits() {
	ok fmove status
	[ "$(sed -n 's/^config  restart needed for: //p' out)" = "$*" ] || bad "\"$*\" waits for a restart: $(grep ^config out)"
}

# What takes a restart is named, and what is said beside it is taken.
cp before "$conf"
sed -i 's|^mover = {|& chunk = "256KiB"; rate_limit = "1MiB/s";|' "$conf"
waits
reload 'mover.chunk changed; it takes a restart'
waits mover.chunk
random 40000000 slow
fmove put -q slow n2:s/slow 2>err &
moved slow 0
sleep 1
kill -0 $! 2>/dev/null && [ ! -e "$(store 2)/slow" ] || bad "the new rate limit is not kept"
cp before "$conf"
reload 'reloaded'
wait $! || bad "put: $(cat err)"
grep -q 'takes a restart' new && bad "what is as it was at the start takes no restart: $(cat new)"
waits
echo "staging = { directory = \"$node/cache\"; size = \"100MiB\"; };" >>"$conf"
reload 'staging.directory changed; it takes a restart'
waits staging.directory, staging.size
cp before "$conf"
reload 'reloaded'
waits

# What takes a restart is in use where it was at the start: no store is served there.
sed -i "s,^state_directory = .*,state_directory = \"$node/later\";,; s,^stores = (,& { name = \"u\"; directory = \"$node/state/jobs\"; }\,," "$conf"
reload "stores.directory: \"$node/state/jobs\" and the jobs of node.state_directory in $node/state must not be within each other; move one; that one is in use until fmoved is restarted; nothing is changed"
cp before "$conf"
reload 'reloaded'

# What is fmove-nvmed's is none of fmoved's business, unless it is a mistake.
echo 'nvme = { socket = "/tmp/nvmed.sock"; };' >>"$conf"
echo 'volumes = ( { name = "v"; subsystem = "disk1"; address = "10.0.0.9:4420"; } );' >>"$conf"
reload 'reloaded'
grep -qE 'nvme|volume|restart' new && bad "a change of volumes: $(cat new)"
sed -i 's/10.0.0.9:4420/10.0.0.9/' "$conf"
reload 'volumes.address: .*nothing is changed'
cp before "$conf"
reload 'reloaded'

# A peer gets another address: it is connected anew, and nobody is told that it was removed.
sed -i '/name = "n2"/s/key = /addresses = [ "127.0.0.1:1" ]; key = /' "$conf"
cmp -s before "$conf" && bad "the test changed no address: $(grep n2 "$conf")"
reload 'n2: .*its entry in the configuration changed'
grep -q 'removed' new && bad "a changed address is called removed: $(cat new)"
peers 1
cp before "$conf"
reload 'reloaded'
peers 1

# A peer is revoked, its connection ends, it gets nothing; and it may come back.
sed -i '/name = "n2"/d' "$conf"
reload 'peer "n2" is gone'
peers 0
no 1 'n2' fmove put f n2:s/g
use 2
no 6 'key is not known there' fmove put --timeout ${HANG_S}s f n1:s/g
use 1
cp before "$conf"
reload 'reloaded'
peers 1
ok fmove put f n2:s/g
same f "$(store 2)/g"

# A key that is in no entry any more is revoked, though its peer cannot get its new one before another
# peer, which comes later, has let go of that.
for i in a b; do
	ok fmove keygen "$i.key"
	grep -o '[A-Za-z0-9+/]\{43\}=' out >"$i.pub" || bad "keygen says no key: $(cat out)"
done
sed -i "/name = \"n2\"/s,\$,\,\n { name = \"zz\"; key = \"$(cat a.pub)\"; }," "$conf"
reload 'reloaded'
sed -i "/name = \"n2\"/s,key = \"[^\"]*\",key = \"$(cat a.pub)\",; /name = \"zz\"/s,key = \"[^\"]*\",key = \"$(cat b.pub)\"," "$conf"
reload 'reloaded'
grep -q 'has the key of peer' new && bad "a key that was handed round is refused: $(cat new)"
nobody_is_connected() {
	fmove status --json >out && ! grep -q '"connected":true' out
}
await nobody_is_connected || bad "a key that is in no entry is let in: $(cat out)"
use 2
no 6 'key is not known there; fmove invite' fmove put --timeout ${HANG_S}s f n1:s/h
use 1
cp before "$conf"
reload 'reloaded'
peers 1

# The same from peers.d, with a file per peer.
sed -n 's/.*{ name = "n2"; \(.*\) }.*/name = "n2"; \1/p' before >n2.conf
sed -i '/name = "n2"/d' "$conf"
mkdir "$node/peers.d" && cp n2.conf "$node/peers.d/n2.conf"
reload 'reloaded'
peers 1
rm "$node/peers.d/n2.conf"
reload 'peer "n2" is gone'
peers 0

# Who is removed is shut out though another file, or the configuration, has a mistake: the log and the status say both, and the
# rest stays as it was. A file that cannot be read is there; who comes back stays out until the mistake is mended.
shut_out() {
	now=$(date +%s)
	cp n2.conf "$node/peers.d/n2.conf"
	reload 'reloaded'
	peers 1
	running "$now"
}
removed=' without the peers that were removed: n2'
shut_out
echo nonsense >"$node/peers.d/n3.conf"
reload 'n3.conf.*nothing is changed$'
peers 1
mistaken 'n3.conf'
grep -q 'without' out && bad "nobody was removed: $(cat out)"
rm "$node/peers.d/n2.conf"
reload 'n3.conf.*nothing is changed but that these peers were removed: n2$'
grep -q 'peer "n2" is gone' new || bad "the log does not say who is gone: $(cat new)"
fmove status --json >out
grep -q '"config_removed":"n2"' out && grep -q '"config_mistake":"[^"]*n3.conf' out || bad "the status does not say both: $(cat out)"
fmove status >out
grep -q "^config .*n3.conf.*$removed\$" out || bad "the status does not say both: $(cat out)"
peers 0
use 2
no 6 'key is not known there' fmove put --timeout ${HANG_S}s f n1:s/i
use 1
echo nonsense >"$node/peers.d/n2.conf"
reload 'n2.conf.*nothing is changed but'
peers 0
rm "$node/peers.d/n3.conf"
shut_out
fmove status >out
grep -q 'mistake' out && bad "a mistake that was mended: $(cat out)"

# More names than there is room for: whole ones, and how many more.
long=$(printf 'x%.0s' $(seq 50))
for i in $(seq -w 20); do
	fmove keygen "k$i" >pub 2>err || bad "keygen: $(cat err)"
	echo "name = \"p$i$long\"; key = \"$(cat pub)\";" >"$node/peers.d/p$i$long.conf"
done
reload 'reloaded'
echo nonsense >"$node/peers.d/n3.conf"
rm "$node"/peers.d/p*.conf
reload 'nothing is changed but that these peers were removed: '
peers 1
fmove status --json >out
list=$(grep -o '"config_removed":"[^"]*' out | cut -d'"' -f4)
[[ $list =~ ^(p[0-9]{2}x{50},\ )+p[0-9]{2}x{50}\ and\ ([0-9]+)\ more$ ]] || bad "twenty removed: $(cat out)"
[ $(($(grep -o 'p[0-9]' <<<"$list" | wc -l) + ${BASH_REMATCH[2]:-0})) = 20 ] || bad "they are not twenty: $(cat out)"
rm "$node/peers.d/n3.conf"
reload 'reloaded'
echo nonsense >>"$conf"
rm "$node/peers.d/n2.conf"
reload 'syntax error.*nothing is changed but that these peers were removed: n2$'
peers 0
cp before "$conf"
sed -i '/name = "n2"/d' "$conf"
shut_out
echo nonsense >"$node/peers.d/n2.conf"
reload 'n2.conf.*nothing is changed$'
peers 1

# A reload serves what is at a store's path now also where a look of before it does not come back until later.
cp before "$conf"
sed -i "s,^stores = (,& { name = \"t\"; directory = \"$node/t\"; }\,," "$conf"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
rm -rf "$node/former" "$node/peers.d/n2.conf"
FMOVE_FAULT=follow.look:1+4 start_again n1
for ((i = 0; i < 100; i++)); do		# one that is missed by then was no slow one: all is the same without it
	grep -qsx fm-open "/proc/$(cat "$node/pid")"/task/*/comm && break
	sleep 0.1
done
lines=$(wc -l <"$node/log")
mv "$node/t" "$node/former" && mkdir "$node/t"
kill -HUP "$(cat "$node/pid")"
logged 'store "t": what is at .*/t now is served;'
