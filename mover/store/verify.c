/* SPDX-License-Identifier: MIT */
/*
 * verify - read again and compare. O_DIRECT, so that the disk answers and not the page cache.
 *
 * Happy path: a file's digest, its bytes in blocks of BUF_BYTES, the CRC32C of the whole.
 * Failure modes: no digest, or one of another size or time: counted, not read; a file that is written to while it is read:
 * counted with those. A byte that cannot be read: the read is tried again in small pieces to say which, and the file is a
 * finding. A CRC that differs: a finding with the first blocks that differ, where blocks were kept.
 */
#include "mover/store/verify.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/crc32c.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/journal/written.h"
#include "mover/store/path.h"
#include "mover/store/sys.h"
#include "mover/store/walk.h"
#include "mover/tree/digest.h"

#define BUF_BYTES (4u << 20)	/* divides every block of a digest */
#define PIECE 4096u
_Static_assert(FM_DIGEST_BLOCK_MIN % BUF_BYTES == 0, "a buffer lies in one block");

struct run {
	struct fm_verify *v;
	struct fm_walk *walk;
	uint8_t *buf;
	const char *top;		/* path of what was asked for */
	char path[2 * FM_PATH_SHOWN_MAX + 8192];
};

void fm_verify_init(struct fm_verify *v)
{
	*v = (struct fm_verify){ .waiting = 0 };
	pthread_mutex_init(&v->lock, NULL);
	pthread_cond_init(&v->taken, NULL);
	fm_list_init(&v->findings);
}

void fm_verify_destroy(struct fm_verify *v)
{
	struct fm_finding *f;

	while ((f = fm_verify_take(v)) != NULL)
		free(f);
	pthread_cond_destroy(&v->taken);
	pthread_mutex_destroy(&v->lock);
}

void fm_verify_stop(struct fm_verify *v)
{
	pthread_mutex_lock(&v->lock);
	v->is_stopped = true;
	pthread_cond_signal(&v->taken);
	pthread_mutex_unlock(&v->lock);
}

void fm_verify_look(struct fm_verify *v, struct fm_verify_count *out)
{
	pthread_mutex_lock(&v->lock);
	*out = v->count;
	pthread_mutex_unlock(&v->lock);
}

struct fm_finding *fm_verify_take(struct fm_verify *v)
{
	struct fm_finding *f = NULL;

	pthread_mutex_lock(&v->lock);
	if (!fm_list_is_empty(&v->findings)) {
		f = fm_container_of(fm_list_pop(&v->findings), struct fm_finding, at);
		v->waiting--;
		pthread_cond_signal(&v->taken);
	}
	pthread_mutex_unlock(&v->lock);
	return f;
}

static bool is_stopped(struct fm_verify *v)
{
	bool is;

	pthread_mutex_lock(&v->lock);
	is = v->is_stopped;
	pthread_mutex_unlock(&v->lock);
	return is;
}

static void add(struct fm_verify *v, uint64_t *counter, uint64_t by)
{
	pthread_mutex_lock(&v->lock);
	*counter += by;
	pthread_mutex_unlock(&v->lock);
}

static int say(struct run *r, enum fm_finding_kind kind, uint64_t offset, uint64_t length)
{
	struct fm_verify *v = r->v;
	size_t len = strlen(r->path);
	struct fm_finding *f = FM_FAULT("verify.finding") ? NULL : malloc(sizeof(*f) + len + 1);

	if (!f)
		return -ENOMEM;
	*f = (struct fm_finding){ .kind = kind, .offset = offset, .length = length };
	fm_list_init(&f->at);
	memcpy(f->path, r->path, len + 1);
	pthread_mutex_lock(&v->lock);
	while (v->waiting >= FM_VERIFY_FINDINGS_MAX && !v->is_stopped)
		pthread_cond_wait(&v->taken, &v->lock);
	fm_list_append(&v->findings, &f->at);
	v->waiting++;
	if (kind == FM_FINDING_CORRUPT)
		v->count.corrupt++;
	else
		v->count.unreadable++;
	pthread_mutex_unlock(&v->lock);
	return 0;
}

/* ---- one file ---- */

static ssize_t read_at(int fd, void *buf, size_t len, uint64_t offset)
{
	ssize_t n;

	if (FM_FAULT("verify.read"))
		return -EIO;
	do {
		n = pread(fd, buf, len, (off_t)offset);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

struct stretch {
	uint64_t offset;
	uint64_t length;
};

/* The first piece of a stretch that cannot be read; all of it, if every piece can now. */
static void find_bad(struct run *r, int fd, struct stretch *s)
{
	uint64_t end = s->offset + s->length;

	for (uint64_t at = s->offset; at < end; at += PIECE) {
		if (read_at(fd, r->buf, PIECE, at) >= 0)
			continue;
		*s = (struct stretch){ at, end - at < PIECE ? end - at : PIECE };
		return;
	}
}

struct sums {
	uint32_t parts;				/* of the whole */
	uint32_t block[FM_DIGEST_BLOCKS_MAX];
};

/* 0: all was read. 1: *bad could not be, and nothing behind it was tried. */
static int read_file(struct run *r, int fd, const struct fm_digest *d, struct sums *sums, struct stretch *bad)
{
	uint64_t block_bytes = fm_digest_block_bytes(d->size), offset = 0;

	while (offset < d->size) {
		ssize_t n = is_stopped(r->v) ? -ECANCELED : read_at(fd, r->buf, BUF_BYTES, offset);
		uint32_t part;

		if (n == -ECANCELED)
			return (int)n;
		if (n > 0 && (uint64_t)n > d->size - offset)
			n = (ssize_t)(d->size - offset);	/* what was appended meanwhile is not asked about */
		else if (n > 0 && offset + (uint64_t)n < d->size)
			n -= n % PIECE;		/* a short read must not leave the grid of the disk's blocks */
		if (n <= 0) {
			*bad = (struct stretch){ offset, d->size - offset };
			if (n < 0) {
				bad->length = bad->length < BUF_BYTES ? bad->length : BUF_BYTES;
				find_bad(r, fd, bad);
			}
			return 1;
		}
		part = fm_crc32c_part(fm_crc32c(0, r->buf, (size_t)n), offset, (uint32_t)n);
		sums->parts ^= part;
		sums->block[offset / block_bytes] ^= part;
		add(r->v, &r->v->count.bytes, (uint64_t)n);
		offset += (uint64_t)n;
	}
	return 0;
}

/* The first blocks that differ, side by side; the whole file, where no blocks were kept. */
static struct stretch first_difference(const struct fm_digest *d, const struct sums *sums)
{
	uint64_t block_bytes = fm_digest_block_bytes(d->size), from, to;
	unsigned i = 0;

	while (i < d->blocks && d->block[i] == sums->block[i])
		i++;
	if (i == d->blocks)
		return (struct stretch){ 0, d->size };
	from = i * block_bytes;
	while (i < d->blocks && d->block[i] != sums->block[i])
		i++;
	to = i * block_bytes < d->size ? i * block_bytes : d->size;
	return (struct stretch){ from, to - from };
}

static int64_t ns_of(const struct timespec *t)
{
	return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

static bool is_written_since(int fd, const struct stat *before)
{
	struct stat now;

	return fstat(fd, &now) == 0 && fm_is_written(fd, before, &now);
}

/* What was written to while it was read is what its digest says no more, and of what was read nothing can be said. */
static int compare(struct run *r, int fd, const struct fm_digest *d, const struct stat *before)
{
	struct stretch bad = { 0 };
	struct sums sums = { 0 };
	int ret = read_file(r, fd, d, &sums, &bad);

	if (ret < 0 || (ret == 0 && fm_crc32c_whole(sums.parts, d->size) == d->crc))
		return ret;
	if (is_written_since(fd, before)) {
		add(r->v, &r->v->count.changed, 1);
		return 0;
	}
	if (ret > 0)
		return say(r, FM_FINDING_UNREADABLE, bad.offset, bad.length);
	bad = first_difference(d, &sums);
	return say(r, FM_FINDING_CORRUPT, bad.offset, bad.length);
}

static int verify_open(struct run *r, int fd, const struct stat *st)
{
	struct fm_verify_count *count = &r->v->count;
	struct fm_digest d;
	int ret = fm_digest_get(fd, &d);

	if (ret < 0) {
		add(r->v, &count->without, 1);
		return 0;
	}
	if (d.size != (uint64_t)st->st_size || d.mtime_ns != ns_of(&st->st_mtim)) {
		add(r->v, &count->changed, 1);
		return 0;
	}
	return compare(r, fd, &d, st);
}

/* O_NONBLOCK: a pipe must not be waited for. Some file systems have no O_DIRECT. */
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

static int verify_file(struct run *r, int dir, const char *name)
{
	struct stat st;
	int ret = fm_sys_fstatat(dir, name, &st), fd;

	if (ret < 0 || !S_ISREG(st.st_mode))
		return ret == -ENOENT ? 0 : ret;	/* links and the like have no content of their own */
	fd = open_file(dir, name);
	if (fd == -ENOENT || fd == -ELOOP)
		return 0;	/* it went, or became a link, meanwhile */
	if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM)
		return fd;	/* which says nothing of the file */
	add(r->v, &r->v->count.files, 1);
	if (fd < 0)
		return say(r, FM_FINDING_UNREADABLE, 0, 0);
	ret = fstat(fd, &st) < 0 ? -errno : verify_open(r, fd, &st);
	close(fd);
	return ret;
}

/* ---- all of them ---- */

/* The path of what the walk is at. */
static void set_path(struct run *r, const char *name)
{
	size_t len = (size_t)snprintf(r->path, sizeof(r->path), "%s", r->top);

	for (unsigned i = 1; i < r->walk->depth && len < sizeof(r->path); i++)
		len += (size_t)snprintf(r->path + len, sizeof(r->path) - len, "%s%s", len ? "/" : "", r->walk->names[i]);
	if (len < sizeof(r->path))
		(void)snprintf(r->path + len, sizeof(r->path) - len, "%s%s", len ? "/" : "", name);	/* cut: for people */
}

static int verify_tree(struct run *r, int dir)
{
	struct fm_walk_at at;
	int ret = fm_walk_start(r->walk, dir);

	while (ret == 0) {
		ret = is_stopped(r->v) ? -ECANCELED : fm_walk_next(r->walk, &at);
		if (ret <= 0)
			break;
		ret = 0;
		if (at.is_dir && !at.is_leaving && fm_path_is_reserved(at.name))
			fm_walk_skip(r->walk);	/* unfinished trees, and versions that were replaced */
		if (at.is_dir || fm_path_is_reserved(at.name))
			continue;
		set_path(r, at.name);
		ret = verify_file(r, at.dir, at.name);
	}
	fm_walk_end(r->walk);
	return ret;
}

static int verify_any(struct run *r, int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		return verify_tree(r, fd);
	if (errno != ENOTDIR)
		return -errno;
	(void)snprintf(r->path, sizeof(r->path), "%s", r->top);	/* cut: for people */
	return verify_file(r, dir, name);
}

int fm_verify_run(struct fm_verify *v, int dir, const char *name, const char *path, struct fm_err *err)
{
	struct run *r = fm_sys_alloc(sizeof(*r));
	int ret = -ENOMEM;

	if (r && fm_budget_take(BUF_BYTES)) {
		r->v = v;
		r->top = path;
		r->walk = fm_sys_alloc(sizeof(*r->walk));
		r->buf = FM_FAULT("verify.buf") ? NULL : aligned_alloc(PIECE, BUF_BYTES);
		if (r->walk && r->buf)
			ret = verify_any(r, dir, name);
		free(r->walk);
		free(r->buf);
		fm_budget_give(BUF_BYTES);
	}
	free(r);
	return ret < 0 ? fm_path_fail(err, ret, "verify", path) : 0;
}
