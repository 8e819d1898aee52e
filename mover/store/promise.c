/* SPDX-License-Identifier: MIT */
/*
 * promise - see promise.h.
 */
#include "mover/store/promise.h"

#include <stdio.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/store/room.h"
#include "mover/store/store_dir.h"

static uint64_t now_ns(void)
{
	return fm_clock_real.now_ns(fm_clock_real.ctx);
}

static uint64_t take_from(uint64_t *left, uint64_t bytes)
{
	uint64_t taken = bytes < *left ? bytes : *left;

	*left -= taken;
	return taken;
}

void fm_promises_init(struct fm_promises *all)
{
	pthread_mutex_init(&all->lock, NULL);
	fm_list_init(&all->all);
}

void fm_promises_free(struct fm_promises *all)
{
	pthread_mutex_destroy(&all->lock);
}

void fm_promise_init(struct fm_promise *p, struct fm_store_dir *dir, const struct fm_who *who)
{
	*p = (struct fm_promise){ .dir = dir, .fd = -1, .moved_ns = now_ns(), .uid = who->uid };
	if (who->peer)
		(void)snprintf(p->peer, sizeof(p->peer), "%s", who->peer);	/* fits */
	pthread_mutex_lock(&dir->promises.lock);
	fm_list_append(&dir->promises.all, &p->at);
	pthread_mutex_unlock(&dir->promises.lock);
}

void fm_promise_end(struct fm_promise *p)
{
	pthread_mutex_lock(&p->dir->promises.lock);
	fm_list_del(&p->at);
	pthread_mutex_unlock(&p->dir->promises.lock);
	fm_usage_break_promise(&p->dir->usage, p->held);
	p->held = p->rest = 0;
}

static bool is_same_owner(const struct fm_promise *a, const struct fm_promise *b)
{
	return strcmp(a->peer, b->peer) == 0 && (a->peer[0] || a->uid == b->uid);
}

/* The bytes that all trees of this tree's owner hold. The caller has the lock. */
static uint64_t held_by_owner(const struct fm_promise *p)
{
	uint64_t held = 0;

	fm_list_each(at, next, &p->dir->promises.all) {
		const struct fm_promise *other = fm_container_of(at, struct fm_promise, at);

		held += is_same_owner(p, other) ? other->held : 0;
	}
	return held;
}

/* Whether this thread asks for more. *held and *rest: what it begins from. */
static bool begins_to_ask(struct fm_promise *p, uint64_t *held, uint64_t *rest)
{
	bool begins;

	pthread_mutex_lock(&p->dir->promises.lock);
	begins = p->rest > 0 && !p->is_asking;
	p->is_asking |= begins;
	*held = held_by_owner(p);
	*rest = p->rest;
	pthread_mutex_unlock(&p->dir->promises.lock);
	return begins;
}

/*
 * Has more of the rest promised, as much as there is room for. What is refused is asked for with
 * the next file. The disk may never answer, so it is asked without the lock; what the owner's other
 * trees were promised meanwhile is taken off.
 */
static void go_on(struct fm_promise *p)
{
	uint64_t held, rest, more, now, gained, wanted;

	if (!begins_to_ask(p, &held, &rest))
		return;
	more = fm_room_promise_more(p->dir, p->fd, held, rest);
	pthread_mutex_lock(&p->dir->promises.lock);
	now = held_by_owner(p);
	gained = now > held ? now - held : 0;
	/* Of the rest, too, others may have made files meanwhile. */
	wanted = take_from(&p->rest, more > gained ? more - gained : 0);
	p->held += wanted;
	p->is_asking = false;
	pthread_mutex_unlock(&p->dir->promises.lock);
	fm_usage_break_promise(&p->dir->usage, more - wanted);
}

int fm_promise_ask(struct fm_promise *p, int fd, uint64_t bytes, struct fm_err *err)
{
	int ret = fm_room_for_tree(p->dir, fd, bytes, err);

	if (ret < 0)
		return ret;
	pthread_mutex_lock(&p->dir->promises.lock);
	p->fd = fd;
	p->rest += bytes;
	p->moved_ns = now_ns();
	pthread_mutex_unlock(&p->dir->promises.lock);
	go_on(p);
	return 0;
}

int fm_promise_take(struct fm_promise *p, uint64_t bytes, struct fm_err *err)
{
	uint64_t promised, awaited;	/* of these bytes; the others nobody spoke of */
	int ret = 0;

	pthread_mutex_lock(&p->dir->promises.lock);
	promised = take_from(&p->held, bytes);
	awaited = take_from(&p->rest, bytes - promised);
	p->moved_ns = now_ns();
	pthread_mutex_unlock(&p->dir->promises.lock);
	fm_usage_keep_promise(&p->dir->usage, promised);
	fm_room_ahead(p->dir, bytes);
	/* What nobody spoke of is not looked for: it may be a hole, which needs no room. */
	if (awaited > 0)
		ret = fm_room_go_on(p->dir, p->fd, promised + awaited, err);
	if (ret == 0 && promised < bytes) {
		ret = fm_room_take(p->dir, bytes - promised, err);
		if (ret < 0 && awaited > 0)
			fm_err_wrap(err,
				    "others took meanwhile what was free when the directory began");
	}
	if (ret < 0)
		fm_usage_sub(&p->dir->usage, promised);
	else
		go_on(p);
	return ret;
}

void fm_promise_touch(struct fm_promise *p)
{
	pthread_mutex_lock(&p->dir->promises.lock);
	p->moved_ns = now_ns();
	pthread_mutex_unlock(&p->dir->promises.lock);
}

uint64_t fm_promises_lapse(struct fm_store_dir *dir)
{
	uint64_t now, lapsed = 0;

	pthread_mutex_lock(&dir->promises.lock);
	now = now_ns();
	fm_list_each(at, next, &dir->promises.all) {
		struct fm_promise *p = fm_container_of(at, struct fm_promise, at);

		if (now - p->moved_ns <= FM_PROMISE_IDLE_NS)
			continue;
		lapsed += p->held;
		p->rest += p->held;
		p->held = 0;
	}
	pthread_mutex_unlock(&dir->promises.lock);
	fm_usage_break_promise(&dir->usage, lapsed);
	if (lapsed > 0)
		fm_log_info("store %s: %llu bytes were promised to directories that do not go on, "
			    "and are free for others now",
			    dir->store.name, (unsigned long long)lapsed);
	return lapsed;
}
