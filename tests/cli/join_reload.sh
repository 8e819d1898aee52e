#!/bin/bash
# Goal:   a node that joins while the configuration is read again is not taken for one that was removed.
# Method: a store whose quota changes is counted again by each reload. n1 reloads for as long as a node joins, until its log says
#         that a node joined within a reload.
. "$(dirname "$0")/lib.sh"
up 1
conf=$dir/c/n1/fmove.conf
log=$dir/c/n1/log
mkdir "$dir/many"
(cd "$dir/many" && seq 30000 | xargs touch)
sed -i "s,^\([[:space:]]*\)stores = (,&\n { name = \"many\"; directory = \"$dir/many\"; quota = \"1GiB\"; }\,," "$conf"
take_over 1

# reloads: n1 reads another quota, again and again, until the file "joining" is gone.
reloads() {
	local gib=1

	while [ -e ../joining ]; do
		gib=$((gib % 1000 + 1))
		sed -i "s/quota = \"[0-9]*GiB\"/quota = \"${gib}GiB\"/" "$conf"
		take_over 1
	done
}

is_within() {
	grep -q 'reload: a node joined meanwhile' "$log"
}

where=$(sed -n 's/.*listen = "\(.*\)";.*/\1/p' "$conf")
for ((i = 0; i < 20; i++)); do
	ok fmove invite --dir "$dir/c/n1" --address "$where"
	address=$(cut -d ' ' -f 3 out) token=$(cut -d ' ' -f 4 out)
	: >joining
	aside reloads
	ok fmove join --dir "$dir/new$i" --node "new$i" "$address" "$token"
	rm joining
	together
	grep "peer \"new$i\" is gone" "$log" && bad "new$i joined, and was taken for removed"
	fmove status | grep -q "new$i" || bad "new$i is no peer: $(fmove status)"
	is_within && break
done
is_within || bad "no node joined while the configuration was read"
