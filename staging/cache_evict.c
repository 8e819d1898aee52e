/* SPDX-License-Identifier: MIT */
/*
 * cache_evict - a dataset goes, and nobody who reads it notices.
 *
 * Happy path: nobody has a file of it open; it is renamed to `evicting`, where no path leads that
 * anybody was told; still nobody has a file of it open; it is renamed to `gone`, that is synced,
 * and it is removed.
 *
 * It stays if a file is open at the first look (then it was never away), at the second (then it is
 * renamed back), or if somebody asked for it meanwhile. Until the rename to `gone` all of it is
 * there, so a crash before it loses nothing: a start renames it back. `gone` is synced before the
 * first file goes, so that no power cut brings back half of one as READY.
 *
 * Who has a file open the kernel says by a write lease, which is none of a run's. What that cannot
 * see: a working directory or an open directory in it, with no file open. Whoever wants to be safe
 * holds it.
 */
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/tree/remove.h"
#include "staging/cache_file.h"
#include "staging/cache_priv.h"
#include "staging/cache_sys.h"

/* ---- who has it open ---- */

/* The files are ours, so the kernel tells us. */
static int look_at_file(void *ctx, int dir, const char *name, const struct stat *st)
{
	int fd = fm_cache_sys_open(dir, name, O_RDONLY | O_NONBLOCK, 0), ret;

	(void)ctx;
	(void)st;
	if (fd < 0)
		return fd;
	ret = fm_cache_sys_is_open(fd);
	(void)close(fd); /* only looked at */
	return ret;
}

int fm_cache_is_open(int dir, const char *name)
{
	const struct fm_cache_visitor visitor = {.file = look_at_file};

	return fm_cache_walk(dir, name, &visitor);
}

/* ---- one goes ---- */

struct eviction {
	struct fm_cache *c;
	struct fm_cache_entry *e;	    /* ours while it is busy */
	char name[FM_CACHE_ENTRY_NAME_MAX]; /* in ready or partial, and in evicting */
	char gone[FM_CACHE_ENTRY_NAME_MAX];
};

static bool is_needed(const struct fm_cache_entry *e)
{
	unsigned pins = e->use.pin_count + e->use.far_count;

	return pins > 0 || e->hold_count > 0 || e->kept > 0 || e->is_fetched;
}

static int begin(struct eviction *v, uint64_t id)
{
	int ret = 0;

	pthread_mutex_lock(&v->c->lock);
	v->e = fm_cache_entry_of(v->c, id);
	if (!v->e)
		ret = -ENOENT;
	else if (v->e->is_busy || v->e->is_going || is_needed(v->e))
		ret = -EBUSY;
	if (ret == 0) {
		v->e->is_busy = true;
		v->e->is_wanted = false;
		fm_cache_entry_name(v->e, v->name);
		(void)snprintf(v->gone, sizeof(v->gone), "%016" PRIx64, v->e->ino);
	}
	pthread_mutex_unlock(&v->c->lock);
	return ret;
}

static void set_state(struct eviction *v, enum fm_cache_state state, enum fm_cache_place place)
{
	pthread_mutex_lock(&v->c->lock);
	v->e->state = state;
	v->e->place = place;
	pthread_mutex_unlock(&v->c->lock);
}

/* From now on who asks for it is told to wait. -EBUSY: somebody came since the first look. */
static int close_door(struct eviction *v, bool is_last)
{
	int ret;

	pthread_mutex_lock(&v->c->lock);
	ret = is_needed(v->e) ? -EBUSY : v->e->is_wanted ? -EAGAIN : 0;
	if (ret == 0) {
		v->e->state = FM_CACHE_EVICTING;
		v->e->is_going = is_last;
	}
	pthread_mutex_unlock(&v->c->lock);
	return ret;
}

static int move(struct eviction *v, enum fm_cache_place from, const char *name,
		enum fm_cache_place to, const char *new_name)
{
	int *dirs = v->c->dirs, ret;

	pthread_mutex_lock(&v->c->places);
	ret = fm_cache_sys_rename(dirs[from], name, dirs[to], new_name, RENAME_NOREPLACE);
	if (ret == 0) {
		pthread_mutex_lock(&v->c->lock);
		v->e->place = to;
		pthread_mutex_unlock(&v->c->lock);
	}
	pthread_mutex_unlock(&v->c->places);
	return ret;
}

/*
 * Moves a dataset back to its place after an eviction was given up. If that fails it stays whole in
 * `evicting`, and the next start brings it back.
 */
static void put_back(struct eviction *v)
{
	int *dirs = v->c->dirs, ret;

	pthread_mutex_lock(&v->c->places);
	ret = fm_call_renameat(dirs[FM_CACHE_IN_EVICTING], v->name, dirs[FM_CACHE_IN_READY],
			       v->name, RENAME_NOREPLACE);
	if (ret == 0)
		set_state(v, FM_CACHE_READY, FM_CACHE_IN_READY);
	pthread_mutex_unlock(&v->c->places);
	if (ret < 0)
		fm_log_warn("cache %s: evicting/%s cannot be renamed back to ready: %s",
			    v->c->directory, v->name, fm_err_name(ret));
}

/* A READY one, to where nothing of it was removed, and nobody finds it. 0: it may go. */
static int take_away(struct eviction *v)
{
	int *dirs = v->c->dirs;
	int ret = fm_cache_is_open(dirs[FM_CACHE_IN_READY], v->name);

	if (ret == 0)
		ret = close_door(v, false);
	if (ret != 0)
		return ret > 0 ? -EBUSY : ret;
	ret = move(v, FM_CACHE_IN_READY, v->name, FM_CACHE_IN_EVICTING, v->name);
	if (ret < 0) {
		set_state(v, FM_CACHE_READY, FM_CACHE_IN_READY);
		return ret;
	}
	ret = fm_cache_is_open(dirs[FM_CACHE_IN_EVICTING], v->name);
	if (ret == 0)
		ret = close_door(v, true);
	if (ret == 0)
		return 0;
	put_back(v);
	return ret > 0 ? -EBUSY : ret;
}

/* The names must be on the disk before the first file goes. */
static int throw_away(struct eviction *v, enum fm_cache_place from)
{
	struct fm_cache *c = v->c;
	int ret = move(v, from, v->name, FM_CACHE_GONE, v->gone);

	if (ret == 0)
		ret = fm_cache_sys_fsync(c->dirs[FM_CACHE_GONE]);
	if (ret == 0)
		ret = fm_cache_sys_fsync(c->dirs[from]);
	if (ret == 0 && from == FM_CACHE_IN_EVICTING)
		ret = fm_cache_sys_fsync(c->dirs[FM_CACHE_IN_READY]);
	return ret < 0 ? ret
		       : fm_tree_remove_known(c->dirs[FM_CACHE_GONE], v->gone, v->e->ino, NULL);
}

/*
 * Ends an eviction. After an error, upkeep tries a dataset in `gone` again; one that is not there
 * yet stays as it was.
 */
static void finish(struct eviction *v, enum fm_cache_state was, int ret)
{
	pthread_mutex_lock(&v->c->lock);
	v->e->is_busy = false;
	if (ret == 0) {
		fm_cache_entry_free(v->c, v->e);
	} else if (v->e->place != FM_CACHE_GONE) {
		v->e->is_going = false;
		if (v->e->place == FM_CACHE_PARTIAL)
			v->e->state = was;
	}
	pthread_mutex_unlock(&v->c->lock);
}

/* Whether somebody removed the dataset by hand, so that it takes no room any more. */
static bool is_removed(const struct eviction *v, enum fm_cache_place from)
{
	struct stat st;

	return fm_call_fstatat(v->c->dirs[from], v->name, &st) == -ENOENT;
}

int fm_cache_evict(struct fm_cache *c, uint64_t id)
{
	struct eviction v = {.c = c};
	enum fm_cache_place from;
	enum fm_cache_state was;
	int ret = begin(&v, id);

	if (ret < 0)
		return ret;
	was = v.e->state;
	from = v.e->place;
	if (is_removed(&v, from)) {
		fm_log_warn("cache %s: %s (%s) is not there any more: somebody removed it",
			    c->directory, v.e->set.name, v.name);
		finish(&v, was, 0);
		return 0;
	}
	if (from == FM_CACHE_IN_READY) {
		ret = take_away(&v);
		from = FM_CACHE_IN_EVICTING;
	} else {
		ret = close_door(&v, true);
	}
	if (ret == 0) {
		fm_log_info("cache %s: %s (%s) goes", c->directory, v.e->set.name, v.name);
		ret = throw_away(&v, from);
		if (ret < 0 && from == FM_CACHE_IN_EVICTING && v.e->place == from)
			put_back(&v);
	}
	finish(&v, was, ret);
	return ret;
}

/* The error for a dataset that is in use: whom to ask, or what to wait for. */
static int say_busy(struct fm_cache *c, uint64_t id, struct fm_err *err)
{
	struct fm_cache_holder holder;
	struct fm_cache_info info;
	bool is_held;

	if (!fm_cache_look(c, id, &info))
		return fm_err_set(
			err, -ENOENT,
			"no such dataset is staged here: fmove datasets lists those that are");
	if (info.pins > 0)
		return fm_err_set(err, -EBUSY,
				  "it is pinned: who pinned it, or root, unpins it (fmove unpin)");
	is_held = fm_cache_holders(c, id, &holder, 1) > 0;
	if (is_held && holder.node[0])
		return fm_err_set(err, -EBUSY,
				  "a process on %s holds it: it can go when that has ended, or 10 "
				  "minutes after %s was last heard of",
				  holder.node, holder.node);
	if (is_held)
		return fm_err_set(err, -EBUSY,
				  "processes hold it, such as a shell that ran fmove stage: "
				  "\"fmove datasets\" names them, and it can go when they have "
				  "ended");
	if (info.holds > 0)
		return fm_err_set(err, -EBUSY,
				  "it is checked, or other nodes have some of it from here: it can "
				  "go when that has ended");
	if (info.state != FM_CACHE_READY)
		return fm_err_set(err, -EBUSY,
				  "it is fetched just now: \"fmove jobs\" lists that, and \"fmove "
				  "cancel\" ends it");
	return fm_err_set(err, -EBUSY,
			  "a file of it is open: it can go when the process that has it open ends "
			  "(\"lsof +D\" of its path names that)");
}

int fm_cache_try_discard(struct fm_cache *c, uint64_t id, uint64_t *bytes, struct fm_err *err)
{
	struct eviction v = {.c = c};
	struct fm_cache_info info;
	int ret;

	fm_cache_holds_end(c);
	if (!fm_cache_look(c, id, &info))
		return fm_err_set(
			err, -ENOENT,
			"no such dataset is staged here: fmove datasets lists those that are");
	ret = begin(&v, id);
	if (ret == 0) {
		if (v.e->place == FM_CACHE_IN_READY && !is_removed(&v, FM_CACHE_IN_READY))
			ret = fm_cache_is_open(c->dirs[FM_CACHE_IN_READY], v.name);
		finish(&v, v.e->state, -ECANCELED);
	}
	if (ret == -EBUSY || ret > 0)
		return say_busy(c, id, err);
	*bytes = info.bytes;
	return ret < 0 ? fm_err_sys(err, ret, "cache %.200s: look at it", c->directory) : 0;
}

int fm_cache_discard(struct fm_cache *c, uint64_t id, struct fm_err *err)
{
	int ret;

	fm_cache_holds_end(c);
	ret = fm_cache_evict(c, id);
	if (ret == -ENOENT)
		return fm_err_set(
			err, ret,
			"no such dataset is staged here: fmove datasets lists those that are");
	if (ret == -EBUSY)
		return say_busy(c, id, err);
	if (ret == -EAGAIN)
		return fm_err_set(err, ret,
				  "cache %.200s: somebody asked for it just now, so it stays; run "
				  "it again if it is to go",
				  c->directory);
	return ret < 0 ? fm_err_sys(err, ret, "cache %.200s: remove it", c->directory) : 0;
}
