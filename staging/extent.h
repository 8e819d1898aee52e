/* SPDX-License-Identifier: MIT */
/*
 * extent - how a dataset is cut into what is leased, read and sent at once.
 *
 * The rule needs nothing but the sizes of the files, in canonical order, so that everybody who has
 * the manifest cuts alike:
 *   - A file of FM_STAGE_EXTENT bytes or more is cut into extents of that many bytes; the last one
 *     takes the rest, so it has less than twice as many.
 *   - Smaller files that follow each other are one extent, a *pack*, of FM_STAGE_EXTENT bytes and
 *     FM_STAGE_PACK_FILES files at most. A large file ends a pack.
 *   - What has no bytes (directories, links, empty files) is in no extent: the manifest says it
 *     all.
 */
#ifndef FM_STAGE_EXTENT_H
#define FM_STAGE_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Small enough that FM_RUN_SLOTS of them, and what is sent from the disk, find room in what the
 * default memory.total leaves beside the arena: what finds none comes later, from another disk.
 */
#define FM_STAGE_EXTENT (16u << 20)
#define FM_STAGE_PACK_FILES 16384u

struct fm_stage_extent {
	uint64_t entry_at;	/* where in the manifest the entry of its first file is */
	uint64_t offset;	/* in that file; of a pack 0 */
	uint64_t bytes;
	uint32_t files;		/* that are not empty; of a piece of a large one 1 */
};

/* All zeros at first. */
struct fm_stage_cut {
	struct fm_stage_extent open;	/* the pack that may grow; no files: there is none */
};

/* One extent is finished. A negative errno ends the cutting with it. */
typedef int fm_stage_cut_emit(void *ctx, const struct fm_stage_extent *e);

/* The next file, of size bytes, whose entry is at entry_at. */
int fm_stage_cut_file(struct fm_stage_cut *c, uint64_t entry_at, uint64_t size,
		      fm_stage_cut_emit *emit, void *ctx);

/* There are no more. */
int fm_stage_cut_end(struct fm_stage_cut *c, fm_stage_cut_emit *emit, void *ctx);

#endif
