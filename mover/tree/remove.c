/* SPDX-License-Identifier: MIT */
/*
 * remove - directories that are removed, without recursion and with a fixed number of descriptors.
 *
 * The top directory is emptied: files go; of a directory in it the files go too, and the
 * directories in that one are moved into the top under numbers, where a later pass meets them. So
 * each directory costs one rename and the depth costs nothing.
 */
#include "mover/tree/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/fault.h"
#include "mover/tree/manifest.h"
#include "mover/tree/tsys.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY)
#define NUMBERED_MAX 32
/* others who remove the same tree may move something into a top that was empty just now */
#define EMPTIED_MAX 16

struct removal {
	int top;
	/* directories moved into top so far: the last one's number */
	uint64_t moved;
	const struct fm_tree_freed *freed;
};

/*
 * Opens a directory for removal, and makes it readable and writable for its owner if it is not. A
 * mount point is refused: what is mounted there is not part of the tree.
 */
static int open_dir(int dir, const char *name)
{
	int fd = fm_tsys_open_unmounted(dir, name, DIR_FLAGS);

	if (fm_tsys_is_refused(fd) && fm_tsys_chmod_at(dir, name, 0700) == 0)
		fd = fm_tsys_open_unmounted(dir, name, DIR_FLAGS);
	return fd;
}

static int unlink_at(int dir, const char *name, int flags)
{
	int ret = fm_tsys_unlink(dir, name, flags);

	if (fm_tsys_is_refused(ret) && fm_tsys_chmod(dir, 0700) == 0)
		ret = fm_tsys_unlink(dir, name, flags);
	return ret == -ENOENT ? 0 : ret;
}

static int remove_file(const struct removal *r, int dir, const char *name)
{
	struct stat st = { 0 };
	bool is_told = r->freed && r->freed->used;
	int ret = 0;

	if (is_told && fm_tsys_fstatat(dir, name, &st) < 0)
		st.st_size = 0;
	ret = unlink_at(dir, name, 0);
	if (ret == 0 && is_told && S_ISREG(st.st_mode))
		r->freed->used(r->freed->ctx, -(int64_t)st.st_size);
	return ret;
}

/* A directory in a directory: into the top. */
static int move_up(struct removal *r, int dir, const char *name)
{
	char numbered[NUMBERED_MAX];
	int ret;

	do {
		snprintf(numbered, sizeof(numbered), ".fmove.gone.%llu",
			 (unsigned long long)++r->moved);
		ret = fm_tsys_rename(dir, name, r->top, numbered, 0);
		/* Another parent: the kernel asks for the right to write to both, and to the
		 * directory itself. */
		if (fm_tsys_is_refused(ret) && fm_tsys_chmod(r->top, 0700) == 0 &&
		    fm_tsys_chmod(dir, 0700) == 0 && fm_tsys_chmod_at(dir, name, 0700) == 0)
			ret = fm_tsys_rename(dir, name, r->top, numbered, 0);
	} while (ret == -ENOTEMPTY || ret == -EEXIST ||
		 ret == -ENOTDIR); /* that number is of an earlier try */
	/* somebody else removes the same tree (a sweep), and moved it */
	return ret == -ENOENT ? 0 : ret;
}

static bool is_dir(int dir, const struct dirent *entry)
{
	struct stat st;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type == DT_DIR;
	return fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* One entry of the top, or of a directory in it. */
typedef int (*entry_fn)(struct removal *r, int dir, const struct dirent *entry);

/* fn for each entry of the directory behind fd (taken over); *seen: how many. */
static int each_entry(struct removal *r, int fd, entry_fn fn, uint64_t *seen)
{
	DIR *d = FM_FAULT("tree.opendir") ? NULL : fdopendir(fd);
	int ret = 0;

	*seen = 0;
	if (!d) {
		close(fd);
		return -ENOMEM;
	}
	while (ret == 0) {
		const struct dirent *entry;

		errno = 0;
		entry = FM_FAULT("tree.readdir") ? (errno = EIO, NULL) : readdir(d);
		if (!entry) {
			ret = -errno;
			break;
		}
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		++*seen;
		ret = fn(r, dirfd(d), entry);
	}
	closedir(d);
	return ret;
}

static int empty_entry(struct removal *r, int dir, const struct dirent *entry)
{
	return is_dir(dir, entry) ? move_up(r, dir, entry->d_name)
				  : remove_file(r, dir, entry->d_name);
}

/* A directory of the top: emptied until it can go (a file system may skip entries while others are
 * removed). */
static int remove_dir(struct removal *r, const char *name)
{
	uint64_t seen;
	int fd, ret;

	do {
		fd = open_dir(r->top, name);
		if (fd < 0)
			return fd == -ENOENT ? 0 : fd;
		ret = each_entry(r, fd, empty_entry, &seen);
		if (ret == 0)
			ret = unlink_at(r->top, name, AT_REMOVEDIR);
	} while ((ret == -ENOTEMPTY || ret == -EEXIST) && seen > 0);
	return ret;
}

static int top_entry(struct removal *r, int dir, const struct dirent *entry)
{
	return is_dir(dir, entry) ? remove_dir(r, entry->d_name)
				  : remove_file(r, dir, entry->d_name);
}

static int empty_top(struct removal *r)
{
	uint64_t seen = 1;
	int ret = 0;

	while (ret == 0 && seen > 0) {
		int fd = fm_tsys_open(r->top, ".", DIR_FLAGS, 0);

		ret = fd < 0 ? fd : each_entry(r, fd, top_entry, &seen);
	}
	return ret;
}

/* Removes the directory that r->top is open on, and its name. */
static int remove_top(struct removal *r, int dir, const char *name)
{
	struct fm_manifest_key key;
	bool has_key = fm_manifest_key(r->top, &key) == 0;
	int ret = -ENOTEMPTY;

	for (int i = 0; i < EMPTIED_MAX && (ret == -ENOTEMPTY || ret == -EEXIST); i++) {
		ret = empty_top(r);
		if (ret == 0)
			ret = fm_tsys_unlink(dir, name, AT_REMOVEDIR);
	}
	if (has_key && (ret == 0 || ret == -ENOENT))
		fm_manifest_remove(dir, &key);
	return ret == -ENOENT ? 0 : ret;
}

int fm_tree_remove(int dir, const char *name, const struct fm_tree_freed *freed)
{
	struct removal r = { .top = open_dir(dir, name), .freed = freed };
	int ret;

	if (r.top == -ENOENT)
		return 0;
	if (r.top == -ENOTDIR || r.top == -ELOOP)
		return remove_file(&r, dir, name);
	if (r.top < 0)
		return r.top;
	ret = remove_top(&r, dir, name);
	close(r.top);
	return ret;
}

int fm_tree_remove_known(int dir, const char *name, uint64_t ino, const struct fm_tree_freed *freed)
{
	struct removal r = { .freed = freed };
	struct stat st;
	int ret = fm_tsys_fstatat(dir, name, &st);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	if (st.st_ino != ino)	/* else its mode would be changed for it to be opened */
		return -ESTALE;
	r.top = open_dir(dir, name);
	if (r.top < 0)
		return r.top == -ENOENT ? 0 : r.top;
	ret = fm_tsys_fstat(r.top, &st);
	if (ret == 0 && st.st_ino != ino)
		ret = -ESTALE;
	if (ret == 0)
		ret = remove_top(&r, dir, name);
	close(r.top);
	return ret;
}
