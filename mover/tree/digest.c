/* SPDX-License-Identifier: MIT */
/*
 * digest - a few numbers in an extended attribute, checked when they are read.
 */
#include "mover/tree/digest.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <sys/xattr.h>

#include "mover/base/bytes.h"
#include "mover/base/fault.h"
#include "mover/tree/tsys.h"

#define DIGEST_VERSION 1
#define DIGEST_HEAD 24
#define DIGEST_LEN_MAX (DIGEST_HEAD + 4 * FM_DIGEST_BLOCKS_MAX)
#define ATTR_LEN_MAX 4096	/* of a later version */

uint64_t fm_digest_block_bytes(uint64_t size)
{
	uint64_t bytes = FM_DIGEST_BLOCK_MIN;

	while (size / bytes >= FM_DIGEST_BLOCKS_MAX)
		bytes *= 2;
	return bytes;
}

int fm_digest_of(int fd, const struct stat *st, struct fm_digest *digest)
{
	int ret = fm_digest_get(fd, digest);

	if (ret == -ENODATA || ret == -EOPNOTSUPP)
		return 0;
	return ret < 0 ? ret
		       : digest->size == (uint64_t)st->st_size &&
				 digest->mtime_ns == fm_tsys_mtime(st);
}

void fm_digest_difference(const struct fm_digest *a, const struct fm_digest *b, uint64_t *offset,
			  uint64_t *length)
{
	uint64_t block_bytes = fm_digest_block_bytes(a->size), to;
	unsigned i = 0;

	assert(a->size == b->size);
	*offset = 0;
	*length = a->size;
	if (a->blocks != b->blocks)
		return;
	while (i < a->blocks && a->block[i] == b->block[i])
		i++;
	if (i == a->blocks)
		return;
	*offset = i * block_bytes;
	while (i < a->blocks && a->block[i] != b->block[i])
		i++;
	to = i * block_bytes < a->size ? i * block_bytes : a->size;
	*length = to - *offset;
}

int fm_digest_set(int fd, const struct fm_digest *digest)
{
	uint8_t buf[DIGEST_LEN_MAX];
	struct fm_writer w = { .at = buf, .end = buf + sizeof(buf) };

	assert(digest->blocks <= FM_DIGEST_BLOCKS_MAX);
	fm_put_u8(&w, DIGEST_VERSION);
	fm_put_u8(&w, (uint8_t)digest->blocks);
	fm_put_le16(&w, 0);
	fm_put_le32(&w, digest->crc);
	fm_put_le64(&w, digest->size);
	fm_put_le64(&w, (uint64_t)digest->mtime_ns);
	for (unsigned i = 0; i < digest->blocks; i++)
		fm_put_le32(&w, digest->block[i]);
	assert(!w.failed);
	if (FM_FAULT("digest.set"))
		return -ENOSPC;
	return fsetxattr(fd, FM_DIGEST_NAME, buf, (size_t)(w.at - buf), 0) < 0 ? -errno : 0;
}

/* The bytes of the attribute, or a negative errno. -ERANGE: it is too long to be of any version. */
static ssize_t digest_read(int fd, uint8_t buf[ATTR_LEN_MAX])
{
	ssize_t len;

	if (FM_FAULT("digest.get"))
		return -EIO;
	len = fgetxattr(fd, FM_DIGEST_NAME, buf, ATTR_LEN_MAX);
	return len < 0 ? -errno : len;
}

static bool is_sound(const struct fm_digest *d)
{
	uint64_t bytes = fm_digest_block_bytes(d->size);

	return d->size <= INT64_MAX &&
	       (d->blocks == 0 || d->blocks == (d->size + bytes - 1) / bytes);
}

int fm_digest_get(int fd, struct fm_digest *digest)
{
	uint8_t buf[ATTR_LEN_MAX];
	ssize_t len = digest_read(fd, buf);
	struct fm_reader r = { .at = buf, .end = buf + (len > 0 ? len : 0) };
	struct fm_digest d = { .crc = 0 };
	unsigned version;

	if (len < 0 && len != -ERANGE)
		return (int)len;
	version = fm_get_u8(&r);
	if (version > DIGEST_VERSION)
		return -EOPNOTSUPP;
	d.blocks = fm_get_u8(&r);
	if (version != DIGEST_VERSION || d.blocks > FM_DIGEST_BLOCKS_MAX ||
	    len != (ssize_t)(DIGEST_HEAD + 4 * d.blocks) || fm_get_le16(&r) != 0)
		return -EBADMSG;
	d.crc = fm_get_le32(&r);
	d.size = fm_get_le64(&r);
	d.mtime_ns = (int64_t)fm_get_le64(&r);
	if (!is_sound(&d))
		return -EBADMSG;
	for (unsigned i = 0; i < d.blocks; i++)
		d.block[i] = fm_get_le32(&r);
	*digest = d;
	return 0;
}
