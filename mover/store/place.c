/* SPDX-License-Identifier: MIT */
/*
 * place - a finished partial file gets its final name.
 *
 * Happy path, name free:  renameat2(NOREPLACE), fsync of the directory, unlink of the journal.
 * Happy path, replacing:  renameat2(EXCHANGE), fsync of the directory; at the end unlink of the old
 * file, which has the partial name until then, and of the journal. The path leads elsewhere by
 * then: undone, so that the directory that it led to keeps its old file. A crash in between:
 * the partial name has no file, or the old one, which is not the one that the journal names: the
 * next try begins afresh. No flags there (NFS):   link and unlink; when replacing, a plain rename,
 * and the old file is gone. Failure modes:          the name appears or goes between look and
 * rename: look again, a few times. The sync fails: undone. Another file has the partial name, or
 * none has: refused, and nothing is there to go on with (-ESTALE). The name is taken: that is said
 * when it is there to stay (placing.h). Somebody gave the name to another file before it could be
 * undone: that one stays.
 */
#include "mover/store/place.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/store/path.h"
#include "mover/store/placing.h"
#include "mover/store/sync.h"
#include "mover/store/sys.h"

#define PLACE_TRIES_MAX 16

static const char *kind_of(const struct stat *st)
{
	if (S_ISLNK(st->st_mode))
		return "a symbolic link";
	if (S_ISFIFO(st->st_mode))
		return "a named pipe";
	if (S_ISSOCK(st->st_mode))
		return "a socket";
	return "a device";
}

#define LINK_ELSEWHERE ", or fmove ln -sf leads it elsewhere"

static int place_fail(const struct fm_place *place, int ret, struct fm_err *err)
{
	struct fm_path_shown shown;

	if (ret != -EEXIST)
		return fm_path_fail(err, ret, "publish", place->path);
	return fm_err_set(err, ret, "\"%s\": exists; it is replaced only if asked for (--force)",
			  fm_path_show(place->path, &shown));
}

/* Says that something has the name: -EEXIST, once it is there to stay. 0: it is not: look again. */
static int place_taken(const struct fm_place *place, struct fm_err *err)
{
	struct fm_path_shown shown;
	int ret = fm_placing_settle(place->dir, place->name, place->sync != NULL, place->placing);

	if (ret == -ENOENT)
		return 0;
	if (ret == -EBUSY)
		return fm_err_set(err, ret,
				  "\"%s\": another transfer gives it this name, and waits for the "
				  "disk; run it again",
				  fm_path_show(place->path, &shown));
	if (ret == 0 || ret == -ELOOP)
		return place_fail(place, -EEXIST, err);
	return fm_path_fail(err, ret, "bring to the disk what exists as", place->path);
}

/* fm_place_check(), or 1: look again. */
static int check_once(const struct fm_place *place, uint64_t *old_bytes, struct fm_err *err)
{
	struct fm_path_shown shown;
	struct stat st;
	int ret = fm_sys_fstatat(place->dir, place->name, &st);

	if (ret == -ENOENT) {
		*old_bytes = 0;
		return 0;
	}
	if (ret < 0)
		return place_fail(place, ret, err);
	if (S_ISDIR(st.st_mode))
		return fm_err_set(err, -EISDIR, "\"%s\": is a directory; name a file in it",
				  fm_path_show(place->path, &shown));
	if (!S_ISREG(st.st_mode))
		return fm_err_set(err, -EEXIST,
				  "\"%s\": is %s, which is never replaced; remove it first%s",
				  fm_path_show(place->path, &shown), kind_of(&st),
				  S_ISLNK(st.st_mode) ? LINK_ELSEWHERE : "");
	if (!place->may_replace) {
		ret = place_taken(place, err);
		return ret == 0 ? 1 : ret;
	}
	*old_bytes = (uint64_t)st.st_size;
	return 0;
}

int fm_place_check(const struct fm_place *place, uint64_t *old_bytes, struct fm_err *err)
{
	int ret = 1;

	for (int i = 0; i < PLACE_TRIES_MAX && ret > 0; i++)
		ret = check_once(place, old_bytes, err);
	return ret > 0 ? place_fail(place, -EBUSY, err) : ret;
}

static bool is_unsupported(int ret)
{
	return ret == -EINVAL || ret == -ENOSYS || ret == -EOPNOTSUPP;
}

/* Gives the file a name that was free. */
static int install_new(const struct fm_place *place, enum fm_placed_how *out)
{
	int ret =
		fm_sys_rename(place->from, place->temp, place->dir, place->name, RENAME_NOREPLACE);

	*out = FM_PLACED_MOVED;
	if (!is_unsupported(ret))
		return ret;
	*out = FM_PLACED_LINKED;
	return fm_sys_link(place->from, place->temp, place->dir, place->name);
}

/*
 * Gives the file a name that a regular file has. The two are exchanged, so that this can be undone.
 */
static int install_over(const struct fm_place *place, enum fm_placed_how *out)
{
	int ret = fm_sys_rename(place->from, place->temp, place->dir, place->name, RENAME_EXCHANGE);

	*out = FM_PLACED_EXCHANGED;
	if (!is_unsupported(ret))
		return ret;
	*out = FM_PLACED_OVER;
	return fm_sys_rename(place->from, place->temp, place->dir, place->name, 0);
}

/* Look, then rename, until both agree on whether the name is taken. */
static int place_install(const struct fm_place *place, struct fm_placed *out, struct fm_err *err)
{
	struct stat st;
	int ret = 0;

	for (int i = 0; i < PLACE_TRIES_MAX; i++) {
		bool is_taken;

		ret = place->may_replace ? fm_sys_fstatat(place->dir, place->name, &st) : -ENOENT;
		is_taken = ret == 0;
		out->old_bytes = is_taken ? (uint64_t)st.st_size : 0;
		if (is_taken && !S_ISREG(st.st_mode))
			return fm_place_check(place, &out->old_bytes, err);
		if (ret == 0)
			ret = install_over(place, &out->how);
		else if (ret == -ENOENT)
			ret = install_new(place, &out->how);
		if (ret != (is_taken ? -ENOENT : -EEXIST))
			break;
		if (place->may_replace)
			continue;
		ret = place_taken(place, err);
		if (ret < 0)
			return ret;
		ret = -EBUSY;	/* it is taken and free in turn */
	}
	return ret < 0 ? place_fail(place, ret, err) : 0;
}

/* The names as they were: 0, or -1 and errno. */
static int put_back(const struct fm_place *place, enum fm_placed_how how)
{
	switch (how) {
	case FM_PLACED_MOVED:
		return renameat2(place->dir, place->name, place->from, place->temp,
				 RENAME_NOREPLACE);
	case FM_PLACED_LINKED:
		return unlinkat(place->dir, place->name, 0);
	case FM_PLACED_EXCHANGED:
		return renameat2(place->from, place->temp, place->dir, place->name,
				 RENAME_EXCHANGE);
	case FM_PLACED_OVER:
		break;
	}
	return renameat2(place->dir, place->name, place->from, place->temp, 0);
}

/* The error that led here, if one did, is the one to report. */
static int place_undo(const struct fm_place *place, enum fm_placed_how how)
{
	int ret = put_back(place, how) < 0 ? -errno : 0;

	if (ret < 0)
		fm_log_error("%s: cannot undo its publication: %s", place->path, fm_err_name(ret));
	return ret;
}

/* Whether that name leads to the file that was written and checked: 1, 0, or why it has none. */
static int is_named(const struct fm_place *place, int dir, const char *name)
{
	struct stat by_fd, by_name;
	int ret = fm_sys_fstat(place->fd, &by_fd);

	if (ret == 0)
		ret = fm_sys_fstatat(dir, name, &by_name);
	if (ret < 0)
		return ret;
	return by_fd.st_dev == by_name.st_dev && by_fd.st_ino == by_name.st_ino;
}

/* Who may write to the directory can put another file under the partial name. */
static int check_named(const struct fm_place *place, struct fm_err *err)
{
	struct fm_path_shown shown;
	int ret = is_named(place, place->from, place->temp);

	if (ret == -ENOENT)
		return fm_err_set(err, -ESTALE,
				  "\"%s\": somebody removed %s, under which it came; run it again",
				  fm_path_show(place->path, &shown), place->temp);
	if (ret < 0)
		return place_fail(place, ret, err);
	if (ret > 0)
		return 0;
	return fm_err_set(err, -ESTALE,
			  "\"%s\": somebody gave another file the name %s, under which it came; "
			  "run it again",
			  fm_path_show(place->path, &shown), place->temp);
}

int fm_place(const struct fm_place *place, struct fm_placed *out, struct fm_err *err)
{
	int ret = check_named(place, err);

	*out = (struct fm_placed){ .how = FM_PLACED_MOVED };
	if (ret == 0)
		ret = place_install(place, out, err);
	if (ret < 0)
		return ret;
	ret = place->sync ? fm_sync_dir(place->sync, place->dir) : 0;
	if (ret == 0)
		return 0;
	if (out->how != FM_PLACED_OVER)		/* then the name would have neither */
		(void)place_undo(place, out->how);
	return fm_path_fail(err, ret, "sync the directory of", place->path);
}

void fm_place_end(const struct fm_place *place, const struct fm_placed *placed)
{
	bool is_left = placed->how == FM_PLACED_LINKED || placed->how == FM_PLACED_EXCHANGED;

	if (is_left && unlinkat(place->from, place->temp, 0) < 0)
		fm_log_warn("%s: cannot remove the old file, now %s: %s", place->path, place->temp,
			    fm_err_name(errno));
	/*
	 * The journal goes last: a transfer that finds none takes the partial name for free. If it
	 * stays, it does no harm, and is swept.
	 */
	if (place->journal)
		(void)unlinkat(place->from, place->journal, 0);
}

/*
 * Another publication may have put its file in the place of ours just now. It finds out, too, that
 * the path leads elsewhere, and gives ours back.
 */
static int await_ours(const struct fm_place *place)
{
	int ret = 0;

	for (int i = 0; i < PLACE_TRIES_MAX && ret == 0; i++) {
		ret = is_named(place, place->dir, place->name);
		if (ret == 0 &&
		    fm_placing_settle(place->dir, place->name, false, place->placing) != -ENOENT)
			break;
	}
	return ret;
}

int fm_place_undo(const struct fm_place *place, const struct fm_placed *placed, struct fm_err *err)
{
	struct fm_path_shown shown;
	int ret = await_ours(place);
	bool is_theirs = ret == 0 || ret == -ENOENT;

	if (is_theirs && placed->how == FM_PLACED_LINKED)
		return 0;	/* ours has the partial name, too */
	if (is_theirs)
		return fm_err_set(err, -ESTALE,
				  "\"%s\": its directory was replaced, and somebody gave its name "
				  "there to something else; run it again",
				  fm_path_show(place->path, &shown));
	if (ret > 0)
		ret = place_undo(place, placed->how);
	if (ret == 0 && place->sync)
		ret = fm_sync_dir(place->sync, place->dir);
	return ret < 0 ? fm_path_fail(err, ret, "undo the publication of", place->path) : 0;
}
