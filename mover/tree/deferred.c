/* SPDX-License-Identifier: MIT */
/*
 * deferred - packs in a file.
 */
#include "mover/tree/deferred.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "mover/base/bytes.h"
#include "mover/base/call.h"
#include "mover/base/fault.h"
#include "mover/tree/tree.h"
#include "mover/tree/tsys.h"

/* The longest entry fits into an empty one. */
#define BUF_LEN (256u << 10)
_Static_assert(BUF_LEN > FM_PACK_HEAD + FM_PACK_ENTRY_HEAD + 2 * FM_TREE_PATH_MAX +
				 FM_TREE_XATTRS_MAX + 16,
	       "fits");

int fm_deferred_open(struct fm_deferred *d, int fd)
{
	*d = (struct fm_deferred){ .fd = fd, .buf = fm_tsys_alloc(BUF_LEN) };
	pthread_mutex_init(&d->lock, NULL);
	if (!d->buf) {
		fm_deferred_close(d);
		return -ENOMEM;
	}
	fm_pack_begin(&d->writer, d->buf, BUF_LEN, 0);
	return 0;
}

void fm_deferred_close(struct fm_deferred *d)
{
	close(d->fd);
	fm_tsys_free(d->buf);
	pthread_mutex_destroy(&d->lock);
}

static int flush(struct fm_deferred *d)
{
	size_t len = fm_pack_end(&d->writer);
	int ret = 0;

	if (d->bytes + len > FM_DEFERRED_BYTES_MAX)
		return -EFBIG;
	if (len > 0)
		ret = fm_tsys_write_all(d->fd, d->buf, len, d->bytes);
	if (ret < 0)
		return ret;
	d->bytes += len;
	fm_pack_begin(&d->writer, d->buf, BUF_LEN, 0);
	return 0;
}

int fm_deferred_add(struct fm_deferred *d, const struct fm_pack_entry *e)
{
	int ret = 0;

	assert(e->type == FM_PACK_DIR || e->type == FM_PACK_HARD || e->type == FM_PACK_ATTR);
	pthread_mutex_lock(&d->lock);
	if (fm_pack_room(&d->writer, e->path_len, e->target_len, e->xattr_len) < 0)
		ret = flush(d);
	if (ret == 0) {
		ret = fm_pack_add(&d->writer, e) ? 0 : -EINVAL;
		d->added[e->type] += ret == 0;
	}
	pthread_mutex_unlock(&d->lock);
	return ret;
}

static int read_exactly(int fd, void *buf, size_t len, uint64_t offset)
{
	int64_t n = FM_FAULT("tree.read") ? -EIO : fm_call_read_all(fd, buf, len, offset);

	if (n < 0)
		return (int)n;
	return (size_t)n < len ? -EIO : 0;
}

/* The pack at `at` into buf; its bytes. */
static int64_t read_pack(const struct fm_deferred *d, uint64_t at, uint8_t buf[BUF_LEN])
{
	/* pack.h: bytes of the whole pack */
	struct fm_reader r = { .at = buf + 12, .end = buf + FM_PACK_HEAD };
	uint32_t len;
	int ret;

	ret = read_exactly(d->fd, buf, FM_PACK_HEAD, at);
	if (ret < 0)
		return ret;
	len = fm_get_le32(&r);
	if (len < FM_PACK_HEAD || len > BUF_LEN || len > d->bytes - at)
		return -EIO;	/* not what was written: the disk's fault */
	ret = read_exactly(d->fd, buf + FM_PACK_HEAD, len - FM_PACK_HEAD, at + FM_PACK_HEAD);
	return ret < 0 ? ret : (int64_t)len;
}

static int visit_pack(const uint8_t *pack, size_t len,
		      int (*visit)(void *ctx, const struct fm_pack_entry *e), void *ctx)
{
	struct fm_pack_reader r;
	struct fm_pack_entry e;
	int ret = fm_pack_open(&r, pack, len), more = 0;

	while (ret == 0 && (more = fm_pack_next(&r, &e)) > 0)
		ret = visit(ctx, &e);
	if (ret == -EBADMSG || more == -EBADMSG)
		return -EIO;
	return ret;
}

int fm_deferred_each(struct fm_deferred *d, int (*visit)(void *ctx, const struct fm_pack_entry *e),
		     void *ctx)
{
	int ret = flush(d);
	int64_t len;

	if (ret < 0)
		return ret;
	/* Nothing is in the buffer, and nobody adds: packs are read into it. */
	for (uint64_t at = 0; ret == 0 && at < d->bytes; at += (uint64_t)len) {
		len = read_pack(d, at, d->buf);
		ret = len < 0 ? (int)len : visit_pack(d->buf, (size_t)len, visit, ctx);
	}
	fm_pack_begin(&d->writer, d->buf, BUF_LEN, 0);
	return ret;
}
