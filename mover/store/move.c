/* SPDX-License-Identifier: MIT */
/*
 * move - what has a name in a store gets another one there, by one rename.
 *
 * Happy path: look at both names; a directory's manifest, which lies beside it, gets a second name
 * beside the new one; renameat2(NOREPLACE), or a plain rename over a file; fsync of the new
 * directory, then of the old one; the manifest's first name goes.
 * A crash in between: what was moved has one of its names, as the file system says. A manifest that
 * has both is swept where its directory is not.
 * Failure modes: the new name is taken between look and rename: -EEXIST. The old one has gone
 * (somebody moved it first): -ENOENT. No flags there (NFS): link and unlink; a directory is renamed
 * as it was looked at. The sync fails: renamed back, unless a file was replaced, which is gone.
 *
 * What is unfinished stays where it is: the same put again, to the same name, goes on with it. What
 * lies in a directory goes with it, and a transfer into it follows its path (follow.h).
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"
#include "mover/tree/manifest.h"
#include "mover/tree/tsys.h"

#define TRIES_MAX 16

struct move {
	struct fm_store_dir *sd;
	const char *path, *to;
	struct fm_path_parent from, into;
	struct stat st;			/* of what is moved */
	uint64_t old_bytes;		/* of the file that it replaces */
	bool has_old;
	struct fm_manifest_key key;
	bool has_manifest;		/* it has a second name in `into` */
};

/* ---- looking ---- */

static int taken(const struct move *m, const char *why, struct fm_err *err)
{
	struct fm_path_shown shown;

	return fm_err_set(err, -EEXIST, "\"%s\": exists; %s", fm_path_show(m->to, &shown), why);
}

static bool is_file_or_link(const struct stat *st)
{
	return S_ISREG(st->st_mode) || S_ISLNK(st->st_mode);
}

/*
 * Checks what has the new name. If it is another name of the same file, it is refused: a rename
 * would leave both.
 */
static int look_at_new(struct move *m, bool may_replace, struct fm_err *err)
{
	struct stat st;
	int ret = fm_sys_fstatat(m->into.fd, m->into.name, &st);

	if (ret == -ENOENT)
		return 0;
	if (ret < 0)
		return fm_path_fail(err, ret, "look at", m->to);
	if (st.st_dev == m->st.st_dev && st.st_ino == m->st.st_ino)
		return taken(m, "it is what is to be moved, under another name", err);
	if (S_ISDIR(st.st_mode))
		return taken(m, "a directory is never replaced; with a / behind it the name means: "
				"into it", err);
	if (S_ISDIR(m->st.st_mode))
		return taken(m, "a directory takes no other's place", err);
	if (!may_replace)
		return taken(m, "it is replaced only if asked for (--force)", err);
	if (!is_file_or_link(&st) || !is_file_or_link(&m->st))
		return taken(m, "only files and links are replaced, and by such", err);
	m->has_old = true;
	m->old_bytes = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	return 0;
}

/* A link keeps what it says. One that leads to something in the store does so from its new place,
 * too; one that leads out already may be moved. */
static int check_link(const struct move *m, struct fm_err *err)
{
	char target[FM_PATH_LEN_MAX + 1];
	ssize_t len = readlinkat(m->from.fd, m->from.name, target, sizeof(target) - 1);

	if (len < 0)
		return fm_path_fail(err, -errno, "read the link", m->path);
	target[len] = '\0';
	if (fm_symlink_check(m->sd, m->from.fd, m->path, target, NULL) < 0)
		return 0;
	return fm_symlink_check(m->sd, m->into.fd, m->to, target, err);
}

static int look(struct move *m, bool may_replace, struct fm_err *err)
{
	int ret = fm_sys_fstatat(m->from.fd, m->from.name, &m->st);

	if (ret < 0)
		return fm_path_fail(err, ret, "move", m->path);
	if (S_ISLNK(m->st.st_mode))
		ret = check_link(m, err);
	m->has_old = false;
	return ret < 0 ? ret : look_at_new(m, may_replace, err);
}

/* ---- the manifest ---- */

static bool is_one_directory(const struct move *m)
{
	struct stat a, b;

	return fstat(m->from.fd, &a) == 0 && fstat(m->into.fd, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/*
 * Gives the manifest of a directory its name in the new place. Without it, verify has the digests
 * of the files themselves.
 */
static void manifest_link(struct move *m)
{
	char name[FM_MANIFEST_NAME_LEN + 1];

	if (!S_ISDIR(m->st.st_mode) || is_one_directory(m) ||
	    fm_manifest_key_at(m->from.fd, m->from.name, &m->key) < 0)
		return;
	fm_manifest_name(&m->key, name);
	m->has_manifest = fm_sys_link(m->from.fd, name, m->into.fd, name) == 0;
}

/*
 * Its name is where the directory is now, and nowhere else. A sweep may have removed that name
 * while the directory was not there: a rename brings it back, and does nothing to two names of one
 * file.
 */
static void manifest_settle(const struct move *m, bool is_moved)
{
	int here = is_moved ? m->into.fd : m->from.fd, gone = is_moved ? m->from.fd : m->into.fd;
	char name[FM_MANIFEST_NAME_LEN + 1];

	if (!m->has_manifest)
		return;
	fm_manifest_name(&m->key, name);
	(void)renameat(gone, name, here, name);	/* swept where the directory was: that is right */
	fm_manifest_remove(gone, &m->key);
}

/* ---- moving ---- */

static int rename_free(const struct move *m)
{
	int ret;

	if (S_ISDIR(m->st.st_mode))
		return fm_tsys_rename_free(m->from.fd, m->from.name, m->into.fd, m->into.name);
	ret = fm_sys_rename(m->from.fd, m->from.name, m->into.fd, m->into.name, RENAME_NOREPLACE);
	if (!fm_tsys_is_unsupported(ret))
		return ret;
	ret = fm_sys_link(m->from.fd, m->from.name, m->into.fd, m->into.name);
	if (ret < 0)
		return ret;
	ret = fm_sys_unlinkat(m->from.fd, m->from.name, 0);
	if (ret < 0)
		/* the first error counts */
		(void)unlinkat(m->into.fd, m->into.name, 0);
	return ret;
}

static int rename_fail(const struct move *m, int ret, struct fm_err *err)
{
	struct fm_path_shown shown;

	if (ret == -EEXIST)
		return taken(m, "somebody made it just now", err);
	fm_path_show(m->path, &shown);
	if (ret == -EXDEV)
		return fm_err_set(err, ret,
				  "move \"%s\": another file system is mounted on the way; what "
				  "is there is copied, with put and rm, and not renamed",
				  shown.text);
	if (ret == -EBUSY)
		return fm_err_set(err, ret,
				  "move \"%s\": another file system is mounted on one of the names",
				  shown.text);
	if (ret == -EINVAL && S_ISDIR(m->st.st_mode))
		return fm_err_set(err, ret, "move \"%s\": a directory cannot be moved into itself",
				  shown.text);
	return fm_path_fail(err, ret, "move", m->path);
}

/* Look, then rename, until both agree on whether the new name is taken. */
static int rename_it(struct move *m, bool may_replace, struct fm_err *err)
{
	int ret = -EEXIST;

	for (int i = 0; i < TRIES_MAX && ret == -EEXIST; i++) {
		ret = look(m, may_replace, err);
		if (ret < 0)
			return ret;
		ret = m->has_old ? fm_sys_rename(m->from.fd, m->from.name, m->into.fd,
						 m->into.name, 0)
				 : rename_free(m);
		if (!may_replace)
			break;
	}
	return ret < 0 ? rename_fail(m, ret, err) : 0;
}

static int sync_one(int dir)
{
	int ret = fm_sys_fsync(dir);

	return ret == -EINVAL ? 0 : ret;	/* no such thing there */
}

/* Syncs both directories, that of the new name first: it must not be lost. */
static int sync_both(const struct move *m, struct fm_err *err)
{
	int ret = sync_one(m->into.fd);

	if (ret == 0)
		ret = sync_one(m->from.fd);
	if (ret < 0)
		return fm_path_fail(err, ret, "sync the directories of", m->to);
	return fm_path_sync_up(m->sd->root, m->into.fd, m->to, err);
}

/* Undoes the rename as well as it can. The error that led here is the one to report. */
static void move_back(const struct move *m)
{
	if (renameat2(m->into.fd, m->into.name, m->from.fd, m->from.name, RENAME_NOREPLACE) < 0)
		fm_log_error("%s: cannot undo its move to %s: %s", m->path, m->to,
			     fm_err_name(errno));
}

static int move_at(struct move *m, bool may_replace, struct fm_err *err)
{
	int ret = look(m, may_replace, err);

	if (ret < 0)
		return ret;
	manifest_link(m);
	ret = rename_it(m, may_replace, err);
	if (ret < 0) {
		manifest_settle(m, false);
		return ret;
	}
	if (m->has_old)
		fm_usage_sub(&m->sd->usage, m->old_bytes);
	ret = m->sd->store.is_durable ? sync_both(m, err) : 0;
	if (ret < 0 && !m->has_old)
		move_back(m);
	manifest_settle(m, ret == 0 || m->has_old);
	return ret;
}

int fm_move(struct fm_store_dir *sd, const char *path, const char *to, bool may_replace,
	    struct fm_err *err)
{
	struct move m = {.sd = sd, .path = path, .to = to};
	int ret;

	if (path[0] == '\0' || to[0] == '\0')
		return fm_err_set(err, -EISDIR, "move: the store itself keeps its name and place");
	ret = fm_path_open_parent(sd->root, path, NULL, &m.from, err);
	if (ret < 0)
		return ret;
	ret = fm_path_open_parent(sd->root, to, NULL, &m.into, err);
	if (ret == 0) {
		ret = move_at(&m, may_replace, err);
		close(m.into.fd);
	}
	close(m.from.fd);
	return ret;
}
