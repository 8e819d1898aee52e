/* SPDX-License-Identifier: MIT */
/*
 * older - what did not change since the version of a source that is READY here.
 *
 * Files of one source that have the same path, size and time are unchanged, as the listing has it
 * for the whole. They are taken from the disk, after they were compared with the CRCs of the older
 * version. Worker; waits for the disk.
 */
#ifndef FM_STAGE_OLDER_H
#define FM_STAGE_OLDER_H

#include <stdint.h>

struct fm_cache;
struct fm_cache_fetch;
struct fm_err;

/* Where what was taken lies, beside what the cache keeps, until all is there. */
#define FM_STAGE_TAKEN ".taken"

struct fm_stage_older {
	struct fm_cache *cache;
	const char *source;
	int draft;			/* of the new version's manifest (offered.h) */
	/* Said at the end: bytes that were taken, and those of them that are hard links. */
	uint64_t bytes, linked;
};

/*
 * 1: what could be taken is below FM_STAGE_TAKEN. 0: there is no older version. Twice is fine.
 */
int fm_stage_older_take(struct fm_stage_older *o, struct fm_cache_fetch *f, struct fm_err *err);

#endif
