#!/bin/bash
# Goal:   many at once, and several in one command, do not disturb each other.
# Method: 32 puts at once; readers and writers of one name at once; sources of which some cannot be read.
. "$(dirname "$0")/lib.sh"
up 3

# 32 at once, to two nodes.
random 1500013 f
for i in $(seq 32); do
	fmove put -q f "n$((i % 2 + 2)):s/many/$i" 2>"err$i" || echo "$i: $(cat "err$i")" >>failed &
done
wait
[ -e failed ] && bad "of 32 puts: $(cat failed)"
for i in $(seq 32); do
	same f "$(store $((i % 2 + 2)))/many/$i"
done

# Whoever reads a name while it is replaced sees one of the files, never a mixture. The last writer wins.
head -c 4000000 /dev/zero | tr '\0' a >a
head -c 4000000 /dev/zero | tr '\0' b >b
ok fmove put a n2:s/one
for i in 1 2 3 4; do
	fmove put -q -f a n2:s/one 2>>errs || echo put >>failed &
	fmove put -q -f b n2:s/one 2>>errs || echo put >>failed &
	fmove get -q n2:s/one "got$i" 2>>errs || echo get >>failed &
done
wait
[ -e failed ] && bad "put and get of one name at once: $(cat failed errs)"
for i in 1 2 3 4; do
	cmp -s "got$i" a || cmp -s "got$i" b || bad "got$i is a mixture"
done
cmp -s "$(store 2)/one" a || cmp -s "$(store 2)/one" b || bad "what is left is a mixture"

# Only one of several that may not replace gets the name.
done=0
for i in 1 2 3 4 5 6; do
	(fmove put -q a n2:s/race 2>/dev/null; echo $? >"race$i") &
done
wait
for i in 1 2 3 4 5 6; do
	[ "$(cat "race$i")" -eq 0 ] && done=$((done + 1))
	case $(cat "race$i") in 0 | 6) ;; *) bad "race: exit $(cat "race$i")" ;; esac
done
[ $done -eq 1 ] || bad "$done of 6 puts without --force got the name"

# Several sources: all, some, none.
for i in 1 2 3; do random $((i * 1000)) "s$i"; done
ok fmove put s1 s2 s3 n2:s/several/
for i in 1 2 3; do same "s$i" "$(store 2)/several/s$i"; done
no 3 'nothing: No such file' fmove put -q s1 nothing s3 n2:s/partly/
same s3 "$(store 2)/partly/s3"
no 6 'exists' fmove put -q s1 n2:s/several/
no 2 'go into a directory' fmove put s1 s2 n2:s/race
fmove put --json -q s1 nothing s3 n2:s/json/ >out 2>err
[ $? -eq 3 ] || bad "put of several with --json"
grep -q '"done":2,"failed":1' out && grep -q '"exit":3}' out && grep -q '"code":"ENOENT"' out || bad "JSON: $(cat out)"
fmove put s1 s2 n9:s/x/ >out 2>err && bad "unknown node"
no_partials
