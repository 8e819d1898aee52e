#!/bin/bash
# Goal:   a node that joins while the configuration is read again is not taken for one that was removed.
# Method: a store whose quota changes is counted again by each reload, which takes long enough for a join; until one came in between.
. "$(dirname "$0")/lib.sh"
up 1
conf=$dir/c/n1/fmove.conf
log=$dir/c/n1/log
mkdir "$dir/many"
(cd "$dir/many" && seq 30000 | xargs touch)
sed -i "s,^\([[:space:]]*\)stores = (,&\n { name = \"many\"; directory = \"$dir/many\"; quota = \"1GiB\"; }\,," "$conf"
take_over 1

# line_of PATTERN: of the last line in the log that matches.
line_of() {
	grep -En "$1" "$log" | tail -n 1 | cut -d : -f 1
}

is_between=
where=$(sed -n 's/.*listen = "\(.*\)";.*/\1/p' "$conf")
for ((i = 0; i < 20; i++)); do
	ok fmove invite --dir "$dir/c/n1" --address "$where"
	address=$(cut -d ' ' -f 3 out) token=$(cut -d ' ' -f 4 out)
	sed -i "s/quota = \"[0-9]*GiB\"/quota = \"$((i + 2))GiB\"/" "$conf"
	before=$(grep -c ': reloaded' "$log")
	kill -HUP "$(cat "$dir/c/n1/pid")"
	ok fmove join --dir "$dir/new$i" --node "new$i" "$address" "$token"
	# The join ended first, and what it wrote came in while the store was counted.
	[ "$(grep -c ': reloaded' "$log")" -gt "$before" ] || is_between=1
	await reloaded_more "$log" "$before" || bad "n1 does not reload"
	grep "peer \"new$i\" is gone" "$log" && bad "new$i joined, and was taken for removed"
	fmove status | grep -q "new$i" || bad "new$i is no peer: $(fmove status)"
	[ -z "$is_between" ] || break
done
[ -n "$is_between" ] || bad "no join ended while the configuration was read"
