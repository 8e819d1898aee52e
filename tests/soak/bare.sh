#!/bin/bash
# SPDX-License-Identifier: MIT
#
# bare.sh - what a Debian that has nothing makes of a copy of what git knows, by the README: make demo, make check.
#
#   tests/soak/bare.sh SUITE [TARGET...]     root; 77 if it cannot run here
#
# The system is made by mmdebstrap in build/bare-SUITE, has make and nothing of this machine but its devices, and is removed if all went
# well. The source is what git knows of this tree, as it is.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd -P)
suite=${1:?usage: bare.sh SUITE [TARGET...]}
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(demo check)
root=$top/build/bare-$suite

skip() {
	echo "SKIP: $*"
	exit 77
}

[ "$(id -u)" = 0 ] || skip "a root of its own takes root"
command -v mmdebstrap >/dev/null || skip "no mmdebstrap"
if [ -z "${FM_BARE_ALONE:-}" ]; then
	FM_BARE_ALONE=1 exec unshare -m bash "$0" "$suite" "${targets[@]}"
fi
rm -rf --one-file-system "$root"
mkdir -p "$root"
mmdebstrap --quiet --variant=minbase --include=make "$suite" "$root" http://deb.debian.org/debian || skip "no $suite to be had"
# Not in /root, which only root may enter: in some tests other users start what was built.
mkdir "$root/srv/fmove"
git -C "$top" ls-files -z | tar -C "$top" -c --null -T - | tar -C "$root/srv/fmove" -x
# A system that was installed has these names.
printf '127.0.0.1 localhost\n::1 localhost ip6-localhost\n' > "$root/etc/hosts"
# Its root is a mount, as that of any system: unshare(1) and ip-netns(8), which give tests networks of their own, change how mounts below "/" spread.
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
for target in "${targets[@]}"; do
	echo "bare: make $target in $suite"
	env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 ${JOBS:+"JOBS=$JOBS"} \
		chroot "$root" make -C /srv/fmove "$target" </dev/null || { echo "FAIL: make $target in a bare $suite"; exit 1; }
done
umount -l "$root/run" "$root/dev" "$root/sys" "$root/proc" "$root"
rm -rf --one-file-system "$root"
echo "in all: a bare $suite passes make ${targets[*]}"
