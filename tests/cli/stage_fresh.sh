#!/bin/bash
# Goal:   who says --check none has what is here without its source; everybody is told how fresh what he has is.
# Method: real daemons. The source changes, and then its node is stopped, beneath copies that are here; what is not here is
#         fetched all the same; a user who never staged it has no right to the copy.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; grace = "0s"; };'
up 2

mkdir "$(store 2)/set" "$(store 2)/other"
echo one >"$(store 2)/set/f"
echo other >"$(store 2)/other/f"

# What is not here is fetched.
data=$(fmove stage --check none n2:s/set 2>err) && grep -q 'fetched as' err || bad "it is not here, and not fetched: $(cat err)"

# It changes: none does not look, listing does. Of two that are here none takes the one that came last.
echo two, longer >"$(store 2)/set/f"
[ "$(fmove stage --check none n2:s/set 2>err)" = "$data" ] || bad "none looked: $(cat err)"
grep -q 'here, and its source not asked' err || bad "how fresh it is: $(cat err)"
new=$(fmove stage --check listing n2:s/set 2>err) && [ "$new" != "$data" ] || bad "listing did not look: $(cat err)"
[ "$(fmove stage --check none n2:s/set 2>err)" = "$new" ] || bad "an older one: $(cat err)"
fmove stage --json n2:s/set >out 2>err
grep -q '"fetched":false,"check":"listing","job":"[^"]*","exit":0}' out || bad "listing: $(cat out err)"

# Its node is off.
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
no 4 'check none uses the copy that is here' fmove stage n2:s/set
[ "$(fmove stage --check none --json n2:s/set 2>err | grep -o '"fetched":false,"check":"none","job":"[^"]*","exit":0}')" ] ||
	bad "without its node: $(cat err)"
same "$(store 2)/set/f" "$new/f"
fmove stage --check none n2:s/other >out 2>err
[ $? -eq 4 ] && [ ! -s out ] && ! grep -q 'check none' err || bad "what is not here, of a node that is off: $(cat out err)"

no 2 'not listing, none or content' fmove stage --check twice n2:s/set
if [ "$(id -u)" -eq 0 ] && id nobody >/dev/null 2>&1; then
	chmod 755 "$dir/c" "$dir/c/n1"
	as_nobody fmove stage --check none n2:s/set >out 2>err
	[ $? -eq 4 ] && [ ! -s out ] && ! grep -q 'check none' err || bad "nobody has what he never staged: $(cat out err)"
fi
start_again n2
exit
