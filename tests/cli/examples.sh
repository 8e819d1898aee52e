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
"$examples/example-02-get" n2 s nothing nothing 2>err
[ $? -eq 1 ] && [ ! -e nothing ] || bad "02-get of nothing: $(cat err)"
