/* SPDX-License-Identifier: MIT */
/*
 * measure - what the files of a directory take at least, so that an end without room for them can
 * refuse before the first byte comes.
 */
#ifndef FM_TREE_MEASURE_H
#define FM_TREE_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

struct fm_measure_opts {
	/* as in struct fm_tree_source_opts; NULL: none */
	const char *const *excludes;
	bool (*skips)(const char *name);
	uint64_t limit_ns;		/* what was not met by then does not count; 0: no limit */
	bool (*is_ended)(void *ctx);	/* asked before each entry; NULL: nothing ends it */
	void *ctx;
};

/*
 * Bytes of the files below root, which stays the caller's. Holes take none, and a file with several
 * names counts once. Best effort: 0 if the directory cannot be read, since whoever sends it says
 * what is wrong with it. May wait for a disk.
 */
uint64_t fm_measure(int root, const struct fm_measure_opts *opts);

#endif
