/* SPDX-License-Identifier: MIT */
/*
 * cache - see cache.h. Here: the index in memory, and the calls that it answers without the disk.
 */
#include "staging/cache.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "staging/cache_priv.h"
#include "staging/cache_sys.h"

/* ---- time ---- */

static int64_t real_wall(void *ctx)
{
	struct timespec t;

	(void)ctx;
	(void)clock_gettime(CLOCK_REALTIME, &t); /* cannot fail for a clock that there is */
	return (int64_t)t.tv_sec * (int64_t)FM_NS_PER_S + t.tv_nsec;
}

static uint64_t real_boot(void *ctx)
{
	struct timespec t;

	(void)ctx;
	(void)clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * FM_NS_PER_S + (uint64_t)t.tv_nsec;
}

const struct fm_cache_clock fm_cache_clock_real = {.wall_ns = real_wall, .boot_ns = real_boot};

struct fm_cache_stamp fm_cache_now(const struct fm_cache *c)
{
	int64_t wall_ns = c->o.clock->wall_ns(c->o.clock->ctx);
	uint64_t boot_ns = c->o.clock->boot_ns(c->o.clock->ctx);

	return (struct fm_cache_stamp){wall_ns > 0 ? wall_ns : 1, boot_ns > 0 ? boot_ns : 1};
}

/*
 * Within one boot the clock that nobody can set decides. Over a reboot only the other one is left;
 * what lies in its future counts as now, so that a clock which was set back lets nothing look old.
 */
uint64_t fm_cache_age(const struct fm_cache *c, const struct fm_cache_stamp *stamp)
{
	struct fm_cache_stamp now = fm_cache_now(c);

	if (stamp->boot_ns > 0)
		return now.boot_ns > stamp->boot_ns ? now.boot_ns - stamp->boot_ns : 0;
	return now.wall_ns > stamp->wall_ns ? (uint64_t)(now.wall_ns - stamp->wall_ns) : 0;
}

static int64_t shown(const struct fm_cache *c, int64_t wall_ns)
{
	int64_t now_ns = fm_cache_now(c).wall_ns;

	return wall_ns < now_ns ? wall_ns : now_ns;
}

uint64_t fm_cache_random(void)
{
	uint64_t r = 0;

	while (r == 0)
		fm_random_real.fill(fm_random_real.ctx, &r, sizeof(r));
	return r;
}

/* ---- entries ---- */

struct fm_cache_entry *fm_cache_entry_of(struct fm_cache *c, uint64_t id)
{
	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		if (e->set.id == id)
			return e;
	}
	return NULL;
}

struct fm_cache_entry *fm_cache_entry_new(struct fm_cache *c, struct fm_cache_dataset *set)
{
	struct fm_cache_entry *e = fm_cache_alloc(sizeof(*e));

	if (!e)
		return NULL;
	e->set = *set;
	e->use.id = set->id;
	e->place = FM_CACHE_PARTIAL;
	e->state = FM_CACHE_PLANNED;
	fm_list_init(&e->holds);
	fm_list_append(&c->entries, &e->at);
	c->count++;
	return e;
}

void fm_cache_entry_free(struct fm_cache *c, struct fm_cache_entry *e)
{
	struct fm_list *at;

	while ((at = fm_list_pop(&e->holds))) {
		fm_cache_hold_free(fm_container_of(at, struct fm_cache_hold, at));
		c->hold_count--;
	}
	fm_list_del(&e->at);
	c->count--;
	free(e->set.source);
	fm_budget_free(e);
}

void fm_cache_entry_name(const struct fm_cache_entry *e, char out[static FM_CACHE_ENTRY_NAME_MAX])
{
	if (e->place == FM_CACHE_GONE)
		(void)snprintf(out, FM_CACHE_ENTRY_NAME_MAX, "%016" PRIx64, e->ino);
	else
		fm_cache_key_print(e->place == FM_CACHE_PARTIAL ? &e->set.listing : &e->set.version,
				   out);
}

int fm_cache_entry_open(struct fm_cache *c, uint64_t id)
{
	char name[FM_CACHE_ENTRY_NAME_MAX];
	struct fm_cache_entry *e;
	int dir = -1, fd = -ENOENT;

	pthread_mutex_lock(&c->places);
	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, id);
	if (e && !e->is_going) {
		fm_cache_entry_name(e, name);
		dir = c->dirs[e->place];
	}
	pthread_mutex_unlock(&c->lock);
	if (dir >= 0)
		fd = fm_cache_sys_open(dir, name, FM_CACHE_DIR_FLAGS, 0);
	pthread_mutex_unlock(&c->places);
	return fd;
}

/* No sum of these overflows: a record's values have limits (cache_format.c), and there are few
 * records. */
uint64_t fm_cache_room_of(const struct fm_cache_dataset *set)
{
	return set->bytes + set->files * FM_CACHE_BLOCK;
}

/*
 * The room that a dataset needs of its own. Files shared with another dataset count there, as long
 * as it is here. If it is gone, they count here. A third dataset may have them too: they count
 * twice then, which sets aside too much room, never too little.
 */
uint64_t fm_cache_own_of(struct fm_cache *c, const struct fm_cache_entry *e)
{
	bool is_shared = e->set.shared > 0 && fm_cache_entry_of(c, e->set.base);

	return fm_cache_room_of(&e->set) - (is_shared ? e->set.shared : 0);
}

/* READY or gone, it needs nothing more. */
static uint64_t promised_of(struct fm_cache *c, const struct fm_cache_entry *e)
{
	uint64_t own = fm_cache_own_of(c, e);

	return e->place == FM_CACHE_PARTIAL && own > e->written ? own - e->written : 0;
}

static uint64_t sum_up(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

void fm_cache_sum(struct fm_cache *c, struct fm_cache_sums *out)
{
	*out = (struct fm_cache_sums){
		.size = c->o.size, .datasets = c->count, .holds = c->hold_count};
	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		out->used = sum_up(out->used, fm_cache_own_of(c, e));
		out->promised = sum_up(out->promised, promised_of(c, e));
	}
}

int fm_cache_may_use(struct fm_cache_entry *e, struct fm_err *err)
{
	if (!e || e->is_going)
		return fm_err_set(
			err, -ENOENT,
			"no such dataset is staged here: fmove datasets lists those that are");
	if (e->state != FM_CACHE_EVICTING)
		return 0;
	e->is_wanted = true;
	return fm_err_set(err, -EAGAIN, "%s is being evicted just now: run it again", e->set.name);
}

/* ---- what is there ---- */

const char *fm_cache_state_name(enum fm_cache_state state)
{
	static const char *const names[] = {"absent", "planned", "fetching", "ready", "evicting"};

	return names[state];
}

static bool is_key(const struct fm_cache_key *a, const struct fm_cache_key *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

uint64_t fm_cache_find_version(struct fm_cache *c, const struct fm_cache_key *version)
{
	uint64_t id = 0;

	pthread_mutex_lock(&c->lock);
	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		if (e->place != FM_CACHE_PARTIAL && !e->is_going &&
		    is_key(&e->set.version, version))
			id = e->set.id;
	}
	pthread_mutex_unlock(&c->lock);
	return id;
}

bool fm_cache_has_unread(const struct fm_cache *c)
{
	return c->has_unread;
}

uint64_t fm_cache_find_listing(struct fm_cache *c, const struct fm_cache_key *listing)
{
	uint64_t id = 0;

	pthread_mutex_lock(&c->lock);
	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		/* One that is READY has the CRCs, too: it is the better answer. */
		if (!e->is_going && is_key(&e->set.listing, listing) &&
		    (id == 0 || e->place != FM_CACHE_PARTIAL))
			id = e->set.id;
	}
	pthread_mutex_unlock(&c->lock);
	return id;
}

static bool is_better(const struct fm_cache *c, const struct fm_cache_entry *e,
		      const struct fm_cache_entry *best)
{
	bool is_ready = e->place != FM_CACHE_PARTIAL,
	     is_best_ready = best && best->place != FM_CACHE_PARTIAL;

	if (!best || is_ready != is_best_ready)
		return !best || is_ready;
	return fm_cache_age(c, &e->use.requested) < fm_cache_age(c, &best->use.requested);
}

static bool is_called(const struct fm_cache_entry *e, const char *name)
{
	return strcmp(e->set.name, name) == 0 || strcmp(e->set.source, name) == 0;
}

uint64_t fm_cache_find_name(struct fm_cache *c, const char *name)
{
	struct fm_cache_entry *best = NULL;
	uint64_t id;

	pthread_mutex_lock(&c->lock);
	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		if (!e->is_going && is_called(e, name) && is_better(c, e, best))
			best = e;
	}
	id = best ? best->set.id : 0;
	pthread_mutex_unlock(&c->lock);
	return id;
}

static void describe(struct fm_cache *c, const struct fm_cache_entry *e, struct fm_cache_info *out)
{
	*out = (struct fm_cache_info){
		.id = e->set.id,
		.state = e->state,
		.listing = e->set.listing,
		.bytes = e->set.bytes,
		.shared = fm_cache_room_of(&e->set) - fm_cache_own_of(c, e),
		.extents = e->set.extents,
		.extents_done = e->extents_done,
		.holds = e->hold_count,
		.pins = e->use.pin_count + e->use.far_count,
		.created_ns = shown(c, e->set.created_ns),
		.requested_ns = shown(c, e->use.requested.wall_ns),
		.used_ns = shown(c, e->use.used.wall_ns),
		.verified_ns = shown(c, e->use.verified.wall_ns),
		.begun_ns = e->set.created_ns,
	};
	if (e->place != FM_CACHE_PARTIAL)
		out->version = e->set.version;
	(void)snprintf(out->name, sizeof(out->name), "%s", e->set.name);
	(void)snprintf(out->source, sizeof(out->source), "%s", e->set.source);
}

bool fm_cache_look(struct fm_cache *c, uint64_t id, struct fm_cache_info *out)
{
	struct fm_cache_entry *e;

	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, id);
	if (e)
		describe(c, e, out);
	pthread_mutex_unlock(&c->lock);
	return e != NULL;
}

void fm_cache_sums(struct fm_cache *c, struct fm_cache_sums *out)
{
	pthread_mutex_lock(&c->lock);
	fm_cache_sum(c, out);
	pthread_mutex_unlock(&c->lock);
}

size_t fm_cache_list(struct fm_cache *c, uint64_t *ids, size_t max)
{
	size_t count = 0;

	pthread_mutex_lock(&c->lock);
	fm_list_each (at, next, &c->entries)
		if (count < max)
			ids[count++] = fm_container_of(at, struct fm_cache_entry, at)->set.id;
	pthread_mutex_unlock(&c->lock);
	return count;
}

int fm_cache_path(struct fm_cache *c, uint64_t id, char *out, size_t max)
{
	char version[FM_CACHE_HEX_LEN + 1];
	struct fm_cache_entry *e;
	int ret = 0;

	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, id);
	if (!e || e->is_going)
		ret = -ENOENT;
	else if (e->place == FM_CACHE_PARTIAL)
		ret = -EINVAL;
	if (ret == 0) {
		fm_cache_key_print(&e->set.version, version);
		if ((size_t)snprintf(out, max, "%s/ready/%s/%s", c->directory, version,
				     e->set.name) >= max)
			ret = -ENAMETOOLONG;
	}
	pthread_mutex_unlock(&c->lock);
	return ret;
}

/* ---- the whole ---- */

static void free_all(struct fm_cache *c)
{
	struct fm_list *at;

	while (!fm_list_is_empty(&c->entries)) {
		struct fm_cache_entry *e =
			fm_container_of(c->entries.next, struct fm_cache_entry, at);

		assert(!e->is_busy && !e->is_fetched);
		fm_cache_entry_free(c, e);
	}
	while ((at = fm_list_pop(&c->ended)))
		fm_cache_hold_free(fm_container_of(at, struct fm_cache_hold, at));
	pthread_mutex_destroy(&c->lock);
	pthread_mutex_destroy(&c->places);
	pthread_mutex_destroy(&c->use);
	pthread_mutex_destroy(&c->room);
	free(c->directory);
	free(c->real);
	free(c->place);
	fm_budget_free(c);
}

static void set_limits(struct fm_cache *c, const struct fm_cache_opts *opts)
{
	assert(opts->low <= opts->high && opts->high <= 100);
	c->o.size = opts->size;
	c->o.high = opts->high;
	c->o.low = opts->low;
	c->o.grace_ns = opts->grace_ns;
	c->o.user_quota = opts->user_quota;
}

dev_t fm_cache_device(const struct fm_cache *c)
{
	return c->device;
}

int fm_cache_open(const struct fm_cache_opts *opts, struct fm_cache **out, struct fm_err *err)
{
	struct fm_cache *c = fm_cache_alloc(sizeof(*c));
	int ret;

	if (!c)
		return fm_err_set(err, -ENOMEM, "no memory for the cache %s", opts->directory);
	c->o.clock = opts->clock ? opts->clock : &fm_cache_clock_real;
	set_limits(c, opts);
	fm_list_init(&c->entries);
	fm_list_init(&c->ended);
	pthread_mutex_init(&c->room, NULL);
	pthread_mutex_init(&c->use, NULL);
	pthread_mutex_init(&c->places, NULL);
	pthread_mutex_init(&c->lock, NULL);
	c->directory = FM_FAULT("cache.alloc") ? NULL : strdup(opts->directory);
	ret = c->directory ? fm_cache_load(c, err)
			   : fm_err_set(err, -ENOMEM, "no memory for a cache");
	if (ret < 0) {
		free_all(c);
		return fm_err_wrap(err, "cache %.200s", opts->directory);
	}
	*out = c;
	return 0;
}

void fm_cache_close(struct fm_cache *c)
{
	if (!c)
		return;
	fm_cache_holds_end(c);
	for (int i = 0; i < FM_CACHE_PLACES; i++)
		(void)close(c->dirs[i]); /* only names were changed through it */
	/* a process that we forked may have them open, too */
	(void)flock(c->locked, LOCK_UN);
	(void)flock(c->root, LOCK_UN);
	(void)close(c->locked); /* nothing was written to it */
	(void)close(c->root);
	free_all(c);
}
