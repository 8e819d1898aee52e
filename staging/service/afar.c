/* SPDX-License-Identifier: MIT */
/* afar - see afar.h. */
#include "staging/service/afar.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/list.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/base/share.h"
#include "mover/base/worker.h"
#include "mover/node/node.h"
#include "mover/node/session.h"
#include "staging/cache_afar.h"
#include "staging/hold.h"

struct fm_afar {
	struct fm_afar_opts o;
	struct fm_list asks, holds;
	struct fm_share orders;		/* pin, unpin and unstage by name */
	struct fm_share places;
	struct fm_timer look;		/* at the processes */
	unsigned works;			/* of holds, at the worker */
	unsigned over;			/* holds whose process is gone */
	struct fm_log_users lines;	/* of requests */
	bool is_stopping;
};

/* What a process of this node holds. */
struct hold {
	struct fm_list at;
	struct fm_afar *all;
	struct fm_cache_afar_record record;
	int pidfd;			/* -1: the process was gone when this daemon started */
	uint64_t over_ns;		/* when that was seen; 0: it lives */
	bool is_told[FM_CACHE_AFAR_NODES];	/* of that */
	struct fm_share_held place;
	uint64_t due_ns[FM_CACHE_AFAR_NODES];	/* when the node is told next */
	bool is_warned[FM_CACHE_AFAR_NODES];	/* that it refuses */
	bool is_saving;			/* the worker has it */
	bool is_saved;			/* there is a file of it */
	struct fm_afar_ask *ask;	/* that waits for that; NULL: none any more */
	struct fm_work work;
	struct fm_err err;
};

struct node {
	char name[FM_CACHE_NODE_MAX + 1];
	bool is_awaited;
	int code;
	char *text;		/* NULL: none */
};

struct fm_afar_ask {
	struct fm_list at;
	struct fm_afar *all;
	struct fm_stage_keep keep;
	struct hold *hold;		/* that is written down before the nodes are asked */
	bool is_lent;			/* a hold that ends with this */
	struct fm_timer timer;
	void (*done)(void *ctx);
	void *ctx;
	struct fm_share_held place;	/* of one by name */
	char what[FM_CACHE_NAME_MAX + 1];	/* as the log calls the dataset */
	unsigned count;
	struct node node[FM_CACHE_AFAR_NODES];
};

/*
 * Sends it, unless that node is away, or does not read what it is sent. -EINVAL: no node takes it,
 * and whoever sends it all the same ends the session, which others use, too.
 */
static int say(struct fm_afar *a, const char *node, const struct fm_stage_keep *keep)
{
	struct fm_peer *p = fm_engine_peer(a->o.engine, node);
	struct fm_wire_msg m = { .type = FM_WIRE_STAGE, .stage = { .kind = FM_WIRE_STAGE_KEEP } };
	uint8_t body[FM_WIRE_STAGE_MAX];

	if (!p || !p->session || !fm_session_has_room(p->session))
		return -EHOSTUNREACH;
	m.stage.body = body;
	m.stage.len = fm_stage_keep_encode(keep, body);
	if (m.stage.len == 0)
		return -EINVAL;
	fm_session_send(p->session, &m);
	return 0;
}

/* ---- a hold ---- */

/* The number is what the nodes call it, and what they answer to. */
static struct fm_stage_keep keep_of(const struct hold *h, enum fm_stage_verb verb)
{
	struct fm_stage_keep keep = { .id = h->record.number, .verb = verb, .uid = h->record.uid,
				      .hold = h->record.number };

	if (verb == FM_STAGE_HOLD)
		keep.key = h->record.listing;
	return keep;
}

static void free_hold(struct hold *h)
{
	fm_share_give_all(&h->place);
	h->all->over -= h->over_ns != 0;
	if (h->pidfd >= 0)
		(void)close(h->pidfd);	/* only looked at */
	fm_list_del(&h->at);
	free(h);
}

static void work_on(struct hold *h, void (*run)(struct fm_work *work),
		    void (*done)(struct fm_work *work))
{
	h->all->works++;
	h->is_saving = true;
	h->work = (struct fm_work){ .run = run, .done = done,
				    .who = fm_share_user(h->record.uid) };
	fm_worker_submit(h->all->o.worker, &h->work, h->all->o.loop);
}

static void drop_run(struct fm_work *work)
{
	struct hold *h = fm_container_of(work, struct hold, work);

	fm_cache_afar_drop(h->all->o.cache, h->record.number);
}

static void drop_done(struct fm_work *work)
{
	struct hold *h = fm_container_of(work, struct hold, work);
	struct fm_afar *a = h->all;

	a->works--;
	free_hold(h);
	fm_engine_check_stopped(a->o.engine);
}

/* The process is gone. It counts for nobody any more, but its nodes are still to be told. */
static void note_over(struct hold *h)
{
	h->over_ns = fm_loop_now(h->all->o.loop);
	h->all->over++;
	fm_share_give_all(&h->place);
}

/*
 * Tells the nodes that are there. One that is away is told when it is back, unless it has let go by
 * itself by then.
 */
static void release(struct hold *h)
{
	const struct fm_stage_keep keep = keep_of(h, FM_STAGE_RELEASE);
	uint64_t since_ns = fm_loop_now(h->all->o.loop) - h->over_ns;
	bool are_told = true;

	for (unsigned n = 0; n < h->record.count; n++) {
		h->is_told[n] = h->is_told[n] || say(h->all, h->record.node[n], &keep) == 0;
		are_told = are_told && h->is_told[n];
	}
	if (are_told || since_ns >= FM_CACHE_NODE_S * FM_NS_PER_S ||
	    h->all->over > FM_AFAR_HOLDS_MAX)
		work_on(h, drop_run, drop_done);
}

/* Tells the nodes whose time has come. One that is away is told when it is back. */
static void renew(struct hold *h)
{
	const struct fm_stage_keep keep = keep_of(h, FM_STAGE_HOLD);
	uint64_t now_ns = fm_loop_now(h->all->o.loop);

	for (unsigned n = 0; n < h->record.count; n++)
		if (now_ns >= h->due_ns[n] && say(h->all, h->record.node[n], &keep) == 0)
			h->due_ns[n] = now_ns + FM_AFAR_RENEW_NS;
}

static void look(struct fm_timer *timer)
{
	struct fm_afar *a = fm_container_of(timer, struct fm_afar, look);

	fm_list_each(at, next, &a->holds) {
		struct hold *h = fm_container_of(at, struct hold, at);

		if (h->is_saving)
			continue;
		if (h->over_ns == 0 && (h->pidfd < 0 || fm_hold_is_over(h->pidfd)))
			note_over(h);
		if (h->over_ns)
			release(h);
		else
			renew(h);
	}
	if (!fm_list_is_empty(&a->holds))
		fm_timer_set(a->o.loop, timer, fm_loop_now(a->o.loop) + FM_AFAR_LOOK_NS);
}

static struct hold *new_hold(struct fm_afar *a, const struct fm_cache_afar_record *record,
			     int pidfd)
{
	struct hold *h = FM_FAULT("stage.afar") ? NULL : calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->all = a;
	h->record = *record;
	h->pidfd = pidfd;
	fm_list_append(&a->holds, &h->at);
	if (!fm_timer_is_set(&a->look))
		fm_timer_set(a->o.loop, &a->look, fm_loop_now(a->o.loop) + FM_AFAR_LOOK_NS);
	return h;
}

/* A node has answered that it holds, or why not: then it is asked again as if it had. */
static void hear(struct hold *h, const char *node, const struct fm_stage_kept *kept)
{
	for (unsigned n = 0; n < h->record.count; n++) {
		if (strcmp(h->record.node[n], node) != 0)
			continue;
		if (kept->code < 0 && !h->is_warned[n])
			fm_log_warn("staging: %s does not hold what process %d of this node uses: "
				    "%s", node, (int)h->record.process.pid, kept->text);
		h->is_warned[n] = kept->code < 0;
		if (kept->code == -EBUSY)
			h->due_ns[n] = 0;
	}
}

/* ---- a request ---- */

static void settle(struct node *n, int code, const char *text)
{
	n->is_awaited = false;
	n->code = code;
	free(n->text);
	n->text = text[0] ? strdup(text) : NULL;	/* without memory there is none */
}

static void fail_all(struct fm_afar_ask *ask, int code, const char *text)
{
	for (unsigned n = 0; n < ask->count; n++)
		if (ask->node[n].is_awaited)
			settle(&ask->node[n], code, text);
}

/* How each node answered, in the log of the node that asked. */
static void log_answers(struct fm_afar_ask *ask)
{
	struct fm_afar *a = ask->all;
	const char *verb = fm_stage_verb_names[ask->keep.verb];
	uint64_t now_ns = fm_loop_now(a->o.loop);

	for (unsigned i = 0; ask->keep.job[0] && i < ask->count; i++) {
		const struct node *n = &ask->node[i];
		bool has_failed = n->code < 0;

		fm_log_job(fm_log_of_user(&a->lines, ask->keep.uid, now_ns), now_ns, FM_LOG_INFO,
			   ask->keep.job, "%s for user %u on %s %s: %s%s%s", verb,
			   (unsigned)ask->keep.uid, n->name, has_failed ? "ended" : "is done",
			   ask->what, has_failed ? ": " : "", has_failed && n->text ? n->text : "");
	}
}

static void finish(struct fm_afar_ask *ask)
{
	log_answers(ask);
	fm_timer_clear(ask->all->o.loop, &ask->timer);
	fm_list_del(&ask->at);
	fm_list_init(&ask->at);
	ask->done(ask->ctx);	/* which may free it */
}

static void fire(struct fm_timer *timer)
{
	struct fm_afar_ask *ask = fm_container_of(timer, struct fm_afar_ask, timer);

	fail_all(ask, -ETIMEDOUT, "it does not answer");
	finish(ask);
}

/* From the loop, so that done() never comes within fm_afar_ask(). */
static void finish_if_done(struct fm_afar_ask *ask)
{
	for (unsigned n = 0; n < ask->count; n++)
		if (ask->node[n].is_awaited)
			return;
	fm_timer_set(ask->all->o.loop, &ask->timer, fm_loop_now(ask->all->o.loop));
}

static void send_all(struct fm_afar_ask *ask)
{
	struct fm_afar *a = ask->all;

	fm_timer_set(a->o.loop, &ask->timer, fm_loop_now(a->o.loop) + FM_AFAR_NS);
	for (unsigned n = 0; n < ask->count; n++) {
		int ret = ask->node[n].is_awaited ? say(a, ask->node[n].name, &ask->keep) : 0;

		if (ret < 0)
			settle(&ask->node[n], ret, ret == -EINVAL
							   ? "is not asked what no node takes"
							   : "is not connected, or says nothing");
	}
	finish_if_done(ask);
}

/* Those who hear of the hold now need not hear of it again at once. */
static void put_off(struct hold *h, const struct fm_afar_ask *ask)
{
	for (unsigned i = 0; i < ask->count; i++)
		for (unsigned n = 0; n < h->record.count; n++)
			if (ask->node[i].is_awaited &&
			    strcmp(ask->node[i].name, h->record.node[n]) == 0)
				h->due_ns[n] = fm_loop_now(h->all->o.loop) + FM_AFAR_RENEW_NS;
}

static void save_run(struct fm_work *work)
{
	struct hold *h = fm_container_of(work, struct hold, work);

	(void)fm_cache_afar_save(h->all->o.cache, &h->record, &h->err);
}

static void save_done(struct fm_work *work)
{
	struct hold *h = fm_container_of(work, struct hold, work);
	struct fm_afar *a = h->all;
	struct fm_afar_ask *ask = h->ask;

	a->works--;
	h->is_saving = false;
	h->ask = NULL;
	if (ask) {
		ask->hold = NULL;
		if (h->err.code < 0)
			fail_all(ask, h->err.code, h->err.text);
		send_all(ask);
		put_off(h, ask);
	}
	h->is_saved |= h->err.code == 0;
	if (!h->is_saved)
		free_hold(h);
	fm_engine_check_stopped(a->o.engine);
}

/* The hold that the process has of that dataset already; NULL: none. */
static struct hold *find_equal(const struct fm_afar *a, const struct fm_cache_afar_record *r)
{
	fm_list_each(at, next, &a->holds) {
		struct hold *h = fm_container_of(at, struct hold, at);

		if (!h->is_saving && !h->over_ns && h->record.uid == r->uid &&
		    h->record.process.pid == r->process.pid &&
		    h->record.process.start == r->process.start &&
		    memcmp(&h->record.listing, &r->listing, sizeof(r->listing)) == 0)
			return h;
	}
	return NULL;
}

static bool has_node(const struct fm_cache_afar_record *r, const char *node)
{
	for (unsigned n = 0; n < r->count; n++)
		if (strcmp(r->node[n], node) == 0)
			return true;
	return false;
}

/* Adds the nodes of a request to those of a hold. False: they are too many. */
static bool add_nodes(struct fm_cache_afar_record *r, const struct fm_afar_ask *ask)
{
	for (unsigned n = 0; n < ask->count; n++) {
		if (has_node(r, ask->node[n].name))
			continue;
		if (r->count == FM_CACHE_AFAR_NODES)
			return false;
		(void)strcpy(r->node[r->count++], ask->node[n].name);
	}
	return true;
}

static int find_process(const struct fm_afar_wish *w, struct fm_cache_afar_record *r, int *pidfd,
			struct fm_err *err)
{
	uid_t uid;
	int ret = fm_hold_find(w->pid, &r->process, &uid, pidfd, err);

	if (ret < 0 || w->uid == 0 || uid == w->uid)
		return ret;
	(void)close(*pidfd);	/* only looked at */
	return fm_err_set(err, -EPERM,
			  "process %d is another user's: a hold would last as long as he likes; "
			  "name one of yours",
			  (int)w->pid);
}

/* What is said again while the process lives is of no request any more. */
static void note_job(struct fm_afar_ask *ask, const struct fm_afar_wish *w)
{
	if (!w->job)
		return;
	(void)snprintf(ask->keep.job, sizeof(ask->keep.job), "%s", w->job);
	(void)snprintf(ask->what, sizeof(ask->what), "%s", w->what);
}

/* Makes the hold, or finds the one that the process has. The nodes are asked when it is saved. */
static int begin_hold(struct fm_afar_ask *ask, const struct fm_afar_wish *w, struct fm_err *err)
{
	struct fm_afar *a = ask->all;
	struct fm_cache_afar_record r = { .uid = w->uid, .listing = *w->key };
	struct fm_share_held place = { 0 };
	struct hold *h;
	int pidfd, ret = find_process(w, &r, &pidfd, err);

	if (ret < 0)
		return ret;
	h = find_equal(a, &r);
	if (h && add_nodes(&h->record, ask)) {
		(void)close(pidfd);	/* it has one */
	} else {
		r.number = fm_cache_afar_number();
		(void)add_nodes(&r, ask);
		ret = fm_share_take(&a->places, fm_share_user(w->uid), 1, &place, err);
		h = ret == 0 ? new_hold(a, &r, pidfd) : NULL;
		if (!h) {
			fm_share_give_all(&place);
			(void)close(pidfd);	/* only looked at */
			return ret < 0 ? ret : fm_err_set(err, -ENOMEM, "no memory for a hold");
		}
		h->place = place;
	}
	fm_err_clear(&h->err);
	h->ask = ask;
	ask->hold = h;
	ask->keep = keep_of(h, FM_STAGE_HOLD);
	note_job(ask, w);
	work_on(h, save_run, save_done);
	return 0;
}

int fm_afar_ask(struct fm_afar *a, const struct fm_afar_wish *wish, void (*done)(void *ctx),
		void *ctx, struct fm_afar_ask **out, struct fm_err *err)
{
	struct fm_share_held place = { 0 };
	struct fm_afar_ask *ask;
	int ret = 0;

	if (a->is_stopping)
		return fm_err_set(err, -EHOSTDOWN, "fmoved stops");
	/* Those by key are requests to stage, which have places of their own. */
	if (!wish->key)
		ret = fm_share_take(&a->orders, fm_share_user(wish->uid), 1, &place, err);
	if (ret < 0)
		return ret;
	ask = FM_FAULT("stage.afar") ? NULL : calloc(1, sizeof(*ask));
	if (!ask) {
		fm_share_give_all(&place);
		return fm_err_set(err, -ENOMEM, "no memory to ask other nodes");
	}
	ask->place = place;
	ask->all = a;
	ask->timer.fire = fire;
	ask->done = done;
	ask->ctx = ctx;
	for (; ask->count < wish->count; ask->count++) {
		ask->node[ask->count].is_awaited = true;
		(void)snprintf(ask->node[ask->count].name, sizeof(ask->node[0].name), "%s",
			       wish->nodes[ask->count]);
	}
	ask->keep = (struct fm_stage_keep){ .id = fm_cache_afar_number(), .verb = wish->verb,
					    .uid = wish->uid };
	note_job(ask, wish);
	if (wish->verb == FM_STAGE_SHOW)
		ask->keep.hold = wish->gid;
	ask->is_lent = wish->verb == FM_STAGE_HOLD && wish->pid == 0;
	if (ask->is_lent)
		ask->keep.hold = ask->keep.id;
	if (wish->key)
		ask->keep.key = *wish->key;
	if (wish->name)
		(void)snprintf(ask->keep.name, sizeof(ask->keep.name), "%s", wish->name);
	fm_list_append(&a->asks, &ask->at);
	if (wish->verb == FM_STAGE_HOLD && !ask->is_lent)
		ret = begin_hold(ask, wish, err);
	else
		send_all(ask);
	if (ret < 0) {
		fm_afar_put(ask);
		return ret;
	}
	*out = ask;
	return 0;
}

/* The nodes of a hold that ends let go; one that has not answered yet, too. */
static void give_back(const struct fm_afar_ask *ask)
{
	const struct fm_stage_keep keep = { .id = ask->keep.id, .verb = FM_STAGE_RELEASE,
					    .uid = ask->keep.uid, .hold = ask->keep.hold };

	for (unsigned n = 0; n < ask->count; n++)
		(void)say(ask->all, ask->node[n].name, &keep);	/* away: it ends by itself */
}

void fm_afar_put(struct fm_afar_ask *ask)
{
	if (!ask)
		return;
	if (ask->is_lent)
		give_back(ask);
	if (ask->hold)
		ask->hold->ask = NULL;
	fm_timer_clear(ask->all->o.loop, &ask->timer);
	fm_list_del(&ask->at);
	fm_share_give_all(&ask->place);
	for (unsigned n = 0; n < ask->count; n++)
		free(ask->node[n].text);
	free(ask);
}

int fm_afar_look(const struct fm_afar_ask *ask, unsigned n, const char **text)
{
	*text = ask->node[n].text ? ask->node[n].text : "";
	return ask->node[n].code;
}

int fm_afar_look_at(const struct fm_afar_ask *ask, const char *node, const char **text)
{
	for (unsigned n = 0; n < ask->count; n++)
		if (strcmp(ask->node[n].name, node) == 0)
			return fm_afar_look(ask, n, text);
	return 0;
}

void fm_afar_log(const struct fm_afar_ask *ask)
{
	for (unsigned n = 0; ask && n < ask->count; n++)
		if (ask->node[n].code < 0)
			fm_log_warn("staging: a dataset is not kept on %s: %s", ask->node[n].name,
				    ask->node[n].text ? ask->node[n].text : "");
}

/* ---- what comes ---- */

static struct node *awaited(struct fm_afar_ask *ask, const char *name)
{
	for (unsigned n = 0; n < ask->count; n++)
		if (ask->node[n].is_awaited && strcmp(ask->node[n].name, name) == 0)
			return &ask->node[n];
	return NULL;
}

void fm_afar_message(struct fm_afar *a, struct fm_session *s, const struct fm_wire_stage *m)
{
	struct fm_stage_kept kept;

	if (fm_stage_kept_decode(m->body, m->len, &kept) < 0) {
		fm_session_protocol_error(s, "an answer of what is kept that cannot be");
		return;
	}
	fm_list_each(at, next, &a->asks) {
		struct fm_afar_ask *ask = fm_container_of(at, struct fm_afar_ask, at);
		struct node *n = ask->keep.id == kept.id ? awaited(ask, s->name) : NULL;

		/* Nothing was said yet to those of a hold that is being written down. */
		if (!n || ask->hold)
			continue;
		settle(n, kept.code,
		       kept.code < 0 || ask->keep.verb == FM_STAGE_SHOW ? kept.text : "");
		finish_if_done(ask);
	}
	fm_list_each(at, next, &a->holds) {
		struct hold *h = fm_container_of(at, struct hold, at);

		if (h->record.number == kept.id)
			hear(h, s->name, &kept);
	}
}

void fm_afar_session_lost(struct fm_afar *a, const struct fm_session *s)
{
	const struct fm_peer *p = fm_engine_peer(a->o.engine, s->name);

	if (p && p->session && p->session != s)
		return;		/* another one took its place */
	fm_list_each(at, next, &a->asks) {
		struct fm_afar_ask *ask = fm_container_of(at, struct fm_afar_ask, at);
		struct node *n = awaited(ask, s->name);

		if (!n || ask->hold)
			continue;
		settle(n, -EHOSTUNREACH, "went away before it answered");
		finish_if_done(ask);
	}
	/* A node that has started anew, too, hears of it as soon as it is back. */
	fm_list_each(at, next, &a->holds) {
		struct hold *h = fm_container_of(at, struct hold, at);

		for (unsigned n = 0; n < h->record.count; n++)
			if (strcmp(h->record.node[n], s->name) == 0)
				h->due_ns[n] = 0;
	}
}

/* ---- the whole ---- */

static void take(void *ctx, const struct fm_cache_afar_record *record, int pidfd)
{
	struct fm_afar *a = ctx;
	struct hold *h = new_hold(a, record, pidfd);

	if (h) {
		h->is_saved = true;
		fm_share_force(&a->places, fm_share_user(record->uid), 1, &h->place);
	} else if (pidfd >= 0) {
		(void)close(pidfd);	/* without memory it ends on those nodes by itself */
	}
}

int fm_afar_new(const struct fm_afar_opts *opts, struct fm_afar **out, struct fm_err *err)
{
	static const struct fm_share_limits limits = { .what = "holds on other nodes",
						       .total = FM_AFAR_HOLDS_MAX,
						       .root = FM_AFAR_HOLDS_MAX / 8, .times = 1 };
	static const struct fm_share_limits orders = { .what = "orders to other nodes",
						       .total = FM_AFAR_ORDERS_MAX,
						       .root = FM_AFAR_ORDERS_MAX / 8, .times = 1 };
	struct fm_afar *a = FM_FAULT("stage.afar") ? NULL : calloc(1, sizeof(*a));
	int ret;

	if (!a)
		return fm_err_set(err, -ENOMEM, "allocate the holds on other nodes");
	a->o = *opts;
	a->lines.most = FM_LOG_USER_LINES;
	a->look.fire = look;
	fm_list_init(&a->asks);
	fm_list_init(&a->holds);
	fm_share_init(&a->places, &limits);
	fm_share_init(&a->orders, &orders);
	ret = fm_cache_afar_load(opts->cache, take, a, err);
	if (ret < 0)
		fm_afar_free(a);
	else
		*out = a;
	return ret;
}

void fm_afar_stop(struct fm_afar *a)
{
	a->is_stopping = true;
	fm_timer_clear(a->o.loop, &a->look);
	while (!fm_list_is_empty(&a->asks)) {
		struct fm_afar_ask *ask =
			fm_container_of(a->asks.next, struct fm_afar_ask, at);

		if (ask->hold)
			ask->hold->ask = NULL;
		ask->hold = NULL;
		fail_all(ask, -EHOSTDOWN, "fmoved stops");
		finish(ask);
	}
}

bool fm_afar_is_idle(const struct fm_afar *a)
{
	return fm_list_is_empty(&a->asks) && a->works == 0;
}

void fm_afar_free(struct fm_afar *a)
{
	if (!a)
		return;
	assert(fm_afar_is_idle(a));
	fm_timer_clear(a->o.loop, &a->look);
	fm_list_each(at, next, &a->holds)
		free_hold(fm_container_of(at, struct hold, at));
	free(a);
}
