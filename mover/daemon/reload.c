/* SPDX-License-Identifier: MIT */
/*
 * reload - SIGHUP: read the configuration again and take over what can be taken over while running.
 *
 * Peers, stores, sockets, rate limit, log level and address are taken over; for the rest the log
 * names what needs a restart. A configuration with a mistake, or a store that cannot be opened,
 * changes nothing, but that peers whose entry is gone are revoked; the status says so until a
 * reload succeeds. Of a store that cannot be written to it warns, as a start does. One whose file
 * system, or the user database that its rules need, does not answer within PATIENCE_NS is silent,
 * as after a start; where sockets need that database it is a mistake. A node that joins while the
 * configuration is read may not be in what was read: then it is read once more, and nobody is taken
 * for removed who was not there yet. Control loop only; reading happens on a worker's thread,
 * opening on one of its own.
 */
#include "mover/daemon/fmoved.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include "config/entries.h"
#include "config/options.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/base/within.h"
#include "mover/base/worker.h"
#include "mover/daemon/faults.h"
#include "mover/daemon/invites.h"
#include "mover/node/engine.h"
#include "mover/join/join.h"
#include "mover/queue/queue.h"

/* For so long a reload waits for all stores that it opens, and for each of them at least; and then
 * for the user database. */
#define PATIENCE_NS (3 * FM_NS_PER_S)
#define LEAST_NS    (FM_NS_PER_S / 10)

struct fm_reload {
	struct fm_fmoved *fmoved;
	struct fm_work work;
	bool is_busy;
	bool is_wanted_again;
	unsigned joined;			/* peers, when it began to read */
	int64_t began_ms;			/* Unix time */
	/* The worker's, while is_busy: */
	struct fm_config *cfg;			/* the new one */
	struct fm_store *stores[FM_CONFIG_STORES_MAX];	/* by its place there; NULL: as it was */
	struct fm_sockets sockets;
	struct fm_config_entries entries;	/* of what cannot be taken over */
	struct fm_err err;
	int ret;
	/* Names of peers that went though there was a mistake, until a reload succeeds; and how
	 * many more, for which there is no room. */
	char removed[FM_ERR_TEXT_MAX];
	size_t removed_len;			/* of the names alone */
	unsigned removed_more;
	/* Behind it, and nothing waits for that: a file system may not answer. */
	struct fm_work look;
	bool is_looking;
	bool is_look_wanted;
};

/* ---- on a worker's thread ---- */

static bool has_store(const struct fm_config *cfg, const struct fm_config_store *store)
{
	for (unsigned i = 0; i < cfg->store_count; i++)
		if (fm_option_are_equal("stores", &cfg->stores[i], store))
			return true;
	return false;
}

static void drop_new(struct fm_reload *r)
{
	for (unsigned i = 0; i < FM_CONFIG_STORES_MAX; i++) {
		if (r->stores[i])
			r->stores[i]->ops->free(r->stores[i]);
		r->stores[i] = NULL;
	}
	fm_config_free(r->cfg);
	r->cfg = NULL;
	fm_config_entries_free(&r->entries);
}

/* A store that is being opened, on a thread that may never come back. */
struct trial {
	struct fm_config *cfg;			/* of which it is */
	struct fm_config *started;		/* that of the start */
	const struct fm_config_store *of;
	atomic_int state;
	struct fm_store *store;
	struct fm_err err;
	int ret;
};

enum { TRIED = 1, LEFT };

static void trial_free(struct trial *t)
{
	fm_config_free(t->cfg);
	fm_config_free(t->started);
	free(t);
}

static void trial_run(void *arg)
{
	struct trial *t = arg;

	t->ret = fm_fmoved_open_store(t->of, NULL, &t->store, &t->err);
	if (t->ret == 0)
		t->ret = fm_fmoved_check_apart(t->cfg, t->started, t->of, t->store, &t->err);
	if (t->ret < 0 && t->store) {
		t->store->ops->free(t->store);
		t->store = NULL;
	}
	if (atomic_exchange(&t->state, TRIED) != LEFT)
		return;
	if (t->ret == 0)
		t->store->ops->free(t->store);
	trial_free(t);
}

/* One whose file system, or user database, does not answer within that time is silent; follow.c
 * opens it. */
static int open_within(struct fm_reload *r, unsigned i, uint64_t max_ns)
{
	const struct fm_config_store *of = &r->cfg->stores[i];
	struct trial *t = calloc(1, sizeof(*t));
	int ret, waited;

	if (!t)
		return fm_err_set(&r->err, -ENOMEM, "out of memory");
	t->cfg = r->cfg;
	t->of = of;
	fm_config_share(t->cfg);
	t->started = r->fmoved->started;
	fm_config_share(t->started);
	waited = fm_within(trial_run, t, max_ns);
	if (waited == -ETIMEDOUT && atomic_exchange(&t->state, LEFT) != TRIED)
		return fm_fmoved_silent_store(of, 0, &r->stores[i], &r->err);
	if (waited == -ENOMEM)
		t->ret = fm_err_set(&t->err, -ENOMEM, "no memory to open store \"%s\"", of->name);
	ret = t->ret;
	if (ret == 0)
		r->stores[i] = t->store;
	else
		r->err = t->err;
	trial_free(t);
	return ret;
}

/* Who was removed has to go, and does when this ends: so it ends, whatever does not answer. */
static int open_new(struct fm_reload *r)
{
	const struct fm_clock *clock = &fm_clock_real;
	uint64_t by_ns = clock->now_ns(clock->ctx) + PATIENCE_NS, now_ns;
	int ret = 0;

	for (unsigned i = 0; ret == 0 && i < r->cfg->store_count; i++) {
		if (r->cfg->stores[i].volume[0] || has_store(r->fmoved->cfg, &r->cfg->stores[i]))
			continue;
		now_ns = clock->now_ns(clock->ctx);
		ret = open_within(r, i, now_ns + LEAST_NS < by_ns ? by_ns - now_ns : LEAST_NS);
	}
	return ret;
}

static int read_new(struct fm_reload *r)
{
	int ret = fm_config_load(r->fmoved->opts.config_file, &r->cfg, &r->err);

	if (ret == 0)
		ret = open_new(r);
	return ret < 0 ? ret : fm_sockets_find(r->cfg, PATIENCE_NS, &r->sockets, &r->err);
}

/* fmoved->cfg does not change while a reload is under way: only its end replaces it. */
static void reload_run(struct fm_work *work)
{
	struct fm_reload *r = fm_container_of(work, struct fm_reload, work);

	r->ret = read_new(r);
	if (r->ret == 0)
		return;
	drop_new(r);
	fm_config_entries_read(r->fmoved->opts.config_file, &r->entries);
}

/* ---- on the loop ---- */

/* The names of what the engine has; its peers may be more than the old configuration's, since nodes
 * join. */
struct names {
	bool is_stores;
	unsigned count;
	char name[FM_PEERS_MAX][FM_NAME_LEN_MAX + 1];
};

static void visit_store(void *ctx, const struct fm_store *s)
{
	struct names *n = ctx;

	if (n->is_stores && n->count < FM_PEERS_MAX)
		snprintf(n->name[n->count++], sizeof(n->name[0]), "%s", s->name);
}

static void visit_peer(void *ctx, const struct fm_peer_status *p)
{
	struct names *n = ctx;

	if (!n->is_stores && n->count < FM_PEERS_MAX)
		snprintf(n->name[n->count++], sizeof(n->name[0]), "%s", p->name);
}

static void visit_node(void *ctx, const struct fm_node_status *s)
{
	(void)ctx;
	(void)s;
}

static void visit_rail(void *ctx, const struct fm_rail_status *s)
{
	(void)ctx;
	(void)s;
}

/* r->cfg NULL: it could not be taken over. */
static bool is_gone(const struct fm_reload *r, bool is_store, const char *name)
{
	const struct fm_config *cfg = r->cfg;

	if (!cfg)
		return fm_config_entries_lack(&r->entries, r->fmoved->cfg, name);
	for (unsigned i = 0; is_store && i < cfg->store_count; i++)
		if (strcmp(cfg->stores[i].name, name) == 0)
			return false;
	for (unsigned i = 0; !is_store && i < cfg->peer_count; i++)
		if (strcmp(cfg->peers[i].name, name) == 0)
			return false;
	return true;
}

static void add_removed(struct fm_reload *r, const char *name)
{
	const size_t kept = sizeof(" and 4294967295 more"), sep = r->removed_len > 0 ? 2 : 0;
	char *end = r->removed + r->removed_len;
	size_t left = sizeof(r->removed) - r->removed_len;

	if (r->removed_more == 0 && sep + strlen(name) + kept <= left)
		r->removed_len += (size_t)snprintf(end, left, "%s%s", sep ? ", " : "", name);
	else
		(void)snprintf(end, left, " and %u more", ++r->removed_more);	/* kept for it */
}

static void forget_removed(struct fm_reload *r)
{
	r->removed[0] = '\0';
	r->removed_len = 0;
	r->removed_more = 0;
}

static void remove_gone(struct fm_reload *r, bool is_stores)
{
	static const struct fm_status_visitor visitor = {
		.node = visit_node, .store = visit_store, .peer = visit_peer, .rail = visit_rail,
	};
	struct names *n = calloc(1, sizeof(*n));

	if (!n) {
		fm_log_error("reload: out of memory; what was removed is still served");
		return;
	}
	n->is_stores = is_stores;
	fm_engine_status(r->fmoved->engine, &visitor, n);
	for (unsigned i = 0; i < n->count; i++) {
		if (!is_gone(r, is_stores, n->name[i]))
			continue;
		if (!r->cfg)
			add_removed(r, n->name[i]);
		fm_log_info("reload: %s \"%s\" is gone", is_stores ? "store" : "peer", n->name[i]);
		if (is_stores)
			fm_engine_remove_store(r->fmoved->engine, n->name[i]);
		else
			fm_engine_remove_peer(r->fmoved->engine, n->name[i]);
	}
	free(n);
}

static void take_over_networks(struct fm_reload *r)
{
	const struct fm_option *o = fm_option_find("mover", "private_networks");

	if (fm_option_is_equal(o, r->fmoved->cfg, r->cfg))
		return;
	fm_fmoved_set_networks(r->fmoved->net, r->cfg);
	fm_engine_networks_changed(r->fmoved->engine);
	fm_log_info("reload: mover.private_networks changed; TCP connections are made anew");
}

/* Keys may be handed round: no peer gets one that another still has, and none keeps one that is in
 * no entry any more. */
static void take_over_peers(struct fm_reload *r)
{
	struct fm_engine *engine = r->fmoved->engine;
	struct fm_err err = { 0 };

	for (unsigned i = 0; i < r->cfg->peer_count; i++)
		fm_engine_revoke_peer_key(engine, r->cfg->peers[i].name, r->cfg->peers[i].key);
	for (unsigned i = 0; i < r->cfg->peer_count; i++)
		if (fm_fmoved_set_peer(engine, &r->cfg->peers[i], NULL, &err) < 0)
			fm_log_error("reload: peer \"%s\": %s", r->cfg->peers[i].name, err.text);
}

/* What changed of a store on a volume. */
static void drop_changed_volumes(const struct fm_reload *r)
{
	for (unsigned i = 0; i < r->cfg->store_count; i++)
		if (r->cfg->stores[i].volume[0] &&
		    !has_store(r->fmoved->cfg, &r->cfg->stores[i]))
			fm_follow_drop(r->fmoved->follow, &r->cfg->stores[i]);
}

static void say_at(const struct fm_config_store *cfg, const struct fm_store *store)
{
	if (store->is_silent)
		fm_log_info("reload: store \"%s\" is at %s, whose file system%s does not answer; "
			    "the store is there when it does", cfg->name, cfg->directory,
			    fm_fmoved_or_users(store->is_of_users));
	else
		fm_log_info("reload: store \"%s\" is at %s", cfg->name, cfg->directory);
}

/* What was removed goes first: a new entry may have its key, or need its place. */
static void take_over(struct fm_reload *r)
{
	struct fm_fmoved *fmoved = r->fmoved;
	struct fm_err err = { 0 };

	remove_gone(r, false);
	remove_gone(r, true);
	drop_changed_volumes(r);
	take_over_peers(r);
	for (unsigned i = 0; i < r->cfg->store_count; i++) {
		if (!r->stores[i])
			continue;
		say_at(&r->cfg->stores[i], r->stores[i]);
		if (fm_follow_take(fmoved->follow, &r->cfg->stores[i], r->stores[i], &err) < 0)
			fm_log_error("reload: store \"%s\": %s", r->cfg->stores[i].name, err.text);
		r->stores[i] = NULL;	/* taken over */
	}
	fm_engine_set_rate(fmoved->engine, r->cfg->mover.rate_bytes);
	take_over_networks(r);
	if (fm_sockets_set(fmoved->api, &fmoved->sockets, &r->sockets, &err) < 0)
		fm_log_error("reload: %s", err.text);
	fmoved->sockets = r->sockets;
	fmoved->awaits_users = false;
	fm_queue_set_running_max(fmoved->queue, r->cfg->jobs.running);
	fm_join_set_address(fmoved->join, r->cfg->node.address);
	if (fmoved->opts.log_level < 0)
		fm_log_set_level((enum fm_log_level)r->cfg->node.log_level);
}

static void say_restarts(const struct fm_reload *r)
{
	char keys[FM_ERR_TEXT_MAX] = "";
	size_t len = 0;

	for (unsigned i = 0; i < fm_option_count; i++) {
		const struct fm_option *o = &fm_options[i];

		if (fm_option_is_in(o, "nvme"))		/* fmove-nvmed's */
			continue;
		if (o->is_live || fm_option_is_equal(o, r->fmoved->started, r->cfg))
			continue;
		fm_log_warn("reload: %s changed; it takes a restart", o->path);
		/* cut if it is too long */
		(void)snprintf(keys + len, sizeof(keys) - len, "%s%s", len > 0 ? ", " : "",
			       o->path);
		len = strlen(keys);
	}
	fm_engine_config_waits(r->fmoved->engine, keys);
}

/* ---- what cannot be used as configured ---- */

/* With a configuration of its own: by the end of this there may be another one. */
static void look_run(struct fm_work *work)
{
	struct fm_reload *r = fm_container_of(work, struct fm_reload, look);
	struct fm_config *cfg;
	struct fm_err err;

	if (fm_config_load(r->fmoved->opts.config_file, &cfg, &err) < 0)
		return;		/* it changed again; the next reload says what is wrong */
	fm_faults_warn(cfg);
	fm_config_free(cfg);
}

static void look_done(struct fm_work *work);

/* One at a time; the one under way may have looked before this reload. */
static void look_start(struct fm_reload *r)
{
	r->is_look_wanted = r->is_looking;
	if (r->is_looking)
		return;
	r->is_looking = true;
	r->look.run = look_run;
	r->look.done = look_done;
	fm_worker_submit(r->fmoved->worker, &r->look, r->fmoved->loop);
}

static void look_done(struct fm_work *work)
{
	struct fm_reload *r = fm_container_of(work, struct fm_reload, look);

	r->is_looking = false;
	if (r->is_look_wanted && !r->fmoved->is_stopping)
		look_start(r);
}

/* ---- the end ---- */

/* All stays as it was, but who was removed goes whatever else is wrong. */
static void refuse(struct fm_reload *r)
{
	remove_gone(r, false);
	fm_config_entries_free(&r->entries);
	if (r->removed[0])
		fm_log_error("reload: %s; nothing is changed but that these peers were removed: %s",
			     r->err.text, r->removed);
	else
		fm_log_error("reload: %s; nothing is changed", r->err.text);
	fm_engine_config_refused(r->fmoved->engine, r->err.text, r->removed);
}

static void take(struct fm_reload *r)
{
	struct fm_fmoved *fmoved = r->fmoved;

	take_over(r);
	say_restarts(r);
	if (fmoved->cfg != fmoved->started)
		fm_config_free(fmoved->cfg);
	fmoved->cfg = r->cfg;
	r->cfg = NULL;
	forget_removed(r);
	fm_engine_config_taken(fmoved->engine, r->began_ms);
	fm_log_info("reloaded %s", fmoved->opts.config_file);
	fm_follow_look(fmoved->follow);
	fm_invites_look(fmoved->invites);
	look_start(r);
}

static void reload_done(struct fm_work *work)
{
	struct fm_reload *r = fm_container_of(work, struct fm_reload, work);

	r->is_busy = false;
	if (r->fmoved->is_stopping) {
		drop_new(r);
		return;
	}
	if (r->joined != fm_join_count(r->fmoved->join)) {
		fm_log_info("reload: a node joined meanwhile; once more");
		drop_new(r);
		fm_reload_start(r);
		return;
	}
	if (r->ret < 0)
		refuse(r);
	else
		take(r);
	sd_notify(0, "READY=1");
	fm_fmoved_say_status(r->fmoved);
	if (r->is_wanted_again)
		fm_reload_start(r);
}

void fm_reload_start(struct fm_reload *r)
{
	struct timespec now;

	r->is_wanted_again = r->is_busy;
	if (r->is_busy)
		return;
	r->is_busy = true;
	r->joined = fm_join_count(r->fmoved->join);
	r->began_ms = (int64_t)time(NULL) * 1000;
	clock_gettime(CLOCK_MONOTONIC, &now);
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%lld",
		   (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
	r->work.run = reload_run;
	r->work.done = reload_done;
	fm_worker_submit(r->fmoved->worker, &r->work, r->fmoved->loop);
}

/* ---- sockets that a start had to do without ---- */

static void sockets_run(struct fm_work *work)
{
	struct fm_reload *r = fm_container_of(work, struct fm_reload, work);

	r->ret = fm_sockets_find(r->fmoved->cfg, PATIENCE_NS, &r->sockets, &r->err);
}

static void sockets_done(struct fm_work *work)
{
	struct fm_reload *r = fm_container_of(work, struct fm_reload, work);
	struct fm_fmoved *fmoved = r->fmoved;

	r->is_busy = false;
	if (fmoved->is_stopping)
		return;
	fmoved->awaits_users = r->ret == -ETIMEDOUT;
	if (r->ret == 0) {
		r->ret = fm_sockets_set(fmoved->api, &fmoved->sockets, &r->sockets, &r->err);
		fmoved->sockets = r->sockets;	/* those that are open */
	}
	if (r->ret < 0 && !fmoved->awaits_users)
		fm_log_error("%s; a reload tries it again", r->err.text);
	if (r->is_wanted_again)
		fm_reload_start(r);
}

void fm_reload_sockets(struct fm_reload *r)
{
	if (r->is_busy || !r->fmoved->awaits_users || fm_sockets_are_sought())
		return;
	r->is_busy = true;
	r->work.run = sockets_run;
	r->work.done = sockets_done;
	fm_worker_submit(r->fmoved->worker, &r->work, r->fmoved->loop);
}

int fm_reload_new(struct fm_fmoved *fmoved, struct fm_reload **out, struct fm_err *err)
{
	struct fm_reload *r = calloc(1, sizeof(*r));

	if (!r)
		return fm_err_set(err, -ENOMEM, "out of memory");
	r->fmoved = fmoved;
	*out = r;
	return 0;
}

void fm_reload_free(struct fm_reload *r)
{
	if (!r)
		return;
	assert(!r->is_busy && !r->is_looking);
	free(r);
}
