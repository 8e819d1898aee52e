/* SPDX-License-Identifier: MIT */
/*
 * group - a publication group: many nodes put its members, somebody begins it and commits it,
 * others commit it, too, or do not know its ID. Everybody asks again until he hears what he wants
 * to. These hold at any time, whatever crashes:
 * - under its name there is nothing, or all of it, as it was put; nothing before a commit was asked
 *   for;
 * - a member that was said to be done is there, and is not missing when the group is committed;
 * - what was said to be committed has its name for ever, what was said to be discarded none;
 * - who does not know the ID hears of nothing but a refusal.
 * At the end all members are done, and whoever asked was told.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/scenario_priv.h"

#define AGAIN_NS (2 * SIM_S)

/* Somebody who asks for one thing. */
struct asker {
	struct scenario *sc;
	struct sim_node *node;
	enum fm_verb verb;
	uint8_t id[FM_GROUP_ID_LEN];
	bool is_thief;			/* it is another ID */
	bool is_eager;			/* a commit, also before all members are done */
};

/* ---- what must hold ---- */

static bool is_published(const struct job *j)
{
	return j->is_tree ? sim_disk_find_tree(j->to, j->path) != NULL
			  : sim_disk_find(j->to, j->path) != NULL;
}

/* As it was put, under its name or where it waits for that. */
static bool is_there(const struct job *j)
{
	const struct sim_tree *tree;
	const struct sim_blob *blob;

	if (j->is_tree) {
		tree = sim_disk_find_tree(j->to, j->path);
		tree = tree ? tree : sim_group_tree(j->to, j->path);
		return tree && sim_tree_is_same(tree, j->tree);
	}
	blob = sim_disk_find(j->to, j->path);
	blob = blob ? blob : sim_group_member(j->to, j->path);
	return blob && sim_blob_is_same(blob, j->source) &&
	       blob->attr.mode == j->source->attr.mode &&
	       blob->attr.mtime_ns == j->source->attr.mtime_ns;
}

static bool was_told_done(const struct job *j)
{
	return j->is_member && j->done && j->result.code == 0;
}

void scenario_check_group(struct scenario *sc)
{
	const struct group *g = sc->group;
	unsigned members = 0, published = 0;

	if (!g)
		return;
	for (unsigned i = 0; i < sc->job_count; i++) {
		const struct job *j = &sc->jobs[i];

		members += j->is_member;
		published += j->is_member && is_published(j);
		if (was_told_done(j) && !g->is_dropped && !is_there(j))
			sim_fail(sc->sim, "member %s is done, and is not there", j->path);
	}
	if (published != 0 && published != members)
		sim_fail(sc->sim, "%u of %u members of the group have their names", published,
			 members);
	if (published != 0 && !g->is_asked_for)
		sim_fail(sc->sim, "the group is published, and nobody asked for it");
	if (published == 0 && g->is_committed)
		sim_fail(sc->sim, "the group was committed, and has no name");
	for (unsigned i = 0; i < sc->job_count && published != 0; i++)
		if (sc->jobs[i].is_member && !is_there(&sc->jobs[i]))
			sim_fail(sc->sim, "%s was published as something else", sc->jobs[i].path);
}

bool scenario_is_group_over(const struct job *j, int code)
{
	return j->is_member && code == -ENOENT && j->sc->group->is_begun;
}

void scenario_check_group_end(struct scenario *sc)
{
	const struct group *g = sc->group;

	scenario_check_group(sc);
	if (g->is_dropped ? !g->is_discarded : !g->is_committed)
		sim_fail(sc->sim, "nobody was told that the group is over");
	for (unsigned i = 0; i < sc->job_count; i++) {
		const struct job *j = &sc->jobs[i];

		if (!j->is_member)
			continue;
		if (j->result.code != 0 && j->result.code != -ENOENT)
			sim_fail(sc->sim, "member %s fails for ever: %s", j->path,
				 j->result.err.text);
		if (g->is_dropped && is_there(j))
			sim_fail(sc->sim, "member %s is there, and its group is not", j->path);
	}
}

/* Which are missing, it says: more than those that were not said to be done? */
static void check_missing(struct scenario *sc, const struct fm_group_names *missing)
{
	unsigned undone = 0;

	for (unsigned i = 0; i < sc->job_count; i++)
		undone += sc->jobs[i].is_member && !was_told_done(&sc->jobs[i]);
	if (missing && missing->count > undone)
		sim_fail(sc->sim, "%u members are missing, it says; %u are not done",
			 missing->count, undone);
}

/* ---- who asks ---- */

static void ask(void *ctx);

static void ask_later(struct asker *a)
{
	sim_user_after(a->node, 1 + sim_below(a->sc->sim, AGAIN_NS), ask, a);
}

static struct asker *asker_new(struct scenario *sc, struct sim_node *node, enum fm_verb verb)
{
	struct asker *a = sim_alloc(sc->sim, sizeof(*a));

	*a = (struct asker){.sc = sc, .node = node, .verb = verb};
	memcpy(a->id, sc->group->id, sizeof(a->id));
	sc->group->asking++;
	return a;
}

/* Who has begun it ends it. */
static void begun(struct asker *a)
{
	struct group *g = a->sc->group;
	struct asker *next = asker_new(a->sc, a->node, g->is_dropped ? FM_VERB_GROUP_DISCARD
								     : FM_VERB_GROUP_COMMIT);

	g->is_begun = true;
	next->is_eager = sim_one_in(a->sc->sim, 3);
	sim_user_after(a->node, sim_below(a->sc->sim, 10 * SIM_S), ask, next);
}

/* Whether it heard what it wanted to. */
static bool take_answer(struct asker *a, const struct fm_request_result *r)
{
	struct group *g = a->sc->group;

	if (a->is_thief) {
		if (r->code == 0)
			sim_fail(a->sc->sim, "a group was had with another ID");
		return true;
	}
	if (r->code == -ENODATA)
		check_missing(a->sc, r->missing);
	if (r->code == 0 && a->verb == FM_VERB_GROUP_BEGIN)
		begun(a);
	else if (r->code == 0 && a->verb == FM_VERB_GROUP_COMMIT)
		g->is_committed = true;
	else if (a->verb == FM_VERB_GROUP_DISCARD && (r->code == 0 || r->code == -ENOENT))
		return g->is_discarded = true;
	return r->code == 0;
}

static void answered(void *ctx, const struct fm_request_result *r)
{
	struct asker *a = ctx;
	struct sim *s = a->sc->sim;

	if (a->node->death) {		/* he has heard nothing */
		ask_later(a);
		return;
	}
	sim_trace(s, "group, %s, verb %d: %d %s", a->node->name, a->verb, r->code, r->err.text);
	if (!take_answer(a, r)) {
		ask_later(a);
		return;
	}
	scenario_check_group(a->sc);
	a->sc->group->asking--;
}

static void ask(void *ctx)
{
	struct asker *a = ctx;
	struct group *g = a->sc->group;
	struct fm_group_ask what = { .members = 0 };
	struct fm_request_opts o = {.verb = a->verb,
				    .node = g->at->name,
				    .store = "s",
				    .path = GROUP_NAME,
				    .path_len = strlen(GROUP_NAME),
				    .group = &what};
	struct fm_err err = { 0 };

	memcpy(what.id, a->id, sizeof(what.id));
	if (a->verb == FM_VERB_GROUP_COMMIT) {
		what.expect = g->expect;
		what.expect_len = strlen(g->expect);
		if (!a->is_eager && !a->is_thief && !scenario_are_jobs_done(a->sc)) {
			ask_later(a);
			return;
		}
		g->is_asked_for |= !a->is_thief;
	}
	if (!a->node->engine || a->node->death ||
	    fm_request_start(a->node->engine, &o, answered, a, &err) < 0)
		ask_later(a);
}

/* ---- all of it ---- */

static struct sim_node *any_node(struct scenario *sc)
{
	return sim_node(sc->sim, (unsigned)sim_below(sc->sim, sc->honest));
}

static void plan_others(struct scenario *sc)
{
	static const enum fm_verb verbs[] = {FM_VERB_GROUP_COMMIT, FM_VERB_GROUP_DISCARD};
	struct sim *s = sc->sim;
	struct asker *a;

	if (!sc->group->is_dropped && sim_one_in(s, 2)) {
		a = asker_new(sc, any_node(sc), FM_VERB_GROUP_COMMIT);
		a->is_eager = sim_one_in(s, 2);
		sim_user_after(a->node, sim_below(s, 20 * SIM_S), ask, a);
	}
	for (uint64_t n = sim_below(s, 3); n > 0; n--) {
		a = asker_new(sc, any_node(sc), verbs[n - 1]);
		a->is_thief = true;
		a->id[sim_below(s, sizeof(a->id))] ^= 1;
		sim_user_after(a->node, sim_below(s, 20 * SIM_S), ask, a);
	}
}

static void plan(struct scenario *sc)
{
	struct sim *s = sc->sim;
	struct group *g = sc->group = sim_alloc(s, sizeof(*g));
	struct asker *leader;

	g->at = any_node(sc);
	for (size_t i = 0; i < sizeof(g->id); i++)
		g->id[i] = (uint8_t)sim_random(s);
	g->is_dropped = sim_one_in(s, 6);
	for (uint64_t n = 2 + sim_below(s, 6); n > 0; n--) {
		struct job *j = &sc->jobs[sc->job_count];
		size_t len = strlen(g->expect);

		scenario_plan_member(sc, j);
		(void)snprintf(g->expect + len, sizeof(g->expect) - len, "m%u\n", j->index);
	}
	leader = asker_new(sc, any_node(sc), FM_VERB_GROUP_BEGIN);
	sim_user_after(leader->node, sim_below(s, 2 * SIM_S), ask, leader);
	plan_others(sc);
}

static struct scenario *group_new(uint64_t seed, enum sim_tracing tracing)
{
	struct scenario *sc = calloc(1, sizeof(*sc));

	if (!sc)
		abort();
	scenario_plan_opts(sc, seed);
	sc->opts.tracing = tracing;
	sc->sim = sim_new(&sc->opts);
	plan(sc);
	return sc;
}

/* Returns how many steps it took until everybody was told. */
static uint64_t run(struct scenario *sc, struct scenario_totals *totals)
{
	const struct sim_faults none = { .conn_cut = 0 };
	uint64_t before = sim_steps(sc->sim), steps;

	scenario_wait_for_all(sc);
	steps = sim_steps(sc->sim) - before;
	sim_set_faults(sc->sim, &none);
	scenario_check_group_end(sc);
	scenario_end(sc, totals);
	return steps;
}

static void start_nodes(struct scenario *sc)
{
	for (unsigned i = 0; i < sc->honest; i++)
		if (scenario_node_start(sc, sim_node(sc->sim, i)) < 0)
			sim_fail(sc->sim, "a node does not start");
}

void scenario_run_group(uint64_t seed, enum sim_tracing tracing, struct scenario_totals *totals)
{
	struct scenario *sc = group_new(seed, tracing);

	if (sim_one_in(sc->sim, 2))
		scenario_plan_passing_faults(sc);
	if (sim_one_in(sc->sim, 2))
		scenario_plan_crashes(sc);
	start_nodes(sc);
	(void)run(sc, totals);
}

uint64_t scenario_run_group_crash(uint64_t seed, uint64_t step, enum sim_tracing tracing,
				  struct scenario_totals *totals)
{
	struct scenario *sc = group_new(seed, tracing);

	start_nodes(sc);
	if (step > 0)
		scenario_plan_crash(sc, step);
	return run(sc, totals);
}
