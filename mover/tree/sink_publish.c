/* SPDX-License-Identifier: MIT */
/*
 * sink_publish - the finished tree gets its final name; or what there is stays for the next try, or
 * goes.
 *
 * Happy path, name free:  renameat2(NOREPLACE), fsync of the directory.
 * Happy path, replacing:  renameat2(EXCHANGE), fsync of the directory; the replaced version has the
 * .new name then, goes into a stash, and is removed now or after its grace time. The directory
 * around it was replaced by a new version of that meanwhile: the tree gets its name where its path
 * leads now. No EXCHANGE there:      the old version is renamed away, then the new one in. Between
 * the two nobody finds anything under the name: a note says so. The fsync fails:        undone, and
 * nothing is kept. Nothing differs:        an update publishes nothing; what is there stays,
 * and its name is synced.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/log.h"
#include "mover/base/show.h"
#include "mover/tree/stash.h"
#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"
#include "mover/tree/wanted.h"

#define TRIES_MAX 16
#define FOLLOWED_MAX 4		/* directories, one in the place of the other */

enum placed {
	PLACED_FREE,		/* final: new */
	PLACED_EXCHANGED,	/* final: new; .new: old */
	PLACED_TWICE,		/* final: new; .kept: old */
};

struct place {
	struct fm_sink *s;
	int dir;		/* of the final name; mostly the one that the tree was made in */
	bool is_durable;
	enum placed placed;
	uint64_t old_ino;	/* of the version that is replaced */
	char old_name[FM_STAGING_NAME_LEN + 1];	/* of the replaced version, in replaced_dir() */
	bool is_kept;		/* something of the replaced version is nowhere else: */
	struct fm_err late;	/* why */
};

/* ---------------------------------------------------------------------------------------- names */

/* The old version gets a new name of that kind beside the new one. */
static int move_away(struct place *p, enum fm_staging_kind kind, int dir, const char *from)
{
	char name[FM_STAGING_NAME_LEN + 1];
	int ret;

	fm_staging_name(kind, "", name);
	ret = fm_tsys_rename(dir, from, p->dir, name, 0);
	if (ret == 0)
		memcpy(p->old_name, name, sizeof(p->old_name));
	return ret;
}

/* The directory that the replaced version is in until it is put away. */
static int replaced_dir(const struct place *p)
{
	return p->placed == PLACED_EXCHANGED ? p->s->opts.parent : p->dir;
}

/*
 * Two renames, for file systems that cannot exchange. If the second fails, the first is undone. A
 * crash between the two leaves nothing under the name. The old version then has a .kept name and is
 * no stash, so no sweep removes it.
 */
static int place_twice(struct place *p)
{
	const struct fm_sink *s = p->s;
	int ret = move_away(p, FM_STAGING_KEPT, p->dir, s->opts.name);

	if (ret < 0)
		return ret;
	p->placed = PLACED_TWICE;
	ret = fm_tsys_rename_free(s->opts.parent, s->new_name, p->dir, s->opts.name);
	if (ret < 0 && renameat2(p->dir, p->old_name, p->dir, s->opts.name, 0) < 0)
		fm_log_error(
			"%s: the version that was there is %s now, and cannot be moved back: %s",
			s->opts.path, p->old_name, fm_err_name(errno));
	return ret;
}

/*
 * Writes the inode of the old version into the lock file. If this process dies before that version
 * is put away, the next try does it. If the note fails, the version stays. A power cut must not
 * find the exchange on the disk and the note not, so that is synced first.
 */
static void note_old(const struct place *p)
{
	struct fm_staging_state state;

	if (fm_staging_read(p->s->lock, &state) < 0)
		return;
	state.old_ino = p->old_ino;
	if (fm_staging_write(p->s->lock, &state) == 0 && p->is_durable)
		(void)fm_tsys_fsync(p->s->lock);
}

static int place_over(struct place *p)
{
	const struct fm_sink *s = p->s;
	int ret;

	note_old(p);
	ret = fm_tsys_rename(s->opts.parent, s->new_name, p->dir, s->opts.name, RENAME_EXCHANGE);
	p->placed = PLACED_EXCHANGED;
	return fm_tsys_is_unsupported(ret) ? place_twice(p) : ret;
}

static int place_free(struct place *p)
{
	const struct fm_sink *s = p->s;

	p->placed = PLACED_FREE;
	return fm_tsys_rename_free(s->opts.parent, s->new_name, p->dir, s->opts.name);
}

/* Look, then rename, until both agree on whether the name is taken. */
static int place_tree(struct place *p, struct fm_err *err)
{
	const struct fm_sink *s = p->s;
	struct fm_path_shown shown;
	struct stat st;
	int ret = 0;

	fm_path_show(s->opts.path, &shown);
	for (int i = 0; i < TRIES_MAX; i++) {
		bool is_taken;

		ret = fm_tsys_fstatat(p->dir, s->opts.name, &st);
		if (ret < 0 && ret != -ENOENT)
			break;
		is_taken = ret == 0;
		if (is_taken && !S_ISDIR(st.st_mode))
			return fm_err_set(err, -ENOTDIR,
					  "\"%s\": is no directory now; a tree does not replace it",
					  shown.text);
		if (is_taken && !s->opts.may_replace && !s->opts.is_update)
			return fm_err_set(err, -EEXIST,
					  "directory \"%s\" exists: somebody else made it "
					  "meanwhile; --update merges into it, "
					  "--replace puts this one in its place",
					  shown.text);
		p->old_ino = is_taken ? st.st_ino : 0;
		ret = is_taken ? place_over(p) : place_free(p);
		if (ret != (is_taken ? -ENOENT : -EEXIST))
			break;
	}
	return ret < 0 ? fm_sink_fail(s, ret, "publish", NULL, 0, err) : 0;
}

/* Moves the manifest along with its tree. It always lies beside the tree, and keeps its name. */
static int move_manifest(const struct place *p, int from, int to)
{
	const struct fm_sink *s = p->s;

	return from != to && s->is_manifest_placed
		       ? fm_tsys_rename(from, s->manifest_name, to, s->manifest_name, 0)
		       : 0;
}

/* Best effort: the error that led here is the one to report. */
static void undo(const struct place *p)
{
	const struct fm_sink *s = p->s;
	int from = s->opts.parent, ret;

	if (p->placed == PLACED_EXCHANGED)
		ret = renameat2(from, s->new_name, p->dir, s->opts.name, RENAME_EXCHANGE);
	else
		ret = renameat2(p->dir, s->opts.name, from, s->new_name, 0);
	if (ret == 0 && p->placed == PLACED_TWICE)
		ret = renameat2(p->dir, p->old_name, p->dir, s->opts.name, 0);
	if (ret == 0)
		ret = move_manifest(p, p->dir, from);
	if (ret < 0)
		fm_log_error("%s: cannot undo its publication: %s", s->opts.path,
			     fm_err_name(errno));
}

/* Gives the tree its final name in p->dir, and syncs. After an error nothing has changed. */
static int place_synced(struct place *p, struct fm_err *err)
{
	struct fm_sink *s = p->s;
	int ret = move_manifest(p, s->opts.parent, p->dir);

	if (ret < 0)
		return fm_sink_fail(s, ret, "publish the manifest of", NULL, 0, err);
	ret = place_tree(p, err);
	if (ret < 0) {
		(void)move_manifest(p, p->dir, s->opts.parent);
		return ret;
	}
	ret = p->is_durable ? fm_tsys_fsync(p->dir) : 0;
	if (ret == 0)
		return 0;
	undo(p);
	return fm_sink_note_sync(s, ret, "sync the directory of", err);
}

/* ------------------------------------------------------------------------- where the path leads */

static int find_other(const struct place *p, int *fd, struct fm_err *err)
{
	const struct fm_tree_sink_opts *o = &p->s->opts;

	return o->find_other ? o->find_other(o->ctx, o->path, p->dir, fd, err) : 0;
}

static void go_to(struct place *p, int dir)
{
	if (p->dir != p->s->opts.parent)
		close(p->dir);
	p->dir = dir;
}

/*
 * The directory around the tree can be replaced by a new version while the tree comes. It would
 * have its name in the old version then, which nobody finds and which goes. Looked at before, and
 * again when it has its name: a version that comes later finds it there.
 */
static int place_where_it_leads(struct place *p, struct fm_err *err)
{
	struct fm_path_shown shown;
	int dir = -1, ret = find_other(p, &dir, err);

	for (int i = 0; ret >= 0 && i < FOLLOWED_MAX; i++) {
		if (ret > 0)
			go_to(p, dir);
		ret = place_synced(p, err);
		if (ret < 0)
			return ret;
		ret = find_other(p, &dir, err);
		if (ret == 0)
			return 0;
		undo(p);
	}
	if (ret < 0)
		return ret;
	close(dir);
	return fm_err_set(err, -ESTALE,
			  "\"%s\": its directory is replaced again and again; run it again",
			  fm_path_show(p->s->opts.path, &shown));
}

/* --------------------------------------------------------------------------------- what is left */

static void warn_left(const struct fm_sink *s, const char *name, int ret)
{
	if (ret < 0)
		fm_log_warn("%s: cannot remove %s beside it, it is tried again later: %s",
			    s->opts.path, name, fm_err_name(ret));
}

/* Tells the user that the replaced version has files which are nowhere else, and where it is. */
static void say_kept(const struct place *p)
{
	struct fm_sink *s = p->s;
	char text[128];

	fm_log_warn("%s: what appeared in the version that was replaced is not in the new one; it "
		    "stays in %s: %s",
		    s->opts.path, p->old_name, p->late.text);
	snprintf(text, sizeof(text),
		 "what appeared in it meanwhile could not be taken over: it is in %s beside it",
		 p->old_name);
	fm_sink_warn(s, text);
}

/*
 * The replaced version cannot move into a stash. It stays under an .old or .kept name, which no
 * sweep removes.
 */
static void leave_old(struct place *p, int why)
{
	char text[192];

	/* else it stays under the name it has */
	(void)move_away(p, p->is_kept ? FM_STAGING_KEPT : FM_STAGING_OLD, replaced_dir(p),
			p->old_name);
	if (p->is_kept)
		return;
	snprintf(text, sizeof(text),
		 "the version that was replaced stays in %s beside it: %s; its owner or root "
		 "removes it (rm -r)",
		 p->old_name, fm_err_name(why));
	fm_sink_warn(p->s, text);
}

/*
 * Gives the replaced version to take_old(), which keeps it for a time, or moves it into a stash. In
 * a stash, old_name becomes the name of the stash.
 */
static int hand_over(struct place *p)
{
	const struct fm_sink *s = p->s;
	const struct fm_stash_what what = {.dir = replaced_dir(p),
					   .from = p->old_name,
					   .ino = p->old_ino,
					   .name = s->opts.name};
	char stash[FM_STAGING_NAME_LEN + 1];
	int ret;

	if (!p->is_kept && s->opts.take_old)
		return s->opts.take_old(s->opts.ctx, what.dir, what.from, what.ino);
	ret = fm_stash_keep(&what, p->dir, p->is_kept ? FM_STAGING_KEPT : FM_STAGING_OLD, stash);
	if (ret == 0)
		memcpy(p->old_name, stash, sizeof(p->old_name));
	return ret;
}

/* The version that was replaced is in a stash. What others need something in stays for its time,
 * whatever grace_ns says. */
static void end_old(struct place *p)
{
	struct fm_sink *s = p->s;
	struct fm_tree_freed freed = fm_sink_freed(s);
	int ret = -EBUSY;

	if (s->opts.grace_ns == 0)
		ret = fm_stash_remove_unwanted(p->dir, p->old_name, &freed);
	if (ret < 0 && s->opts.put_aside)
		s->opts.put_aside(s->opts.ctx, s->opts.path, p->old_name);
	if (ret != -EBUSY)
		warn_left(s, p->old_name, ret);
}

/* Whether something in it is wanted, in the directory itself: others may give its name to another
 * one and back. */
static int wanted_in_old(const struct place *p)
{
	int fd = fm_tsys_open_unmounted(replaced_dir(p), p->old_name, O_RDONLY | O_DIRECTORY), ret;
	struct stat st;

	if (fd < 0)
		return fd;
	ret = fm_tsys_fstat(fd, &st);
	if (ret == 0)
		ret = st.st_ino == p->old_ino ? fm_wanted_in(fd, ".") : -ESTALE;
	(void)close(fd);	/* only read */
	return ret;
}

/*
 * Removes the replaced version now, because the disk has no room for a stash. -EBUSY: somebody
 * still needs something in it.
 */
static int remove_at_once(const struct place *p)
{
	const struct fm_sink *s = p->s;
	struct fm_tree_freed freed = fm_sink_freed(s);
	int wanted = wanted_in_old(p);

	if (wanted != FM_WANTED_NOTHING)
		return wanted < 0 ? wanted : -EBUSY;
	return fm_tree_remove_known(replaced_dir(p), p->old_name, p->old_ino, &freed);
}

/* The version that was replaced. */
static void put_old_away(struct place *p)
{
	bool is_others = !p->is_kept && p->s->opts.take_old;
	int ret = hand_over(p);
	bool is_full = ret == -ENOSPC || ret == -EDQUOT;

	if (ret == -ENOENT)
		return;		/* a sweep was faster */
	if (is_full && !is_others && !p->is_kept) {
		ret = remove_at_once(p);
		if (ret == 0 && p->s->opts.grace_ns > 0)
			fm_sink_note(
				p->s,
				"the disk is full: the version that was replaced went at once");
	}
	if (ret < 0)
		leave_old(p, ret);
	if (p->is_kept)
		say_kept(p);
	else if (ret == 0 && !is_others && !is_full)
		end_old(p);
}

/* What others are told of. */
static void remove_data(void *ctx)
{
	fm_sink_remove_data(ctx);
}

/*
 * The staging directory and all that is in it. Its lock file says first that it is over: what is
 * half removed must not be gone on with, nor what somebody moved away before, and moves back later.
 */
static void remove_staging(struct fm_sink *s)
{
	const struct fm_staging_state over = { .data_ino = 0 };

	if (s->stage < 0)
		return;
	(void)fm_staging_write(s->lock, &over);
	warn_left(s, s->tree_name,
		  fm_staging_remove_opened(s->opts.parent, s->tree_name, s->stage, NULL,
					   remove_data, s));
}

/*
 * Copies into the new version what was written to the old one while the new one was made. The old
 * version still has the .new name, which no sweep removes.
 */
static void merge_late(struct place *p)
{
	struct fm_sink *s = p->s;
	bool has_changed;
	int ret = fm_sink_merge_late(s, replaced_dir(p), p->old_name, &has_changed, &p->late);

	p->is_kept = ret < 0;
	if (has_changed && p->is_durable && fm_sink_sync(s, &p->late) < 0)
		p->is_kept = true;
}

/*
 * The new version is the same as the old one, so nothing is published. -ESTALE: the name now leads
 * to another directory than the one that was compared. Whoever gave it that name may not have
 * synced it.
 */
static int leave_same(struct place *p, struct fm_err *err)
{
	struct fm_sink *s = p->s;
	struct fm_path_shown shown;
	struct stat st, old;
	int dir = -1, ret = find_other(p, &dir, err);

	if (ret < 0)
		return ret;
	if (ret > 0)
		go_to(p, dir);
	ret = fm_tsys_fstatat(p->dir, s->opts.name, &st);
	if (ret == 0)
		ret = fm_tsys_fstat(s->old, &old);
	if (ret == 0 && (st.st_ino != old.st_ino || st.st_dev != old.st_dev))
		ret = -ENOENT;
	if (ret == -ENOENT)
		return fm_err_set(err, -ESTALE,
				  "\"%s\": was replaced meanwhile by somebody else; run it again",
				  fm_path_show(s->opts.path, &shown));
	if (ret < 0)
		return fm_sink_fail(s, ret, "look at", NULL, 0, err);
	ret = p->is_durable ? fm_tsys_fsync(p->dir) : 0;
	return fm_sink_note_sync(s, ret, "sync the directory of", err);
}

/* The tree has its final name: takes over late changes, and puts the old version away. */
static void clear_up(struct place *p)
{
	struct fm_sink *s = p->s;

	s->is_moved = s->is_manifest_placed = false;
	s->has_final_name = true;
	if (p->placed == PLACED_EXCHANGED)
		memcpy(p->old_name, s->new_name, sizeof(p->old_name));
	if (p->placed == PLACED_TWICE)
		fm_sink_note(s, "replaced by two renames, since the file system cannot exchange: "
				"for a moment nothing was there");
	if (p->placed != PLACED_FREE && fm_sink_keeps_old(s))
		merge_late(p);
	if (s->has_unasked)
		fm_sink_note(s, "files that may not be linked were copied: who has one open writes "
				"on into the version that was replaced");
	if (p->placed != PLACED_FREE)
		put_old_away(p);
}

/*
 * The lock says of the replaced version where it is, until that has its other name on the disk: a
 * power cut may bring back the one it had. If that sync fails, a copy too many may stay then.
 */
static void settle_old(const struct place *p)
{
	if (p->is_durable && p->placed != PLACED_FREE)
		(void)fm_tsys_fsync(replaced_dir(p));
}

/* ------------------------------------------------------------------------------------ the table */

int fm_sink_publish(struct fm_tree *t, bool is_durable, struct fm_err *err)
{
	struct fm_sink *s = fm_sink_of(t);
	struct place p = { .s = s, .dir = s->opts.parent, .is_durable = is_durable };
	int ret = fm_sink_may_go_on(s, err);

	assert(s->state == FM_SINK_OPEN && (s->is_moved || s->is_same));
	if (ret == 0)
		ret = s->is_same ? leave_same(&p, err) : place_where_it_leads(&p, err);
	if (ret == 0 && !s->is_same)
		clear_up(&p);
	if (ret == 0) {
		s->state = FM_SINK_PUBLISHED;
		settle_old(&p);
		remove_staging(s);
	}
	go_to(&p, s->opts.parent);
	return ret;
}

void fm_sink_keep(struct fm_tree *t)
{
	struct fm_sink *s = fm_sink_of(t);

	if (s->state != FM_SINK_OPEN)
		return;
	fm_sink_drop_manifest(s);
	if (s->stage >= 0)
		(void)fm_sink_log(s, NULL);
	/* What left the staging directory was its owners': nobody goes on with that. */
	if (atomic_load(&t->sync_error) < 0 || s->stage < 0 || fm_journal_is_empty(s->journal) ||
	    (s->is_moved && s->opts.has_owners))
		fm_sink_discard(t);
	else
		s->state = FM_SINK_KEPT;
}

void fm_sink_discard(struct fm_tree *t)
{
	struct fm_sink *s = fm_sink_of(t);
	struct fm_tree_freed freed = fm_sink_freed(s);

	if (s->state != FM_SINK_OPEN)
		return;
	s->state = FM_SINK_DISCARDED;
	fm_sink_drop_manifest(s);
	if (s->is_moved)
		warn_left(s, s->new_name,
			  fm_staging_remove_opened(s->opts.parent, s->new_name, s->data, &freed,
						   NULL, NULL));
	remove_staging(s);
}
