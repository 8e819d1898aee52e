#!/bin/bash
# SPDX-License-Identifier: MIT
#
# programs.sh DIR - what the programs in DIR were built with, as they are installed.
#
# Goal:   every program and the library have what the compiler can give them against mistakes of ours.
# Method: readelf and objdump: position-independent, relocations read-only before main(), no executable stack, stack protector, checked
#         calls (_FORTIFY_SOURCE), and landing pads for indirect branches (CET, BTI) with signed returns (PAC) where the processor has them.
set -euo pipefail
dir=$1
status=0

bad() {
	echo "FAIL: $*"
	status=1
}

# Counts lines; grep -q would end what is before it in the pipe.
has() {
	[ "$(grep -cE "$1" || true)" -gt 0 ]
}

# code_of MACHINE FILE: what its processor is to do; another one's takes its own tool, which comes with its compiler.
code_of() {
	if [ "$(uname -m)" = "$1" ]; then
		objdump -d "$2"
	else
		"$1-linux-gnu-objdump" -d "$2"
	fi
}

branches() {
	case $(LC_ALL=C readelf -hW "$1" | sed -n 's/^ *Machine: *//p') in
	*X86-64)	code_of x86_64 "$1" | has '\sendbr64' || bad "$1: no landing pads (CET)" ;;
	AArch64)	code_of aarch64 "$1" | has '\sbti\s' || bad "$1: no landing pads (BTI)"
			code_of aarch64 "$1" | has '\spaciasp' || bad "$1: returns are not signed (PAC)" ;;
	esac
}

look() {
	local file=$1

	readelf -hW "$file" | has 'Type: +DYN' || bad "$file: has a fixed address"
	readelf -lW "$file" | has 'GNU_RELRO' || bad "$file: no relocations that become read-only"
	readelf -dW "$file" | has '(BIND_NOW|FLAGS.*NOW)' || bad "$file: symbols are looked up late, and their table stays writable"
	readelf -lW "$file" | has 'GNU_STACK.* RWE' && bad "$file: its stack is executable"
	readelf -sW "$file" | has '__stack_chk_fail' || bad "$file: no stack protector"
	readelf -sW "$file" | has '__[a-z]+_chk(@|$)' || bad "$file: no checked calls (_FORTIFY_SOURCE)"
	branches "$file"
}

[ -x "$dir/fmoved" ] || { echo "SKIP: no programs in $dir: make builds them"; exit 77; }
[ "$(readelf -sW "$dir/fmoved" | grep -c __asan_init || true)" = 0 ] || { echo "SKIP: $dir has no release build"; exit 77; }
for file in "$dir"/fmove "$dir"/fmove-full "$dir"/fmoved "$dir"/fmove-nvmed "$dir"/../lib/libfmove.so; do
	look "$file"
	echo "looked at $file"
done
exit $status
