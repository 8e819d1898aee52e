/* SPDX-License-Identifier: MIT */
/*
 * manifest_write - a manifest from front to back, through one buffer. What must wait until the end
 * is the index of extents: 28 bytes each, FM_STAGE_EXTENTS_MAX at most.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/bytes.h"
#include "mover/base/call.h"
#include "mover/base/fault.h"
#include "staging/manifest_priv.h"

#define INDEX_FIRST 64u

struct fm_stage_writer {
	int fd;				/* -1: a listing, see manifest.h */
	bool is_failed;			/* what is in the file is not known */
	uint64_t flushed;		/* bytes that are in the file */
	size_t len;			/* ... and in the buffer behind them */
	uint64_t size;			/* of the file whose chunks are expected ... */
	uint64_t chunk;			/* ... the next one's number ... */
	uint64_t chunks;		/* ... of so many */
	struct fm_stage_so_far so_far;
	struct fm_stage_cut cut;
	struct fm_stage_extent *index;
	uint32_t extents, extents_cap;
	struct fm_sha256 *version, *listing;
	uint8_t buf[FM_STAGE_BUF];
};

/* ---- bytes ---- */

static int flush(struct fm_stage_writer *w)
{
	int ret = 0;

	if (w->fd >= 0)
		ret = FM_FAULT("stage.write")
			      ? -ENOSPC
			      : fm_call_write_all(w->fd, w->buf, w->len, w->flushed);
	w->is_failed = ret < 0;
	if (ret < 0)
		return ret;
	if (w->fd >= 0)
		fm_sha256_add(w->version, w->buf, w->len);
	w->flushed += w->len;
	w->len = 0;
	return 0;
}

/* to: where the next len bytes are to be put. */
static int room(struct fm_stage_writer *w, size_t len, struct fm_writer *to)
{
	int ret = w->is_failed ? -EIO : 0;

	assert(len <= FM_STAGE_BUF);
	if (ret == 0 && FM_STAGE_BUF - w->len < len)
		ret = flush(w);
	if (ret < 0)
		return ret;
	*to = (struct fm_writer){ .at = w->buf + w->len, .end = w->buf + w->len + len };
	w->len += len;
	return 0;
}

static uint64_t position(const struct fm_stage_writer *w)
{
	return w->flushed + w->len;
}

/* ---- from front to back ---- */

static int put_file_head(struct fm_stage_writer *w)
{
	struct fm_writer to;
	int ret = room(w, FM_STAGE_HEAD, &to);

	if (ret < 0)
		return ret;
	fm_put_bytes(&to, FM_STAGE_MAGIC, 8);
	fm_put_le16(&to, FM_STAGE_VERSION);
	fm_put_u8(&to, w->so_far.is_file ? 1 : 0);
	memset(to.at, 0, (size_t)(to.end - to.at));
	return 0;
}

int fm_stage_writer_new(int fd, bool is_file, struct fm_stage_writer **out)
{
	struct fm_stage_writer *w = FM_FAULT("stage.alloc") ? NULL : fm_budget_alloc(sizeof(*w));
	int ret;

	if (!w)
		return -ENOMEM;
	w->fd = fd;
	w->so_far.is_file = is_file;
	w->version = fm_sha256_new();
	w->listing = fm_sha256_new();
	ret = w->version && w->listing ? put_file_head(w) : -ENOMEM;
	if (ret < 0) {
		fm_stage_writer_free(w);
		return ret;
	}
	*out = w;
	return 0;
}

void fm_stage_writer_free(struct fm_stage_writer *w)
{
	if (!w)
		return;
	fm_sha256_free(w->version);
	fm_sha256_free(w->listing);
	fm_budget_free(w->index);
	fm_budget_free(w);
}

static int keep_extent(void *ctx, const struct fm_stage_extent *e)
{
	struct fm_stage_writer *w = ctx;
	uint32_t cap = w->extents_cap ? 2 * w->extents_cap : INDEX_FIRST;
	struct fm_stage_extent *more;

	if (w->extents == FM_STAGE_EXTENTS_MAX)
		return -EFBIG;
	if (w->extents == w->extents_cap) {
		more = FM_FAULT("stage.alloc") ? NULL
					       : fm_budget_realloc(w->index, cap * sizeof(*more));
		if (!more)
			return -ENOMEM;
		w->index = more;
		w->extents_cap = cap;
	}
	w->index[w->extents++] = *e;
	return 0;
}

int fm_stage_writer_entry(struct fm_stage_writer *w, const struct fm_stage_entry *e)
{
	int ret = fm_stage_so_far_add(&w->so_far, e);
	struct fm_writer to;

	assert(w->chunk == w->chunks);
	if (ret == 0)
		ret = fm_stage_cut_file(&w->cut, position(w), e->size, keep_extent, w);
	if (ret == 0)
		ret = room(w, FM_STAGE_ENTRY_HEAD + e->path_len + e->target_len, &to);
	if (ret < 0)
		return ret;
	fm_stage_put_head(&to, e);
	fm_put_bytes(&to, e->path, e->path_len);
	fm_put_bytes(&to, e->target, e->target_len);
	fm_stage_listing_add(w->listing, e);
	w->size = e->size;
	w->chunk = 0;
	w->chunks = w->fd >= 0 ? fm_stage_chunks(e->size) : 0;
	return 0;
}

static void put_chunk(struct fm_writer *to, const struct fm_stage_chunk *c)
{
	fm_put_le32(to, c->crc);
	fm_put_le64(to, c->zeros);
}

int fm_stage_writer_chunk(struct fm_stage_writer *w, const struct fm_stage_chunk *c)
{
	struct fm_writer to = {0};
	int ret = room(w, FM_STAGE_CHUNK_LEN, &to);

	assert(w->chunk < w->chunks);
	assert(fm_stage_is_chunk(c, fm_stage_chunk_len(w->size, w->chunk)));
	if (ret < 0)
		return ret;
	w->chunk++;
	put_chunk(&to, c);
	return 0;
}

int fm_stage_draft_fill(int draft, uint64_t chunks_at, uint64_t n, const struct fm_stage_chunk *c)
{
	uint8_t record[FM_STAGE_CHUNK_LEN];
	struct fm_writer to = { .at = record, .end = record + sizeof(record) };

	put_chunk(&to, c);
	return FM_FAULT("stage.fill") ? -ENOSPC
				      : fm_call_write_all(draft, record, sizeof(record),
							  chunks_at + n * FM_STAGE_CHUNK_LEN);
}

/* ---- the end ---- */

static int put_index(struct fm_stage_writer *w)
{
	for (uint32_t i = 0; i < w->extents; i++) {
		const struct fm_stage_extent *e = &w->index[i];
		struct fm_writer to;
		int ret = room(w, FM_STAGE_INDEX_LEN, &to);

		if (ret < 0)
			return ret;
		fm_put_le64(&to, e->entry_at);
		fm_put_le64(&to, e->offset);
		fm_put_le64(&to, e->bytes);
		fm_put_le32(&to, e->files);
	}
	return 0;
}

static int put_tail(struct fm_stage_writer *w, uint64_t index_at, const struct fm_stage_totals *t)
{
	struct fm_writer to;
	int ret = room(w, FM_STAGE_TAIL, &to);

	if (ret < 0)
		return ret;
	fm_put_le64(&to, t->entries);
	fm_put_le64(&to, t->files);
	fm_put_le64(&to, t->bytes);
	fm_put_le64(&to, index_at);
	fm_put_le32(&to, t->extents);
	fm_put_le32(&to, 0);
	fm_put_bytes(&to, t->listing, FM_SHA256_LEN);
	fm_put_bytes(&to, FM_STAGE_END_MAGIC, 8);
	assert(!to.failed && to.at == to.end);
	return 0;
}

int fm_stage_writer_end(struct fm_stage_writer *w, uint8_t version[FM_SHA256_LEN],
			struct fm_stage_totals *totals)
{
	struct fm_stage_totals t = { .is_file = w->so_far.is_file, .entries = w->so_far.entries,
				     .files = w->so_far.files, .bytes = w->so_far.bytes };
	const struct fm_stage_entry end = { .type = (enum fm_stage_type)FM_STAGE_TYPE_END };
	struct fm_writer to;
	uint64_t index_at;
	int ret;

	assert(w->chunk == w->chunks);
	if (w->so_far.is_file && t.files != 1)
		return -EINVAL;
	ret = room(w, FM_STAGE_ENTRY_HEAD, &to);
	if (ret < 0)
		return ret;
	fm_stage_put_head(&to, &end);
	index_at = position(w);
	ret = fm_stage_cut_end(&w->cut, keep_extent, w);
	t.extents = w->extents;
	fm_sha256_end(w->listing, t.listing);
	if (ret == 0)
		ret = put_index(w);
	if (ret == 0)
		ret = put_tail(w, index_at, &t);
	if (ret == 0)
		ret = flush(w);
	if (ret < 0)
		return ret;
	fm_sha256_end(w->version, version);
	*totals = t;
	return 0;
}
