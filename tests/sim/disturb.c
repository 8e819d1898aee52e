/* SPDX-License-Identifier: MIT */
/*
 * disturb - what goes wrong, and when: each seed has one kind of misfortune, some have several.
 */
#include <stdio.h>

#include "tests/sim/scenario_priv.h"

static void cut_conn(void *ctx)
{
	sim_net_cut_conn(ctx);
}

static void cut_ctl(void *ctx)
{
	sim_net_cut_ctl(ctx);
}

static void isolate(void *ctx)
{
	sim_net_isolate(ctx, true);
}

static void connect_again(void *ctx)
{
	sim_net_isolate(ctx, false);
}

static void remove_peer(void *ctx)
{
	struct job *j = ctx;		/* two nodes that have something to do with each other */

	if (j->from->engine)
		fm_engine_remove_peer(j->from->engine, j->to->name);
	sim_trace(j->sc->sim, "%s: peer %s removed", j->from->name, j->to->name);
}

static void add_peer_again(void *ctx)
{
	struct job *j = ctx;

	if (j->from->engine)
		(void)scenario_add_peer(j->from, j->to, true);	/* it was there before */
	sim_trace(j->sc->sim, "%s: peer %s added", j->from->name, j->to->name);
}

static void restart_now(void *ctx)
{
	struct scenario_node *r = ctx;

	sim_trace(r->sc->sim, "%s starts again", r->node->name);
	if (scenario_node_start(r->sc, r->node) < 0)
		sim_fail(r->sc->sim, "%s does not start again", r->node->name);
}

static void restart_freed(void *ctx)
{
	struct scenario_node *r = ctx;

	fm_engine_free(r->node->engine);
	r->node->engine = NULL;
	sim_user_after(r->node, sim_below(r->sc->sim, 5 * SIM_S), restart_now, r);
}

/* free() may not be called from inside the engine's own callback. */
static void restart_stopped(void *ctx)
{
	struct scenario_node *r = ctx;

	sim_user_after(r->node, 0, restart_freed, r);
}

static void restart_stop(void *ctx)
{
	struct scenario_node *r = ctx;

	sim_trace(r->sc->sim, "%s is stopped", r->node->name);
	fm_engine_stop(r->node->engine, restart_stopped, r);
}

static void plan_restart(struct scenario *sc)
{
	struct scenario_node *r = sim_alloc(sc->sim, sizeof(*r));
	uint64_t at_ns;

	r->sc = sc;
	r->node = sim_node(sc->sim, (unsigned)sim_below(sc->sim, sc->honest));
	sc->is_disturbed = true;
	/* Often when sessions are just being made. */
	at_ns = sim_below(sc->sim, sim_one_in(sc->sim, 2) ? 8 * sc->opts.net_ns : 15 * SIM_S);
	sim_user_after(r->node, at_ns, restart_stop, r);
}

/* Things that may be done at any time and disturb nobody. */
static void set_store(void *ctx)
{
	struct scenario_node *r = ctx;
	struct fm_err err;

	if (r->node->engine &&
	    fm_engine_set_store(r->node->engine, sim_store_new(r->node, "s"), &err) < 0)
		sim_fail(r->sc->sim, "the store cannot be replaced: %s", err.text);
}

static void set_rate(void *ctx)
{
	struct scenario_node *r = ctx;

	if (r->node->engine)
		fm_engine_set_rate(r->node->engine,
				   sim_one_in(r->sc->sim, 2) ? 0 : 64 * r->sc->chunk_bytes);
}

static void plan_reload(struct scenario *sc)
{
	struct scenario_node *r = sim_alloc(sc->sim, sizeof(*r));

	r->sc = sc;
	r->node = sim_node(sc->sim, (unsigned)sim_below(sc->sim, sc->honest));
	sc->is_reloaded = true;
	sim_user_after(r->node, sim_below(sc->sim, 15 * SIM_S),
		       sim_one_in(sc->sim, 2) ? set_store : set_rate, r);
}

static void plan_isolation(struct scenario *sc)
{
	struct sim_node *n = sim_node(sc->sim, (unsigned)sim_below(sc->sim, sc->honest));
	uint64_t from_ns = sim_below(sc->sim, 15 * SIM_S);

	(void)sim_after(sc->sim, NULL, from_ns, isolate, n);
	(void)sim_after(sc->sim, NULL, from_ns + sim_below(sc->sim, 15 * SIM_S), connect_again, n);
}

static void plan_removal(struct scenario *sc)
{
	struct job *j = &sc->jobs[sim_below(sc->sim, sc->job_count)];
	uint64_t at_ns = sim_below(sc->sim, 10 * SIM_S);

	sc->is_disturbed = true;
	sim_user_after(j->from, at_ns, remove_peer, j);
	sim_user_after(j->from, at_ns + sim_below(sc->sim, 10 * SIM_S), add_peer_again, j);
}

/* One in so many, of the order of max. */
static unsigned odds(struct scenario *sc, unsigned max)
{
	return sim_one_in(sc->sim, 2) ? 0 : 2 + (unsigned)sim_below(sc->sim, max);
}

static void plan_net_faults(struct scenario *sc, struct sim_faults *f)
{
	f->conn_cut = odds(sc, 200);
	f->conn_stall = odds(sc, 400);
	f->dial_refused = odds(sc, 8);
	f->conn_flip_msg = odds(sc, 1000);
	if (f->conn_flip_msg > 0)
		f->conn_flip_msg += 6;	/* each ends a connection, which moved something before */
	f->ctl_cut = odds(sc, 400);
	f->ctl_stuck = odds(sc, 800);
	for (uint64_t n = sim_below(sc->sim, 6); n > 0; n--)
		(void)sim_after(sc->sim, NULL, sim_below(sc->sim, 5 * SIM_S), cut_conn, sc->sim);
	for (uint64_t n = sim_below(sc->sim, 3); n > 0; n--)
		(void)sim_after(sc->sim, NULL, sim_below(sc->sim, 5 * SIM_S), cut_ctl, sc->sim);
}

/* Cables die, and nothing else goes wrong: whoever has none for a while waits for the next one. */
static void plan_cuts(struct scenario *sc, struct sim_faults *f)
{
	sc->is_only_cuts = true;
	for (unsigned i = 0; i < sc->honest; i++)
		sc->engine_opts[i].stall_ns = 60 * SIM_S;
	f->conn_cut = 20 + (unsigned)sim_below(sc->sim, 100);
	for (uint64_t n = 1 + sim_below(sc->sim, 12); n > 0; n--)
		(void)sim_after(sc->sim, NULL, sim_below(sc->sim, 20 * SIM_S), cut_conn, sc->sim);
}

struct cable {
	struct sim_node *node;
	unsigned rail;
	enum sim_cable what;
};

static void cut_cable(void *ctx)
{
	const struct cable *c = ctx;

	sim_net_cut_cable(c->node, c->rail, c->what);
}

static void mend_cable(void *ctx)
{
	const struct cable *c = ctx;

	sim_net_cut_cable(c->node, c->rail, SIM_CABLE_WHOLE);
}

/* Whatever transport a job asks for goes over two cables, so one may go. */
static bool has_two_cables(const struct scenario *sc)
{
	const struct sim_opts *o = &sc->opts;

	return o->rails >= 2 && o->rdma_rails != 1 && (!o->is_tcp_off || o->rdma_rails >= 2);
}

/* One at a time, once the nodes have told each other their addresses: then another one leads there,
 * and no transfer fails. */
static void plan_cables(struct scenario *sc)
{
	uint64_t at_ns = SIM_S;

	sc->is_only_cuts = sc->is_only_cables = true;
	for (unsigned i = 0; i < sc->honest; i++)
		sc->engine_opts[i].stall_ns = 60 * SIM_S;
	for (uint64_t n = 1 + sim_below(sc->sim, 4); n > 0; n--) {
		struct cable *c = sim_alloc(sc->sim, sizeof(*c));

		c->node = sim_node(sc->sim, (unsigned)sim_below(sc->sim, sc->honest));
		c->rail = (unsigned)sim_below(sc->sim, sc->opts.rails);
		c->what = sim_one_in(sc->sim, 2) ? SIM_CABLE_LOSES : SIM_CABLE_PULLED;
		at_ns += sim_below(sc->sim, 6 * SIM_S);
		(void)sim_after(sc->sim, NULL, at_ns, cut_cable, c);
		at_ns += sim_below(sc->sim, 10 * SIM_S);
		(void)sim_after(sc->sim, NULL, at_ns, mend_cable, c);
	}
}

static void plan_disk_faults(struct scenario *sc, struct sim_faults *f)
{
	f->read_eio = odds(sc, 100);
	f->write_eio = odds(sc, 100);
	f->create_fails = odds(sc, 10);
	f->publish_fails = odds(sc, 6);
	f->source_changes = odds(sc, 6);
	if (sim_one_in(sc->sim, 4))
		f->space_bytes = sim_below(sc->sim, 16 * (uint64_t)sc->chunk_bytes);
}

/* So few that what waits for them is over within the time that a job may take. */
static void plan_hangs(struct scenario *sc, struct sim_faults *f)
{
	f->tree_hangs = 1 + (unsigned)sim_below(sc->sim, 20);
	sim_disk_hangs(sc->sim, 1 + (unsigned)sim_below(sc->sim, 3));
}

static void calm(void *ctx)
{
	static const struct sim_faults none = { .conn_cut = 0 };

	sim_set_faults(ctx, &none);
}

void scenario_plan_passing_faults(struct scenario *sc)
{
	struct sim_faults f = { .conn_cut = 0 };

	if (sim_one_in(sc->sim, 2))
		plan_net_faults(sc, &f);
	if (sim_one_in(sc->sim, 3)) {
		f.create_fails = odds(sc, 10);
		f.publish_fails = odds(sc, 6);
	}
	if (sim_one_in(sc->sim, 3))
		f.conn_flip = 2 + (unsigned)sim_below(sc->sim, 60);
	if (sim_one_in(sc->sim, 2))
		f.loop_stall = 20 + (unsigned)sim_below(sc->sim, 200);
	if (sim_one_in(sc->sim, 2))
		f.kept_flips = 1 + (unsigned)sim_below(sc->sim, 8);
	sim_set_faults(sc->sim, &f);
	(void)sim_after(sc->sim, NULL, 60 * SIM_S, calm, sc->sim);
}

void scenario_plan_faults(struct scenario *sc)
{
	uint64_t kind = sim_below(sc->sim, 13);
	struct sim_faults f = { .conn_cut = 0 };

	sc->is_calm = kind < 2;
	sc->is_only_flips = kind == 3;
	for (uint64_t n = sim_below(sc->sim, 3); n > 0; n--)
		plan_reload(sc);
	if (kind >= 2 && sim_one_in(sc->sim, 2))
		f.loop_stall = 20 + (unsigned)sim_below(sc->sim, 200);
	if (kind == 2 || kind == 7 || kind == 8 || (kind == 11 && sim_one_in(sc->sim, 3)))
		plan_net_faults(sc, &f);
	if (kind == 3 || kind == 7)
		f.conn_flip = 2 + (unsigned)sim_below(sc->sim, 60);
	if (kind == 4 || kind == 7)
		plan_disk_faults(sc, &f);
	if (kind == 5)
		f.conn_flip = 1;	/* nothing ever arrives undamaged */
	if (kind == 6 || kind == 8)
		plan_isolation(sc);
	if (kind == 8)
		plan_removal(sc);
	if (kind == 9)
		plan_restart(sc);
	if (kind == 11)
		scenario_plan_crashes(sc);
	if (kind == 12 && has_two_cables(sc) && sim_one_in(sc->sim, 2))
		plan_cables(sc);
	else if (kind == 12)
		plan_cuts(sc, &f);
	if (kind == 10 || (kind >= 7 && kind <= 9 && sim_one_in(sc->sim, 4)))
		plan_hangs(sc, &f);
	if (kind >= 2 && sim_one_in(sc->sim, 2))
		f.kept_flips = 1 + (unsigned)sim_below(sc->sim, 8);
	sim_trace(sc->sim, "misfortune of kind %llu", (unsigned long long)kind);
	sim_set_faults(sc->sim, &f);
}

