/* SPDX-License-Identifier: MIT */
/*
 * layout - how what is moved lies in chunks. That is all that tells files, streams and trees apart
 * in the data plane, and each is a table here.
 *
 *   file	its chunks lie on a grid of chunk_bytes; holes cut them shorter
 *   stream	one chunk follows the other, here and at the far end, and none can be read again
 *   tree	packs, which go by number: what a number has is made when it is read
 */
#ifndef FM_LAYOUT_H
#define FM_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

struct fm_chunk;
struct fm_file;
struct fm_xfer;

struct fm_layout {
	/* read or written one chunk after the other, over one connection */
	bool is_in_order;
	/* length and existence of a chunk are known when it was read */
	bool is_made;
	/* each byte has its place, so the far end may have some of them already */
	bool has_places;
	/* its writer looks at the CRC: -EBADMSG of a write means that the chunk arrived damaged */
	bool is_checked_by_writer;
	bool begins_on_blocks;		/* its chunks do ... */
	bool ends_on_blocks;		/* ... the last one excepted */
	unsigned places;		/* at most, beside the slots (beside.h) */

	/* For fm_io.offset: where a chunk is read or written. */
	uint64_t (*at)(const struct fm_chunk *chunk);

	/* The rest is of a source, under the lock of the link. */

	/* The next chunk that no one has had yet; false: there is none now. */
	bool (*next)(struct fm_xfer *x, struct fm_chunk *out);

	/* Its read ended with res, bytes or an error. Whether there is something to send; what is
	 * wrong fails the transfer. */
	bool (*read)(struct fm_xfer *x, struct fm_chunk *chunk, int64_t res);

	/* The size of the whole, once all is sent. */
	uint64_t (*size)(const struct fm_xfer *x);
};

const struct fm_layout *fm_layout_of(const struct fm_file *file);

#endif
