/* SPDX-License-Identifier: MIT */
/*
 * crash - nodes that crash and come back, what their users and peers do then, and what must hold
 * beyond what always does:
 * - what was said to be done is done, right behind the crash and for ever after;
 * - the other ends of its transfers end as soon as a silent peer is noticed, and say whose fault it
 * was;
 * - where nothing else goes wrong, everything that is begun again succeeds, and with what was
 * logged before.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/scenario_priv.h"

/* ticks, and passes that are late, beyond the time a peer may be silent */
#define NOTICE_NS (2 * SIM_S)

struct crash {
	struct scenario *sc;
	struct sim_node *node;
	enum sim_death death;
	uint64_t at_ns;
};

/* ---- users ---- */

void scenario_job_died(struct job *j)
{
	struct sim *s = j->sc->sim;

	sim_trace(s, "job %u: its node died", j->index);
	j->died++;
	if (j->caller.never_ends || j->cancel_ns) {	/* nobody wants it any more */
		j->done++;
		j->done_ns = sim_now(s);
		j->result = (struct fm_job_result){ .code = -ECANCELED };
		return;
	}
	j->failed++;
	sim_user_after(j->from, 1 + sim_below(s, 5 * SIM_S), scenario_job_start, j);
}

static void boot(void *ctx)
{
	struct crash *c = ctx;

	sim_trace(c->sc->sim, "%s comes back", c->node->name);
	sim_node_boot(c->node);
	if (scenario_node_start(c->sc, c->node) < 0)
		sim_fail(c->sc->sim, "%s does not start again", c->node->name);
}

/* ---- peers ---- */

static uint64_t patience_ns(const struct scenario *sc, const struct sim_node *n)
{
	return sc->engine_opts[n->index].stall_ns + NOTICE_NS;
}

static bool is_about_peer(int code)
{
	return code == -ECONNRESET || code == -ECONNABORTED || code == -ECONNREFUSED ||
	       code == -EHOSTUNREACH || code == -ETIMEDOUT;
}

void scenario_check_end(const struct job *j, const struct fm_job_result *r)
{
	struct sim *s = j->sc->sim;

	if (j->peer_died_ns && sim_now(s) > j->peer_died_ns + patience_ns(j->sc, j->from))
		sim_fail(s, "job %u: %s is dead for %llu ms, and now it ends: %d (%s)", j->index,
			 j->to->name, (unsigned long long)(sim_now(s) - j->peer_died_ns) / 1000000,
			 r->code, r->err.text);
	if (j->sc->crashes > 0 && is_about_peer(r->code) && !j->opts.timeout_ns &&
	    !strstr(r->err.text, j->to->name))
		sim_fail(s, "job %u ends and does not say that it was %s: %s", j->index,
			 j->to->name, r->err.text);
}

/* Those that had a session with it. Who waits for one may still get one. */
static void note_peers(const struct crash *c)
{
	for (unsigned i = 0; i < c->sc->job_count; i++) {
		struct job *j = &c->sc->jobs[i];
		struct fm_job_progress p;

		if (!j->job || j->to != c->node)
			continue;
		fm_job_progress(j->job, &p);
		if (strcmp(p.state, "connecting") != 0)
			j->peer_died_ns = c->at_ns;
	}
}

static void see_node(void *ctx, const struct fm_node_status *st)
{
	(void)ctx;
	(void)st;
}

static void see_store(void *ctx, const struct fm_store *st)
{
	(void)ctx;
	(void)st;
}

static void see_peer(void *ctx, const struct fm_peer_status *st)
{
	(void)ctx;
	(void)st;
}

static void see_rail(void *ctx, const struct fm_rail_status *st)
{
	(void)ctx;
	(void)st;
}

static void see_job(void *ctx, const struct fm_job_status *st)
{
	const struct crash *c = ctx;
	uint64_t ago_ns = sim_now(c->sc->sim) - c->at_ns;

	if (!st->is_ours && strcmp(st->peer, c->node->name) == 0 && st->elapsed_ns > ago_ns)
		sim_fail(c->sc->sim,
			 "%s is dead for %llu ms, and what it began there still runs: %s",
			 c->node->name, (unsigned long long)ago_ns / 1000000, st->progress.state);
}

struct peer_check {
	struct crash *crash;
	const struct sim_node *node;
};

static void check_peer(void *ctx)
{
	static const struct fm_status_visitor visitor = { see_node, see_store, see_peer, see_rail };
	struct peer_check *p = ctx;

	if (!p->node->engine)
		return;
	fm_engine_status(p->node->engine, &visitor, p->crash);
	fm_job_visit(p->node->engine, see_job, p->crash);
}

static void check_peers_later(struct crash *c)
{
	for (unsigned i = 0; i < c->sc->honest; i++) {
		struct peer_check *p = sim_alloc(c->sc->sim, sizeof(*p));

		*p = (struct peer_check){ c, sim_node(c->sc->sim, i) };
		if (p->node != c->node)
			(void)sim_after(c->sc->sim, NULL, patience_ns(c->sc, p->node), check_peer,
					p);
	}
}

/* ---- the crash ---- */

static void crashed(void *ctx, struct sim_node *n)
{
	struct crash *c = ctx;
	struct sim *s = c->sc->sim;

	c->sc->crashes++;
	c->at_ns = sim_now(s);
	scenario_check_done(c->sc);
	note_peers(c);
	check_peers_later(c);
	sim_user_after(n, sim_below(s, sim_one_in(s, 3) ? 50 * SIM_MS : 12 * SIM_S), boot, c);
}

static void crash_after(struct crash *c, uint64_t steps)
{
	sim_crash_at(c->sc->sim, &(struct sim_crash){ .step = sim_steps(c->sc->sim) + steps,
						      .node = c->node,
						      .death = c->death,
						      .crashed = crashed,
						      .ctx = c });
}

static struct crash *crash_new(struct scenario *sc, uint64_t random)
{
	struct crash *c = sim_alloc(sc->sim, sizeof(*c));

	c->sc = sc;
	c->node = sim_node(sc->sim, (unsigned)(random / 2 % sc->honest));
	c->death = random % 2 ? SIM_KILLED : SIM_POWER_CUT;
	return c;
}

static void strike(void *ctx)
{
	struct crash *c = ctx;

	crash_after(c, 1 + sim_below(c->sc->sim, 200));
}

/* Mostly while a job is being done: soon after its beginning. */
void scenario_plan_crashes(struct scenario *sc)
{
	struct sim *s = sc->sim;

	for (uint64_t n = 1 + sim_below(s, 3); n > 0; n--) {
		const struct job *j = &sc->jobs[sim_below(s, sc->job_count)];
		uint64_t at_ns =
			j->start_ns + sim_latency(s, 32 * (sc->opts.net_ns + sc->opts.disk_ns));

		if (sim_one_in(s, 3))
			at_ns = sim_below(s, 20 * SIM_S);
		(void)sim_after(s, NULL, at_ns, strike, crash_new(sc, sim_random(s)));
	}
	for (unsigned i = 0; i < sc->job_count; i++)
		if (!sc->jobs[i].caller.never_ends)
			sc->jobs[i].tries += 3;
}

/* ---- at every step ---- */

/* A put that was done when its node died before it heard finds itself; and one whose name is taken
 * may use up all its tries before the crash. */
static void check_succeeded(const struct scenario *sc)
{
	struct sim_disk_counts disk;

	sim_disk_counts(sc->sim, &disk);
	if (disk.dropped > 0)
		sim_fail(sc->sim, "%llu bytes that were logged were thrown away",
			 (unsigned long long)disk.dropped);
	for (unsigned i = 0; i < sc->job_count; i++) {
		const struct job *j = &sc->jobs[i];
		int code = j->result.code;

		if (code != 0 && !j->was_taken && !j->is_missing && (j->source || j->is_tree))
			sim_fail(sc->sim,
				 "job %u fails again and again, and there was one crash: %s", i,
				 j->result.err.text);
	}
}

/* As splitmix64: not of the world's numbers, or the steps before the crash would be other ones. */
static uint64_t mix(uint64_t z)
{
	z *= UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

void scenario_plan_crash(struct scenario *sc, uint64_t step)
{
	crash_after(crash_new(sc, mix(sim_seed(sc->sim) << 32 ^ step)), step);
}

uint64_t scenario_run_crash(uint64_t seed, uint64_t step, enum sim_tracing tracing,
			    struct scenario_totals *totals)
{
	struct scenario *sc = calloc(1, sizeof(*sc));
	uint64_t before, steps;

	if (!sc)
		abort();
	scenario_plan_opts(sc, seed);
	sc->opts.tracing = tracing;
	sc->sim = sim_new(&sc->opts);
	scenario_plan_few(sc);
	for (unsigned i = 0; i < sc->honest; i++)
		if (scenario_node_start(sc, sim_node(sc->sim, i)) < 0)
			sim_fail(sc->sim, "a node does not start");
	before = sim_steps(sc->sim);
	if (step > 0)
		scenario_plan_crash(sc, step);
	scenario_wait_for_all(sc);
	steps = sim_steps(sc->sim) - before;
	check_succeeded(sc);
	scenario_end(sc, totals);
	return steps;
}
