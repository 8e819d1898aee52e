/* SPDX-License-Identifier: MIT */
/*
 * pack - entries into a buffer, and out of it again.
 */
#include "mover/tree/pack.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "mover/base/bytes.h"
#include "mover/tree/tree.h"

#define ALIGN 8u
#define NAME_LEN_MAX 255u	/* of a component, and of an extended attribute's name */
#define MODE_MASK 01777u
#define XATTR_HEAD 4u
#define FLAGS_AT 2u		/* in an entry */
#define CRC_AT 44u

static size_t align_up(size_t len)
{
	return (len + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

/* The length of an entry without its data. */
static size_t meta_len(size_t path_len, size_t target_len, size_t xattr_len)
{
	return align_up(FM_PACK_ENTRY_HEAD + path_len + target_len + xattr_len);
}

/* ---- what is good ---- */

bool fm_pack_is_good_path(const char *path, size_t len)
{
	const char *at = path, *end = path + len;

	if (len == 0 || len > FM_TREE_PATH_MAX || memchr(path, '\0', len))
		return false;
	while (at <= end) {
		const char *slash = at < end ? memchr(at, '/', (size_t)(end - at)) : NULL;
		size_t n = (size_t)((slash ? slash : end) - at);

		if (n == 0 || n > NAME_LEN_MAX || (n == 1 && at[0] == '.') ||
		    (n == 2 && at[0] == '.' && at[1] == '.'))
			return false;
		if (!slash)
			return true;
		at = slash + 1;
	}
	return false;	/* a trailing slash */
}

static bool begins_with(const char *name, size_t len, const char *prefix)
{
	size_t n = strlen(prefix);

	return len > n && memcmp(name, prefix, n) == 0;
}

static bool is_exactly(const char *name, size_t len, const char *text)
{
	return len == strlen(text) && memcmp(name, text, len) == 0;
}

bool fm_pack_is_good_xattr(const char *name, size_t len)
{
	if (len == 0 || len > NAME_LEN_MAX || memchr(name, '\0', len))
		return false;
	if (begins_with(name, len, "user."))
		return !begins_with(name, len, "user.fmove.");
	return is_exactly(name, len, "system.posix_acl_access") ||
	       is_exactly(name, len, "system.posix_acl_default");
}

static bool has_good_xattrs(const struct fm_pack_entry *e)
{
	struct fm_pack_xattr x;
	size_t at = 0;
	int ret;

	do {
		ret = fm_pack_next_xattr(e, &at, &x);
	} while (ret > 0);
	return ret == 0;
}

static bool is_good_file(const struct fm_pack_entry *e, bool is_offer)
{
	if (e->size > INT64_MAX || e->target_len > 0)
		return false;
	if (is_offer)
		return (e->flags & ~(FM_PACK_HAS_CRC | FM_PACK_IS_LARGE)) == 0 && e->offset == 0 &&
		       e->data_len == 0 && ((e->flags & FM_PACK_HAS_CRC) || e->crc == 0);
	if ((e->flags & ~FM_PACK_IS_CORRUPT) != 0 || e->offset > e->size ||
	    e->data_len > e->size - e->offset)
		return false;
	return e->data_len > 0 || (e->size == 0 && e->crc == 0);
}

static bool is_good_link(const struct fm_pack_entry *e)
{
	return e->mode == 0 && e->xattr_len == 0 && e->target_len > 0 &&
	       e->target_len <= FM_TREE_PATH_MAX && !memchr(e->target, '\0', e->target_len);
}

static bool is_good_hard(const struct fm_pack_entry *e)
{
	return e->mode == 0 && e->xattr_len == 0 && e->mtime_ns == 0 && e->uid == 0 &&
	       e->gid == 0 && fm_pack_is_good_path(e->target, e->target_len);
}

/*
 * Whether the fields that only files and hard links have are empty. They must be for any other
 * entry.
 */
static bool has_no_file_fields(const struct fm_pack_entry *e)
{
	return e->flags == 0 && e->size == 0 && e->offset == 0 && e->data_len == 0 && e->crc == 0 &&
	       e->identity == 0;
}

static bool is_good_type(const struct fm_pack_entry *e, bool is_offer)
{
	if (e->type == FM_PACK_FILE)
		return is_good_file(e, is_offer);
	if (!has_no_file_fields(e))
		return false;
	switch (e->type) {
	case FM_PACK_LINK:
		return is_good_link(e);
	case FM_PACK_HARD:
		return is_good_hard(e);
	case FM_PACK_DIR:
	case FM_PACK_ATTR:
		return e->target_len == 0;
	default:
		return false;
	}
}

/* Everything that the header says of one entry, but its padding. */
static bool is_good(const struct fm_pack_entry *e, bool is_offer)
{
	if (!is_good_type(e, is_offer) || (e->mode & ~MODE_MASK) != 0)
		return false;
	if (!(e->type == FM_PACK_DIR && e->path_len == 0) &&
	    !fm_pack_is_good_path(e->path, e->path_len))
		return false;
	return e->xattr_len <= FM_TREE_XATTRS_MAX && has_good_xattrs(e);
}

/* ---- writing ---- */

void fm_pack_begin(struct fm_pack_writer *w, void *buf, size_t cap, unsigned flags)
{
	assert(((uintptr_t)buf % ALIGN) == 0 && cap >= FM_PACK_HEAD);
	*w = (struct fm_pack_writer){
		.buf = buf, .cap = cap - cap % ALIGN, .len = FM_PACK_HEAD, .flags = flags};
	if (w->cap > UINT32_MAX)
		w->cap = UINT32_MAX - UINT32_MAX % ALIGN;
}

int64_t fm_pack_room(const struct fm_pack_writer *w, size_t path_len, size_t target_len,
		     size_t xattr_len)
{
	if ((w->flags & FM_PACK_OFFER) && w->count == FM_TREE_OFFERS_MAX)
		return -1;
	return (int64_t)w->cap - (int64_t)w->len -
	       (int64_t)meta_len(path_len, target_len, xattr_len);
}

static void put_head(struct fm_writer *out, const struct fm_pack_entry *e)
{
	fm_put_le16(out, (uint16_t)e->type);
	fm_put_le16(out, (uint16_t)e->flags);
	fm_put_le32(out, e->mode);
	fm_put_le64(out, e->size);
	fm_put_le64(out, (uint64_t)e->mtime_ns);
	fm_put_le32(out, e->uid);
	fm_put_le32(out, e->gid);
	fm_put_le64(out, e->offset);
	fm_put_le32(out, e->data_len);
	fm_put_le32(out, e->crc);
	fm_put_le64(out, e->identity);
	fm_put_le16(out, (uint16_t)e->path_len);
	fm_put_le16(out, (uint16_t)e->target_len);
	fm_put_le32(out, (uint32_t)e->xattr_len);
}

uint8_t *fm_pack_add(struct fm_pack_writer *w, const struct fm_pack_entry *e)
{
	size_t meta = meta_len(e->path_len, e->target_len, e->xattr_len);
	size_t data = align_up(e->data_len);
	struct fm_writer out = { .at = w->buf + w->len, .end = w->buf + w->len + meta };
	uint8_t *at = out.end;

	if (!is_good(e, (w->flags & FM_PACK_OFFER) != 0) ||
	    fm_pack_room(w, e->path_len, e->target_len, e->xattr_len) < (int64_t)data)
		return NULL;
	put_head(&out, e);
	fm_put_bytes(&out, e->path, e->path_len);
	fm_put_bytes(&out, e->target, e->target_len);
	fm_put_bytes(&out, e->xattrs, e->xattr_len);
	memset(out.at, 0, (size_t)(out.end - out.at));
	memset(at + e->data_len, 0, data - e->data_len);
	w->len += meta + data;
	w->count++;
	return at;
}

void fm_pack_set_crc(uint8_t *data_of_add, const struct fm_pack_entry *e, uint32_t crc)
{
	uint8_t *at = data_of_add - meta_len(e->path_len, e->target_len, e->xattr_len) + CRC_AT;
	struct fm_writer out = { .at = at, .end = at + sizeof(crc) };

	fm_put_le32(&out, crc);
}

void fm_pack_set_corrupt(uint8_t *data_of_add, const struct fm_pack_entry *e)
{
	uint8_t *at = data_of_add - meta_len(e->path_len, e->target_len, e->xattr_len) + FLAGS_AT;
	struct fm_writer out = { .at = at, .end = at + 2 };

	fm_put_le16(&out, (uint16_t)(e->flags | FM_PACK_IS_CORRUPT));
}

void fm_pack_cut(struct fm_pack_writer *w, size_t len_before)
{
	assert(w->count > 0 && len_before >= FM_PACK_HEAD && len_before < w->len);
	w->len = len_before;
	w->count--;
}

size_t fm_pack_end(struct fm_pack_writer *w)
{
	struct fm_writer out = { .at = w->buf, .end = w->buf + FM_PACK_HEAD };

	if (w->count == 0)
		return 0;
	fm_put_le32(&out, FM_PACK_MAGIC);
	fm_put_le16(&out, FM_PACK_VERSION);
	fm_put_le16(&out, (uint16_t)w->flags);
	fm_put_le32(&out, w->count);
	fm_put_le32(&out, (uint32_t)w->len);
	return w->len;
}

/* ---- reading ---- */

int fm_pack_open(struct fm_pack_reader *r, const void *buf, size_t len)
{
	struct fm_reader in = { .at = buf, .end = (const uint8_t *)buf + len };
	uint32_t magic = fm_get_le32(&in), bytes;
	uint16_t version = fm_get_le16(&in);

	*r = (struct fm_pack_reader){ .buf = buf, .len = len, .at = FM_PACK_HEAD };
	r->flags = fm_get_le16(&in);
	r->count = r->left = fm_get_le32(&in);
	bytes = fm_get_le32(&in);
	if (in.failed || magic != FM_PACK_MAGIC || version != FM_PACK_VERSION ||
	    (r->flags & ~FM_PACK_OFFER) != 0)
		return -EBADMSG;
	if (bytes != len || len % ALIGN != 0 || r->count == 0 ||
	    r->count > (len - FM_PACK_HEAD) / FM_PACK_ENTRY_HEAD)
		return -EBADMSG;
	return (r->flags & FM_PACK_OFFER) && r->count > FM_TREE_OFFERS_MAX ? -EBADMSG : 0;
}

static void get_head(struct fm_reader *in, struct fm_pack_entry *e)
{
	*e = (struct fm_pack_entry){ .type = (enum fm_pack_type)fm_get_le16(in) };
	e->flags = fm_get_le16(in);
	e->mode = fm_get_le32(in);
	e->size = fm_get_le64(in);
	e->mtime_ns = (int64_t)fm_get_le64(in);
	e->uid = fm_get_le32(in);
	e->gid = fm_get_le32(in);
	e->offset = fm_get_le64(in);
	e->data_len = fm_get_le32(in);
	e->crc = fm_get_le32(in);
	e->identity = fm_get_le64(in);
	e->path_len = fm_get_le16(in);
	e->target_len = fm_get_le16(in);
	e->xattr_len = fm_get_le32(in);
}

/* The zeros up to the next multiple of 8 after len bytes. */
static bool skip_zeros(struct fm_reader *in, size_t len)
{
	static const uint8_t zeros[ALIGN];
	size_t n = align_up(len) - len;
	const uint8_t *at = fm_get_span(in, n);

	return at && memcmp(at, zeros, n) == 0;
}

/* Reads the parts that follow the head of an entry; the head has their lengths. */
static bool get_rest(struct fm_reader *in, struct fm_pack_entry *e, bool is_outline)
{
	if (e->xattr_len > FM_TREE_XATTRS_MAX)
		return false;
	e->path = (const char *)fm_get_span(in, e->path_len);
	e->target = (const char *)fm_get_span(in, e->target_len);
	e->xattrs = fm_get_span(in, e->xattr_len);
	if (in->failed ||
	    !skip_zeros(in, FM_PACK_ENTRY_HEAD + e->path_len + e->target_len + e->xattr_len))
		return false;
	if (is_outline)
		return true;
	e->data = fm_get_span(in, e->data_len);
	return !in->failed && skip_zeros(in, e->data_len);
}

int fm_pack_next(struct fm_pack_reader *r, struct fm_pack_entry *e)
{
	struct fm_reader in = { .at = r->buf + r->at, .end = r->buf + r->len };

	if (r->left == 0)
		return r->at == r->len ? 0 : -EBADMSG;
	get_head(&in, e);
	if (in.failed || !get_rest(&in, e, r->is_outline) ||
	    !is_good(e, (r->flags & FM_PACK_OFFER) != 0))
		return -EBADMSG;
	r->at = (size_t)(in.at - r->buf);
	r->left--;
	return 1;
}

/* ---- outlines ---- */

int fm_pack_open_outline(struct fm_pack_reader *r, const void *outline, size_t len)
{
	int ret = fm_pack_open(r, outline, len);

	r->is_outline = true;
	return ret;
}

/*
 * The head, path, target and attributes of the next entry, *meta bytes in all; its data follows.
 * NULL: there are no more entries. The pack lies in memory that is shared with the daemon, so every
 * length in it is checked again.
 */
static const uint8_t *next_meta(struct fm_pack_reader *r, size_t *meta)
{
	struct fm_reader in = { .at = r->buf + r->at, .end = r->buf + r->len };
	const uint8_t *at = in.at;
	struct fm_pack_entry e;
	size_t data;

	if (r->left == 0)
		return NULL;
	get_head(&in, &e);
	*meta = meta_len(e.path_len, e.target_len, e.xattr_len);
	data = align_up(e.data_len);
	if (in.failed || *meta > r->len - r->at || data > r->len - r->at - *meta)
		return NULL;
	r->at += *meta + data;
	r->left--;
	return at;
}

size_t fm_pack_outline_len(const void *pack, size_t len)
{
	struct fm_pack_reader r;
	size_t out_len = FM_PACK_HEAD, meta;

	if (fm_pack_open(&r, pack, len) < 0)
		return 0;
	while (next_meta(&r, &meta))
		out_len += meta;
	return r.left == 0 ? out_len : 0;
}

bool fm_pack_outline(const void *pack, size_t len, void *out, size_t out_len)
{
	struct fm_pack_writer w = { .buf = out, .cap = out_len, .len = FM_PACK_HEAD };
	struct fm_pack_reader r;
	const uint8_t *at;
	size_t meta;

	if (fm_pack_open(&r, pack, len) < 0)
		return false;
	w.flags = r.flags;
	while ((at = next_meta(&r, &meta)) && meta <= w.cap - w.len) {
		memcpy(w.buf + w.len, at, meta);
		w.len += meta;
		w.count++;
	}
	return !at && r.left == 0 && fm_pack_end(&w) == out_len;
}

/* ---- extended attributes ---- */

int fm_pack_next_xattr(const struct fm_pack_entry *e, size_t *at, struct fm_pack_xattr *out)
{
	struct fm_reader in;

	if (*at == e->xattr_len)
		return 0;
	in = (struct fm_reader){ .at = e->xattrs + *at, .end = e->xattrs + e->xattr_len };
	out->name_len = fm_get_le16(&in);
	out->value_len = fm_get_le16(&in);
	out->name = (const char *)fm_get_span(&in, out->name_len);
	out->value = fm_get_span(&in, out->value_len);
	if (in.failed || !fm_pack_is_good_xattr(out->name, out->name_len))
		return -EBADMSG;
	*at = (size_t)(in.at - e->xattrs);
	return 1;
}

size_t fm_pack_put_xattr(uint8_t *buf, size_t room, const struct fm_pack_xattr *x)
{
	struct fm_writer out = { .at = buf, .end = buf + room };

	assert(x->name_len <= NAME_LEN_MAX && x->value_len <= UINT16_MAX);
	if (room < XATTR_HEAD + x->name_len + x->value_len)
		return 0;
	fm_put_le16(&out, (uint16_t)x->name_len);
	fm_put_le16(&out, (uint16_t)x->value_len);
	fm_put_bytes(&out, x->name, x->name_len);
	fm_put_bytes(&out, x->value, x->value_len);
	return XATTR_HEAD + x->name_len + x->value_len;
}
