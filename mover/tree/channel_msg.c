/* SPDX-License-Identifier: MIT */
/*
 * channel_msg - see channel_msg.h. A decoder reads all fields, checks their ranges as it goes, and
 * looks at the end whether the message was long enough and no longer.
 */
#include "mover/tree/channel_msg.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "mover/base/block.h"
#include "mover/base/budget.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/tree/pack.h"

#define MODE_MAX 01777u
#define ASK_FLAGS_BEGIN                                                                            \
	(FM_CHANNEL_OFFERING | FM_CHANNEL_CHECKSUMS | FM_CHANNEL_OWNERS | FM_CHANNEL_DRY)
#define ANSWER_FLAGS                                                                               \
	(FM_CHANNEL_OWNERS | FM_CHANNEL_PARTIAL | FM_CHANNEL_REFLINKED | FM_CHANNEL_MORE |         \
	 FM_CHANNEL_LOST)
#define COUNT_FIELDS 17u

_Static_assert(16 + 20 + FM_CHANNEL_ACKS_MAX * 8 +
			       FM_CHANNEL_NEEDS_MAX * (10 + FM_TREE_OFFERS_MAX / 8) <=
		       FM_CHANNEL_ASK_MAX,
	       "a full FILL fits");
_Static_assert(16 + FM_TREE_PATH_MAX + FM_JOURNAL_NODE_MAX + 128 + FM_DIGEST_BLOCKS_MAX * 4 <=
		       FM_CHANNEL_ASK_MAX,
	       "a large file fits");
#define ANSWER_HEAD_MAX                                                                            \
	(16u + 18u + COUNT_FIELDS * 8u + 2u + FM_ERR_TEXT_MAX + 2u + FM_CHANNEL_NOTE_MAX)
_Static_assert(ANSWER_HEAD_MAX + 6 + FM_JOURNAL_RANGES_MAX * 16 <= FM_CHANNEL_ANSWER_MAX,
	       "all ranges of a file fit");
_Static_assert(ANSWER_HEAD_MAX + 2 +
			       FM_CHANNEL_LARGES_MAX *
				       (FM_TREE_PATH_MAX + FM_JOURNAL_NODE_MAX + 128) <=
		       FM_CHANNEL_ANSWER_MAX,
	       "large files fit");

/* ---- parts ---- */

static void put_string(struct fm_writer *w, const char *at, size_t len)
{
	if (len > UINT16_MAX)
		w->failed = true;
	fm_put_le16(w, (uint16_t)len);
	fm_put_bytes(w, at, len);
}

/* len bytes at most, without NUL. */
static const char *get_string(struct fm_reader *r, size_t max, size_t *len)
{
	const char *at;

	*len = fm_get_le16(r);
	at = (const char *)fm_get_span(r, *len);
	if (!at || *len > max || memchr(at, '\0', *len))
		r->failed = true;
	return r->failed ? "" : at;
}

static const char *get_path(struct fm_reader *r, size_t *len)
{
	const char *at = get_string(r, FM_TREE_PATH_MAX, len);

	if (!r->failed && !fm_pack_is_good_path(at, *len))
		r->failed = true;
	return at;
}

static void put_identity(struct fm_writer *w, const struct fm_identity *id)
{
	put_string(w, id->node, strlen(id->node));
	fm_put_le64(w, id->dev);
	fm_put_le64(w, id->ino);
	fm_put_le64(w, id->size);
	fm_put_le64(w, (uint64_t)id->mtime_ns);
	fm_put_le64(w, (uint64_t)id->ctime_ns);
}

static void get_identity(struct fm_reader *r, struct fm_identity *id)
{
	size_t len;
	const char *node = get_string(r, FM_JOURNAL_NODE_MAX, &len);

	memset(id, 0, sizeof(*id));
	if (!r->failed)
		memcpy(id->node, node, len);
	id->dev = fm_get_le64(r);
	id->ino = fm_get_le64(r);
	id->size = fm_get_le64(r);
	id->mtime_ns = (int64_t)fm_get_le64(r);
	id->ctime_ns = (int64_t)fm_get_le64(r);
}

static void put_large(struct fm_writer *w, const struct fm_tree_large *l)
{
	fm_put_le64(w, l->size);
	fm_put_le32(w, l->mode);
	fm_put_le64(w, (uint64_t)l->mtime_ns);
	fm_put_u8(w, l->has_holes);
	put_identity(w, &l->id);
	put_string(w, l->path, strlen(l->path));
}

void fm_channel_get_large(struct fm_reader *r, struct fm_tree_large *out)
{
	const char *path;
	uint8_t has_holes;
	size_t len;

	out->fd = -1;
	out->size = fm_get_le64(r);
	out->mode = fm_get_le32(r);
	out->mtime_ns = (int64_t)fm_get_le64(r);
	has_holes = fm_get_u8(r);
	out->has_holes = has_holes == 1;
	get_identity(r, &out->id);
	path = get_path(r, &len);
	if (out->size > (uint64_t)INT64_MAX || out->mode > MODE_MAX || has_holes > 1)
		r->failed = true;
	if (r->failed)
		len = 0;
	memcpy(out->path, path, len);
	out->path[len] = '\0';
}

static void put_digest(struct fm_writer *w, const struct fm_channel_ask *a)
{
	fm_put_u8(w, a->has_digest);
	if (!a->has_digest)
		return;
	if (a->digest.blocks > FM_DIGEST_BLOCKS_MAX) {
		w->failed = true;
		return;
	}
	fm_put_le32(w, a->digest.crc);
	fm_put_le64(w, a->digest.size);
	fm_put_le64(w, (uint64_t)a->digest.mtime_ns);
	fm_put_u8(w, (uint8_t)a->digest.blocks);
	for (unsigned i = 0; i < a->digest.blocks; i++)
		fm_put_le32(w, a->digest.block[i]);
}

static void get_digest(struct fm_reader *r, struct fm_channel_ask *a)
{
	uint8_t has_digest = fm_get_u8(r);

	a->has_digest = has_digest == 1;
	if (has_digest > 1)
		r->failed = true;
	if (!a->has_digest)
		return;
	a->digest.crc = fm_get_le32(r);
	a->digest.size = fm_get_le64(r);
	a->digest.mtime_ns = (int64_t)fm_get_le64(r);
	a->digest.blocks = fm_get_u8(r);
	if (a->digest.blocks > FM_DIGEST_BLOCKS_MAX)
		r->failed = true;
	for (unsigned i = 0; i < a->digest.blocks && !r->failed; i++)
		a->digest.block[i] = fm_get_le32(r);
}

static void put_need(struct fm_writer *w, const struct fm_channel_need *n)
{
	if (n->count > FM_TREE_OFFERS_MAX) {
		w->failed = true;
		return;
	}
	fm_put_le16(w, n->count);
	fm_put_bytes(w, n->bits, (n->count + 7u) / 8u);
}

static void get_need(struct fm_reader *r, struct fm_channel_need *n)
{
	memset(n->bits, 0, sizeof(n->bits));
	n->count = fm_get_le16(r);
	if (n->count > FM_TREE_OFFERS_MAX) {
		r->failed = true;
		return;
	}
	fm_get_bytes(r, n->bits, (n->count + 7u) / 8u);
	if (n->count % 8 != 0 && n->bits[n->count / 8] >> n->count % 8 != 0)
		r->failed = true;	/* bits of entries that do not exist */
}

static void put_head(struct fm_writer *w, enum fm_channel_op op, uint64_t tag)
{
	fm_put_le32(w, FM_CHANNEL_MAGIC);
	fm_put_le16(w, FM_CHANNEL_VERSION);
	fm_put_le16(w, (uint16_t)op);
	fm_put_le64(w, tag);
}

static int get_head(struct fm_reader *r, unsigned *op, uint64_t *tag)
{
	uint32_t magic = fm_get_le32(r);
	uint16_t version = fm_get_le16(r);

	*op = fm_get_le16(r);
	*tag = fm_get_le64(r);
	if (r->failed || magic != FM_CHANNEL_MAGIC)
		return -EBADMSG;
	if (version != FM_CHANNEL_VERSION)
		return -EPROTONOSUPPORT;
	return *op >= FM_CHANNEL_BEGIN && *op <= FM_CHANNEL_PUBLISH ? 0 : -EBADMSG;
}

static int reader_end(const struct fm_reader *r)
{
	return r->failed || fm_reader_left(r) > 0 ? -EBADMSG : 0;
}

/* ---- asks ---- */

static void put_fill(struct fm_writer *w, const struct fm_channel_ask *a)
{
	if (a->acks_count > FM_CHANNEL_ACKS_MAX || a->needs_count > FM_CHANNEL_NEEDS_MAX ||
	    a->larges > FM_CHANNEL_LARGES_MAX) {
		w->failed = true;
		return;
	}
	fm_put_le64(w, a->seq);
	fm_put_le32(w, a->len);
	fm_put_le16(w, a->larges);
	fm_put_le16(w, a->needs_count);
	fm_put_le16(w, a->acks_count);
	for (unsigned i = 0; i < a->acks_count; i++)
		fm_put_le64(w, a->acks[i]);
	for (unsigned i = 0; i < a->needs_count; i++) {
		fm_put_le64(w, a->needs[i].seq);
		put_need(w, &a->needs[i]);
	}
}

static void get_fill(struct fm_reader *r, struct fm_channel_ask *a)
{
	a->seq = fm_get_le64(r);
	a->len = fm_get_le32(r);
	a->larges = fm_get_le16(r);
	a->needs_count = fm_get_le16(r);
	a->acks_count = fm_get_le16(r);
	if (a->len < FM_PACK_HEAD || a->len > FM_CHANNEL_PACK_MAX ||
	    a->larges > FM_CHANNEL_LARGES_MAX || a->acks_count > FM_CHANNEL_ACKS_MAX ||
	    a->needs_count > FM_CHANNEL_NEEDS_MAX) {
		r->failed = true;
		return;
	}
	for (unsigned i = 0; i < a->acks_count; i++)
		a->acks[i] = fm_get_le64(r);
	for (unsigned i = 0; i < a->needs_count && !r->failed; i++) {
		a->needs[i].seq = fm_get_le64(r);
		get_need(r, &a->needs[i]);
		if (a->needs[i].count == 0)
			r->failed = true;
	}
}

static void put_entry(struct fm_writer *w, const struct fm_journal_entry *e)
{
	fm_put_le64(w, e->size);
	fm_put_le64(w, (uint64_t)e->mtime_ns);
	fm_put_le64(w, e->identity);
	fm_put_le64(w, e->offset);
	fm_put_le64(w, e->len);
	fm_put_le32(w, e->crc);
	put_string(w, e->path, e->path_len);
}

static void get_entry(struct fm_reader *r, struct fm_journal_entry *e)
{
	e->size = fm_get_le64(r);
	e->mtime_ns = (int64_t)fm_get_le64(r);
	e->identity = fm_get_le64(r);
	e->offset = fm_get_le64(r);
	e->len = fm_get_le64(r);
	e->crc = fm_get_le32(r);
	e->path = get_path(r, &e->path_len);
	if (e->size > (uint64_t)INT64_MAX || e->offset > e->size || e->len > e->size - e->offset ||
	    e->len == 0)
		r->failed = true;
}

size_t fm_channel_put_ask(const struct fm_channel_ask *a, uint8_t buf[static FM_CHANNEL_ASK_MAX])
{
	struct fm_writer w = { .at = buf, .end = buf + FM_CHANNEL_ASK_MAX };

	put_head(&w, a->op, a->tag);
	switch (a->op) {
	case FM_CHANNEL_BEGIN:
		fm_put_le16(&w, (uint16_t)a->flags);
		put_identity(&w, &a->identity);
		break;
	case FM_CHANNEL_FILL:
		put_fill(&w, a);
		break;
	case FM_CHANNEL_APPLY:
		fm_put_le32(&w, a->len);
		break;
	case FM_CHANNEL_CREATE_LARGE:
	case FM_CHANNEL_SEAL_LARGE:
		put_large(&w, &a->large);
		if (a->op == FM_CHANNEL_SEAL_LARGE)
			put_digest(&w, a);
		break;
	case FM_CHANNEL_WROTE_LARGE:
		put_entry(&w, &a->entry);
		break;
	case FM_CHANNEL_LOG:
		break;
	case FM_CHANNEL_PREPARE:
	case FM_CHANNEL_PUBLISH:
		fm_put_le16(&w, (uint16_t)a->flags);
		break;
	}
	return w.failed ? 0 : (size_t)(w.at - buf);
}

static void get_flags(struct fm_reader *r, struct fm_channel_ask *a, unsigned allowed)
{
	a->flags = fm_get_le16(r);
	if (a->flags & ~allowed)
		r->failed = true;
}

int fm_channel_get_ask(const uint8_t *buf, size_t len, struct fm_channel_ask *a)
{
	struct fm_reader r = { .at = buf, .end = buf + len };
	unsigned op;
	int ret = get_head(&r, &op, &a->tag);

	if (ret < 0)
		return ret;
	a->op = (enum fm_channel_op)op;
	a->flags = 0;
	switch (a->op) {
	case FM_CHANNEL_BEGIN:
		get_flags(&r, a, ASK_FLAGS_BEGIN);
		get_identity(&r, &a->identity);
		break;
	case FM_CHANNEL_FILL:
		get_fill(&r, a);
		break;
	case FM_CHANNEL_APPLY:
		a->len = fm_get_le32(&r);
		if (a->len > FM_CHANNEL_PACK_MAX)
			r.failed = true;
		break;
	case FM_CHANNEL_CREATE_LARGE:
	case FM_CHANNEL_SEAL_LARGE:
		fm_channel_get_large(&r, &a->large);
		if (a->op == FM_CHANNEL_SEAL_LARGE)
			get_digest(&r, a);
		break;
	case FM_CHANNEL_WROTE_LARGE:
		get_entry(&r, &a->entry);
		break;
	case FM_CHANNEL_LOG:
		break;
	case FM_CHANNEL_PREPARE:
	case FM_CHANNEL_PUBLISH:
		get_flags(&r, a, FM_CHANNEL_DURABLE);
		break;
	}
	return reader_end(&r);
}

/* ---- answers ---- */

static void put_count(struct fm_writer *w, const struct fm_tree_count *c)
{
	const uint64_t fields[COUNT_FIELDS] = {c->files,	 c->dirs,	   c->links,
					       c->hard_links,	 c->bytes,	   c->reused_files,
					       c->reused_bytes,	 c->resumed_files, c->resumed_bytes,
					       c->wanted_files,	 c->wanted_bytes,  c->damaged_files,
					       c->damaged_bytes, c->added,	   c->replaced,
					       c->removed,	 c->kept};

	for (unsigned i = 0; i < COUNT_FIELDS; i++)
		fm_put_le64(w, fields[i]);
}

/* Numbers that may be shown and added up. */
static uint64_t get_number(struct fm_reader *r)
{
	uint64_t v = fm_get_le64(r);

	if (v > (uint64_t)INT64_MAX)
		r->failed = true;
	return v;
}

static void get_count(struct fm_reader *r, struct fm_tree_count *c)
{
	uint64_t *const fields[COUNT_FIELDS] = {
		&c->files,	   &c->dirs,	     &c->links,	       &c->hard_links,
		&c->bytes,	   &c->reused_files, &c->reused_bytes, &c->resumed_files,
		&c->resumed_bytes, &c->wanted_files, &c->wanted_bytes, &c->damaged_files,
		&c->damaged_bytes, &c->added,	     &c->replaced,     &c->removed,
		&c->kept};

	for (unsigned i = 0; i < COUNT_FIELDS; i++)
		*fields[i] = get_number(r);
}

static void put_have(struct fm_writer *w, const struct fm_channel_answer *a)
{
	if (a->have.count > FM_JOURNAL_PIECES_MAX) {
		w->failed = true;
		return;
	}
	fm_put_le16(w, (uint16_t)a->have.count);
	for (size_t i = 0; i < a->have.count; i++) {
		fm_put_le64(w, a->have.pieces[i].offset);
		fm_put_le64(w, a->have.pieces[i].len);
		fm_put_le32(w, a->have.pieces[i].crc);
	}
}

/* Sorted, and none in another. The size of the file is not known here. */
static int get_piece(struct fm_reader *r, struct fm_have *have, uint64_t *end)
{
	struct fm_written p;

	p.offset = get_number(r);
	p.len = get_number(r);
	p.crc = fm_get_le32(r);
	if (r->failed || p.len == 0 || p.len > (uint64_t)INT64_MAX - p.offset ||
	    p.offset % FM_BLOCK != 0 || p.offset < *end)
		return -EBADMSG;
	*end = p.offset + p.len;
	have->crc ^= p.crc;
	have->pieces[have->count++] = p;
	return fm_ranges_add(&have->ranges, p.offset, p.len, FM_JOURNAL_RANGES_MAX);
}

static int get_have(struct fm_reader *r, struct fm_have *have)
{
	unsigned count = fm_get_le16(r);
	uint64_t end = 0;
	int ret = 0;

	if (count > FM_JOURNAL_PIECES_MAX || r->failed)
		return -EBADMSG;
	if (count == 0)
		return 0;
	have->pieces =
		FM_FAULT("channel.have") ? NULL : fm_budget_alloc(count * sizeof(*have->pieces));
	if (!have->pieces)
		return -ENOMEM;
	while (ret == 0 && have->count < count)
		ret = get_piece(r, have, &end);
	return ret == -ENOSPC ? -EBADMSG : ret;
}

static void put_body(struct fm_writer *w, const struct fm_channel_answer *a)
{
	switch (a->op) {
	case FM_CHANNEL_FILL:
		if (a->larges_count > FM_CHANNEL_LARGES_MAX)
			w->failed = true;
		fm_put_le16(w, a->larges_count);
		for (unsigned i = 0; i < a->larges_count && !w->failed; i++)
			put_large(w, &a->larges[i]);
		break;
	case FM_CHANNEL_APPLY:
		put_need(w, &a->need);
		break;
	case FM_CHANNEL_CREATE_LARGE:
		put_have(w, a);
		break;
	default:
		break;
	}
}

size_t fm_channel_put_answer(const struct fm_channel_answer *a,
			     uint8_t buf[static FM_CHANNEL_ANSWER_MAX])
{
	struct fm_writer w = { .at = buf, .end = buf + FM_CHANNEL_ANSWER_MAX };

	w.failed = a->text_len >= FM_ERR_TEXT_MAX || a->note_len > FM_CHANNEL_NOTE_MAX;
	put_head(&w, a->op, a->tag);
	fm_put_le64(&w, (uint64_t)a->ret);
	fm_put_le16(&w, (uint16_t)(a->flags | (a->count.is_reflinked ? FM_CHANNEL_REFLINKED : 0)));
	fm_put_le64(&w, a->serial);
	put_count(&w, &a->count);
	put_string(&w, a->text, a->text_len);
	put_string(&w, a->note, a->note_len);
	put_body(&w, a);
	return w.failed ? 0 : (size_t)(w.at - buf);
}

static void get_larges(struct fm_reader *r, struct fm_channel_answer *a)
{
	struct fm_tree_large one;

	a->larges_count = fm_get_le16(r);
	if (a->larges_count > FM_CHANNEL_LARGES_MAX)
		r->failed = true;
	a->larges_at = *r;
	for (unsigned i = 0; i < a->larges_count && !r->failed; i++)
		fm_channel_get_large(r, &one);
}

static int get_body(struct fm_reader *r, struct fm_channel_answer *a)
{
	switch (a->op) {
	case FM_CHANNEL_FILL:
		get_larges(r, a);
		return 0;
	case FM_CHANNEL_APPLY:
		get_need(r, &a->need);
		return 0;
	case FM_CHANNEL_CREATE_LARGE:
		return get_have(r, &a->have);
	default:
		return 0;
	}
}

/*
 * Whether the fields of an answer fit together: only FILL returns a length, and an error has no
 * large files, wants and ranges (-EAGAIN of FILL may have large files).
 */
static bool is_sound(const struct fm_channel_answer *a)
{
	if (a->ret > (a->op == FM_CHANNEL_FILL ? (int64_t)FM_CHANNEL_PACK_MAX : 0) ||
	    a->ret < -4095)
		return false;
	if (a->ret < 0 && !(a->op == FM_CHANNEL_FILL && a->ret == -EAGAIN) && a->larges_count > 0)
		return false;
	return a->ret >= 0 || (a->need.count == 0 && a->have.count == 0);
}

int fm_channel_get_answer(const uint8_t *buf, size_t len, struct fm_channel_answer *a)
{
	struct fm_reader r = { .at = buf, .end = buf + len };
	unsigned op;
	int ret;

	*a = (struct fm_channel_answer){ .ret = 0 };
	ret = get_head(&r, &op, &a->tag);
	if (ret < 0)
		return ret;
	a->op = (enum fm_channel_op)op;
	a->ret = (int64_t)fm_get_le64(&r);
	a->flags = fm_get_le16(&r);
	if (a->flags & ~ANSWER_FLAGS)
		r.failed = true;
	a->serial = fm_get_le64(&r);
	get_count(&r, &a->count);
	a->count.is_reflinked = (a->flags & FM_CHANNEL_REFLINKED) != 0;
	a->text = get_string(&r, FM_ERR_TEXT_MAX - 1, &a->text_len);
	a->note = get_string(&r, FM_CHANNEL_NOTE_MAX, &a->note_len);
	ret = get_body(&r, a);
	if (ret == 0)
		ret = reader_end(&r);
	if (ret == 0 && !is_sound(a))
		ret = -EBADMSG;
	if (ret < 0)
		fm_have_free(&a->have);
	return ret;
}
