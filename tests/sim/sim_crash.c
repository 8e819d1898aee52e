/* SPDX-License-Identifier: MIT */
/*
 * sim_crash - a node ends at any step, without a word.
 *
 * At that moment it is cut off, and its disk is as it will be found: nothing that its engine does
 * from then on has an effect. The engine still has memory, files and connections, which nobody else
 * could give back. So it is stopped and freed at once, alone, while time stands still for
 * everybody: the next step is one of a world in which it does not exist. That it can be stopped at
 * any step is tested in passing.
 */
#include <assert.h>

#include "tests/sim/sim_tree_priv.h"

void sim_crash_at(struct sim *s, const struct sim_crash *crash)
{
	assert(crash->step > sim_steps(s) && crash->death != SIM_ALIVE);
	*sim_planned_crash(s) = *crash;
}

static bool is_due(struct sim *s)
{
	const struct sim_crash *c = sim_planned_crash(s);

	return c->step > 0 && sim_steps(s) >= c->step;
}

static void die(struct sim_node *n, enum sim_death death)
{
	sim_trace(n->sim, "%s: %s", n->name, death == SIM_KILLED ? "killed" : "power cut");
	sim_fired(n->sim, SIM_FIRED_CRASH);
	n->death = death;
	sim_net_die(n);
	sim_store_die(n);
	sim_tree_sinks_die(n);
	sim_trees_die(n);
	sim_groups_die(n);
	n->hung_until_ns = 0;
}

bool sim_crash_point(struct sim_node *n)
{
	struct sim_crash *c = sim_planned_crash(n->sim);

	if (n->death)
		return true;
	sim_count_step(n->sim);
	if (!is_due(n->sim) || c->node != n || !n->engine)
		return false;
	die(n, c->death);
	return true;
}

struct wreck {
	struct fm_engine *engine;
	bool is_stopped;
};

static void stopped(void *ctx)
{
	struct wreck *w = ctx;

	w->is_stopped = true;
}

static void stop(void *ctx)
{
	struct wreck *w = ctx;

	fm_engine_stop(w->engine, stopped, w);
}

static void free_engine(struct sim_node *n)
{
	struct wreck w = { .engine = n->engine };

	n->engine = NULL;	/* for its users, who may find out now */
	(void)sim_after(n->sim, n->control, 0, stop, &w);
	sim_drain(n);
	if (!w.is_stopped)
		sim_fail(n->sim, "%s: what crashed cannot be stopped", n->name);
	fm_engine_free(w.engine);
	if (!sim_is_idle(n) || sim_net_left(n) > 0 || !fm_list_is_empty(&n->open_files) ||
	    !fm_list_is_empty(&n->open_sinks))
		sim_fail(n->sim, "%s: something is left of what crashed", n->name);
}

void sim_crash_if_due(struct sim *s)
{
	struct sim_crash c = *sim_planned_crash(s);

	if (!is_due(s))
		return;
	sim_planned_crash(s)->step = 0;
	if (!c.node->engine)
		return;
	if (!c.node->death)
		die(c.node, c.death);
	free_engine(c.node);
	c.crashed(c.ctx, c.node);
}

void sim_node_boot(struct sim_node *n)
{
	assert(n->death && !n->engine);
	sim_net_boot(n);
	n->death = SIM_ALIVE;
}
