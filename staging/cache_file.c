/* SPDX-License-Identifier: MIT */
/* cache_file - see cache_file.h. */
#include "staging/cache_file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "staging/cache_sys.h"

#define NEW_PREFIX ".new."

bool fm_cache_is_ours(const struct stat *st)
{
	return st->st_uid == geteuid() && (st->st_mode & 0022) == 0;
}

/* ---- state ---- */

static int write_new(int dir, const char *name, const void *bytes, size_t len, bool is_synced)
{
	int fd = fm_cache_sys_open(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int ret = fd < 0 ? fd : fm_cache_sys_write(fd, bytes, len);

	if (ret == 0 && is_synced)
		ret = fm_cache_sys_fsync(fd);
	if (fd >= 0 && close(fd) < 0 && ret == 0)
		ret = -errno;
	return ret;
}

/*
 * A power cut before the rename leaves the old file, and a .new.NAME that the next write replaces.
 * The sync before the rename puts the content on the disk before the name, so that there is never a
 * name with half of a content; the sync of the directory after it puts the name there before we say
 * so. A file system may write a rename down before the content, unless that was synced: without the
 * first sync what the old file said is lost, too, however well that was synced.
 */
int fm_cache_file_write(int dir, const char *name, const void *bytes, size_t len,
			enum fm_cache_sync sync)
{
	char new_name[NAME_MAX + 1];
	int ret;

	(void)snprintf(new_name, sizeof(new_name), NEW_PREFIX "%.200s",
		       name[0] == '.' ? name + 1 : name);
	ret = write_new(dir, new_name, bytes, len, sync != FM_CACHE_SYNC_NONE);
	if (ret == 0)
		ret = fm_cache_sys_rename(dir, new_name, dir, name, 0);
	if (ret < 0) {
		(void)unlinkat(dir, new_name, 0); /* best effort: the next write replaces it */
		return ret;
	}
	return sync == FM_CACHE_SYNC_ALL ? fm_cache_sys_fsync(dir) : 0;
}

static int read_opened(int fd, size_t max, uint8_t **out, size_t *len)
{
	struct stat st;
	int64_t got;
	int ret = fm_cache_sys_fstat(fd, &st);

	if (ret < 0)
		return ret;
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 || (uint64_t)st.st_size > max)
		return -EBADMSG;
	*out = fm_cache_alloc((size_t)st.st_size);
	if (!*out)
		return -ENOMEM;
	got = fm_cache_sys_read(fd, *out, (size_t)st.st_size);
	*len = got < 0 ? 0 : (size_t)got;
	if (got >= 0)
		return 0;
	fm_budget_free(*out);
	return (int)got;
}

int fm_cache_file_read(int dir, const char *name, size_t max, uint8_t **out, size_t *len)
{
	/* A pipe in its place must not keep us. */
	int fd = fm_cache_sys_open(dir, name, O_RDONLY | O_NONBLOCK, 0), ret;

	if (fd == -ELOOP || fd == -ENXIO)
		return -EBADMSG;
	if (fd < 0)
		return fd;
	ret = read_opened(fd, max, out, len);
	(void)close(fd); /* only read */
	return ret;
}

bool fm_cache_is_unreadable(int code)
{
	return code == -EIO || code == -EUCLEAN;
}

bool fm_cache_is_full(int code)
{
	return code == -ENOSPC || code == -EDQUOT;
}

/* ---- names ---- */

static int each_name(DIR *d, int (*fn)(void *ctx, const char *name), void *ctx)
{
	const struct dirent *e;
	int ret;

	do {
		errno = 0;
		e = FM_FAULT("cache.readdir") ? (errno = EIO, NULL) : readdir(d);
		ret = e ? 0 : -errno;
		if (e && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			ret = fn(ctx, e->d_name);
	} while (e && ret == 0);
	return ret;
}

int fm_cache_names(int dir, int (*fn)(void *ctx, const char *name), void *ctx)
{
	int fd = fm_cache_sys_open(dir, ".", FM_CACHE_DIR_FLAGS, 0), ret;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d) {
		ret = fd < 0 ? fd : -errno;
		if (fd >= 0)
			(void)close(fd); /* only read */
		return ret;
	}
	ret = each_name(d, fn, ctx);
	(void)closedir(d); /* only read */
	return ret;
}

/* ---- trees ---- */

struct pending {
	struct pending *next;
	char path[];
};

struct walk {
	const struct fm_cache_visitor *visitor;
	struct pending *pending;
	const char *path; /* of the directory that is gone through */
	int fd;
};

static int push(struct walk *w, const char *path, const char *name)
{
	size_t len = strlen(path) + 1 + strlen(name) + 1;
	struct pending *p = fm_cache_alloc(sizeof(*p) + len);

	if (!p)
		return -ENOMEM;
	(void)snprintf(p->path, len, "%s%s%s", path, path[0] ? "/" : "", name);
	p->next = w->pending;
	w->pending = p;
	return 0;
}

static int visit_name(void *ctx, const char *name)
{
	struct walk *w = ctx;
	struct stat st;
	int ret = fm_cache_sys_fstatat(w->fd, name, &st);

	if (ret == 0 && S_ISDIR(st.st_mode))
		return push(w, w->path, name);
	if (ret == 0 && S_ISREG(st.st_mode) && w->visitor->file)
		return w->visitor->file(w->visitor->ctx, w->fd, name, &st);
	return ret;
}

/*
 * The kernel takes paths below PATH_MAX. A source may have longer ones than that below the name of
 * its dataset, so such a path is gone along in pieces. path is as it was then.
 */
static int open_dir(int root, char *path)
{
	int at = root, ret;

	do {
		char *cut = strlen(path) < PATH_MAX ? NULL : memrchr(path, '/', PATH_MAX - 1);

		if (cut)
			*cut = '\0';
		ret = fm_cache_sys_open(at, path, FM_CACHE_DIR_FLAGS, 0);
		if (at != root)
			(void)close(at); /* only looked through */
		if (!cut)
			return ret;
		*cut = '/';
		path = cut + 1;
		at = ret;
	} while (ret >= 0);
	return ret;
}

static int visit_dir(struct walk *w, int root, char *path)
{
	int ret;

	w->path = path;
	w->fd = open_dir(root, path);
	if (w->fd < 0)
		return w->fd;
	ret = fm_cache_names(w->fd, visit_name, w);
	if (ret == 0 && w->visitor->dir)
		ret = w->visitor->dir(w->visitor->ctx, w->fd);
	(void)close(w->fd); /* only read */
	return ret;
}

int fm_cache_walk(int root, const char *name, const struct fm_cache_visitor *visitor)
{
	struct walk w = {.visitor = visitor, .path = "", .fd = root};
	int ret = visit_name(&w, name);

	while (w.pending) {
		struct pending *p = w.pending;

		w.pending = p->next;
		if (ret == 0)
			ret = visit_dir(&w, root, p->path);
		fm_budget_free(p);
	}
	return ret;
}
