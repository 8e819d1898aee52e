/* SPDX-License-Identifier: MIT */
/*
 * mend - a damaged chunk of a dataset is written again.
 *
 * In place: who has the file open or mapped reads the right bytes from then on. The file is one
 * that a cache took the right to write from; it has that right only while the chunk is written.
 * Worker threads; waits for the disk.
 */
#ifndef FM_STAGE_MEND_H
#define FM_STAGE_MEND_H

#include <stdint.h>

/* What a manifest says of it. */
struct fm_stage_bad {
	uint64_t offset;
	uint32_t len;		/* FM_STAGE_CHUNK at most */
	uint32_t crc;
};

/*
 * What stands at from_at of `from` goes into the file `path` below root, if its CRC is the one that
 * is wanted; durable. -EBADMSG: from has other bytes. -ESTALE: path is no file of that size any
 * more. A crash in the midst leaves the chunk damaged, or the file with another time.
 */
int fm_stage_mend(int root, const char *path, int from, uint64_t from_at,
		  const struct fm_stage_bad *bad);

#endif
