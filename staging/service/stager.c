/* SPDX-License-Identifier: MIT */
/* stager - see stager.h: what all requests share, and how the engine knows it. */
#include "staging/service/stager.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/node/session.h"
#include "staging/service/afar.h"
#include "staging/service/check_runs.h"
#include "staging/service/elsewhere.h"
#include "staging/service/far_rules.h"
#include "staging/service/hub.h"
#include "staging/service/keeper.h"
#include "staging/service/lent.h"
#include "staging/service/rights.h"
#include "staging/service/run.h"
#include "staging/service/stager_priv.h"
#include "staging/service/together.h"

#define UPKEEP_NS (5 * FM_NS_PER_S)

/* ---- the whole ---- */

static void upkeep_run(struct fm_work *work)
{
	struct fm_stager *s = fm_container_of(work, struct fm_stager, upkeep_work);

	fm_cache_upkeep(s->cache);
	fm_hub_sweep(s->hub);
}

static void arm_upkeep(struct fm_stager *s, uint64_t after_ns)
{
	fm_timer_set(s->o.loop, &s->upkeep, fm_loop_now(s->o.loop) + after_ns);
}

static void upkeep_done(struct fm_work *work)
{
	struct fm_stager *s = fm_container_of(work, struct fm_stager, upkeep_work);

	s->is_in_upkeep = false;
	if (!s->is_stopping)
		arm_upkeep(s, UPKEEP_NS);
	fm_engine_check_stopped(s->o.engine);
}

static void rights_run(struct fm_work *work)
{
	fm_stage_rights_run(&fm_container_of(work, struct fm_stager, rights_work)->rights);
}

static void rights_done(struct fm_work *work)
{
	struct fm_stager *s = fm_container_of(work, struct fm_stager, rights_work);

	s->is_asking_rights = false;
	fm_stage_rights_asked(&s->rights);
}

/*
 * Apart from the upkeep: the user database may never answer, and a hold is to end with its process
 * all the same. The engine does not wait for this either, as with far_rules.
 */
static void ask_rights(struct fm_stager *s)
{
	if (s->is_asking_rights)
		return;
	fm_stage_rights_look(&s->rights);
	s->is_asking_rights = true;
	s->rights_work = (struct fm_work){ .run = rights_run,
					   .done = rights_done,
					   .may_await = fm_stage_rights_may_await() };
	fm_worker_submit(s->o.worker, &s->rights_work, s->o.loop);
}

static void upkeep_fire(struct fm_timer *timer)
{
	struct fm_stager *s = fm_container_of(timer, struct fm_stager, upkeep);

	fm_stage_runs_note(&s->runs);
	ask_rights(s);
	fm_far_rules_look(s->far_rules);
	fm_keeper_look(s->keeper);
	s->is_in_upkeep = true;
	s->upkeep_work = (struct fm_work){ .run = upkeep_run, .done = upkeep_done };
	fm_worker_submit(s->o.worker, &s->upkeep_work, s->o.loop);
}

/*
 * Whether nothing is left that needs the worker, which ends with the engine. The engine waits for
 * this.
 */
static bool is_idle(const struct fm_engine *engine)
{
	const struct fm_stager *s = fm_stager_of(engine);

	return !s || (fm_list_is_empty(&s->asks) && fm_list_is_empty(&s->hub_asks) &&
		      fm_list_is_empty(&s->runs.all) && fm_list_is_empty(&s->checks.all) &&
		      !s->is_in_upkeep && fm_keeper_is_idle(s->keeper) &&
		      fm_afar_is_idle(s->afar) && fm_togethers_are_idle(s->togethers));
}

/* Fetches, also for other nodes, and checks; not the upkeep of the cache. */
static bool is_working(const struct fm_engine *engine)
{
	const struct fm_stager *s = fm_stager_of(engine);

	return s && !(fm_list_is_empty(&s->asks) && fm_list_is_empty(&s->hub_asks) &&
		      fm_list_is_empty(&s->runs.all) && fm_list_is_empty(&s->checks.all) &&
		      !fm_togethers_are_any(s->togethers));
}

/* Whether what is left only waits for the user database, which may never answer. */
static bool awaits_users(const struct fm_engine *engine)
{
	const struct fm_stager *s = fm_stager_of(engine);

	if (fm_list_is_empty(&s->asks) && fm_keeper_is_idle(s->keeper))
		return false;
	return fm_list_is_empty(&s->hub_asks) && fm_list_is_empty(&s->runs.all) &&
	       fm_list_is_empty(&s->checks.all) && !s->is_in_upkeep && fm_afar_is_idle(s->afar) &&
	       fm_stage_asks_await_users(s) && fm_keeper_awaits_users(s->keeper) &&
	       fm_togethers_are_through(s->togethers);
}

static void on_stage(struct fm_session *session, const struct fm_wire_msg *m)
{
	struct fm_stager *s = fm_stager_of(session->engine);

	if (m->stage.kind == FM_WIRE_STAGE_ASK || m->stage.kind == FM_WIRE_STAGE_SAYS)
		fm_elsewhere_message(s ? &s->elsewhere : NULL, session, m);
	else if (m->stage.kind == FM_WIRE_STAGE_KEEP)
		fm_keeper_message(s ? s->keeper : NULL, session, &m->stage);
	else if (m->stage.kind == FM_WIRE_STAGE_KEPT && s)
		fm_afar_message(s->afar, session, &m->stage);
	else if (m->stage.kind == FM_WIRE_STAGE_WHO || m->stage.kind == FM_WIRE_STAGE_NAMED)
		fm_far_rules_message(s ? s->far_rules : NULL, session, &m->stage);
	else if (s)
		fm_togethers_message(s->togethers, session, m);
	else
		fm_togethers_refuse(session, m);
}

static void peer_up(struct fm_peer *p)
{
	struct fm_stager *s = fm_stager_of(p->engine);

	if (!s)
		return;
	fm_togethers_peer_up(s->togethers, p);
	fm_far_rules_peer_up(s->far_rules, p);
}

static void session_lost(struct fm_session *session, const struct fm_err *err)
{
	struct fm_stager *s = fm_stager_of(session->engine);

	(void)err;
	if (!s)
		return;
	fm_togethers_session_lost(s->togethers, session);
	fm_elsewhere_session_lost(&s->elsewhere, session);
	fm_afar_session_lost(s->afar, session);
	fm_far_rules_session_lost(s->far_rules, session);
}

static void stop(struct fm_engine *engine)
{
	struct fm_stager *s = fm_stager_of(engine);

	if (!s)
		return;
	s->is_stopping = true;
	atomic_store(&s->is_cancelled, true);
	fm_timer_clear(s->o.loop, &s->upkeep);
	fm_stage_asks_stop(s);
	/* first: they begin nothing when what they await ends */
	fm_stage_check_runs_stop(&s->checks);
	fm_togethers_stop(s->togethers);
	fm_elsewhere_stop(&s->elsewhere);
	fm_afar_stop(s->afar);
	fm_stage_runs_stop(&s->runs);
}

struct state {
	struct fm_stager *stager;
	struct fm_err why;		/* there is none, though one is configured */
};

/* What is not there is NULL. */
static void close_parts(struct fm_stager *s)
{
	fm_far_rules_free(s->far_rules);
	fm_afar_free(s->afar);
	fm_stage_rights_free(&s->rights);
	fm_keeper_free(s->keeper);
	fm_togethers_free(s->togethers);
	fm_hub_free(s->hub);
	fm_cache_close(s->cache);
}

static void end(void *of)
{
	struct fm_stager *s = ((const struct state *)of)->stager;

	if (!s)
		return;
	assert(fm_list_is_empty(&s->asks) && fm_list_is_empty(&s->hub_asks));
	close_parts(s);
	free(s);
}

static const struct fm_service_message messages[] = { { FM_WIRE_STAGE, on_stage } };

const struct fm_service fm_stage_service = { .name = "staging",
					     .messages = messages,
					     .message_count = 1,
					     .awaits_callers = awaits_users,
					     .peer_up = peer_up,
					     .session_lost = session_lost,
					     .state_bytes = sizeof(struct state),
					     .end = end,
					     .stop = stop,
					     .is_idle = is_idle,
					     .is_working = is_working };

static struct state *state_of(const struct fm_engine *engine)
{
	return fm_service_state(engine, &fm_stage_service);
}

struct fm_stager *fm_stager_of(const struct fm_engine *engine)
{
	return state_of(engine)->stager;
}

const struct fm_err *fm_stager_why(const struct fm_engine *engine)
{
	return &state_of(engine)->why;
}

static int new_togethers(struct fm_stager *s, struct fm_err *err)
{
	const struct fm_togethers_opts opts = {
		.engine = s->o.engine, .loop = s->o.loop, .worker = s->o.worker,
		.node = s->o.node, .cache = s->cache, .queue = s->o.queue,
		.directory = s->o.cache.directory, .peers = s->o.peers,
		.settle_ns = s->o.settle_ns, .uploads = s->o.uploads,
		.invited = fm_stage_ask_invited, .ctx = s,
	};

	return fm_togethers_new(&opts, &s->togethers, err);
}

static int new_keeper(struct fm_stager *s, struct fm_err *err)
{
	const struct fm_keeper_opts opts = {
		.engine = s->o.engine, .loop = s->o.loop, .worker = s->o.worker,
		.cache = s->cache, .hub = s->hub, .node = s->o.node,
		.togethers = s->togethers,
	};

	return fm_keeper_new(&opts, &s->keeper, err);
}

static int new_afar(struct fm_stager *s, struct fm_err *err)
{
	const struct fm_afar_opts opts = { .engine = s->o.engine, .loop = s->o.loop,
					   .worker = s->o.worker, .cache = s->cache };

	return fm_afar_new(&opts, &s->afar, err);
}

static int new_far_rules(struct fm_stager *s, struct fm_err *err)
{
	const struct fm_far_rules_opts opts = { .engine = s->o.engine, .loop = s->o.loop,
						.worker = s->o.worker, .cache = s->cache,
						.togethers = s->togethers, .node = s->o.node,
						.everybody = s->o.everybody };

	return fm_far_rules_new(&opts, &s->far_rules, err);
}

static bool may_borrow(void *ctx, const char *peer)
{
	const struct fm_stager *s = ctx;
	struct fm_err err;

	return fm_togethers_may(s->togethers, peer, &err) == 0;
}

static int new_lent(struct fm_stager *s, struct fm_err *err)
{
	struct fm_store *store;
	int ret = fm_lent_new(s->cache, may_borrow, s, &store, err);

	return ret < 0 ? ret : fm_engine_set_store(s->o.engine, store, err);
}

static int open_parts(struct fm_stager *s, struct fm_err *err)
{
	int ret = fm_cache_open(&s->o.cache, &s->cache, err);

	if (ret == 0)
		ret = fm_hub_new(s->cache, s->o.cache.directory, &s->hub, err);
	if (ret == 0)
		ret = new_togethers(s, err);
	if (ret == 0)
		ret = new_keeper(s, err);
	if (ret == 0)
		ret = new_afar(s, err);
	if (ret == 0)
		ret = new_far_rules(s, err);
	if (ret == 0)
		ret = new_lent(s, err);
	if (ret < 0)
		close_parts(s);
	return ret;
}

static bool is_coming(void *ctx, const struct fm_cache_key *listing)
{
	const struct fm_stager *s = ctx;

	return fm_stage_runs_doing(&s->runs, listing) != NULL;
}

static int stager_new(const struct fm_stager_opts *opts, struct fm_stager **out, struct fm_err *err)
{
	static const struct fm_share_limits limits = { .what = "requests to stage",
						       .total = FM_STAGE_ASKS_MAX,
						       .root = FM_STAGE_ASKS_MAX / 8, .times = 1 };
	static const struct fm_share_limits own = { .what = "requests for own hub caches",
						    .total = FM_STAGE_OWN_MAX,
						    .root = FM_STAGE_OWN_MAX / 8,
						    .most = FM_STAGE_OWN_USER, .times = 1 };
	struct fm_stager *s = FM_FAULT("stage.alloc") ? NULL : calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return fm_err_set(err, -ENOMEM, "allocate the stager");
	s->o = *opts;
	s->lines.most = FM_LOG_USER_LINES;
	ret = open_parts(s, err);
	if (ret < 0) {
		free(s);
		return ret;
	}
	s->rights = (struct fm_stage_rights){ .cache = s->cache, .engine = s->o.engine,
					      .node = s->o.node, .everybody = &s->o.everybody };
	fm_list_init(&s->asks);
	fm_list_init(&s->hub_asks);
	fm_stage_runs_init(&s->runs, opts, s->cache);
	fm_stage_check_runs_init(&s->checks, opts->engine);
	fm_share_init(&s->places, &limits);
	fm_share_init(&s->own_places, &own);
	s->elsewhere = (struct fm_elsewhere){ .engine = opts->engine, .loop = opts->loop,
					      .cache = s->cache, .togethers = s->togethers,
					      .is_coming = is_coming, .ctx = s };
	fm_elsewhere_init(&s->elsewhere);
	s->upkeep.fire = upkeep_fire;
	arm_upkeep(s, 0);
	*out = s;
	return 0;
}

void fm_stager_refuse(const struct fm_engine *engine, const struct fm_err *why)
{
	state_of(engine)->why = *why;
}

int fm_stager_start(const struct fm_stager_opts *opts, struct fm_err *err)
{
	struct state *state = state_of(opts->engine);
	int ret = stager_new(opts, &state->stager, &state->why);

	if (ret < 0)
		*err = state->why;
	return ret;
}

const struct fm_stager_opts *fm_stager_config(const struct fm_stager *s)
{
	return &s->o;
}

struct fm_cache *fm_stager_cache(struct fm_stager *s)
{
	return s->cache;
}

struct fm_worker *fm_stager_worker(struct fm_stager *s)
{
	return s->o.worker;
}

struct fm_stage_check_runs *fm_stager_checks(struct fm_stager *s)
{
	return &s->checks;
}

struct fm_loop *fm_stager_loop(struct fm_stager *s)
{
	return s->o.loop;
}

struct fm_engine *fm_stager_engine(struct fm_stager *s)
{
	return s->o.engine;
}

struct fm_elsewhere *fm_stager_elsewhere(struct fm_stager *s)
{
	return &s->elsewhere;
}

struct fm_afar *fm_stager_afar(struct fm_stager *s)
{
	return s->afar;
}

struct fm_hub *fm_stager_hub(struct fm_stager *s)
{
	return s->hub;
}

struct fm_list *fm_stager_hub_asks(struct fm_stager *s)
{
	return &s->hub_asks;
}

struct fm_share *fm_stager_own_places(struct fm_stager *s)
{
	return &s->own_places;
}

struct fm_togethers *fm_stager_togethers(struct fm_stager *s)
{
	return s->togethers;
}

const struct fm_stage_runs *fm_stager_runs(const struct fm_stager *s)
{
	return &s->runs;
}
