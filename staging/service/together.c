/* SPDX-License-Identifier: MIT */
/*
 * together - see together.h. Here: the list of runs, which nodes take part, and the messages.
 * together_io.c reads, sends and writes.
 */
#include "staging/service/together.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/node/session.h"
#include "mover/queue/queue.h"
#include "staging/laid.h"
#include "staging/run/encode.h"
#include "staging/run/rank.h"
#include "staging/service/together_priv.h"

#define TICK_NS (100 * FM_NS_PER_MS)
#define SAY_NS FM_NS_PER_S
#define NAMED_NS (3 * FM_NS_PER_S)	/* who asks may be heard behind who invites */
#define LAST_NS (30 * FM_NS_PER_S)	/* that the last words of others are waited for */
#define ENTRIES_SAID 8			/* of one node, in one run */

static uint64_t bit(unsigned node)
{
	return UINT64_C(1) << node;
}

/* ---- what it is logged under ---- */

const char *fm_together_job(const struct fm_together *t)
{
	return t->ids[t->id_count - 1];
}

struct fm_log_limit *fm_together_lines(const struct fm_together *t, const char *peer)
{
	struct fm_togethers *all = t->all;

	return peer[0] ? fm_engine_job_lines(all->o.engine, peer)
		       : fm_log_of_user(&all->lines, t->caller, fm_loop_now(all->o.loop));
}

static void take_id(struct fm_together *t, const char *id, unsigned by)
{
	memcpy(t->ids[t->id_count++], id, sizeof(t->ids[0]));
	t->id_by = by;
}

/* ---- who takes part ---- */

static struct fm_session *session_of(const struct fm_together *t, unsigned node)
{
	struct fm_peer *p = fm_engine_peer(t->all->o.engine, t->about.node[node]);

	return p ? p->session : NULL;
}

static bool is_allowed(const struct fm_togethers *all, const char *peer)
{
	for (const char *const *p = all->o.peers; p && *p; p++)
		if (strcmp(*p, "*") == 0 || strcmp(*p, peer) == 0)
			return true;
	return false;
}

/*
 * The nodes that decide who may read the source: the node of its store. Any node may have a shared
 * store, and a node without it passes on what it heard, so for a shared one all count.
 */
static uint64_t rulers(const struct fm_together *t)
{
	return t->about.shared[0] ? UINT64_MAX : bit(t->about.source);
}

/* The nodes that all of the rulers that were heard let read. */
static uint64_t may_take_part(const struct fm_together *t)
{
	uint64_t may = UINT64_MAX;

	for (unsigned n = 0; n < t->about.count; n++)
		if (rulers(t) & bit(n))
			may &= t->peer[n].may_read;
	return may;
}

/*
 * Whether every ruler that is connected has said who may read. Nobody takes part before that. A
 * ruler that is away is not waited for: then staging.peers alone decides, as it does for a dataset
 * on this disk.
 */
static bool have_rulers_spoken(const struct fm_together *t)
{
	uint64_t missing = rulers(t) & ~t->told & ~bit(t->self);

	for (unsigned n = 0; n < t->about.count; n++)
		if (missing & bit(n) && session_of(t, n) &&
		    (!t->about.shared[0] || is_allowed(t->all, t->about.node[n])))
			return false;
	return true;
}

/*
 * Whether it is known who may call the run anything. For that the node of the source has to be
 * heard: one that is away may leave out whom staging.peers lets take part meanwhile. All that is
 * lost until it comes is that those who asked at once go on under one id, and that a node hears the
 * id by way of others. Of a shared store any node can be a ruler, also one that is off for days:
 * there those that are away are not waited for.
 */
static bool is_known_who_may(const struct fm_together *t)
{
	if (t->about.shared[0])
		return have_rulers_spoken(t);
	return !(rulers(t) & ~t->told & ~bit(t->self));
}

/*
 * Nodes with a session that have not refused and are not in the run yet: they may still be looking.
 */
static uint64_t called(const struct fm_together *t)
{
	uint64_t nodes = 0;

	for (unsigned n = 0; n < t->about.count; n++)
		if (n != t->self && !(t->in & bit(n)) && !t->peer[n].code && session_of(t, n) &&
		    is_allowed(t->all, t->about.node[n]))
			nodes |= bit(n);
	return nodes;
}

/* Nodes that refused, or that the rules leave out. */
static uint64_t refused(const struct fm_together *t)
{
	uint64_t nodes = 0;

	for (unsigned n = 0; n < t->about.count; n++)
		if (n != t->self && !(t->in & bit(n)) && t->peer[n].code)
			nodes |= bit(n);
	return nodes;
}

void fm_together_tell_called(struct fm_together *t)
{
	fm_run_called(t->core, called(t), refused(t));
}

/* ---- what goes out ---- */

static void say(struct fm_session *s, const uint8_t *run, enum fm_wire_stage_kind kind,
		const uint8_t *body, size_t len)
{
	struct fm_wire_msg m = { .type = FM_WIRE_STAGE };

	memcpy(m.stage.run, run, sizeof(m.stage.run));
	m.stage.kind = (uint8_t)kind;
	m.stage.body = body;
	m.stage.len = len;
	if (len > 0)
		fm_session_send(s, &m);
}

static void say_about(struct fm_together *t, unsigned node)
{
	struct fm_session *s = session_of(t, node);
	uint8_t body[FM_WIRE_STAGE_MAX];

	if (!s || t->lacks_rules)	/* who asks is refused, and told why */
		return;
	t->said_to |= bit(node);
	memcpy(t->about.job, t->is_id_good ? fm_together_job(t) : FM_STAGE_NO_JOB,
	       sizeof(t->about.job));
	t->about.is_in = t->core != NULL;
	t->about.wanted = t->wanted;
	t->about.uid = t->wanted & bit(node) ? t->by[node].uid : t->uid;
	t->about.gid = t->wanted & bit(node) ? t->by[node].gid : t->gid;
	t->about.may_read = may_take_part(t);
	say(s, t->run, FM_WIRE_STAGE_ABOUT, body, fm_stage_about_encode(&t->about, body));
}

static void say_about_to_all(struct fm_together *t)
{
	for (unsigned n = 0; n < t->about.count; n++)
		if (n != t->self && is_allowed(t->all, t->about.node[n]))
			say_about(t, n);
}

void fm_together_tell_rules(struct fm_together *t)
{
	if (t->about.shared[0] || t->self != t->about.source)
		return;
	for (unsigned n = 0; n < t->about.count; n++)
		if (t->in & bit(n))
			say_about(t, n);
}

/* Tells the nodes that take part where this node stands. */
static void say_is(struct fm_together *t)
{
	const struct fm_together_peer *me = &t->peer[t->self];
	struct fm_stage_is is = { .place = me->place, .code = me->code, .done = fm_together_done(t),
				  .read = me->read, .is_over = t->is_over };
	/*
	 * If the run could not begin here, all nodes that wait for it are told. The last message
	 * goes to every node that ever took part, or believes that this node does, and to those
	 * that asked for it here: they wait for it also when the run is over there.
	 */
	uint64_t to = t->in | (t->core || have_rulers_spoken(t) ? 0 : t->said_in) |
		      (t->is_over ? t->was_in | t->said_to | t->asked_by : 0);
	uint8_t body[FM_WIRE_STAGE_MAX];
	size_t len;

	(void)snprintf(is.path, sizeof(is.path), "%s", me->path ? me->path : "");
	(void)snprintf(is.text, sizeof(is.text), "%s", me->text ? me->text : "");
	len = fm_stage_is_encode(&is, body);
	for (unsigned n = 0; n < t->about.count; n++) {
		struct fm_session *s = to & bit(n) ? session_of(t, n) : NULL;

		if (s)
			say(s, t->run, FM_WIRE_STAGE_IS, body, len);
	}
	t->said_ns = fm_loop_now(t->all->o.loop);
}

/*
 * If this node wants the dataset, it calls the nodes that do not take part and have not refused.
 * They may have left, or not heard of the run.
 */
static void call_others(struct fm_together *t)
{
	for (unsigned n = 0; n < t->about.count && (t->sink || t->wanted); n++)
		if (n != t->self && !(t->said_in & bit(n)) &&
		    (!t->peer[n].code || t->was_in & bit(n)) &&
		    is_allowed(t->all, t->about.node[n]))
			say_about(t, n);
}

void fm_together_queue(struct fm_together *t, unsigned hop, const struct fm_run_msg *msg)
{
	uint8_t body[FM_RUN_BYTES_MAX];

	/* if not, it is as if it was lost on its way */
	if (fm_outbox_add(&t->out, hop, body, fm_run_encode(msg, body)))
		fm_together_wake(t);
}

/* Whether a message to that node can be sent now. One to a node without a session is dropped. */
static bool has_room(void *ctx, unsigned node)
{
	const struct fm_session *s = session_of(ctx, node);

	return !s || fm_session_has_room(s);
}

static void say_run(void *ctx, unsigned node, const uint8_t *body, size_t len)
{
	struct fm_together *t = ctx;
	struct fm_session *s = session_of(t, node);

	if (s)
		say(s, t->run, FM_WIRE_STAGE_RUN, body, len);
}

/* Sends messages while sessions have room. A later tick sends the rest. */
static void flush(struct fm_together *t)
{
	const struct fm_outbox_way way = { .has_room = has_room, .say = say_run, .ctx = t };

	fm_outbox_flush(&t->out, &way);
}

/* ---- what is known of the nodes ---- */

static void set_text(char **at, const char *text)
{
	free(*at);
	*at = text[0] ? strdup(text) : NULL;	/* without memory it is not said */
}

void fm_together_fail_here(struct fm_together *t, const struct fm_err *err)
{
	struct fm_together_peer *me = &t->peer[t->self];
	bool is_wanted = t->sink || t->is_to_take || t->is_named || t->wanted & bit(t->self);

	if (me->code)
		return;		/* the first reason counts */
	me->code = err->code;
	set_text(&me->text, err->text);
	fm_together_log(t, is_wanted ? FM_LOG_WARN : FM_LOG_INFO, "%.300s does not come here: %s",
			t->source, err->text);
}

void fm_together_warn(struct fm_together *t, const struct fm_err *note)
{
	fm_together_log(t, FM_LOG_WARN, "staging: %s", note->text);
	if (t->peer[t->self].code == 0)
		set_text(&t->peer[t->self].text, note->text);
	if (t->core && !t->is_over)	/* before the run ends: who waits is told then */
		say_is(t);
}

static void look_at_core(struct fm_together *t)
{
	struct fm_together_peer *me = &t->peer[t->self];
	uint8_t before = me->place;
	struct fm_run_show show;

	if (!t->core)
		return;
	fm_run_show(t->core, &show);
	me->place = (uint8_t)show.place;
	me->is_heard = true;
	if (fm_loop_now(t->all->o.loop) >= t->said_ns + SAY_NS)
		call_others(t);
	else if (me->place == before)
		return;
	say_is(t);
}

/* ---- the end ---- */

/* What a run takes for its extents, here and in the core: CRC, size, and whether it is there. */
static uint64_t memory_of(const struct fm_stage_about *about)
{
	return (uint64_t)about->extents * (FM_RUN_EXTENT_MEMORY + 2 * sizeof(uint32_t) + 1);
}

static void free_together(struct fm_together *t)
{
	struct fm_togethers *all = t->all;

	fm_outbox_clear(&t->out);
	for (unsigned n = 0; n < t->about.count; n++) {
		free(t->peer[n].path);
		free(t->peer[n].text);
	}
	if (t->hold)
		fm_cache_release(all->o.cache, t->hold);
	fm_run_free(t->core);
	fm_together_close_io(t);
	fm_share_give_all(&t->place);
	fm_timer_clear(all->o.loop, &t->timer);
	fm_list_del(&t->at);
	all->count--;
	if (t->has_memory)
		fm_budget_give_waiting(memory_of(&t->about), &t->memory);
	free(t->have);
	free(t->crc);
	free(t->work_path);
	free(t);
	fm_engine_check_stopped(all->o.engine);
}

/* Where it was asked for: how it ended on each node, whose own log says why. */
static void log_nodes(const struct fm_together *t)
{
	for (unsigned n = 0; n < t->about.count; n++) {
		struct fm_together_node node;

		fm_together_look(t, n, &node);
		if (node.is_wanted && strcmp(node.state, "ready") == 0)
			fm_together_log(t, FM_LOG_INFO, "%s: ready: %s", node.name, node.path);
		else if (node.is_wanted)
			fm_together_log(t, FM_LOG_WARN, "%s: %s: %s", node.name, node.state,
					node.text);
	}
}

static void tell_waiters(struct fm_together *t)
{
	struct fm_list *at;

	if (!t->is_told)
		log_nodes(t);
	t->is_told = true;
	while ((at = fm_list_pop(&t->waiters))) {
		struct fm_together_waiter *w = fm_container_of(at, struct fm_together_waiter, at);

		fm_list_init(&w->at);
		w->ended(w, &t->err);
	}
}

static void tell_sink(struct fm_together *t)
{
	struct fm_together_sink *sink = t->sink;

	t->sink = NULL;
	if (sink && t->err.code == 0 && t->peer[t->self].place != FM_RUN_READY)
		(void)fm_err_set(&t->err, -EAGAIN,
				 "the run ended before it was here; run it again");
	if (sink)
		sink->ended(sink, &t->err);
}

/* Whether each node that was asked for has said how it ended, or cannot say it. */
static bool have_all_spoken(const struct fm_together *t)
{
	for (unsigned n = 0; n < t->about.count; n++) {
		const struct fm_together_peer *p = &t->peer[n];
		bool is_missing = t->missing & bit(n) || !session_of(t, n);

		if (n != t->self && t->wanted & bit(n) && !is_missing &&
		    p->place != FM_RUN_READY && p->code == 0)
			return false;
	}
	return true;
}

/*
 * Ends a run that is over. Once nothing is under way any more, those who wait are told, and the run
 * is forgotten. A source that hangs keeps the run, and nobody who waits: the others have it.
 */
static void finish(struct fm_together *t)
{
	if (fm_together_is_busy(t) || t->is_publishing)
		return;
	if (t->sink)
		tell_sink(t);
	if (!t->all->is_stopping && !have_all_spoken(t) &&
	    fm_loop_now(t->all->o.loop) < t->over_ns + LAST_NS)
		return;
	tell_waiters(t);
	if (t->users == 0 && t->ops == 0 && !t->is_woken)
		free_together(t);
}

void fm_together_get(struct fm_together *t)
{
	t->users++;
}

void fm_together_put(struct fm_together *t)
{
	t->users--;
	fm_together_wake(t);
}

static void log_over(struct fm_together *t)
{
	const struct fm_together_peer *me = &t->peer[t->self];

	if (t->err.code < 0 && me->code == 0 && me->place != FM_RUN_READY)
		fm_together_log(t, FM_LOG_WARN, "staging of %.300s ended here: %s", t->source,
				t->err.text);
	else
		fm_together_log(t, FM_LOG_INFO,
				"staging of %.300s is over here: %llu bytes read from the source",
				t->source, (unsigned long long)me->read);
}

void fm_together_over(struct fm_together *t, const struct fm_err *err)
{
	if (t->is_over)
		return;
	t->is_over = true;
	t->over_ns = fm_loop_now(t->all->o.loop);
	if (err)
		t->err = *err;
	look_at_core(t);
	log_over(t);
	say_is(t);
	fm_together_drop_core(t);
	fm_together_wake(t);
}

/* Carries out what the core asked for, and sends its messages, since the last call. */
static void run_task(struct fm_task *task)
{
	struct fm_together *t = fm_container_of(task, struct fm_together, task);

	t->is_woken = false;
	if (!t->is_over) {
		fm_together_start_ops(t);
		fm_together_take_anew(t);
		look_at_core(t);
	}
	flush(t);
	if (t->is_ended && !t->is_over)
		fm_together_over(t, NULL);
	if (t->is_over)
		finish(t);
}

void fm_together_wake(struct fm_together *t)
{
	t->is_woken = true;
	fm_loop_post(t->all->o.loop, &t->task);
}

static void tick(struct fm_timer *timer)
{
	struct fm_together *t = fm_container_of(timer, struct fm_together, timer);
	uint64_t now_ns = fm_loop_now(t->all->o.loop);

	fm_timer_set(t->all->o.loop, timer, now_ns + TICK_NS);
	if (rulers(t) & ~t->told)
		fm_together_sort(t);	/* a ruler that was waited for may be gone */
	if (t->core && !t->is_over) {
		fm_together_tell_called(t);
		fm_run_tick(t->core, now_ns);
	}
	fm_together_wake(t);
}

/* ---- a new one ---- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Lists this node and its peers, in the order of their names. */
static int list_nodes(const struct fm_togethers *all, char (*node)[FM_WIRE_NAME_MAX + 1],
		      unsigned *count, struct fm_err *err)
{
	struct fm_engine *e = all->o.engine;

	if (e->peer_count >= FM_RUN_NODES_MAX)
		return fm_err_set(err, -EOPNOTSUPP,
				  "more than %u nodes do not stage together, and this one with "
				  "its peers are %u: stage it on each, without --nodes",
				  FM_RUN_NODES_MAX, e->peer_count + 1);
	*count = 0;
	(void)snprintf(node[(*count)++], FM_WIRE_NAME_MAX + 1, "%s", all->o.node);
	fm_list_each(at, next, &e->peers)
		(void)snprintf(node[(*count)++], FM_WIRE_NAME_MAX + 1, "%s",
			       fm_container_of(at, struct fm_peer, at)->name);
	qsort(node, *count, FM_WIRE_NAME_MAX + 1, compare_names);
	return 0;
}

static int find_node(const struct fm_stage_about *a, const char *name)
{
	for (unsigned n = 0; n < a->count; n++)
		if (strcmp(a->node[n], name) == 0)
			return (int)n;
	return -1;
}

struct fm_together *fm_together_find(struct fm_togethers *all, const struct fm_cache_key *key)
{
	fm_list_each(at, next, &all->list) {
		struct fm_together *t = fm_container_of(at, struct fm_together, at);

		if (!t->is_ended && !t->is_over && memcmp(&t->key, key, sizeof(*key)) == 0)
			return t;
	}
	return NULL;
}

/* A run that goes on is preferred to one that is over and still waits for last messages. */
static struct fm_together *find_run(struct fm_togethers *all, const uint8_t *run)
{
	struct fm_together *found = NULL;

	fm_list_each(at, next, &all->list) {
		struct fm_together *t = fm_container_of(at, struct fm_together, at);

		if (memcmp(t->run, run, sizeof(t->run)) != 0)
			continue;
		if (!t->is_over)
			return t;
		found = t;
	}
	return found;
}

/* Makes a run. It first looks at the disk (together_io.c); fm_together_looked() goes on. */
static int new_together(struct fm_togethers *all, const struct fm_stage_about *about,
			struct fm_share_id who, struct fm_together **out, struct fm_err *err)
{
	struct fm_share_held place = { 0 };
	const char *names[FM_RUN_NODES_MAX];
	struct fm_together *t;
	int ret;

	if (all->is_stopping)
		return fm_err_set(err, -EHOSTDOWN, "fmoved stops");
	ret = fm_share_take(&all->places, who, 1, &place, err);
	if (ret < 0)
		return ret;
	t = FM_FAULT("stage.together") ? NULL : calloc(1, sizeof(*t));
	if (!t) {
		fm_share_give_all(&place);
		return fm_err_set(err, -ENOMEM, "no memory for a staging run");
	}
	t->all = all;
	(void)snprintf(t->begun_by, sizeof(t->begun_by), "%s", who.name ? who.name : "");
	t->caller = who.uid;
	t->place = place;
	t->about = *about;
	t->about.wanted = 0;
	t->self = (unsigned)find_node(about, all->o.node);
	take_id(t, about->job, t->self);
	t->is_id_good = !who.name;
	t->draft = t->next_draft = t->root = t->disk = t->scratch = -1;
	fm_stage_about_source(about, t->source);
	t->uid = about->uid;
	t->gid = about->gid;
	t->task.run = run_task;
	t->timer.fire = tick;
	fm_outbox_init(&t->out);
	fm_list_init(&t->waiters);
	fm_list_init(&t->starting);
	fm_list_init(&t->batch);
	fm_list_init(&t->written);
	fm_list_init(&t->saving);
	fm_list_init(&t->running);
	fm_memory_turn_init(&t->turn);
	for (unsigned n = 0; n < about->count; n++) {
		names[n] = t->about.node[n];
		t->peer[n].may_read = UINT64_MAX;
	}
	fm_list_append(&all->list, &t->at);
	all->count++;
	ret = fm_stage_about_key(about, &t->key, t->run);
	if (ret == 0 && fm_budget_take_waiting(who, memory_of(about), &t->memory))
		t->has_memory = true;
	else
		ret = -ENOMEM;
	t->have = calloc((about->extents + 63) / 64, sizeof(*t->have));
	t->crc = calloc(about->extents, sizeof(*t->crc));
	if (ret < 0 || !t->have || !t->crc) {
		free_together(t);
		return fm_err_set(err, -ENOMEM, "no memory for a staging run");
	}
	/* All have one order: who can read a shared store nobody knows of all. */
	fm_run_rank(t->key.bytes, names, about->count,
		    about->shared[0] ? 0 : bit(about->source), t->rank);
	fm_timer_set(all->o.loop, &t->timer, fm_loop_now(all->o.loop) + TICK_NS);
	fm_together_log(t, FM_LOG_INFO,
			"staging of %.300s begins here: %llu bytes, asked for by %s", t->source,
			(unsigned long long)about->bytes, who.name ? who.name : all->o.node);
	*out = t;
	return 0;
}

/*
 * Takes the draft of the manifest, unless there is one already. While a worker looks at the disk it
 * uses the present one, so a new one waits.
 */
static void take_draft(struct fm_together *t, int draft)
{
	int *place = t->is_looking ? &t->next_draft : &t->draft;

	if (*place < 0)
		*place = draft;
	else
		(void)close(draft);
}

int fm_together_join(struct fm_togethers *all, const struct fm_together_source *source,
		     const struct fm_stage_totals *totals, int draft, struct fm_together **out,
		     struct fm_err *err)
{
	struct fm_stage_about a = { .entries = totals->entries, .bytes = totals->bytes,
				    .extents = totals->extents ? totals->extents : 1,
				    .uid = source->uid, .gid = source->gid,
				    .is_hub = source->is_hub, .is_file = totals->is_file };
	const struct fm_share_id who = source->peer ? fm_share_name(source->peer)
						    : fm_share_user(source->uid);
	struct fm_cache_key key;
	uint8_t run[FM_WIRE_STAGE_RUN_LEN];
	struct fm_together *t;
	int ret = list_nodes(all, a.node, &a.count, err), node;

	memcpy(a.listing, totals->listing, sizeof(a.listing));
	(void)snprintf(a.store, sizeof(a.store), "%s", source->store);
	(void)snprintf(a.path, sizeof(a.path), "%s", source->path);
	(void)snprintf(a.name, sizeof(a.name), "%s", source->name);
	(void)snprintf(a.shared, sizeof(a.shared), "%s", source->shared);
	(void)snprintf(a.job, sizeof(a.job), "%s", source->job);
	node = find_node(&a, source->node);
	a.source = node < 0 ? 0 : (unsigned)node;
	if (ret == 0 && totals->extents == 0)
		ret = fm_err_set(err, -EOPNOTSUPP,
				 "no file in it has a byte, so there is nothing that nodes could "
				 "give each other: stage it on each node, without --nodes");
	else if (ret == 0 && totals->extents > FM_RUN_EXTENTS_MAX)
		ret = fm_err_set(err, -EOPNOTSUPP,
				 "a dataset of %u extents is not staged together: stage it on each "
				 "node, without --nodes",
				 totals->extents);
	if (ret == 0 && fm_stage_about_key(&a, &key, run) < 0)
		ret = fm_err_set(err, -ENOMEM, "no memory for a staging run");
	t = ret < 0 ? NULL : fm_together_find(all, &key);
	if (ret == 0 && !t)
		ret = new_together(all, &a, who, &t, err);
	if (ret < 0) {
		(void)close(draft);
		return ret;
	}
	if (!source->peer && t->begun_by[0]) {	/* whose lines are not to leave out his */
		t->begun_by[0] = '\0';
		t->caller = source->uid;
	}
	take_draft(t, draft);
	if (!t->core && !t->is_looking && !t->is_anew) {
		t->is_listed = a.source == t->self && !source->is_unlisted && t->draft >= 0;
		fm_together_look_here(t, NULL);
	}
	*out = t;
	return 0;
}

const struct fm_cache_key *fm_together_key(const struct fm_together *t)
{
	return &t->key;
}

int fm_together_listed(struct fm_together *t, const struct fm_cache_key *key, int draft,
		       struct fm_err *err)
{
	int ret = 0;

	if (memcmp(&t->key, key, sizeof(*key)) != 0)
		ret = fm_err_set(err, -ESTALE,
				 "%.200s changed meanwhile; run it again when nothing writes "
				 "there",
				 t->source);
	if (ret == 0)
		take_draft(t, draft);
	else
		(void)close(draft);
	return ret;
}

static int refuse_unknown(const struct fm_togethers *all, const struct fm_stage_about *a,
			  bool lacks_volume, struct fm_err *err)
{
	if (!lacks_volume)
		return fm_err_set(err, -ENOENT,
				  "%s has no store \"%s\" any more: who may read what was in it "
				  "is not known",
				  all->o.node, a->store);
	return fm_err_set(err, -EAGAIN,
			  "store \"%s\" of %s is on a volume that is not mounted: who may read it "
			  "is not known (fmove nvme status there says why)",
			  a->store, all->o.node);
}

static int refuse_reader(const struct fm_together *t, unsigned n, struct fm_err *err)
{
	unsigned by = 0;

	if (t->lacks_rules && n != t->self)
		return refuse_unknown(t->all, &t->about, t->lacks_volume, err);
	while (by + 1 < t->about.count &&
	       (!(rulers(t) & bit(by)) || t->peer[by].may_read & bit(n)))
		by++;
	return fm_err_set(err, -EACCES,
			  "%s may not read %.200s, says %s; \"peer:%s\" in the read list of its "
			  "store would allow it",
			  t->about.node[n], t->source, t->about.node[by], t->about.node[n]);
}

/*
 * Whether this node goes on without the node of the source: that says that its source is another
 * one by now, or cannot be opened there, and whom it lets read, and this one has the dataset, or is
 * looking whether it has.
 */
static bool goes_on_without(const struct fm_together *t)
{
	return !t->about.shared[0] && t->told & bit(t->about.source) &&
	       fm_together_is_closed(t->peer[t->about.source].code) &&
	       (t->is_looking || t->is_ready);
}

/*
 * Ends the run for this node if the node of the source takes no part, or its rules leave this node
 * out. A request can still fetch the dataset alone. A shared store goes on being read by the other
 * nodes that have it.
 */
static void check_source(struct fm_together *t)
{
	const struct fm_together_peer *p = &t->peer[t->about.source];
	bool reads_another =
		t->about.shared[0] && !(may_take_part(t) & bit(t->about.source));
	bool is_refused = p->code && !(t->was_in & bit(t->about.source)) &&
			  t->about.source != t->self && !reads_another;
	bool is_left_out = !(may_take_part(t) & bit(t->self));
	struct fm_err err;

	if (t->is_over || !(is_refused || is_left_out))
		return;
	if (!is_left_out && goes_on_without(t))
		return;
	if (t->about.shared[0] && (t->is_looking || t->root >= 0))
		return;
	(void)fm_err_set(&err, -EACCES, "%s",
			 p->text ? p->text : "its node takes no part in it, and says no reason");
	if (is_left_out)
		(void)refuse_reader(t, t->self, &err);
	err.code = -EOPNOTSUPP;
	fm_refusals_note(&t->all->refusals, t->run, t->begun_by, fm_loop_now(t->all->o.loop),
			 &err);
	fm_together_fail_here(t, &err);		/* a node that asked for it here hears why */
	fm_together_over(t, &err);
}

void fm_together_tell_wanted(struct fm_together *t)
{
	uint64_t nodes = t->wanted | (t->sink || t->is_to_take ? bit(t->self) : 0);

	if (nodes && t->core)
		fm_run_request(t->core, nodes);
}

/* Begins the run here, and tells all peers of it: from now on they may say what they have. */
void fm_together_begin(struct fm_together *t)
{
	say_about_to_all(t);
	fm_together_tell_wanted(t);
	if (t->peer[t->self].code && t->core)	/* refused before there was a run to tell it */
		fm_run_refuse(t->core, t->peer[t->self].code);
	fm_together_sort(t);	/* whom this node's rules leave out may never say a word */
}

/* A node hears of whom the first request is that named it: by his rights and quota it asks. */
void fm_together_request(struct fm_together *t, uint64_t nodes, uid_t uid, gid_t gid)
{
	for (unsigned n = 0; n < t->about.count; n++) {
		if (!(nodes & ~t->wanted & bit(n)))
			continue;
		t->by[n].uid = uid;
		t->by[n].gid = gid;
	}
	t->wanted |= nodes;
	say_about_to_all(t);
	if (t->core)
		fm_run_request(t->core, t->wanted);
	fm_together_wake(t);
}

void fm_together_will_take(struct fm_together *t)
{
	t->is_to_take = true;
	fm_together_tell_wanted(t);
	fm_together_wake(t);
}

void fm_together_wait(struct fm_together *t, struct fm_together_waiter *w)
{
	fm_list_append(&t->waiters, &w->at);
	fm_together_wake(t);
}

void fm_together_refuse(struct fm_together *t, const struct fm_err *err)
{
	fm_together_fail_here(t, err);
	if (t->core)
		fm_run_refuse(t->core, err->code);
	fm_together_wake(t);
}

/*
 * Starts a request for a run that peers asked this node to join, once, when it is known for which
 * user. A run that this node wants itself has its request already.
 */
void fm_together_check_invited(struct fm_together *t)
{
	struct fm_together_source s = {
		.job = fm_together_job(t),
		.node = t->about.node[t->about.source], .store = t->about.store,
		.path = t->about.path, .name = t->about.name, .shared = t->about.shared,
		.is_hub = t->about.is_hub, .peer = t->about.node[t->named_by],
		.uid = t->named_uid, .gid = t->named_gid,
	};
	struct fm_err err;

	if (!t->is_invited || t->is_answering || t->sink || t->is_to_take || t->is_over ||
	    t->wanted & bit(t->self))
		return;
	if (t->is_named) {
		t->is_answering = true;
	} else if (fm_loop_now(t->all->o.loop) >= t->invited_ns + NAMED_NS) {
		t->is_answering = true;
		(void)fm_err_set(&err, -EACCES,
				 "no node that %s stages with has asked for it there: "
				 "staging.peers in its fmove.conf says with whom",
				 t->all->o.node);
		fm_together_refuse(t, &err);
	}
	if (!t->is_named)
		return;
	if (t->root >= 0) {	/* it need not ask another one */
		s.node = t->all->o.node;
		s.store = t->store->store->name;
	}
	t->all->o.invited(t->all->o.ctx, t, &s);
}

/* ---- what comes ---- */

static void refuse_peer(struct fm_session *s, const uint8_t *run, const struct fm_err *err)
{
	struct fm_stage_is is = { .place = FM_RUN_OUT, .code = err->code };
	uint8_t body[FM_WIRE_STAGE_MAX];

	(void)snprintf(is.text, sizeof(is.text), "%.250s", err->text);
	say(s, run, FM_WIRE_STAGE_IS, body, fm_stage_is_encode(&is, body));
}

/*
 * Checks the description of a run: it must be consistent, name this node and the peer, and come
 * from a node that this one stages with, of a source on such a node.
 */
static int check_about(const struct fm_togethers *all, const struct fm_session *s,
		       const struct fm_wire_stage *m, struct fm_stage_about *a, struct fm_err *err)
{
	uint8_t run[FM_WIRE_STAGE_RUN_LEN];
	struct fm_cache_key key;

	if (fm_stage_about_decode(m->body, m->len, a) < 0 ||
	    fm_stage_about_key(a, &key, run) < 0 || memcmp(run, m->run, sizeof(run)) != 0)
		return fm_err_set(err, -EPROTO,
				  "%s says what cannot be of a run, or is of another version: "
				  "install the same one on both",
				  s->name);
	if (find_node(a, all->o.node) < 0 || find_node(a, s->name) < 0)
		return fm_err_set(err, -ENOENT,
				  "%s does not know the same nodes as %s: both must have the same "
				  "peers in their fmove.conf, and each other",
				  all->o.node, s->name);
	if (!is_allowed(all, s->name))
		return fm_err_set(err, -EACCES,
				  "%s does not stage with %s: staging.peers in its fmove.conf "
				  "lacks it; add it, and restart fmoved there",
				  all->o.node, s->name);
	if (!a->shared[0] && fm_togethers_may(all, a->node[a->source], err) < 0)
		return fm_err_set(err, -EACCES,
				  "%s does not stage with %s, which has the source: staging.peers "
				  "in its fmove.conf lacks it; add it, and restart fmoved there",
				  all->o.node, a->node[a->source]);
	return 0;
}

static void leave(struct fm_together *t, unsigned n)
{
	t->in &= ~bit(n);
	fm_together_cancel_ops(t, (int)n);
	if (t->core && !t->is_over)
		fm_run_peer_lost(t->core, n);
}

/* A peer that comes and goes without end is not to fill the log, or leave other lines out. */
static void log_entry(struct fm_together *t, unsigned n)
{
	struct fm_together_peer *p = &t->peer[n];

	if (p->entries > ENTRIES_SAID)
		return;
	p->entries++;
	if (p->entries <= ENTRIES_SAID)
		fm_together_log_by(t, t->about.node[n], FM_LOG_INFO, "%s takes part",
				   t->about.node[n]);
	else
		fm_together_log_by(t, t->about.node[n], FM_LOG_INFO,
				   "%s comes and goes: no more is said of that", t->about.node[n]);
}

static void log_exit(struct fm_together *t, unsigned n)
{
	if (t->in & bit(n) && !t->is_over && t->peer[n].entries <= ENTRIES_SAID)
		fm_together_log_by(t, t->about.node[n], FM_LOG_INFO,
				   "%s takes no part any more", t->about.node[n]);
}

/* A peer takes part from now on. It is told that this node does. */
static void enter(struct fm_together *t, unsigned n)
{
	t->in |= bit(n);
	t->was_in |= bit(n);
	log_entry(t, n);
	if (!t->core)
		return;
	say_about(t, n);
	fm_run_peer_up(t->core, n);
}

/* A peer has left: it said so, or its session was lost. */
static void left(struct fm_together *t, unsigned n)
{
	t->said_in &= ~bit(n);
	t->said_to &= ~bit(n);
	log_exit(t, n);
	if (t->in & bit(n))
		leave(t, n);
	fm_together_wake(t);
}

static void settle_id(struct fm_together *t);

void fm_together_sort(struct fm_together *t)
{
	bool have_spoken = have_rulers_spoken(t);
	uint64_t all_may = may_take_part(t), may = all_may & bit(t->self) ? all_may : 0;

	for (unsigned n = 0; n < t->about.count; n++) {
		struct fm_together_peer *p = &t->peer[n];
		struct fm_err err;

		if (t->in & ~may & bit(n))
			leave(t, n);
		if (have_spoken && t->said_in & may & ~t->in & bit(n))
			enter(t, n);
		if (n == t->self || all_may & bit(n))
			continue;
		/* anew, since who first said so may only have passed it on */
		p->code = refuse_reader(t, n, &err);
		set_text(&p->text, err.text);
	}
	settle_id(t);
	check_source(t);
	fm_together_wake(t);
}

static void heard(struct fm_together *t, unsigned from, bool is_in)
{
	if (!is_in || t->said_in & bit(from))
		return;
	t->said_in |= bit(from);
	fm_together_sort(t);
}

/* Refuses a run of a node that the rules of this node's store leave out. */
static int check_rules(const struct fm_togethers *all, const struct fm_stage_about *a,
		       const char *peer, struct fm_err *err)
{
	struct fm_store_ref *ref = fm_togethers_rules(all, a);
	const struct fm_store_ops *ops = ref ? ref->store->ops : NULL;
	int ret = 0;

	if (!ref && fm_togethers_lack_rules(all, a))
		ret = refuse_unknown(all, a, fm_togethers_lack_volume(all, a), err);
	if (ref && !(ops->lets_peer && ops->lets_peer(ref->store, peer)))
		ret = fm_err_set(err, -EACCES,
				 "%s may not read store \"%s\" of %s; \"peer:%s\" in the store's "
				 "read list would allow it",
				 peer, ref->store->name, all->o.node, peer);
	if (ref)
		fm_engine_store_put(ref);
	return ret;
}

/*
 * A ruler has said which nodes may read. For a shared store this is passed on to every node,
 * because some may not be peers of that ruler.
 */
static void hear_word(struct fm_together *t, unsigned from, uint64_t may_read)
{
	uint64_t before = may_take_part(t);

	if (!(rulers(t) & bit(from)))
		return;
	t->told |= bit(from);
	t->peer[from].may_read &= may_read;
	fm_together_sort(t);
	if (t->about.shared[0] && may_take_part(t) != before)
		say_about_to_all(t);
}

/* Whether a job here that has not ended has that id: by it fmove cancel would end that one. */
static bool is_of_a_job(const struct fm_togethers *all, const char *id)
{
	struct fm_queue_info info;
	struct fm_err err;

	return fm_queue_find(all->o.queue, id, 0, &info, &err) == 0 && info.state < FM_QUEUE_DONE;
}

/* A name that may be the run's, as it is none of another job of this node, or "". */
static void note_id(struct fm_together *t, unsigned from, const char *id)
{
	bool is_one = strcmp(id, FM_STAGE_NO_JOB) != 0 && !is_of_a_job(t->all, id);

	(void)snprintf(t->peer[from].job, sizeof(t->peer[from].job), "%s", is_one ? id : "");
}

/* The first in the order of letters of what those say who may take part; -1: they say none. */
static int first_id(const struct fm_together *t)
{
	uint64_t may = may_take_part(t);
	int best = -1;

	for (unsigned n = 0; n < t->about.count; n++)
		if (may & bit(n) && t->peer[n].job[0] &&
		    (best < 0 || strcmp(t->peer[n].job, t->peer[best].job) < 0))
			best = (int)n;
	return best;
}

static void rename_run(struct fm_together *t, const char *id, unsigned by)
{
	const char *before = fm_together_job(t);

	if (by == t->self)
		fm_together_log(t, FM_LOG_INFO,
				"goes on as job %s: %s, which called it otherwise, may not read it",
				id, t->about.node[t->id_by]);
	else
		fm_together_log(t, FM_LOG_INFO, "goes on as job %s, by which %s knows it", id,
				t->about.node[by]);
	take_id(t, id, by);
	fm_together_log(t, FM_LOG_INFO, "was job %s here until now", before);
}

/*
 * Nodes that were asked for the same at once each made an id. All go on with the one that comes
 * first in the order of letters, and say so, since some may not be peers of the node that made it.
 * Only a node that may take part makes one. Who may is known when the rulers have spoken; what was
 * heard before is used for this node's log, and said to nobody. A node that is left out only then,
 * by a ruler that came late, takes its id with it.
 */
static void settle_id(struct fm_together *t)
{
	bool is_made = t->id_by == t->self, was_good = t->is_id_good;
	bool may_by = may_take_part(t) & bit(t->id_by);
	char made[FM_QUEUE_ID_LEN + 1];
	int by;

	if (t->is_over || !is_known_who_may(t))
		return;
	if (!is_made)
		t->is_id_good = may_by;
	by = first_id(t);
	if (by >= 0 && t->id_count < FM_TOGETHER_IDS_MAX &&
	    (!t->is_id_good || strcmp(t->peer[by].job, fm_together_job(t)) < 0)) {
		rename_run(t, t->peer[by].job, (unsigned)by);
		t->is_id_good = true;
		was_good = false;
	} else if (!t->is_id_good && !may_by && !is_made && t->id_count < FM_TOGETHER_IDS_MAX) {
		fm_queue_make_id(t->all->o.queue, made);
		rename_run(t, made, t->self);
		t->is_id_good = !t->begun_by[0];	/* as if he had asked just now */
		was_good = false;
	}
	if (t->is_id_good && !was_good && t->said_to)	/* else it is still to be said */
		say_about_to_all(t);
}

/* The run of which that peer is the first to tell. */
static int begin_for(struct fm_togethers *all, struct fm_stage_about *a, const char *peer,
		     struct fm_together **out, struct fm_err *err)
{
	bool is_named = strcmp(a->job, FM_STAGE_NO_JOB) != 0 && !is_of_a_job(all, a->job);
	int ret = check_rules(all, a, peer, err);

	if (ret == 0 && !is_named)
		fm_queue_make_id(all->o.queue, a->job);
	if (ret == 0)
		ret = new_together(all, a, fm_share_name(peer), out, err);
	if (ret < 0)
		return ret;
	if (is_named)
		(*out)->id_by = (unsigned)find_node(a, peer);
	else
		memcpy(a->job, FM_STAGE_NO_JOB, sizeof(a->job));
	fm_together_look_here(*out, peer);
	return 0;
}

/* The node of the source takes part, and lets this one: what it said before is no more. */
static void hear_source(struct fm_togethers *all, const uint8_t *run,
			const struct fm_stage_about *a, const char *peer)
{
	if (strcmp(a->node[a->source], peer) == 0 && a->is_in &&
	    a->may_read & bit((unsigned)find_node(a, all->o.node)))
		fm_refusals_forget(&all->refusals, run);
}

/*
 * Refuses a run that ended here a while ago because the node of its source refuses it. What a user
 * asks for at another node is tried again. All else may come from a node that has looked at its
 * disk meanwhile, and is refused in its turn: such runs would make each other begin without end.
 */
static int check_refused(const struct fm_togethers *all, const uint8_t *run,
			 const struct fm_stage_about *a, struct fm_err *err)
{
	if (a->wanted)
		return 0;
	return fm_refusals_find(&all->refusals, run, fm_loop_now(all->o.loop), err);
}

static void note_named(struct fm_together *t, unsigned from, const struct fm_stage_about *a)
{
	if (!(a->wanted & bit(t->self)))
		return;
	t->asked_by |= bit(from);
	if (t->is_named)
		return;
	t->is_named = true;
	t->named_by = from;
	t->named_uid = a->uid;
	t->named_gid = a->gid;
}

static void on_about(struct fm_togethers *all, struct fm_session *s, const struct fm_wire_stage *m)
{
	struct fm_together *t = find_run(all, m->run);
	struct fm_stage_about *a = calloc(1, sizeof(*a));
	struct fm_err err = { 0 };
	unsigned from;
	int ret = a ? check_about(all, s, m, a, &err)
		    : fm_err_set(&err, -ENOMEM, "no memory for a staging run");

	if (ret == 0)
		hear_source(all, m->run, a, s->name);
	if (ret == 0 && (!t || t->is_over)) {
		ret = check_refused(all, m->run, a, &err);
		if (ret == 0)
			ret = begin_for(all, a, s->name, &t, &err);
	}
	if (ret < 0) {
		refuse_peer(s, m->run, &err);
		free(a);
		return;
	}
	from = (unsigned)find_node(a, s->name);
	note_id(t, from, a->job);
	note_named(t, from, a);		/* before its word, which may end the run here */
	hear_word(t, from, a->may_read);
	settle_id(t);
	if (t->about.shared[0] && !(t->said_to & bit(from)))
		say_about(t, from);	/* it waits for our word, however long we look */
	if (!(may_take_part(t) & bit(from))) {
		(void)refuse_reader(t, from, &err);
		refuse_peer(s, m->run, &err);
	}
	heard(t, from, a->is_in);
	fm_together_check_invited(t);
	free(a);
}

static void on_run(struct fm_togethers *all, struct fm_session *s, const struct fm_wire_stage *m)
{
	struct fm_together *t = find_run(all, m->run);
	struct fm_run_msg msg;
	int via;

	if (!t || t->is_over || !t->core)
		return;
	via = find_node(&t->about, s->name);
	if (via < 0 || !(t->in & bit((unsigned)via)))
		return;
	if (fm_run_decode(m->body, m->len, &msg) < 0) {
		fm_session_protocol_error(s, "a message of a staging run that cannot be");
		return;
	}
	fm_run_message(t->core, (unsigned)via, &msg);
	fm_together_wake(t);
}

/*
 * What a node says of the run that came after it here is its last word on one that is over, too, if
 * somebody still waits for that.
 */
static void hear_last(struct fm_togethers *all, const struct fm_together *run, unsigned from,
		      const struct fm_stage_is *is)
{
	fm_list_each(at, next, &all->list) {
		struct fm_together *t = fm_container_of(at, struct fm_together, at);
		struct fm_together_peer *p = &t->peer[from];

		if (t == run || !t->is_over || t->is_told || p->code ||
		    p->place == FM_RUN_READY || memcmp(t->run, run->run, sizeof(t->run)) != 0 ||
		    !(may_take_part(t) & bit(from)) || (is->place != FM_RUN_READY && !is->code))
			continue;
		p->place = is->place;
		p->code = is->code;
		set_text(&p->path, is->path);
		set_text(&p->text, is->text);
		fm_together_wake(t);
	}
}

static void on_is(struct fm_togethers *all, struct fm_session *s, const struct fm_wire_stage *m)
{
	struct fm_together *t = find_run(all, m->run);
	struct fm_stage_is *is = t ? malloc(sizeof(*is)) : NULL;
	struct fm_together_peer *p;
	int from = t ? find_node(&t->about, s->name) : -1;

	if (from >= 0 && t->about.shared[0])
		t->told |= bit((unsigned)from);		/* also if it refuses: then it gives none */
	if (!is || from < 0 || !(may_take_part(t) & bit((unsigned)from))) {
		free(is);
		return;
	}
	if (fm_stage_is_decode(m->body, m->len, is) < 0) {
		free(is);
		fm_session_protocol_error(s, "words of a staging run that cannot be");
		return;
	}
	p = &t->peer[from];
	p->is_heard = true;
	p->place = is->place;
	p->code = is->code;
	p->done = is->done;
	p->read = is->read;
	set_text(&p->path, is->path);
	set_text(&p->text, is->text);
	if (is->is_over)
		left(t, (unsigned)from);
	check_source(t);
	hear_last(all, t, (unsigned)from, is);
	free(is);
	fm_together_wake(t);
}

void fm_togethers_message(struct fm_togethers *all, struct fm_session *s,
			  const struct fm_wire_msg *m)
{
	if (m->stage.kind == FM_WIRE_STAGE_ABOUT)
		on_about(all, s, &m->stage);
	else if (m->stage.kind == FM_WIRE_STAGE_RUN)
		on_run(all, s, &m->stage);
	else
		on_is(all, s, &m->stage);
}

void fm_togethers_refuse(struct fm_session *s, const struct fm_wire_msg *m)
{
	struct fm_err err;

	(void)fm_err_set(&err, -EOPNOTSUPP,
			 "%s stages nothing: staging.directory of its fmove.conf says where",
			 s->engine->name);
	if (m->stage.kind == FM_WIRE_STAGE_ABOUT)
		refuse_peer(s, m->stage.run, &err);
}

void fm_togethers_peer_up(struct fm_togethers *all, struct fm_peer *p)
{
	if (!is_allowed(all, p->name))
		return;
	fm_list_each(at, next, &all->list) {
		struct fm_together *t = fm_container_of(at, struct fm_together, at);
		int n = find_node(&t->about, p->name);

		if (!t->is_over && n >= 0)
			say_about(t, (unsigned)n);
	}
}

/*
 * Whether the peer has another session: both nodes dialled, or the session goes on over a
 * connection that began as another one.
 */
static bool has_other_session(const struct fm_session *lost)
{
	fm_list_each(at, next, &lost->engine->sessions) {
		const struct fm_session *s = fm_container_of(at, struct fm_session, at);

		if (s != lost && s->is_up && !s->is_closed && strcmp(s->name, lost->name) == 0)
			return true;
	}
	return false;
}

void fm_togethers_session_lost(struct fm_togethers *all, struct fm_session *s)
{
	if (has_other_session(s))	/* it has not left, and would not say again that it is in */
		return;
	fm_list_each(at, next, &all->list) {
		struct fm_together *t = fm_container_of(at, struct fm_together, at);
		int n = find_node(&t->about, s->name);

		if (n < 0)
			continue;
		if (!t->is_over)	/* a request made from here on does not find it there */
			t->peer[n].place = FM_RUN_PASSIVE;
		left(t, (unsigned)n);
	}
}

/* ---- what is shown ---- */

unsigned fm_together_count(const struct fm_together *t)
{
	return t->about.count;
}

static const char *state_of(const struct fm_together *t, unsigned n)
{
	const struct fm_together_peer *p = &t->peer[n];

	if (p->place == FM_RUN_READY)
		return "ready";
	if (p->code)
		return "failed";
	if (n != t->self && !session_of(t, n))
		return "silent";
	if (t->is_over && t->wanted & bit(n))
		return t->missing & bit(n) || t->err.code ? "failed" : "silent";
	return p->place == FM_RUN_SINK ? "fetching" : "waiting";
}

/* What this node heard last when it tried to reach it, such as that it has another version. */
static const char *why_silent(const struct fm_together *t, unsigned n)
{
	const struct fm_peer *p = fm_engine_peer(t->all->o.engine, t->about.node[n]);

	return p && !p->session && p->last_error[0] ? p->last_error
						    : "is not connected, or says nothing";
}

void fm_together_look(const struct fm_together *t, unsigned n, struct fm_together_node *out)
{
	const struct fm_together_peer *p = &t->peer[n];

	*out = (struct fm_together_node){
		.name = t->about.node[n], .state = state_of(t, n),
		.done = n == t->self ? fm_together_done(t) : p->done,
		.read = p->read, .path = p->path ? p->path : "", .code = p->code,
		.text = p->text ? p->text : "", .is_wanted = t->wanted & bit(n),
		.is_here = n == t->self,
	};
	if (strcmp(out->state, "failed") == 0 && n != t->self &&
	    !is_allowed(t->all, out->name)) {
		out->code = -EACCES;
		out->text = "it was not asked: it is not in staging.peers of the fmove.conf of the "
			    "node where fmove runs; add it, and restart fmoved there";
	} else if (strcmp(out->state, "failed") == 0 && out->code == 0) {
		out->code = t->err.code ? t->err.code : -EHOSTUNREACH;
		out->text = t->err.code ? t->err.text : "it took no part";
	}
	if (strcmp(out->state, "silent") == 0 && out->code == 0) {
		out->code = -EHOSTUNREACH;
		out->text = why_silent(t, n);
	}
}

/* ---- all of them ---- */

int fm_togethers_may(const struct fm_togethers *all, const char *source, struct fm_err *err)
{
	if (strcmp(source, all->o.node) != 0 && !is_allowed(all, source))
		return fm_err_set(
			err, -EACCES,
			"%s is not in staging.peers of this node's fmove.conf: nodes stage "
			"together with those that are named there; add it, and restart fmoved",
			source);
	return 0;
}

/* "a,b" or "all"; into the set. */
static int add_node(const struct fm_stage_about *a, const char *at, size_t len, uint64_t *out,
		    struct fm_err *err)
{
	char name[FM_WIRE_NAME_MAX + 1];
	int n = -1;

	if (len < sizeof(name)) {
		(void)snprintf(name, sizeof(name), "%.*s", (int)len, at);
		n = find_node(a, name);
	}
	if (n < 0)
		return fm_err_set(err, -ENOENT,
				  "there is no node \"%.*s\"; fmove status lists the peers of "
				  "this one",
				  (int)len, at);
	*out |= bit((unsigned)n);
	return 0;
}

int fm_togethers_nodes(const struct fm_togethers *all, const char *list, uint64_t *out,
		       struct fm_err *err)
{
	struct fm_stage_about *a = calloc(1, sizeof(*a));
	int ret = a ? list_nodes(all, a->node, &a->count, err)
		    : fm_err_set(err, -ENOMEM, "no memory for a request");

	*out = 0;
	if (ret == 0 && strcmp(list, "all") == 0) {
		*out = a->count == 64 ? UINT64_MAX : bit(a->count) - 1;
		list = "";
	}
	while (ret == 0 && *list) {
		size_t len = strcspn(list, ",");

		ret = add_node(a, list, len, out, err);
		list += len + (list[len] == ',');
	}
	free(a);
	return ret;
}

bool fm_togethers_has_self(const struct fm_togethers *all, uint64_t nodes)
{
	uint64_t self;
	struct fm_err err;

	return fm_togethers_nodes(all, all->o.node, &self, &err) == 0 && nodes & self;
}

uint64_t fm_togethers_read(const struct fm_togethers *all)
{
	return atomic_load(&all->read);
}

int fm_togethers_new(const struct fm_togethers_opts *opts, struct fm_togethers **out,
		     struct fm_err *err)
{
	static const struct fm_share_limits limits = { "places for staging runs of several nodes",
						       FM_TOGETHERS_MAX, 0, 0, 1 };
	struct fm_togethers *all = FM_FAULT("stage.together") ? NULL : calloc(1, sizeof(*all));
	int ret;

	if (!all)
		return fm_err_set(err, -ENOMEM, "allocate the staging runs");
	all->o = *opts;
	all->times = fm_run_times_default;
	all->times.settle = opts->settle_ns;
	all->lines.most = FM_LOG_USER_LINES;
	fm_list_init(&all->list);
	fm_share_init(&all->places, &limits);
	fm_memory_line_init(&all->memory, opts->engine);
	ret = fm_landing_new(opts->engine, &all->landing, err);
	if (ret < 0) {
		free(all);
		return ret;
	}
	*out = all;
	return 0;
}

void fm_togethers_stop(struct fm_togethers *all)
{
	struct fm_err err;

	all->is_stopping = true;
	(void)fm_err_set(&err, -EHOSTDOWN, "fmoved stops");
	fm_list_each(at, next, &all->list)
		fm_together_over(fm_container_of(at, struct fm_together, at), &err);
}

bool fm_togethers_are_any(const struct fm_togethers *all)
{
	return all->count > 0;
}

bool fm_togethers_are_idle(struct fm_togethers *all)
{
	return all->count == 0 && fm_landing_count(all->landing) == 0 &&
	       fm_memory_line_stop(&all->memory);
}

bool fm_togethers_are_through(const struct fm_togethers *all)
{
	fm_list_each(at, next, &((struct fm_togethers *)all)->list) {
		const struct fm_together *t = fm_container_of(at, struct fm_together, at);

		if (t->users == 0 || t->ops > 0 || t->is_publishing)
			return false;
	}
	return fm_landing_count(all->landing) == 0;
}

void fm_togethers_free(struct fm_togethers *all)
{
	if (!all)
		return;
	assert(fm_list_is_empty(&all->list));
	free(all);
}
