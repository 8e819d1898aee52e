#!/bin/bash
# Goal:   stores and a cache whose file system does not answer keep a daemon neither from starting nor from serving its other stores. It says
#         which ones they are, in its log and to who asks, and opens the stores when they answer. They cost a few threads, however many there are.
# Method: a node with twenty stores and its cache on a file system that stops answering before the start (hang_fs, FUSE). It answers later
#         (SIGUSR2), and another time it fails.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/hung_store_lib.sh"
mkdir "$hung/a"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "10MiB"; peers = [ "*" ]; };'
up 2
trap 'status=$?; end_fs; umount -l dead/* under 2>/dev/null; (exit $status); down' EXIT
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
stores=
for i in {1..19} ''; do
	stores+="{ name = \"hung$i\"; directory = \"$hung/a\"; read = [ \"*\" ]; write = [ \"*\" ]; }, "
done
conf=$(<"$dir/c/n2/fmove.conf")
echo "$conf" >plain
echo "${conf/"$dir/c/n2/cache"/"$hung/cache"}" >no_store_hangs
echo "${conf/stores = ( \{/stores = ( $stores\{}" >"$dir/c/n2/fmove.conf"
cp "$dir/c/n2/fmove.conf" without
conf=$(<without)
echo "${conf/"$dir/c/n2/cache"/"$hung/cache"}" >"$dir/c/n2/fmove.conf"
log=$dir/c/n2/log
# Six more mounts of it (root only), whose stores come first: no number of them keeps another store out.
for i in {1..6}; do
	mkdir -p dead/$i
	mount --bind "$hung/a" dead/$i 2>/dev/null || break
	conf=$(<"$dir/c/n2/fmove.conf")
	echo "${conf/stores = ( /"stores = ( { name = \"dead$i\"; directory = \"$PWD/dead/$i\"; }, "}" >"$dir/c/n2/fmove.conf"
done
kill -USR1 "$fs_pid"

# It starts, and serves what answers.
start_again n2
reachable 2
is_logged 'store "hung": the file system of .* does not answer; the store is there when it does' "$log" || bad "not told: $(tail -n 3 "$log")"
random 100000 file
ok fmove put --quiet file n2:s/file
ok fmove get --quiet n2:s/file back
same file back
no 4 'store hung: its file system has not answered for' fmove put --quiet file n2:hung/file
no 4 'store hung: its file system has not answered for' fmove df n2:hung
tells_both() {
	fmove "$@" --json >out &&
		grep -q '"store":"hung"[^}]*"free":null[^}]*"silent_ms":[0-9]' out && grep -q '"store":"s"[^}]*"free":[0-9][^}]*"silent_ms":null' out
}
await tells_both df n2 || bad "df: $(cat out)"
await tells_both --socket "$dir/c/n2/fmoved.sock" status || bad "status: $(cat out)"
ok fmove --socket "$dir/c/n2/fmoved.sock" status
grep -q '^hung .* its file system has not answered for' out || bad "status does not say so: $(cat out)"
[ "$(cat "/proc/$(cat "$dir/c/n2/pid")"/task/*/wchan | grep -ao 'request_wait_answer' | wc -l)" -le 9 ] || bad "it costs more than a few threads"

is_logged "staging: cache $hung/cache: its file system does not answer" "$log" || bad "not told of the cache: $(tail -n 3 "$log")"
no 1 'its file system does not answer' fmove --socket "$dir/c/n2/fmoved.sock" stage n2:s/file

# It answers again.
kill -USR2 "$fs_pid"
await fmove put --quiet -f file n2:hung/file || bad "it is not opened: $(tail -n 3 "$log")"
ok fmove put --quiet -f file n2:hung19/file19
same file "$hung/a/file"
is_logged 'store "hung": the file system of .* answers now' "$log" || bad "not told: $(tail -n 3 "$log")"

# What was going to a directory when a reload met a path that leads where nothing answers is not done, once it is seen that this is elsewhere.
mkdir led_to
ln -s "$PWD/led_to" led
conf=$(<"$dir/c/n2/fmove.conf")
echo "${conf/stores = ( /"stores = ( { name = \"led\"; directory = \"$PWD/led\"; read = [ \"*\" ]; write = [ \"*\" ]; }, "}" >"$dir/c/n2/fmove.conf"
take_over 2
mkfifo more
exec {end}<>more
fmove put --quiet - n2:led/late <more >late.out 2>&1 {end}>&- &
writer=$!
is_logged 'put of n2:led for n1 begins: late$' "$log" || bad "it does not begin: $(cat late.out)"
echo data >&$end
ln -s "$hung/a" elsewhere	# while that answers, since ln asks it
kill -USR1 "$fs_pid"
mv -T elsewhere led
sed -i 's/{ name = "led";/& durability = "memory";/' "$dir/c/n2/fmove.conf"
take_over 2
no 4 'store led: its file system has not answered for' fmove df n2:led
kill -USR2 "$fs_pid"
await fmove put --quiet file n2:led/early || bad "it is not opened: $(tail -n 3 "$log")"
exec {end}>&-
wait $writer && bad "what went to the former directory is told done"
grep -q 'store led: its path leads to another directory' late.out || bad "it is not told why: $(cat late.out)"
[ ! -e led_to/late ] && same file "$hung/a/early" || bad "it went elsewhere"

# A reload that looks at a directory that hangs keeps a stop from nothing either, though no store does.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
cat no_store_hangs >"$dir/c/n2/fmove.conf"
kill -USR1 "$fs_pid"
start_again n2
reachable 2
take_over 2	# then it looks
kill -TERM "$(<"$dir/c/n2/pid")"
is_logged 'the file system of a store, or of another configured directory, .* does not answer: ending without it' "$log" || bad "it does not end: $(tail -n 3 "$log")"
kill -USR2 "$fs_pid"	# only now the kernel can end it
await test -s "$dir/c/n2/exit" || bad "it does not end"
[ "$(<"$dir/c/n2/exit")" = 0 ] || bad "it ended with $(<"$dir/c/n2/exit")"

# Who staged what is in it keeps the right to read the copy though nobody can be asked at the start, and loses it when the rules are known.
is_root() { [ "$(id -u)" -eq 0 ] && id nobody >/dev/null 2>&1; }
cat without >"$dir/c/n2/fmove.conf"
start_again n2
as_n2() { as_nobody env FMOVE_SOCKET="$dir/c/n2/fmoved.sock" "$@"; }
if is_root; then
	chmod 755 "$dir/c" "$dir/c/n1" "$dir/c/n2"
	mkdir "$hung/a/set"
	echo its >"$hung/a/set/f"
	await fmove ls n2:hung
	copy=$(as_n2 fmove stage hung/set 2>err)
	[ "$(as_nobody cat "$copy/f")" = its ] || bad "nobody staged it, and cannot read it: $(cat err)"
fi

# A reload while it hangs leaves it as it is, and a stop waits for nothing of it.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
conf=$(<without)
echo "${conf//'[ "*" ]; write'/'[ "user:root" ]; write'}" >"$dir/c/n2/fmove.conf"
kill -USR1 "$fs_pid"
start_again n2
reachable 2
if is_root; then
	upkeep_was() { [ -n "$(fmove --socket "$dir/c/n2/fmoved.sock" datasets)" ]; }
	await upkeep_was
	sleep 0.5
	[ "$(as_nobody cat "$copy/f")" = its ] || bad "he lost his right while nobody can be asked"
	no 1 'n1 may not read store "hung" of n2' as_nobody fmove pin --nodes n2 set
	kill -USR2 "$fs_pid"
	reads_not() { ! as_nobody cat "$copy/f" >/dev/null 2>&1; }
	await reads_not || bad "he reads what he may not, when that is known"
fi
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
kill -USR1 "$fs_pid"
cat without >"$dir/c/n2/fmove.conf"
start_again n2
reachable 2
echo "${conf/stores = ( /"stores = ( { name = \"new\"; directory = \"$hung/a\"; read = [ \"*\" ]; write = [ \"*\" ]; }, "}" >"$dir/c/n2/fmove.conf"
take_over 2	# also if there is one more, and waits for none
no 4 'store new: its file system has not answered for' fmove df n2:new
no 4 'store hung: its file system has not answered for' fmove df n2:hung
kill -TERM "$(<"$dir/c/n2/pid")"
is_logged 'the file system of a store, or the user database, does not answer: ending without it' "$log" || bad "it does not end: $(tail -n 3 "$log")"
kill -KILL "$fs_pid"	# only now the kernel can end it
await test -s "$dir/c/n2/exit" || bad "it does not end"
[ "$(<"$dir/c/n2/exit")" = 0 ] || bad "it ended with $(<"$dir/c/n2/exit")"

# It starts with one that fails, and says so.
start_again n2
reachable 2
has_failed() {
	fmove df n2 --json >out && grep -q '"store":"hung"[^}]*"free":null[^}]*"silent_ms":null[^}]*"code":"E[A-Z]*"' out
}
await has_failed || bad "not told that it fails: $(cat out)"
no 4 'store hung: open its directory: ' fmove df n2:hung
ok fmove put --quiet -f file n2:s/file

# A file system that does not answer is mounted over one that was opened just now, and not looked at yet (each once in 5 s, the fifth of them 2 s after the first):
# nothing goes beneath any more. It is known without asking it.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
mkdir under
stores=
for i in {1..4}; do stores+="{ name = \"null$i\"; directory = \"null:\"; }, "; done
conf=$(<plain)
echo "${conf/stores = ( /"stores = ( $stores{ name = \"under\"; directory = \"$PWD/under\"; read = [ \"*\" ]; write = [ \"*\" ]; }, "}" >"$dir/c/n2/fmove.conf"
start_again n2
"$FM_BUILD/bin/hang_fs" under 1 1000 "$(id -u)" >said 2>&1 &
fs_pid=$!
await grep -q mounted said || bad "no file system at $PWD/under: $(cat said)"
kill -USR1 $fs_pid
is_logged 'store "under" at .*: its path leads to another directory than the one that was open' "$log" || bad "not told: $(tail -n 3 "$log")"
reachable 2
no 1 'store under: its path leads to another directory' fmove put --quiet file n2:under/file
ok fmove put --quiet -f file n2:s/file
kill -KILL $fs_pid
umount -l under
await fmove put --quiet file n2:under/file || bad "it is not served again: $(tail -n 3 "$log")"
[ -s under/file ] || bad "it went elsewhere"

# One is unmounted while it is opened, at a start: that goes on, and what lies beneath is not served.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
mount -t tmpfs none under || exit
( FMOVE_FAULT=follow.way:1+2 start_again n2 ) &
starts=$!
is_logged '^fault: follow.way is late' "$log" || bad "it is not late: $(tail -n 3 "$log")"
umount -l under
wait $starts || bad "it does not start: $(tail -n 3 "$log")"
reachable 2
is_logged 'store "under" at .*: what was mounted at its path, or above it, is not mounted any more' "$log" || bad "not told: $(tail -n 3 "$log")"
no 1 'store under: what was mounted at its path' fmove put --quiet -f file n2:under/beneath
mount -t tmpfs none under
await fmove put --quiet file n2:under/there || bad "it is not served when it is mounted again: $(tail -n 3 "$log")"
[ -s under/there ] && [ ! -e under/beneath ] || bad "it went elsewhere"
exit
