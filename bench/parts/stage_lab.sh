# SPDX-License-Identifier: MIT
# stage_lab - what of staging needs a guest of the lab: a volume over NVMe-TCP as the source, and what the page cache grows by.
# shellcheck shell=bash

bench_stage_lab() {
	local line

	lab bench_stage_volume
	compare "stage on one node, large files of a mounted volume behind a limited link, lab, cold" "$work/volume" 1 2 MiB/s \
		"fio on the same files" ">=" 0.95
	lab bench_stage_cached
	read -r _ _ line < "$work/cached"
	absolute "growth of Cached while $line MiB are staged in a guest of $(cut -d ' ' -f 2 "$work/cached") MiB" \
		"$(cut -d ' ' -f 1 "$work/cached")" MiB "<" 64
}
