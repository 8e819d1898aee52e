/* SPDX-License-Identifier: MIT */
/*
 * symlink - a symbolic link in a store, to something in it.
 *
 * What it says is relative, and goes up only at its beginning and not above the store: so it leads
 * nobody out, neither fmove nor who follows it by the path of the store. A move asks that again
 * (move.c), but not of the links in a directory. Other links that it meets are guarded by the
 * kernel (path.h).
 *
 * Happy path: it is made in a directory that only we may enter; renameat2(NOREPLACE), or EXCHANGE
 * with a link that is there; fsync of the directory; what it replaced goes.
 * A crash in between: the name has the new link, the old one, or is free as it was; the rest is
 * swept.
 * Failure modes: what was a link when it was looked at is none when it is exchanged: exchanged
 * back. The sync fails: the same. No flags there (NFS): looked at, then renamed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/store/made_dir.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"
#include "mover/tree/tsys.h"

#define MADE FM_MADE_NAME	/* in the private directory */
#define TRIES_MAX 16

struct link {
	struct fm_store_dir *sd;
	const char *path, *target;
	struct fm_path_parent parent;
	int private;
	bool is_exchanged;		/* MADE is what had the name */
};

/* ---- what it may say ---- */

/* How many directories below the store's an open one is; -ESTALE: it is not in it any more. */
static int depth_of(int root, int dir)
{
	char link[32], top[FM_PATH_LEN_MAX + 1], at[FM_PATH_LEN_MAX + 1];
	ssize_t top_len, at_len;
	int depth = 0;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", root);	/* fits, as the next */
	top_len = readlink(link, top, sizeof(top) - 1);
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
	at_len = readlink(link, at, sizeof(at) - 1);
	if (top_len <= 0 || at_len < top_len || memcmp(top, at, (size_t)top_len) != 0)
		return -ESTALE;
	at[at_len] = '\0';
	top_len -= top[top_len - 1] == '/';	/* the root of all */
	if (at[top_len] && at[top_len] != '/')
		return -ESTALE;
	for (const char *p = at + top_len; *p; p++)
		depth += *p == '/' && p[1];
	return depth;
}

/* Why a target is not allowed; NULL: it is. depth: of the directory that the link is in. */
static const char *target_fault(const char *target, int depth)
{
	const char *at = target;

	if (*at == '/')
		return "is absolute: other nodes have that store elsewhere; say it relative to the "
		       "link's directory";
	while (strncmp(at, "..", 2) == 0 && (at[2] == '/' || !at[2])) {
		if (depth-- == 0)
			return "leads out of the store";
		at += at[2] ? 3 : 2;
	}
	while (*at) {
		size_t len = strcspn(at, "/");

		if (len > FM_NAME_LEN_MAX)
			return "has a name that is too long";
		if (len == 2 && memcmp(at, "..", 2) == 0)
			return "goes up behind a name, which may be a link: say it without";
		if (fm_path_is_reserved(at))
			return "uses a name that begins with \"" FM_PATH_RESERVED
			       "\": those are fmove's partial files";
		at += len + (at[len] == '/');
	}
	return NULL;
}

int fm_symlink_check(const struct fm_store_dir *sd, int dir, const char *path, const char *target,
		     struct fm_err *err)
{
	int depth = depth_of(sd->root, dir);
	struct fm_path_shown shown;
	const char *why;

	if (depth < 0)
		return fm_path_fail(err, depth, "find the directory of", path);
	why = target_fault(target, depth);
	fm_path_show(target, &shown);
	return why ? fm_err_set(err, -EXDEV, "a link to \"%s\": %s", shown.text, why) : 0;
}

/* ---- its name ---- */

static int taken(const struct link *l, const char *why, struct fm_err *err)
{
	struct fm_path_shown shown;

	return fm_err_set(err, -EEXIST, "\"%s\": exists; %s", fm_path_show(l->path, &shown), why);
}

static bool is_link_at(int dir, const char *name)
{
	struct stat st;

	return fm_sys_fstatat(dir, name, &st) == 0 && S_ISLNK(st.st_mode);
}

static int replace(struct link *l, struct fm_err *err)
{
	static const char only[] = "only a link is replaced by a link; remove it first";
	const char *name = l->parent.name;
	int dir = l->parent.fd, ret;

	if (!is_link_at(dir, name))
		return taken(l, only, err);
	ret = fm_sys_rename(l->private, MADE, dir, name, RENAME_EXCHANGE);
	if (fm_tsys_is_unsupported(ret))
		ret = fm_sys_rename(l->private, MADE, dir, name, 0);
	else
		l->is_exchanged = ret == 0;
	if (ret < 0)
		return fm_path_fail(err, ret, "make the link", l->path);
	if (!l->is_exchanged || is_link_at(l->private, MADE))
		return 0;
	return taken(l, only, err);
}

static int give_name(struct link *l, bool may_replace, struct fm_err *err)
{
	int ret = fm_sys_rename(l->private, MADE, l->parent.fd, l->parent.name, RENAME_NOREPLACE);

	if (fm_tsys_is_unsupported(ret))
		ret = fm_tsys_rename_free(l->private, MADE, l->parent.fd, l->parent.name);
	if (ret == -EEXIST && may_replace)
		return replace(l, err);
	if (ret == -EEXIST)
		return taken(l, "a link is replaced only if asked for (--force)", err);
	return ret < 0 ? fm_path_fail(err, ret, "make the link", l->path) : 0;
}

static int sync_name(const struct link *l, struct fm_err *err)
{
	int ret = fm_sys_fsync(l->parent.fd);

	if (ret < 0 && ret != -EINVAL)		/* EINVAL: no such thing there */
		return fm_path_fail(err, ret, "sync the directory of", l->path);
	return fm_path_sync_up(l->sd->root, l->parent.fd, l->path, err);
}

/* What had the name gets it again, though somebody may have removed the link from it meanwhile, or
 * given it to another. */
static int exchange_back(const struct link *l)
{
	int ret = -ENOENT;

	for (int i = 0; i < TRIES_MAX && (ret == -ENOENT || ret == -EEXIST); i++)
		ret = fm_sys_rename(l->private, MADE, l->parent.fd, l->parent.name,
				    i % 2 == 0 ? RENAME_EXCHANGE : RENAME_NOREPLACE);
	return ret;
}

/* Best effort: the error that led here is the one to report. */
static void take_back(struct link *l)
{
	int ret = l->is_exchanged ? exchange_back(l)
				  : fm_sys_rename(l->parent.fd, l->parent.name, l->private, MADE,
						  RENAME_NOREPLACE);

	if (ret < 0)
		fm_log_error("%s: cannot undo the link: %s", l->path, fm_err_name(ret));
}

static int make(struct link *l, const struct fm_path_make *owner, bool may_replace,
		struct fm_err *err)
{
	int ret = fm_sys_symlink(l->target, l->private, MADE);

	if (ret == 0 && owner->has_owner)
		ret = fm_call_chown_link(l->private, MADE, owner->uid, owner->gid);
	if (ret < 0)
		return fm_path_fail_making(err, ret, l->parent.fd,
					   owner->has_owner ? "make (for its caller, which needs "
							      "CAP_CHOWN) the link"
							    : "make the link",
					   l->path);
	ret = give_name(l, may_replace, err);
	if (ret < 0 && !l->is_exchanged)
		return ret;
	if (ret == 0 && l->sd->store.is_durable)
		ret = sync_name(l, err);
	if (ret < 0)
		take_back(l);
	return ret;
}

/* A file that came by the exchange, and could not be given back. */
static bool is_foreign(int private)
{
	struct stat st;

	return fm_sys_fstatat(private, MADE, &st) == 0 && !S_ISLNK(st.st_mode);
}

static int make_in(struct link *l, const struct fm_path_make *owner, bool may_replace,
		   struct fm_err *err)
{
	char temp[FM_STAGING_NAME_LEN + 1];
	int ret = fm_symlink_check(l->sd, l->parent.fd, l->path, l->target, err);

	if (ret < 0)
		return ret;
	l->private = fm_made_private(l->parent.fd, temp);
	if (l->private < 0)
		return fm_path_fail_making(err, l->private, l->parent.fd, "make the link", l->path);
	ret = make(l, owner, may_replace, err);
	if (!is_foreign(l->private))
		(void)unlinkat(l->private, MADE, 0);	/* it may have its name */
	close(l->private);
	(void)unlinkat(l->parent.fd, temp, AT_REMOVEDIR);	/* what stays is swept */
	return ret;
}

int fm_symlink(struct fm_store_dir *sd, const char *path, const char *target,
	       const struct fm_who *who, bool may_replace, struct fm_err *err)
{
	struct fm_path_make owner = fm_store_dir_make(sd, who);
	struct link l = {.sd = sd, .path = path, .target = target};
	int ret;

	if (path[0] == '\0')
		return fm_err_set(err, -EEXIST, "the store itself exists already");
	ret = fm_path_open_parent(sd->root, path, NULL, &l.parent, err);
	if (ret < 0)
		return ret;
	ret = make_in(&l, &owner, may_replace, err);
	close(l.parent.fd);
	return ret;
}
