/* SPDX-License-Identifier: MIT */
/*
 * older - what did not change since a version of the source that is READY here: of the newest the
 * one that has most of it. Of a hub's repository any commit counts.
 *
 * Files of one source that have the same path, size and time are unchanged, as the listing has it
 * for the whole. They are taken from the disk, after they were compared with the CRCs of the older
 * version. Worker; waits for the disk.
 */
#ifndef FM_STAGE_OLDER_H
#define FM_STAGE_OLDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
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
	const atomic_bool *is_stopped;	/* looked at for each chunk; NULL: never */
	_Atomic uint64_t *bytes_done;	/* added to for each chunk that was read; NULL allowed */
	/* Said at the end: bytes that were taken, and those of them that are hard links. */
	uint64_t bytes, linked;
};

/*
 * 1: what could be taken is below FM_STAGE_TAKEN. 0: there is no older version. -ECANCELED: it was
 * stopped; what was taken stays. Twice is fine.
 */
int fm_stage_older_take(struct fm_stage_older *o, struct fm_cache_fetch *f, struct fm_err *err);

/*
 * The same by extents, for what is laid out (laid.h). Each is copied: what was laid out is written
 * to, so it shares no file with the older version. That stays until it is closed.
 */
struct fm_older_extents;

/* draft: of the new version, which has so many. NULL: there is no older one, or it is of no use. */
struct fm_older_extents *fm_older_extents_open(struct fm_cache *cache, const char *source,
					       int draft, uint32_t count);
/* Whether all of its files are unchanged, as the listing has it. */
bool fm_older_extents_has(const struct fm_older_extents *o, uint32_t n);
/* Into buf, which has room for it. false: it is damaged. */
bool fm_older_extents_read(const struct fm_older_extents *o, uint32_t n, uint8_t *buf, size_t len,
			   uint32_t *crc);
void fm_older_extents_close(struct fm_older_extents *o);	/* NULL is allowed */

#endif
