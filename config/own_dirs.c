/* SPDX-License-Identifier: MIT */
/* own_dirs - see own_dirs.h. */
#include "config/own_dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

/* ---- what a node keeps for itself ---- */

struct own {
	const char *dir, *name;		/* dir/name, or dir itself with "" */
	const char *what;
	enum {
		APART,		/* no store is it, holds it, or lies in it */
		NOT_HELD,	/* one may lie in it */
		LINK_NOT_HELD,	/* the same of a link in this place, not of what it leads to */
		UNASKED,	/* APART, but its file system is not asked: no store waits for it */
	} rule;
};

#define OWN_COUNT 9

/* What a link or another file of a directory leads to may be elsewhere: the directory has a row. */
static void list(const struct fm_config *cfg, struct own out[static OWN_COUNT])
{
	const char *state = cfg->node.state_directory, *key = cfg->node.key_file;
	const struct own all[OWN_COUNT] = {
		{ state, FM_CONFIG_JOBS_DIR, "jobs of node.state_directory", APART },
		{ state, FM_CONFIG_BOOK_DIR,
		  "addresses of peers (" FM_CONFIG_BOOK_DIR ") of node.state_directory", APART },
		{ state, "", "state (node.state_directory)", NOT_HELD },
		{ cfg->dir, FM_CONFIG_PEERS_DIR, "entries of peers (" FM_CONFIG_PEERS_DIR ")",
		  APART },
		{ cfg->dir, FM_CONFIG_INVITES_DIR, "invitations (" FM_CONFIG_INVITES_DIR ")",
		  APART },
		{ cfg->dir, "", "configuration", NOT_HELD },
		{ key, "", "key of the node (node.key_file)", NOT_HELD },
		{ key, "", "key of the node (node.key_file)", LINK_NOT_HELD },
		{ cfg->staging.directory, "", "cache (staging.directory)", UNASKED },
	};

	memcpy(out, all, sizeof(all));
}

/* False: there is no such path. */
static bool path_of(const struct own *own, char out[static PATH_MAX])
{
	return strcmp(own->dir, "null:") != 0 &&
	       (size_t)snprintf(out, PATH_MAX, "%s%s%s", own->dir, own->name[0] ? "/" : "",
				own->name) < PATH_MAX;
}

/* real: where it leads; "" or as it is spelled: that tells nothing. */
static int refuse(int code, const struct fm_config_store *of, const char *real,
		  const struct own *own, struct fm_err *err)
{
	bool is_told = real[0] && strcmp(real, of->directory) != 0;

	return fm_err_set(err, code,
			  "%.200s:%u: stores.directory: \"%.200s\"%s%.200s%s and the %s in %.200s "
			  "must not be within each other; move one",
			  of->file, of->line, of->directory, is_told ? " (really " : "",
			  is_told ? real : "", is_told ? ")" : "", own->what, own->dir);
}

/* ---- as it is spelled ---- */

bool fm_own_dirs_spells_within(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	while (len > 1 && dir[len - 1] == '/')
		len--;
	return len > 0 && strncmp(path, dir, len) == 0 &&
	       (path[len] == '\0' || path[len] == '/' || dir[len - 1] == '/');
}

static bool is_spelled_apart(const char *store, const struct own *own)
{
	bool may_be_within = own->rule == NOT_HELD || own->rule == LINK_NOT_HELD;
	char path[PATH_MAX];

	return !path_of(own, path) || (!fm_own_dirs_spells_within(path, store) &&
				       (may_be_within || !fm_own_dirs_spells_within(store, path)));
}

int fm_own_dirs_check_spelling(const struct fm_config *cfg, const struct fm_config_store *of,
			       struct fm_err *err)
{
	struct own own[OWN_COUNT];

	list(cfg, own);
	for (size_t i = 0; i < OWN_COUNT; i++)
		if (!is_spelled_apart(of->directory, &own[i]))
			return refuse(-EINVAL, of, "", &own[i], err);
	return 0;
}

/* ---- where it leads ---- */

/* Where a path leads, or would: a directory that is there, and what follows that is none. */
struct place {
	int fd;			/* of the directory */
	struct stat st;
	char real[PATH_MAX];	/* its path without links; "": not known */
	char rest[PATH_MAX];	/* "" if the whole path is a directory */
};

static int open_dir(int at, const char *path)
{
	return fm_call(openat(at, path, O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* Of a directory that is open: fd is the place's, and closed after an error. */
static int place_at(int fd, struct place *out)
{
	int ret = fm_call(fstat(fd, &out->st));
	char name[64];
	ssize_t len;

	if (ret < 0) {
		close(fd);
		return ret;
	}
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	len = readlink(name, out->real, sizeof(out->real) - 1);
	out->real[len > 0 ? len : 0] = '\0';
	out->rest[0] = '\0';
	out->fd = fd;
	return 0;
}

/* The last directory on a path that is there; the rest of the path begins at *out_rest. */
static int open_deepest(const char *path, bool is_link, const char **out_rest)
{
	int fd = is_link ? -ENOTDIR : open_dir(AT_FDCWD, path);
	const char *rest = path + strlen(path);
	char way[PATH_MAX];

	while (fd < 0 && rest > path) {
		for (rest--; rest > path && rest[-1] != '/'; rest--)
			;
		(void)snprintf(way, sizeof(way), "%.*s", (int)(rest - path), path);
		fd = open_dir(AT_FDCWD, way);
	}
	*out_rest = rest;
	return fd;
}

/* is_link: what is in that place itself, not where that leads. False: it can be nowhere. */
static bool place_find(const char *path, bool is_link, struct place *out)
{
	char real[PATH_MAX];
	const char *rest;
	int fd;

	if (strlen(path) >= sizeof(real))
		return false;
	if (is_link || !realpath(path, real))
		strcpy(real, path);
	fd = open_deepest(real, is_link, &rest);
	if (fd < 0 || place_at(fd, out) < 0)
		return false;
	strcpy(out->rest, rest);
	return true;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether the directory at fd is that one or lies in it, whatever is mounted where. */
static bool climbs_to(int fd, const struct stat *dir)
{
	struct stat st, last = { 0 };
	bool is = false;
	int up;

	fd = open_dir(fd, ".");
	for (unsigned n = 0; fd >= 0 && !is && n < UP_MAX; n++) {
		if (fm_call(fstat(fd, &st)) < 0)
			break;
		if (n > 0 && is_same(&st, &last))
			break;	/* the top */
		is = is_same(&st, dir);
		last = st;
		up = open_dir(fd, "..");
		close(fd);
		fd = up;
	}
	if (fd >= 0)
		close(fd);
	return is;
}

/* The paths, too: who may not look into a directory cannot climb from it. */
static bool lies_in(const struct place *p, const struct place *dir)
{
	if (dir->rest[0])
		return is_same(&p->st, &dir->st) &&
		       fm_own_dirs_spells_within(p->rest, dir->rest);
	return fm_own_dirs_spells_within(p->real, dir->real) || climbs_to(p->fd, &dir->st);
}

static bool real_path_of(const struct place *p, char out[static PATH_MAX])
{
	bool is_top = strcmp(p->real, "/") == 0;

	return (size_t)snprintf(out, PATH_MAX, "%s%s%s", p->real,
				p->rest[0] && !is_top ? "/" : "", p->rest) < PATH_MAX;
}

/* real: of the store. */
static bool is_apart(const struct place *store, const char *real, const struct own *own)
{
	char path[PATH_MAX];
	struct place is;
	bool is_apart;

	if (own->rule == UNASKED)
		return is_spelled_apart(real, own);
	if (!path_of(own, path) || !place_find(path, own->rule == LINK_NOT_HELD, &is))
		return true;
	is_apart = !lies_in(&is, store) && (own->rule != APART || !lies_in(store, &is));
	close(is.fd);
	return is_apart;
}

static int check_place(const struct place *store, const struct fm_config *cfg,
		       const struct fm_config_store *of, struct fm_err *err)
{
	struct own own[OWN_COUNT];
	char real[PATH_MAX];

	if (!real_path_of(store, real))
		return 0;	/* nothing can be there */
	list(cfg, own);
	for (size_t i = 0; i < OWN_COUNT; i++)
		if (!is_apart(store, real, &own[i]))
			return refuse(-EPERM, of, real, &own[i], err);
	return 0;
}

int fm_own_dirs_try(const struct fm_config *cfg, const struct fm_config_store *of,
		    struct fm_err *err)
{
	struct place store;
	int ret;

	if (of->directory[0] != '/' || !place_find(of->directory, false, &store))
		return 0;
	ret = check_place(&store, cfg, of, err);
	close(store.fd);
	return ret;
}

int fm_own_dirs_check(const struct fm_config *cfg, const struct fm_config_store *of,
		      const struct fm_dirway *way, struct fm_err *err)
{
	struct place store = { 0 };
	int fd, ret;

	if (way->device == 0)	/* none, as of "null:" */
		return 0;
	fd = open_dir(AT_FDCWD, of->directory);
	ret = fd < 0 ? fd : place_at(fd, &store);
	if (ret < 0)
		return fm_err_sys(err, ret, "store \"%s\": look at %.200s", of->name,
				  of->directory);
	if (store.st.st_dev != way->device || store.st.st_ino != way->inode)
		ret = fm_err_set(err, -EAGAIN, "store \"%s\": what %.200s leads to has changed",
				 of->name, of->directory);
	else
		ret = check_place(&store, cfg, of, err);
	close(store.fd);
	return ret;
}
