/* SPDX-License-Identifier: MIT */
/* group_count - see group_count.h. */
#include "mover/store/group_count.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/store/sys.h"

struct user {
	struct fm_list in_bucket;
	struct fm_list groups;		/* one at least */
	uint32_t uid;
	uint32_t open;			/* of those, whose time was not over at the last count */
	int64_t until_ns;		/* when the first of these ends: then it is counted anew */
};

struct group {
	struct fm_list at;
	struct fm_list in_bucket;
	struct fm_list of_user;
	struct fm_group_key key;
	struct user *user;
	uint32_t look;			/* the last one that found it, or in which it was begun */
	int64_t expires_ns;
	bool is_open;			/* counted in user->open */
	bool is_published;		/* watched only, and gone where others need its place */
	struct fm_group_watch *watch;	/* NULL: not yet */
	bool is_noted;			/* see fm_group_count_note() */
};

void fm_group_count_init(struct fm_group_count *gc, uint32_t limit)
{
	pthread_mutex_init(&gc->lock, NULL);
	fm_list_init(&gc->groups);
	for (size_t i = 0; i < FM_GROUPS_BUCKETS; i++) {
		fm_list_init(&gc->buckets[i]);
		fm_list_init(&gc->users[i]);
	}
	gc->limit = limit;
	gc->until_ns = INT64_MAX;
	fm_group_watches_init(&gc->watches);
}

/* ---- whose they are; under the lock ---- */

static struct fm_list *users_of(struct fm_group_count *gc, uint32_t uid)
{
	return &gc->users[uid % FM_GROUPS_BUCKETS];
}

static struct user *find_user(struct fm_group_count *gc, uint32_t uid)
{
	fm_list_each(at, next, users_of(gc, uid)) {
		struct user *u = fm_container_of(at, struct user, in_bucket);

		if (u->uid == uid)
			return u;
	}
	return NULL;
}

static struct user *user_of(struct fm_group_count *gc, uint32_t uid)
{
	struct user *u = find_user(gc, uid);

	if (u)
		return u;
	u = fm_sys_alloc(sizeof(*u));
	if (!u)
		return NULL;
	u->uid = uid;
	u->open = 0;
	u->until_ns = INT64_MAX;
	fm_list_init(&u->groups);
	fm_list_append(users_of(gc, uid), &u->in_bucket);
	return u;
}

static void user_free_if_none(struct user *u)
{
	if (!fm_list_is_empty(&u->groups))
		return;
	fm_list_del(&u->in_bucket);
	free(u);
}

/* keep: stays, also without a group. */
static void user_leave(struct group *g, const struct user *keep)
{
	struct user *u = g->user;

	fm_list_del(&g->of_user);
	u->open -= g->is_open;
	if (u != keep)
		user_free_if_none(u);
}

static void count_one(struct user *u, struct group *g, int64_t now_ns)
{
	g->is_open = g->expires_ns > now_ns && !g->is_published;
	u->open += g->is_open;
	if (g->is_open && g->expires_ns < u->until_ns)
		u->until_ns = g->expires_ns;
}

static int64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);	/* it exists */
	return fm_time_ns(&now);
}

/* The groups of a user whose time is not over. */
static uint32_t count_of(struct fm_group_count *gc, uint32_t uid)
{
	struct user *u = find_user(gc, uid);
	int64_t now = now_ns();

	if (u && now >= u->until_ns) {
		u->open = 0;
		u->until_ns = INT64_MAX;
		fm_list_each(at, next, &u->groups)
			count_one(u, fm_container_of(at, struct group, of_user), now);
	}
	return u ? u->open : 0;
}

/* ---- groups ---- */

/* Under the lock. It counts no more, and is to be freed without the lock. */
static void group_take_out(struct fm_group_count *gc, struct group *g)
{
	user_leave(g, NULL);
	fm_list_del(&g->at);
	fm_list_del(&g->in_bucket);
	gc->count--;
	gc->published -= g->is_published;
}

/* NULL is allowed. */
static void group_free(struct group *g)
{
	if (g)
		fm_group_watch_put(g->watch);
	free(g);
}

void fm_group_count_free(struct fm_group_count *gc)
{
	fm_list_each(at, next, &gc->groups) {
		struct group *g = fm_container_of(at, struct group, at);

		group_take_out(gc, g);
		group_free(g);
	}
	fm_group_watches_free(&gc->watches);
	pthread_mutex_destroy(&gc->lock);
}

static struct fm_list *bucket_of(struct fm_group_count *gc, const struct fm_group_key *key)
{
	/* Inode numbers are dense: nobody can have many of one bucket alone. */
	uint64_t both = (uint64_t)key->ino ^ (uint64_t)key->dev << 7;

	return &gc->buckets[(both * UINT64_C(0x9e3779b97f4a7c15) >> 40) % FM_GROUPS_BUCKETS];
}

/* Under the lock. */
static struct group *find(struct fm_group_count *gc, const struct fm_group_key *key)
{
	fm_list_each(at, next, bucket_of(gc, key)) {
		struct group *g = fm_container_of(at, struct group, in_bucket);

		if (g->key.dev == key->dev && g->key.ino == key->ino)
			return g;
	}
	return NULL;
}

/* Under the lock. */
static struct group *group_new(struct fm_group_count *gc, const struct fm_group_key *key)
{
	struct group *g = fm_sys_alloc(sizeof(*g));

	if (!g)
		return NULL;
	g->key = *key;
	g->watch = NULL;
	g->is_noted = false;
	g->is_published = false;
	g->expires_ns = INT64_MIN;
	fm_list_append(&gc->groups, &g->at);
	fm_list_append(bucket_of(gc, key), &g->in_bucket);
	gc->count++;
	return g;
}

/*
 * The inode was another group's, which went unseen: what was known of that is not true of this one.
 * Returns its watch, which is to be put without the lock.
 */
static struct fm_group_watch *begin_anew(struct fm_group_count *gc, struct group *g)
{
	struct fm_group_watch *watch = g->watch;

	g->watch = NULL;
	g->is_noted = false;
	gc->published -= g->is_published;
	g->is_published = false;
	return watch;
}

/*
 * Notes a group, or that it is still there. Under the lock. *was: a watch that is to be put without
 * it, or NULL.
 */
static int note(struct fm_group_count *gc, const struct fm_group_key *key, uint32_t uid,
		int64_t expires_ns, struct fm_group_watch **was)
{
	struct user *u = user_of(gc, uid);
	struct group *g = u ? find(gc, key) : NULL;

	if (g)
		user_leave(g, u);	/* an inode may have been another group's */
	else if (u)
		g = group_new(gc, key);
	if (!g) {
		if (u)
			user_free_if_none(u);
		return -ENOMEM;
	}
	if (g->expires_ns != expires_ns)
		*was = begin_anew(gc, g);
	g->user = u;
	g->expires_ns = expires_ns;
	g->look = gc->looks;
	if (expires_ns < gc->until_ns)
		gc->until_ns = expires_ns;
	fm_list_append(&u->groups, &g->of_user);
	count_one(u, g, now_ns());
	return 0;
}

/*
 * Takes out the groups whose time is over, of which nobody commits one any more, nor brings it a
 * member; if the last look was whole, those that it did not find; and those that were published, if
 * there is no room. Under the lock.
 */
static void take_out_gone(struct fm_group_count *gc, bool is_whole, struct fm_list *gone)
{
	bool is_full = gc->count >= FM_GROUPS_OPEN_MAX;
	int64_t now = now_ns();

	gc->until_ns = INT64_MAX;
	fm_list_each(at, next, &gc->groups) {
		struct group *g = fm_container_of(at, struct group, at);

		if (g->expires_ns <= now || (is_full && g->is_published) ||
		    (is_whole && (int32_t)(g->look - gc->looks) < 0)) {
			group_take_out(gc, g);
			fm_list_append(gone, &g->at);
		} else if (g->expires_ns < gc->until_ns) {
			gc->until_ns = g->expires_ns;
		}
	}
}

/* Whether one more may be counted. Under the lock. */
static bool has_room(struct fm_group_count *gc, struct fm_list *gone)
{
	if (gc->count >= FM_GROUPS_OPEN_MAX && (gc->published > 0 || now_ns() >= gc->until_ns))
		take_out_gone(gc, false, gone);
	return gc->count < FM_GROUPS_OPEN_MAX;
}

/* Without the lock. */
static void free_gone(struct fm_list *gone)
{
	fm_list_each(at, next, gone)
		group_free(fm_container_of(at, struct group, at));
}

int fm_group_count_add(struct fm_group_count *gc, const struct fm_group_key *key, uint32_t uid,
		       int64_t expires_ns, struct fm_err *err)
{
	struct fm_group_watch *was = NULL;
	uint32_t total, own;
	struct fm_list gone;
	struct group *g;
	int ret = 0;

	fm_list_init(&gone);
	pthread_mutex_lock(&gc->lock);
	g = find(gc, key);
	if (g)
		g->expires_ns = INT64_MIN;	/* the inode is used again */
	own = count_of(gc, uid);
	if (own < gc->limit && has_room(gc, &gone))
		ret = note(gc, key, uid, expires_ns, &was);
	else
		ret = -EDQUOT;
	total = gc->count;
	pthread_mutex_unlock(&gc->lock);
	free_gone(&gone);
	fm_group_watch_put(was);
	if (ret == -EDQUOT && own >= gc->limit)
		return fm_err_set(err, ret,
				  "uid %" PRIu32 " has %" PRIu32 " open groups in this store, and "
				  "%" PRIu32 " are allowed (group_limit): commit or discard one "
				  "first; fmove group list shows them",
				  uid, own, gc->limit);
	if (ret == -EDQUOT)
		return fm_err_set(err, ret,
				  "%" PRIu32 " groups are open in this store, and no more are "
				  "allowed: commit or discard one first; fmove group list shows "
				  "them",
				  total);
	return ret < 0 ? fm_err_set(err, ret, "count the group: out of memory") : 0;
}

void fm_group_count_drop(struct fm_group_count *gc, const struct fm_group_key *key)
{
	struct group *g;

	pthread_mutex_lock(&gc->lock);
	g = find(gc, key);
	if (g)
		group_take_out(gc, g);
	pthread_mutex_unlock(&gc->lock);
	group_free(g);
}

void fm_group_count_publish(struct fm_group_count *gc, const struct fm_group_key *key)
{
	struct group *g;

	pthread_mutex_lock(&gc->lock);
	g = find(gc, key);
	if (g && !g->is_published) {
		g->is_published = true;
		g->user->open -= g->is_open;
		g->is_open = false;
		/* No look finds it. The next one does not forget it yet. */
		g->look = gc->looks + 1;
		gc->published++;
	}
	pthread_mutex_unlock(&gc->lock);
}

void fm_group_count_look(struct fm_group_count *gc)
{
	pthread_mutex_lock(&gc->lock);
	gc->looks++;
	pthread_mutex_unlock(&gc->lock);
}

int fm_group_count_found(struct fm_group_count *gc, const struct fm_group_key *key, uint32_t uid,
			 int64_t expires_ns)
{
	struct fm_group_watch *was = NULL;
	struct fm_list gone;
	int ret = -EDQUOT;

	fm_list_init(&gone);
	pthread_mutex_lock(&gc->lock);
	if (find(gc, key) || has_room(gc, &gone))
		ret = note(gc, key, uid, expires_ns, &was);
	pthread_mutex_unlock(&gc->lock);
	free_gone(&gone);
	fm_group_watch_put(was);
	return ret;
}

void fm_group_count_looked(struct fm_group_count *gc, bool is_whole)
{
	struct fm_list gone;

	fm_list_init(&gone);
	pthread_mutex_lock(&gc->lock);
	take_out_gone(gc, is_whole, &gone);
	pthread_mutex_unlock(&gc->lock);
	free_gone(&gone);
}

/* Gives the group a watch that was opened. What is not wanted any more is *watch then. */
static void take_watch(struct fm_group_count *gc, const struct fm_group_key *key,
		       struct fm_group_watch **watch)
{
	struct group *g;

	pthread_mutex_lock(&gc->lock);
	g = find(gc, key);
	if (g && !g->watch) {
		g->watch = *watch;
		*watch = NULL;
	}
	pthread_mutex_unlock(&gc->lock);
}

int fm_group_count_watch(struct fm_group_count *gc, const struct fm_group_key *key, int dir)
{
	struct fm_group_watch *watch;
	struct group *g;
	bool is_wanted;
	int ret;

	pthread_mutex_lock(&gc->lock);
	g = find(gc, key);
	is_wanted = g && !g->watch;
	pthread_mutex_unlock(&gc->lock);
	if (!is_wanted)
		return 0;
	/* Without the lock, which all users of the store need: the file system may be silent. */
	ret = fm_group_watch_get(&gc->watches, dir, &watch);
	if (ret < 0)
		return ret;
	take_watch(gc, key, &watch);
	fm_group_watch_put(watch);
	return 0;
}

bool fm_group_count_is_noted(struct fm_group_count *gc, const struct fm_group_key *key)
{
	const struct group *g;
	bool is_noted;

	pthread_mutex_lock(&gc->lock);
	g = find(gc, key);
	is_noted = g && g->is_noted;
	pthread_mutex_unlock(&gc->lock);
	return is_noted;
}

void fm_group_count_note(struct fm_group_count *gc, const struct fm_group_key *key)
{
	struct group *g;

	pthread_mutex_lock(&gc->lock);
	g = find(gc, key);
	if (g)
		g->is_noted = true;
	pthread_mutex_unlock(&gc->lock);
}

int fm_group_count_sync(struct fm_group_count *gc, const struct fm_group_key *key, int dir,
			bool *is_watched)
{
	struct fm_group_watch *watch = NULL;
	struct group *g;
	int ret;

	pthread_mutex_lock(&gc->lock);
	g = find(gc, key);
	if (g && g->watch)
		watch = fm_group_watch_again(g->watch);
	pthread_mutex_unlock(&gc->lock);
	*is_watched = watch != NULL;
	ret = watch ? fm_group_watch_sync(watch) : fm_sys_syncfs(dir);
	fm_group_watch_put(watch);
	return ret;
}
