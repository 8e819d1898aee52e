#!/bin/bash
# Goal:   a get of ranges gives exactly the bytes asked for, in the order asked for, checked against what was kept; what cannot be had is refused with
#         the range and publishes nothing.
# Method: ranges of a file of several blocks of its digest, into files and pipes, from the command line and from a list; damage, changes and cuts meanwhile.
. "$(dirname "$0")/lib.sh"
# The store needs extended attributes of users, which not every /tmp has.
[ -n "${FM_BUILD:-}" ] && export TMPDIR=$FM_BUILD
up 2
SIZE=20000000
random $SIZE f
ok fmove put f n2:s/f

# bytes OFFSET LENGTH: of f.
bytes() {
	tail -c +$(($1 + 1)) f | head -c "$2"
}

# is FILE: it is what `want` has.
is() {
	cmp -s want "$1" || bad "$1 is not what was asked for: $(cat err)"
	rm -f "$1"
}

# ---- what comes ----

{ bytes 0 4096; bytes 1048576 65536; bytes 19999990 10; } >want
ok fmove get --range 0:4096,1M:64K,19999990: n2:s/f got
is got
ok fmove get --range 0:4096 --range 1MiB:64k --range 19999990:10 --json n2:s/f got
[ "$(json bytes out)" = 69642 ] && [ -n "$(json version out)" ] || bad "--json does not say it: $(cat out)"
is got
fmove get --range 0:4096,1M:64K,19999990: n2:s/f - 2>err | cat >got
is got
fmove get --range 0:4096,1M:64K,19999990: n2:s/f - >got 2>err
is got

# Odd, in any order, twice, overlapping, empty, the whole.
{ bytes 5000001 7; bytes 1 5000000; bytes 1 5000000; bytes 4999999 3; bytes 100 1; bytes 0 $SIZE; } >want
ok fmove get --range 5000001:7,1:5000000,0:0,1:5000000,4999999:3,$SIZE:0,$SIZE:,100:1,0: n2:s/f got
is got
: >want
ok fmove get --range 7:0 n2:s/f got
is got

# A list; blanks as they come. Of many ranges the bytes come in their order, too.
{ bytes 10 5; bytes 3 2; } >want
printf '10 5\n\n 3\t 2 \n' | sed 's/^ //' >list
ok fmove get --ranges-from list n2:s/f got
is got
ok fmove get --ranges-from - n2:s/f got <list
is got
seq 0 3 59997 | awk '{ print $1, 2 }' >list
head -c 60000 f | od -An -v -tx1 -w3 | awk '{ printf "\\x%s\\x%s", $1, $2 }' >hex
printf "%b" "$(cat hex)" >want
ok fmove get --ranges-from list --json n2:s/f got
[ "$(json bytes out)" = 40000 ] && [ "$(json durable out)" = true ] || bad "many ranges: $(cat out)"
whole=$(json crc32c out)
is got
printf "%b" "$(cat hex)" >want
ok fmove put --json want n2:s/crc
[ "$(json crc32c out)" = "$whole" ] || bad "the CRC32C of many ranges is $whole: $(cat out)"
fmove get --ranges-from list n2:s/f - 2>err | cat >got
is got

# 10^6 ranges, each another byte, no two of them neighbours.
seq 0 2 1999998 | awk '{ print $1, 1 }' >list
ok fmove get --json --ranges-from list n2:s/f got
[ "$(json bytes out)" = 1000000 ] || bad "10^6 ranges: $(cat out)"
head -c 2000000 f | od -An -v -tx1 -w2 | awk '{ print $1 }' | cmp -s - <(od -An -v -tx1 -w1 got | tr -d ' ') ||
	bad "10^6 ranges are not what was asked for"
rm got
{ cat list; seq 48577; } | awk '{ print $1, 1 }' >beyond
no 2 'more than 1048576 ranges' fmove get --ranges-from beyond n2:s/f got

# Holes are zeros.
truncate -s 9000000 "$(store 2)/sparse"
printf x | dd of="$(store 2)/sparse" bs=1 seek=6000000 conv=notrunc status=none
{ head -c 5000 /dev/zero; printf x; head -c 4999 /dev/zero; } >want
ok fmove get --range 5995000:10000 n2:s/sparse got
is got

# Into memory, by a program.
"$FMOVE_BIN/read_ranges" f >out 2>&1 || bad "read_ranges: $(cat out)"

# ---- what is refused ----

no 1 "range 2 .11 bytes from 19999990 on. ends past the end of the file, which has $SIZE bytes" fmove get --range 0:1,19999990:11 n2:s/f got
no 1 'begins at byte 20000001, past the end' fmove get --range 20000001: n2:s/f got
no 1 'past the end' fmove get --range 9000000000000000000:1 n2:s/f got
no 2 'no range OFFSET:LENGTH' fmove get --range 9223372036854775807:1 n2:s/f got
for text in '' 5 : :5 -1:5 5:-1 5:x '0:1,' ',0:1' 1:2:3 99999999999999999999:1; do
	no 2 'no range OFFSET:LENGTH or OFFSET: .up to the end.' fmove get --range "$text" n2:s/f got
done
: >empty
no 2 'there is no range in it' fmove get --ranges-from empty n2:s/f got
no 2 'No such file' fmove get --ranges-from missing n2:s/f got
echo 0:8 >list
no 2 'line 1: "0:8" is no range OFFSET LENGTH ' fmove get --ranges-from list n2:s/f got
echo '1 2 3' >list
no 2 'line 1' fmove get --ranges-from list n2:s/f got
for option in -r --dry-run --verbose --detach; do
	no 2 'ranges are' fmove get --range 0:1 $option n2:s/f got
done
no 2 'for ranges' fmove get --verify n2:s/f got
no 1 'not into a store' fmove get --range 0:1 n2:s/f n1:s/got
mkdir "$(store 2)/d"
no 2 'is a directory: ranges are of a file' fmove get --range 0:1 n2:s/d got
no 1 'no such file' fmove get --range 0:1 n2:s/missing got
[ ! -e got ] || bad "what was refused left a file"
no_partials

# What is too long for one request together says so.
long=$(printf '\001%.0s' $(seq 200))
yes 9000000000000000000 1000000000000000 | head -n 1024 >list
fmove get --json --ranges-from list "n2:s$(printf "/$long%.0s" $(seq 19))" got >out 2>err
[ $? -eq 1 ] && grep -q ENAMETOOLONG out || bad "a request that is too long: $(cut -c1-200 out)"

# ---- damage ----

fmove verify n2:s/f >out 2>err
if ! grep -q 'nothing could be compared' err; then
	# In the second of five blocks, of 4 MiB each.
	flip "$(store 2)/f" 5000000
	no 5 '"f" is corrupt from byte 4194304 on, somewhere in 4194304 bytes' fmove get --range 4194304:4194304 n2:s/f got
	no 5 'from byte 4194304 on' fmove get --range 1:7,0: n2:s/f got
	no 5 'from byte 4194304 on' fmove get --range 1:4194303,4194304:4M n2:s/f got
	[ ! -e got ] || bad "what is corrupt was given its name"
	ok fmove get --range 0:4194304,8388608: n2:s/f got
	rm got
	# Covered in part: not compared, unless asked for.
	bytes 4194304 4000 >want
	ok fmove get --range 4194304:4000 n2:s/f got
	is got
	no 5 'from byte 4194304 on' fmove get --verify --range 4194304:4000 n2:s/f got
	ok fmove get --verify --range 0:4000,8388608:4000 n2:s/f got
	rm got
	ok fmove get --accept-corrupt --verify --range 4194304:4000 n2:s/f got
	grep -q 'its source is corrupt' err || bad "--accept-corrupt does not say so: $(cat err)"
	is got
	flip "$(store 2)/f" 5000000
	ok fmove get --verify --range 0: n2:s/f got
	cmp -s f got || bad "a file that is good again is another"
	rm got
	# A file of one block, whose digest is that of the whole.
	random 100000 small
	ok fmove put small n2:s/small
	flip "$(store 2)/small" 5
	ok fmove get --range 10:10 n2:s/small got
	rm got
	no 5 'from byte 0 on, somewhere in 100000 bytes' fmove get --range 0: n2:s/small got
	no 5 'from byte 0 on' fmove get --verify --range 10:10 n2:s/small got
	# Of no length: nothing was read, and nothing compared.
	ok fmove get --verify --range 10:0 n2:s/small got
	rm got
fi

# ---- meanwhile ----

# begun FILE [RATE]: a slow get of ranges into FILE, in the middle. At this rate it takes a minute.
begun() {
	env --default-signal=INT fmove get --limit="${2:-100kB/s}" --range 1000001:1000000,1:5000000 n2:s/f "$1" >out.slow 2>err.slow &
	pid=$!
	journaled .
}

{ bytes 1000001 1000000; bytes 1 5000000; } >want
begun got
kill -KILL $pid
wait $pid 2>/dev/null
ended f
ok fmove get --json --range 1000001:1000000,1:5000000 n2:s/f got
[ "$(json resumed_bytes out)" -gt 0 ] || bad "nothing was gone on with: $(cat out)"
is got
# Other ranges of the same file have nothing of it, even if there are as many bytes.
begun got
kill -KILL $pid
wait $pid 2>/dev/null
ended f
{ bytes 1000000 1000000; bytes 1 5000000; } >want
ok fmove get --json --range 1000000:1000000,1:5000000 n2:s/f got
[ "$(json resumed_bytes out)" = 0 ] || bad "went on with other ranges: $(cat out)"
is got

begun got 200kB/s		# goes on to its end
echo more >>"$(store 2)/f"
wait $pid
[ $? -eq 1 ] && grep -q 'the source changed while it was read' err.slow || bad "a change is not seen: $(cat err.slow)"
[ ! -e got ] || bad "what changed meanwhile was published"
idle

# Between two requests of many ranges another file takes its place: of that nothing may come. The command stands still
# until it has, so that it cannot have asked for the last of them.
has_some() {
	[ -n "$(find . -name '.fmove.*.part' -size +0)" ]
}
seq 0 2000 6000000 | awk '{ print $1, 1000 }' >list
cp "$(store 2)/f" "$(store 2)/g"
fmove get --limit=100kB/s --ranges-from list n2:s/f got 2>err.slow &
pid=$!
await has_some || bad "many ranges do not come: $(ls -la)"
kill -STOP $pid
mv "$(store 2)/g" "$(store 2)/f"
kill -CONT $pid
wait $pid
[ $? -eq 1 ] && grep -q 'the source changed while ranges of it were read' err.slow || bad "another file is not seen: $(cat err.slow)"
[ ! -e got ] || bad "ranges of two files were published"

# The time is for all of them: each request takes a third of what all take, and less than this.
no 4 'within the time' fmove get --timeout 1500ms --limit=1MB/s --ranges-from list n2:s/f got

# One of several fails in its midst: its bytes do not come into the next one's file.
random 3500000 "$(store 2)/short"
cp "$(store 2)/f" "$(store 2)/long"
mkdir several
fmove get --ranges-from list n2:s/short n2:s/long several >out 2>err
[ $? -eq 3 ] && [ ! -e several/short ] || bad "a source that is too short: $(cat err; ls several)"
fmove get --ranges-from list n2:s/long - 2>err | cat >want
cmp -s want several/long || bad "what came after one that failed is another"

# A link is followed in its store, and not out of it.
ln -s f "$(store 2)/link"
ln -s /etc/passwd "$(store 2)/out"
bytes 5 7 >want
ok fmove get --range 5:7 n2:s/link got
is got
no 6 'out' fmove get --range 0:1 n2:s/out got
no_useless_partials
