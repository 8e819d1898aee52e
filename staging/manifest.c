/* SPDX-License-Identifier: MIT */
/* manifest - what may be in one, and in which order. See manifest.h. */
#include "staging/manifest.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "mover/base/bytes.h"
#include "mover/base/crc32c.h"
#include "mover/tree/pack.h"
#include "staging/manifest_priv.h"

#define MODE_MASK 01777u	/* set-id bits are never given away */

/* ---- order ---- */

static unsigned rank_of(char c)
{
	return c == '/' ? 0 : (unsigned char)c;
}

int fm_stage_path_compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t len = a_len < b_len ? a_len : b_len;

	for (size_t i = 0; i < len; i++)
		if (a[i] != b[i])
			return rank_of(a[i]) < rank_of(b[i]) ? -1 : 1;
	return (a_len > b_len) - (a_len < b_len);
}

static bool is_prefix(const char *dir, size_t dir_len, const char *path, size_t path_len)
{
	return path_len >= dir_len && memcmp(dir, path, dir_len) == 0 &&
	       (path_len == dir_len || path[dir_len] == '/');
}

/*
 * Whether the directory that e is in was listed. Behind the last entry that is so of the entry
 * itself, if it is a directory, and of all directories that it is in.
 */
static bool has_parent(const struct fm_stage_so_far *s, const struct fm_stage_entry *e)
{
	const char *slash = memrchr(e->path, '/', e->path_len);
	size_t len = slash ? (size_t)(slash - e->path) : 0;

	if (!slash || s->is_any_parent)
		return true;
	if (s->path_len == len && s->type != FM_STAGE_DIR)
		return false;
	return is_prefix(e->path, len, s->path, s->path_len);
}

/* ---- one entry ---- */

static bool is_plain(const struct fm_stage_entry *e)
{
	return e->size == 0 && e->mode == 0;
}

static bool is_good_link(const struct fm_stage_entry *e)
{
	return is_plain(e) && e->target_len > 0 && e->target_len <= FM_TREE_PATH_MAX &&
	       !memchr(e->target, '\0', e->target_len);
}

static bool is_good_hard(const struct fm_stage_entry *e)
{
	return is_plain(e) && e->mtime_ns == 0 &&
	       fm_pack_is_good_path(e->target, e->target_len) &&
	       fm_stage_path_compare(e->target, e->target_len, e->path, e->path_len) < 0;
}

static bool is_good_entry(const struct fm_stage_entry *e)
{
	if (!fm_pack_is_good_path(e->path, e->path_len) || (e->mode & ~MODE_MASK))
		return false;
	switch (e->type) {
	case FM_STAGE_DIR:
		return e->size == 0 && e->mtime_ns == 0 && e->target_len == 0;
	case FM_STAGE_FILE:
		return e->target_len == 0;
	case FM_STAGE_LINK:
		return is_good_link(e);
	case FM_STAGE_HARD:
		return is_good_hard(e);
	}
	return false;
}

int fm_stage_so_far_add(struct fm_stage_so_far *s, const struct fm_stage_entry *e)
{
	if (!is_good_entry(e) || !has_parent(s, e))
		return -EINVAL;
	if (s->is_file && (e->type != FM_STAGE_FILE || s->entries > 0))
		return -EINVAL;
	if (s->path_len > 0 &&
	    fm_stage_path_compare(s->path, s->path_len, e->path, e->path_len) >= 0)
		return -EINVAL;
	if (s->entries == FM_STAGE_ENTRIES_MAX || e->size > FM_STAGE_BYTES_MAX - s->bytes)
		return -EFBIG;
	s->entries++;
	s->files += e->type == FM_STAGE_FILE;
	s->bytes += e->size;
	s->type = e->type;
	s->path_len = e->path_len;
	s->is_any_parent = false;
	memcpy(s->path, e->path, e->path_len);
	return 0;
}

void fm_stage_put_head(struct fm_writer *w, const struct fm_stage_entry *e)
{
	fm_put_u8(w, (uint8_t)e->type);
	fm_put_u8(w, 0);
	fm_put_le16(w, e->mode);
	fm_put_le16(w, (uint16_t)e->path_len);
	fm_put_le16(w, (uint16_t)e->target_len);
	fm_put_le64(w, e->size);
	fm_put_le64(w, (uint64_t)e->mtime_ns);
}

void fm_stage_listing_add(struct fm_sha256 *s, const struct fm_stage_entry *e)
{
	uint8_t head[FM_STAGE_ENTRY_HEAD];
	struct fm_writer w = { .at = head, .end = head + sizeof(head) };
	struct fm_stage_entry listed = *e;

	listed.mode = 0;
	fm_stage_put_head(&w, &listed);
	assert(!w.failed && w.at == w.end);
	fm_sha256_add(s, head, sizeof(head));
	fm_sha256_add(s, e->path, e->path_len);
	fm_sha256_add(s, e->target, e->target_len);
}

/* ---- chunks ---- */

uint64_t fm_stage_chunks(uint64_t size)
{
	return size / FM_STAGE_CHUNK + (size % FM_STAGE_CHUNK > 0);
}

uint32_t fm_stage_chunk_len(uint64_t size, uint64_t n)
{
	uint64_t left = size - n * FM_STAGE_CHUNK;

	return left < FM_STAGE_CHUNK ? (uint32_t)left : FM_STAGE_CHUNK;
}

bool fm_stage_is_chunk(const struct fm_stage_chunk *c, uint32_t len)
{
	unsigned granules = (len + FM_STAGE_GRANULE - 1) / FM_STAGE_GRANULE;
	uint64_t all = granules == 64 ? UINT64_MAX : (UINT64_C(1) << granules) - 1;

	if (c->zeros & ~all)
		return false;
	return c->zeros != all || c->crc == fm_crc32c_whole(0, len);
}
