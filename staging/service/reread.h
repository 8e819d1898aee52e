/* SPDX-License-Identifier: MIT */
/*
 * reread - what a second reading of a source said of it, compared with a dataset that is here.
 *
 * Worker; waits for the disk. -ESTALE: the source is another one than when it was listed. -EBADMSG:
 * it has other bytes, and err says what can be done.
 */
#ifndef FM_STAGE_REREAD_H
#define FM_STAGE_REREAD_H

#include <stdint.h>

struct fm_err;
struct fm_cache;
struct fm_cache_key;
struct fm_stage_offered;
struct fm_stage_totals;

/*
 * The version that the manifest of a READY dataset names, which is that of the dataset or what that
 * is made of (fm_stage_store_version()). Reads all of the manifest.
 */
int fm_stage_reread_version(struct fm_cache *cache, uint64_t id, struct fm_cache_key *out,
			    struct fm_err *err);

/* What the manifest of a READY dataset says in all: that of its source, when it was listed. */
int fm_stage_reread_totals(struct fm_cache *cache, uint64_t id, struct fm_stage_totals *out,
			   struct fm_err *err);

struct fm_stage_reread {
	struct fm_cache *cache;
	uint64_t id;				/* held */
	const struct fm_stage_totals *totals;	/* of the source, by its first listing */
};

/* Of a directory: all that was offered, with CRC32Cs. */
int fm_stage_reread_tree(const struct fm_stage_reread *r, struct fm_stage_offered *o,
			 struct fm_err *err);

/* A dataset of one file: `now` is what the source was when it was read again, crc its CRC32C. */
int fm_stage_reread_file(const struct fm_stage_reread *r, const struct fm_stage_totals *now,
			 uint32_t crc, struct fm_err *err);

#endif
