/* SPDX-License-Identifier: MIT */
/*
 * measure - what the files of a directory take at least, so that an end without room for them can
 * refuse before the first byte comes.
 */
#ifndef FM_TREE_MEASURE_H
#define FM_TREE_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Bytes of the files below root, which stays the caller's; excludes and skips as in struct
 * fm_tree_source_opts. Holes take none, and a file with several names counts once. limit_ns: what
 * was not met by then does not count; 0: no limit. Best effort: 0 if the directory cannot be read,
 * since whoever sends it says what is wrong with it. May wait for a disk.
 */
uint64_t fm_measure(int root, const char *const *excludes, bool (*skips)(const char *name),
		    uint64_t limit_ns);

#endif
