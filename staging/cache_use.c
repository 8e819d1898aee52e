/* SPDX-License-Identifier: MIT */
/*
 * cache_use - requests for a dataset, pins, and the quota that they are charged to.
 *
 * A pin counts in memory before it is on the disk. It is removed from the disk before it stops to
 * count in memory. So a dataset is never evicted while somebody was told that it is pinned.
 *
 * What another node does in the name of a user is kept apart from what he does here: that node says
 * who he is, and nobody else. It takes away only what it asked for itself, and what it asked for
 * takes nothing from the user's quota here. All that one node pins is bounded.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "staging/cache_file.h"
#include "staging/cache_priv.h"
#include "staging/cache_sys.h"

/* A request within that time after one that is written down need not be. */
#define SAVED_FOR_NS (60 * FM_NS_PER_S)

/* ---- the file ---- */

/*
 * Without its times a dataset counts as asked for just now, which costs nothing. Without its pins
 * it may go, so no writing may lose them, whatever it is for.
 */
static enum fm_cache_sync sync_of(const struct fm_cache_use *use, bool is_durable)
{
	if (is_durable)
		return FM_CACHE_SYNC_ALL;
	return use->pin_count + use->far_count > 0 ? FM_CACHE_SYNC_CONTENT : FM_CACHE_SYNC_NONE;
}

static int write_use(struct fm_cache *c, int dir, struct fm_cache_use *use, bool is_durable)
{
	uint8_t bytes[FM_CACHE_USE_MAX];

	memcpy(use->boot, c->boot, sizeof(use->boot));
	return fm_cache_file_write(dir, FM_CACHE_USE_NAME, bytes,
				   fm_cache_put_use(use, bytes, sizeof(bytes)),
				   sync_of(use, is_durable));
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
 * minute longer (cache_room.c). A full disk keeps nobody from what is there: upkeep tries again.
 */
int fm_cache_request(struct fm_cache *c, uint64_t id, struct fm_err *err)
{
	struct fm_cache_entry *e;
	bool is_saved = false;
	int ret = fm_cache_mount_check(c, err);

	if (ret < 0)
		return ret;
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
	return ret < 0 && !fm_cache_is_full(ret)
		       ? fm_err_making(err, ret, c->root,
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

/* The pin that this node asked for; NULL: that any one did. */
static int find_far(const struct fm_cache_use *use, uid_t uid, const char *node)
{
	for (unsigned i = 0; i < use->far_count; i++)
		if (use->far[i].uid == uid && (!node || strcmp(use->far[i].node, node) == 0))
			return (int)i;
	return -1;
}

/*
 * Whether it is one of this service itself, which has no process and lets go by itself. It is
 * nobody's, also one of a check that a user asked for: else what this node serves or reads just
 * then could be held from another node for nothing, and stay so.
 */
static bool is_ours(const struct fm_cache_hold_record *h)
{
	return h->process.pid == 0 && !h->node[0];
}

bool fm_cache_is_charged(const struct fm_cache_entry *e, uid_t uid, bool is_any)
{
	if (find_pin(&e->use, uid) >= 0 || (is_any && find_far(&e->use, uid, NULL) >= 0))
		return true;
	fm_list_each (at, next, &e->holds) {
		const struct fm_cache_hold_record *h =
			&fm_container_of(at, struct fm_cache_hold, at)->record;

		if (h->uid == uid && !is_ours(h) && (is_any || !h->node[0]))
			return true;
	}
	return false;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/* Which of what comes for a user counts beside what he holds and pins. */
enum coming { NO_COMING, FETCHED, INTERRUPTED_TOO };

/* What is asked of a user's quota. */
struct charge {
	uid_t uid;
	bool is_any; /* what he does from other nodes counts, too */
	const char *name;
	uint64_t bytes; /* more */
	enum coming coming;
	const struct fm_cache_key *listing; /* of what is asked for: it may come already */
	const char *node; /* that asks for it in his name; "": he himself, here */
	uint64_t gone; /* of what counts, so much goes first */
};

static bool is_coming_for(const struct fm_cache_entry *e, const struct charge *g)
{
	return e->place == FM_CACHE_PARTIAL && e->has_asker && e->asker == g->uid &&
	       (g->is_any || !e->asker_node[0]) &&
	       memcmp(&e->set.listing, g->listing, sizeof(*g->listing)) != 0;
}

/*
 * Whether an interrupted fetch left it that came for him from where he asks now: another node that
 * says who he is takes nothing from him that he had come here, or by way of a third one.
 */
static bool is_left_for(const struct fm_cache_entry *e, const struct charge *g)
{
	return !e->is_fetched && is_coming_for(e, g) && strcmp(e->asker_node, g->node) == 0;
}

static bool counts(const struct fm_cache_entry *e, const struct charge *g)
{
	if (fm_cache_is_charged(e, g->uid, g->is_any))
		return true;
	return (g->coming != NO_COMING && e->is_fetched && is_coming_for(e, g)) ||
	       (g->coming == INTERRUPTED_TOO && is_left_for(e, g));
}

/* What the cache charges for them, so that many small files are not free. */
static uint64_t charged(struct fm_cache *c, const struct charge *g)
{
	uint64_t sum = 0;

	fm_list_each (at, next, &c->entries) {
		const struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		if (counts(e, g))
			sum = plus(sum, fm_cache_room_of(&e->set));
	}
	return sum;
}

uint64_t fm_cache_charged(struct fm_cache *c, uid_t uid)
{
	uint64_t sum;

	pthread_mutex_lock(&c->lock);
	sum = charged(c, &(struct charge){.uid = uid, .is_any = true});
	pthread_mutex_unlock(&c->lock);
	return sum;
}

static bool has_room_for(const struct fm_cache *c, const struct charge *g, uint64_t has)
{
	uint64_t quota = c->o.user_quota;

	return quota == 0 || (has <= quota && g->bytes <= quota - has);
}

/* Under the lock. */
static int check_quota(struct fm_cache *c, const struct charge *g, struct fm_err *err)
{
	struct charge held = *g;
	uint64_t has = charged(c, g) - g->gone, quota = c->o.user_quota;
	bool is_coming;

	if (has_room_for(c, g, has))
		return 0;
	held.coming = NO_COMING;
	is_coming = charged(c, &held) < has;
	return fm_err_set(err, -EDQUOT,
			  "cache %.200s: you %s %" PRIu64 " MiB, %s has %" PRIu64 " MiB, and "
			  "staging.user_quota is %" PRIu64 " MiB: unpin something, %s",
			  c->directory, is_coming ? "hold, pin and fetch" : "hold and pin",
			  has >> 20, g->name, g->bytes >> 20, quota >> 20,
			  is_coming ? "end a job that holds something, or cancel what is fetched"
				    : "or end a job that holds something");
}

/* Whether another node holds or pins it for him. */
static bool is_charged_far(const struct fm_cache_entry *e, uid_t uid)
{
	if (find_far(&e->use, uid, NULL) >= 0)
		return true;
	fm_list_each (at, next, &e->holds) {
		const struct fm_cache_hold_record *h =
			&fm_container_of(at, struct fm_cache_hold, at)->record;

		if (h->uid == uid && h->node[0])
			return true;
	}
	return false;
}

/*
 * What he holds here himself does not make it free for another node in his name: it may end at
 * once, and that stays. It is in the sum already, which may be too large by what he did here.
 */
int fm_cache_may_charge(struct fm_cache *c, const struct fm_cache_entry *e, uid_t uid,
			bool is_elsewhere, struct fm_err *err)
{
	bool is_counted = fm_cache_is_charged(e, uid, is_elsewhere);

	if (is_elsewhere ? is_charged_far(e, uid) : is_counted || uid == 0)
		return 0;
	return check_quota(c,
			   &(struct charge){.uid = uid,
					    .is_any = is_elsewhere,
					    .name = e->set.name,
					    .bytes = is_counted ? 0 : fm_cache_room_of(&e->set)},
			   err);
}

static struct charge charge_of(const struct fm_cache_plan *plan, enum coming coming)
{
	uint64_t files = plan->files > UINT64_MAX / FM_CACHE_BLOCK ? UINT64_MAX
								   : plan->files * FM_CACHE_BLOCK;

	return (struct charge){.uid = plan->uid,
			       .is_any = plan->node,
			       .name = plan->name,
			       .bytes = plus(plan->bytes, files),
			       .coming = coming,
			       .listing = &plan->listing,
			       .node = plan->node ? plan->node : ""};
}

static bool has_quota(const struct fm_cache_plan *plan)
{
	return plan->uid != 0 || plan->node;
}

int fm_cache_check_quota(struct fm_cache *c, const struct fm_cache_plan *plan, struct fm_err *err)
{
	const struct charge g = charge_of(plan, FETCHED);
	int ret;

	if (!has_quota(plan))
		return 0;
	pthread_mutex_lock(&c->lock);
	ret = check_quota(c, &g, err);
	pthread_mutex_unlock(&c->lock);
	return ret;
}

/* Under the lock: what interrupted fetches of his left and may go, in that order. */
static int list_left(struct fm_cache *c, const struct charge *g, struct fm_cache_left *out)
{
	out->items = fm_cache_alloc((c->count + 1) * sizeof(*out->items));
	if (!out->items)
		return -ENOMEM;
	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		if (is_left_for(e, g))
			out->items[out->all++] = fm_cache_item_of(c, e);
	}
	out->all = fm_evict_order(out->items, out->all, 0); /* he does without its grace */
	return 0;
}

/* Under the lock: as many of them as make room in his quota. */
static uint64_t count_left(struct fm_cache *c, const struct charge *g, struct fm_cache_left *left)
{
	uint64_t has = charged(c, g), gone = 0;

	while (left->count < left->all && !has_room_for(c, g, has - gone)) {
		const struct fm_cache_entry *e =
			fm_cache_entry_of(c, left->items[left->count++].id);

		gone += fm_cache_room_of(&e->set);
	}
	return gone;
}

int fm_cache_charge_choose(struct fm_cache *c, const struct fm_cache_plan *plan,
			   struct fm_cache_left *out, struct fm_err *err)
{
	struct charge g = charge_of(plan, INTERRUPTED_TOO);
	int ret;

	*out = (struct fm_cache_left){ .items = NULL };
	if (!has_quota(plan))
		return 0;
	pthread_mutex_lock(&c->lock);
	ret = list_left(c, &g, out);
	if (ret == 0) {
		g.gone = count_left(c, &g, out);
		ret = check_quota(c, &g, err);
	} else {
		(void)fm_err_set(err, ret, "no memory to look at the quota for %s", plan->name);
	}
	pthread_mutex_unlock(&c->lock);
	if (ret < 0)
		fm_budget_free(out->items);
	return ret;
}

int fm_cache_charge_take(struct fm_cache *c, const struct fm_cache_plan *plan,
			 const struct fm_cache_left *left, struct fm_err *err)
{
	const struct charge g = charge_of(plan, INTERRUPTED_TOO);
	int ret = 0;

	for (size_t i = 0; left->count > 0 && i <= left->all; i++) {
		fm_err_clear(err);
		pthread_mutex_lock(&c->lock);
		ret = check_quota(c, &g, err);
		pthread_mutex_unlock(&c->lock);
		if (ret == 0 || i == left->all)
			break;
		(void)fm_cache_evict(c, left->items[i].id); /* one that cannot go is passed over */
	}
	return ret;
}

/* ---- pins ---- */

/* Whose pin: of a user of this node, or of one in whose name another node asks. */
struct pinner {
	uid_t uid;
	const char *node; /* NULL: this one */
};

static bool is_pinned_by(const struct fm_cache_use *use, const struct pinner *who)
{
	return who->node ? find_far(use, who->uid, who->node) >= 0 : find_pin(use, who->uid) >= 0;
}

/* What a node pins in the names of its users, and what all nodes do. */
struct far_sums {
	uint64_t of_node, of_all; /* bytes that the cache charges for it */
	unsigned pins, here;	  /* of that node: in all, and of this dataset */
};

static void add_far(struct far_sums *sums, const struct fm_cache_entry *e, const char *node)
{
	unsigned pins = 0;

	for (unsigned i = 0; i < e->use.far_count; i++)
		pins += strcmp(e->use.far[i].node, node) == 0;
	sums->pins += pins;
	sums->of_node += pins > 0 ? fm_cache_room_of(&e->set) : 0;
	sums->of_all += e->use.far_count > 0 ? fm_cache_room_of(&e->set) : 0;
}

/*
 * The rule of base/share.h, for bytes: other nodes pin at most seven eighths of the cache, and one
 * of them at most seven times what it leaves of that. The first one may have three quarters.
 */
static bool have_far_room(const struct fm_cache *c, const struct far_sums *then)
{
	uint64_t total = c->o.size / 8 * 7;

	return then->of_all <= total && then->of_node / 7 <= total - then->of_all;
}

static int too_many_far(const struct fm_cache *c, const struct fm_cache_entry *e, const char *node,
			const struct far_sums *here, struct fm_err *err)
{
	return fm_err_full(err, "cache %.200s: %u pins of %s are for users of %s, and %u for those "
			   "of all other nodes, which is the most: unpin it there, or pin it on "
			   "this node", c->directory, here->pins, e->set.name, node,
			   e->use.far_count - here->pins);
}

static int no_far_room(const struct fm_cache *c, const struct fm_cache_entry *e, const char *node,
		       const struct far_sums *has, struct fm_err *err)
{
	return fm_err_full(err, "cache %.200s: %s pins %" PRIu64 " MiB here, all nodes but this "
			   "one %" PRIu64 " MiB together, and %s has %" PRIu64 " MiB, which would "
			   "leave too little for this node: unpin something there, or pin it on "
			   "this node", c->directory, node, has->of_node >> 20, has->of_all >> 20,
			   e->set.name, fm_cache_room_of(&e->set) >> 20);
}

/* What another node pins already is charged to this one, too, and counts once for all of them. */
static int check_far(struct fm_cache *c, const struct fm_cache_entry *e, const char *node,
		     struct fm_err *err)
{
	struct far_sums has = { 0 }, here = { 0 }, then;

	fm_list_each (at, next, &c->entries)
		add_far(&has, fm_container_of(at, struct fm_cache_entry, at), node);
	add_far(&here, e, node);
	if (has.pins >= FM_CACHE_NODE_PINS_MAX)
		return fm_err_full(err, "cache %.200s: %s has %d pins here, which is the most of "
				   "one node", c->directory, node, FM_CACHE_NODE_PINS_MAX);
	if (here.pins >= FM_CACHE_FAR_PINS_MAX / 2 || e->use.far_count == FM_CACHE_FAR_PINS_MAX)
		return too_many_far(c, e, node, &here, err);
	if (here.pins > 0)
		return 0;
	then = has;
	then.of_node += fm_cache_room_of(&e->set);
	then.of_all += here.of_all > 0 ? 0 : fm_cache_room_of(&e->set);
	return have_far_room(c, &then) ? 0 : no_far_room(c, e, node, &has, err);
}

static int add_near(struct fm_cache *c, struct fm_cache_entry *e, uid_t uid, struct fm_err *err)
{
	if (e->use.pin_count == FM_CACHE_PINS_MAX)
		return fm_err_full(err, "cache %.200s: %d users pin %s, which is the most",
				   c->directory, FM_CACHE_PINS_MAX, e->set.name);
	e->use.pins[e->use.pin_count++] = uid;
	return 0;
}

static int add_far_pin(struct fm_cache *c, struct fm_cache_entry *e, const struct pinner *who,
		       struct fm_err *err)
{
	struct fm_cache_far_pin *pin = &e->use.far[e->use.far_count];
	int ret = check_far(c, e, who->node, err);

	if (ret < 0)
		return ret;
	pin->uid = who->uid;
	(void)snprintf(pin->node, sizeof(pin->node), "%s", who->node);
	e->use.far_count++;
	return 0;
}

static int add_pin(struct fm_cache *c, struct fm_cache_entry *e, const struct pinner *who,
		   bool *is_there, struct fm_err *err)
{
	int ret = fm_cache_may_use(e, err);

	*is_there = ret == 0 && is_pinned_by(&e->use, who);
	if (ret < 0 || *is_there)
		return ret;
	ret = fm_cache_may_charge(c, e, who->uid, who->node, err);
	if (ret < 0)
		return ret;
	return who->node ? add_far_pin(c, e, who, err) : add_near(c, e, who->uid, err);
}

static void drop_near(struct fm_cache_use *use, uid_t uid)
{
	int i = find_pin(use, uid);

	if (i >= 0)
		use->pins[i] = use->pins[--use->pin_count];
}

/* node NULL: those of all nodes */
static void drop_far(struct fm_cache_use *use, uid_t uid, const char *node)
{
	int i;

	while ((i = find_far(use, uid, node)) >= 0)
		use->far[i] = use->far[--use->far_count];
}

static void drop_pin(struct fm_cache_use *use, const struct pinner *who)
{
	if (who->node)
		drop_far(use, who->uid, who->node);
	else
		drop_near(use, who->uid);
}

static int pin(struct fm_cache *c, uint64_t id, const struct pinner *who, struct fm_err *err)
{
	struct fm_cache_entry *e;
	bool is_there;
	int ret;

	pthread_mutex_lock(&c->lock);
	ret = add_pin(c, fm_cache_entry_of(c, id), who, &is_there, err);
	pthread_mutex_unlock(&c->lock);
	if (ret < 0 || is_there)
		return ret;
	ret = save(c, id, true);
	if (ret == 0)
		return 0;
	pthread_mutex_lock(&c->lock);
	e = fm_cache_entry_of(c, id);
	if (e)
		drop_pin(&e->use, who);
	pthread_mutex_unlock(&c->lock);
	return fm_err_making(err, ret, c->root, "cache %.200s: write down the pin",
			     c->directory);
}

static int pin_alone(struct fm_cache *c, uint64_t id, const struct pinner *who,
		     struct fm_err *err)
{
	int ret;

	pthread_mutex_lock(&c->use);
	ret = pin(c, id, who, err);
	pthread_mutex_unlock(&c->use);
	return ret;
}

int fm_cache_pin(struct fm_cache *c, uint64_t id, uid_t uid, struct fm_err *err)
{
	return pin_alone(c, id, &(struct pinner){ .uid = uid }, err);
}

int fm_cache_pin_node(struct fm_cache *c, uint64_t id, const char *node, uid_t uid,
		      struct fm_err *err)
{
	return pin_alone(c, id, &(struct pinner){ .uid = uid, .node = node }, err);
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
		e->use.far_count = use->far_count;
		memcpy(e->use.far, use->far, sizeof(use->far));
	}
	pthread_mutex_unlock(&c->lock);
}

enum unpinning { OF_NODE, OF_USER, OF_ALL };

/* Whose pins are dropped; false: there are none of these. */
static bool drop(struct fm_cache_use *use, const struct pinner *who, enum unpinning which)
{
	unsigned before = use->pin_count + use->far_count;

	if (which == OF_ALL)
		use->pin_count = use->far_count = 0;
	if (which == OF_USER) {
		drop_near(use, who->uid);
		drop_far(use, who->uid, NULL);
	}
	if (which == OF_NODE)
		drop_far(use, who->uid, who->node);
	return use->pin_count + use->far_count < before;
}

static const char *const no_pin[] = {
	[OF_NODE] = "no pin of yours that was asked for from that node: \"fmove unpin\" where it "
		    "was, or on this node, takes others away",
	[OF_USER] = "you do not pin it",
	[OF_ALL] = "nobody pins it",
};

/*
 * On a full disk, of which the last pin may be the reason: without the file nobody pins it either.
 * Upkeep writes the rest when there is room.
 */
static int write_unpinned(struct fm_cache *c, int dir, struct fm_cache_use *use)
{
	int ret = write_use(c, dir, use, true);

	if (!fm_cache_is_full(ret) || use->pin_count + use->far_count > 0)
		return ret;
	ret = fm_cache_sys_unlink(dir, FM_CACHE_USE_NAME, 0);
	if (ret == 0)
		ret = fm_cache_sys_fsync(dir);
	mark_new(c, use->id);
	return ret;
}

static int unpin(struct fm_cache *c, uint64_t id, const struct pinner *who, enum unpinning which,
		 struct fm_err *err)
{
	struct fm_cache_use use;
	int ret, fd = open_entry(c, id, &use);

	if (fd < 0)
		return fm_err_sys(err, fd, "cache %.200s: unpin", c->directory);
	if (!drop(&use, who, which)) {
		(void)close(fd); /* only looked for */
		return fm_err_set(err, -ENOENT, "%s", no_pin[which]);
	}
	ret = write_unpinned(c, fd, &use);
	(void)close(fd); /* only a name was changed through it */
	if (ret < 0) {
		mark_new(c, id);
		return fm_err_sys(err, ret, "cache %.200s: write down that it is not pinned",
				  c->directory);
	}
	take_pins(c, id, &use);
	return 0;
}

/* Under the lock. is_here: among his pins of this node; else of that one, NULL: of any other. */
static uint64_t find_pinned(struct fm_cache *c, const char *name, uid_t uid, bool is_here,
			    const char *node)
{
	uint64_t id = 0;

	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);
		int i = is_here ? find_pin(&e->use, uid) : find_far(&e->use, uid, node);

		if (i >= 0 &&
		    (strcmp(e->set.name, name) == 0 || strcmp(e->set.source, name) == 0))
			id = e->set.id;
	}
	return id;
}

uint64_t fm_cache_find_pinned(struct fm_cache *c, const char *name, uid_t uid, const char *node)
{
	uint64_t id = 0;

	pthread_mutex_lock(&c->lock);
	if (!node)
		id = find_pinned(c, name, uid, true, NULL);
	if (id == 0)
		id = find_pinned(c, name, uid, false, node);
	pthread_mutex_unlock(&c->lock);
	return id;
}

static int try_unpin(struct fm_cache *c, uint64_t id, const struct pinner *who,
		     enum unpinning which, struct fm_err *err)
{
	int ret;

	pthread_mutex_lock(&c->use);
	ret = unpin(c, id, who, which, err);
	pthread_mutex_unlock(&c->use);
	return ret;
}

static int unpin_alone(struct fm_cache *c, uint64_t id, const struct pinner *who,
		       enum unpinning which, struct fm_err *err)
{
	int ret = try_unpin(c, id, who, which, err);

	if (!fm_cache_has_made_room(c, ret))
		return ret;
	fm_err_clear(err);
	return try_unpin(c, id, who, which, err);
}

int fm_cache_unpin(struct fm_cache *c, uint64_t id, uid_t uid, bool is_all, struct fm_err *err)
{
	return unpin_alone(c, id, &(struct pinner){ .uid = uid }, is_all ? OF_ALL : OF_USER, err);
}

int fm_cache_unpin_node(struct fm_cache *c, uint64_t id, const char *node, uid_t uid,
			struct fm_err *err)
{
	return unpin_alone(c, id, &(struct pinner){ .uid = uid, .node = node }, OF_NODE, err);
}
