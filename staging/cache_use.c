/* SPDX-License-Identifier: MIT */
/*
 * cache_use - requests for a dataset, pins, and the quota that they are charged to.
 *
 * A pin counts in memory before it is on the disk. It is removed from the disk before it stops to
 * count in memory. So a dataset is never evicted while somebody was told that it is pinned.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "staging/cache_file.h"
#include "staging/cache_priv.h"
#include "staging/cache_sys.h"

/* A request within that time after one that is written down need not be. */
#define SAVED_FOR_NS (60 * FM_NS_PER_S)

/* ---- the file ---- */

static int write_use(struct fm_cache *c, int dir, struct fm_cache_use *use, bool is_durable)
{
	uint8_t bytes[FM_CACHE_USE_LEN + FM_CACHE_PINS_MAX * 4 + FM_CACHE_CRC_LEN];

	memcpy(use->boot, c->boot, sizeof(use->boot));
	return fm_cache_file_write(dir, FM_CACHE_USE_NAME, bytes,
				   fm_cache_put_use(use, bytes, sizeof(bytes)), is_durable);
}

static void mark_new(struct fm_cache *c, uint64_t id)
{
	struct fm_cache_entry *e;

	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, id);
	if (e)
		e->is_use_new = true;
	pthread_mutex_unlock(&c->lock);
}

/* Opens the directory of a dataset, and copies what its .use file is to say. */
static int open_entry(struct fm_cache *c, uint64_t id, struct fm_cache_use *use)
{
	struct fm_cache_entry *e;
	int fd = fm_cache_entry_open(c, id);

	if (fd < 0)
		return fd;
	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, id);
	if (e) {
		*use = e->use;
		e->is_use_new = false;
	}
	pthread_mutex_unlock(&c->lock);
	if (e)
		return fd;
	(void)close(fd); /* nothing was done to it */
	return -ENOENT;
}

/* Under `use`. */
static int save(struct fm_cache *c, uint64_t id, bool is_durable)
{
	struct fm_cache_use use;
	int ret, fd = open_entry(c, id, &use);

	if (fd < 0)
		return fd;
	ret = write_use(c, fd, &use, is_durable);
	(void)close(fd); /* only a name was changed through it */
	if (ret < 0)
		mark_new(c, id);
	return ret;
}

int fm_cache_use_save(struct fm_cache *c, uint64_t id, bool is_durable)
{
	int ret;

	pthread_mutex_lock(&c->use);
	ret = save(c, id, is_durable);
	pthread_mutex_unlock(&c->use);
	return ret;
}

/* ---- asked for, verified ---- */

static bool is_fresh(const struct fm_cache *c, const struct fm_cache_stamp *stamp)
{
	return stamp->wall_ns > 0 && fm_cache_age(c, stamp) < SAVED_FOR_NS;
}

/*
 * Notes a request. In memory each is noted; on the disk at most one a minute, so the grace is a
 * minute longer (cache_room.c).
 */
int fm_cache_request(struct fm_cache *c, uint64_t id, struct fm_err *err)
{
	struct fm_cache_entry *e;
	bool is_saved = false;
	int ret;

	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, id);
	ret = fm_cache_may_use(e, err);
	if (ret == 0) {
		is_saved = is_fresh(c, &e->use.requested) && !e->is_use_new;
		if (!is_saved)
			e->use.requested = fm_cache_now(c);
	}
	pthread_mutex_unlock(&c->lock);
	if (ret < 0 || is_saved)
		return ret;
	ret = fm_cache_use_save(c, id, false);
	return ret < 0 ? fm_err_making(err, ret, c->root,
				       "cache %.200s: write down that it was asked for",
				       c->directory)
		       : 0;
}

int fm_cache_verified(struct fm_cache *c, uint64_t id, struct fm_err *err)
{
	struct fm_cache_entry *e;
	int ret;

	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, id);
	ret = fm_cache_may_use(e, err);
	if (ret == 0)
		e->use.verified = fm_cache_now(c);
	pthread_mutex_unlock(&c->lock);
	if (ret == 0)
		ret = fm_cache_use_save(c, id, true);
	return ret < 0 ? fm_err_making(err, ret, c->root,
				       "cache %.200s: write down that it was verified",
				       c->directory)
		       : 0;
}

/* ---- quota ---- */

static int find_pin(const struct fm_cache_use *use, uid_t uid)
{
	for (unsigned i = 0; i < use->pin_count; i++)
		if (use->pins[i] == uid)
			return (int)i;
	return -1;
}

static bool is_charged(const struct fm_cache_entry *e, uid_t uid)
{
	if (find_pin(&e->use, uid) >= 0)
		return true;
	fm_list_each (at, next, &e->holds)
		if (fm_container_of(at, struct fm_cache_hold, at)->record.uid == uid)
			return true;
	return false;
}

static uint64_t charged(struct fm_cache *c, uid_t uid)
{
	uint64_t sum = 0;

	fm_list_each (at, next, &c->entries) {
		const struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		if (is_charged(e, uid))
			sum = sum + e->set.bytes < sum ? UINT64_MAX : sum + e->set.bytes;
	}
	return sum;
}

uint64_t fm_cache_charged(struct fm_cache *c, uid_t uid)
{
	uint64_t sum;

	pthread_mutex_lock(&c->lock);
	sum = charged(c, uid);
	pthread_mutex_unlock(&c->lock);
	return sum;
}

/* Under the lock. */
static int check_quota(struct fm_cache *c, uid_t uid, const char *name, uint64_t bytes,
		       struct fm_err *err)
{
	uint64_t has = charged(c, uid), quota = c->o.user_quota;

	if (quota == 0 || (has <= quota && bytes <= quota - has))
		return 0;
	return fm_err_set(err, -EDQUOT,
			  "cache %.200s: you hold and pin %" PRIu64 " MiB, %s has %" PRIu64
			  " MiB, and "
			  "staging.user_quota is %" PRIu64
			  " MiB: unpin something, or end a job that holds something",
			  c->directory, has >> 20, name, bytes >> 20, quota >> 20);
}

int fm_cache_may_charge(struct fm_cache *c, const struct fm_cache_entry *e, uid_t uid,
			bool is_elsewhere, struct fm_err *err)
{
	if (is_charged(e, uid) || (uid == 0 && !is_elsewhere))
		return 0;
	return check_quota(c, uid, e->set.name, e->set.bytes, err);
}

int fm_cache_check_quota(struct fm_cache *c, uid_t uid, const char *name, uint64_t bytes,
			 struct fm_err *err)
{
	int ret;

	if (uid == 0)
		return 0;
	pthread_mutex_lock(&c->lock);
	ret = check_quota(c, uid, name, bytes, err);
	pthread_mutex_unlock(&c->lock);
	return ret;
}

/* ---- pins ---- */

static int add_pin(struct fm_cache *c, struct fm_cache_entry *e, uid_t uid, bool is_elsewhere,
		   bool *is_there, struct fm_err *err)
{
	int ret = fm_cache_may_use(e, err);

	*is_there = ret == 0 && find_pin(&e->use, uid) >= 0;
	if (ret < 0 || *is_there)
		return ret;
	ret = fm_cache_may_charge(c, e, uid, is_elsewhere, err);
	if (ret < 0)
		return ret;
	if (e->use.pin_count == FM_CACHE_PINS_MAX)
		return fm_err_full(err, "cache %.200s: %d users pin %s, which is the most",
				   c->directory, FM_CACHE_PINS_MAX, e->set.name);
	e->use.pins[e->use.pin_count++] = uid;
	return 0;
}

static void drop_pin(struct fm_cache_use *use, uid_t uid)
{
	int i = find_pin(use, uid);

	if (i >= 0)
		use->pins[i] = use->pins[--use->pin_count];
}

static int pin(struct fm_cache *c, uint64_t id, uid_t uid, bool is_elsewhere, struct fm_err *err)
{
	struct fm_cache_entry *e;
	bool is_there;
	int ret;

	pthread_mutex_lock(&c->lock);
	ret = add_pin(c, fm_cache_entry_of(c, id), uid, is_elsewhere, &is_there, err);
	pthread_mutex_unlock(&c->lock);
	if (ret < 0 || is_there)
		return ret;
	ret = save(c, id, true);
	if (ret == 0)
		return 0;
	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, id);
	if (e)
		drop_pin(&e->use, uid);
	pthread_mutex_unlock(&c->lock);
	return fm_err_making(err, ret, c->root, "cache %.200s: write down the pin",
			     c->directory);
}

static int pin_alone(struct fm_cache *c, uint64_t id, uid_t uid, bool is_elsewhere,
		     struct fm_err *err)
{
	int ret;

	pthread_mutex_lock(&c->use);
	ret = pin(c, id, uid, is_elsewhere, err);
	pthread_mutex_unlock(&c->use);
	return ret;
}

int fm_cache_pin(struct fm_cache *c, uint64_t id, uid_t uid, struct fm_err *err)
{
	return pin_alone(c, id, uid, false, err);
}

int fm_cache_pin_node(struct fm_cache *c, uint64_t id, uid_t uid, struct fm_err *err)
{
	return pin_alone(c, id, uid, true, err);
}

/*
 * Takes the pins of *use into memory. Pins change only under the lock `use`; the other fields of
 * *use may be older than those in memory.
 */
static void take_pins(struct fm_cache *c, uint64_t id, const struct fm_cache_use *use)
{
	struct fm_cache_entry *e;

	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, id);
	if (e) {
		e->use.pin_count = use->pin_count;
		memcpy(e->use.pins, use->pins, sizeof(use->pins));
	}
	pthread_mutex_unlock(&c->lock);
}

static int unpin(struct fm_cache *c, uint64_t id, uid_t uid, bool is_all, struct fm_err *err)
{
	struct fm_cache_use use;
	int ret, fd = open_entry(c, id, &use);

	if (fd < 0)
		return fm_err_sys(err, fd, "cache %.200s: unpin", c->directory);
	if (is_all ? use.pin_count == 0 : find_pin(&use, uid) < 0) {
		(void)close(fd); /* only looked for */
		return fm_err_set(err, -ENOENT, is_all ? "nobody pins it" : "you do not pin it");
	}
	if (is_all)
		use.pin_count = 0;
	else
		drop_pin(&use, uid);
	ret = write_use(c, fd, &use, true);
	(void)close(fd); /* only a name was changed through it */
	if (ret < 0)
		return fm_err_sys(err, ret, "cache %.200s: write down that it is not pinned",
				  c->directory);
	take_pins(c, id, &use);
	return 0;
}

uint64_t fm_cache_find_pinned(struct fm_cache *c, const char *name, uid_t uid)
{
	uint64_t id = 0;

	pthread_mutex_lock(&c->lock);
	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		if (find_pin(&e->use, uid) >= 0 &&
		    (strcmp(e->set.name, name) == 0 || strcmp(e->set.source, name) == 0))
			id = e->set.id;
	}
	pthread_mutex_unlock(&c->lock);
	return id;
}

int fm_cache_unpin(struct fm_cache *c, uint64_t id, uid_t uid, bool is_all, struct fm_err *err)
{
	int ret;

	pthread_mutex_lock(&c->use);
	ret = unpin(c, id, uid, is_all, err);
	pthread_mutex_unlock(&c->use);
	return ret;
}
