#!/bin/bash
# Goal:   what real trees have and tests seldom: times beyond 2262, files that end in a hole, names
#         of a symbolic link, names that fmove keeps for itself, attributes of large files in an
#         update. Each arrives, or the result says what did not.
# Method: one tree for each, by put and by get, compared with what was sent.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_STORE='owner = "caller";'
[ "$(id -u)" -eq 0 ] || skip "needs root: a store that keeps owners and attributes"
up 2

# stretches FILE: its data, as the file system tells it.
stretches() {
	python3 - "$1" <<-'END'
		import os, sys
		fd = os.open(sys.argv[1], os.O_RDONLY)
		size, at = os.fstat(fd).st_size, 0
		while at < size:
		    try:
		        data = os.lseek(fd, at, os.SEEK_DATA)
		    except OSError:
		        break
		    at = os.lseek(fd, data, os.SEEK_HOLE)
		    print(data, at)
	END
}

# Of those times 64 bits of nanoseconds know the last.
mkdir late
echo 1 >late/f && touch -d 2300-01-01 late/f
touch -d 2300-01-01 late
ok fmove put -r --json late n2:s/late
grep -q 'after 2262 cannot be kept' out || bad "nothing is said of times: $(cat out)"
[ "$(stat -c %y "$(store 2)/late/f" | cut -c 1-4)" = 2262 ] || bad "a late time: $(stat -c %y "$(store 2)/late/f")"
ok fmove put -r --update late n2:s/late
grep -q 'unchanged' err || bad "an update of late times: $(cat err)"
ok fmove put --json late/f n2:s/late1
grep -q 'after 2262 cannot be kept' out || bad "nothing is said of the time of a file: $(cat out)"
[ "$(stat -c %y "$(store 2)/late1" | cut -c 1-4)" = 2262 ] || bad "a late time: $(stat -c %y "$(store 2)/late1")"
ok fmove verify n2:s/late

# A size that is no multiple of a block, behind a hole.
mkdir holes
for size in 4096 100000 5000000; do
	random $size holes/$size && truncate -s $((size * 2 + 4097)) holes/$size
done
ok fmove put -r holes n2:s/holes
ok fmove get -r n2:s/holes back
for size in 4096 100000 5000000; do
	ok fmove put holes/$size n2:s/hole$size
	for copy in "$(store 2)/holes/$size" back/$size "$(store 2)/hole$size"; do
		same holes/$size "$copy"
		[ "$(stretches "$copy")" = "$(stretches holes/$size)" ] ||
			bad "$copy has data at $(stretches "$copy") instead of $(stretches holes/$size)"
	done
done

# Two names of one symbolic link.
mkdir names
ln -s nowhere names/a && ln names/a names/b
ok fmove put -r names n2:s/names
[ "$(stat -c %h "$(store 2)/names/b")" -eq 2 ] || bad "two names of a link became two links"
ok fmove put -r --update names n2:s/names
grep -q 'unchanged' err || bad "an update of two names of a link: $(cat err)"
ok fmove get -r n2:s/names names2
[ "$(stat -c %h names2/b)" -eq 2 ] || bad "two names of a link became two links in a get"

# The rest of the tree goes.
mkdir -p own/.fmove.dir
echo 1 >own/.fmove.x && echo 2 >own/y && echo 3 >own/.fmove.dir/z
ok fmove put -r --json own n2:s/own
grep -q 'begin with .fmove. are fmove.s own: not sent' out || bad "nothing is said of names left out: $(cat out)"
[ "$(ls -A "$(store 2)/own")" = y ] || bad "what arrived: $(ls -A "$(store 2)/own")"
ok fmove put -r --update --delete own n2:s/own
grep -q 'unchanged' err || bad "an update beside names that are left out: $(cat err)"

# An attribute of a large file, where nothing shares blocks. The dry run says what the update does.
mkdir large
random 5000000 large/f
random 5000000 large/g
if python3 -c 'import os; os.setxattr("large/f", "user.of", b"f")' 2>/dev/null; then
	ok fmove put -r large n2:s/large
	echo other >large/small
	ok fmove put -r -n --update --json large n2:s/large
	wanted=$(json wanted_files out)
	ok fmove put -r --update --json large n2:s/large
	[ "$wanted" -eq 1 ] && [ "$(json data_bytes out)" -lt 100000 ] ||
		bad "an update of a small file wanted $wanted files and sent $(json data_bytes out) bytes"
	python3 -c 'import os; os.setxattr("large/f", "user.of", b"g")'
	chmod 600 large/g
	ok fmove put -r -n --update --json large n2:s/large
	wanted=$(json wanted_bytes out)
	ok fmove put -r --update --json large n2:s/large
	[ "$(json data_bytes out)" -ge "$wanted" ] && [ "$(json data_bytes out)" -lt $((wanted + 100000)) ] ||
		bad "a dry run said $wanted bytes, the update sent $(json data_bytes out)"
	python3 -c 'import os, sys; sys.exit(os.getxattr(sys.argv[1], "user.of") != b"g")' \
		"$(store 2)/large/f" || bad "the attribute did not come"
fi

# A link whose target is longer than the file system takes: it is named, with what is too long of it. Mounted for the command alone.
mkdir far mnt
ln -s "$(printf '%1500s' | tr ' ' x)" far/link
echo 1 >far/f
ok fmove put -r far n2:s/far
truncate -s 8M image
if unshare -m sh -c 'mkfs.ext4 -q -b 1024 image && mount -o loop image mnt' >out 2>&1; then
	unshare -m sh -c 'mount -o loop image mnt && fmove get -r n2:s/far mnt/far 2>err; echo $? && ls mnt' >out
	[ "$(head -n 1 out)" = 1 ] && ! grep -qx far out || bad "a target that is too long: $(cat out err)"
	grep -q '"link": the file system takes no target as long as its 1500 bytes' err || bad "a target that is too long: $(cat err)"
	unshare -m sh -c 'mount -o loop image mnt && fmove get -r --exclude link n2:s/far mnt/far && ls mnt/far' >out 2>err
	[ "$(cat out)" = f ] || bad "without that link: $(cat out err)"
else
	echo "no file system can be mounted here, so none with short targets: $(cat out)"
fi
