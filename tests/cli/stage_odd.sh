#!/bin/bash
# Goal:   odd sources and odd caches are staged as they are, or refused with one clear line, at once.
# Method: real daemons. Names that differ in case only; nothing in a directory; files without bytes; one sparse file of 2 TiB;
#         the longest path that may be moved, and one byte more.
#         A source that is damaged, and right again later with its old time; a copy that its disk does not give back.
#         A cache that two daemons are to use; one in memory. More requests at once than there are places for;
#         FM_REQUESTS=N: so many.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "100MiB"; grace = "0s"; };'
up 2
from=$(store 2)

# whole NAME: it comes as it is.
whole() {
	data=$(fmove stage "n2:s/$1" 2>err) || bad "$1: $(cat err)"
	diff -r --no-dereference "$from/$1" "$data" || bad "$1 differs"
}

mkdir -p "$from/case/Dir" "$from/case/dir" "$from/empty/d/e" "$from/without"
echo upper >"$from/case/Name"
echo lower >"$from/case/name"
echo upper >"$from/case/Dir/f"
echo lower >"$from/case/dir/f"
: >"$from/without/a"
: >"$from/without/b"
mkdir "$from/nothing"
for name in case empty without nothing; do whole $name; done

mkdir "$from/sparse"
if truncate -s 2T "$from/sparse/f" 2>/dev/null; then
	no 1 'has no room' fmove stage n2:s/sparse
	no 1 'has no room' fmove stage n2:s/sparse/f
	[ "$(wc -l <err)" -le 2 ] || bad "more than a line: $(cat err)"
	fmove datasets | grep sparse && bad "something of it is there"
fi

d=$(printf '%255s' '')
d=${d// /d}
mkdir "$from/long"
(cd "$from/long" && for i in {1..15}; do mkdir "$d" && cd "$d" || exit; done && mkdir "${d:2}" && cd "${d:2}" && echo deep >f) || bad "no long path"
ok fmove stage n2:s/long -- true
ok fmove datasets check long
ok fmove unstage long
fmove datasets | grep long && bad "what has a long path stays"
(cd "$from/long" && for i in {1..15}; do cd "$d" || exit; done && echo longer >"${d:2}/ff") || bad "no longer path"
no 1 'paths of 4095 can be moved' fmove stage n2:s/long
rm -r "$from/long"

# Another daemon with the same cache: it serves, and says who uses it; nothing of it changes.
sed "/listen/s|:[0-9]*\"|:0\"|; s|/n1/state|/n1/other|; s|/fmoved.sock|/other.sock|" "$dir/c/n1/fmove.conf" >other.conf
fmoved --config other.conf 2>log &
other=$!
await fmove --socket "$dir/c/n1/other.sock" ls n1:s >/dev/null || bad "it does not serve without its cache: $(cat log)"
fmove --socket "$dir/c/n1/other.sock" datasets 2>err && bad "two daemons use one cache"
grep -q 'another daemon uses it' err || bad "who asks hears: $(cat err)"
kill $other
wait $other || bad "it ends with $?"
whole case

# In memory: it is used, and said.
if [ "$(stat -f -c %T /dev/shm)" = tmpfs ]; then
	shm=$(mktemp -d /dev/shm/fm-odd.XXXXXX)
	sed "s|directory = \"$dir/c/n1/cache\"|directory = \"$shm\"|" other.conf >shm.conf
	fmoved --config shm.conf 2>log &
	other=$!
	await fmove --socket "$dir/c/n1/other.sock" datasets >/dev/null || bad "a cache in memory is not used: $(cat log)"
	is_logged "warning: cache $shm lies in memory" log || bad "it does not say that it lies in memory: $(cat log)"
	kill $other
	wait $other || bad "it ends with $?"
	rm -r "$shm"
fi
grep 'lies in memory' "$dir/c/n1/log" && [ "$(stat -f -c %T "$dir")" != tmpfs ] && bad "a cache on a disk lies in memory"

# A source that its daemon may not read in part: nothing of it is here then, and the line says what cannot be read. Root may read all, unless it
# starts without that right.
if [ "$(id -u)" -eq 0 ] && setpriv --bounding-set -dac_override,-dac_read_search true 2>/dev/null; then
	mkdir -p "$from/part/d" "$from/shut/d"
	echo seen >"$from/part/seen"
	echo hidden >"$from/part/d/hidden"
	echo hidden >"$from/shut/d/f"
	chown -h nobody "$from/part/d/hidden" "$from/shut/d"
	chmod 0 "$from/part/d/hidden" "$from/shut/d"
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
	setpriv --bounding-set -dac_override,-dac_read_search "$FM_SOURCE/tests/cluster" start "$dir/c" n2 || bad "n2 does not start"
	reachable 2
	no 6 'cannot read "d/hidden": permission denied' fmove stage n2:s/part
	no 6 'cannot read "d": permission denied' fmove stage n2:s/shut
	fmove datasets --json | grep -oE '"name":"(part|shut)","state":"ready"' && bad "half of a source is ready"
	chmod 644 "$from/part/d/hidden"
	whole part
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
	start_again n2
	reachable 2
fi

# A cache on a disk that is mounted read-only, as one that fails is: the daemon serves, and says so.
mkdir shut && mount -t tmpfs none shut 2>/dev/null && {
	mkdir shut/cache
	mount -o remount,ro shut
	sed "s|directory = \"$dir/c/n1/cache\"|directory = \"$PWD/shut/cache\"|" other.conf >shut.conf
	fmoved --config shut.conf 2>log &
	other=$!
	await fmove --socket "$dir/c/n1/other.sock" ls n1:s >/dev/null || bad "it does not serve without its cache: $(cat log)"
	no 1 'shut/cache.*[Rr]ead-only' fmove --socket "$dir/c/n1/other.sock" stage n1:s/case
	kill $other
	wait $other || bad "it ends with $?"
	umount shut
}

# A source is damaged, and then what it was: the copy that was made meanwhile is not gone on with. A tree and a file.
random 5000000 right
ok fmove put right n2:s/rotten/f
cp -a "$from/rotten" "$(store 1)"
flip "$(store 1)/rotten/f" 4500000
if fmove verify s/rotten/f >/dev/null 2>&1; then
	echo "no attributes here: nothing says that a source is damaged"
else
	for what in rotten rotten/f; do
		no 5 'f" is damaged: .*; its source or this copy is damaged; the copy is thrown away: run it again, or fmove verify' fmove stage "s/$what"
		flip "$(store 1)/rotten/f" 4500000
		ok fmove stage "s/$what" -- true
		flip "$(store 1)/rotten/f" 4500000
	done
fi
# What came and was not made READY is read again by the next daemon, whose disk does not give it.
mkdir "$(store 1)/block"
random 5000000 "$(store 1)/block/f"
for said in 'error' 'its source or this copy is damaged; the copy is thrown away'; do
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
	FMOVE_FAULT=stage.read_data:1 start_again n1
	no 1 "$said" fmove stage s/block
done
ok fmove stage s/block -- true

# So many at once: each has the path or is told that there are too many, and it comes once.
requests=$(sample "${FM_REQUESTS:-400}")
mkdir "$from/many"
random 3000000 "$from/many/f"
before=$(fmove status --json | grep -o '"received_bytes":[0-9]*' | awk -F : '{ sum += $2 } END { print sum + 0 }')
for i in $(seq "$requests"); do
	fmove stage n2:s/many >"many.$i" 2>"why.$i" &
	[ $((i % 100)) -ne 0 ] || sleep 0.1
done
wait
data=$(fmove stage n2:s/many 2>err) || bad "after so many: $(cat err)"
refused=0
for i in $(seq "$requests"); do
	if [ -s "many.$i" ]; then
		[ "$(cat "many.$i")" = "$data" ] || bad "request $i: $(cat "many.$i")"
	else
		refused=$((refused + 1))
		cat "why.$i"
	fi
done >whys
[ "$refused" -lt "$requests" ] || bad "all of $requests were refused: $(sort whys | uniq -c | head -n 3)"
grep -Ev 'places|requests|connections' whys && bad "refused for another reason"
same=$(($(fmove status --json | grep -o '"received_bytes":[0-9]*' | awk -F : '{ sum += $2 } END { print sum + 0 }') - before))
[ "$same" -lt 6000000 ] || bad "$same bytes came for one of 3000000"
exit
