/* SPDX-License-Identifier: MIT */
/*
 * cache_version - a new version takes what did not change from the old one.
 *
 * A reflink where the file system has them: the new file is its own, and shares blocks. Else a hard
 * link: both are read-only, and equal in all that one inode can have only once. What the old
 * manifest says is not believed: a file is read, and one that was damaged or truncated since is
 * fetched.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/tree/reading.h"
#include "staging/cache_file.h"
#include "staging/cache_priv.h"
#include "staging/cache_sys.h"
#include "staging/chunk.h"

#define NEW_NAME ".new.file"

/* Equal in size, time, mode and the CRCs that are known: as sure as these make it. */
static bool is_same(const struct fm_cache_file *old, const struct fm_cache_file *file)
{
	if (old->size != file->size || old->mtime_ns != file->mtime_ns ||
	    (old->mode & 0100) != (file->mode & 0100) || !old->crcs)
		return false;
	return !file->crcs ||
	       (old->crc_count == file->crc_count &&
		memcmp(old->crcs, file->crcs, old->crc_count * sizeof(*old->crcs)) == 0);
}

struct taking {
	struct fm_cache_fetch *f;
	struct fm_cache_reuse *reuse;
	int old; /* the old dataset's directory */
	uint8_t *buf; /* of a chunk */
	char old_name[FM_CACHE_NAME_MAX + 1];
};

/* "NAME" or "NAME/path". */
static int path_of(const char *name, const char *path, char out[static PATH_MAX])
{
	int len = snprintf(out, PATH_MAX, "%s%s%s", name, path[0] ? "/" : "", path);

	return len < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* The directory that a path is in, made if need be, and the last part of it in *name. */
static int open_parent(int root, char path[static PATH_MAX], bool is_made, const char **name)
{
	char *slash = strrchr(path, '/');
	int ret = 0;

	*name = slash ? slash + 1 : path;
	for (char *at = strchr(path, '/'); is_made && at && ret == 0; at = strchr(at + 1, '/')) {
		char *part;
		int dir = root;

		*at = '\0';
		part = strrchr(path, '/');
		if (part) {
			*part = '\0';
			dir = fm_cache_sys_open(root, path, FM_CACHE_DIR_FLAGS, 0);
			*part = '/';
		}
		ret = dir < 0 ? dir : fm_cache_sys_mkdir(dir, part ? part + 1 : path, 0700);
		if (part && dir >= 0)
			(void)close(dir); /* only a name was made in it */
		*at = '/';
		ret = ret == -EEXIST ? 0 : ret;
	}
	if (ret < 0)
		return ret;
	if (slash)
		*slash = '\0';
	return fm_cache_sys_open(root, slash ? path : ".", FM_CACHE_DIR_FLAGS, 0);
}

static int64_t mtime_of(const struct stat *st)
{
	return fm_time_ns(&st->st_mtim);
}

static bool is_as_told(const struct stat *st, const struct fm_cache_file *file)
{
	return S_ISREG(st->st_mode) && fm_cache_is_ours(st) && (st->st_mode & 0222) == 0 &&
	       (uint64_t)st->st_size == file->size && mtime_of(st) == file->mtime_ns;
}

static int clone_file(int from, int dir, const struct fm_cache_file *file)
{
	int to = fm_cache_sys_open(dir, NEW_NAME, O_WRONLY | O_CREAT,
				   file->mode & 0100 ? 0700 : 0600);
	int ret = to < 0 ? to : fm_cache_sys_clone(to, from);

	if (ret == 0)
		ret = fm_cache_sys_set_mtime(to, file->mtime_ns);
	if (to >= 0 && close(to) < 0 && ret == 0)
		ret = -errno;
	return ret;
}

static bool has_no_clone(int ret)
{
	return ret == -EOPNOTSUPP || ret == -ENOTTY || ret == -EINVAL || ret == -EXDEV ||
	       ret == -ENOSYS;
}

/* Under another name first: when the file has its name, it has all of its bytes, however we end. */
static int bring(struct taking *t, int fd, int from, const char *from_name,
		 const struct fm_cache_file *file)
{
	int dir = t->f->dir, ret;

	(void)unlinkat(dir, NEW_NAME,
		       0); /* of a run that was ended; else the next calls say why not */
	ret = clone_file(fd, dir, file);
	if (ret == 0)
		t->reuse->cloned_bytes += file->size;
	if (!has_no_clone(ret))
		return ret;
	(void)unlinkat(dir, NEW_NAME, 0);
	ret = fm_cache_sys_link(from, from_name, dir, NEW_NAME);
	if (ret == 0)
		t->reuse->linked_bytes +=
			(file->size + FM_CACHE_BLOCK - 1) / FM_CACHE_BLOCK * FM_CACHE_BLOCK;
	return ret;
}

static bool is_stopped(const struct taking *t)
{
	return t->reuse->is_stopped && atomic_load(t->reuse->is_stopped);
}

static void count_read(const struct taking *t, uint64_t len)
{
	if (t->reuse->bytes_done)
		atomic_fetch_add_explicit(t->reuse->bytes_done, len, memory_order_relaxed);
}

/* Whether it still has the content that the old manifest says. */
static int check_content(struct taking *t, int dir, const char *name,
			 const struct fm_cache_file *old)
{
	struct fm_reading *r;
	int ret = fm_stage_chunk_open(dir, name, &r);

	if (ret < 0)
		return ret;
	if ((uint64_t)r->st.st_size != old->size || old->crc_count != fm_stage_chunks(old->size))
		ret = -ESTALE;
	for (size_t n = 0; ret == 0 && n < old->crc_count; n++) {
		struct fm_stage_chunk c;

		ret = is_stopped(t) ? -ECANCELED : fm_stage_chunk_read(r, n, t->buf, &c);
		if (ret == 0)
			count_read(t, fm_stage_chunk_len(old->size, n));
		if (ret == 0 && c.crc != old->crcs[n])
			ret = -ESTALE;
	}
	fm_reading_put(r);
	return ret == -EIO ? -ESTALE : ret; /* the old one's disk: the new one may come */
}

static int take_opened(struct taking *t, int from, const char *from_name, int to,
		       const char *to_name, const struct fm_cache_file *file)
{
	struct stat st;
	int fd = fm_cache_sys_open(from, from_name, O_RDONLY | O_NONBLOCK, 0), ret;

	if (fd < 0)
		return fd;
	ret = fm_cache_sys_fstat(fd, &st);
	if (ret == 0 && !is_as_told(&st, file))
		ret = -ESTALE;
	if (ret == 0)
		ret = bring(t, fd, from, from_name, file);
	if (ret == 0)
		ret = fm_cache_sys_rename(t->f->dir, NEW_NAME, to, to_name, 0);
	(void)close(fd); /* only read */
	/* Where both names were one file already, rename(2) leaves both. */
	(void)unlinkat(t->f->dir, NEW_NAME, 0);
	return ret;
}

static int take(struct taking *t, const struct fm_cache_file *old, const struct fm_cache_file *file)
{
	char from_path[PATH_MAX], to_path[PATH_MAX];
	const char *from_name, *to_name;
	int from, to, ret = path_of(t->old_name, file->path, from_path);

	if (ret == 0)
		ret = path_of(t->reuse->into, file->path, to_path);
	if (ret < 0)
		return ret;
	from = open_parent(t->old, from_path, false, &from_name);
	if (from < 0)
		return from;
	ret = check_content(t, from, from_name, old);
	to = ret < 0 ? ret : open_parent(t->f->dir, to_path, true, &to_name);
	ret = to < 0 ? to : take_opened(t, from, from_name, to, to_name, file);
	if (to >= 0)
		(void)close(to); /* the save syncs what was made */
	(void)close(from);	 /* only read */
	return ret;
}

static bool is_before(const struct fm_cache_file *a, const struct fm_cache_file *b)
{
	return fm_stage_path_compare(a->path, strlen(a->path), b->path, strlen(b->path)) < 0;
}

/* Both in order: each is looked at once. What cannot be taken is fetched, whatever the reason. */
static int take_all(struct taking *t)
{
	struct fm_cache_reuse *r = t->reuse;
	struct fm_cache_file old, file;
	bool has_old = r->had.next(r->had.ctx, &old);
	int ret = 0;

	while (r->wanted.next(r->wanted.ctx, &file)) {
		if (is_stopped(t))
			return -ECANCELED;
		while (has_old && is_before(&old, &file))
			has_old = r->had.next(r->had.ctx, &old);
		ret = has_old && strcmp(old.path, file.path) == 0 && is_same(&old, &file)
			      ? take(t, &old, &file)
			      : 1;
		if (ret == -ENOSPC || ret == -EDQUOT || ret == -EIO || ret == -EROFS)
			return ret; /* nobody could fetch it either */
		if (ret == -ECANCELED)
			return ret;
		if (ret != 0)
			r->missing(r->ctx, &file);
	}
	return 0;
}

static void give_old_back(struct taking *t)
{
	struct fm_cache_entry *e;

	if (t->old >= 0)
		(void)close(t->old); /* only read */
	pthread_mutex_lock(&t->f->c->lock);
	e = fm_cache_entry_of(t->f->c, t->reuse->old);
	if (e)
		e->kept--;
	pthread_mutex_unlock(&t->f->c->lock);
}

/* The old one stays until it is given back. */
static int keep_old(struct taking *t, struct fm_err *err)
{
	struct fm_cache *c = t->f->c;
	char name[FM_CACHE_ENTRY_NAME_MAX];
	struct fm_cache_entry *e;
	int ret;

	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, t->reuse->old);
	ret = fm_cache_may_use(e, err);
	if (ret == 0 && e->state != FM_CACHE_READY)
		ret = fm_err_set(err, -EINVAL, "%s is not ready: nothing is taken from it",
				 e->set.name);
	if (ret == 0) {
		e->kept++;
		fm_cache_entry_name(e, name);
		(void)snprintf(t->old_name, sizeof(t->old_name), "%s", e->set.name);
	}
	pthread_mutex_unlock(&c->lock);
	if (ret < 0)
		return ret;
	t->old = fm_cache_sys_open(c->dirs[FM_CACHE_IN_READY], name, FM_CACHE_DIR_FLAGS, 0);
	if (t->old >= 0)
		return 0;
	ret = t->old;
	give_old_back(t);
	return fm_err_sys(err, ret, "cache %.200s: open ready/%s", c->directory, name);
}

/*
 * Counts the bytes that a new version shares with the old one by hard links: it needs no room for
 * them.
 */
static int count_shared(struct taking *t)
{
	struct fm_cache_entry *e = t->f->e;
	uint64_t shared = t->reuse->linked_bytes;

	if (shared == 0)
		return 0;
	pthread_mutex_lock(&t->f->c->lock);
	e->set.base = t->reuse->old;
	e->set.shared = shared < e->set.bytes ? shared : e->set.bytes;
	pthread_mutex_unlock(&t->f->c->lock);
	return fm_cache_dataset_write(t->f->dir, &e->set);
}

int fm_cache_fetch_reuse(struct fm_cache_fetch *f, struct fm_cache_reuse *reuse, struct fm_err *err)
{
	struct taking t = {.f = f, .reuse = reuse, .old = -1};
	int ret = fm_cache_fetch_begin(f, err);

	if (ret < 0)
		return ret;
	reuse->cloned_bytes = reuse->linked_bytes = 0;
	t.buf = fm_stage_chunk_buf_new();
	ret = t.buf ? keep_old(&t, err) : fm_err_set(err, -ENOMEM, "no memory to read a file");
	if (ret == 0) {
		ret = take_all(&t);
		if (ret == 0 || ret == -ECANCELED) {
			int counted = count_shared(&t);

			ret = ret < 0 ? ret : counted;
		}
		if (ret < 0)
			(void)fm_err_sys(err, ret, "cache %.200s: take from the old version",
					 f->c->directory);
		give_old_back(&t);
	}
	fm_stage_chunk_buf_free(t.buf);
	fm_cache_fetch_end(f);
	return ret;
}
