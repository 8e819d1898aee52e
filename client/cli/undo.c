/* SPDX-License-Identifier: MIT */
/* undo - see undo.h. */
#include "client/cli/undo.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/err.h"

/*
 * Whoever owns a directory on the way may lead its name elsewhere meanwhile. So what was made is
 * found again below its parent as that was open then, and is known by its inode.
 */
struct fm_undo_step {
	struct fm_undo_step *before;
	int parent;		/* O_PATH */
	bool is_dir;
	bool is_made;		/* by us: else it is not ours to take away */
	dev_t dev;
	ino_t ino;
	char name[];		/* in parent */
};

static int push(struct fm_undo *undo, int parent, const char *name, bool is_dir,
		struct fm_err *err)
{
	struct fm_undo_step *step = malloc(sizeof(*step) + strlen(name) + 1);

	if (!step)
		return fm_err_set(err, -ENOMEM, "out of memory");
	*step = (struct fm_undo_step){.before = undo->last,
				      .parent = fcntl(parent, F_DUPFD_CLOEXEC, 0),
				      .is_dir = is_dir};
	if (step->parent < 0) {
		free(step);
		return fm_err_sys(err, -errno, "remember %s", name);
	}
	strcpy(step->name, name);
	undo->last = step;
	return 0;
}

static int look(const struct fm_undo_step *step, struct stat *st)
{
	return fstatat(step->parent, step->name, st, AT_SYMLINK_NOFOLLOW);
}

void fm_undo_made(struct fm_undo *undo)
{
	struct fm_undo_step *step = undo->last;
	struct stat st;

	assert(step && !step->is_made);
	if (look(step, &st) < 0)
		return;		/* it came to be elsewhere, or is gone */
	step->is_made = true;
	step->dev = st.st_dev;
	step->ino = st.st_ino;
}

static void pop(struct fm_undo *undo)
{
	struct fm_undo_step *step = undo->last;

	undo->last = step->before;
	(void)close(step->parent);	/* only looked up in */
	free(step);
}

static void take_away(const struct fm_undo_step *step)
{
	struct stat st;

	if (step->is_made && look(step, &st) == 0 && st.st_dev == step->dev &&
	    st.st_ino == step->ino)
		/* a directory that has something in it by now stays */
		(void)unlinkat(step->parent, step->name, step->is_dir ? AT_REMOVEDIR : 0);
}

/* Makes the last part of the path below the directory that is open. 1: made here; 0: there. */
static int make_one(struct fm_undo *undo, int parent, const char *path, mode_t mode,
		    struct fm_err *err)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	int ret = push(undo, parent, name, true, err);

	if (ret < 0)
		return ret;
	if (mkdirat(parent, name, mode) == 0) {
		fm_undo_made(undo);
		return 1;
	}
	ret = errno == EEXIST ? 0 : fm_err_sys(err, -errno, "make %s", path);
	pop(undo);
	return ret;
}

/* Opens what is below, or the error; what was made here is not looked for behind a link. */
static int open_one(int parent, const char *path, bool is_made, struct fm_err *err)
{
	const char *slash = strrchr(path, '/');
	int fd = openat(parent, slash ? slash + 1 : path,
			O_PATH | O_DIRECTORY | O_CLOEXEC | (is_made ? O_NOFOLLOW : 0));

	if (fd >= 0)
		return fd;
	if (errno == ENOTDIR || errno == ENOENT)
		return fm_err_set(err, -ENOTDIR, "%s is there and no directory", path);
	return fm_err_sys(err, -errno, "open %s", path);
}

/* The length of the path up to the end of its next part; 0: there is none. */
static size_t next_part(const char *path, size_t len)
{
	size_t from = len + strspn(path + len, "/"), part = strcspn(path + from, "/");

	return part ? from + part : 0;
}

/*
 * Goes down the path. Each directory is made below its parent as that was opened, wherever the
 * names above lead meanwhile.
 */
static int make_below(struct fm_undo *undo, const char *path, mode_t mode, int *made,
		      struct fm_err *err)
{
	int at = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC), below;
	int ret = at < 0 ? fm_err_sys(err, -errno, "make %s", path) : 0;
	char part[PATH_MAX];

	for (size_t len = next_part(path, 0); ret >= 0 && len; len = next_part(path, len)) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)len, path);	/* fits */
		ret = make_one(undo, at, part, next_part(path, len) ? 0755 : mode, err);
		below = ret < 0 ? ret : open_one(at, part, ret > 0, err);
		if (below < 0) {
			ret = below;
			break;
		}
		(void)close(at);	/* only looked up in */
		at = below;
	}
	if (ret > 0)
		*made = at;
	else if (at >= 0)
		(void)close(at);
	return ret < 0 ? ret : 0;
}

int fm_undo_dir_make(struct fm_undo *undo, const char *path, mode_t mode, int *made,
		     struct fm_err *err)
{
	assert(path[0]);
	*made = -1;
	if (strlen(path) >= PATH_MAX)
		return fm_err_set(err, -ENAMETOOLONG, "%.100s...: the path is too long", path);
	return make_below(undo, path, mode, made, err);
}

int fm_undo_file(struct fm_undo *undo, int dir, const char *name, struct fm_err *err)
{
	return push(undo, dir, name, false, err);
}

void fm_undo_all(struct fm_undo *undo)
{
	for (struct fm_undo_step *step = undo->last; step; step = step->before)
		take_away(step);
	fm_undo_forget(undo);
}

void fm_undo_forget(struct fm_undo *undo)
{
	while (undo->last)
		pop(undo);
}
