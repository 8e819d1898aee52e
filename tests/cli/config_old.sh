#!/bin/bash
# Goal:   an upgrade finds nothing wrong with a configuration of an older version: what once could be said can be said still.
# Method: configs/ has, by its date, all that fmove.conf could say then, each option once. A file there is never changed; one is added when a
#         version is released. fmove and both daemons take it.
. "$(dirname "$0")/lib.sh"
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cli.XXXXXX") && mkdir "$dir/w" && cd "$dir/w" || exit 1
trap down EXIT

fmove keygen node.key >out 2>err || bad "no key: $(cat err)"
mkdir data
id=6d0d0b6e-2b0e-4b0e-8b0e-000000000001
count=0
for old in "$FM_SOURCE"/tests/cli/configs/*.conf; do
	count=$((count + 1))
	cp "$old" conf
	ok fmove config check conf
	grep -q 'ok: node n1, 1 store, 1 peer, [01] volumes*$' out || bad "${old##*/}: $(cat out)"
	# Its accounts, directories and names for NVMe are another machine's.
	sed -i "/^sockets = /,/^} );/d; s,/var/lib/fmove,$dir/w,; s/host_nqn = .*/host_nqn = \"nqn.2014-08.org.nvmexpress:uuid:$id\";/
		s/host_id = .*/host_id = \"$id\";/" conf
	ok fmoved --config conf --check
	! grep -q '^nvme = ' conf || ok fmove-nvmed --config conf --check
done
[ $count -ge 2 ] || bad "there are no configurations in $FM_SOURCE/tests/cli/configs"
