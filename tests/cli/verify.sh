#!/bin/bash
# Goal:   what is stored can be read again, and what is not as it came is found with its file and place: flipped bits, files cut off, written to, gone, swapped.
# Method: put a file and a tree, verify; flip a bit in the store without touching the time; change, remove, rename files; remove a digest; ask for nonsense.
. "$(dirname "$0")/lib.sh"
# The store needs extended attributes of users, which not every /tmp has.
[ -n "${FM_BUILD:-}" ] && export TMPDIR=$FM_BUILD
up 2

random 11000000 f
ok fmove put f n2:s/a/f
if command -v getfattr >/dev/null && ! getfattr -n user.fmove.crc32c "$(store 2)/a/f" >/dev/null 2>&1; then
	skip "no extended attributes of users in $TMPDIR"
fi
fmove verify n2:s/a/f >out 2>err
[ $? -eq 1 ] && grep -q 'nothing could be compared' err && skip "no extended attributes of users in $TMPDIR"

ok fmove verify n2:s/a/f
[ ! -s out ] || bad "something was found in a good file: $(cat out)"
grep -q '1 file, 11.0 MB read again in .*: all as they came$' err || bad "a good file: $(cat err)"
ok fmove verify --json n2:s/a/f
[ "$(json files out) $(json bytes out) $(json corrupt out) $(json exit out)" = "1 11000000 0 0" ] || bad "json of a good file: $(cat out)"
ok fmove verify -q n2:s/a/f
[ ! -s err ] || bad "-q says $(cat err)"

# A tree: small files, a large one.
mkdir -p t/sub
for i in $(seq 20); do
	random $((i * 1000)) t/sub/$i
done
random 9000000 t/large
ok fmove put -r t n2:s/t
ok fmove verify n2:s/t
grep -q '21 files, .* all as they came$' err || bad "a good tree: $(cat err)"
ok fmove verify n2:s
grep -q '22 files' err || bad "a whole store: $(cat err)"

# The node's own store.
use 2
ok fmove verify n2:s/t
grep -q '21 files' err || bad "the own store: $(cat err)"
use 1

# Damage: found with file and place, at the file's node and from elsewhere.
flip "$(store 2)/a/f" 9000000
flip "$(store 2)/t/sub/7" 5000
for node in 1 2; do
	use $node
	fmove verify n2:s >out 2>err
	[ $? -eq 5 ] || bad "damage: status is not 5: $(cat out err)"
	grep -Eq '^corrupt: a/f at byte 8,388,608, somewhere in 2,611,392 bytes$' out || bad "the damage of a/f is not found where it is: $(cat out)"
	grep -Eq '^corrupt: t/sub/7 at byte 0, somewhere in 7,000 bytes$' out || bad "the damage of t/sub/7 is not found: $(cat out)"
	[ "$(wc -l <out)" -eq 2 ] || bad "something else is found: $(cat out)"
	grep -q '22 files, .*: 2 corrupt; 1 in no manifest, ' err || bad "damage, the last line: $(cat err)"
done
use 1
fmove verify --json n2:s >out 2>err
[ "$(json corrupt out) $(json exit out)" = "2 5" ] || bad "json of damage: $(cat out)"
grep -q '{"kind":"corrupt","path":"a/f","offset":8388608,"length":2611392}' out || bad "json of damage: $(cat out)"
fmove verify n2:s/t/sub/8 >out 2>err || bad "the file beside it: $(cat out err)"

# Flipped back it is well again.
flip "$(store 2)/a/f" 9000000
flip "$(store 2)/t/sub/7" 5000
ok fmove verify n2:s

# found WHAT LINE...: verifying n2:s/WHAT says exactly these lines, and ends with 5.
found() {
	local what=$1 wanted
	shift
	wanted=$(printf '%s\n' "$@" | sort)
	fmove verify "n2:s/$what" >out 2>err
	[ $? -eq 5 ] || bad "$what: the status is not 5: $(cat err)"
	[ "$(sort out)" = "$wanted" ] || bad "$what: $(cat out) instead of $wanted"
}

# Another time only, or not ours: no damage.
touch "$(store 2)/t/sub/4"
echo new >"$(store 2)/t/new"
ok fmove verify n2:s/t
grep -q '22 files, .*: all as they came; 1 without digest$' err || bad "not ours: $(cat err)"
no 1 'nothing could be compared' fmove verify n2:s/t/new
rm "$(store 2)/t/new"

# Written to, cut off, gone, under another's name: found from the tree, from a part of it, and by name.
s=$(store 2)
echo more >>"$s/t/sub/3"
truncate -s 4000000 "$s/a/f"
truncate -s 5000000 "$s/t/large"
rm "$s/t/sub/5"
touch -r "$s/t/sub/8" time
mv "$s/t/sub/8" "$s/t/8"
truncate -s -1 "$s/t/8"		# as long as another one, ...
truncate -s +1 "$s/t/8"
mv "$s/t/8" "$s/t/sub/8"
touch -r time "$s/t/sub/8"	# ... and as old
mv "$s/t/sub/1" x1 && mv "$s/t/sub/2" "$s/t/sub/1" && mv x1 "$s/t/sub/2"
found a/f 'changed: a/f at byte 0, somewhere in 11,000,000 bytes'
found t 'changed: t/sub/3 at byte 3,000, somewhere in 5 bytes' 'changed: t/large at byte 4,194,304, somewhere in 4,805,696 bytes' \
	'missing: t/sub/5, 5,000 bytes' 'corrupt: t/sub/8 at byte 0, somewhere in 8,000 bytes' \
	'swapped: t/sub/1 at byte 0, 2,000 bytes' 'swapped: t/sub/2 at byte 0, 1,000 bytes'
grep -q '21 files, .*: 1 corrupt, 2 changed, 1 missing, 2 swapped$' err || bad "the last line: $(cat err)"
found t/sub/5 'missing: t/sub/5, 5,000 bytes'
found t/sub/1 'swapped: t/sub/1 at byte 0, 2,000 bytes'
ok fmove verify n2:s/t/sub/9
grep -q '1 file,' err || bad "one file of a tree: $(cat err)"
fmove verify --json n2:s/t/sub >out 2>err
[ "$(json changed out) $(json missing out) $(json swapped out) $(json corrupt out) $(json exit out)" = "1 1 2 1 5" ] || bad "json: $(cat out)"
grep -q '{"kind":"missing","path":"t/sub/5","offset":0,"length":5000}' out || bad "json of a missing file: $(cat out)"
no 1 'no such file' fmove verify n2:s/t/never

# Two of one size and time, with one another's names; links.
mkdir -p twins/sub
random 5000 twins/a
random 5000 twins/sub/b
touch -r twins/a twins/sub/b
random 6000 twins/h1
ln twins/h1 twins/h2
ln -s a twins/link
ok fmove put -r twins n2:s/twins
ok fmove verify n2:s/twins
mv "$s/twins/a" x1 && mv "$s/twins/sub/b" "$s/twins/a" && mv x1 "$s/twins/sub/b"
ln -sfn sub "$s/twins/link"
found twins 'swapped: twins/a at byte 0, 5,000 bytes' 'swapped: twins/sub/b at byte 0, 5,000 bytes' 'changed: twins/link at byte 0'
cp -p "$s/twins/h1" x1 && mv x1 "$s/twins/h2"
fmove verify n2:s/twins >out 2>err
[ "$(grep -c '^changed: twins/h[12] at byte 0$' out) $(wc -l <out)" = "1 4" ] || bad "two names of two files, which were those of one: $(cat out)"

# The manifest belongs to the directory: under another name, put once more, after a smaller version took its place, and gone with it.
mkdir one
random 3000 one/x
random 3000 one/y
ok fmove put -r one n2:s/deep/one
[ "$(find "$s/deep" -name '.fmove*' | wc -l)" -eq 1 ] || bad "one tree has $(find "$s/deep" -name '.fmove*')"
diff -r one "$s/deep/one" >/dev/null || bad "a tree is not what was put"
mv "$s/deep/one" "$s/deep/two"
rm "$s/deep/two/x"
found deep 'missing: deep/two/x, 3,000 bytes'
mv "$s/deep/two" "$s/deep/one"
rm one/y
ok fmove put -r --replace one n2:s/deep/one
ok fmove verify n2:s/deep
grep -q '1 file,' err || bad "a smaller version: $(cat err)"
random 3000 one/y
ok fmove put -r --update one n2:s/deep/one
ok fmove verify n2:s/deep
rm "$s/deep/one/x"
found deep 'missing: deep/one/x, 3,000 bytes'

# A tree that was put into another one is its own.
ok fmove put -r one n2:s/deep/one/inner
random 4000 one/x
ok fmove put -r --replace one n2:s/deep/one/inner
found deep 'missing: deep/one/x, 3,000 bytes'
rm "$s/deep/one/inner/x"
found deep/one/inner 'missing: deep/one/inner/x, 4,000 bytes'
found deep/one 'missing: deep/one/x, 3,000 bytes' 'missing: deep/one/inner/x, 4,000 bytes'
ok fmove rm -r n2:s/deep/one
# Versions that were replaced are kept for a while, and their manifests.
[ "$(find "$s/deep" -name '.fmove*.old' | wc -l)" = "$(find "$s/deep" -name '.fmove*.manifest' | wc -l)" ] ||
	bad "a tree that was removed left $(find "$s/deep" -name '.fmove*')"

# Damage of the manifest itself.
ok fmove put -r one n2:s/spoilt/one
manifest=$(find "$s/spoilt" -name '.fmove*.manifest')
cp "$manifest" whole.manifest
flip "$manifest" 400
found spoilt 'corrupt: spoilt/one at byte 0'
# Something else in its place: what is missing would not be told.
rm "$manifest" && ln -s /etc/passwd "$manifest"
found spoilt 'corrupt: spoilt/one at byte 0'
rm "$manifest" && mkfifo "$manifest"
found spoilt 'corrupt: spoilt/one at byte 0'
rm "$manifest" && mkdir "$manifest"
found spoilt 'corrupt: spoilt/one at byte 0'
rmdir "$manifest" && truncate -s 1T "$manifest"
found spoilt 'corrupt: spoilt/one at byte 0'
ok fmove put -r one n2:s/spoilt/two
cp "$(find "$s/spoilt" -name '.fmove*.manifest' ! -path "$manifest")" "$manifest"
found spoilt/one 'corrupt: spoilt/one at byte 0'
cp whole.manifest "$manifest"
ok fmove verify n2:s/spoilt
rm -r "$s/deep" "$s/twins" "$s/spoilt" "$s/t"
ok fmove put -f f n2:s/a/f
ok fmove put -r t n2:s/t
ok mkdir "$(store 2)/empty"
ok fmove verify n2:s/empty
grep -q '0 files' err || bad "an empty directory: $(cat err)"

# A name that is no UTF-8.
printf 'x' >x
ok fmove put x "n2:s/$(printf 'a\377b')"
flip "$(store 2)/$(printf 'a\377b')" 0
fmove verify n2:s >out 2>err
[ $? -eq 5 ] || bad "a name that is no UTF-8: $(cat out err)"
grep -Fq 'corrupt: a\xffb at byte 0' out || bad "a name that is no UTF-8: $(cat out)"
rm -f "$(store 2)/$(printf 'a\377b')"

# Mistakes.
no 1 'nostore' fmove verify n2:nostore/x
no 1 'nostore' fmove --socket "$dir/c/n2/fmoved.sock" verify n2:nostore/x
no 1 'n9' fmove verify n9:s/x
no 1 'nothing' fmove verify n2:s/nothing
no 2 'NODE:STORE' fmove verify here
fmove verify n2:s n2:s >out 2>err
[ $? -eq 2 ] || bad "two names are taken"
if [ "$(id -u)" -ne 0 ]; then
	chmod 000 "$(store 2)/t/sub/9"
	fmove verify n2:s/t >out 2>err
	[ $? -eq 5 ] && grep -q '^unreadable: t/sub/9' out || bad "a file that cannot be read: $(cat out err)"
	chmod 600 "$(store 2)/t/sub/9"
fi

# The kept checksum itself is damaged: said, and nothing else is hidden by it. Where a manifest has another one the content is known to be
# well, and what get refuses is said all the same.
kept() {
	python3 - "$@" <<- 'EOF'
		import os, sys
		path, at, byte, cut = sys.argv[1], *map(int, sys.argv[2:])
		kept = bytearray(os.getxattr(path, "user.fmove.crc32c"))
		kept[at] ^= byte
		os.setxattr(path, "user.fmove.crc32c", bytes(kept[:cut]))
	EOF
}
mkdir -p kept/t
for i in 1 2 3 4; do
	random 7000 kept/f$i
	ok fmove put kept/f$i n2:s/kept/f$i
done
random 7000 kept/t/a
random 7000 kept/t/b
ok fmove put -r kept/t n2:s/kept/t
kept "$s/kept/f1" 15 128 24	# a size that no file has
kept "$s/kept/f2" 0 0 10
kept "$s/kept/f3" 0 3 24	# a later version's
kept "$s/kept/t/a" 4 1 24
kept "$s/kept/t/b" 0 0 10
flip "$s/kept/f4" 100
found kept 'corrupt: kept/f1 at byte 0' 'corrupt: kept/f2 at byte 0' 'corrupt: kept/f4 at byte 0, somewhere in 7,000 bytes' \
	'corrupt: kept/t/a at byte 0, somewhere in 7,000 bytes' 'corrupt: kept/t/b at byte 0'
grep -q '6 files, .*: 5 corrupt; 1 without digest; 1 in no manifest, ' err || bad "damaged checksums: $(cat err)"
no 5 'corrupt' fmove get n2:s/kept/t/a back
no 5 'corrupt' fmove get -r n2:s/kept/t back
for name in f1 f2 t/b; do
	no 5 'the checksum that was kept with it is damaged' fmove get n2:s/kept/$name back
done
ok fmove get n2:s/kept/f3 back

# The manifest is removed, and a file with it: said, how much nothing is known beside. Of a file alone there is nothing to say.
mkdir bare
random 3000 bare/x
random 3000 bare/z
ok fmove put -r bare n2:s/bare/one
ok fmove verify n2:s/bare/one
grep -q '2 files, .*: all as they came$' err || bad "a tree with its manifest: $(cat err)"
rm "$s"/bare/.fmove.*.manifest "$s/bare/one/z"
for what in bare bare/one; do
	ok fmove verify n2:s/$what
	grep -q '1 file, .*: all as they came; 1 in no manifest, and what is missing beside it is not known$' err || bad "$what: $(cat err)"
done
ok fmove verify --json n2:s/bare
[ "$(json unlisted out)" = 1 ] || bad "json without a manifest: $(cat out)"
ok fmove verify n2:s/bare/one/x
grep -q ': all as they came$' err || bad "a file alone: $(cat err)"

# Many findings at once, more than one message holds.
mkdir -p many
for i in $(seq 300); do
	echo "$i" >many/$i
done
ok fmove put -r many n2:s/many
python3 - "$(store 2)"/many/* <<-'EOF'	# flip, without 1,500 programs
	import os, sys
	for path in sys.argv[1:]:
	    was = os.stat(path)
	    with open(path, "r+b") as f:
	        first = f.read(1)[0]
	        f.seek(0)
	        f.write(bytes([first ^ 4]))
	    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
EOF
fmove verify n2:s/many >out 2>err
[ $? -eq 5 ] || bad "300 damaged files: $(cat err)"
[ "$(grep -c '^corrupt: many/' out)" -eq 300 ] || bad "of 300 damaged files $(wc -l <out) are said"
[ "$(sort -u out | wc -l)" -eq 300 ] || bad "a damaged file is said twice"

# Cancelled: at once, and the daemons go on.
head -c 100000000 /dev/zero | fmove put - n2:s/big 2>err || bad "big: $(cat err)"
env --default-signal=INT fmove verify n2:s/big >out 2>err &
pid=$!
kill -INT $pid
wait $pid
status=$?
[ $status -eq 130 ] || [ $status -eq 0 ] || bad "SIGINT ended it with $status: $(cat err)"
ok fmove verify n2:s/a

# Its node goes away in the middle.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2 || bad "n2 does not stop"
no 4 'n2' fmove verify n2:s
start_again n2
