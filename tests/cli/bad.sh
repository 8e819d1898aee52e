#!/bin/bash
# Goal:   every bad input is answered by one clear line and the right exit status; nothing is lost; the daemons stay up.
# Method: all of them, one after another; alive() at the end.
. "$(dirname "$0")/lib.sh"
up 2
random 10000 f
ok fmove put f n2:s/there

# The command line.
no 2 'unknown command "pot", did you mean "put"' fmove pot
no 2 'unknown command "frobnicate"' fmove frobnicate
no 2 'unknown command "cat": fmove get NODE:STORE/PATH - ' fmove cat n2:s/x
no 2 'unknown command "rsync": fmove put sends, fmove get receives' fmove rsync f n2:s/x
no 2 'unknown option --bogus' fmove --bogus put
no 2 'unknown option --forse, did you mean --force' fmove put --forse f n2:s/x
no 2 'unknown option -x' fmove put -x f n2:s/x
no 2 'needs a value' fmove put f n2:s/x --limit
no 2 'takes no value' fmove put --force=yes f n2:s/x
no 2 'too few' fmove put f
no 2 'too few' fmove get n2:s/there
no 2 'NODE:STORE/PATH' fmove get n2:s/there a b
no 2 'auto, rdma or tcp' fmove put --transport pigeon f n2:s/x
no 2 'disk or memory' fmove put --durability stone f n2:s/x
no 2 'rate' fmove put --limit fast f n2:s/x
no 2 'say the unit' fmove put --limit 5 f n2:s/x
no 2 'time' fmove put --timeout never f n2:s/x
no 2 'NODE:STORE/PATH' fmove put f x
no 2 'NODE:STORE/PATH' fmove put f /etc/x
no 2 'NODE:STORE/PATH' fmove put f n2:/x
no 2 'NODE:STORE/PATH' fmove put f :s/x
no 2 'NODE:STORE/PATH' fmove ls nothing
no 2 'fmove ls n2:. lists the stores' fmove stat n2:
no 2 'fmove ls n2:. lists the stores' fmove get n2:/etc/x .
no 2 'to receive a file from there: fmove get' fmove put n2:s/there .
no 2 'to send a file there: fmove put' fmove get f n2:s/there
no 2 'is a directory: get -r' fmove get n2:s/ x
no 2 'number' fmove ls --max 0 n2:s
no 2 'number' fmove ls --max -3 n2:s

# Sources.
no 1 'nothing: No such file' fmove put nothing n2:s/x
no 2 'is a directory' fmove put . n2:s/x
no 2 'is a directory' fmove put / n2:s/x
no 1 'No such file' fmove put '' n2:s/x
no 1 'o such file' fmove get n2:s/nothing x
no 1 'nothing there matches' fmove get 'n2:s/*.bin' .
no 1 'nothing there matches' fmove get -r 'n2:s/run[1-9]' .
no 1 'directory' fmove get n2:s/there/below x
mkdir -p "$(store 2)/d"
no 2 'directory' fmove get n2:s/d x
[ -e x ] && bad "a get that failed left x"

# Targets.
no 6 'exists' fmove put f n2:s/there
same f "$(store 2)/there"
ok fmove put --force f n2:s/there
echo old >mine
no 6 'mine exists; --force' fmove get n2:s/there mine
[ "$(cat mine)" = old ] || bad "a file was replaced without --force"
ok fmove get --force n2:s/there mine
same f mine
no 1 'none' fmove get n2:s/there none/x
no 1 'No such file|is empty' fmove get n2:s/there ''
no 1 'not a regular file' fmove get --force n2:s/there /dev/null
no 1 'irectory' fmove put f n2:s/there/below

# Nodes and stores.
no 1 'n9 in the configuration.*fmove status' fmove put f n9:s/x
no 1 'n9 in the configuration.*fmove status' fmove ls n9:s
no 1 'no store x; fmove df n2 lists' fmove put f n2:x/f
no 1 'no store x; fmove df n2 lists' fmove ls n2:x
no 1 'no store x; fmove df n2 lists' fmove verify n2:x
no 1 'nostore' fmove put f n2:nostore/x
no 1 'nostore' fmove get n2:nostore/x x
no 1 'nostore' fmove ls n2:nostore

# Paths that leave the store: refused, and nothing outside is touched.
secret=$dir/secret
echo secret >"$secret"
mkdir "$dir/outside"
ln -s "$dir/outside" "$(store 2)/link"
ln -s "$secret" "$(store 2)/filelink"
for path in ../x ../../x d/../../x .. d/.. //etc/passwd /etc/passwd . ./x; do
	for verb in put get; do
		rm -f x
		case $verb in
		put) fmove put f "n2:s/$path" >out 2>err ;;
		get) fmove get "n2:s/$path" x >out 2>err ;;
		esac && bad "$verb n2:s/$path was done"
		[ "$(wc -l <err)" -eq 1 ] || bad "$verb n2:s/$path: $(cat err)"
	done
done
no 6 'store|outside|leaves' fmove put f n2:s/link/x
no 6 'store|outside|leaves|link' fmove get n2:s/filelink x
[ -z "$(ls -A "$dir/outside")" ] || bad "something was written outside of the store"
for path in .. / ''; do
	fmove rm -r "n2:s/$path" >out 2>err && bad "rm -r n2:s/$path was done"
done
[ -e "$(store 2)/there" ] || bad "rm -r removed the store"

# A daemon that is not there, a socket that is none of ours, one that we may not use.
no 4 'no fmoved listens at /nowhere; start it' fmove --socket /nowhere status
no 4 'no fmoved listens' fmove --socket "$dir/w/f" status
no 1 'longer than the 107 bytes' fmove --socket "/$(printf 'a%.0s' $(seq 200))" status
FMOVE_SOCKET=/nowhere no 4 'no fmoved listens at /nowhere' fmove put f n2:s/x

# Time.
random 20000000 big
no 4 'tim' timeout $HANG_S fmove put --timeout 500ms --limit 100kB/s big n2:s/big
[ -e "$(store 2)/big" ] && bad "a put that timed out was published"
idle
rm -f "$(store 2)"/.fmove.*		# what came may stay for the next try
no_useless_partials
