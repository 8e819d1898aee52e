#!/bin/bash
# Goal:   who comes by a socket of one user has that user's rights, and nobody else's, also as root: as in a container.
# Method: root talks to the socket of nobody: owners of what is put, jobs of others, status; then reloads that take it away and bring another
#         one, and what no socket may be: root's, in somebody else's directory, behind a link.
. "$(dirname "$0")/lib.sh"
need_nobody
doors='sockets = ( { path = "@NODE@/doors/nobody.sock"; user = "nobody"; mode = "0600"; } );'
FM_CLUSTER_CONF=$doors FM_CLUSTER_STORE='owner = "caller";' up 2
own=$dir/c/n1/fmoved.sock
theirs=$dir/c/n1/doors/nobody.sock
conf=$dir/c/n1/fmove.conf
random 50000 file
random 20000000 large
[ "$(stat -c %a "$theirs")" = 600 ] || bad "the mode of the socket: $(stat -c %a "$theirs")"
fmove status --json | jq -e --arg p "$theirs" --argjson u "$(id -u nobody)" '.sockets == [{"path": $p, "uid": $u}]' >/dev/null ||
	bad "status: $(fmove status --json | jq -c .sockets)"
fmove status | grep -q "^socket  $theirs, of uid $(id -u nobody)$" || bad "status does not say the socket"

# ---- root is nobody there

# is_job STATE: $job, of nobody, is in that state.
is_job() {
	fmove --socket "$theirs" jobs --json | jq -e --arg j "$job" --arg s "$1" '.jobs[] | select(.job == $j) | .state == $s'
}

ok fmove put file n2:s/roots
ok fmove --socket "$theirs" put file n2:s/theirs
ok fmove --socket "$theirs" mkdir n2:s/made
owner() {
	stat -c %U "$(store 2)/$1"
}
[ "$(owner roots) $(owner theirs) $(owner made)" = "root nobody nobody" ] || bad "owners: $(owner roots) $(owner theirs) $(owner made)"
mkdir tree && cp file tree/ && chown daemon tree/file
ok fmove --socket "$theirs" put -r tree n2:s/tree
[ "$(owner tree/file)" = nobody ] || bad "a tree keeps owners as root's does: $(owner tree/file)"
job=$(fmove put --detach --limit 100kB/s large n2:s/slow) || bad "no job"
fmove --socket "$theirs" jobs --json >json
jq -e '.jobs == []' json >/dev/null || bad "root's job is nobody's to see: $(cat json)"
fmove --socket "$theirs" cancel "$job" 2>/dev/null && bad "root's job is nobody's to cancel"
ok fmove cancel "$job"
job=$(fmove --socket "$theirs" put --detach --limit 100kB/s large n2:s/slow) || bad "no job of his"
fmove jobs --json --all >json
grep -q "$job" json >/dev/null || bad "whose is it? $(cat json)"
ok fmove --socket "$theirs" cancel "$job"
await is_job cancelled || bad "it is not cancelled: $(fmove --socket "$theirs" jobs)"
no 6 'the rights of whose job it is' fmove resume "$job"
ok fmove --socket "$theirs" resume "$job" # with a file that root opens, as nobody is root in a container
ok fmove --socket "$theirs" cancel "$job"

# A fetch in the background that was killed: its part is his, too.
random 3000000 "$(store 2)/slow_get"
ok fmove --socket "$theirs" get --detach --limit 100kB/s n2:s/slow_get "$PWD/got"
job=$(<out)
await compgen -G "$PWD/.fmove.*" || bad "no part: $(ls -A)"
killed=0
for at in $(grep -Fxzl -- "$PWD/got" /proc/[0-9]*/cmdline 2>/dev/null); do # grep finds itself, too, and is gone by then
	at=${at%/cmdline}
	[ ! -e "$at" ] || { kill -KILL "${at#/proc/}" && killed=1; }
done
[ $killed = 1 ] || bad "nobody attends to $job"
await is_job paused || bad "it is not paused: $(fmove --socket "$theirs" jobs)"
ok fmove --socket "$theirs" cancel "$job"
no_partials "$PWD"

# ---- what is reloaded

# takes TEXT: n1 has these sockets from now on, or says why not.
takes() {
	sed -i '/^sockets = /d' "$conf"
	echo "$1" | sed "s|@NODE@|$dir/c/n1|g" >>"$conf"
	kill -HUP "$(cat "$dir/c/n1/pid")"
}

# mistake WORDS: the reload was refused, and says so.
mistake() {
	await sh -c "fmove --socket $own status --json | jq -e '.config_mistake // \"\" | test(\"$1\")'" || bad "no mistake $1: $(fmove status | grep config)"
}

fmove --socket "$theirs" put --limit 100kB/s large n2:s/open >out 2>err &
pid=$!
await sh -c "fmove --socket $own jobs --json | jq -e '.jobs | length > 0'" || bad "no put to interrupt"
takes ''
await test ! -e "$theirs" || bad "the socket stays"
wait $pid && bad "who came in by it goes on"
no 4 'no fmoved listens' fmove --socket "$theirs" ls n2:s
takes "${doors//nobody/daemon}"
await answers "$dir/c/n1/doors/daemon.sock" || bad "the other one is not there"
ok fmove --socket "$dir/c/n1/doors/daemon.sock" put file n2:s/daemons
[ "$(owner daemons)" = daemon ] || bad "not the daemon user's: $(owner daemons)"

# ---- what no socket may be

mkdir -m 777 "$dir/c/n1/open" && mkdir "$dir/c/n1/real" && ln -s real "$dir/c/n1/link"
takes 'sockets = ( { path = "@NODE@/doors/root.sock"; user = "root"; } );'
mistake 'not root'
takes 'sockets = ( { path = "@NODE@/open/nobody.sock"; user = "nobody"; } );'
mistake 'nobody else may write'
mkdir -p "$dir/c/n1/his/doors" && chown nobody "$dir/c/n1/his"
takes 'sockets = ( { path = "@NODE@/his/doors/nobody.sock"; user = "nobody"; } );'
mistake 'his must be root.s'
mkdir -m 777 "$dir/c/n1/all" && mkdir "$dir/c/n1/all/doors"
takes 'sockets = ( { path = "@NODE@/all/doors/nobody.sock"; user = "nobody"; } );'
mistake 'all must be root.s'
takes 'sockets = ( { path = "@NODE@/link/nobody.sock"; user = "nobody"; } );'
mistake 'no link may lead'
takes 'sockets = ( { path = "@NODE@/his/new/nobody.sock"; user = "nobody"; } );'
mistake 'his must be root.s'
takes 'sockets = ( { path = "@NODE@/link/new/nobody.sock"; user = "nobody"; } );'
mistake 'no link may lead'
takes 'sockets = ( { path = "@NODE@/fresh/nobody.sock"; user = "nobody"; }, { path = "@NODE@/all/new/nobody.sock"; user = "nobody"; } );'
mistake 'all must be root.s'
takes 'sockets = ( { path = "@NODE@/fmoved.sock"; user = "nobody"; } );'
mistake 'another socket'
takes 'sockets = ( { path = "@NODE@/doors/x.sock"; user = "fm-no-such"; } );'
mistake 'no user'
fmoved --check --config "$conf" >out 2>&1 && bad "--check takes an unknown user"
grep -q 'useradd fm-no-such' out || bad "--check does not say what to do: $(cat out)"
[ -S "$dir/c/n1/doors/daemon.sock" ] || bad "a mistake took the socket away"
[ -z "$(find "$dir/c/n1/open" "$dir/c/n1/real" "$dir/c/n1/his/doors" "$dir/c/n1/all/doors" -mindepth 1)" ] || bad "something was made"
for new in his/new all/new fresh; do
	[ ! -e "$dir/c/n1/$new" ] || bad "what was refused has made $new"
done
takes "$doors"
await test -S "$theirs" || bad "the first one does not come back"
