/* SPDX-License-Identifier: MIT */
/*
 * manifest_read - a manifest that is hostile until it was read to its end.
 *
 * The entries go through one window of the file. Beside them the extents are cut anew, and each is
 * compared with its record in the index: so the reader holds neither.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "mover/base/budget.h"
#include "mover/base/bytes.h"
#include "mover/base/call.h"
#include "mover/base/fault.h"
#include "staging/manifest_priv.h"

/* Some bytes of the file that are at hand. */
struct window {
	uint64_t at;			/* the next byte, in the file */
	uint64_t end;			/* nothing from here on is read through it */
	size_t pos, len;		/* in the buffer */
	uint8_t buf[FM_STAGE_BUF];
};

struct fm_stage_reader {
	int fd;
	struct fm_stage_totals totals;
	uint64_t index_at;
	struct window entries, index;
	struct fm_stage_so_far so_far;
	struct fm_stage_cut cut;
	uint32_t extents;		/* that were cut and compared */
	struct fm_sha256 *listing;
	bool was_moved;			/* seek(): what is read does not add up to the whole */
	bool is_over;
	uint64_t size, chunk, chunks;	/* of the file that was met last: the next chunk's number */
};

/* ---- bytes ---- */

static int read_exactly(int fd, void *buf, size_t len, uint64_t offset)
{
	int64_t n = FM_FAULT("stage.read") ? -EIO : fm_call_read_all(fd, buf, len, offset);

	if (n < 0)
		return (int)n;
	return (size_t)n < len ? -EBADMSG : 0;
}

static void move_window(struct window *w, uint64_t at, uint64_t end)
{
	w->at = at;
	w->end = end;
	w->pos = w->len = 0;
}

/* The next len bytes of a window, to be looked at once. NULL and *ret: there are none. */
static const uint8_t *take(struct fm_stage_reader *r, struct window *w, size_t len, int *ret)
{
	size_t left = w->len - w->pos;
	const uint8_t *at;

	assert(len <= FM_STAGE_BUF);
	*ret = w->end - w->at < len ? -EBADMSG : 0;
	if (*ret == 0 && left < len) {
		uint64_t more = w->end - w->at - left, fits = FM_STAGE_BUF - left;

		memmove(w->buf, w->buf + w->pos, left);
		w->pos = 0;
		w->len = left + (size_t)(more < fits ? more : fits);
		*ret = read_exactly(r->fd, w->buf + left, w->len - left, w->at + left);
	}
	if (*ret < 0)
		return NULL;
	at = w->buf + w->pos;
	w->pos += len;
	w->at += len;
	return at;
}

/* ---- head and tail ---- */

static int get_head(struct fm_stage_reader *r)
{
	uint8_t head[FM_STAGE_HEAD], zero[FM_STAGE_HEAD - 11] = { 0 };
	struct fm_reader from = { .at = head, .end = head + sizeof(head) };
	int ret = read_exactly(r->fd, head, sizeof(head), 0);
	const uint8_t *magic = fm_get_span(&from, 8);
	unsigned version, kind;

	if (ret < 0)
		return ret;
	version = fm_get_le16(&from);
	kind = fm_get_u8(&from);
	if (memcmp(magic, FM_STAGE_MAGIC, 8) != 0 || version != FM_STAGE_VERSION || kind > 1 ||
	    memcmp(from.at, zero, sizeof(zero)) != 0)
		return -EBADMSG;
	r->totals.is_file = r->so_far.is_file = kind == 1;
	return 0;
}

static int get_tail(struct fm_stage_reader *r, uint64_t size)
{
	uint8_t tail[FM_STAGE_TAIL];
	struct fm_reader from = { .at = tail, .end = tail + sizeof(tail) };
	struct fm_stage_totals *t = &r->totals;
	uint64_t tail_at = size - FM_STAGE_TAIL;
	uint32_t zero;
	int ret = read_exactly(r->fd, tail, sizeof(tail), tail_at);

	if (ret < 0)
		return ret;
	t->entries = fm_get_le64(&from);
	t->files = fm_get_le64(&from);
	t->bytes = fm_get_le64(&from);
	r->index_at = fm_get_le64(&from);
	t->extents = fm_get_le32(&from);
	zero = fm_get_le32(&from);
	fm_get_bytes(&from, t->listing, FM_SHA256_LEN);
	if (zero != 0 || memcmp(from.at, FM_STAGE_END_MAGIC, 8) != 0)
		return -EBADMSG;
	if (r->index_at < FM_STAGE_HEAD + FM_STAGE_ENTRY_HEAD || r->index_at > tail_at ||
	    t->extents > FM_STAGE_EXTENTS_MAX ||
	    tail_at - r->index_at != (uint64_t)t->extents * FM_STAGE_INDEX_LEN)
		return -EBADMSG;
	move_window(&r->entries, FM_STAGE_HEAD, r->index_at);
	move_window(&r->index, r->index_at, tail_at);
	return 0;
}

int fm_stage_reader_new(int fd, struct fm_stage_reader **out)
{
	struct fm_stage_reader *r = FM_FAULT("stage.alloc") ? NULL : fm_budget_alloc(sizeof(*r));
	struct stat st;
	int ret;

	if (!r)
		return -ENOMEM;
	r->fd = fd;
	r->listing = fm_sha256_new();
	ret = r->listing ? 0 : -ENOMEM;
	if (ret == 0)
		ret = FM_FAULT("stage.stat") ? -EIO : fm_call(fstat(fd, &st));
	if (ret == 0 && (!S_ISREG(st.st_mode) || st.st_size < FM_STAGE_HEAD + FM_STAGE_TAIL))
		ret = -EBADMSG;
	if (ret == 0)
		ret = get_head(r);
	if (ret == 0)
		ret = get_tail(r, (uint64_t)st.st_size);
	if (ret < 0) {
		fm_stage_reader_free(r);
		return ret;
	}
	*out = r;
	return 0;
}

void fm_stage_reader_free(struct fm_stage_reader *r)
{
	if (!r)
		return;
	fm_sha256_free(r->listing);
	fm_budget_free(r);
}

const struct fm_stage_totals *fm_stage_reader_totals(const struct fm_stage_reader *r)
{
	return &r->totals;
}

/* ---- extents ---- */

static struct fm_stage_extent get_extent(const uint8_t *at)
{
	struct fm_reader from = { .at = at, .end = at + FM_STAGE_INDEX_LEN };
	struct fm_stage_extent e = { .entry_at = fm_get_le64(&from) };

	e.offset = fm_get_le64(&from);
	e.bytes = fm_get_le64(&from);
	e.files = fm_get_le32(&from);
	return e;
}

/* Compares an extent with the index of the manifest: both must say the same. */
static int compare_extent(void *ctx, const struct fm_stage_extent *want)
{
	struct fm_stage_reader *r = ctx;
	struct fm_stage_extent e;
	int ret;
	const uint8_t *at = take(r, &r->index, FM_STAGE_INDEX_LEN, &ret);

	if (!at)
		return ret;
	e = get_extent(at);
	if (e.entry_at != want->entry_at || e.offset != want->offset || e.bytes != want->bytes ||
	    e.files != want->files)
		return -EBADMSG;
	r->extents++;
	return 0;
}

int fm_stage_reader_extent(struct fm_stage_reader *r, uint32_t n, struct fm_stage_extent *out)
{
	uint8_t record[FM_STAGE_INDEX_LEN];
	int ret;

	assert(n < r->totals.extents);
	ret = read_exactly(r->fd, record, sizeof(record),
			   r->index_at + (uint64_t)n * FM_STAGE_INDEX_LEN);
	if (ret < 0)
		return ret;
	*out = get_extent(record);
	return out->entry_at >= FM_STAGE_HEAD && out->entry_at < r->index_at ? 0 : -EBADMSG;
}

void fm_stage_reader_seek(struct fm_stage_reader *r, const struct fm_stage_extent *e)
{
	move_window(&r->entries, e->entry_at, r->index_at);
	r->so_far = (struct fm_stage_so_far){ .is_file = r->totals.is_file, .is_any_parent = true };
	r->was_moved = true;
	r->is_over = false;
	r->chunk = r->chunks = 0;
}

/* ---- entries ---- */

/* The last one was read: does it all add up? */
static int add_up(struct fm_stage_reader *r)
{
	const struct fm_stage_totals *t = &r->totals;
	uint8_t listing[FM_SHA256_LEN];
	int ret;

	r->is_over = true;
	if (r->entries.at != r->entries.end)
		return -EBADMSG;
	if (r->was_moved)
		return 0;
	ret = fm_stage_cut_end(&r->cut, compare_extent, r);
	if (ret < 0)
		return ret;
	fm_sha256_end(r->listing, listing);
	if (r->so_far.entries != t->entries || r->so_far.files != t->files ||
	    r->so_far.bytes != t->bytes || r->extents != t->extents ||
	    memcmp(listing, t->listing, FM_SHA256_LEN) != 0)
		return -EBADMSG;
	return t->is_file && t->files != 1 ? -EBADMSG : 0;
}

/* An entry was read: may it be here? */
static int check_entry(struct fm_stage_reader *r, uint64_t entry_at, const struct fm_stage_entry *e)
{
	int ret = fm_stage_so_far_add(&r->so_far, e);

	if (ret == 0 && !r->was_moved)
		ret = fm_stage_cut_file(&r->cut, entry_at, e->size, compare_extent, r);
	if (ret == -EINVAL || ret == -EFBIG)
		ret = -EBADMSG;
	if (ret < 0)
		return ret;
	fm_stage_listing_add(r->listing, e);
	r->size = e->size;
	r->chunk = 0;
	r->chunks = fm_stage_chunks(e->size);
	/* Before anybody believes the size. */
	return r->chunks > (r->entries.end - r->entries.at) / FM_STAGE_CHUNK_LEN ? -EBADMSG : 1;
}

/* The end of the entries is an entry's head, all zeros but for the type. */
static bool is_end(const uint8_t head[FM_STAGE_ENTRY_HEAD])
{
	static const uint8_t end[FM_STAGE_ENTRY_HEAD] = { FM_STAGE_TYPE_END };

	return memcmp(head, end, sizeof(end)) == 0;
}

static int pass_chunks(struct fm_stage_reader *r)
{
	struct fm_stage_chunk c;
	int ret;

	do {
		ret = fm_stage_reader_chunk(r, &c);
	} while (ret > 0);
	return ret;
}

int fm_stage_reader_next(struct fm_stage_reader *r, struct fm_stage_entry *e)
{
	uint64_t entry_at;
	struct fm_reader from;
	const uint8_t *at;
	int ret = pass_chunks(r);

	if (ret < 0 || r->is_over)
		return ret;
	entry_at = r->entries.at;
	at = take(r, &r->entries, FM_STAGE_ENTRY_HEAD, &ret);
	if (!at)
		return ret;
	if (is_end(at))
		return add_up(r);
	from = (struct fm_reader){ .at = at, .end = at + FM_STAGE_ENTRY_HEAD };
	*e = (struct fm_stage_entry){ .type = (enum fm_stage_type)fm_get_u8(&from) };
	if (fm_get_u8(&from) != 0)
		return -EBADMSG;
	e->mode = fm_get_le16(&from);
	e->path_len = fm_get_le16(&from);
	e->target_len = fm_get_le16(&from);
	e->size = fm_get_le64(&from);
	e->mtime_ns = (int64_t)fm_get_le64(&from);
	if (e->path_len > FM_TREE_PATH_MAX || e->target_len > FM_TREE_PATH_MAX)
		return -EBADMSG;
	e->path = (const char *)take(r, &r->entries, e->path_len + e->target_len, &ret);
	if (!e->path)
		return ret;
	e->target = e->path + e->path_len;
	return check_entry(r, entry_at, e);
}

int fm_stage_reader_chunk(struct fm_stage_reader *r, struct fm_stage_chunk *c)
{
	struct fm_reader from;
	const uint8_t *at;
	int ret;

	if (r->chunk == r->chunks)
		return 0;
	at = take(r, &r->entries, FM_STAGE_CHUNK_LEN, &ret);
	if (!at)
		return ret;
	from = (struct fm_reader){ .at = at, .end = at + FM_STAGE_CHUNK_LEN };
	c->crc = fm_get_le32(&from);
	c->zeros = fm_get_le64(&from);
	if (!fm_stage_is_chunk(c, fm_stage_chunk_len(r->size, r->chunk)))
		return -EBADMSG;
	r->chunk++;
	return 1;
}

uint64_t fm_stage_reader_chunks_at(const struct fm_stage_reader *r)
{
	assert(r->chunk == 0);
	return r->entries.at;
}

/* ---- all of it ---- */

static int hash_file(int fd, uint8_t *buf, struct fm_sha256 *s)
{
	uint64_t at = 0;
	int64_t n;

	do {
		n = FM_FAULT("stage.read") ? -EIO : fm_call_read_all(fd, buf, FM_STAGE_BUF, at);
		if (n < 0)
			return (int)n;
		fm_sha256_add(s, buf, (size_t)n);
		at += (uint64_t)n;
	} while (n > 0);
	return 0;
}

static int hash_of(int fd, uint8_t out[FM_SHA256_LEN])
{
	uint8_t *buf = FM_FAULT("stage.alloc") ? NULL : fm_budget_alloc(FM_STAGE_BUF);
	struct fm_sha256 *s = fm_sha256_new();
	int ret = buf && s ? hash_file(fd, buf, s) : -ENOMEM;

	if (ret == 0)
		fm_sha256_end(s, out);
	fm_sha256_free(s);
	fm_budget_free(buf);
	return ret;
}

int fm_stage_manifest_check(int fd, uint8_t version[FM_SHA256_LEN],
			    struct fm_stage_totals *totals)
{
	struct fm_stage_reader *r;
	struct fm_stage_entry e;
	int ret = fm_stage_reader_new(fd, &r);

	if (ret < 0)
		return ret;
	do {
		ret = fm_stage_reader_next(r, &e);
	} while (ret > 0);
	*totals = r->totals;
	fm_stage_reader_free(r);
	return ret < 0 ? ret : hash_of(fd, version);
}
