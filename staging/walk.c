/* SPDX-License-Identifier: MIT */
/* walk - see walk.h. */
#include "staging/walk.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/call.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/show.h"
#include "mover/tree/reading.h"
#include "mover/tree/staging.h"
#include "mover/tree/tree.h"

#define OPEN_MAX 64u		/* of the directories on the way, the innermost ones */
#define NAMES_FIRST 4096u	/* bytes */

/* A directory on the way. */
struct level {
	int fd;				/* -1: closed for now */
	struct fm_identity was;		/* when it was read */
	size_t path_len;
	char *names;			/* each terminated, one behind the other ... */
	size_t len, cap;
	const char **order;		/* ... and in order */
	size_t count, count_cap;
	size_t at;			/* the next one */
};

struct fm_stage_walk {
	int root;
	unsigned depth;			/* levels in use */
	size_t held, names_max;		/* bytes of names */
	bool is_begun, is_entering;	/* the directory that was met last is entered first */
	char path[FM_TREE_PATH_MAX + 1];
	struct level levels[FM_TREE_DEPTH_MAX + 1];
};

static struct level *top(struct fm_stage_walk *w)
{
	assert(w->depth > 0);
	return &w->levels[w->depth - 1];
}

static int fail(const struct fm_stage_walk *w, int code, struct fm_err *err)
{
	struct fm_path_shown shown;
	const char *path = fm_path_show(w->path[0] ? w->path : ".", &shown);

	if (code == -EACCES || code == -EPERM)
		return fm_err_set(err, -EPERM, "cannot read \"%s\": permission denied", path);
	if (code == -E2BIG)
		return fm_err_set(err, code,
				  "the names in \"%s\", and in the directories that it is in, "
				  "take more than %zu bytes",
				  path, w->names_max);
	return fm_reading_fail(err, code, w->path);
}

/* ---- the names of one directory ---- */

static void *grown(void *at, size_t len)
{
	return FM_FAULT("stage.names") ? NULL : fm_budget_realloc(at, len);
}

static int keep_name(struct fm_stage_walk *w, struct level *l, const char *name)
{
	size_t len = strlen(name) + 1, cap = l->cap ? l->cap : NAMES_FIRST;
	char *more;

	if (len > w->names_max - w->held)
		return -E2BIG;
	while (cap < l->len + len)
		cap *= 2;
	if (cap > l->cap) {
		more = grown(l->names, cap);
		if (!more)
			return -ENOMEM;
		l->names = more;
		l->cap = cap;
	}
	memcpy(l->names + l->len, name, len);
	l->len += len;
	w->held += len;
	l->count++;
	return 0;
}

static bool is_met(const char *name)
{
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !fm_staging_is_ours(name);
}

static int read_all_names(struct fm_stage_walk *w, struct level *l, DIR *d)
{
	int ret = 0;

	while (ret == 0) {
		const struct dirent *entry;

		errno = 0;
		entry = FM_FAULT("stage.readdir") ? (errno = EIO, NULL) : readdir(d);
		if (!entry)
			return -errno;
		if (is_met(entry->d_name))
			ret = keep_name(w, l, entry->d_name);
	}
	return ret;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int sort_names(struct level *l)
{
	const char *at = l->names;

	if (l->count == 0)
		return 0;
	if (l->count > l->count_cap) {
		const char **more = grown(l->order, l->count * sizeof(*l->order));

		if (!more)
			return -ENOMEM;
		l->order = more;
		l->count_cap = l->count;
	}
	for (size_t i = 0; i < l->count; i++, at += strlen(at) + 1)
		l->order[i] = at;
	qsort(l->order, l->count, sizeof(l->order[0]), compare_names);
	return 0;
}

/*
 * Reads the names of a directory. closedir() closes the descriptor of its stream, so the stream
 * gets one of its own; l->fd stays open for the entries.
 */
static int read_names(struct fm_stage_walk *w, struct level *l)
{
	int fd = fm_reading_open_fd(l->fd, ".", O_DIRECTORY, false), ret;
	DIR *d = fd < 0 || FM_FAULT("stage.opendir") ? NULL : fdopendir(fd);

	if (!d) {
		if (fd >= 0)
			(void)close(fd);	/* only read */
		return fd < 0 ? fd : -ENOMEM;
	}
	ret = read_all_names(w, l, d);
	(void)closedir(d);	/* only read */
	return ret < 0 ? ret : sort_names(l);
}

/* ---- down and up ---- */

static int look(int fd, struct fm_identity *out)
{
	struct stat st;
	int ret = FM_FAULT("stage.fstat") ? -EIO : fm_call(fstat(fd, &st));

	if (ret == 0)
		fm_reading_identity(&st, out);
	return ret;
}

static int is_unchanged(const struct level *l)
{
	struct fm_identity now;
	int ret = look(l->fd, &now);

	if (ret < 0)
		return ret;
	return fm_identity_is_same(&now, &l->was) ? 0 : -ESTALE;
}

static void shut(struct level *l)
{
	if (l->fd >= 0)
		(void)close(l->fd);	/* only read */
	l->fd = -1;
}

/* fd becomes the innermost directory; taken over, also on error. w->path is its path. */
static int push(struct fm_stage_walk *w, int fd, size_t path_len)
{
	struct level *l = &w->levels[w->depth];
	int ret;

	l->fd = fd;
	l->path_len = path_len;
	l->len = l->count = l->at = 0;
	if (w->depth >= OPEN_MAX)
		shut(l - OPEN_MAX);
	w->depth++;
	ret = look(fd, &l->was);
	return ret < 0 ? ret : read_names(w, l);
}

/* Into the directory that was met last. */
static int enter(struct fm_stage_walk *w, struct fm_err *err)
{
	size_t len = strlen(w->path);
	struct fm_path_shown shown;
	const struct level *l = top(w);
	int fd, ret;

	if (w->depth > FM_TREE_DEPTH_MAX)
		return fm_err_set(err, -ELOOP, "\"%s\": more than %d directories in one another",
				  fm_path_show(w->path, &shown), FM_TREE_DEPTH_MAX);
	fd = fm_reading_open_fd(l->fd, l->order[l->at - 1], O_DIRECTORY, false);
	ret = fd < 0 ? fd : push(w, fd, len);
	return ret < 0 ? fail(w, ret, err) : 0;
}

/* The innermost directory is one that was closed for now, if it is. */
static int reopen(struct fm_stage_walk *w)
{
	struct level *l = top(w);

	if (l->fd >= 0)
		return 0;
	l->fd = fm_reading_open_fd(w->root, l->path_len > 0 ? w->path : ".", O_DIRECTORY, true);
	return l->fd < 0 ? l->fd : is_unchanged(l);
}

/* Out of the innermost directory, in which all was met. */
static int leave(struct fm_stage_walk *w)
{
	struct level *l = top(w);
	int ret = is_unchanged(l);

	w->held -= l->len;
	shut(l);
	if (w->depth > OPEN_MAX) {	/* deep down not every level keeps its memory */
		fm_budget_free(l->names);
		fm_budget_free(l->order);
		*l = (struct level){ .fd = -1 };
	}
	w->depth--;
	if (ret < 0 || w->depth == 0)
		return ret;
	w->path[top(w)->path_len] = '\0';
	return reopen(w);
}

/* ---- one name ---- */

static int make_path(struct fm_stage_walk *w, const char *name, struct fm_err *err)
{
	size_t dir_len = top(w)->path_len, slash = dir_len > 0, len = strlen(name);
	struct fm_path_shown shown;

	w->path[dir_len] = '\0';
	if (dir_len + slash + len > FM_TREE_PATH_MAX)
		return fm_err_set(err, -ENAMETOOLONG,
				  "a name in \"%s\" makes a path of %zu bytes, and "
				  "%d are the most",
				  fm_path_show(w->path, &shown), dir_len + slash + len,
				  FM_TREE_PATH_MAX);
	if (slash)
		w->path[dir_len] = '/';
	memcpy(w->path + dir_len + slash, name, len + 1);
	return 0;
}

static int meet(struct fm_stage_walk *w, const char *name, struct fm_stage_met *out,
		struct fm_err *err)
{
	int ret = make_path(w, name, err);

	if (ret < 0)
		return ret;
	*out = (struct fm_stage_met){ .dir = top(w)->fd, .name = name, .path = w->path,
				      .path_len = strlen(w->path) };
	ret = FM_FAULT("stage.fstatat") ? -EIO : fm_call_fstatat(out->dir, name, &out->st);
	if (ret < 0)
		return fail(w, ret, err);
	w->is_entering = S_ISDIR(out->st.st_mode);
	return 1;
}

static int begin(struct fm_stage_walk *w, struct fm_err *err)
{
	int fd = fm_reading_open_fd(w->root, ".", O_DIRECTORY, false);
	int ret = fd < 0 ? fd : push(w, fd, 0);

	w->is_begun = true;
	return ret < 0 ? fail(w, ret, err) : 0;
}

int fm_stage_walk_next(struct fm_stage_walk *w, struct fm_stage_met *out, struct fm_err *err)
{
	int ret = 0;

	if (!w->is_begun)
		ret = begin(w, err);
	else if (w->is_entering)
		ret = enter(w, err);
	w->is_entering = false;
	while (ret == 0 && w->depth > 0) {
		struct level *l = top(w);

		if (l->at < l->count)
			return meet(w, l->order[l->at++], out, err);
		ret = leave(w);
		if (ret < 0)
			return fail(w, ret, err);
	}
	return ret;
}

int fm_stage_walk_new(int root, size_t names_max, struct fm_stage_walk **out)
{
	struct fm_stage_walk *w = FM_FAULT("stage.alloc") ? NULL : fm_budget_alloc(sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->root = root;
	w->names_max = names_max;
	for (size_t i = 0; i <= FM_TREE_DEPTH_MAX; i++)
		w->levels[i].fd = -1;
	*out = w;
	return 0;
}

void fm_stage_walk_free(struct fm_stage_walk *w)
{
	if (!w)
		return;
	for (size_t i = 0; i <= FM_TREE_DEPTH_MAX; i++) {
		shut(&w->levels[i]);
		fm_budget_free(w->levels[i].names);
		fm_budget_free(w->levels[i].order);
	}
	fm_budget_free(w);
}
