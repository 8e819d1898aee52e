/* SPDX-License-Identifier: MIT */
/*
 * block - the grid that the bytes of a file lie on.
 *
 * Direct I/O wants offsets, lengths and memory at multiples of it, also where a device's block is
 * smaller. So chunks, what a journal says is there, and what is asked for again begin there, and
 * end there or with the file. The wire and the journal have it: another number is another version
 * of both.
 */
#ifndef FM_BASE_BLOCK_H
#define FM_BASE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FM_BLOCK 4096u
#define FM_SECTOR 512u			/* a device moves no less */

static inline uint64_t fm_block_down(uint64_t at)
{
	return at - at % FM_BLOCK;
}

/* at + FM_BLOCK does not overflow. */
static inline uint64_t fm_block_up(uint64_t at)
{
	return fm_block_down(at + FM_BLOCK - 1);
}

/* Whether a stretch from offset to end may be one of a file of size bytes. */
static inline bool fm_block_is_stretch(uint64_t offset, uint64_t end, uint64_t size)
{
	return offset % FM_BLOCK == 0 && (end % FM_BLOCK == 0 || end == size);
}

/*
 * Changes something in each sector of memory that is to be read into and compared. Else what was
 * there, of this chunk or of one like it, could be found where a device says that it read and moved
 * nothing.
 */
static inline void fm_block_spoil(void *memory, size_t len)
{
	uint8_t *bytes = memory;

	for (size_t at = 0; at < len; at += FM_SECTOR)
		bytes[at] ^= 0xff;
}

#endif
