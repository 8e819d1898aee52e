/* SPDX-License-Identifier: MIT */
/* layout - see layout.h. */
#include "mover/data/layout.h"

#include <assert.h>
#include <errno.h>

#include "mover/base/block.h"
#include "mover/base/err.h"
#include "mover/base/ring.h"
#include "mover/data/xfer.h"
#include "mover/store/store.h"

/* ---- files ---- */

/* The stretch of data at or behind next_offset. A stream at the far end cannot seek over holes: it
 * gets their zeros. */
static bool knows_data(struct fm_xfer *x, uint64_t *from, uint64_t *to)
{
	*from = x->next_offset;
	*to = x->o.size;
	if (!x->o.file->ops->next_data || x->o.is_ordered)
		return true;
	if (!x->has_looked) {
		x->is_look_due = true;
		return false;
	}
	x->has_looked = false;
	*from = x->looked_from;
	*to = x->looked_to;
	return true;
}

/* Move next_offset to the next byte of data that is not at the far end already; false when there is
 * none, or it is to be looked for. */
static bool seek_data(struct fm_xfer *x)
{
	uint64_t from, to, gap_to;

	if (x->next_offset < x->run_to)
		return true;
	while (x->next_offset < x->o.size) {
		fm_ranges_gap(&x->have, x->next_offset, &x->next_offset, &gap_to);
		if (x->next_offset >= x->o.size)
			break;
		if (!knows_data(x, &from, &to))
			return false;
		/* Whole blocks, so that what one stretch leaves over is not sent twice by the
		 * next. The size is no such stretch: behind a hole at the end there is nothing. */
		from = from < x->o.size ? fm_block_down(from) : x->o.size;
		x->next_offset = from > x->next_offset ? from : x->next_offset;
		to = fm_block_up(to);
		to = to < gap_to ? to : gap_to;
		x->run_to = to < x->o.size ? to : x->o.size;
		if (x->next_offset < x->run_to)
			return true;
	}
	x->is_at_end = true;
	fm_xfer_tell_if_sent(x);
	return false;
}

static bool file_next(struct fm_xfer *x, struct fm_chunk *out)
{
	uint64_t grid_end;

	if (x->is_at_end || !seek_data(x))
		return false;
	grid_end = (x->next_offset / x->o.chunk_bytes + 1) * x->o.chunk_bytes;
	if (grid_end > x->run_to)
		grid_end = x->run_to;
	*out = (struct fm_chunk){.seq = x->next_seq++,
				 .offset = x->next_offset,
				 .len = (uint32_t)(grid_end - x->next_offset)};
	x->next_offset = grid_end;
	if (grid_end == x->o.size)
		x->is_at_end = true;
	return true;
}

static bool file_read(struct fm_xfer *x, struct fm_chunk *chunk, int64_t res)
{
	if (res >= (int64_t)chunk->len)
		return true;
	if (res < 0)
		fm_xfer_fail_io(x, (int)res, "read the source", chunk->offset);
	else
		fm_xfer_fail(x, -ESTALE,
			     "the source changed while it was read: it ends at byte %llu now",
			     (unsigned long long)chunk->offset + (unsigned long long)res);
	return false;
}

static uint64_t file_at(const struct fm_chunk *chunk)
{
	return chunk->offset;
}

static uint64_t file_size(const struct fm_xfer *x)
{
	return x->o.size == FM_SIZE_UNKNOWN ? x->next_offset : x->o.size;
}

/* ---- streams ---- */

/* How long it is shows when it is read, so it has its number then. */
static bool stream_next(struct fm_xfer *x, struct fm_chunk *out)
{
	if (x->is_at_end || fm_fill_is_reading(x))
		return false;
	*out = (struct fm_chunk){
		.seq = x->next_seq, .offset = x->next_offset, .len = x->o.chunk_bytes};
	return true;
}

static bool stream_read(struct fm_xfer *x, struct fm_chunk *chunk, int64_t res)
{
	if (res < 0) {
		fm_xfer_fail_io(x, (int)res, "read the source", x->next_offset);
		return false;
	}
	x->is_at_end = res < (int64_t)x->o.chunk_bytes;
	if (res == 0) {
		fm_xfer_tell_if_sent(x);
		return false;
	}
	*chunk = (struct fm_chunk){
		.seq = x->next_seq++, .offset = x->next_offset, .len = (uint32_t)res
	};
	x->next_offset += chunk->len;
	return true;
}

static uint64_t stream_at(const struct fm_chunk *chunk)
{
	(void)chunk;
	return FM_IO_STREAM;
}

/* ---- trees ---- */

static bool pack_next(struct fm_xfer *x, struct fm_chunk *out)
{
	if (x->is_at_end)
		return false;
	*out = (struct fm_chunk){
		.seq = x->next_seq++, .offset = x->next_offset, .len = x->o.chunk_bytes};
	x->next_offset += x->o.chunk_bytes;
	return true;
}

static bool pack_read(struct fm_xfer *x, struct fm_chunk *chunk, int64_t res)
{
	if (res == -EAGAIN) {		/* there is none yet */
		fm_xfer_put_off(x, chunk);
		return false;
	}
	if (res < 0)
		return file_read(x, chunk, res);
	chunk->len = (uint32_t)res;
	x->is_at_end |= res == 0;	/* that number does not exist */
	/* What did not fit it is there for another. Behind the end, numbers that wait to be asked
	 * for again do not exist either. */
	fm_xfer_feed(x);
	if (res == 0)
		fm_xfer_tell_if_sent(x);
	return res > 0;
}

static uint64_t pack_at(const struct fm_chunk *chunk)
{
	return chunk->seq;
}

static uint64_t packs_size(const struct fm_xfer *x)
{
	return x->chunks * x->o.chunk_bytes;
}

/* ---- the tables ---- */

static const struct fm_layout file_layout = {
	.has_places = true,
	.begins_on_blocks = true,
	.ends_on_blocks = true,
	.places = FM_BESIDE_CHUNKS_MAX,
	.at = file_at,
	.next = file_next,
	.read = file_read,
	.size = file_size,
};

static const struct fm_layout stream_layout = {
	.is_in_order = true,
	.places = FM_BESIDE_STREAM_CHUNKS_MAX,
	.at = stream_at,
	.next = stream_next,
	.read = stream_read,
	.size = file_size,
};

static const struct fm_layout tree_layout = {
	.is_made = true,
	.is_checked_by_writer = true,
	.begins_on_blocks = true,
	.places = FM_BESIDE_CHUNKS_MAX,
	.at = pack_at,
	.next = pack_next,
	.read = pack_read,
	.size = packs_size,
};

const struct fm_layout *fm_layout_of(const struct fm_file *file)
{
	if (file && file->is_stream)
		return &stream_layout;
	return file && file->tree ? &tree_layout : &file_layout;
}
