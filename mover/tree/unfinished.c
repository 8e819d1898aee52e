/* SPDX-License-Identifier: MIT */
/* unfinished - see unfinished.h. */
#include "mover/tree/unfinished.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/journal/journal.h"
#include "mover/tree/descent.h"
#include "mover/tree/remove.h"
#include "mover/tree/stash.h"
#include "mover/tree/tsys.h"

#define HEX_END (sizeof(FM_STAGING_PREFIX) - 1 + 16)

/* The other name of the same transfer. */
static void sibling(const char *found, const char *suffix, char out[FM_PARTIAL_NAME_MAX + 1])
{
	(void)snprintf(out, FM_PARTIAL_NAME_MAX + 1, "%.*s%s", (int)HEX_END, found, suffix);
}

static bool is_there(int parent, const char *found, const char *suffix)
{
	char name[FM_PARTIAL_NAME_MAX + 1];
	struct stat st;

	sibling(found, suffix, name);
	return fm_tsys_fstatat(parent, name, &st) == 0;
}

/* ---- finding them ---- */

/* The bytes of all files in it, as far as they can be read. */
static uint64_t bytes_in(int parent, const char *name)
{
	struct fm_descent_at at;
	struct fm_descent *d;
	uint64_t bytes = 0;
	struct stat st;
	int ret;

	if (fm_descent_begin(parent, name, &d) < 0)
		return 0;
	while ((ret = fm_descent_next(d, &at)) > 0) {
		if (fm_tsys_fstatat(at.dir, at.name, &st) == 0)
			bytes += (uint64_t)st.st_blocks * 512;
		if (at.is_dir && fm_descent_enter(d, &at) < 0)
			break;
	}
	fm_descent_end(d);
	return bytes;
}

static void name_file(int parent, struct fm_unfinished *u)
{
	char journal[FM_PARTIAL_NAME_MAX + 1];
	struct fm_journal_opts head;
	uint64_t bytes;
	int fd;

	sibling(u->found, ".journal", journal);
	fd = fm_tsys_open(parent, journal, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return;
	if (fm_journal_peek(fd, &head, &bytes) == 0)
		(void)snprintf(u->name, sizeof(u->name), "%s", head.name);
	(void)close(fd);	/* only read */
}

static void name_tree(int parent, struct fm_unfinished *u)
{
	char made[FM_PARTIAL_NAME_MAX + 1];
	struct fm_staging_info info;

	if (fm_staging_peek(parent, u->found, &info) == 0 && info.has_journal)
		(void)snprintf(u->name, sizeof(u->name), "%s", info.journal.name);
	sibling(u->found, ".new", made);
	u->bytes += bytes_in(parent, made);
}

int fm_unfinished_look(int parent, const char *name, bool is_dir, struct fm_unfinished *u)
{
	enum fm_staging_kind kind = is_dir ? fm_staging_kind(name) : FM_STAGING_NONE;
	bool is_file = !is_dir && fm_partial_parse(name, NULL) == FM_PARTIAL_FILE;
	struct stat st;
	int ret;

	if (!is_file && kind != FM_STAGING_TREE && kind != FM_STAGING_KEPT &&
	    kind != FM_STAGING_NEW)
		return 0;
	if (kind == FM_STAGING_NEW && is_there(parent, name, ".tree"))
		return 0;
	ret = fm_tsys_fstatat(parent, name, &st);
	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	*u = (struct fm_unfinished){ .bytes = (uint64_t)st.st_blocks * 512 };
	u->changed_ns = fm_time_ns(&st.st_ctim);
	(void)snprintf(u->found, sizeof(u->found), "%s", name);	/* of that kind: it fits */
	if (is_file)
		name_file(parent, u);
	else
		u->bytes += bytes_in(parent, name);
	if (kind == FM_STAGING_TREE)
		name_tree(parent, u);
	if (kind == FM_STAGING_KEPT)
		(void)fm_stash_look(parent, name, u->name);	/* else that is not known */
	return 1;
}

int fm_unfinished_each(int parent,
		       bool (*each)(void *ctx, int parent, const struct fm_unfinished *u),
		       void *ctx, struct fm_err *err)
{
	struct fm_descent_at at;
	struct fm_unfinished u;
	struct fm_descent *d;
	bool goes_on = true;
	int ret = fm_descent_begin(parent, ".", &d);

	if (ret < 0)
		return fm_err_sys(err, ret, "look for what is unfinished");
	while (goes_on && (ret = fm_descent_next(d, &at)) > 0) {
		ret = fm_unfinished_look(at.dir, at.name, at.is_dir, &u);
		if (ret < 0)
			break;
		if (ret > 0)
			goes_on = each(ctx, parent, &u);
	}
	fm_descent_end(d);
	return ret < 0 ? fm_err_sys(err, ret, "look for what is unfinished") : 0;
}

/* ---- removing them ---- */

/* Asked, and not taken, if nothing is to go: a get that begins just now must not find it busy. */
static int lock_journal(int parent, int journal, const char *name, bool is_dry)
{
	struct stat by_fd, by_name;
	int ret = is_dry ? fm_partial_is_busy(parent, name) : fm_partial_lock(journal);

	if (ret != 0)
		return ret == -EAGAIN || ret > 0 ? -EBUSY : ret;
	ret = fm_tsys_fstat(journal, &by_fd);
	if (ret == 0)
		ret = fm_tsys_fstatat(parent, name, &by_name);
	if (ret < 0)
		return ret;
	return by_fd.st_ino == by_name.st_ino ? 0 : -EBUSY;	/* another one began meanwhile */
}

/*
 * Whether a journal of ours is of that file, by its inode. One in which nothing is yet, or zeros
 * after a power cut, names none: then the file has our owner. -EPERM: it is not.
 */
static int check_journal(int journal, const struct stat *file)
{
	struct fm_journal_opts head;
	uint64_t bytes;
	int ret = fm_journal_peek(journal, &head, &bytes);

	if (ret == -EBADMSG)
		return fm_journal_is_blank(journal) && file->st_uid == geteuid() ? 0 : -EPERM;
	if (ret < 0)
		return ret;
	return head.ino == file->st_ino ? 0 : -EPERM;
}

/* The journal's lock guards both. freed NULL: it is only asked. */
static int remove_file(int parent, const struct fm_unfinished *u, int journal,
		       const char *journal_name, const struct fm_tree_freed *freed)
{
	struct stat st, file;
	int ret = lock_journal(parent, journal, journal_name, !freed);

	if (ret == 0)
		ret = fm_tsys_fstat(journal, &st);
	if (ret == 0 && (!S_ISREG(st.st_mode) || st.st_uid != geteuid()))
		ret = -EPERM;
	if (ret == 0)
		ret = fm_tsys_fstatat(parent, u->found, &file);
	if (ret == 0)
		ret = S_ISREG(file.st_mode) ? check_journal(journal, &file) : -EPERM;
	if (ret < 0 || !freed)
		return ret == -ENOENT ? 0 : ret;
	ret = fm_tsys_unlink(parent, u->found, 0);
	if (ret == 0 && freed->used)
		freed->used(freed->ctx, -(int64_t)file.st_size);
	return ret < 0 && ret != -ENOENT ? ret : fm_tsys_unlink(parent, journal_name, 0);
}

static int remove_part(int parent, const struct fm_unfinished *u,
		       const struct fm_tree_freed *freed)
{
	char name[FM_PARTIAL_NAME_MAX + 1];
	int journal, ret = fm_partial_is_busy(parent, u->found);

	if (ret != 0)
		return ret < 0 ? ret : -EBUSY;
	sibling(u->found, ".journal", name);
	journal = fm_tsys_open(parent, name, O_RDWR | O_NONBLOCK | O_NOCTTY, 0);
	if (journal < 0)
		return journal == -ENOENT || journal == -ELOOP || journal == -EACCES ? -EPERM
										     : journal;
	ret = remove_file(parent, u, journal, name, freed);
	(void)close(journal);	/* only read */
	return ret;
}

/* Removes the .new of an unfinished tree, if it is the inode that the lock file names. */
static int remove_made(int parent, const struct fm_unfinished *u, int lock,
		       const struct fm_tree_freed *freed)
{
	char made[FM_PARTIAL_NAME_MAX + 1];
	struct fm_staging_state state;
	struct stat st;
	int ret = fm_staging_read(lock, &state);

	sibling(u->found, ".new", made);
	/* After a power cut it may name none: what is there may be the replaced version. */
	if (ret == -EBADMSG)
		return fm_tsys_fstatat(parent, made, &st) == -ENOENT ? 0 : -ESTALE;
	if (ret < 0)
		return ret;
	return state.data_ino ? fm_tree_remove_known(parent, made, state.data_ino, freed) : 0;
}

static bool is_empty(int parent, const char *name)
{
	struct fm_descent_at at;
	struct fm_descent *d;
	bool is;

	if (fm_descent_begin(parent, name, &d) < 0)
		return false;
	is = fm_descent_next(d, &at) == 0;
	fm_descent_end(d);
	return is;
}

/*
 * The result that remove_tree() would have. It takes no lock, because a get that begins now must
 * not find the name busy.
 */
static int ask_tree(int parent, const struct fm_unfinished *u)
{
	char made[FM_PARTIAL_NAME_MAX + 1];
	struct fm_staging_info info;
	struct stat st;
	int ret = fm_staging_is_busy(parent, u->found);

	if (ret != 0)
		return ret > 0 ? -EBUSY : ret;
	ret = fm_staging_peek(parent, u->found, &info);
	/* without a lock file: a get that died before it made one left it empty */
	if (ret == -ENOENT)
		return is_empty(parent, u->found) ? 0 : -EPERM;
	sibling(u->found, ".new", made);
	if (ret == 0 && (info.data_ino || info.is_lost) &&
	    fm_tsys_fstatat(parent, made, &st) == 0 && st.st_ino != info.data_ino)
		ret = -ESTALE;
	return ret;
}

static int remove_tree(int parent, const struct fm_unfinished *u,
		       const struct fm_tree_freed *freed)
{
	int stage, lock, ret = fm_staging_lock(parent, u->found, &stage, &lock);

	if (ret < 0)
		return ret;
	ret = remove_made(parent, u, lock, freed);
	if (ret == 0)
		ret = fm_staging_remove_opened(parent, u->found, stage, freed, NULL, NULL);
	fm_staging_unlock(lock);
	(void)close(stage);	/* only read */
	return ret;
}

/*
 * The transfer was cut off just after it had replaced a version. That version still has the .new
 * name, so it stays.
 */
static int say_replaced(const struct fm_unfinished *u, struct fm_err *err)
{
	char made[FM_PARTIAL_NAME_MAX + 1];

	sibling(u->found, ".new", made);
	return fm_err_set(err, -ESTALE,
			  "\"%s\" stays: \"%s\" may be the version that this transfer replaced "
			  "before it was cut off; the next one of the same puts that aside",
			  u->found, made);
}

int fm_unfinished_remove(int parent, const struct fm_unfinished *u, bool is_dry,
			 const struct fm_tree_freed *freed, struct fm_err *err)
{
	static const struct fm_tree_freed untold = { .used = NULL };
	enum fm_staging_kind kind = fm_staging_kind(u->found);
	int ret = -EPERM;

	if (kind == FM_STAGING_NONE)
		ret = remove_part(parent, u, is_dry ? NULL : freed ? freed : &untold);
	else if (kind == FM_STAGING_TREE)
		ret = is_dry ? ask_tree(parent, u) : remove_tree(parent, u, freed);
	if (ret == -EBUSY)
		return fm_err_set(err, ret, "\"%s\" stays: a transfer works on it", u->found);
	if (ret == -ESTALE)
		return say_replaced(u, err);
	if (kind == FM_STAGING_KEPT)
		return fm_err_set(err, ret, "\"%s%s%s\" stays: something lies in it that is "
				  "nowhere else; look, and remove it with rm", u->found,
				  u->name[0] ? "/" : "", u->name);
	if (ret == -EPERM)
		return fm_err_set(err, ret,
				  "\"%s\" stays: nothing says that it is of an unfinished "
				  "transfer of yours; look, and remove it with rm",
				  u->found);
	return ret < 0 ? fm_err_sys(err, ret, "remove \"%s\", which is unfinished", u->found) : 0;
}
