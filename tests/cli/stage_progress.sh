#!/bin/bash
# Goal:   the progress line of fmove stage moves while one large extent comes, since bytes are counted and not extents; fmove datasets says
#         what is done for it, and that nothing is. How full the cache is stands in fmove, status, top and datasets, what is still to come with it.
# Method: a directory with one file of 24 MB, which is one extent, comes from a slow node to a terminal. The daemon is killed meanwhile.
. "$(dirname "$0")/lib.sh"
command -v script >/dev/null || skip "no script(1), which gives a terminal"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };'
up 2

mkdir "$(store 2)/set"
random 24000000 "$(store 2)/set/large"
slow 2
script -qfec 'fmove stage n2:s/set' line </dev/null >/dev/null 2>&1 &
stager=$!

# Some of it, but not all; or it has come, and nobody saw that.
some() {
	tr '\r' '\n' <line | grep -q '[1-9][0-9.]* [kM]B of 24.0 MB' && ! is_whole || ! kill -0 $stager
}
is_whole() {
	[ "$(tr '\r' '\n' <line | grep -o '[0-9.]* [kM]*B of 24.0 MB' | grep -v '^0 B' | head -n 1)" = '24.0 MB of 24.0 MB' ]
}
await some || bad "nothing comes: $(tail -c 300 line)"
kill -0 $stager 2>/dev/null && ! is_whole || bad "it came in one piece: $(tail -c 300 line)"
fmove datasets | grep -q '^fetching .* set ' || bad "it is said to be: $(fmove datasets)"
crash n1
wait $stager
start_again n1
fmove datasets | grep -q '^partial .* set ' || bad "nobody fetches it, but: $(fmove datasets)"

# full WHAT SIZE USED PROMISED: of 1 GiB, in each of the places that say it.
full() {
	local view line="$2 of 1.07 GB used$3"

	for view in "" status "top --once"; do
		# shellcheck disable=SC2086
		fmove $view >out 2>err || bad "fmove $view: $(cat err)"
		grep -q "^\(cache\|all\)  *$line *\$" out || bad "$1: no \"$line\" in fmove $view: $(cat out)"
	done
	fmove status --json >out
	fmove datasets --nodes none --json >row
	[ "$(json size row) $(json used row)" = "1073741824 $4" ] || bad "$1: datasets --json: $(cat row)"
	grep -qF "\"cache\":{\"size\":1073741824,\"used\":$4,\"promised\":$(json promised row)}" out || bad "$1: status --json: $(cat out)"
}
used=$(fmove datasets --nodes none --json >row && json used row)
full "by half" "24.0 MB" ", [0-9.]* [kM]*B of it still to come" "$used"
[ "$(json promised row)" -gt 0 ] && [ "$(json promised row)" -le "$used" ] || bad "by half, promised: $(cat row)"
reachable 2
fast 2
ok fmove stage n2:s/set
full whole "24.0 MB" "" "$(json used row)"
[ "$(json promised row)" = 0 ] || bad "whole, promised: $(cat row)"
fmove datasets | grep -q '^ready .* set ' || bad "it is here, but: $(fmove datasets)"
exit
