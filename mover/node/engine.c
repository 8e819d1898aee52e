/* SPDX-License-Identifier: MIT */
/* engine - see engine.h. */
#include "mover/node/engine.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/dirway.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/data/flow.h"
#include "mover/data/registered.h"
#include "mover/node/node.h"
#include "mover/node/rail.h"
#include "mover/node/service.h"
#include "mover/node/session.h"

#define TICK_NS (500 * FM_NS_PER_MS)
#define STILL_MAX_NS (10 * FM_NS_PER_S)
#define STILLS_MAX 3
#define RDMA_WHY_MAX 200	/* cut if it is longer */

/* ---- life ---- */

/*
 * After a tick that comes late this node itself stood still, and with it the whole machine maybe,
 * or all machines. What is here already has not been looked at, and others had no time either: so
 * no peer is silent for that. The services, which give up what takes too long, are left out for as
 * much longer, STILL_MAX_NS at most, since others may go on later than this node; anew if it
 * stands still once more meanwhile, STILLS_MAX times in all. Then they look, however late that tick
 * is: a node that is always late has to go on as well.
 */
static void tick_fire(struct fm_timer *timer)
{
	struct fm_engine *e = fm_container_of(timer, struct fm_engine, tick);
	uint64_t now_ns = fm_engine_now(e);
	uint64_t late_ns = now_ns - timer->at_ns;
	bool was_still = late_ns > TICK_NS;
	uint64_t until_ns = now_ns + (late_ns < STILL_MAX_NS ? late_ns : STILL_MAX_NS);

	fm_list_each(at, next, &e->sessions) {
		struct fm_session *s = fm_container_of(at, struct fm_session, at);

		if (was_still)
			fm_session_stood_still(s, late_ns);
		fm_session_tick(s, now_ns);
	}
	if (was_still && e->stills < STILLS_MAX) {
		e->stills++;
		if (until_ns > e->left_out_until_ns)
			e->left_out_until_ns = until_ns;
	} else if (now_ns >= e->left_out_until_ns) {
		e->stills = 0;
		fm_services_tick(e, now_ns);
	}
	if (!e->is_stopped)
		fm_timer_set(e->env.loop, &e->tick, now_ns + TICK_NS);
}

static void stopped_run(struct fm_task *task)
{
	struct fm_engine *e = fm_container_of(task, struct fm_engine, stopped_task);

	e->stopped(e->stopped_ctx);
}

static int check_opts(const struct fm_engine_opts *o, struct fm_err *err)
{
	if (!o->node[0] || strlen(o->node) > FM_WIRE_NAME_MAX)
		return fm_err_set(err, -EINVAL, "the node's name must have 1 to %d bytes",
				  FM_WIRE_NAME_MAX);
	if (o->lanes < 1 || o->lanes > FM_LANES_MAX)
		return fm_err_set(err, -EINVAL, "%u lanes: 1 to %d are allowed", o->lanes,
				  FM_LANES_MAX);
	if (o->chunk_bytes < FM_WIRE_CHUNK_MIN || o->chunk_bytes > FM_WIRE_CHUNK_MAX ||
	    (o->chunk_bytes & (o->chunk_bytes - 1)))
		return fm_err_set(
			err, -EINVAL,
			"chunks of %u bytes: a power of two from 4 KiB to 64 MiB is needed",
			o->chunk_bytes);
	if (o->slab_bytes % o->chunk_bytes || o->slab_bytes / o->chunk_bytes < 1 ||
	    o->slab_bytes / o->chunk_bytes > FM_FLOW_SLOTS_MAX)
		return fm_err_set(err, -EINVAL, "a slab must be 1 to %d chunks", FM_FLOW_SLOTS_MAX);
	return 0;
}

static void init_lists(struct fm_engine *e)
{
	fm_list_init(&e->peers);
	fm_list_init(&e->sessions);
	fm_list_init(&e->stores);
	fm_list_init(&e->former_stores);
}

static int make_registered(struct fm_engine *e, struct fm_err *err)
{
	const struct fm_registered_opts o = {
		.loop = e->env.loop, .worker = e->env.worker, .bytes_max = e->o.registered_bytes};

	return fm_registered_new(&o, &e->registered, err);
}

int fm_engine_new(const struct fm_engine_opts *o, const struct fm_engine_env *env,
		  struct fm_engine **out, struct fm_err *err)
{
	struct fm_engine *e;
	int ret = check_opts(o, err);

	if (ret < 0)
		return ret;
	e = FM_FAULT("engine.new") ? NULL : calloc(1, sizeof(*e));
	if (!e)
		return fm_err_sys(err, -ENOMEM, "allocate the engine");
	e->o = *o;
	e->env = *env;
	(void)snprintf(e->name, sizeof(e->name), "%s", o->node);
	e->o.node = e->name;
	memcpy(e->key, o->key, FM_KEY_LEN);
	if (!e->o.stall_ns)
		e->o.stall_ns = 10 * FM_NS_PER_S;
	ret = fm_slabs_new(env->arena, env->arena_len, o->slab_bytes, &e->slabs, err);
	if (ret == 0 && o->registered_bytes > 0)
		ret = make_registered(e, err);
	if (ret == 0)
		ret = fm_services_init(e, err);
	if (ret < 0) {
		fm_registered_free(e->registered);
		fm_slabs_free(e->slabs);
		free(e);
		return ret;
	}
	init_lists(e);
	fm_share_init(&e->kept,
		      &(struct fm_share_limits){"bytes of messages that were not acknowledged",
						fm_budget_of_links() / 2, 0, 0, 1});
	fm_share_init(&e->conns,
		      &(struct fm_share_limits){"bytes of memory for data connections",
						fm_budget_most(), 0, 0, 1});
	env->random->fill(env->random->ctx, e->boot_id, sizeof(e->boot_id));
	fm_rate_set(&e->rate, o->rate_bytes);
	pthread_mutex_init(&e->shared_rate.lock, NULL);
	e->shared_rate.rate = &e->rate;
	for (unsigned i = 0; i < o->lanes; i++) {
		fm_lane_init(&e->lanes[i], i, env->lane_loops[i], env->lane_rings[i]);
		e->lanes[i].chunk_bytes = o->chunk_bytes;
		e->lanes[i].is_unchecked = o->is_unchecked;
	}
	e->tick.fire = tick_fire;
	e->stopped_task.run = stopped_run;
	*out = e;
	return 0;
}

int fm_engine_start(struct fm_engine *e, struct fm_err *err)
{
	int ret = e->env.net->ops->start(e->env.net, &fm_session_net_events, e, err);

	if (ret < 0)
		return ret;
	e->is_started = true;
	e->started_ns = fm_engine_now(e);
	fm_timer_set(e->env.loop, &e->tick, e->started_ns + TICK_NS);
	fm_list_each(at, next, &e->peers)
		fm_peer_start(fm_container_of(at, struct fm_peer, at));
	return 0;
}

void fm_engine_check_stopped(struct fm_engine *e)
{
	if (!e->is_stopping || e->is_stopped || !fm_services_are_idle(e) ||
	    !fm_list_is_empty(&e->sessions))
		return;
	e->is_stopped = true;
	fm_timer_clear(e->env.loop, &e->tick);
	fm_loop_post(e->env.loop, &e->stopped_task);
}

bool fm_engine_is_working(const struct fm_engine *e)
{
	return fm_services_are_working(e);
}

bool fm_engine_awaits_callers(const struct fm_engine *e)
{
	return e->is_stopping && fm_services_await_callers(e);
}

void fm_engine_stop(struct fm_engine *e, void (*stopped)(void *ctx), void *ctx)
{
	struct fm_err err = { 0 };

	assert(!e->is_stopping);
	e->is_stopping = true;
	e->stopped = stopped;
	e->stopped_ctx = ctx;
	fm_services_stop(e);
	fm_list_each(at, next, &e->sessions) {
		struct fm_session *s = fm_container_of(at, struct fm_session, at);

		(void)fm_err_set(&err, -EHOSTDOWN, "%s: this node is stopping", s->name);
		fm_session_close(s, &err, "the node is being stopped");
	}
	if (e->is_started)
		e->env.net->ops->stop(e->env.net);
	fm_list_each(at, next, &e->sessions)
		fm_session_net_stopped(fm_container_of(at, struct fm_session, at));
	fm_engine_check_stopped(e);
}

void fm_engine_worker_ends(struct fm_engine *e)
{
	if (e)
		fm_registered_stop(e->registered);
}

static void store_unref(struct fm_store_ref *ref)
{
	if (--ref->refs > 0)
		return;
	fm_list_del(&ref->at);
	/* Its files are closed: nothing here waits for a disk. */
	ref->store->ops->free(ref->store);
	free(ref);
}

void fm_engine_free(struct fm_engine *e)
{
	if (!e)
		return;
	assert(e->is_stopped || !e->is_started);
	fm_timer_clear(e->env.loop, &e->tick);
	fm_list_each(at, next, &e->peers)
		fm_peer_free(fm_container_of(at, struct fm_peer, at));
	fm_list_each(at, next, &e->stores) {
		fm_list_del(at);
		store_unref(fm_container_of(at, struct fm_store_ref, at));
	}
	for (unsigned i = 0; i < e->o.lanes; i++)
		fm_lane_fini(&e->lanes[i]);
	fm_slabs_free(e->slabs);
	fm_registered_free(e->registered);
	fm_services_free(e);
	pthread_mutex_destroy(&e->shared_rate.lock);
	free(e);
}

/* ---- peers ---- */

struct fm_peer *fm_engine_peer(struct fm_engine *e, const char *name)
{
	fm_list_each(at, next, &e->peers) {
		struct fm_peer *p = fm_container_of(at, struct fm_peer, at);

		if (strcmp(p->name, name) == 0)
			return p;
	}
	return NULL;
}

struct fm_log_limit *fm_engine_job_lines(struct fm_engine *e, const char *peer)
{
	struct fm_peer *p = fm_engine_peer(e, peer);

	return p ? &p->job_lines : &e->lines;
}

struct fm_peer *fm_engine_peer_by_key(struct fm_engine *e, const uint8_t key[FM_KEY_LEN])
{
	fm_list_each(at, next, &e->peers) {
		struct fm_peer *p = fm_container_of(at, struct fm_peer, at);

		if (memcmp(p->key, key, FM_KEY_LEN) == 0)
			return p;
	}
	return NULL;
}

static bool is_unchanged(const struct fm_peer *p, const struct fm_peer_opts *o)
{
	return memcmp(p->key, o->key, FM_KEY_LEN) == 0 && fm_reach_is_same(&p->reach, o);
}

/* Forgets a peer. The far end is told why. */
static void remove_peer(struct fm_peer *p, const char *why)
{
	struct fm_engine *e = p->engine;

	fm_peer_drop(p, why);
	e->peer_count--;
	fm_peer_free(p);
}

int fm_engine_set_peer(struct fm_engine *e, const struct fm_peer_opts *o, struct fm_err *err)
{
	struct fm_peer *p = fm_engine_peer(e, o->name), *same = fm_engine_peer_by_key(e, o->key);
	int ret;

	if (same && same != p)
		return fm_err_set(err, -EEXIST, "peer %s has the key of peer %s", o->name,
				  same->name);
	if (strcmp(o->name, e->name) == 0)
		return fm_err_set(err, -EINVAL, "peer %s has the name of this node", o->name);
	/* It would answer in the place of that peer, and what is put there would come here. */
	if (memcmp(o->key, e->key, FM_KEY_LEN) == 0)
		return fm_err_set(err, -EINVAL,
				  "peer %s has the key of this node; each node needs its own "
				  "(fmove keygen)",
				  o->name);
	if (p && is_unchanged(p, o))
		return 0;
	if (p)
		remove_peer(p, "its entry in the configuration changed");
	if (e->peer_count >= FM_PEERS_MAX)
		return fm_err_set(err, -ENOSPC, "peer %s: more than %d peers", o->name,
				  FM_PEERS_MAX);
	ret = fm_peer_new(e, o, &p, err);
	if (ret < 0)
		return ret;
	fm_list_append(&e->peers, &p->at);
	e->peer_count++;
	if (e->is_started)
		fm_peer_start(p);
	return 0;
}

void fm_engine_remove_peer(struct fm_engine *e, const char *name)
{
	struct fm_peer *p = fm_engine_peer(e, name);

	if (p)
		remove_peer(p, "it was removed from the configuration");
}

void fm_engine_revoke_peer_key(struct fm_engine *e, const char *name,
			       const uint8_t still[FM_KEY_LEN])
{
	struct fm_peer *p = fm_engine_peer(e, name);

	if (p && memcmp(p->key, still, FM_KEY_LEN) != 0)
		remove_peer(p, "its entry in the configuration changed");
}

/* ---- stores ---- */

static struct fm_store_ref *find_store(struct fm_engine *e, const char *name, size_t len)
{
	fm_list_each(at, next, &e->stores) {
		struct fm_store_ref *ref = fm_container_of(at, struct fm_store_ref, at);

		if (strlen(ref->store->name) == len && memcmp(ref->store->name, name, len) == 0)
			return ref;
	}
	return NULL;
}

struct fm_store_ref *fm_engine_store_get(struct fm_engine *e, const char *name, size_t len)
{
	struct fm_store_ref *ref = find_store(e, name, len);

	if (!ref || ref->store->is_silent)
		return NULL;
	ref->refs++;
	return ref;
}

struct fm_store_ref *fm_engine_store_rules(struct fm_engine *e, const char *name, size_t len)
{
	struct fm_store_ref *ref = find_store(e, name, len);

	if (ref)
		ref->refs++;
	return ref;
}

const struct fm_store_ref *fm_engine_store_silent(struct fm_engine *e, const char *name, size_t len)
{
	const struct fm_store_ref *ref = find_store(e, name, len);

	return ref && ref->store->is_silent ? ref : NULL;
}

void fm_engine_set_volumes(struct fm_engine *e,
			   const char *(*volume_of)(void *ctx, const char *store, size_t len),
			   bool (*is_away)(void *ctx, const char *id), void *ctx)
{
	e->volume_of = volume_of;
	e->is_away = is_away;
	e->volume_ctx = ctx;
}

const char *fm_engine_volume_of(struct fm_engine *e, const char *name, size_t len)
{
	return e->volume_of ? e->volume_of(e->volume_ctx, name, len) : NULL;
}

bool fm_engine_is_volume_away(struct fm_engine *e, const char *id)
{
	return e->is_away && e->is_away(e->volume_ctx, id);
}

static struct fm_store_ref *shared_store(struct fm_engine *e, const char *id, bool is_silent)
{
	fm_list_each(at, next, &e->stores) {
		struct fm_store_ref *ref = fm_container_of(at, struct fm_store_ref, at);

		if (id[0] && strcmp(ref->store->shared, id) == 0 &&
		    ref->store->is_silent == is_silent) {
			ref->refs++;
			return ref;
		}
	}
	return NULL;
}

struct fm_store_ref *fm_engine_store_shared(struct fm_engine *e, const char *id)
{
	return shared_store(e, id, false);
}

struct fm_store_ref *fm_engine_store_shared_rules(struct fm_engine *e, const char *id)
{
	struct fm_store_ref *open = shared_store(e, id, false);

	return open ? open : shared_store(e, id, true);
}

void fm_engine_store_put(struct fm_store_ref *ref)
{
	store_unref(ref);
}

struct fm_store_ref *fm_engine_store_again(struct fm_store_ref *ref)
{
	ref->refs++;
	return ref;
}

static void leave_others_of(const struct fm_list *stores, const char *name,
			    const struct fm_dirway *now)
{
	fm_list_each(at, next, stores) {
		struct fm_store_ref *ref = fm_container_of(at, struct fm_store_ref, at);
		const struct fm_dirway *is = &ref->store->way;

		if (is->device > 0 && !(now && fm_dirway_is_same(is, now)) &&
		    strcmp(ref->store->name, name) == 0)
			ref->is_left = true;
	}
}

void fm_engine_leave_store_but(struct fm_engine *e, const char *name, const struct fm_dirway *now)
{
	leave_others_of(&e->stores, name, now);
	leave_others_of(&e->former_stores, name, now);
}

void fm_engine_remove_store(struct fm_engine *e, const char *name)
{
	struct fm_store_ref *ref = find_store(e, name, strlen(name));

	if (!ref)
		return;
	fm_list_del(&ref->at);
	if (ref->refs > 1)
		fm_list_append(&e->former_stores, &ref->at);
	e->store_count -= !ref->store->is_hidden;
	e->store_changes += !ref->store->is_hidden;
	store_unref(ref);
}

int fm_engine_set_store(struct fm_engine *e, struct fm_store *store, struct fm_err *err)
{
	struct fm_store_ref *ref = FM_FAULT("engine.store") ? NULL : calloc(1, sizeof(*ref));
	int ret = 0;

	if (!ref)
		ret = fm_err_sys(err, -ENOMEM, "allocate store %s", store->name);
	else if (!store->is_hidden && e->store_count >= FM_STORES_MAX &&
		 !find_store(e, store->name, strlen(store->name)))
		ret = fm_err_set(err, -ENOSPC, "store %s: more than %d stores", store->name,
				 FM_STORES_MAX);
	if (ret < 0) {
		free(ref);
		store->ops->free(store);
		return ret;
	}
	fm_engine_remove_store(e, store->name);
	ref->store = store;
	ref->refs = 1;
	if (store->is_silent) {		/* it was asked for all that it has */
		ref->room_asked = 1;
		ref->room_asked_ns = fm_engine_now(e);
	}
	fm_list_append(&e->stores, &ref->at);
	e->store_count += !store->is_hidden;
	e->store_changes += !store->is_hidden;
	return 0;
}

void fm_engine_set_rate(struct fm_engine *e, uint64_t rate_bytes)
{
	pthread_mutex_lock(&e->shared_rate.lock);
	fm_rate_set(&e->rate, rate_bytes);
	pthread_mutex_unlock(&e->shared_rate.lock);
}

void fm_engine_config_taken(struct fm_engine *e, int64_t read_ms)
{
	e->config_read_ms = read_ms;
	e->config_mistake[0] = '\0';
	e->config_removed[0] = '\0';
}

void fm_engine_config_waits(struct fm_engine *e, const char *keys)
{
	(void)snprintf(e->config_waits, sizeof(e->config_waits), "%s", keys);
}

void fm_engine_config_refused(struct fm_engine *e, const char *why, const char *removed)
{
	(void)snprintf(e->config_mistake, sizeof(e->config_mistake), "%s", why);
	(void)snprintf(e->config_removed, sizeof(e->config_removed), "%s", removed);
}

void fm_engine_networks_changed(struct fm_engine *e)
{
	fm_list_each(at, next, &e->sessions)
		fm_rail_look(fm_container_of(at, struct fm_session, at));
}

/* ---- status ---- */

static void visit_node(struct fm_engine *e, const struct fm_status_visitor *v, void *ctx)
{
	struct fm_node_status st = { .node = e->name,
				     .lanes = e->o.lanes,
				     .tcp_conns = e->o.tcp_conns,
				     .rdma_conns = e->o.rdma_conns,
				     .chunk_bytes = e->o.chunk_bytes,
				     .slab_bytes = e->o.slab_bytes,
				     .chosen = e->o.chosen ? e->o.chosen : "",
				     .config_read_ms = e->config_read_ms,
				     .config_mistake = e->config_mistake,
				     .config_removed = e->config_removed,
				     .config_waits = e->config_waits,
				     .arena_bytes = e->env.arena_len,
				     .slabs = fm_slabs_count(e->slabs),
				     .slabs_free = fm_slabs_free_count(e->slabs),
				     .uptime_ns = fm_engine_now(e) - e->started_ns };

	for (unsigned i = 0; i < e->o.lanes; i++)
		st.io[i] = e->env.lane_rings[i] ? fm_ring_kind(e->env.lane_rings[i]) : "simulated";
	st.rdma_port = e->env.net->ops->data_port(e->env.net, FM_KIND_RDMA, &st.rdma_why);
	st.tcp_port = e->env.net->ops->data_port(e->env.net, FM_KIND_TCP, &st.tcp_why);
	v->node(ctx, &st);
}

static void visit_rails(const struct fm_session *s, const struct fm_status_visitor *v, void *ctx)
{
	fm_list_each(at, next, &s->flows) {
		const struct fm_flow *f = fm_container_of(at, struct fm_flow, owner_at);
		struct fm_rail_status st = { .info = &f->info,
					     .lane = f->lane->index,
					     .bytes_sent = atomic_load(&f->bytes_sent),
					     .bytes_received = atomic_load(&f->bytes_received),
					     .is_up = atomic_load(&f->is_up) };

		v->rail(ctx, &st);
	}
	for (unsigned i = 0; i < s->rails.lost_count; i++) {
		const struct fm_rail_lost *lost = &s->rails.lost[i];

		v->rail(ctx, &(struct fm_rail_status){.info = &lost->info,
						      .why = lost->why,
						      .down_ns = fm_engine_now(s->engine) -
								 lost->since_ns});
	}
}

/* What all its connections moved: of its sessions those too that are closed and not gone yet. */
static void sum_peer(const struct fm_engine *e, const struct fm_peer *p, struct fm_peer_status *st)
{
	st->bytes_sent = p->bytes_sent;
	st->bytes_received = p->bytes_received;
	st->ports = p->ports;
	fm_list_each(at, next, &e->sessions) {
		const struct fm_session *s = fm_container_of(at, struct fm_session, at);

		if (s->peer == p)
			fm_session_add_moved(s, &st->bytes_sent, &st->bytes_received, &st->ports);
	}
}

static void visit_peer(struct fm_engine *e, struct fm_peer *p, const struct fm_status_visitor *v,
		       void *ctx)
{
	const struct fm_way *first =
		p->reach.count > 0 && !p->reach.way[0].is_learned ? &p->reach.way[0] : NULL;
	char address[sizeof(first->to.host) + 16] = "", rdma_why[RDMA_WHY_MAX] = "";
	struct fm_peer_status st = { .name = p->name,
				     .address = address,
				     .is_connected = p->session != NULL,
				     .last_error = p->last_error,
				     .rdma_why = rdma_why,
				     .since_ns = fm_engine_now(e) - p->since_ns };

	if (first)
		(void)snprintf(address, sizeof(address), "%s:%u", first->to.host, first->to.port);
	if (p->session) {
		st.conns = p->session->up[FM_KIND_TCP] + p->session->up[FM_KIND_RDMA];
		fm_line_way(p->session, &st.session);
		st.round_trip_ns = p->session->round_trip_ns;
		if (p->session->up[FM_KIND_RDMA] == 0)
			fm_rail_why_not(p->session, FM_KIND_RDMA, rdma_why, sizeof(rdma_why));
	}
	sum_peer(e, p, &st);
	v->peer(ctx, &st);
	if (p->session)
		visit_rails(p->session, v, ctx);
}

void fm_engine_status(struct fm_engine *e, const struct fm_status_visitor *v, void *ctx)
{
	visit_node(e, v, ctx);
	fm_list_each(at, next, &e->stores) {
		const struct fm_store *store =
			fm_container_of(at, struct fm_store_ref, at)->store;

		if (!store->is_hidden)
			v->store(ctx, store);
	}
	fm_list_each(at, next, &e->peers)
		visit_peer(e, fm_container_of(at, struct fm_peer, at), v, ctx);
}
