/* SPDX-License-Identifier: MIT */
/*
 * cache_ready - a dataset that is all there becomes READY.
 *
 * In this order: what is in it is made read-only; all is synced; .dataset gets the version, .use
 * the request, both synced; the directory is renamed to `ready`; `ready` and `partial` are synced.
 * Nothing but the rename makes it READY, and it comes after the sync of all that it stands for. A
 * crash or power cut before it leaves a partial dataset with all its extents, which is READY as
 * soon as it is asked for; after it, a READY one, unless the disk did not have the rename yet: then
 * a partial one.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "staging/cache_file.h"
#include "staging/cache_priv.h"
#include "staging/cache_sys.h"

/* ---- read-only ---- */

static int seal_file(void *ctx, int dir, const char *name, const struct stat *st)
{
	mode_t mode = st->st_mode & 0100 ? 0555 : 0444;
	int fd, ret;

	(void)ctx;
	/* Hard links of another version have it already: their inode is left alone. */
	if ((st->st_mode & 07777) == mode)
		return 0;
	fd = fm_cache_sys_open(dir, name, O_RDONLY | O_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	ret = fm_cache_sys_chmod(fd, mode);
	(void)close(fd); /* what was written to it is synced later */
	return ret;
}

static int seal_dir(void *ctx, int fd)
{
	(void)ctx;
	return fm_cache_sys_chmod(fd, 0555);
}

static int seal(struct fm_cache_fetch *f)
{
	const struct fm_cache_visitor visitor = {.file = seal_file, .dir = seal_dir};
	struct stat st;
	int ret = fm_cache_sys_fstatat(f->dir, FM_CACHE_MANIFEST_NAME, &st);

	if (ret == 0 && !S_ISREG(st.st_mode))
		ret = -EINVAL;
	return ret == 0 ? fm_cache_walk(f->dir, f->e->set.name, &visitor) : ret;
}

/* ---- READY ---- */

/* Refuses a version that another dataset has already. Under the lock. */
static int check_version(struct fm_cache *c, const struct fm_cache_key *version, struct fm_err *err)
{
	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		if (e->place == FM_CACHE_PARTIAL || e->is_going ||
		    memcmp(&e->set.version, version, sizeof(*version)) != 0)
			continue;
		if (e->state == FM_CACHE_EVICTING)
			return fm_cache_may_use(e, err);
		return fm_err_set(err, -EEXIST, "this version of %s is staged here already",
				  e->set.name);
	}
	return 0;
}

static int check_ready(struct fm_cache_fetch *f, const struct fm_cache_key *version,
		       struct fm_err *err)
{
	int ret;

	pthread_mutex_lock(&f->c->lock);
	if (f->missing > 0 || f->e->place != FM_CACHE_PARTIAL)
		ret = fm_err_set(err, -EINVAL, "%s is not all there: %u extents are missing",
				 f->e->set.name, f->missing);
	else
		ret = check_version(f->c, version, err);
	if (ret == 0) {
		f->e->set.version = *version;
		f->e->use.requested = fm_cache_now(f->c);
	}
	pthread_mutex_unlock(&f->c->lock);
	return ret;
}

/* Brings to the disk all that READY stands for, before the rename. */
static int prepare(struct fm_cache_fetch *f)
{
	int ret = seal(f);

	if (ret < 0)
		return ret;
	ret = fm_cache_sys_syncfs(f->dir);
	if (ret < 0) {
		f->is_broken = true;
		(void)unlinkat(f->dir, FM_CACHE_EXTENTS_NAME, 0); /* as in a save */
		return ret;
	}
	ret = fm_cache_dataset_write(f->dir, &f->e->set);
	return ret == 0 ? fm_cache_use_save(f->c, f->e->set.id, true) : ret;
}

static int sync_places(struct fm_cache *c)
{
	int ret = fm_cache_sys_fsync(c->dirs[FM_CACHE_IN_READY]);

	return ret == 0 ? fm_cache_sys_fsync(c->dirs[FM_CACHE_PARTIAL]) : ret;
}

/* If the disk does not say that it has the rename, it is undone: READY is for good. */
static int rename_ready(struct fm_cache_fetch *f)
{
	char partial[FM_CACHE_HEX_LEN + 1], ready[FM_CACHE_HEX_LEN + 1];
	int *dirs = f->c->dirs, ret;

	fm_cache_key_print(&f->e->set.listing, partial);
	fm_cache_key_print(&f->e->set.version, ready);
	ret = fm_cache_sys_rename(dirs[FM_CACHE_PARTIAL], partial, dirs[FM_CACHE_IN_READY], ready,
				  RENAME_NOREPLACE);
	if (ret < 0)
		return ret;
	ret = sync_places(f->c);
	if (ret < 0 && fm_call_renameat(dirs[FM_CACHE_IN_READY], ready, dirs[FM_CACHE_PARTIAL],
					partial, RENAME_NOREPLACE) == 0)
		return ret;
	pthread_mutex_lock(&f->c->lock);
	f->e->place = FM_CACHE_IN_READY;
	f->e->state = FM_CACHE_READY;
	f->e->extents_done = f->e->set.extents;
	pthread_mutex_unlock(&f->c->lock);
	return ret;
}

static int publish(struct fm_cache_fetch *f)
{
	int ret;

	pthread_mutex_lock(&f->c->places);
	ret = rename_ready(f);
	pthread_mutex_unlock(&f->c->places);
	return ret;
}

void fm_cache_fetch_ask(struct fm_cache_fetch *f, bool (*is_spoilt)(void *ctx), void *ctx)
{
	f->is_spoilt = is_spoilt;
	f->ctx = ctx;
}

int fm_cache_fetch_ready(struct fm_cache_fetch *f, const struct fm_cache_key *version,
			 struct fm_err *err)
{
	int ret = fm_cache_fetch_begin(f, err);

	if (ret < 0)
		return ret;
	ret = check_ready(f, version, err);
	if (ret == 0) {
		ret = prepare(f);
		if (ret == 0 && f->is_spoilt && f->is_spoilt(f->ctx))
			ret = -EBADMSG;
		if (ret == 0)
			ret = publish(f);
		/* none that is known: check_version() */
		if (ret == -EEXIST)
			ret = fm_err_set(err, -EUCLEAN,
					 "cache %.200s: this version of %s is in ready, and was "
					 "not taken when fmoved started: its log says why; mend "
					 "that and restart fmoved, or remove it",
					 f->c->directory, f->e->set.name);
		else if (ret < 0)
			(void)fm_err_making(err, ret, f->c->root, "cache %.200s: make %s ready",
					    f->c->directory, f->e->set.name);
	}
	if (ret == 0) {
		/* Of no use any more; if they stay, they do no harm. */
		(void)unlinkat(f->dir, FM_CACHE_SCRATCH_NAME, 0);
		(void)unlinkat(f->dir, FM_CACHE_EXTENTS_NAME, 0);
	}
	fm_cache_fetch_end(f);
	return ret;
}
