#!/bin/bash
# Goal:   the example programs do what their first lines say.
# Method: run them.
. "$(dirname "$0")/lib.sh"
examples=${FM_BUILD:-$FMOVE_BIN/..}/examples
[ -x "$examples/example-01-put" ] || skip "the examples are not built"
up 2
random 200000 f
ok "$examples/example-01-put" f n2 s example
same f "$(store 2)/example"
grep -q '200000 bytes' out || bad "01-put says: $(cat out)"
"$examples/example-01-put" f n2 s example 2>err
[ $? -eq 6 ] || bad "01-put of a name that exists: $(cat err)"
ok "$examples/example-02-get" n2 s example back
same f back
ok "$examples/example-03-ranges" n2 s example
grep -q "^108 bytes of version .*; the first is $(head -c 1 f | od -An -tx1 | tr -d ' ')$" out || bad "03-ranges says: $(cat out)"
ok "$examples/example-07-buffer" n2 s buffer
grep -q '^1000000 bytes came back, the first is 2$' out || bad "07-buffer says: $(cat out)"
"$examples/example-02-get" n2 s nothing nothing 2>err
[ $? -eq 1 ] && [ ! -e nothing ] || bad "02-get of nothing: $(cat err)"
mkdir parts
for i in 1 2 3 4 5; do random 100000 parts/f$i; done
ok "$examples/example-04-async" n2 s async parts/f*
for i in 1 2 3 4 5; do same parts/f$i "$(store 2)/async/f$i"; done
[ "$(grep -c '^parts/f[1-5]: 100000 bytes$' out)" -eq 5 ] || bad "04-async says: $(cat out)"
"$examples/example-04-async" n2 s async parts/f1 parts/missing 2>err >out
[ $? -ne 0 ] && grep -q 'parts/missing: .*No such' err && grep -q 'parts/f1: .*exists' err || bad "04-async of what cannot be put: $(cat err)"
ok "$examples/example-05-threads" n2 s example 300
grep -q '^300 threads$' out || bad "05-threads says: $(cat out)"
ok "$examples/example-06-group" n2 s ckpt parts/f*
for i in 1 2 3 4 5; do same parts/f$i "$(store 2)/ckpt/f$i"; done
grep -q '^5 files are at n2:s/ckpt$' out || bad "06-group says: $(cat out)"
"$examples/example-06-group" n2 s other parts/f1 parts/missing 2>err
[ $? -eq 1 ] && [ ! -e "$(store 2)/other" ] || bad "06-group of what cannot be put: $(cat err)"
fmove group list n2:s >out 2>&1
! grep -q other out || bad "06-group leaves a group: $(cat out)"
