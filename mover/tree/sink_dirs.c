/* SPDX-License-Identifier: MIT */
/*
 * sink_dirs - where the entries of a tree go: directories below data, opened without ever following
 * a link.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/show.h"
#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"

#define PROBE_MAX 32

/* -------------------------------------------------------------------------------- one directory */

void fm_sink_dir_close(struct fm_sink_dir *d)
{
	if (d->has_path && d->fd >= 0)
		close(d->fd);
	d->has_path = false;
}

static bool is_cached(const struct fm_sink_dir *d, const char *path, size_t len)
{
	return d->has_path && d->len == len && memcmp(d->path, path, len) == 0;
}

/* Keep what opening that directory gave; fd is taken over. */
static void keep_dir(struct fm_sink_dir *d, const char *path, size_t len, int fd)
{
	fm_sink_dir_close(d);
	memcpy(d->path, path, len);
	d->path[len] = '\0';
	d->len = len;
	d->fd = fd;
	d->has_path = fd >= 0 || d->is_fixed;
}

int fm_sink_dir_find(struct fm_sink_dir *d, const char *path, size_t len)
{
	char terminated[FM_TREE_PATH_MAX + 1];
	int fd;

	if (len > FM_TREE_PATH_MAX)
		return -ENAMETOOLONG;
	if (len == 0)
		return d->root;
	if (is_cached(d, path, len))
		return d->fd;
	memcpy(terminated, path, len);
	terminated[len] = '\0';
	fd = fm_tsys_open_below(d->root, terminated);
	keep_dir(d, terminated, len, fd);
	return fd;
}

/* --------------------------------------------------------------------------------------- making */

/* Opens one component in dir, and makes it if it is missing. `path` is its path below data. */
static int make_one(struct fm_sink_call *call, int dir, const char *name, const char *path,
		    size_t len)
{
	int fd = fm_tsys_open(dir, name, O_PATH | O_DIRECTORY, 0);
	int ret;

	if (fd != -ENOENT)
		return fd;
	ret = fm_tsys_mkdir(dir, name);
	if (ret == 0) {
		call->count.dirs++;
		fm_sink_name_dir(call, path, len);
	}
	if (ret < 0 && ret != -EEXIST)	/* another thread made it */
		return ret;
	return fm_tsys_open(dir, name, O_PATH | O_DIRECTORY, 0);
}

/* Opens a directory by its path below data, and makes every missing component. */
static int make_all(struct fm_sink_call *call, const char *path, size_t len)
{
	char name[FM_SINK_NAME_MAX + 1];
	const char *at = path, *end = path + len;
	int dir = call->data.root;

	while (at < end && dir >= 0) {
		const char *slash = memchr(at, '/', (size_t)(end - at));
		size_t n = (size_t)((slash ? slash : end) - at);
		int next;

		if (n <= FM_SINK_NAME_MAX) {
			memcpy(name, at, n);
			name[n] = '\0';
		}
		next = n <= FM_SINK_NAME_MAX
			       ? make_one(call, dir, name, path, (size_t)(at - path) + n)
			       : -ENAMETOOLONG;
		if (dir != call->data.root)
			close(dir);
		dir = next;
		at += n + 1;
	}
	return dir;
}

/* ----------------------------------------------------------------------------- an entry's place */

static bool begins_reserved(const char *name, size_t len)
{
	const size_t prefix_len = sizeof(FM_STAGING_PREFIX) - 1;

	return len >= prefix_len && memcmp(name, FM_STAGING_PREFIX, prefix_len) == 0;
}

/* Why this path of a directory is refused; NULL: it is not. */
static const char *fault_of(const char *path, size_t len)
{
	const char *end = path + len;
	unsigned depth = 1;

	if (begins_reserved(path, len))
		return "begins with \"" FM_STAGING_PREFIX "\": those names are fmove's own";
	while ((path = memchr(path, '/', (size_t)(end - path)))) {
		path++;
		depth++;
		if (begins_reserved(path, (size_t)(end - path)))
			return "has a part that begins with \"" FM_STAGING_PREFIX
			       "\": those names are fmove's own";
	}
	return depth > FM_TREE_DEPTH_MAX ? "is deeper than 1024 directories" : NULL;
}

static int open_parent(struct fm_sink_call *call, const char *path, size_t len)
{
	int fd;

	if (len == 0 || is_cached(&call->data, path, len))
		return fm_sink_dir_find(&call->data, path, len);
	fd = fm_sink_dir_find(&call->data, path, len);
	if (fd != -ENOENT)
		return fd;
	fd = make_all(call, path, len);
	keep_dir(&call->data, path, len, fd);
	return fd;
}

int fm_sink_at(struct fm_sink_call *call, const char *path, size_t len, struct fm_sink_at *out)
{
	const char *slash = memrchr(path, '/', len);
	size_t dir_len = slash ? (size_t)(slash - path) : 0;
	size_t name_len = slash ? len - dir_len - 1 : len;
	const char *why = NULL;

	if (name_len == 0 || name_len > FM_SINK_NAME_MAX)
		return fm_sink_refuse(call->s, path, len, "is no path", call->err);
	if (!is_cached(&call->data, path, dir_len))
		why = fault_of(path, dir_len);
	if (!why && begins_reserved(path + len - name_len, name_len))
		why = "begins with \"" FM_STAGING_PREFIX "\": those names are fmove's own";
	if (why)
		return fm_sink_refuse(call->s, path, len, why, call->err);
	out->path = path;
	out->path_len = len;
	memcpy(out->name, path + len - name_len, name_len);
	out->name[name_len] = '\0';
	out->dir = call->s->opts.is_dry ? 0 : open_parent(call, path, dir_len);
	if (out->dir == -ELOOP || out->dir == -ENOTDIR)
		return fm_sink_refuse(call->s, path, len,
				      "leads through something that came as no directory",
				      call->err);
	return out->dir < 0 ? fm_sink_fail(call->s, out->dir, "make the directory of", path, len,
					   call->err)
			    : 0;
}

/* ---------------------------------------------------------------------- names that are the same */

/* Whether a name that is spelled otherwise leads to the file that was made. */
static bool leads_there(const struct fm_sink *s, const char *name)
{
	struct stat st;

	return fm_tsys_fstatat(s->stage, name, &st) == 0;
}

/*
 * Case, and the two ways to write an e with an accent. Directories inherit it, so one look at ours
 * is enough. Several threads may want to know at once, and none must remove the file that another
 * looks for.
 */
static int probe_folding(struct fm_sink *s)
{
	unsigned number = atomic_fetch_add(&s->temp_number, 1);
	char name[PROBE_MAX], other_case[PROBE_MAX], other_form[PROBE_MAX];
	int fd, folds;

	snprintf(name, sizeof(name), FM_STAGED_PROBE "\xc3\xa9.%u", number);
	snprintf(other_case, sizeof(other_case), "pROBE.\xc3\xa9.%u", number);
	snprintf(other_form, sizeof(other_form), "Probe.e\xcc\x81.%u", number);
	fd = fm_tsys_open(s->stage, name, O_WRONLY | O_CREAT, 0600);
	if (fd < 0)
		return fd;
	close(fd);
	folds = leads_there(s, other_case) || leads_there(s, other_form);
	unlinkat(s->stage, name, 0);
	return folds;
}

/* The first callers may all find out; they find the same. */
static int is_folding(struct fm_sink *s)
{
	int folds = atomic_load(&s->folds);

	if (folds < 0) {
		folds = probe_folding(s);
		if (folds >= 0)
			atomic_store(&s->folds, folds);
	}
	return folds;
}

/* Look through a directory for the very bytes of the name; other: which one has the inode
 * instead. */
static int find_spelling(int dir, const char *name, uint64_t ino, char other[FM_SINK_NAME_MAX + 1])
{
	int fd = fm_tsys_open(dir, ".", O_RDONLY | O_DIRECTORY, 0);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int ret = -ENOTUNIQ;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return fd < 0 ? fd : -ENOMEM;
	}
	other[0] = '\0';
	while (ret < 0 && (entry = readdir(d))) {
		if (strcmp(entry->d_name, name) == 0)
			ret = 0;
		else if (entry->d_ino == ino)
			/* a FUSE file system has longer ones */
			snprintf(other, FM_SINK_NAME_MAX + 1, "%s", entry->d_name);
	}
	closedir(d);
	return ret;
}

int fm_sink_check_name(struct fm_sink_call *call, const struct fm_sink_at *at)
{
	struct fm_path_shown shown;
	char other[FM_SINK_NAME_MAX + 1], why[FM_PATH_SHOWN_MAX + 128];
	struct stat st;
	int ret = is_folding(call->s);

	if (ret == 0)
		return 0;
	if (ret > 0)
		ret = fm_tsys_fstatat(at->dir, at->name, &st);
	if (ret == 0)
		ret = find_spelling(at->dir, at->name, st.st_ino, other);
	if (ret != -ENOTUNIQ)
		return ret < 0 ? fm_sink_fail(call->s, ret, "look for", at->path, at->path_len,
					      call->err)
			       : 0;
	snprintf(why, sizeof(why),
		 "and \"%s\" beside it are one name for this file system (they differ only in case "
		 "or "
		 "normalisation); rename one at the source",
		 fm_path_show(other, &shown));
	(void)fm_sink_refuse(call->s, at->path, at->path_len, why, call->err);
	if (call->err)
		call->err->code = -ENOTUNIQ;
	return -ENOTUNIQ;
}

int fm_sink_clash(struct fm_sink_call *call, const struct fm_sink_at *at)
{
	return fm_sink_refuse(call->s, at->path, at->path_len,
			      "came twice, as things of different kinds", call->err);
}
