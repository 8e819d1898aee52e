/* SPDX-License-Identifier: MIT */
/* own_dirs - see own_dirs.h. */
#include "mover/daemon/own_dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "mover/base/call.h"
#include "mover/base/dirway.h"
#include "mover/base/err.h"

#define UP_MAX 256	/* directories between one and the top */

static int open_dir(int at, const char *path)
{
	return fm_call(openat(at, path, O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* Whether the directory at fd, which is closed, is that one or lies in it. */
static bool lies_in(int fd, const struct stat *dir)
{
	struct stat st, last = { 0 };
	bool is = false;
	int up;

	for (unsigned n = 0; fd >= 0 && !is && n < UP_MAX; n++) {
		if (fm_call(fstat(fd, &st)) < 0)
			break;
		if (n > 0 && st.st_dev == last.st_dev && st.st_ino == last.st_ino)
			break;	/* the top */
		is = st.st_dev == dir->st_dev && st.st_ino == dir->st_ino;
		last = st;
		up = open_dir(fd, "..");
		close(fd);
		fd = up;
	}
	if (fd >= 0)
		close(fd);
	return is;
}

/* What is not there is nothing that a store could be in. */
static bool is_apart(int store, const struct stat *st, const char *dir, bool may_be_within)
{
	int fd = open_dir(AT_FDCWD, dir);
	struct stat own;
	bool is = true;

	if (fd < 0)
		return true;
	if (!may_be_within && fm_call(fstat(fd, &own)) == 0)
		is = !lies_in(open_dir(store, "."), &own);
	return !lies_in(fd, st) && is;
}

static int check(int store, const struct stat *st, const struct fm_config_store *of,
		 const char *dir, const char *name, struct fm_err *err)
{
	char path[PATH_MAX];

	if (strcmp(dir, "null:") == 0 ||
	    (size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path) ||
	    is_apart(store, st, path, !name[0]))
		return 0;
	return fm_err_set(err, -EPERM,
			  "%.200s:%u: store \"%s\": what %.200s leads to is, or holds, or lies in "
			  "%.200s, which this node keeps for itself",
			  of->file, of->line, of->name, of->directory, path);
}

/* Whether one path is the other one, or below it. */
static bool is_within(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	while (len > 0 && dir[len - 1] == '/')
		len--;
	return strncmp(path, dir, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

/*
 * The cache is not looked at: no store waits for its file system. So a link in its own path is not
 * followed.
 */
static int check_cache(int store, const struct fm_config *cfg, const struct fm_config_store *of,
		       struct fm_err *err)
{
	const char *cache = cfg->staging.directory;
	char fd[64], path[PATH_MAX];
	ssize_t len;

	(void)snprintf(fd, sizeof(fd), "/proc/self/fd/%d", store);
	len = readlink(fd, path, sizeof(path) - 1);
	if (len < 0 || strcmp(cache, "null:") == 0)
		return 0;
	path[len] = '\0';
	if (!is_within(path, cache) && !is_within(cache, path))
		return 0;
	return fm_err_set(err, -EPERM,
			  "%.200s:%u: store \"%s\": what %.200s leads to and staging.directory "
			  "%.200s must not be within each other",
			  of->file, of->line, of->name, of->directory, cache);
}

/*
 * The key may be elsewhere, and a link may lead to it: where it really is no store may write it. A
 * store beside it may be. What is not there nobody can write through a store.
 */
static int check_key(int store, const struct fm_config *cfg, const struct fm_config_store *of,
		     const struct stat *st, struct fm_err *err)
{
	char dir[PATH_MAX];

	if (!realpath(cfg->node.key_file, dir))
		return 0;
	*strrchr(dir, '/') = '\0';
	return check(store, st, of, dir, "", err);
}

static int check_all(int store, const struct fm_config *cfg, const struct fm_config_store *of,
		     const struct stat *st, struct fm_err *err)
{
	/* with a name: no store may be in it either */
	const char *own[][2] = {
		{ cfg->dir, "" },
		{ cfg->dir, FM_CONFIG_PEERS_DIR },
		{ cfg->dir, FM_CONFIG_INVITES_DIR },
		{ cfg->node.state_directory, "" },
		{ cfg->node.state_directory, FM_CONFIG_JOBS_DIR },
		{ cfg->node.state_directory, FM_CONFIG_BOOK_DIR },
	};
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < sizeof(own) / sizeof(own[0]); i++)
		ret = check(store, st, of, own[i][0], own[i][1], err);
	if (ret == 0)
		ret = check_key(store, cfg, of, st, err);
	return ret < 0 ? ret : check_cache(store, cfg, of, err);
}

int fm_own_dirs_check(const struct fm_config *cfg, const struct fm_config_store *of,
		      const struct fm_dirway *way, struct fm_err *err)
{
	struct stat st;
	int store, ret;

	if (way->device == 0)	/* none, as of "null:" */
		return 0;
	store = open_dir(AT_FDCWD, of->directory);
	ret = store < 0 ? store : fm_call(fstat(store, &st));
	if (ret < 0)
		(void)fm_err_sys(err, ret, "store \"%s\": look at %.200s", of->name, of->directory);
	else if (st.st_dev != way->device || st.st_ino != way->inode)
		ret = fm_err_set(err, -EAGAIN, "store \"%s\": what %.200s leads to has changed",
				 of->name, of->directory);
	else
		ret = check_all(store, cfg, of, &st, err);
	if (store >= 0)
		close(store);
	return ret;
}
