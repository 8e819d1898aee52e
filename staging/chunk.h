/* SPDX-License-Identifier: MIT */
/*
 * chunk - a chunk of a file as a manifest has it, read from the disk. Waits for the disk.
 */
#ifndef FM_STAGE_CHUNK_H
#define FM_STAGE_CHUNK_H

#include "staging/manifest.h"

struct fm_reading;

/*
 * Memory that extents, and what only makes it faster, leave: with it what is here is written, read
 * again and made READY, which lets go of the rest.
 */
#define FM_STAGE_LEFT (FM_STAGE_CHUNK + (2u << 20))

/*
 * As fm_reading_open() of one name, and without the page cache where the file system can do that.
 */
int fm_stage_chunk_open(int dir, const char *name, struct fm_reading **out);
/* below dir */
int fm_stage_chunk_open_path(int dir, const char *path, struct fm_reading **out);

/* What a chunk is read into: FM_STAGE_CHUNK bytes, from the budget. NULL: no memory. */
uint8_t *fm_stage_chunk_buf_new(void);
/* The same, of bytes that were taken from the budget. NULL: no memory, and they were given back. */
uint8_t *fm_stage_chunk_buf_of_taken(void);
void fm_stage_chunk_buf_free(uint8_t *buf);	/* NULL is allowed */

/* What chunks of one file after the other are read into: as large as the largest needs. */
struct fm_stage_some {
	uint8_t *at;		/* NULL: nothing yet */
	size_t len;		/* of it, from the budget */
};

/*
 * So that a chunk of len bytes, FM_STAGE_CHUNK at most, has room: what was in it is lost if it had
 * none. Only where FM_STAGE_LEFT is left. False: no memory, and it is as it was.
 */
bool fm_stage_some_for(struct fm_stage_some *some, size_t len);
void fm_stage_some_free(struct fm_stage_some *some);	/* all zeros are allowed */

/*
 * Chunk n of the file as it was when it was opened. A hole is not read. -ESTALE: it is shorter now.
 * One thread at a time for each file.
 */
int fm_stage_chunk_read(const struct fm_reading *r, uint64_t n, uint8_t *buf,
			struct fm_stage_chunk *out);

/* Whether these bytes, one at least, are all zero. */
bool fm_stage_is_zero(const uint8_t *at, size_t len);

/* What a manifest says of these bytes of one: at least one of them, FM_STAGE_CHUNK at most. */
struct fm_stage_chunk fm_stage_chunk_of(const uint8_t *buf, uint32_t len);

#endif
