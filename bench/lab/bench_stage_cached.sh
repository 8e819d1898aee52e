# about: how much the page cache grows while three times a guest's memory is staged
# guests: 1
# cpus: 2
# disks: 2 2G
# mem: 512M
# timeout: 3600
#
# Goal:   staging leaves the memory to what runs beside it: also while it goes on, and at the source's node as at the sink's, which is one here.
# Method: large files on one disk are staged to a cache on another one. Cached, of /proc/meminfo, is read all the time; before it begins a
#         small dataset was staged, so that programs and the like are there already. `bench/run stage_lab` reads the lines that begin with "pair".

# shellcheck source=tests/nodes.sh
. "$LAB_TOP/tests/nodes.sh"

D=/run/bench
FILES=48
MIB=32			# of each
trap 'cp -f $D/n1/log /out/fmoved.log 2> /dev/null || true' EXIT

# cached: sets `kib`, without a program.
cached() {
	local key rest

	while read -r key kib rest; do
		[ "$key" != Cached: ] || return 0
	done < /proc/meminfo
}

# watch: until /run/end is there; the most goes to /run/most.
watch() {
	local most=0

	while [ ! -e /run/end ]; do
		cached
		((kib <= most)) || most=$kib
		pause 0.2
	done
	echo $most > /run/most
}

stage() {
	"$FMOVE_BIN/fmove" --socket $D/n1/sock stage "v/$1" -- true > /out/stage 2>&1 || fail "stage: $(cat /out/stage)"
}

mkdisk /dev/lab/disk1 ext4 /srv/source
mkdisk /dev/lab/disk2 ext4 /srv/cache
mkdir /srv/source/{small,set}
head -c 8M /dev/urandom > /srv/source/small/f
for ((i = 0; i < MIB / 8; i++)); do
	cat /srv/source/small/f
done > /srv/source/set/f1
for ((i = 2; i <= FILES; i++)); do
	check cp /srv/source/set/f1 /srv/source/set/f$i
done
sync
node_key $D/n1
node_stores='{ name = "v"; directory = "/srv/source"; },' node_conf $D/n1 n1 "127.0.0.1:7471" <<-C
memory = { arena = "64MiB"; total = "200MiB"; };
staging = { directory = "/srv/cache/fmove"; size = "1900MiB"; grace = "0s"; };
C
node_start $D/n1
stage small
echo 3 > /proc/sys/vm/drop_caches
stage small		# what it needs of programs and libraries is there again
cached
before=$kib
watch &
watcher=$!
stage set
: > /run/end
wait $watcher
say "pair cached $((($(cat /run/most) - before) / 1024)) $(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo) $((FILES * MIB))"
say "$(cat /out/stage)"
node_stop $D/n1
