# SPDX-License-Identifier: MIT
# host.sh - what `run` and `prepare` share on the host's side; sourced, never run.
# shellcheck shell=bash disable=SC2034

lab_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
top_dir=$(cd "$lab_dir/../.." && pwd -P)
cache_dir=$(realpath -m "${FMOVE_LAB_CACHE:-${HOME:-/root}/.cache/fmove-lab}")

# The exit status that CTest's SKIP_RETURN_CODE counts as "not run".
SKIPPED=77

say() {
	printf 'lab: %s\n' "$*" >&2
}

die() {
	say "$*"
	exit 1
}

# On stdout, so that the reason stands in CTest's log whatever happens to stderr.
skip() {
	printf 'SKIP: %s\n' "$*"
	exit "$SKIPPED"
}
