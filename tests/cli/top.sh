#!/bin/bash
# Goal:   fmove top shows rails, transfers, stores, volumes and the cache as they are, in terminals of any size and kind; a daemon that is
#         restarted or silent is said and holds nothing up; on each way out the terminal is as it was; nothing that a name says reaches it.
# Method: in tmux, with a server of this test's own. fmove-nvmed is one that takes connections and never answers.
. "$(dirname "$0")/lib.sh"
command -v tmux >/dev/null || skip "tmux is not installed"
command -v python3 >/dev/null || skip "needs python3"
up 2
random 300000000 big
dirty=$(printf 'a\033[2Jb\303\251')		# in UTF-8: aESC[2Jbé

tm() {
	tmux -S "$dir/tmux" -f /dev/null "$@"
}

# The window's own shell says what ended, and how the terminal is then.
# window COLUMNS LINES COMMAND: in a window of that size, in place of the one before.
window() {
	local line="trap : INT; $3; echo ended \$?; stty -a | grep -Eo '[^ ]*(icanon|echo) '; exec sleep 1000"

	tm has-session 2>/dev/null || SHELL=/bin/sh tm new-session -d "sleep 1000" || bad "tmux does not start"
	tm resize-window -x "$1" -y "$2"
	tm respawn-pane -k "$line"
}
seen() {
	tm capture-pane -p | tee screen | grep -Eq -- "$1"
}
shows() {
	await seen "$1" || bad "$2: no \"$1\" in: $(cat screen)"
}
on_first_screen() {
	[ "$(tm display-message -p '#{alternate_on}')" = 0 ]
}
# ended STATUS WHAT: it is over, and the terminal is a cooked one that echoes, on its first screen.
ended() {
	shows "^ended $1\$" "$2"
	shows '^icanon' "$2: the terminal"
	shows '^echo' "$2: the terminal"
	on_first_screen || bad "$2: still on the other screen"
}
top_pid() {
	pgrep -P "$(tm display-message -p '#{pane_pid}')" -x fmove
}

# ---- a picture as text ----

python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.bind(sys.argv[1]); s.listen(64); time.sleep(10000)' "$dir/silent" &
silent=$!
asides="$asides $silent"
await test -S "$dir/silent"
export FMOVE_NVMED_SOCKET=$dir/nobody
slow 1
fmove put -q big "n2:s/$dirty" 2>err &
put=$!
moved_any() {
	fmove status --json | grep -q '"state":"copying"'
}
await moved_any || bad "the put does not begin: $(cat err)"
ok fmove top --once
grep -q '^n1  out .*fmove [0-9]' out || bad "--once: no head: $(cat out)"
grep -Eq '^n2 (tcp|rdma) .* up ' out || bad "--once: no rail: $(cat out)"
grep -Eq '^put n2:s/a\\x1b\[2Jbé .* copying ' out || bad "--once: no transfer: $(cat out)"
grep -Eq '^s +[0-9.]+[kMGT]B ' out || bad "--once: no store: $(cat out)"
grep -q '^VOLUMES  none: fmove-nvmed does not run$' out || bad "--once: volumes: $(cat out)"
grep -q '^CACHE  none: this node stages nothing' out || bad "--once: no cache: $(cat out)"
[ "$(wc -L <out)" -le 80 ] || bad "--once is wider than 80: $(cat out)"
COLUMNS=30 fmove top --once >out
[ "$(wc -L <out)" -le 30 ] || bad "--once is wider than COLUMNS: $(cat out)"
LC_ALL=C fmove top --once >out
grep -qF 'a\x1b[2Jb\xc3\xa9' out || bad "--once without UTF-8: $(cat out)"
# Who has no answer is said, and all others are there.
FMOVE_NVMED_SOCKET=$dir/silent fmove top --once >out
grep -Eq '^VOLUMES  no answer for 0:0[0-9]$' out && grep -q '^STORES .*FREE' out || bad "a silent fmove-nvmed: $(cat out)"

# ---- no terminal, or one that is not enough ----

no 1 'no terminal; fmove top --once .*fmove status' fmove top
window 80 24 "TERM=dumb fmove top 2>&1"
shows 'moves no cursor; fmove top --once' "TERM=dumb"
ended 1 "TERM=dumb"
window 80 24 "TERM=no-such fmove top 2>&1"
shows 'TERM=no-such are not known' "an unknown TERM"
for delay in 0 99ms 2h x; do
	no 2 'delay' fmove top --delay $delay --once
done
no 4 'no fmoved listens' fmove --socket "$dir/nobody" top --once

# ---- live ----

# A locale without UTF-8: no byte that this terminal has another character for.
window 80 24 "LC_ALL=C fmove top --delay 200ms"
shows '^put n2:s/a.x1b\[2Jb.xc3.xa9 ' "without UTF-8"
window 80 24 "FMOVE_NVMED_SOCKET=$dir/silent fmove top --delay 200ms"
shows '^put n2:s/a.x1b\[2Jbé .*copying +[0-9]+% .*B/s' "live"
shows '^VOLUMES  no answer for 0:0' "a silent fmove-nvmed"
for size in "20 8" "200 50" "10 3" "1 1" "40 10"; do
	# shellcheck disable=SC2086
	set -- $size
	tm resize-window -x "$1" -y "$2"
	[ "$2" -lt 8 ] || shows '^STORES' "$size"
done
tm send-keys '?'
shows 'scroll' "the help"
tm send-keys 4
shows '^STORES' "only stores"
seen '^RAILS' && bad "only stores: $(cat screen)"
tm send-keys 4
shows '^RAILS' "all again"
tm resize-window -x 40 -y 6
# What a key sends may be cut in two where the machine is busy, and is another key then: it is pressed again.
scrolled() {
	tm send-keys "$1"
	seen "$2"
}
await scrolled Down '^STORES' || bad "scrolled: $(cat screen)"
await scrolled Home '^RAILS' || bad "back again: $(cat screen)"
tm send-keys s
tm resize-window -x 80 -y 24

crash n2
shows '^n2  not connected for' "a peer that is gone"
crash n1
shows '^fmoved does not answer, asked again every 0.2 s' "a daemon that is gone"
wait $put
no_longer_slow 1
start_again n1
shows '^n1 .*fmoved was restarted' "a daemon that is there again"
shows '^n2  not connected for' "what it knows then"
tm send-keys q
ended 0 q

# ---- other ways out ----

window 80 24 "fmove top"
shows '^RAILS' "before Ctrl-C"
tm send-keys C-c
ended 130 Ctrl-C
for signal in TERM QUIT; do
	window 80 24 "fmove top"
	shows '^RAILS' "before SIG$signal"
	kill -$signal "$(top_pid)"
	ended 130 "SIG$signal"
done
# Ctrl-Z, as a shell with jobs has it.
window 80 24 "true"
tm respawn-pane -k "bash --norc -i"
tm send-keys "fmove top" Enter
shows '^RAILS' "from a shell"
tm send-keys C-z
shows 'Stopped' "Ctrl-Z"
tm send-keys "stty -a | grep -Eo '[^ ]*(icanon|echo) '" Enter
shows '^icanon' "the terminal behind Ctrl-Z"
tm send-keys "clear; fg" Enter
shows '^RAILS' "fg"
tm send-keys q
await on_first_screen || bad "q behind fg"
# The terminal goes away: so does fmove.
window 80 24 "exec fmove top"
shows '^RAILS' "before the terminal goes away"
pid=$(tm display-message -p '#{pane_pid}')
tm respawn-pane -k "sleep 1000"
gone() {
	! kill -0 "$pid"
}
await gone || bad "it goes on without its terminal"

# ---- colours ----

# What is wrong is red where there are colours; without them it stands out.
window 80 24 "TERM=screen-256color fmove top --delay 200ms"
shows 'not connected' "a peer that is gone"
tm capture-pane -pe | grep -q "$(printf '\033')\[.*31m.*n2  not connected" || bad "no red: $(tm capture-pane -pe | cat -v)"
for plain in "NO_COLOR=1 TERM=screen-256color" "TERM=vt100"; do
	window 80 24 "$plain fmove top --delay 200ms"
	shows 'not connected' "$plain"
	tm capture-pane -pe | grep -Eq "$(printf '\033')\[([0-9]+;)*3[0-7]m" && bad "$plain: a colour: $(tm capture-pane -pe | cat -v)"
	tm capture-pane -pe | grep -Eq "$(printf '\033')\[(0;)?7m.*n2  not connected" || bad "$plain: it does not stand out: $(tm capture-pane -pe | cat -v)"
done
tm kill-server
start_again n2
kill $silent
asides=${asides% "$silent"}
