/* SPDX-License-Identifier: MIT */
/* share - a sum, and a list of those who are in it: at most as many as hold something. */
#include "mover/base/share.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"

struct fm_share_holder {
	struct fm_list at;		/* share->holders */
	uint64_t count;
	uid_t uid;
	char name[];			/* "": a user */
};

void fm_share_init(struct fm_share *share, const struct fm_share_limits *limits)
{
	assert(limits->root <= limits->total);
	*share = (struct fm_share){ .limits = *limits };
	fm_list_init(&share->holders);
}

void fm_share_set_total(struct fm_share *share, uint64_t total)
{
	assert(total >= share->limits.root);
	share->limits.total = total;
}

static bool is_root(struct fm_share_id id)
{
	return !id.name && id.uid == 0;
}

static struct fm_share_holder *find(const struct fm_share *share, struct fm_share_id id)
{
	fm_list_each(at, next, &share->holders) {
		struct fm_share_holder *h = fm_container_of(at, struct fm_share_holder, at);

		if (id.name ? strcmp(h->name, id.name) == 0 : !h->name[0] && h->uid == id.uid)
			return h;
	}
	return NULL;
}

uint64_t fm_share_of(const struct fm_share *share, struct fm_share_id id)
{
	const struct fm_share_holder *h = find(share, id);

	return h ? h->count : 0;
}

/* Left of what is there for this one, before anybody's share. */
static uint64_t free_for(const struct fm_share *share, struct fm_share_id id)
{
	uint64_t reach = share->limits.total - (is_root(id) ? 0 : share->limits.root);

	return share->used < reach ? reach - share->used : 0;
}

/* Whether one who has `mine` of it may have count more, of what is free. */
static bool is_within_share(const struct fm_share *share, struct fm_share_id id, uint64_t mine,
			    uint64_t count, uint64_t free)
{
	const struct fm_share_limits *l = &share->limits;

	if (l->most && mine + count > l->most)
		return false;
	if (mine == 0 || l->times == 0 || (is_root(id) && mine + count <= l->root))
		return true;
	return mine + count <= l->times * (free - count);
}

bool fm_share_may(const struct fm_share *share, struct fm_share_id id, uint64_t count)
{
	uint64_t free = free_for(share, id);

	return count <= free && is_within_share(share, id, fm_share_of(share, id), count, free);
}

bool fm_share_could(const struct fm_share *share, struct fm_share_id id, uint64_t count)
{
	const struct fm_share_limits *l = &share->limits;
	uint64_t reach = l->total - (is_root(id) ? 0 : l->root);

	return count <= reach && is_within_share(share, id, 0, count, reach);
}

int fm_share_check(const struct fm_share *share, struct fm_share_id id, uint64_t count,
		   struct fm_err *err)
{
	const struct fm_share_limits *l = &share->limits;
	uint64_t mine = fm_share_of(share, id);

	if (fm_share_may(share, id, count))
		return 0;
	if (!fm_share_could(share, id, count))
		return fm_err_set(err, -EBUSY,
				  "more %s are asked for at once (%llu) than one may have", l->what,
				  (unsigned long long)count);
	if (count > free_for(share, id))
		return fm_err_full(err, "all %s are taken (%llu%s)", l->what,
				   (unsigned long long)(l->total - (is_root(id) ? 0 : l->root)),
				   l->root && !is_root(id) ? ", beside root's" : "");
	return fm_err_full(err, "too many %s are yours (%llu of %llu), the rest is for others",
			   l->what, (unsigned long long)mine, (unsigned long long)l->total);
}

static struct fm_share_holder *holder_of(struct fm_share *share, struct fm_share_id id)
{
	size_t len = id.name ? strlen(id.name) : 0;
	struct fm_share_holder *h = find(share, id);

	if (h)
		return h;
	h = FM_FAULT("share.holder") ? NULL : calloc(1, sizeof(*h) + len + 1);
	if (!h)
		return NULL;
	h->uid = id.uid;
	if (id.name)
		memcpy(h->name, id.name, len);
	fm_list_append(&share->holders, &h->at);
	return h;
}

static int hold(struct fm_share *share, struct fm_share_id id, uint64_t count,
		struct fm_share_held *held)
{
	struct fm_share_holder *h = holder_of(share, id);

	if (!h)
		return -ENOMEM;
	assert(count > 0 && (!held->share || (held->share == share && held->by == h)));
	held->share = share;
	held->by = h;
	held->count += count;
	h->count += count;
	share->used += count;
	return 0;
}

void fm_share_force(struct fm_share *share, struct fm_share_id id, uint64_t count,
		    struct fm_share_held *held)
{
	(void)hold(share, id, count, held);
}

int fm_share_take(struct fm_share *share, struct fm_share_id id, uint64_t count,
		  struct fm_share_held *held, struct fm_err *err)
{
	int ret = fm_share_check(share, id, count, err);

	if (ret == 0 && hold(share, id, count, held) < 0)
		ret = fm_err_set(err, -ENOMEM, "no memory to count %s", share->limits.what);
	return ret;
}

void fm_share_give(struct fm_share_held *held, uint64_t count)
{
	struct fm_share_holder *h = held->by;

	assert(count <= held->count);
	if (count == 0)
		return;
	held->share->used -= count;
	h->count -= count;
	held->count -= count;
	if (held->count == 0)
		*held = (struct fm_share_held){ 0 };
	if (h->count > 0)
		return;
	fm_list_del(&h->at);
	free(h);
}

void fm_share_give_all(struct fm_share_held *held)
{
	fm_share_give(held, held->count);
}
