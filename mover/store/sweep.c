/* SPDX-License-Identifier: MIT */
/*
 * sweep - what interrupted transfers left in a store goes, once nobody has gone on with it for as
 * long as the store keeps such things, or at once if nobody could; and so do directories that were
 * replaced.
 *
 * A walk over the store, for a minute at most. One that did not come to the end makes the next one
 * take twice as long, since that meets the same entries first: so whatever the store's size, an
 * hourly sweep gets to its end within hours. A directory that cannot be read is passed over, and no
 * group is taken for gone then, which may lie in it. Links are not followed, nothing that a
 * transfer works on is touched.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/journal/partial.h"
#include "mover/store/group.h"
#include "mover/store/group_dir.h"
#include "mover/store/made_dir.h"
#include "mover/store/path.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"
#include "mover/store/walk.h"
#include "mover/tree/manifest.h"
#include "mover/tree/staging.h"
#include "mover/tree/wanted.h"

#define FIRST_NS (60 * FM_NS_PER_S)
#define YOUNG_NS (60 * FM_NS_PER_S)

struct sweep {
	struct fm_store_dir *sd;
	const atomic_bool *is_over;
	int64_t now_ns;			/* since 1970 */
	int64_t boot_ns;		/* when this machine was started */
	unsigned removed;
	bool has_missed;		/* where a group may lie, or what one is */
	unsigned failed;		/* directories could not be read; of the first: */
	int failed_why;
	char first_failed[FM_PATH_LEN_MAX + 1];
	unsigned foreign;		/* have a name of ours, and are none */
	char first_foreign[FM_STAGING_NAME_LEN + 1];
};

/* When the file was changed. The ctime counts: we set the mtime, and nobody can set the ctime. */
static int64_t changed_at(const struct stat *st)
{
	return fm_time_ns(&st->st_ctim);
}

static bool is_older(const struct sweep *sw, const struct stat *st, uint64_t keep_ns)
{
	int64_t changed_ns = changed_at(st);

	return sw->now_ns > changed_ns && (uint64_t)(sw->now_ns - changed_ns) > keep_ns;
}

static bool look(int dir, const char *name, struct stat *st)
{
	return fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_stale(const struct sweep *sw, const struct stat *st)
{
	return S_ISREG(st->st_mode) && is_older(sw, st, sw->sd->partial_keep_ns);
}

/* Whether the name is still that of the open file. */
static bool is_named(int dir, const char *name, int fd)
{
	struct stat by_fd, by_name;

	return fstat(fd, &by_fd) == 0 && look(dir, name, &by_name) &&
	       by_fd.st_ino == by_name.st_ino;
}

/*
 * Whether a partial file without a journal may go: for its age, or because it was left by a power
 * cut and nobody can go on with it, as with streams and small files. may_go() says how it is known
 * that nobody works on it.
 */
static bool may_go_alone(const struct sweep *sw, const struct stat *st, bool is_locked)
{
	return is_stale(sw, st) ||
	       (is_locked && S_ISREG(st->st_mode) && changed_at(st) < sw->boot_ns);
}

/*
 * Opens and locks a partial file that may go; -1: it may not. Where there are no locks, its age
 * decides. It is checked again under the lock: another file may have the name by now, or somebody
 * may have gone on with it.
 */
static int claim(const struct sweep *sw, int dir, const char *name)
{
	int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	int ret;

	if (fd < 0)
		return -1;
	ret = fm_partial_lock(fd);
	if (ret != -EAGAIN && is_named(dir, name, fd) && fstat(fd, &st) == 0 &&
	    may_go_alone(sw, &st, ret == 0))
		return fd;
	close(fd);
	return -1;
}

static void remove_partial(struct sweep *sw, int dir, const char *name)
{
	struct stat st;

	if (!look(dir, name, &st) || !S_ISREG(st.st_mode) || unlinkat(dir, name, 0) < 0)
		return;
	fm_usage_sub(&sw->sd->usage, (uint64_t)st.st_size);
	sw->removed++;
}

/*
 * Whether a journal and its file may go: for the age of the younger one, or because they hold
 * nothing to go on with. A power cut leaves such pairs: a version that was replaced may be large,
 * and nobody waits for its removal. The lock tells that nobody works on it. Where locks do not
 * reach other machines, its age, from before the boot, tells at least that nobody on this one does.
 */
static bool may_go(const struct sweep *sw, int journal, const struct stat *file, bool is_locked)
{
	struct stat st;

	if (fstat(journal, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	if (is_stale(sw, &st) && (!file || is_stale(sw, file)))
		return true;
	if (!is_locked || changed_at(&st) >= sw->boot_ns)
		return false;
	return !file || (S_ISREG(file->st_mode) && changed_at(file) < sw->boot_ns &&
			 !fm_partial_has_something(journal, file));
}

/*
 * Removes a journal and its file if they may go. It looks before it takes the lock, because a
 * transfer that begins would find it taken; and again under the lock.
 */
static void sweep_journal(struct sweep *sw, int dir, const char *name, uint64_t hash)
{
	int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), ret;
	char partial[FM_PARTIAL_NAME_MAX + 1];
	struct stat st;

	if (fd < 0)
		return;
	fm_partial_name(hash, FM_PARTIAL_FILE, partial);
	if (!may_go(sw, fd, look(dir, partial, &st) ? &st : NULL, true))
		goto close;
	ret = fm_partial_lock(fd);
	if (ret == -EAGAIN || !is_named(dir, name, fd) ||
	    !may_go(sw, fd, look(dir, partial, &st) ? &st : NULL, ret == 0))
		goto close;
	remove_partial(sw, dir, partial);
	if (unlinkat(dir, name, 0) == 0)	/* last: its lock guards both */
		sw->removed++;
close:
	close(fd);
}

/*
 * Removes a partial file that has no journal. A journal is made for the lock: a transfer that comes
 * to that name now would lock it.
 */
static void sweep_file(struct sweep *sw, int dir, const char *name, uint64_t hash)
{
	char journal[FM_PARTIAL_NAME_MAX + 1];
	struct stat st;
	int lock, fd;

	fm_partial_name(hash, FM_PARTIAL_JOURNAL, journal);
	if (!look(dir, name, &st) || !may_go_alone(sw, &st, true))
		return;
	lock = openat(dir, journal, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (lock < 0)
		return;		/* there is one: swept with it */
	if (fm_partial_lock(lock) != -EAGAIN) {
		fd = claim(sw, dir, name);
		if (fd >= 0) {
			remove_partial(sw, dir, name);
			close(fd);
		}
		(void)unlinkat(dir, journal, 0);	/* alone it does no harm */
	}
	close(lock);
}

static void freed(void *ctx, int64_t bytes)
{
	fm_usage_sub(&((struct sweep *)ctx)->sd->usage, bytes < 0 ? (uint64_t)-bytes : 0);
}

/* Rule of fm_stash_rule: what exists nowhere else is kept as long as unfinished transfers are. */
static int may_be_wanted(const void *ctx, enum fm_staging_kind kind, const struct stat *st)
{
	const struct sweep *sw = ctx;
	bool is_kept_over = is_older(sw, st, sw->sd->partial_keep_ns);

	if (kind == FM_STAGING_KEPT)
		return is_kept_over ? FM_WANTED_KEPT : -EAGAIN;
	if (!is_older(sw, st, sw->sd->old_keep_ns))
		return -EAGAIN;
	return is_kept_over ? FM_WANTED_KEPT : FM_WANTED_NOTHING;
}

/*
 * Rule of fm_staging_age: whether both are old. The journal is written every second of a transfer,
 * so it is the younger one.
 */
static bool is_old_tree(const void *ctx, const struct stat *made, const struct stat *journal)
{
	const struct sweep *sw = ctx;

	return is_older(sw, made, sw->sd->partial_keep_ns) &&
	       (!journal || is_older(sw, journal, sw->sd->partial_keep_ns));
}

/* Whether it may be old, as far as names tell, without the lock. */
static bool may_be_old(const struct sweep *sw, int dir, const char *name)
{
	enum fm_staging_kind kind = fm_staging_kind_at(dir, name);
	char journal[FM_STAGING_NAME_LEN + sizeof("/journal")];
	struct stat st, of_journal;

	if (!look(dir, name, &st))
		return false;
	if (kind != FM_STAGING_NEW && fm_staging_kind(name) == FM_STAGING_NEW)
		return true;	/* it is put aside, and its time begins */
	(void)snprintf(journal, sizeof(journal), "%s/journal", name);
	return is_old_tree(sw, &st,
			   kind == FM_STAGING_TREE && look(dir, journal, &of_journal)
				   ? &of_journal
				   : NULL);
}

/*
 * Notes a replaced directory that stays for now. One of the last minute, put there since the store
 * was opened, is left out: where the file system cannot exchange names, its transfer may still read
 * in it, and notes it at its end.
 */
static void note_aside(const struct sweep *sw, int dir, const char *name, const char *path)
{
	struct stat st;

	if (look(dir, name, &st) &&
	    (changed_at(&st) < sw->sd->aside.opened_ns || is_older(sw, &st, YOUNG_NS)))
		fm_aside_add(sw->sd, path);
}

/*
 * Counts a directory that is not ours: anybody may give it such a name. It stays, and one line
 * tells of all of them.
 */
static void note_foreign(struct sweep *sw, const char *name)
{
	if (sw->foreign++ == 0)
		(void)snprintf(sw->first_foreign, sizeof(sw->first_foreign), "%s", name);
}

/*
 * Removes a stash or an unfinished tree that may go. It looks before it takes the lock, because a
 * transfer that begins would find it taken; and again under the lock.
 */
static void sweep_tree(struct sweep *sw, int dir, const char *name, const char *path)
{
	const struct fm_tree_freed told = { .used = freed, .ctx = sw };
	const struct fm_staging_age age = {
		.is_old = is_old_tree, .at_most = may_be_wanted, .ctx = sw};
	enum fm_staging_kind kind = fm_staging_kind(name);
	bool is_aside = kind == FM_STAGING_OLD || kind == FM_STAGING_KEPT;
	int ret = -EAGAIN;

	if (is_aside || may_be_old(sw, dir, name))
		ret = fm_staging_sweep(dir, name, &age, &told);
	if (ret == -EPERM && kind == FM_STAGING_TREE)
		ret = fm_made_sweep(dir, name);
	if (ret == 0)
		sw->removed++;
	else if (ret == -EPERM)
		note_foreign(sw, name);
	else if (ret != -EBUSY && ret != -EAGAIN && ret != -ENOTEMPTY)
		fm_log_warn("store %s: cannot remove %s, left by an earlier transfer: %s",
			    sw->sd->store.name, name, fm_err_name(ret));
	if (ret < 0)
		note_aside(sw, dir, name, path);
}

/* Removes a manifest whose tree was removed or moved by somebody else. */
static void sweep_manifest(struct sweep *sw, int dir, const char *name)
{
	if (fm_manifest_is_orphan(dir, name) && unlinkat(dir, name, 0) == 0)
		sw->removed++;
}

/* Ends a group whose time is over. What unfinished members left in another one is swept, too. */
static void sweep_group(struct sweep *sw, struct fm_walk *walk, const struct fm_walk_at *at)
{
	char path[FM_PATH_LEN_MAX + 1];
	int ret;

	/* That is for texts, and finds what is put aside. */
	if (fm_walk_path(walk, at, path, sizeof(path)) < 0)
		(void)snprintf(path, sizeof(path), "%s", at->name);
	ret = fm_group_sweep(sw->sd, at->dir, at->name, path);
	sw->has_missed = sw->has_missed || ret < 0;
	if (ret <= 0)
		return;
	fm_walk_skip(walk);
	sw->removed++;
}

static void sweep_entry(struct sweep *sw, struct fm_walk *walk, const struct fm_walk_at *at)
{
	char path[FM_PATH_LEN_MAX + 1] = "";
	uint64_t hash;

	if (at->is_dir && fm_staging_kind(at->name) != FM_STAGING_NONE) {
		if (fm_walk_path(walk, at, path, sizeof(path)) < 0)
			path[0] = '\0';
		fm_walk_skip(walk);	/* what is in there is that transfer's */
		sweep_tree(sw, at->dir, at->name, path);
	} else if (at->is_dir && fm_group_is_name(at->name)) {
		sweep_group(sw, walk, at);
	} else if (!at->is_dir && fm_manifest_is_name(at->name)) {
		sweep_manifest(sw, at->dir, at->name);
	} else if (!at->is_dir) {
		switch (fm_partial_parse(at->name, &hash)) {
		case FM_PARTIAL_JOURNAL:
			sweep_journal(sw, at->dir, at->name, hash);
			break;
		case FM_PARTIAL_FILE:
			sweep_file(sw, at->dir, at->name, hash);
			break;
		case FM_PARTIAL_NONE:
			break;
		}
	}
}

/* Whether a directory is passed over for what it is, as users make them, and not for a failure. */
static bool is_closed(int ret)
{
	return ret == -EACCES || ret == -EPERM || ret == -EOVERFLOW;
}

static void pass_over(struct sweep *sw, const struct fm_walk *walk, const struct fm_walk_at *at,
		      int ret)
{
	if (fm_walk_is_lost_found(walk, at))
		return;
	sw->has_missed = true;
	if (is_closed(ret) || sw->failed++ > 0)
		return;
	sw->failed_why = ret;
	if (fm_walk_path(walk, at, sw->first_failed, sizeof(sw->first_failed)) < 0)
		(void)snprintf(sw->first_failed, sizeof(sw->first_failed), "%s", at->name);
}

/* The walk's next step. 1: there are more. 0: it is at its end. An error: it cannot go on. */
static int sweep_next(struct sweep *sw, struct fm_walk *walk)
{
	struct fm_walk_at at;
	int ret = fm_walk_next(walk, &at);

	if (fm_walk_goes_on(walk, ret)) {
		pass_over(sw, walk, &at, ret);
		return 1;
	}
	if (ret > 0 && !at.is_leaving && fm_path_is_reserved(at.name))
		sweep_entry(sw, walk, &at);
	return ret;
}

/* true: the walk came to its end, and met each group that there is. */
static bool sweep_walk(struct sweep *sw, struct fm_walk *walk)
{
	uint64_t *max_ns = &sw->sd->sweep_ns;
	uint64_t begun_ns = fm_clock_real.now_ns(fm_clock_real.ctx);
	int ret = 1;

	if (*max_ns == 0)
		*max_ns = FIRST_NS;
	while (ret > 0 && !atomic_load(sw->is_over)) {
		ret = sweep_next(sw, walk);
		if (ret > 0 &&
		    (FM_FAULT("sweep.time") ||
		     fm_clock_real.now_ns(fm_clock_real.ctx) - begun_ns > *max_ns)) {
			*max_ns *= 2;
			break;
		}
	}
	if (ret == 0)
		fm_aside_looked(sw->sd, sw->failed == 0);
	return ret == 0 && !sw->has_missed;
}

static void read_clocks(struct sweep *sw)
{
	struct timespec now, up;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)clock_gettime(CLOCK_BOOTTIME, &up);
	sw->now_ns = fm_time_ns(&now);
	sw->boot_ns = sw->now_ns - fm_time_ns(&up);
	if (FM_FAULT("sweep.boot"))	/* started just now */
		sw->boot_ns = sw->now_ns;
}

static void tell(const struct sweep *sw)
{
	const char *store = sw->sd->store.name;
	struct fm_path_shown shown;

	if (sw->removed > 0)
		fm_log_info("store %s: removed %u file%s and directories that interrupted "
			    "transfers had left",
			    store, sw->removed, sw->removed == 1 ? "" : "s");
	if (sw->foreign > 0)
		fm_log_warn(
			"store %s: %u director%s named as fmove names what it keeps aside or "
			"makes, but of an earlier version "
			"or of somebody else, %s first: nothing removes such, look through them",
			store, sw->foreign, sw->foreign == 1 ? "y is" : "ies are",
			sw->first_foreign);
	if (sw->failed > 0)
		fm_log_warn("store %s: %u director%s cannot be read, \"%s\" first (%s): what "
			    "interrupted transfers left there stays, and what is kept aside there "
			    "is not known",
			    store, sw->failed, sw->failed == 1 ? "y" : "ies",
			    fm_path_show(sw->first_failed, &shown), fm_err_name(sw->failed_why));
}

void fm_sweep(struct fm_store_dir *dir, const atomic_bool *is_over)
{
	struct sweep sw = { .sd = dir, .is_over = is_over };
	struct fm_walk *walk = fm_sys_alloc(sizeof(*walk));
	bool is_whole = false;
	int fd;

	if (!walk)
		return;		/* the next one may have more luck */
	read_clocks(&sw);
	fm_group_count_look(&dir->groups);
	fd = fm_sys_open_beneath(dir->root, ".", O_RDONLY | O_DIRECTORY);
	if (fd >= 0 && fm_walk_start(walk, fd) == 0)
		is_whole = sweep_walk(&sw, walk);
	if (fd >= 0)
		fm_walk_end(walk);
	free(walk);
	/* With a group is forgotten which errors of writing its members had. */
	fm_group_count_looked(&dir->groups, is_whole);
	tell(&sw);
}
