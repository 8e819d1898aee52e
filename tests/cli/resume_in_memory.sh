#!/bin/bash
# Goal:   as resume.sh, where source and target are in memory (tmpfs): what was written there
#         before a cut or a crash is as good as what is on a disk.
[ "$(stat -f -c %T /dev/shm)" = tmpfs ] || { echo "SKIP: /dev/shm is no tmpfs"; exit 77; }
export TMPDIR=/dev/shm
# shellcheck source=tests/cli/resume.sh
. "$(dirname "$0")/resume.sh"
