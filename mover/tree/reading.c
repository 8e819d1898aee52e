/* SPDX-License-Identifier: MIT */
/*
 * reading - a file or directory of a tree that is a source.
 */
#include "mover/tree/reading.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/call.h"
#include "mover/base/crc32c.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/show.h"
#include "mover/journal/written.h"
#include "mover/tree/digest.h"
#include "mover/tree/tree.h"

/*
 * O_NOATIME is refused for files of other users. After the first refusal it is left out: it only
 * spares the access time.
 */
static atomic_bool is_noatime_refused;

static int open_once(int dir, const char *name, int flags, enum fm_reading_way way)
{
	if (way == FM_READING_PATH)
		return fm_call_open_below(dir, name, flags | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS);
	return fm_call(openat(dir, name, way == FM_READING_NAME ? flags | O_NOFOLLOW : flags));
}

int fm_reading_open_fd(int dir, const char *name, int flags, enum fm_reading_way way)
{
	bool has_noatime = !atomic_load_explicit(&is_noatime_refused, memory_order_relaxed);
	int fd;

	/* O_NONBLOCK: what became a fifo meanwhile must not make us wait. */
	flags |= O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	if (FM_FAULT("reading.open"))
		return -EMFILE;
	fd = open_once(dir, name, has_noatime ? flags | O_NOATIME : flags, way);
	if (fd != -EPERM || !has_noatime)
		return fd;
	atomic_store_explicit(&is_noatime_refused, true, memory_order_relaxed);
	return open_once(dir, name, flags, way);
}

static int look(int fd, struct stat *out)
{
	if (FM_FAULT("reading.fstat"))
		return -EIO;
	return fstat(fd, out) < 0 ? -errno : 0;
}

/* A large file is read by others, without the page cache; they see to what is in it. */
static int look_first(int fd, struct stat *out)
{
	int ret = FM_FAULT("reading.look") ? -EIO
					   : fm_look_before_read(fd, true, FM_TREE_LARGE, out);

	return ret == 0 && !S_ISREG(out->st_mode) ? -ESTALE : ret;
}

int fm_reading_open(int dir, const char *name, enum fm_reading_way way,
		    struct fm_reading **out)
{
	struct fm_reading *r =
		FM_FAULT("reading.alloc") ? NULL : fm_budget_realloc(NULL, sizeof(*r));
	int ret;

	if (!r)
		return -ENOMEM;
	atomic_init(&r->refs, 1);
	r->is_kept = false;
	r->fd = fm_reading_open_fd(dir, name, 0, way);
	ret = r->fd < 0 ? r->fd : look_first(r->fd, &r->st);
	if (ret < 0) {
		if (r->fd >= 0)
			close(r->fd);
		fm_budget_free(r);
		return ret;
	}
	atomic_init(&r->parts, 0);
	atomic_init(&r->left, (uint64_t)r->st.st_size);
	*out = r;
	return 0;
}

struct fm_reading *fm_reading_get(struct fm_reading *r)
{
	atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
	return r;
}

void fm_reading_put(struct fm_reading *r)
{
	if (!r || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) > 1)
		return;
	close(r->fd);
	fm_budget_free(r);
}

int fm_reading_take_fd(struct fm_reading *r)
{
	int fd = r->fd;

	assert(atomic_load(&r->refs) == 1);
	/* looking for holes moved it; on a regular file this cannot fail */
	(void)lseek(fd, 0, SEEK_SET);
	fm_budget_free(r);
	return fd;
}

int fm_reading_read(struct fm_reading *r, void *buf, size_t len, uint64_t offset)
{
	int64_t n = FM_FAULT("reading.read") ? -EIO : fm_call_read_all(r->fd, buf, len, offset);

	if (n < 0)
		return (int)n;
	return (size_t)n < len ? -ESTALE : 0;
}

int fm_reading_check(struct fm_reading *r)
{
	struct stat now;
	int ret = look(r->fd, &now);

	if (ret < 0)
		return ret;
	return fm_is_written(r->fd, &r->st, &now) ? -ESTALE : 0;
}

int fm_reading_expect(struct fm_reading *r)
{
	struct fm_digest d;
	int ret = fm_digest_of(r->fd, &r->st, &d);

	r->is_kept_damaged = ret == -EBADMSG;
	r->is_kept = ret > 0 || r->is_kept_damaged;
	if (ret > 0)
		r->kept_crc = d.crc;
	return ret < 0 && !r->is_kept_damaged ? ret : 0;
}

bool fm_reading_count(struct fm_reading *r, uint32_t part, size_t len)
{
	atomic_fetch_xor(&r->parts, part);
	/* Whoever takes the last bytes away sees the parts of all the others. */
	if (atomic_fetch_sub(&r->left, len) != len || !r->is_kept)
		return true;
	return !r->is_kept_damaged &&
	       fm_crc32c_whole(atomic_load(&r->parts), (uint64_t)r->st.st_size) == r->kept_crc;
}

bool fm_reading_may_have_holes(const struct stat *st)
{
	return (uint64_t)st->st_blocks * 512 < (uint64_t)st->st_size;
}

bool fm_reading_has_holes(struct fm_reading *r)
{
	return fm_reading_may_have_holes(&r->st) && lseek(r->fd, 0, SEEK_HOLE) < r->st.st_size;
}

int64_t fm_reading_mtime(const struct stat *st)
{
	return fm_time_ns(&st->st_mtim);
}

void fm_reading_identity(const struct stat *st, struct fm_identity *out)
{
	*out = (struct fm_identity){
		.dev = st->st_dev,
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime_ns = fm_reading_mtime(st),
		.ctime_ns = fm_time_ns(&st->st_ctim),
	};
}

int fm_reading_fail(struct fm_err *err, int code, const char *path)
{
	struct fm_path_shown shown;
	const char *name = fm_path_show(path[0] ? path : ".", &shown);

	switch (code) {
	case -EACCES:
	case -EPERM:
		/* -EACCES means the rules of a store, which are not asked here. */
		return fm_err_set(
			err, -EPERM,
			"cannot read \"%s\": permission denied; have a user ask who may read all "
			"of the tree, or " FM_READING_WAY_OUT,
			name);
	case -ENOENT:
	case -ENOTDIR:
	case -ELOOP:
	case -ESTALE:
		return fm_err_set(
			err, -ESTALE,
			"\"%s\" changed while it was read; run it again when nothing writes "
			"there",
			name);
	case -EMFILE:
	case -ENFILE:
		return fm_err_set(
			err, code,
			"read \"%s\": too many open files; raise the limit (ulimit -n, or "
			"LimitNOFILE= in the unit)",
			name);
	/* it is leased, or its directories are being renamed; to our callers it means something
	 * else */
	case -EAGAIN:
		return fm_err_sys(err, -EBUSY, "read \"%s\"", name);
	default:
		return fm_err_sys(err, code, "read \"%s\"", name);
	}
}
