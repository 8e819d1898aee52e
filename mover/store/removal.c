/* SPDX-License-Identifier: MIT */
/*
 * removal - files and trees that leave a store. Links are removed, never followed.
 *
 * A tree goes whatever the modes of its directories are, where they are the service's own: a
 * dataset that was put read-only would be left half removed else. Whether it may go is said by the
 * store's rules, and by the directory that it is in. What cannot go has its mode again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mover/store/group.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"
#include "mover/store/walk.h"
#include "mover/tree/manifest.h"
#include "mover/tree/stash.h"
#include "mover/tree/tsys.h"

static uint64_t counted_bytes(const struct stat *st)
{
	return S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0;
}

/* What follows is in a directory of the tree that goes. It is opened to its owner if it is not. */

static int unlink_below(struct fm_walk *walk, const struct fm_walk_at *at, int flags)
{
	int ret = fm_sys_unlinkat(at->dir, at->name, flags);

	if (fm_tsys_is_refused(ret) && fm_walk_open_up(walk) == 0)
		ret = fm_sys_unlinkat(at->dir, at->name, flags);
	return ret;
}

static int stat_below(struct fm_walk *walk, const struct fm_walk_at *at, struct stat *out)
{
	int ret = fm_sys_fstatat(at->dir, at->name, out);

	if (fm_tsys_is_refused(ret) && fm_walk_open_up(walk) == 0)
		ret = fm_sys_fstatat(at->dir, at->name, out);
	return ret;
}

static int remove_entry(struct fm_store_dir *sd, struct fm_walk *walk, const struct fm_walk_at *at)
{
	struct stat st;
	int ret;

	if (at->is_dir)
		return at->is_leaving ? unlink_below(walk, at, AT_REMOVEDIR) : 0;
	ret = stat_below(walk, at, &st);
	if (ret == 0)
		ret = unlink_below(walk, at, 0);
	if (ret == 0 && !fm_path_is_reserved(at->name))
		fm_usage_sub(&sd->usage, counted_bytes(&st));
	return ret == -ENOENT ? 0 : ret;
}

/*
 * Refuses to remove a directory in which something is mounted: its files belong to somebody else.
 * below: where in the directory, or "".
 */
static int refuse_mount(const char *path, const char *below, struct fm_err *err)
{
	char whole[2 * FM_PATH_LEN_MAX + 2];
	struct fm_path_shown shown;

	(void)snprintf(whole, sizeof(whole), "%s%s%s", path, below[0] ? "/" : "", below);
	return fm_err_set(
		err, -EBUSY,
		"remove \"%s\": another file system is mounted there, and keeps its files; "
		"unmount it first",
		fm_path_show(whole, &shown));
}

static int refuse_mount_met(const struct fm_walk *walk, const struct fm_walk_at *at,
			    const char *path, struct fm_err *err)
{
	const struct fm_walk_at not_entered = { .name = at->name };
	char below[FM_PATH_LEN_MAX + 1];

	return refuse_mount(
		path, fm_walk_path(walk, &not_entered, below, sizeof(below)) < 0 ? at->name : below,
		err);
}

/* Removes everything that the walk meets. */
static int remove_below(struct fm_store_dir *sd, struct fm_walk *walk, const char *path,
			struct fm_err *err)
{
	struct fm_walk_at at;
	int ret = 0;

	while (ret == 0) {
		ret = fm_walk_next(walk, &at);
		if (ret == -EXDEV)
			ret = refuse_mount_met(walk, &at, path, err);
		if (ret <= 0)
			break;
		ret = remove_entry(sd, walk, &at);
	}
	return ret;
}

/* A directory that goes, and its name. */
struct going {
	const struct fm_path_parent *parent;
	uint64_t ino;
	struct fm_manifest_key key;
	bool has_key;
	/* where it lies, beside its name; "": under that, still */
	char stash[FM_STAGING_NAME_LEN + 1];
};

/*
 * Moves the directory into a stash before anything in it goes, so that nobody takes the rest for
 * the whole. If that is not possible, it goes where it is; unless its name could not go either.
 */
static int hide(struct going *g, int fd)
{
	struct stat st;
	int ret = fm_sys_fstat(fd, &st);
	struct fm_stash_what what = {
		.dir = g->parent->fd, .from = g->parent->name, .name = g->parent->name};

	if (ret < 0)
		return ret;
	g->ino = what.ino = st.st_ino;
	ret = fm_stash_keep(&what, g->parent->fd, FM_STAGING_OLD, g->stash);
	if (ret == 0)
		return 0;
	g->stash[0] = '\0';
	return fm_tsys_is_refused(ret) && faccessat(g->parent->fd, ".", W_OK | X_OK, AT_EACCESS) < 0
		       ? -errno
		       : 0;
}

static int remove_name(const struct going *g)
{
	int ret = fm_sys_unlinkat(g->parent->fd, g->parent->name, AT_REMOVEDIR);

	if (ret == 0 && g->has_key)
		fm_manifest_remove(g->parent->fd, &g->key);
	return ret;
}

/*
 * Removes a directory by way of a stash. The walk has been started in it, and gives modes back at
 * its end: where the top's does not let its owner write, it could not be moved back by then.
 */
static int remove_hidden(struct fm_store_dir *sd, const struct fm_path_parent *parent,
			 struct fm_walk *walk, const char *path, struct fm_err *err)
{
	int fd = dirfd(walk->levels[0].dir);
	struct going g = { .parent = parent };
	int ret;

	g.has_key = fm_manifest_key(fd, &g.key) == 0;
	ret = hide(&g, fd);
	if (ret < 0)
		return ret;
	ret = remove_below(sd, walk, path, err);
	if (g.stash[0] && ret < 0)	/* what is left; else it is swept */
		(void)fm_stash_give_back(parent->fd, g.stash, g.ino);
	else if (ret == 0 && !g.stash[0])
		ret = remove_name(&g);
	else if (ret == 0)	/* the rest is empty: if it cannot go now it is swept */
		(void)fm_stash_remove(parent->fd, g.stash, g.ino, NULL);
	return ret;
}

/* The walk ends, and so does what it has open, before anything else is said of it. */
static int walk_and_remove(struct fm_store_dir *sd, const struct fm_path_parent *parent,
			   const char *path, struct fm_err *err)
{
	struct fm_walk *walk = fm_sys_alloc(sizeof(*walk));
	int ret;

	if (!walk)
		return -ENOMEM;
	ret = fm_walk_start_removal(walk, parent->fd, parent->name);
	if (ret == -EXDEV)
		ret = refuse_mount(path, "", err);
	else if (ret == 0)
		ret = remove_hidden(sd, parent, walk, path, err);
	fm_walk_end(walk);
	free(walk);
	return ret;
}

static int remove_tree(struct fm_store_dir *sd, const struct fm_path_parent *parent,
		       const char *path, struct fm_err *err)
{
	struct fm_path_shown shown;
	int ret;

	fm_err_clear(err);
	ret = walk_and_remove(sd, parent, path, err);
	if (err->code < 0)
		return ret;
	if (ret == -EOVERFLOW)
		return fm_err_set(err, ret,
				  "remove \"%s\": directories nested deeper than %d; remove the "
				  "inner ones first",
				  fm_path_show(path, &shown), FM_WALK_DEPTH_MAX);
	return ret < 0 ? fm_path_fail(err, ret, "remove", path) : 0;
}

/* What is known of a group that was published as it is true of no directory that comes there. */
static int remove_published(struct fm_store_dir *sd, const struct fm_path_parent *parent,
			    const char *path, struct fm_err *err)
{
	int ret = remove_tree(sd, parent, path, err);

	if (ret == 0)
		fm_group_forget(sd, parent, path);
	return ret;
}

static int remove_file(struct fm_store_dir *sd, const struct fm_path_parent *parent,
		       const char *path, const struct stat *st, struct fm_err *err)
{
	int ret = fm_sys_unlinkat(parent->fd, parent->name, 0);

	if (ret < 0)
		return fm_path_fail(err, ret, "remove", path);
	fm_usage_sub(&sd->usage, counted_bytes(st));
	return 0;
}

static int remove_at(struct fm_store_dir *sd, const struct fm_path_parent *parent, const char *path,
		     bool is_recursive, struct fm_err *err)
{
	struct fm_path_shown shown;
	struct stat st;
	int ret = fm_sys_fstatat(parent->fd, parent->name, &st);

	if (ret < 0)
		return fm_path_fail(err, ret, "remove", path);
	if (!S_ISDIR(st.st_mode))
		ret = remove_file(sd, parent, path, &st, err);
	else if (is_recursive)
		ret = remove_published(sd, parent, path, err);
	else
		return fm_err_set(err, -EISDIR,
				  "remove \"%s\": is a directory; removing it with all that is in "
				  "it must be asked for (-r)",
				  fm_path_show(path, &shown));
	if (ret == 0 && sd->store.is_durable)
		ret = fm_sys_fsync(parent->fd);
	else
		return ret;
	if (ret == 0 || ret == -EINVAL)		/* EINVAL: no such thing there */
		return 0;
	return fm_path_fail(err, ret, "sync the directory of", path);
}

int fm_removal(struct fm_store_dir *sd, const char *path, bool is_recursive, struct fm_err *err)
{
	struct fm_path_parent parent;
	int ret;

	if (path[0] == '\0')
		return fm_err_set(err, -EISDIR, "remove: the store itself cannot be removed");
	ret = fm_path_open_parent(sd->root, path, NULL, &parent, err);
	if (ret < 0)
		return ret;
	ret = remove_at(sd, &parent, path, is_recursive, err);
	close(parent.fd);
	return ret;
}
