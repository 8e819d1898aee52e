/* SPDX-License-Identifier: MIT */
/*
 * walk - every name in a directory tree.
 */
#include "mover/store/walk.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/fault.h"
#include "mover/store/sys.h"
#include "mover/tree/tsys.h"

#define KEPT 512		/* the outermost levels, which stay open */
#define WINDOW 512		/* the innermost ones */
#define LEVELS_FIRST 16

static struct fm_walk_level *innermost(const struct fm_walk *walk)
{
	return &walk->levels[walk->depth - 1];
}

/* ---- down ---- */

static int more_levels(struct fm_walk *walk)
{
	unsigned cap = walk->cap ? 2 * walk->cap : LEVELS_FIRST;
	struct fm_walk_level *levels;

	if (walk->depth == FM_WALK_DEPTH_MAX || FM_FAULT("store.walk_deep"))
		return -EOVERFLOW;
	if (walk->depth < walk->cap)
		return 0;
	levels = FM_FAULT("store.walk_levels") ? NULL
					       : realloc(walk->levels, cap * sizeof(*levels));
	if (!levels)
		return -ENOMEM;
	walk->levels = levels;
	walk->cap = cap;
	return 0;
}

/*
 * The outermost one of the window is closed for now. A tree that goes is read again from the
 * beginning, where all that was met has gone.
 */
static int shelve(struct fm_walk *walk, struct fm_walk_level *l)
{
	struct stat st;
	int ret;

	if (!l->dir)		/* on the way into another one beside that, or one that failed */
		return 0;
	ret = fm_sys_fstat(dirfd(l->dir), &st);
	if (ret < 0)
		return ret;
	l->cookie = walk->opens ? 0 : telldir(l->dir);
	if (l->cookie < 0)
		return -errno;
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	(void)closedir(l->dir);		/* only read */
	l->dir = NULL;
	return 0;
}

static void give_mode_back(int fd, int mode)
{
	if (mode >= 0)
		(void)fm_tsys_chmod(fd, (mode_t)mode);	/* it is ours, and we changed it */
}

/*
 * Make fd the innermost level; taken over. name: copied, or NULL for the root. mode: as in struct
 * fm_walk_level.
 */
static int walk_push(struct fm_walk *walk, int fd, const char *name, int mode)
{
	struct fm_walk_level l = { .mode = mode };
	int ret = more_levels(walk);

	if (ret == 0 && name) {
		l.name = FM_FAULT("store.walk_alloc") ? NULL : strdup(name);
		ret = l.name ? 0 : -ENOMEM;
	}
	if (ret == 0 && walk->depth >= KEPT + WINDOW)
		ret = shelve(walk, &walk->levels[walk->depth - WINDOW]);
	if (ret == 0) {
		l.dir = FM_FAULT("store.opendir") ? NULL : fdopendir(fd);
		ret = l.dir ? 0 : -ENOMEM;
	}
	if (ret < 0) {
		give_mode_back(fd, mode);
		close(fd);
		free(l.name);
		return ret;
	}
	walk->levels[walk->depth++] = l;
	return 0;
}

/* ---- up ---- */

/* If it has not gone, it has its mode again. */
static void forget_left(struct fm_walk *walk)
{
	if (walk->left.dir) {
		give_mode_back(dirfd(walk->left.dir), walk->left.mode);
		(void)closedir(walk->left.dir);		/* only read */
	}
	free(walk->left.name);
	walk->left = (struct fm_walk_level){ .mode = -1 };
}

/* Takes off the innermost level, which is what was left then. */
static void walk_drop(struct fm_walk *walk)
{
	assert(walk->depth > 0);
	forget_left(walk);
	walk->left = walk->levels[--walk->depth];
}

/* What was left is open: the one that it is in, at the place where the walk left that. */
static int unshelve(const struct fm_walk *walk, struct fm_walk_level *l)
{
	int fd = FM_FAULT("store.walk_up")
			 ? (errno = EIO, -1)
			 : openat(dirfd(walk->left.dir), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	int ret = fd < 0 ? -errno : fm_sys_fstat(fd, &st);

	if (ret == 0 && (st.st_dev != l->dev || st.st_ino != l->ino))
		ret = -ESTALE;
	if (ret == 0) {
		l->dir = FM_FAULT("store.opendir") ? NULL : fdopendir(fd);
		ret = l->dir ? 0 : -ENOMEM;
	}
	if (ret < 0) {
		if (fd >= 0)
			close(fd);
		return ret;
	}
	if (l->cookie > 0)
		seekdir(l->dir, l->cookie);
	return 0;
}

/* Out of the innermost level. After an error also out of all whose parents are not open. */
static int walk_pop(struct fm_walk *walk)
{
	int ret;

	walk_drop(walk);
	if (walk->depth == 0 || innermost(walk)->dir)
		return 0;
	ret = unshelve(walk, innermost(walk));
	walk->is_cut = walk->is_cut || ret < 0;
	while (ret < 0 && !innermost(walk)->dir)
		walk_drop(walk);
	return ret;
}

/* ---- what goes, and is closed to its owner ---- */

/* The mode that the directory had, or why it has it still. */
static int open_up(int fd)
{
	struct stat st;
	int ret = fm_sys_fstat(fd, &st);

	if (ret == 0 && (!S_ISDIR(st.st_mode) || st.st_uid != geteuid()))
		ret = -EPERM;
	if (ret == 0)
		ret = fm_tsys_chmod_opened(fd, 0700);
	return ret < 0 ? ret : (int)(st.st_mode & 07777);
}

int fm_walk_open_up(struct fm_walk *walk)
{
	struct fm_walk_level *l = innermost(walk);
	int mode = open_up(dirfd(l->dir));

	if (mode >= 0 && l->mode < 0)
		l->mode = mode;
	return mode < 0 ? mode : 0;
}

/* To be read, and removed. *mode: that it had, or -1 if it was open enough. */
static int open_to_go(int dir, const char *name, int *mode)
{
	int fd = fm_sys_open_dir(dir, name, true), at;

	*mode = -1;
	if (!fm_tsys_is_refused(fd))
		return fd;
	at = fm_tsys_open(dir, name, O_PATH | O_DIRECTORY, 0);
	if (at < 0)
		return fd;
	*mode = open_up(at);
	if (*mode >= 0)
		fd = fm_sys_open_dir(dir, name, true);
	if (*mode >= 0 && fd < 0)
		(void)fm_tsys_chmod_opened(at, (mode_t)*mode);	/* we changed it */
	close(at);
	return fd;
}

/* ---- from outside ---- */

/* A walk that could not be started holds nothing. */
static int push_first(struct fm_walk *walk, int fd, int mode)
{
	int ret = walk_push(walk, fd, NULL, mode);

	if (ret < 0)
		fm_walk_end(walk);
	return ret;
}

int fm_walk_start(struct fm_walk *walk, int dir)
{
	*walk = (struct fm_walk){ .left.mode = -1 };
	return push_first(walk, dir, -1);
}

int fm_walk_start_removal(struct fm_walk *walk, int parent, const char *name)
{
	int fd, mode;

	*walk = (struct fm_walk){ .stays = true, .opens = true, .left.mode = -1 };
	fd = open_to_go(parent, name, &mode);
	return fd < 0 ? fd : push_first(walk, fd, mode);
}

void fm_walk_skip(struct fm_walk *walk)
{
	assert(walk->depth > 1);
	(void)walk_pop(walk);	/* into the one that it was met in, which is open */
	forget_left(walk);
}

int fm_walk_path(const struct fm_walk *walk, const struct fm_walk_at *at, char *out, size_t cap)
{
	size_t len = 0;

	/* A directory that was met is the innermost level already. */
	for (unsigned i = 1; i <= walk->depth; i++) {
		const char *last = at->is_dir ? "" : at->name;
		const char *name = i < walk->depth ? walk->levels[i].name : last;
		int add =
			snprintf(out + len, cap - len, "%s%s", len > 0 && name[0] ? "/" : "", name);

		if (add < 0 || (size_t)add >= cap - len)
			return -ENAMETOOLONG;
		len += (size_t)add;
	}
	return 0;
}

void fm_walk_end(struct fm_walk *walk)
{
	/* A removal that failed gives modes back on all the way up. */
	while (walk->depth > 0 && walk->opens)
		(void)walk_pop(walk);
	while (walk->depth > 0)
		walk_drop(walk);
	forget_left(walk);
	free(walk->levels);
	*walk = (struct fm_walk){ .left.mode = -1 };
}

/* Where neither the directory nor a look tells, opening it does, or why it cannot be told. */
static bool entry_may_be_dir(int dir, const struct dirent *entry)
{
	struct stat st;
	int ret;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type == DT_DIR;
	ret = fm_sys_fstatat(dir, entry->d_name, &st);
	return ret < 0 ? ret != -ENOENT : S_ISDIR(st.st_mode);
}

static struct dirent *read_entry(DIR *dir)
{
	struct dirent *entry;

	do {
		errno = 0;
		entry = readdir(dir);
	} while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
	return entry;
}

/* Leaves the innermost directory. */
static int walk_leave(struct fm_walk *walk, struct fm_walk_at *out)
{
	int ret = walk_pop(walk);

	if (walk->depth == 0)
		return ret;
	*out = (struct fm_walk_at){ .dir = dirfd(innermost(walk)->dir),
				    .name = walk->left.name };
	if (ret < 0)
		return ret;
	out->is_dir = out->is_leaving = true;
	return 1;
}

/* Leaves the innermost directory, which cannot be read on. */
static int walk_give_up(struct fm_walk *walk, int ret, struct fm_walk_at *out)
{
	*out = (struct fm_walk_at){ .dir = -1, .name = "." };
	if (walk_leave(walk, out) > 0)
		out->is_dir = out->is_leaving = false;
	return ret;
}

bool fm_walk_is_lost_found(const struct fm_walk *walk, const struct fm_walk_at *at)
{
	struct stat st;

	return walk->depth == 1 && strcmp(at->name, "lost+found") == 0 &&
	       fstatat(at->dir, at->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
	       st.st_uid == 0 && (st.st_mode & 07777) == 0700;
}

bool fm_walk_is_lack(int ret)
{
	return ret == -ENOMEM || ret == -EMFILE || ret == -ENFILE;
}

bool fm_walk_goes_on(const struct fm_walk *walk, int ret)
{
	return ret < 0 && walk->depth > 0 && !fm_walk_is_lack(ret);
}

static int open_met(struct fm_walk *walk, const struct fm_walk_at *at, int *mode)
{
	int fd;

	*mode = -1;
	if (!walk->opens)
		return fm_sys_open_dir(at->dir, at->name, walk->stays);
	fd = open_to_go(at->dir, at->name, mode);
	if (!fm_tsys_is_refused(fd) || fm_walk_open_up(walk) < 0)
		return fd;
	return open_to_go(at->dir, at->name, mode);	/* the one it is in could not be passed */
}

int fm_walk_next(struct fm_walk *walk, struct fm_walk_at *out)
{
	const struct dirent *entry;
	DIR *dir;
	int fd, mode, ret;

	if (walk->depth == 0)
		return 0;
	dir = innermost(walk)->dir;
	entry = FM_FAULT("store.readdir") ? (errno = EIO, NULL) : read_entry(dir);
	if (!entry)
		return errno ? walk_give_up(walk, -errno, out) : walk_leave(walk, out);
	*out = (struct fm_walk_at){ .dir = dirfd(dir), .name = entry->d_name };
	out->is_dir = entry_may_be_dir(out->dir, entry);
	if (!out->is_dir)
		return 1;
	/*
	 * Opened before it is shown, so that what the caller does with the name cannot change which
	 * directory is entered.
	 */
	fd = open_met(walk, out, &mode);
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP) {
		out->is_dir = false;	/* it went, or became something else, meanwhile */
		return 1;
	}
	ret = fd < 0 ? fd : walk_push(walk, fd, out->name, mode);
	out->is_dir = ret >= 0;
	return ret < 0 ? ret : 1;
}
