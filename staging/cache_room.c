/* SPDX-License-Identifier: MIT */
/*
 * cache_room - whether there is room, and what goes for it.
 *
 * Two things bound it: the size that the cache is given, and what the file system has free now less
 * what is promised and not written yet. Others write to the file system, too, so what it has free
 * is asked each time and never remembered. The index has so many places, and no more.
 *
 * What is promised is read before the file system is asked. What is written between the two then
 * counts twice, which refuses too much for a moment; the other way round it would count not at all.
 * Nobody promises more meanwhile: that needs `room`. What is written is told by its fetch
 * (fm_cache_fetch_wrote()) while one is open, else measured here.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "staging/cache_file.h"
#include "staging/cache_priv.h"
#include "staging/cache_sys.h"
#include "staging/evict.h"

/* A request is written down once a minute at most (cache_use.c): after a crash it may be so much
 * older. */
#define GRACE_MORE_NS (60 * FM_NS_PER_S)

#define OWN_FILES 16 /* of a dataset beside what is in it: more than there are */
#define FEW_FILES 4096 /* a walk through so many takes milliseconds */

struct room {
	struct fm_cache_sums sums;
	uint64_t high; /* bytes */
	uint64_t low;
	uint64_t free; /* of the file system, for us */
	uint64_t files_free;
};

static uint64_t percent_of(uint64_t bytes, unsigned percent)
{
	return bytes / 100 * percent + bytes % 100 * percent / 100;
}

static int look(struct fm_cache *c, struct room *r)
{
	struct statvfs fs;
	int ret;

	pthread_mutex_lock(&c->lock);
	fm_cache_sum(c, &r->sums);
	r->high = percent_of(c->o.size, c->o.high);
	r->low = percent_of(c->o.size, c->o.low);
	pthread_mutex_unlock(&c->lock);
	ret = fm_cache_sys_statvfs(c->root, &fs);
	if (ret < 0)
		return ret;
	r->free = (uint64_t)fs.f_bavail * fs.f_frsize;
	r->files_free = fs.f_files == 0 ? UINT64_MAX : fs.f_favail;
	return 0;
}

static uint64_t more_than(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

static uint64_t lacking_on_disk(const struct room *r, uint64_t bytes)
{
	return more_than(plus(r->sums.promised, bytes), r->free);
}

/*
 * How many bytes must be freed: what is used above the mark, or what the file system lacks,
 * whichever is more.
 */
static uint64_t lacking(const struct room *r, uint64_t bytes, uint64_t mark)
{
	uint64_t of_size = more_than(plus(r->sums.used, bytes), mark);
	uint64_t of_disk = lacking_on_disk(r, bytes);

	return of_size > of_disk ? of_size : of_disk;
}

/* ---- what is there of partial datasets ---- */

static int measure_file(void *ctx, int dir, const char *name, const struct stat *st)
{
	(void)dir;
	(void)name;
	/* A hard link of another version takes no room, and none was set aside for it. */
	if (st->st_nlink == 1)
		*(uint64_t *)ctx += (uint64_t)st->st_blocks * 512;
	return 0;
}

static int measure_dir(void *ctx, int fd)
{
	(void)fd;
	*(uint64_t *)ctx += FM_CACHE_BLOCK;
	return 0;
}

/*
 * While it comes, its fetch says what was written. But a large file takes its room when it is made,
 * long before its bytes are there, and of a dataset of few files one may be all.
 */
static bool is_to_measure(const struct fm_cache_entry *e)
{
	return e->place == FM_CACHE_PARTIAL && !e->is_going &&
	       (!e->is_measured || (e->is_fetched && e->set.files <= FEW_FILES));
}

static uint64_t next_to_measure(struct fm_cache *c, uint64_t after,
				char name[static FM_CACHE_ENTRY_NAME_MAX])
{
	struct fm_cache_entry *best = NULL;

	pthread_mutex_lock(&c->lock);
	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		if (is_to_measure(e) && e->set.id > after &&
		    (!best || e->set.id < best->set.id))
			best = e;
	}
	if (best)
		fm_cache_entry_name(best, name);
	after = best ? best->set.id : 0;
	pthread_mutex_unlock(&c->lock);
	return after;
}

/*
 * Measures what earlier fetches left, since that takes room already. Only the disk knows how much:
 * a failed fetch may have removed some, and a killed one said nothing. Each partial dataset is
 * measured once after its fetch. If that fails, as much stays promised as before; after a start,
 * all of it.
 */
static void measure(struct fm_cache *c)
{
	char name[FM_CACHE_ENTRY_NAME_MAX];
	uint64_t written = 0;
	const struct fm_cache_visitor visitor = {
		.file = measure_file, .dir = measure_dir, .ctx = &written};

	for (uint64_t id = next_to_measure(c, 0, name); id != 0;
	     id = next_to_measure(c, id, name)) {
		struct fm_cache_entry *e;

		written = 0;
		if (fm_cache_walk(c->dirs[FM_CACHE_PARTIAL], name, &visitor) < 0)
			continue;
		pthread_mutex_lock(&c->lock);
		e = fm_cache_entry_of(c, id);
		if (e) {
			e->written = written;
			e->is_measured = true;
		}
		pthread_mutex_unlock(&c->lock);
	}
}

/* ---- what could go ---- */

/*
 * When it was asked for last. What an interrupted fetch left stays as long from its end on, as if
 * somebody had asked then: a fetch may take longer than the grace, and who waited for it will ask
 * again.
 */
static uint64_t asked_of(const struct fm_cache *c, const struct fm_cache_entry *e)
{
	uint64_t asked_ns = fm_cache_age(c, &e->use.requested);
	uint64_t used_ns = fm_cache_age(c, &e->use.used);

	return e->place == FM_CACHE_PARTIAL && used_ns < asked_ns ? used_ns : asked_ns;
}

struct fm_evict_item fm_cache_item_of(struct fm_cache *c, struct fm_cache_entry *e)
{
	return (struct fm_evict_item){
		.id = e->set.id,
		.bytes = fm_cache_own_of(c, e),
		.age_ns = fm_cache_age(c, &e->use.used),
		.asked_ns = asked_of(c, e),
		.cost = e->set.cost,
		.is_ready = e->state == FM_CACHE_READY,
		.is_busy = e->is_busy || e->is_fetched || e->is_going ||
			   e->state == FM_CACHE_EVICTING,
		.pins = e->use.pin_count + e->use.far_count,
		.holds = e->hold_count + e->kept,
	};
}

static uint64_t grace_of(const struct fm_cache *c)
{
	return c->o.grace_ns ? c->o.grace_ns + GRACE_MORE_NS : 0;
}

/* Lists all datasets for eviction. The caller frees the list with fm_budget_free(). */
static int list_items(struct fm_cache *c, struct fm_evict_item **out, size_t *count,
		      uint64_t *grace_ns)
{
	struct fm_evict_item *items = NULL;

	pthread_mutex_lock(&c->lock);
	*count = 0;
	*grace_ns = grace_of(c);
	items = fm_cache_alloc((c->count + 1) * sizeof(*items));
	if (items)
		fm_list_each (at, next, &c->entries)
			items[(*count)++] =
				fm_cache_item_of(c, fm_container_of(at, struct fm_cache_entry, at));
	pthread_mutex_unlock(&c->lock);
	*out = items;
	return items ? 0 : -ENOMEM;
}

/*
 * What the disk gets back if all of them go. It is never less than what it does get: some may be
 * open, and what two share counts for the other one then.
 */
static uint64_t sum_of(const struct fm_evict_item *items, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum = plus(sum, items[i].bytes);
	return sum;
}

/*
 * Whether what is asked for has no room even if all goes that may. Then nothing goes for it: else a
 * request for what is larger than the cache empties that.
 */
static bool is_beyond(const struct room *r, uint64_t bytes, uint64_t may)
{
	return bytes > 0 && lacking(r, bytes, r->sums.size) > may;
}

/* Of a user's, to go for his quota. */
struct chosen {
	const struct fm_cache_left *left;
	uint64_t bytes; /* that these give back, at most */
};

static bool is_chosen(const struct chosen *later, uint64_t id)
{
	for (size_t i = 0; later && i < later->left->count; i++)
		if (later->left->items[i].id == id)
			return true;
	return false;
}

/*
 * Until enough is free: down to the low mark, once anything has to go. One that cannot go is passed
 * over. What was chosen goes later: so much is free then. NULL: nothing was.
 */
static int evict_for(struct fm_cache *c, uint64_t bytes, const struct chosen *later, struct room *r)
{
	uint64_t coming = later ? later->bytes : 0, grace_ns;
	struct fm_evict_item *items;
	size_t count;
	int ret;

	if (lacking(r, bytes, r->high) <= coming)
		return 0;
	ret = list_items(c, &items, &count, &grace_ns);
	if (ret < 0)
		return ret;
	count = fm_evict_order(items, count, grace_ns);
	if (is_beyond(r, bytes, plus(sum_of(items, count), coming)))
		count = 0;
	for (size_t i = 0; i < count && ret == 0 && lacking(r, bytes, r->low) > coming; i++)
		if (!is_chosen(later, items[i].id) && fm_cache_evict(c, items[i].id) == 0)
			ret = look(c, r);
	fm_budget_free(items);
	return ret;
}

/* ---- that there is none ---- */

/* The datasets that are still here: bytes for each reason. */
struct staying {
	uint64_t of[FM_EVICT_GRACE + 1];
	unsigned count[FM_EVICT_GRACE + 1];
};

static int count_staying(struct fm_cache *c, struct staying *s)
{
	struct fm_evict_item *items;
	uint64_t grace_ns;
	size_t count;
	int ret = list_items(c, &items, &count, &grace_ns);

	*s = (struct staying){.of = {0}};
	for (size_t i = 0; ret == 0 && i < count; i++) {
		enum fm_evict_reason reason = fm_evict_reason(&items[i], grace_ns);

		s->of[reason] = plus(s->of[reason], items[i].bytes);
		s->count[reason]++;
	}
	if (ret == 0)
		fm_budget_free(items);
	return ret;
}

static void add(char *text, size_t max, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void add(char *text, size_t max, const char *fmt, ...)
{
	size_t len = strlen(text);
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text + len, max - len, fmt, args);
	va_end(args);
}

/* "; this makes room: ...", of what would help, the surest first; last (or NULL) always does. */
static void say_what_helps(const struct staying *s, const char *last, char *text, size_t max)
{
	static const struct {
		enum fm_evict_reason why;
		const char *what, *how;
	} helps[] = {
		{ FM_EVICT_PINNED, "unpin", " pinned" },
		{ FM_EVICT_HELD, "end jobs", " held" },
		{ FM_EVICT_GRACE, "wait for staging.grace or unstage", "" },
		{ FM_EVICT_BUSY, "cancel what is fetched", "" },
		{ FM_EVICT_MAY, "close what is open", "" },
	};
	const char *comma = "; this makes room: ";

	for (size_t i = 0; i < sizeof(helps) / sizeof(helps[0]); i++) {
		if (s->count[helps[i].why] == 0)
			continue;
		add(text, max, "%s%s (%" PRIu64 " MiB in %u%s)", comma, helps[i].what,
		    s->of[helps[i].why] >> 20, s->count[helps[i].why], helps[i].how);
		comma = ", ";
	}
	if (last)
		add(text, max, "%s%s", comma, last);
}

static int refuse(struct fm_cache *c, const struct room *r, uint64_t bytes, const char *name,
		  struct fm_err *err)
{
	/* where it lacks more */
	bool is_disk = lacking_on_disk(r, bytes) == lacking(r, bytes, r->sums.size);
	uint64_t has = is_disk ? more_than(r->free, r->sums.promised)
			       : more_than(r->sums.size, r->sums.used);
	char helps[FM_ERR_TEXT_MAX] = "";
	struct staying s;

	if (count_staying(c, &s) == 0) {
		/* They are here since they were not enough, not since they are open. */
		if (is_beyond(r, bytes, s.of[FM_EVICT_MAY])) {
			has = plus(has, s.of[FM_EVICT_MAY]);
			s.count[FM_EVICT_MAY] = 0;
		}
		say_what_helps(&s,
			       is_disk ? "remove other files from its file system"
				       : "raise staging.size",
			       helps, sizeof(helps));
	}
	return fm_err_set(err, -ENOSPC,
			  "cache %.100s has no room for %.60s: %" PRIu64 " MiB are needed, %" PRIu64
			  " MiB %s%s",
			  c->directory, name ? name : "more", bytes >> 20, has >> 20,
			  is_disk ? "can be had on its file system" : "can be had of its size",
			  helps);
}

/* What the disk gets back at most; files with our own, and directories. */
struct going {
	uint64_t bytes, files;
};

static void add_going(struct fm_cache *c, const struct fm_evict_item *item, struct going *g)
{
	const struct fm_cache_entry *e;

	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, item->id);
	g->files = plus(g->files, e ? plus(e->set.files, OWN_FILES) : 0);
	pthread_mutex_unlock(&c->lock);
	g->bytes = plus(g->bytes, item->bytes);
}

/* What can go beside what was chosen, and that. */
static int sum_of_all(struct fm_cache *c, const struct fm_cache_left *left, struct going *may)
{
	struct fm_evict_item *items;
	uint64_t grace_ns;
	size_t count;
	int ret = list_items(c, &items, &count, &grace_ns);

	if (ret < 0)
		return ret;
	count = fm_evict_order(items, count, grace_ns);
	for (size_t i = 0; i < count; i++)
		add_going(c, &items[i], may);
	for (size_t i = 0; i < left->count; i++)
		if (fm_evict_reason(&left->items[i], grace_ns) != FM_EVICT_MAY)
			add_going(c, &left->items[i], may);
	fm_budget_free(items);
	return 0;
}

static int refuse_files(struct fm_cache *c, const struct room *r, uint64_t files, const char *name,
			struct fm_err *err)
{
	return fm_err_set(
		err, -ENOSPC,
		"cache %.200s: its file system can have %" PRIu64 " files more, and %.60s "
		"has %" PRIu64 ": remove files from it, or make it with more inodes",
		c->directory, r->files_free, name ? name : "this", files);
}

int fm_cache_room_check(struct fm_cache *c, uint64_t bytes, uint64_t files,
			const struct fm_cache_left *left, const char *name, struct fm_err *err)
{
	struct going may = {.bytes = 0};
	struct room r;
	int ret;

	if (left->count == 0)
		return 0; /* whoever makes room looks first, too */
	fm_cache_holds_end(c);
	measure(c);
	ret = look(c, &r);
	if (ret == 0)
		ret = sum_of_all(c, left, &may);
	if (ret < 0)
		return fm_err_sys(err, ret, "cache %.200s: how much is free", c->directory);
	if (lacking(&r, bytes, r.sums.size) > may.bytes)
		return refuse(c, &r, bytes, name, err);
	return plus(r.files_free, may.files) < files ? refuse_files(c, &r, files, name, err) : 0;
}

int fm_cache_room_beside(struct fm_cache *c, uint64_t bytes, uint64_t files,
			 const struct fm_cache_left *left, const char *name, struct fm_err *err)
{
	struct going of_left = {.bytes = 0};
	struct chosen later = {.left = left};
	struct room r;
	int ret;

	if (left->count == 0)
		return 0; /* it is made when nothing is to go before it */
	for (size_t i = 0; i < left->count; i++)
		add_going(c, &left->items[i], &of_left);
	later.bytes = of_left.bytes;
	ret = look(c, &r);
	if (ret == 0)
		ret = evict_for(c, bytes, &later, &r);
	if (ret < 0)
		return fm_err_sys(err, ret, "cache %.200s: how much is free", c->directory);
	if (lacking(&r, bytes, r.sums.size) > of_left.bytes)
		return refuse(c, &r, bytes, name, err);
	return plus(r.files_free, of_left.files) < files ? refuse_files(c, &r, files, name, err)
							 : 0;
}

int fm_cache_room_make(struct fm_cache *c, uint64_t bytes, uint64_t files, const char *name,
		       struct fm_err *err)
{
	struct room r;
	int ret;

	fm_cache_holds_end(c);
	measure(c);
	ret = look(c, &r);
	if (ret == 0)
		ret = evict_for(c, bytes, NULL, &r);
	if (ret < 0)
		return fm_err_sys(err, ret, "cache %.200s: how much is free", c->directory);
	if (lacking(&r, bytes, r.sums.size) > 0)
		return refuse(c, &r, bytes, name, err);
	return r.files_free < files ? refuse_files(c, &r, files, name, err) : 0;
}

int fm_cache_make_room_for(struct fm_cache *c, uint64_t bytes, const char *name,
			   struct fm_err *err)
{
	int ret;

	pthread_mutex_lock(&c->room);
	ret = fm_cache_room_make(c, bytes, 0, name, err);
	pthread_mutex_unlock(&c->room);
	return ret;
}

int fm_cache_make_room(struct fm_cache *c, uint64_t bytes, struct fm_err *err)
{
	return fm_cache_make_room_for(c, bytes, NULL, err);
}

/* ---- a place ---- */

static unsigned count_of(struct fm_cache *c)
{
	unsigned count;

	pthread_mutex_lock(&c->lock);
	count = c->count;
	pthread_mutex_unlock(&c->lock);
	return count;
}

static int no_place(struct fm_cache *c, const char *name, struct fm_err *err)
{
	char helps[FM_ERR_TEXT_MAX] = "";
	struct staying s;

	if (count_staying(c, &s) == 0)
		say_what_helps(&s, NULL, helps, sizeof(helps));
	return fm_err_set(err, -ENOSPC,
			  "cache %.100s has no place for %.60s: %u datasets are there, %d may be, "
			  "and none can go for it%s",
			  c->directory, name, count_of(c), FM_CACHE_DATASETS_MAX, helps);
}

/*
 * A node counts as one, whichever user it names: it says who they are. What was here at a start
 * came for nobody who is known.
 */
static bool is_for(const struct fm_cache_entry *e, const struct fm_cache_plan *plan)
{
	if (!e->has_asker || strcmp(e->asker_node, plan->node ? plan->node : "") != 0)
		return false;
	return plan->node || e->asker == plan->uid;
}

/* How many datasets cannot go yet, and how many of these came for who asks now. */
static uint64_t count_stuck(struct fm_cache *c, const struct fm_cache_plan *plan, uint64_t *his)
{
	uint64_t stuck = 0;

	*his = 0;
	pthread_mutex_lock(&c->lock);
	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);
		struct fm_evict_item item = fm_cache_item_of(c, e);

		if (fm_evict_reason(&item, grace_of(c)) == FM_EVICT_MAY)
			continue;
		stuck++;
		*his += is_for(e, plan);
	}
	pthread_mutex_unlock(&c->lock);
	return stuck;
}

/*
 * The rule of base/share.h, for what cannot go yet: one has at most seven times the places that he
 * leaves. What may go is in nobody's way.
 */
static int check_share(struct fm_cache *c, const struct fm_cache_plan *plan, uint64_t going,
		       struct fm_err *err)
{
	bool is_root = plan->uid == 0 && !plan->node;
	uint64_t most = FM_CACHE_DATASETS_MAX - (is_root ? 0 : FM_CACHE_ROOT_DATASETS), his;
	uint64_t left = more_than(most, more_than(count_stuck(c, plan, &his), going));

	his = more_than(his, going);
	if (left > 0 && (is_root || his == 0 || his + 1 <= 7 * (left - 1)))
		return 0;
	if (left == 0)
		return no_place(c, plan->name, err);
	return fm_err_set(err, -EDQUOT,
			  "cache %.100s has no place for %.60s: %" PRIu64 " of the %d datasets "
			  "that may be here came for %s and cannot go yet, and the rest is for "
			  "others: unstage some, or wait for staging.grace",
			  c->directory, plan->name, his, FM_CACHE_DATASETS_MAX,
			  plan->node ? "users of that node" : "you");
}

static int evict_for_place(struct fm_cache *c, const char *name, struct fm_err *err)
{
	struct fm_evict_item *items;
	uint64_t grace_ns;
	size_t count;
	int ret = list_items(c, &items, &count, &grace_ns);

	if (ret < 0)
		return fm_err_set(err, ret, "no memory to look for a place for %s", name);
	count = fm_evict_order(items, count, grace_ns);
	for (size_t i = 0; i < count && count_of(c) >= FM_CACHE_DATASETS_MAX; i++)
		(void)fm_cache_evict(c, items[i].id); /* one that cannot go is passed over */
	fm_budget_free(items);
	return count_of(c) < FM_CACHE_DATASETS_MAX ? 0 : no_place(c, name, err);
}

int fm_cache_place_check(struct fm_cache *c, const struct fm_cache_plan *plan,
			 const struct fm_cache_left *left, struct fm_err *err)
{
	uint64_t going = 0; /* of those that cannot go for others */

	for (size_t i = 0; i < left->count; i++)
		going += fm_evict_reason(&left->items[i], grace_of(c)) != FM_EVICT_MAY;
	/* Of half of them nobody can have more than his share. */
	return count_of(c) < FM_CACHE_DATASETS_MAX / 2 ? 0 : check_share(c, plan, going, err);
}

int fm_cache_place_make(struct fm_cache *c, const char *name, struct fm_err *err)
{
	return count_of(c) < FM_CACHE_DATASETS_MAX ? 0 : evict_for_place(c, name, err);
}

bool fm_cache_has_made_room(struct fm_cache *c, int code)
{
	struct fm_err err;	/* the first try's is told */

	return fm_cache_is_full(code) && fm_cache_make_room(c, FM_CACHE_BLOCK, &err) == 0;
}

/* ---- upkeep ---- */

/* Above the high mark, and where others left the file system less than what is promised. */
static void trim(struct fm_cache *c)
{
	struct room r;
	int ret;

	pthread_mutex_lock(&c->room);
	measure(c);
	ret = look(c, &r);
	if (ret == 0)
		ret = evict_for(c, 0, NULL, &r);
	pthread_mutex_unlock(&c->room);
	if (ret < 0)
		fm_log_warn("cache %s: nothing can be evicted now: %s", c->directory,
			    fm_err_name(ret));
}

static uint64_t next_new_use(struct fm_cache *c, uint64_t after)
{
	uint64_t id = 0;

	pthread_mutex_lock(&c->lock);
	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		if (e->is_use_new && !e->is_going && e->set.id > after &&
		    (id == 0 || e->set.id < id))
			id = e->set.id;
	}
	pthread_mutex_unlock(&c->lock);
	return id;
}

void fm_cache_upkeep(struct fm_cache *c)
{
	fm_cache_mount_look(c);
	fm_cache_holds_end(c);
	/* One that cannot be written is tried again next time: each is tried once here. */
	for (uint64_t id = next_new_use(c, 0); id != 0; id = next_new_use(c, id))
		(void)fm_cache_use_save(c, id, false);
	fm_cache_clear_gone(c);
	trim(c);
}
