#!/bin/bash
# SPDX-License-Identifier: MIT
#
# units.sh DIR - what `systemd-analyze security` says of each unit in DIR.
#
# Goal:   a unit keeps what was taken from it: capabilities, devices, system calls.
# Method: the score of each unit, from 0 (has nothing) to 10; it is printed, and may not be above what it was when this was written.
set -euo pipefail
dir=$1

# Tenths. What is left is said in the units; 2 of fmoved's are ProtectProc=, which would hide the processes that hold what is staged.
table='
fmoved.service                  23
fmove-nvmed.service             49
fmove-volumes.service           31
fmove-nvme@.service             31
fmove-nvme-ask@.service         31
'

command -v systemd-analyze > /dev/null || { echo "SKIP: no systemd-analyze here"; exit 77; }
systemd-analyze security --help | grep -q -- --offline || { echo "SKIP: this systemd-analyze looks at no files (--offline, from 250 on)"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/fm-units.XXXXXX")
trap 'rm -rf "$work"' EXIT
status=0
while read -r unit most; do
	[ -n "$unit" ] || continue
	file=$work/${unit/@./@x.}
	# The programs of a unit have to exist; these are not installed.
	sed -E 's,^(Exec[A-Za-z]*=-?)[^ ]*,\1/bin/true,' "$dir/$unit" > "$file"
	systemd-analyze security --offline=true --no-pager "$file" > "$work/said" 2>&1 || true
	score=$(sed -nE 's/.*Overall exposure level for [^:]*: ([0-9]+)\.([0-9]).*/\1\2/p' "$work/said")
	[ -n "$score" ] || { echo "FAIL: $unit: no score:"; cat "$work/said"; status=1; continue; }
	score=$((10#$score))
	echo "$unit: $((score / 10)).$((score % 10)), may be $((most / 10)).$((most % 10))"
	if ((score > most)); then
		echo "FAIL: $unit has become more exposed:"
		grep '✗' "$work/said" || true
		status=1
	fi
done <<< "$table"
[ "$(find "$dir" -maxdepth 1 -name '*.service' | wc -l)" = "$(grep -c service <<< "$table")" ] || { echo "FAIL: a unit in $dir is not in the table"; status=1; }
exit $status
