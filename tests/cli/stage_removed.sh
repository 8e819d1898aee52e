#!/bin/bash
# Goal:   what somebody removed from the cache's directory by hand is not said to be here, takes no room any more, and can be staged again.
# Method: the data of a dataset goes, then all of its directory, then all that is in the cache's, then the cache's itself, under a daemon
#         that runs.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; grace = "0s"; };'
up 2
mkdir "$(store 2)/set"
random 3000000 "$(store 2)/set/f"

# staged WHAT: its data is here, held by nobody then, and same as the source.
staged() {
	ok fmove stage n2:s/set -- true
	data=$(echo "$dir"/c/n1/cache/ready/*/set)
	same "$(store 2)/set/f" "$data/f"
	await sh -c 'fmove datasets --json | grep -q "\"holds\":0"' || bad "it is held: $(fmove datasets)"
}

staged
for what in data link all; do
	version=$(dirname "$data")
	chmod -R u+w "$version"
	case $what in
	data) rm -r "$data" ;;
	link) mv "$data" other && ln -s "$PWD/other" "$data" ;;
	all) rm -r "$version" ;;
	esac
	no 1 'somebody removed it from the cache.s directory; "fmove unstage set"' fmove stage n2:s/set -- true
	no 1 'somebody removed it from the cache.s directory; "fmove unstage set"' fmove stage n2:s/set
	ok fmove unstage set
	fmove datasets --json | grep -q '"name"' && bad "$what: it is here yet: $(fmove datasets)"
	[ $what != link ] || same "$(store 2)/set/f" other/f
	staged
done

# Where holds are written down alone.
chmod u+w "$dir/c/n1/cache"
rm -rf "$dir/c/n1/cache/holds"
staged
[ -d "$dir/c/n1/cache/holds" ] || bad "it is not made again"

# All that is below the cache's directory: its own directories are made again, and the next daemon takes it for the cache that it is.
clear() {
	chmod -R u+w "$dir/c/n1/cache"
	rm -rf "$dir"/c/n1/cache/*
}
clear
no 1 'somebody removed it from the cache.s directory; "fmove unstage set"' fmove stage n2:s/set -- true
ok fmove unstage set
staged
restart() {
	"$FM_SOURCE/tests/cluster" stop "$dir/c" n1
	start_again n1
	reachable 2
}
restart
fmove datasets | grep -q '^ready .* set ' || bad "a daemon that starts does not find it: $(fmove datasets)"
clear
restart
staged

# The cache's directory itself is made by a start alone.
chmod -R u+w "$dir/c/n1/cache"
rm -rf "$dir/c/n1/cache"
no 1 'cache: its directory is not there any more: restart fmoved, which makes it again' fmove stage n2:s/set -- true
restart
staged

# Whose it was stood beside it: what is gone may be forgotten by anybody, and what is there may not.
need_nobody
chmod 755 "$dir/c" "$dir/c/n1"
no 6 'only who staged it' as_nobody fmove unstage set
version=$(dirname "$data")
chmod -R u+w "$version"
rm -r "$version"
no 1 'somebody removed it from the cache.s directory; "fmove unstage set"' as_nobody fmove datasets check set
ok as_nobody fmove unstage set
staged
