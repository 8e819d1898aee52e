#!/bin/bash
# Goal:   what a store allows is what happens: who may write, how much, whether names may be replaced, and no more than fits.
# Method: clusters whose stores have such rules; every refusal is one line, the right status, and changes nothing.
. "$(dirname "$0")/lib.sh"

export FM_CLUSTER_STORE='read = [ "*" ]; write = [ ];'
up 2
random 100000 f
cp f "$(store 2)/there"
no 6 'store s|may not|not allowed|read-only' fmove put f n2:s/new
no 6 'store s|may not|not allowed|read-only' fmove put --force f n2:s/there
no 6 'store s|may not|not allowed|read-only' fmove rm n2:s/there
no 6 'store s|may not|not allowed|read-only' fmove mkdir n2:s/d
no 6 'store s|may not|not allowed|read-only' fmove purge n2:s
no 6 'store s|may not|not allowed|read-only' fmove purge -n n2:s
ok_room fmove df n2:s
ok fmove get n2:s/there back
same f back
[ "$(ls -A "$(store 2)")" = there ] || bad "something was written to a store that nobody may write to"
restart() {
	alive
	"$FM_SOURCE/tests/cluster" down "$dir/c" || bad "the cluster does not stop cleanly"
	cd / && rm -rf "$dir"
	nodes=0
	up 2
	random 100000 f
}

export FM_CLUSTER_STORE='read = [ "peer:n9" ]; write = [ "peer:n1" ];'
restart
ok fmove put f n2:s/blind
same f "$(store 2)/blind"
no 6 'n1|store s' fmove get n2:s/blind x
no 6 'n1|store s' fmove ls n2:s
no 6 'n1|store s' fmove df n2:s
ok_room fmove df n2		# shows what may be read: nothing
[ ! -s out ] && grep -q 'no store there that you may read' err || bad "df shows a store that may not be read: $(cat out err)"
ok fmove purge n2:s
use 2
no 6 'n2|store s' fmove put f n1:s/x
use 1

export FM_CLUSTER_STORE='quota = "1MiB"; replace = true;'
restart
random 600000 half
ok fmove put half n2:s/a
no 6 'quota' fmove put half n2:s/b
cat half half | fmove put - n2:s/c 2>err
[ $? -eq 6 ] || bad "a pipe over the quota: $(cat err)"
# What had come of the pipe goes after the answer.
only_a() {
	[ "$(ls -A "$(store 2)")" = a ]
}
await only_a || bad "over the quota there is: $(ls -A "$(store 2)")"
ok fmove rm n2:s/a
# Holes count: who fills them later asks nobody.
mkdir holes && truncate -s 1T holes/sparse && truncate -s 1T "$(store 1)/sparse"
no 6 'quota' fmove put holes/sparse n2:s/sparse
no 6 'quota' fmove put -r holes n2:s/holes
use 2
no 6 'quota' fmove get n1:s/sparse n2:s/sparse
use 1
# What had come of a tree goes after the answer, too.
holds_nothing() {
	[ -z "$(ls -A "$(store 2)")" ]
}
await holds_nothing || bad "over the quota there is: $(ls -A "$(store 2)")"
rm "$(store 1)/sparse"
ok fmove put half n2:s/b
ok fmove put f n2:s/b		# replace = true
same f "$(store 2)/b"
no_partials

# A full disk, there and here.
if [ "$(id -u)" -eq 0 ] && mkdir "$(store 2)/full" full && mount -t tmpfs -o size=1m none "$(store 2)/full" 2>/dev/null; then
	random 5000000 big
	ok fmove rm n2:s/b
	no 1 'o space' fmove put big n2:s/full/big
	[ -z "$(ls -A "$(store 2)/full")" ] || bad "a full disk keeps: $(ls -A "$(store 2)/full")"
	umount "$(store 2)/full"
	cp big "$(store 2)/big"
	mount -t tmpfs -o size=1m none full
	no 1 'o space' fmove get n2:s/big full/big
	[ -z "$(ls -A full)" ] || bad "a full disk here keeps: $(ls -A full)"
	umount full

	# No inodes, but room: six are enough for no transfer.
	mkdir -p tree/{a,b,c,d,e,f} "$(store 2)"/tree/{a,b,c,d,e,f}
	for made in 3 4 5 6 7; do
		mount -t tmpfs -o size=20m,nr_inodes=$made none full
		mount -t tmpfs -o size=20m,nr_inodes=$made none "$(store 2)/full"
		[ $made -gt 3 ] || touch full/1 full/2 "$(store 2)/full/1" "$(store 2)/full/2"
		no 1 'no inodes left' fmove put -r tree n2:s/full/tree
		no 1 'no inodes left' fmove get -r n2:s/tree full/tree
		[ $made -gt 3 ] || no 1 'no inodes left' fmove put big n2:s/full/big
		[ $made -gt 3 ] || no 1 'no inodes left' fmove get n2:s/big full/big
		umount full "$(store 2)/full"
	done
else
	echo "not tried: full disks (mount is not allowed)"
fi
