#!/bin/bash
# Goal:   a program that calls libfmove with descriptors, names and options that are none gets an error, goes on, and has lost nothing in a store.
# Method: one program with each mistake (misuse.c), beside real daemons.
. "$(dirname "$0")/lib.sh"
up 2
echo mine >file
ok fmove put file n2:s/there
"$FM_BUILD/bin/misuse" file >out 2>&1 || bad "$(cat out)"
same file "$(store 2)/there"
same file "$(store 2)/here"
