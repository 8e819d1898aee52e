/* SPDX-License-Identifier: MIT */
/*
 * verify_file - one file is read again, with O_DIRECT, so that the disk answers and not the page
 * cache.
 *
 * Happy path: what it should be (its manifest's entry, or the digest kept with it), its bytes in
 * blocks of BUF_BYTES, the CRC32C of the whole. Failure modes: nothing to compare with: counted,
 * not read. A byte that cannot be read: the read is tried again in small pieces to say which.
 * Contents that differ are a finding:
 *   - swapped: it is whole by its own digest, but not what the manifest lists under that name;
 *   - changed: its size or time is another, or it is written to while it is read;
 *   - corrupt: size and time are as they were. Or the digest kept with the file is damaged: what
 *     was in the file is not known any more, or a get refuses what the manifest calls whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/block.h"
#include "mover/base/call.h"
#include "mover/base/crc32c.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/journal/written.h"
#include "mover/store/sys.h"
#include "mover/store/verify_priv.h"

#define BUF_BYTES FM_VERIFY_BUF_BYTES
_Static_assert(FM_DIGEST_BLOCK_MIN % BUF_BYTES == 0, "a buffer lies in one block");

struct stretch {
	uint64_t offset;
	uint64_t length;
};

/* A file that is being compared. */
struct compared {
	struct fm_verify_run *r;
	int fd;
	struct stat st;			/* when it was opened */
	bool is_listed;
	/* a digest of what it is now, by its size and time, was kept with it: */
	bool has_own;
	struct fm_digest own;
	bool is_own_damaged;		/* one is there, and nobody can read it */
	struct fm_digest want;		/* what it should be */
	uint32_t parts;			/* of what was read */
	struct fm_digest got;		/* of the first want.size bytes; crc: their contributions */
	struct stretch bad;		/* what cannot be read */
};

/* ---- reading ---- */

static ssize_t read_at(int fd, void *buf, size_t len, uint64_t offset)
{
	return FM_FAULT("verify.read") ? -EIO
				       : (ssize_t)fm_call_read_direct(fd, buf, len, offset);
}

/*
 * Finds the first piece of a stretch that cannot be read. If every piece can now, the whole stretch
 * counts.
 */
static void find_bad(struct compared *c, struct stretch *s)
{
	uint64_t end = s->offset + s->length;

	for (uint64_t at = s->offset; at < end; at += FM_BLOCK) {
		if (read_at(c->fd, c->r->buf, FM_BLOCK, at) >= 0)
			continue;
		*s = (struct stretch){ at, end - at < FM_BLOCK ? end - at : FM_BLOCK };
		return;
	}
}

/* Adds n bytes of the buffer, which belong at offset, to the sums. */
static void sum_up(struct compared *c, uint64_t offset, uint64_t n)
{
	uint64_t known = offset < c->want.size ? c->want.size - offset : 0,
		 part_len = n < known ? n : known;
	const uint8_t *buf = c->r->buf;

	if (part_len > 0) {
		uint32_t part =
			fm_crc32c_part(fm_crc32c(0, buf, part_len), offset, (uint32_t)part_len);

		c->parts ^= part;
		c->got.crc ^= part;
		c->got.block[offset / fm_digest_block_bytes(c->want.size)] ^= part;
	}
	if (part_len < n)
		c->parts ^= fm_crc32c_part(fm_crc32c(0, buf + part_len, n - part_len),
					   offset + part_len, (uint32_t)(n - part_len));
}

/*
 * Reads the first `end` bytes, or all that there are. 1: c->bad could not be read, and nothing
 * behind it was tried.
 */
static int read_file(struct compared *c, uint64_t end)
{
	uint64_t offset = 0;

	while (offset < end) {
		ssize_t n = read_at(c->fd, c->r->buf, BUF_BYTES - offset % BUF_BYTES, offset);

		if (fm_verify_is_stopped(c->r->v))
			return -ECANCELED;
		if (n > 0 && (uint64_t)n > end - offset)
			/* what was appended meanwhile is not asked about */
			n = (ssize_t)(end - offset);
		else if (n > 0 && offset + (uint64_t)n < end)
			/* a short read must not leave the grid of the disk's blocks */
			n -= n % FM_BLOCK;
		if (n <= 0) {
			c->bad = (struct stretch){ offset, end - offset };
			if (n < 0) {
				c->bad.length =
					c->bad.length < BUF_BYTES ? c->bad.length : BUF_BYTES;
				find_bad(c, &c->bad);
			}
			return 1;
		}
		sum_up(c, offset, (uint64_t)n);
		fm_verify_add(c->r->v, &c->r->v->count.bytes, (uint64_t)n);
		offset += (uint64_t)n;
	}
	return 0;
}

/* ---- comparing ---- */

static bool is_written_since(const struct compared *c)
{
	struct stat now;

	return fstat(c->fd, &now) == 0 && fm_is_written(c->fd, &c->st, &now);
}

static bool is_size_and_time(const struct compared *c, const struct fm_digest *d)
{
	return d->size == (uint64_t)c->st.st_size && d->mtime_ns == fm_time_ns(&c->st.st_mtim);
}

static bool is_whole(const struct compared *c, const struct fm_digest *d)
{
	return d->size == (uint64_t)c->st.st_size && fm_crc32c_whole(c->parts, d->size) == d->crc;
}

/* Finds where the content differs first. */
static struct stretch difference(const struct compared *c)
{
	uint64_t size = (uint64_t)c->st.st_size;
	struct fm_digest got = c->got;
	struct stretch s;

	if (size > c->want.size && fm_crc32c_whole(c->got.crc, c->want.size) == c->want.crc)
		return (struct stretch){ c->want.size, size - c->want.size };
	got.size = c->want.size;
	got.blocks = c->want.blocks;
	fm_digest_difference(&c->want, &got, &s.offset, &s.length);
	return s;
}

/* Whether a get has a digest to compare with that is not that of the content, or is damaged. */
static bool is_refused(const struct compared *c)
{
	return c->is_own_damaged || (c->is_listed && c->has_own && !is_whole(c, &c->own));
}

/* Judges a file of which everything readable was read. */
static int judge(struct compared *c)
{
	enum fm_finding_kind kind =
		is_size_and_time(c, &c->want) ? FM_FINDING_CORRUPT : FM_FINDING_CHANGED;
	struct stretch where;

	if (is_whole(c, &c->want))
		return is_refused(c) ? fm_verify_say(c->r, FM_FINDING_CORRUPT, 0, c->own.size) : 0;
	where = difference(c);
	if (is_written_since(c)) {
		kind = FM_FINDING_CHANGED;
	} else if (c->is_listed && c->has_own && is_whole(c, &c->own)) {
		kind = FM_FINDING_SWAPPED;
		where = (struct stretch){ 0, (uint64_t)c->st.st_size };
	}
	return fm_verify_say(c->r, kind, where.offset, where.length);
}

/* Judges a file of which only size and time are known. */
static int judge_times(struct compared *c)
{
	uint64_t size = (uint64_t)c->st.st_size;

	if (!is_size_and_time(c, &c->want))
		return fm_verify_say(c->r, FM_FINDING_CHANGED, 0,
				     size > c->want.size ? size : c->want.size);
	if (c->is_own_damaged)
		return fm_verify_say(c->r, FM_FINDING_CORRUPT, 0, 0);
	fm_verify_add(c->r->v, &c->r->v->count.without, 1);
	return 0;
}

static int compare(struct compared *c)
{
	uint64_t size = (uint64_t)c->st.st_size;
	bool may_be_another = c->is_listed && c->has_own;
	int ret = read_file(c, may_be_another || size < c->want.size ? size : c->want.size);

	if (ret < 0)
		return ret;
	if (ret == 0)
		return judge(c);
	if (is_written_since(c))
		return fm_verify_say(c->r, FM_FINDING_CHANGED, c->bad.offset, c->bad.length);
	return fm_verify_say(c->r, FM_FINDING_UNREADABLE, c->bad.offset, c->bad.length);
}

static int verify_open(struct compared *c, const struct fm_verify_listed *listed)
{
	int kept = fm_digest_get(c->fd, &c->own);
	bool has_digest = kept == 0;

	c->is_listed = listed != NULL;
	c->is_own_damaged = kept == -EBADMSG;
	c->has_own = has_digest && is_size_and_time(c, &c->own);
	if (!listed && c->is_own_damaged)
		return fm_verify_say(c->r, FM_FINDING_CORRUPT, 0, 0);
	if (!listed && !has_digest) {
		fm_verify_add(c->r->v, &c->r->v->count.without, 1);
		return 0;
	}
	if (!listed || (has_digest && listed->has_crc && c->own.crc == listed->crc &&
			c->own.size == listed->size))
		c->want = c->own;	/* it knows the blocks, too */
	else
		c->want = (struct fm_digest){ .crc = listed->crc, .size = listed->size };
	if (listed)
		c->want.mtime_ns = listed->mtime_ns;
	if (!listed && c->r->is_directory)
		fm_verify_add(c->r->v, &c->r->v->count.unlisted, 1);
	return listed && !listed->has_crc ? judge_times(c) : compare(c);
}

/*
 * Opens the file. O_NONBLOCK, so that a pipe is not waited for. Some file systems have no O_DIRECT.
 */
static int open_file(int dir, const char *name)
{
	int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
	int fd;

	if (FM_FAULT("verify.gone"))
		return -ENOENT;
	if (FM_FAULT("verify.open"))
		return -EMFILE;
	fd = openat(dir, name, flags | O_DIRECT);
	if (fd < 0 && errno == EINVAL)
		fd = openat(dir, name, flags);
	return fd < 0 ? -errno : fd;
}

static int meet_other(struct fm_verify_run *r, const struct fm_verify_listed *listed)
{
	if (!listed)
		return 0;	/* links and the like have no content of their own */
	fm_verify_add(r->v, &r->v->count.files, 1);
	return fm_verify_say(r, FM_FINDING_CHANGED, 0, listed->size);
}

int fm_verify_file(struct fm_verify_run *r, int dir, const char *name,
		   const struct fm_verify_listed *listed)
{
	struct compared c = { .r = r };
	struct stat st;
	int ret = fm_sys_fstatat(dir, name, &st);

	if (ret < 0)
		return ret;
	if (!S_ISREG(st.st_mode))
		return meet_other(r, listed);
	c.fd = open_file(dir, name);
	if (c.fd == -ENOENT || c.fd == -ELOOP)
		return -ENOENT;	/* it went, or became a link, meanwhile */
	if (c.fd == -EMFILE || c.fd == -ENFILE || c.fd == -ENOMEM)
		return c.fd;	/* which says nothing of the file */
	fm_verify_add(r->v, &r->v->count.files, 1);
	if (c.fd < 0)
		return fm_verify_say(r, FM_FINDING_UNREADABLE, 0, 0);
	ret = fstat(c.fd, &c.st) < 0 ? -errno : verify_open(&c, listed);
	close(c.fd);
	return ret;
}
