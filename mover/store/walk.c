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

/* Make fd the innermost level; taken over. name: copied, or NULL for the root. */
static int walk_push(struct fm_walk *walk, int fd, const char *name)
{
	char *copy = NULL;
	DIR *dir = NULL;

	if (walk->depth == FM_WALK_DEPTH_MAX) {
		close(fd);
		return -EOVERFLOW;
	}
	if (name)
		copy = FM_FAULT("store.walk_alloc") ? NULL : strdup(name);
	if (!name || copy)
		dir = FM_FAULT("store.opendir") ? NULL : fdopendir(fd);
	if (!dir) {
		close(fd);
		free(copy);
		return -ENOMEM;
	}
	walk->names[walk->depth] = copy;
	walk->levels[walk->depth++] = dir;
	return 0;
}

static void walk_pop(struct fm_walk *walk)
{
	assert(walk->depth > 0);
	walk->depth--;
	closedir(walk->levels[walk->depth]);
	free(walk->left);
	walk->left = walk->names[walk->depth];
}

int fm_walk_start(struct fm_walk *walk, int dir)
{
	walk->depth = 0;
	walk->left = NULL;
	walk->stays = walk->opens = false;
	return walk_push(walk, dir, NULL);
}

void fm_walk_skip(struct fm_walk *walk)
{
	assert(walk->depth > 1);
	walk_pop(walk);
}

int fm_walk_path(const struct fm_walk *walk, const struct fm_walk_at *at, char *out, size_t cap)
{
	size_t len = 0;

	/* A directory that was met is the innermost level already. */
	for (unsigned i = 1; i <= walk->depth; i++) {
		const char *name = i < walk->depth ? walk->names[i] : at->is_dir ? "" : at->name;
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
	while (walk->depth > 0)
		walk_pop(walk);
	free(walk->left);
	walk->left = NULL;
}

static bool entry_is_dir(int dir, const struct dirent *entry)
{
	struct stat st;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type == DT_DIR;
	return fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
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
	walk_pop(walk);
	if (walk->depth == 0)
		return 0;
	*out = (struct fm_walk_at){ .dir = dirfd(walk->levels[walk->depth - 1]), .name = walk->left,
				    .is_dir = true, .is_leaving = true };
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

bool fm_walk_goes_on(const struct fm_walk *walk, int ret)
{
	return ret < 0 && walk->depth > 0 && ret != -ENOMEM && ret != -EMFILE && ret != -ENFILE;
}

int fm_walk_open_up(int fd)
{
	struct stat st;
	int ret = fm_sys_fstat(fd, &st);

	if (ret == 0 && (!S_ISDIR(st.st_mode) || st.st_uid != geteuid()))
		ret = -EPERM;
	return ret < 0 ? ret : fm_tsys_chmod_opened(fd, 0700);
}

int fm_walk_open_up_at(int dir, const char *name)
{
	int fd = fm_tsys_open(dir, name, O_PATH | O_DIRECTORY, 0);
	int ret = fd < 0 ? fd : fm_walk_open_up(fd);

	if (fd >= 0)
		close(fd);
	return ret;
}

static int open_met(const struct fm_walk *walk, const struct fm_walk_at *at)
{
	int fd = fm_sys_open_dir(at->dir, at->name, walk->stays);

	if ((fd != -EACCES && fd != -EPERM) || !walk->opens)
		return fd;
	(void)fm_walk_open_up(at->dir);		/* it may be read, and not be passed */
	return fm_walk_open_up_at(at->dir, at->name) < 0
		       ? fd
		       : fm_sys_open_dir(at->dir, at->name, walk->stays);
}

int fm_walk_next(struct fm_walk *walk, struct fm_walk_at *out)
{
	const struct dirent *entry;
	DIR *dir;
	int fd, ret;

	if (walk->depth == 0)
		return 0;
	dir = walk->levels[walk->depth - 1];
	entry = FM_FAULT("store.readdir") ? (errno = EIO, NULL) : read_entry(dir);
	if (!entry)
		return errno ? walk_give_up(walk, -errno, out) : walk_leave(walk, out);
	*out = (struct fm_walk_at){ .dir = dirfd(dir), .name = entry->d_name };
	out->is_dir = entry_is_dir(out->dir, entry);
	if (!out->is_dir)
		return 1;
	/*
	 * Opened before it is shown, so that what the caller does with the name cannot change which
	 * directory is entered.
	 */
	fd = open_met(walk, out);
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP) {
		out->is_dir = false;	/* it went, or became something else, meanwhile */
		return 1;
	}
	ret = fd < 0 ? fd : walk_push(walk, fd, out->name);
	out->is_dir = ret >= 0;
	return ret < 0 ? ret : 1;
}
