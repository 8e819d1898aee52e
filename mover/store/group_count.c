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

struct group {
	struct fm_list at;
	struct fm_list in_bucket;
	struct fm_group_key key;
	uint32_t uid;
	uint32_t look;			/* the last one that found it, or in which it was begun */
	int64_t expires_ns;
};

void fm_group_count_init(struct fm_group_count *gc, uint32_t limit)
{
	pthread_mutex_init(&gc->lock, NULL);
	fm_list_init(&gc->groups);
	for (size_t i = 0; i < FM_GROUPS_BUCKETS; i++)
		fm_list_init(&gc->buckets[i]);
	gc->limit = limit;
}

/* Under the lock. */
static void group_free(struct fm_group_count *gc, struct group *g)
{
	fm_list_del(&g->at);
	fm_list_del(&g->in_bucket);
	gc->count--;
	free(g);
}

void fm_group_count_free(struct fm_group_count *gc)
{
	fm_list_each(at, next, &gc->groups)
		group_free(gc, fm_container_of(at, struct group, at));
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

/* Counts the groups of a user whose time is not over. Under the lock. */
static uint32_t count_of(struct fm_group_count *gc, uint32_t uid)
{
	struct timespec now;
	uint32_t n = 0;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	fm_list_each(at, next, &gc->groups) {
		const struct group *g = fm_container_of(at, struct group, at);

		n += g->uid == uid && g->expires_ns > fm_time_ns(&now);
	}
	return n;
}

/* Notes a group, or that it is still there. Under the lock. */
static int note(struct fm_group_count *gc, const struct fm_group_key *key, uint32_t uid,
		int64_t expires_ns)
{
	struct group *g = find(gc, key);

	if (!g) {
		g = fm_sys_alloc(sizeof(*g));
		if (!g)
			return -ENOMEM;
		g->key = *key;
		fm_list_append(&gc->groups, &g->at);
		fm_list_append(bucket_of(gc, key), &g->in_bucket);
		gc->count++;
	}
	/* an inode may have been another group's */
	g->uid = uid;
	g->expires_ns = expires_ns;
	g->look = gc->looks;
	return 0;
}

int fm_group_count_add(struct fm_group_count *gc, const struct fm_group_key *key, uint32_t uid,
		       int64_t expires_ns, struct fm_err *err)
{
	uint32_t total, own;
	int ret = 0;

	pthread_mutex_lock(&gc->lock);
	own = count_of(gc, uid);
	total = gc->count;
	if (own < gc->limit && total < FM_GROUPS_OPEN_MAX)
		ret = note(gc, key, uid, expires_ns);
	else
		ret = -EDQUOT;
	pthread_mutex_unlock(&gc->lock);
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
		group_free(gc, g);
	pthread_mutex_unlock(&gc->lock);
}

void fm_group_count_look(struct fm_group_count *gc)
{
	pthread_mutex_lock(&gc->lock);
	gc->looks++;
	pthread_mutex_unlock(&gc->lock);
}

void fm_group_count_found(struct fm_group_count *gc, const struct fm_group_key *key, uint32_t uid,
			  int64_t expires_ns)
{
	pthread_mutex_lock(&gc->lock);
	if (find(gc, key) || gc->count < FM_GROUPS_OPEN_MAX)
		(void)note(gc, key, uid, expires_ns);	/* else the next look has more memory */
	pthread_mutex_unlock(&gc->lock);
}

void fm_group_count_looked(struct fm_group_count *gc)
{
	pthread_mutex_lock(&gc->lock);
	fm_list_each(at, next, &gc->groups) {
		struct group *g = fm_container_of(at, struct group, at);

		if (g->look != gc->looks)
			group_free(gc, g);
	}
	pthread_mutex_unlock(&gc->lock);
}
