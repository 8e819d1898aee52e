#!/bin/bash
# Goal:   two commands make two nodes that know each other: init here, the line it prints there. A token works once, for its node only.
# Method: init and join into directories of their own, daemons with what they wrote; then everything that can be wrong.
. "$(dirname "$0")/lib.sh"
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cli.XXXXXX") || exit 1
mkdir "$dir/w" "$dir/c"
cd "$dir/w" || exit 1
pids=
trap 'for p in $pids; do kill $p 2>/dev/null; done; down' EXIT

own_ports

# serve NAME: a daemon for $dir/c/NAME, at the loopback address only.
serve() {
	sed -i 's/\[::\]/127.0.0.1/' "$dir/c/$1/fmove.conf"
	use_little "$dir/c/$1/fmove.conf"
	fmoved --config "$dir/c/$1/fmove.conf" 2>>"$dir/c/$1/log" &
	eval "pid_$1=$!"
	pids="$pids $!"
	await answers "$dir/c/$1/fmoved.sock" || bad "$1 does not start: $(cat "$dir/c/$1/log")"
}

# connected NAME N: it has N connected peers, within a while.
connected() {
	await has_connected "$1" "$2" || bad "$1 has not $2 connected peers"
}

has_connected() {
	[ "$(fmove --socket "$dir/c/$1/fmoved.sock" status --json | grep -o '"connected":true' | wc -l)" -eq "$2" ]
}

# line N: the operands of the join line that was printed last.
line() {
	cut -d ' ' -f $((2 + $1)) out
}

ok fmove init --dir "$dir/c/a" --node a --address "127.0.0.1:$ports_from"
[ "$(wc -l <out)" -eq 1 ] || bad "init prints more than the one line: $(cat out)"
address=$(line 1) token=$(line 2)
no 6 'is there already, and nothing is overwritten' fmove init --dir "$dir/c/a" --node a
[ "$(stat -c %a "$dir/c/a/node.key")" = 400 ] || bad "the key's mode"
ok fmove config check "$dir/c/a/fmove.conf"

# Nobody listens yet; nothing is left of the attempt.
no 4 'refused' fmove join --dir "$dir/c/b" --node b "$address" "$token"
[ -e "$dir/c/b/fmove.conf" ] && bad "a join that failed left its configuration"
serve a

# Ctrl-C before it was asked: the token is good, and nothing is left.
kill -STOP "$pid_a"
env --default-signal=INT fmove join --dir "$dir/c/b" --node b "$address" "$token" >out 2>err &
pid=$!
await test -e "$dir/c/b/fmove.conf" || bad "join does not begin: $(cat err)"
kill -INT $pid
wait $pid
[ $? -eq 130 ] && grep -q 'join: .*cancelled' err || bad "join, cut off by a signal: $(cat err)"
[ -e "$dir/c/b" ] && bad "a join that was cut off left $(ls -A "$dir/c/b")"
kill -CONT "$pid_a"

# Wrong things, none of which uses the token up.
no 2 'not whole' fmove join --dir "$dir/c/b" "$address" "${token%?}"
no 2 'not whole' fmove join --dir "$dir/c/b" "$address" ''
no 2 'HOST:PORT' fmove join --dir "$dir/c/b" localhost "$token"
no 2 'token is missing' fmove join --dir "$dir/c/b" "$address"
printf '%s\n' "${token%?}" > cut
no 2 'not whole' fmove join --dir "$dir/c/b" --token-file cut "$address"
no 2 'No such file' fmove join --dir "$dir/c/b" --token-file nowhere "$address"
no 2 'leave out' fmove join --dir "$dir/c/b" --token-file cut "$address" "$token"
no 2 'NAME=DIRECTORY' fmove join --dir "$dir/c/b" --store x "$address" "$token"
no 1 'node.name' fmove join --dir "$dir/c/b" --node 'b c' "$address" "$token"
no 6 'taken by this node itself' fmove join --dir "$dir/c/b" --node a "$address" "$token"
guess=$(printf 'AAAAAAAAAAAAAAAAAAAA%s' "$(echo "$token" | cut -c 21-)")
no 6 'wrong, or was used already' fmove join --dir "$dir/c/b" --node b "$address" "$guess"
other=A
[ "${token:59:1}" != A ] || other=B
no 6 'has not the key that the token says' fmove join --dir "$dir/c/b" --node b "$address" "${token:0:59}$other${token:60}"
[ -e "$dir/c/b/node.key" ] && bad "a join that was refused left its key"

# It joins, once; both know each other, and one can send to the other.
ok fmove join --dir "$dir/c/b" --node b --address "127.0.0.1:$((ports_from + 1))" --store "s=$dir/c/b/files" "$address" "$token"
[ -e "$dir/c/a/peers.d/b.conf" ] && [ -e "$dir/c/b/peers.d/a.conf" ] || bad "a peer is not written down"
cp err joined
grep -q 'If there are more nodes, they do not know b yet' err || bad "of two nodes it says: $(cat err)"
no 6 'used already|no invitation is open' fmove join --dir "$dir/c/x" --node x "$address" "$token"
[ -z "$(ls "$dir/c/a/invites")" ] || bad "a used token left something"
serve b
connected a 1
connected b 1
line=$(sed -n 's/^fmove: When fmoved runs, this lists the stores of a: //p' joined)
ok sh -c "$line" || bad "the line that join ends with: $line"
random 100000 f
ok fmove --socket "$dir/c/a/fmoved.sock" put --retry "${HANG_S}s" f b:s/f
same f "$dir/c/b/files/f"

# A third one, by an invitation, while the daemons run; a name that is taken costs no token.
ok fmove invite --dir "$dir/c/a"
token=$(line 2)
no 6 'taken by another node' fmove join --dir "$dir/c/c" --node b "$address" "$token"
printf ' %s\r\n' "$token" > token		# as it may come out of a mail
ok fmove join --dir "$dir/c/c" --node c --address "127.0.0.1:$((ports_from + 2))" --token-file token "$address"
serve c
connected a 2
ok fmove invite --dir "$dir/c/b"
echo "fmove join $(line 1) $(line 2)" > token	# the line as it is printed
ok fmove join --dir "$dir/c/c" --token-file - "$(line 1)" < token
line=$(sed -n 's/^fmove: Let the daemon read that: //p' err)
[ "$line" = "kill -HUP $pid_c" ] || bad "join does not say how the daemon hears of it: $(cat err)"
$line
connected b 2
connected c 2
no 6 'is there already' fmove join --dir "$dir/c/c" --node other "$address" "$token"

# What fails behind the other node's word leaves what was written, and the line says how to go on: the same with a new token.
ok fmove invite --dir "$dir/c/a"
token=$(line 2)
again=(fmove join --dir "$dir/c/k" --node k --address "127.0.0.1:$((ports_from + 3))" --store "s=$dir/c/k/files" "$address")
FMOVE_FAULT=config.write:2 "${again[@]}" "$token" >/dev/null 2>err
if [ $? -ne 0 ]; then		# else this build has no faults
	grep -q 'a took this node as a peer.*what was written stays.*say the same again, with the token of a new fmove invite' err ||
		bad "taken there, and not written down here: $(cat err)"
	[ -e "$dir/c/a/peers.d/k.conf" ] && [ -e "$dir/c/k/node.key" ] && [ ! -e "$dir/c/k/peers.d/a.conf" ] || bad "what stays: $(find "$dir/c/k")"
	no 6 'used already|no invitation is open' "${again[@]}" "$token"
	for option in --node=l --address=127.0.0.1:1 "--store=s=$dir/w" "--store=t=$dir/c/k/files" --user=nobody; do
		no 6 "does not say what ${option%%=*} does: change it there" fmove join --dir "$dir/c/k" "$option" "$address" "$token"
	done
	echo 'bench = true;' >>"$dir/c/a/peers.d/k.conf"
	ok fmove invite --dir "$dir/c/a"
	ok "${again[@]}" "$(line 2)"
	[ -e "$dir/c/k/peers.d/a.conf" ] || bad "the same again: $(cat err)"
	# What a person said of a peer stays when it joins again, on both sides.
	echo 'bench = true;' >>"$dir/c/k/peers.d/a.conf"
	ok fmove invite --dir "$dir/c/a"
	ok "${again[@]}" "$(line 2)"
	[ "$(cat "$dir/c/a/peers.d/k.conf" "$dir/c/k/peers.d/a.conf" | grep -c 'bench = true')" = 2 ] ||
		bad "who may measure is forgotten: $(cat "$dir/c/a/peers.d/k.conf" "$dir/c/k/peers.d/a.conf")"
fi

# The word of the other node is lost: it ends when the token is used, before it says so. Nobody can tell, all stays, and the same goes on.
ok fmove init --dir "$dir/c/z" --node z --address "127.0.0.1:$((ports_from + 4))"
cut -d ' ' -f 3- out >token
FMOVE_FAULT=invite.sync:1+2 serve z
is_used() {
	[ -z "$(ls "$dir/c/z/invites")" ]
}
again=(fmove join --dir "$dir/c/m" --node m --store "s=$dir/c/m/files" --token-file token "127.0.0.1:$((ports_from + 4))")
"${again[@]}" >/dev/null 2>err &
joining=$!
await is_used || bad "nobody uses the token: $(cat err "$dir/c/z/log")"
kill -KILL "$pid_z"
wait "$pid_z" 2>/dev/null
if ! wait $joining; then	# else it was too fast, or this build has no faults
	grep -q 'nobody can tell whether it took this node, and what was written here stays; say the same again, with the token of a new fmove invite' err ||
		bad "the word is lost: $(cat err)"
	[ -e "$dir/c/m/node.key" ] && [ -e "$dir/c/m/fmove.conf" ] || bad "the word is lost, and what was written, too: $(find "$dir/c/m")"
	serve z
	ok fmove invite --dir "$dir/c/z"
	cut -d ' ' -f 3- out >token
	ok "${again[@]}"
	[ -e "$dir/c/m/peers.d/z.conf" ] && [ -e "$dir/c/z/peers.d/m.conf" ] || bad "the same with a new token: $(cat err)"
	kill "$pid_z" && wait "$pid_z" || bad "z does not end well: $(tail -n 3 "$dir/c/z/log")"
fi

# What is told must not make the configuration one that no daemon starts with: b stands in the file
# that a person wrote, or b is known under another name.
cp -r "$dir/c/c" "$dir/c/hand"
{ echo 'peers = ( {'; cat "$dir/c/hand/peers.d/b.conf"; echo '} );'; } >>"$dir/c/hand/fmove.conf"
rm "$dir/c/hand/peers.d/b.conf"
cp -r "$dir/c/c" "$dir/c/old"
sed -i 's/^name = "b"/name = "bb"/' "$dir/c/old/peers.d/b.conf"
mv "$dir/c/old/peers.d/b.conf" "$dir/c/old/peers.d/bb.conf"
for name in hand old; do
	ok fmove config check "$dir/c/$name/fmove.conf"
	ok fmove invite --dir "$dir/c/b"
	no 1 '"b".*(there already.*remove one|have the same key)' fmove join --dir "$dir/c/$name" "$(line 1)" "$(line 2)"
	ok fmove config check "$dir/c/$name/fmove.conf"
done

# A copy of a machine has its key: what goes to the one would come to the other.
cp -r "$dir/c/a" "$dir/c/copy"
rm -r "$dir/c/copy/peers.d"
sed -i 's/name = "a"/name = "copy"/' "$dir/c/copy/fmove.conf"
ok fmove invite --dir "$dir/c/a"
no 6 'has the key of this one' fmove join --dir "$dir/c/copy" "$address" "$(line 2)"
[ ! -e "$dir/c/a/peers.d/copy.conf" ] || bad "a copy is a peer"
sed 's/name = "b"/name = "own"/; s,key = .*,key = "'"$(fmove keygen --show "$dir/c/a/node.key")"'";,' "$dir/c/a/peers.d/b.conf" >"$dir/c/a/peers.d/own.conf"
kill -HUP "$pid_a"
await grep -q 'peer own has the key of this node' "$dir/c/a/log" || bad "a peer with the node's own key is taken: $(tail -n 3 "$dir/c/a/log")"
rm "$dir/c/a/peers.d/own.conf"
kill -HUP "$pid_a"

# The configuration's directory is another one of that name, or behind a link that leads elsewhere: who is invited there gets in.
get_in() {
	ok fmove invite --dir "$dir/c/b"
	await fmove join --dir "$dir/c/c" "$(line 1)" "$(line 2)" || bad "who is invited by a directory of the same name is not let in: $(tail -n 3 "$dir/c/b.1/log")"
}
mv "$dir/c/b" "$dir/c/b.1"
cp -a "$dir/c/b.1" "$dir/c/b"
get_in
mv "$dir/c/b" "$dir/c/b.2"
ln -s b.1 "$dir/c/b"
get_in
ln -sfn b.2 "$dir/c/b"
reloads() {
	grep -c ': reloaded ' "$dir/c/b.1/log"
}
before=$(reloads)
is_reloaded() {
	[ "$(reloads)" -gt "$before" ]
}
kill -HUP "$pid_b"
await is_reloaded || bad "b does not reload: $(tail -n 3 "$dir/c/b.1/log")"
get_in

# Too late.
ok fmove invite --dir "$dir/c/a"
token=$(line 2)
sed -i "s/ [0-9]* / 1 /" "$dir"/c/a/invites/*
no 6 'too old|no invitation is open' fmove join --dir "$dir/c/d" --node d "$address" "$token"

# A guesser keeps nobody out, and does not fill the log: of more than 20 guesses in a minute some are
# no line there. (A line is written before its guess is answered.) A slow machine takes more of them.
ok fmove invite --dir "$dir/c/a"
token=$(line 2)
lines_of_refused() {
	grep -c 'join: .*refused' "$dir/c/a/log"
}
before=$(lines_of_refused)
for ((guesses = 0; guesses < 25 || (guesses < 250 && $(lines_of_refused) == before + guesses); guesses++)); do
	no 6 'wrong, or was used already' fmove join --dir "$dir/c/d" --node d "$address" "$guess"
done
[ "$(lines_of_refused)" -lt $((before + guesses)) ] || bad "each of $guesses guesses is a line in the log"
ok fmove join --dir "$dir/c/d" --node d "$address" "$token"

# Without an invitation a stranger is not listened to.
no 6 'no invitation is open' fmove join --dir "$dir/c/e" --node e "$address" "$guess"

for name in a b c; do
	eval "pid=\$pid_$name"
	kill "$pid" && wait "$pid" || bad "$name does not end well: $(tail -n 3 "$dir/c/$name/log")"
	grep -E 'Sanitizer|runtime error' "$dir/c/$name/log" && bad "$name: a sanitizer complains"
done
pids=
