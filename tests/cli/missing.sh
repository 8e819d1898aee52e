#!/bin/bash
# Goal:   make without the packages ends with the line that installs what is missing, and nothing
#         else: neither more packages nor fewer.
# Method: a tree of links with a build directory of its own; dpkg's own list of what is installed
#         without two packages, and pkg-config without its files, so that configuring fails.
. "$(dirname "$0")/lib.sh"
command -v dpkg-query >/dev/null && [ -e /var/lib/dpkg/status ] || skip "no dpkg"
command -v cmake >/dev/null || skip "no cmake"
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cli.XXXXXX") || exit 1
mkdir "$dir/w" "$dir/tree" "$dir/dpkg" && cd "$dir/w" || exit 1
trap down EXIT
for entry in "$FM_SOURCE"/* "$FM_SOURCE/.ci"; do
	[ "${entry##*/}" = build ] || ln -s "$entry" "$dir/tree/"
done
ln -s /var/lib/dpkg/info /var/lib/dpkg/triggers "$dir/dpkg/" && mkdir "$dir/dpkg/updates"
awk -v RS= -v ORS='\n\n' '!/^Package: (libisal-dev|libconfig-dev)\n/' /var/lib/dpkg/status >"$dir/dpkg/status"
DPKG_ADMINDIR=$dir/dpkg "$FM_SOURCE/.ci/deps" --missing build >expected
[ "$(sed 's/.*--no-install-recommends //' expected)" = 'libisal-dev libconfig-dev' ] || skip "more is missing here: $(cat expected)"

DPKG_ADMINDIR=$dir/dpkg PKG_CONFIG_LIBDIR=$dir make -s -C "$dir/tree" >out 2>&1 && bad "it builds without packages"
grep -qx 'make: missing packages: sudo apt-get install -y --no-install-recommends libisal-dev libconfig-dev' out ||
	bad "make does not say what to install: $(tail -n 5 out)"

# Nothing is missing: another fault is not blamed on packages.
[ -z "$("$FM_SOURCE/.ci/deps" --missing build)" ] || bad "all is there, and it says: $("$FM_SOURCE/.ci/deps" --missing build)"
