#!/bin/bash
# Goal:   a single file is staged as a directory is, of another node and of a store of this one: the path is the file's, it is
#         whole and read-only, fetched once, and never a mixture.
# Method: real daemons. What is READY is compared with its source. The source changes, before and while it comes; the daemon is
#         killed in the midst; another source has the same bytes, or the same CRCs and others.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "200MiB"; grace = "0s"; };'
up 2

# staged SOURCE: it comes, is the file that it should be, and the path is said.
staged() {
	data=$(fmove stage "$1" 2>err) || bad "stage $1: $(cat err)"
	grep -q 'fetched as' err || bad "$1 was not fetched: $(cat err)"
	[ -f "$data" ] && [ "$(basename "$data")" = "$(basename "$1")" ] || bad "no path of a file: $data"
	same "$2" "$data"
	[ "$(stat -c %Y "$data")" = "$(stat -c %Y "$2")" ] || bad "another time"
	[ -z "$(find "$data" -perm /222)" ] || bad "it can be written to"
	[ "$(sha256sum <"$(dirname "$data")/.manifest" | cut -d ' ' -f 1)" = "$(basename "$(dirname "$data")")" ] ||
		bad "its directory is not called after its manifest"
	[ "$(ls -A "$(dirname "$data")" | grep -v '^\.' | wc -l)" -eq 1 ] || bad "more than the file: $(ls -A "$(dirname "$data")")"
	[ "$(fmove stage "$1" 2>err)" = "$data" ] && grep -q 'unchanged' err || bad "the second time: $(cat err)"
}

for n in 1 2; do
	mkdir "$(store $n)/d"
	random $((n * 9000001)) "$(store $n)/d/model$n"
	truncate -s 15000000 "$(store $n)/d/holes$n"
	echo tail >>"$(store $n)/d/holes$n"
	echo small >"$(store $n)/small$n"
	: >"$(store $n)/empty$n"
done
for f in d/model2 d/holes2 small2 empty2; do staged "n2:s/$f" "$(store 2)/$f"; done
for f in d/model1 d/holes1 small1 empty1; do staged "s/$f" "$(store 1)/$f"; done
(($(stat -c %b "$(fmove stage s/d/holes1 2>err)") * 512 < 1000000)) || bad "a hole was filled"
ok fmove stage n1:s/small1 -- sh -c 'grep -qx small "$FMOVE_STAGED"'
[ "$(basename "$(fmove stage --as other n2:s/small2 2>err)")" = other ] || bad "another name: $(cat err)"

# A directory of one file is not that file.
mkdir "$(store 2)/one"
cp -a "$(store 2)/small2" "$(store 2)/one/small2"
data=$(fmove stage n2:s/one 2>err) && [ -d "$data" ] || bad "a directory of one file: $(cat err)"

# The same bytes in one store, of one name and time, are here once; a file with its CRC32C and other bytes is told. Of two stores there are two copies.
mkdir "$(store 2)/x" "$(store 2)/y"
cp -a "$(store 2)/d/model2" "$(store 2)/x/model2"
cp -a "$(store 2)/d/model2" "$(store 1)/d/model2"
far=$(fmove stage n2:s/d/model2 2>err)
[ "$(fmove stage n2:s/x/model2 2>err)" = "$far" ] || bad "the same bytes are here twice: $(cat err)"
own=$(fmove stage s/d/model2 2>err) && same "$(store 1)/d/model2" "$own"
[ "$own" != "$far" ] || bad "two stores share a copy: $(cat err)"
echo 'evil weightsUWQZQPVQQP' >"$(store 2)/y/w"
echo 'good weightsPPPPPPPPPP' >"$(store 2)/x/w"
touch -d '2020-01-01 00:00:00' "$(store 2)/y/w" "$(store 2)/x/w"
ok fmove stage n2:s/y/w -- true
no 6 'other bytes' fmove stage n2:s/x/w

# A change is another version.
echo more >>"$(store 2)/small2"
staged n2:s/small2 "$(store 2)/small2"
echo more >>"$(store 1)/small1"
staged s/small1 "$(store 1)/small1"

# SIGKILL in the midst: nothing of it is ready; the next one is whole.
random 30000000 "$(store 2)/large"
slow 2
fmove stage n2:s/large >out 2>err &
stager=$!
moved large 3000000
crash n1
wait $stager && bad "it ended well without its daemon"
fast 2
start_again n1
reachable 2
fmove datasets --json | grep -q '"name":"large","state":"ready"' && bad "half of it is ready: $(fmove datasets)"
staged n2:s/large "$(store 2)/large"

# It changes while it comes: told, and nothing of it stays.
random 30000000 "$(store 2)/moving"
slow 2
fmove stage n2:s/moving >out 2>err &
stager=$!
moved moving 2000000
echo late >>"$(store 2)/moving"
fast 2
wait $stager && bad "what changed while it came is ready: $(cat out)"
grep -q 'changed while' err || bad "a source that changes: $(cat err)"
fmove datasets --json | grep -q '"name":"moving"' && bad "something of it stays: $(fmove datasets)"

no 1 'nowhere' fmove stage n2:s/d/nowhere
exit
