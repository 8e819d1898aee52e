#!/bin/bash
# Goal:   the units of staging/examples are units as systemd has them. What they do is lab.stage_unit's.
# Method: systemd-analyze verify, in a directory where they lie as the README puts them, with programs that are there.
. "$(dirname "$0")/lib.sh"
command -v systemd-analyze >/dev/null || skip "no systemd-analyze"
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cli.XXXXXX") || exit 1
trap down EXIT
cd "$dir" || exit 1
cp -r "$FM_SOURCE"/staging/examples/*.service* .
export SYSTEMD_UNIT_PATH=$dir:

# verify: all that it says of them.
verify() {
	systemd-analyze verify --man=no ./train.service ./fmove-stage@imagenet.service 2>&1 | grep -E 'train|fmove-stage'
}

# The programs are missing here, and nothing else is.
sed -i "s,=python3 ,=/bin/true ,; s,=fmove ,=$FMOVE_BIN/fmove ," ./*.service
verify >said && bad "systemd says: $(cat said)"

# It would say so: a word that is none, a unit that is missing.
sed -i 's/^Requires=.*/&\nRequiresAll=x/' train.service
sed -i 's/^NotifyAccess=all/NotifyAccess=everybody/' 'fmove-stage@.service'
verify >said
grep -q "RequiresAll" said && grep -q everybody said || bad "systemd-analyze says nothing of mistakes: $(cat said)"
exit
