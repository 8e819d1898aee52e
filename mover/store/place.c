/* SPDX-License-Identifier: MIT */
/*
 * place - a finished partial file gets its final name.
 *
 * Happy path, name free:  renameat2(NOREPLACE), fsync of the directory, unlink of the journal.
 * Happy path, replacing:  renameat2(EXCHANGE), fsync of the directory, unlink of the old file,
 * which has the partial name now, unlink of the journal. Without a sync nothing can fail behind the
 * rename, so a plain one does. A crash in between:     the partial name has no file, or the old
 * one, which is not the one that the journal names: the next try begins afresh. No flags there
 * (NFS):   link and unlink; when replacing, a plain rename. Failure modes:          the name
 * appears or goes between look and rename: look again, a few times. The sync fails: undone. Another
 * file has the partial name, or none has: refused, and nothing is there to go on with (-ESTALE).
 * The name is taken: that is said when it is there to stay (placing.h).
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

/* What happened to the names. */
enum placed {
	PLACED_MOVED,		/* final: new; temp: none */
	PLACED_LINKED,		/* final and temp: new */
	PLACED_EXCHANGED,	/* final: new; temp: old */
	PLACED_OVER,		/* final: new; old: gone */
};

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
static int install_new(const struct fm_place *place, enum placed *out)
{
	int ret =
		fm_sys_rename(place->from, place->temp, place->dir, place->name, RENAME_NOREPLACE);

	*out = PLACED_MOVED;
	if (!is_unsupported(ret))
		return ret;
	*out = PLACED_LINKED;
	return fm_sys_link(place->from, place->temp, place->dir, place->name);
}

/*
 * Gives the file a name that a regular file has. Where it is synced the two are exchanged, so that
 * this can be undone.
 */
static int install_over(const struct fm_place *place, enum placed *out)
{
	int ret = -EINVAL;

	*out = PLACED_EXCHANGED;
	if (place->sync)
		ret = fm_sys_rename(place->from, place->temp, place->dir, place->name,
				    RENAME_EXCHANGE);
	if (!is_unsupported(ret))
		return ret;
	*out = PLACED_OVER;
	return fm_sys_rename(place->from, place->temp, place->dir, place->name, 0);
}

/* Look, then rename, until both agree on whether the name is taken. */
static int place_install(const struct fm_place *place, enum placed *out, uint64_t *old_bytes,
			 struct fm_err *err)
{
	struct stat st;
	int ret = 0;

	for (int i = 0; i < PLACE_TRIES_MAX; i++) {
		bool is_taken;

		ret = place->may_replace ? fm_sys_fstatat(place->dir, place->name, &st) : -ENOENT;
		is_taken = ret == 0;
		*old_bytes = is_taken ? (uint64_t)st.st_size : 0;
		if (is_taken && !S_ISREG(st.st_mode))
			return fm_place_check(place, old_bytes, err);
		if (ret == 0)
			ret = install_over(place, out);
		else if (ret == -ENOENT)
			ret = install_new(place, out);
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

/* Undoes the rename as well as it can. The error that led here is the one to report. */
static void place_undo(const struct fm_place *place, enum placed placed)
{
	int ret = 0;

	switch (placed) {
	case PLACED_MOVED:
		ret = renameat2(place->dir, place->name, place->from, place->temp,
				RENAME_NOREPLACE);
		break;
	case PLACED_LINKED:
		ret = unlinkat(place->dir, place->name, 0);
		break;
	case PLACED_EXCHANGED:
		ret = renameat2(place->from, place->temp, place->dir, place->name, RENAME_EXCHANGE);
		break;
	case PLACED_OVER:
		break;
	}
	if (ret < 0)
		fm_log_error("%s: cannot undo its publication: %s", place->path,
			     fm_err_name(errno));
}

/*
 * Whether the partial name still leads to the file that was written and checked: who may write to
 * the directory can put another file there.
 */
static int check_named(const struct fm_place *place, struct fm_err *err)
{
	struct fm_path_shown shown;
	struct stat by_fd, by_name;
	int ret = place->fd < 0 ? 0 : fm_sys_fstat(place->fd, &by_fd);

	if (ret == 0 && place->fd >= 0)
		ret = fm_sys_fstatat(place->from, place->temp, &by_name);
	if (ret == -ENOENT)
		return fm_err_set(err, -ESTALE,
				  "\"%s\": somebody removed %s, under which it came; run it again",
				  fm_path_show(place->path, &shown), place->temp);
	if (ret < 0)
		return place_fail(place, ret, err);
	if (place->fd < 0 || (by_fd.st_dev == by_name.st_dev && by_fd.st_ino == by_name.st_ino))
		return 0;
	return fm_err_set(err, -ESTALE,
			  "\"%s\": somebody gave another file the name %s, under which it came; "
			  "run it again",
			  fm_path_show(place->path, &shown), place->temp);
}

int fm_place(const struct fm_place *place, uint64_t *old_bytes, struct fm_err *err)
{
	enum placed placed = PLACED_MOVED;
	int ret = check_named(place, err);

	if (ret == 0)
		ret = place_install(place, &placed, old_bytes, err);
	if (ret < 0)
		return ret;
	ret = place->sync ? fm_sync_dir(place->sync, place->dir) : 0;
	if (ret < 0) {
		place_undo(place, placed);
		return fm_path_fail(err, ret, "sync the directory of", place->path);
	}
	if ((placed == PLACED_LINKED || placed == PLACED_EXCHANGED) &&
	    unlinkat(place->from, place->temp, 0) < 0)
		fm_log_warn("%s: cannot remove the old file, now %s: %s", place->path, place->temp,
			    fm_err_name(errno));
	/*
	 * The journal goes last: a transfer that finds none takes the partial name for free. If it
	 * stays, it does no harm, and is swept.
	 */
	if (place->journal)
		(void)unlinkat(place->from, place->journal, 0);
	return 0;
}
