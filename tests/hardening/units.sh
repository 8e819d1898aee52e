#!/bin/bash
# SPDX-License-Identifier: MIT
#
# units.sh DIR - what each unit in DIR says of itself, and what `systemd-analyze security` says of it.
#
# Goal:   a unit keeps what was taken from it: capabilities, devices, system calls. Its text names pages that there are, and says of its daemon
#         what that daemon's page says.
# Method: the score of each unit, from 0 (has nothing) to 10; it is printed, and may not be above what it was when this was written. The text
#         beside the pages of the source tree.
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

# ---- what they say

top=$(cd "$(dirname "$0")/../.." && pwd)
status=0
wrong() {
	echo "FAIL: $*"
	status=1
}

# page NAME.SECTION: its file.
page() {
	find "$top" -path "$top/build" -prune -o -name "$1" -print | head -n 1
}

for file in "$dir"/*.service; do
	grep -q '^Description=fmove ' "$file" || wrong "${file##*/}: a Description= that does not say whose it is"
	# shellcheck disable=SC2013 # words
	for name in $(sed -n 's/^Documentation=//p' "$file"); do
		name=$(sed -E 's/^man:(.*)\(([0-9])\)$/\1.\2/' <<< "$name")
		[ -n "$(page "$name")" ] || wrong "${file##*/}: no page $name"
	done
done
for daemon in fmoved fmove-nvmed; do
	says=$(sed -n 's/^Description=fmove [a-z]*: //p' "$dir/$daemon.service")
	sed -n '/^\.SH NAME/{n;s/\\-/-/g;p}' "$(page $daemon.8)" | grep -qF -- "$daemon - " || wrong "$daemon(8) has no NAME"
	sed -n '/^\.SH NAME/{n;s/\\-/-/g;p}' "$(page $daemon.8)" | grep -qF -- "$says" || wrong "$daemon.service says \"$says\", $daemon(8) does not"
done

# What fmove-nvmed opens, by the names of /proc/devices: without one of these a volume can never be connected, mounted, or found to be free.
for allowed in 'char-misc rw' 'char-nvme rw' 'block-blkext rw' 'block-device-mapper r' '/dev/kmsg r'; do
	grep -qxF "DeviceAllow=$allowed" "$dir/fmove-nvmed.service" || wrong "fmove-nvmed.service allows no $allowed"
done
# These are there when its process starts, or never.
for first in modprobe@nvme_tcp.service modprobe@dm_mod.service multipathd.service; do
	sed -n 's/^After=//p' "$dir/fmove-nvmed.service" | tr ' ' '\n' | grep -qxF "$first" || wrong "fmove-nvmed.service does not start after $first"
done
for module in modprobe@nvme_tcp.service modprobe@dm_mod.service; do
	sed -n 's/^Wants=//p' "$dir/fmove-nvmed.service" | tr ' ' '\n' | grep -qxF "$module" || wrong "fmove-nvmed.service does not want $module"
done

# What fmoved may write to below /etc has to be there before its process starts, also on a node that was configured by hand.
made=$(grep '^ExecStartPre=-+' "$dir/fmoved.service" || true)
# shellcheck disable=SC2013 # words
for path in $(sed -n 's/^ReadWritePaths=//p' "$dir/fmoved.service"); do
	[[ $made == *"[ -e ${path#-} ] || install -d "*" ${path#-}'"* ]] || wrong "fmoved.service does not make ${path#-}"
done

[ $status = 0 ] || exit 1

# ---- what they may

command -v systemd-analyze > /dev/null || { echo "SKIP: no systemd-analyze here"; exit 77; }
# All of it is read: who writes on when grep has what it wants is ended, and would be taken for one that lacks it.
systemd-analyze security --help | grep -- --offline > /dev/null || { echo "SKIP: this systemd-analyze looks at no files (--offline, from 250 on)"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/fm-units.XXXXXX")
trap 'rm -rf "$work"' EXIT
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
