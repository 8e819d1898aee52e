/* SPDX-License-Identifier: MIT */
/*
 * plan - what a seed decides: the cluster and how fast it is, which jobs and requests there are,
 * and when.
 */
#include <stdio.h>
#include <string.h>

#include "tests/sim/scenario_priv.h"

#define CHUNKS_MAX 24			/* of a file whose size is random */
/* of who does not give up: more than fit into the time a node is away */
#define TRIES_MAX 40

static void describe(const struct scenario *sc);

static uint64_t pick_size(struct scenario *sc)
{
	struct sim *s = sc->sim;
	uint64_t chunk = sc->chunk_bytes;
	const uint64_t sizes[] = {
		0, 1, 511, 4095, 4096, 4097, chunk - 1, chunk, chunk + 1, 5 * chunk + 13, 12 * chunk
	};
	uint64_t which = sim_below(s, 16);

	return which < sizeof(sizes) / sizeof(sizes[0]) ? sizes[which]
							: sim_below(s, CHUNKS_MAX * chunk);
}

static struct sim_node *other_node(struct scenario *sc, const struct sim_node *n)
{
	unsigned step = 1 + (unsigned)sim_below(sc->sim, sc->honest - 1);

	return sim_node(sc->sim, (n->index + step) % sc->honest);
}

static void plan_source(struct scenario *sc, struct job *j)
{
	struct sim *s = sc->sim;

	j->source = sim_blob_new(s, sim_random(s), pick_size(sc),
				 sim_one_in(s, 3) ? 1 + (unsigned)sim_below(s, 4) : 0);
	j->caller.is_stream = sim_one_in(s, 5);
	j->caller.may_stand = j->caller.is_stream || sim_one_in(s, 2);
	if (j->is_put) {
		if (j->caller.is_stream)
			j->source->attr.has_holes = false;
		j->caller.never_ends = j->caller.may_stand && sim_one_in(s, 4);
		j->opts.may_replace = sim_one_in(s, 2);
		if (sim_one_in(s, 5))
			(void)snprintf(j->path, sizeof(j->path), SHARED_NAME);
		return;
	}
	if (sim_one_in(s, 6)) {
		(void)snprintf(j->path, sizeof(j->path), SHARED_NAME);
		j->source = NULL;
	} else if (sim_one_in(s, 10)) {
		j->is_missing = true;
	} else {
		sim_disk_add(j->to, j->path, j->source);
		j->caller.never_ends =
			j->caller.may_stand && j->source->size > 0 && sim_one_in(s, 4);
		j->caller.stops_at = j->caller.never_ends ? sim_below(s, j->source->size) : 0;
	}
}

/* It takes seconds, is given up in the middle and begun again, which goes on with what was logged
 * by then. */
static void plan_breaks(struct job *j, uint64_t bytes)
{
	struct sim *s = j->sc->sim;

	if (bytes < 8192 || j->caller.is_stream || j->caller.never_ends || !sim_one_in(s, 4))
		return;
	j->opts.rate_bytes = 1 + bytes / (2 + sim_below(s, 8));
	j->opts.timeout_ns = 0;
	j->breaks = 1 + (unsigned)sim_below(s, 3);
	j->tries = j->breaks + 1;
	j->is_cancel_kept = true;
}

/* What a job asks for beside what it moves. */
static void plan_manner(struct scenario *sc, struct job *j)
{
	struct sim *s = sc->sim;

	j->opts.durability = (enum fm_durability)sim_below(s, 3);
	if (sim_one_in(s, 4))
		j->opts.transport = sim_one_in(s, 2) ? FM_WANT_RDMA : FM_WANT_TCP;
	j->is_doomed = (j->opts.transport == FM_WANT_RDMA && sc->opts.rdma_rails == 0) ||
		       (j->opts.transport == FM_WANT_TCP && sc->opts.is_tcp_off);
	if (sim_one_in(s, 6))
		j->opts.rate_bytes = sc->chunk_bytes * (1 + sim_below(s, 64));
	if (sim_one_in(s, 6))
		j->opts.timeout_ns = 1 + sim_below(s, 20 * SIM_S);
	if (!j->caller.never_ends && sim_one_in(s, 2))
		j->tries = (unsigned)sim_below(s, 4);
	j->is_cancel_kept = sim_one_in(s, 2);
	plan_breaks(j, j->is_tree ? j->tree->bytes : j->source ? j->source->size : 0);
	sim_user_after(j->from, j->start_ns, scenario_job_start, j);
	if (j->caller.never_ends || sim_one_in(s, 6))
		sim_user_after(j->from, j->start_ns + 1 + sim_latency(s, 10 * SIM_S),
			       scenario_job_cancel, j);
}

static struct job *plan_file(struct scenario *sc, uint64_t within_ns)
{
	struct sim *s = sc->sim;
	struct job *j = &sc->jobs[sc->job_count];

	j->start_ns = sim_below(s, within_ns);
	j->sc = sc;
	j->index = sc->job_count++;
	j->is_put = sim_one_in(s, 2);
	j->from = sim_node(s, (unsigned)sim_below(s, sc->honest));
	j->to = other_node(sc, j->from);
	(void)snprintf(j->path, sizeof(j->path), "f%u", j->index);
	plan_source(sc, j);
	if (!j->is_put && !j->caller.is_stream && sim_one_in(s, 2))
		j->caller.partial_path = j->path;
	if (!j->is_put && j->source && !j->caller.is_stream && !j->caller.never_ends &&
	    j->index % 2 == 0) {
		j->caller.room = j->source->size;	/* memory, which never stands still */
		j->caller.may_stand = false;
		j->caller.partial_path = NULL;
	}
	return j;
}

static void plan_tree_source(struct scenario *sc, struct job *j)
{
	struct sim *s = sc->sim;

	j->tree_source = sim_tree_new(s, 1 + sim_below(s, UINT64_C(1) << 40),
				      1 + (unsigned)sim_below(s, 30), sc->chunk_bytes);
	j->tree = j->tree_source;
	if (j->is_put) {
		if (!sim_one_in(s, 3))
			return;
		j->tree_old = sim_tree_changed(s, j->tree, 1 + sim_below(s, UINT64_C(1) << 40),
					       sc->chunk_bytes);
		sim_disk_add_tree(j->to, j->path, j->tree_old);
		return;
	}
	if (sim_one_in(s, 3)) {
		j->excludes[0] = "x*";
		j->tree = sim_tree_without(s, j->tree, "x*");
	}
	if (sim_one_in(s, 10))
		j->is_missing = true;
	else
		sim_disk_add_tree(j->to, j->path, j->tree_source);
}

static struct job *plan_tree(struct scenario *sc, uint64_t within_ns)
{
	struct sim *s = sc->sim;
	struct job *j = &sc->jobs[sc->job_count];

	j->start_ns = sim_below(s, within_ns);
	j->sc = sc;
	j->index = sc->job_count++;
	j->is_tree = true;
	j->is_put = sim_one_in(s, 2);
	j->caller.may_stand = sim_one_in(s, 2);
	j->from = sim_node(s, (unsigned)sim_below(s, sc->honest));
	j->to = other_node(sc, j->from);
	(void)snprintf(j->path, sizeof(j->path), "t%u", j->index);
	plan_tree_source(sc, j);
	j->opts.may_replace = sim_one_in(s, 2);
	j->opts.is_update = sim_one_in(s, 3);
	j->opts.is_delete = j->opts.is_update && j->index % 2 == 0;
	j->opts.has_checksums = j->opts.is_update && sim_one_in(s, 2);
	j->opts.is_dry = sim_one_in(s, 8);
	return j;
}

/* Begun again until it is done; every other one takes so long that something of it is logged. */
static void plan_patience(struct job *j)
{
	struct sim *s = j->sc->sim;
	uint64_t bytes = j->is_tree ? j->tree->bytes : j->source ? j->source->size : 0;

	j->caller.never_ends = false;
	j->opts.durability = (enum fm_durability)sim_below(s, 3);
	if (j->is_tree || (j->source && !j->is_missing))
		j->tries = TRIES_MAX;
	j->opts.is_held = j->is_put && sim_one_in(s, 3);
	if (sim_one_in(s, 2))
		j->opts.rate_bytes = j->sc->chunk_bytes + bytes / (1 + sim_below(s, 3));
	sim_user_after(j->from, j->start_ns, scenario_job_start, j);
}

/* Whoever has it goes on trying until it is there, or the group is over. */
void scenario_plan_member(struct scenario *sc, struct job *j)
{
	struct sim *s = sc->sim;

	*j = (struct job){.sc = sc, .index = sc->job_count++, .is_put = true, .is_member = true};
	j->start_ns = sim_below(s, 4 * SIM_S);
	j->to = sc->group->at;
	j->from = other_node(sc, j->to);
	(void)snprintf(j->path, sizeof(j->path), GROUP_NAME "/m%u", j->index);
	j->is_tree = sim_one_in(s, 3);
	if (j->is_tree)
		j->tree = j->tree_source =
			sim_tree_new(s, 1 + sim_below(s, UINT64_C(1) << 40),
				     1 + (unsigned)sim_below(s, 12), sc->chunk_bytes);
	else
		j->source = sim_blob_new(s, sim_random(s), pick_size(sc),
					 sim_one_in(s, 3) ? 1 + (unsigned)sim_below(s, 4) : 0);
	j->caller.may_stand = sim_one_in(s, 2);
	j->opts.may_replace = true;	/* it may be there, and nobody heard so */
	j->opts.has_group = true;
	memcpy(j->opts.group, sc->group->id, sizeof(j->opts.group));
	j->opts.durability = sim_one_in(s, 2) ? FM_DURABILITY_DISK : FM_DURABILITY_DEFAULT;
	j->opts.is_held = sim_one_in(s, 6);
	if (sim_one_in(s, 3))
		j->opts.rate_bytes = sc->chunk_bytes * (1 + sim_below(s, 16));
	j->tries = TRIES_MAX;
	sim_user_after(j->from, j->start_ns, scenario_job_start, j);
}

void scenario_plan_few(struct scenario *sc)
{
	describe(sc);
	plan_patience(plan_tree(sc, SIM_S));
	for (uint64_t n = 1 + sim_below(sc->sim, 2); n > 0; n--)
		plan_patience(plan_file(sc, 2 * SIM_S));
}

static void plan_request(struct scenario *sc)
{
	struct request *r = &sc->requests[sc->request_count++];

	r->sc = sc;
	r->from = sim_node(sc->sim, (unsigned)sim_below(sc->sim, sc->honest));
	r->to = sim_node(sc->sim, (unsigned)sim_below(sc->sim, sc->honest));
	r->verb = (enum fm_verb)(FM_VERB_STAT + sim_below(sc->sim, 4));
	sim_user_after(r->from, sim_below(sc->sim, 20 * SIM_S), scenario_request_start, r);
}

/* Of a slot: nodes need not agree. */
static void plan_engine(struct scenario *sc, struct sim *s, unsigned node)
{
	struct fm_engine_opts *o = &sc->engine_opts[node];

	*o = (struct fm_engine_opts){
		.lanes = sc->opts.lanes,
		.chunk_bytes = node == 0 || sim_one_in(s, 3) ? 4096u << sim_below(s, 3)
							     : sc->engine_opts[0].chunk_bytes,
		.rdma_conns = 1 + (unsigned)sim_below(s, 3),
		.tcp_conns = 1 + (unsigned)sim_below(s, 4),
		.stall_ns = 2 * SIM_S + sim_below(s, 9 * SIM_S),
	};
	o->slab_bytes = o->chunk_bytes * (1 + (uint32_t)sim_below(s, 8));
	sc->opts.arena_len[node] = (2 + sim_below(s, 15)) * o->slab_bytes;
	if (sim_one_in(s, 8))
		o->rate_bytes = o->chunk_bytes * (8 + sim_below(s, 200));
	if (o->chunk_bytes < sc->chunk_bytes)
		sc->chunk_bytes = o->chunk_bytes;
}

void scenario_plan_opts(struct scenario *sc, uint64_t seed)
{
	struct sim *s = sim_new(&(struct sim_opts){ .seed = seed });	/* for its numbers only */
	struct sim_opts *o = &sc->opts;

	o->seed = seed;
	o->nodes = 2 + sim_one_in(s, 3);
	if (sc->is_hostile) {
		o->nodes = 3;
		o->arena_len[2] = scenario_hostile_arena_len();
	}
	sc->honest = sc->is_hostile ? 2 : o->nodes;
	o->lanes = 1 + (unsigned)sim_below(s, 3);
	o->rails = 1 + (unsigned)sim_below(s, SIM_RAILS_MAX);
	o->rdma_rails = (unsigned)sim_below(s, o->rails + 1);
	o->is_crossed = sim_one_in(s, 4);
	o->is_tcp_off = o->rdma_rails > 0 && sim_one_in(s, 8);
	o->net_ns = (10 * SIM_US) << sim_below(s, 12);
	o->disk_ns = (10 * SIM_US) << sim_below(s, 13);
	o->ns_per_kib = sim_below(s, 2000);
	sc->chunk_bytes = UINT32_MAX;
	for (unsigned i = 0; i < sc->honest; i++)
		plan_engine(sc, s, i);
	sim_free(s);
}

static void describe(const struct scenario *sc)
{
	const struct sim_opts *o = &sc->opts;

	sim_trace(sc->sim, "%u nodes, %u lanes, %u rails (%u RDMA%s%s), net %llu us, disk %llu us",
		  o->nodes, o->lanes, o->rails, o->rdma_rails, o->is_crossed ? ", crossed" : "",
		  o->is_tcp_off ? ", no TCP" : "", (unsigned long long)o->net_ns / 1000,
		  (unsigned long long)o->disk_ns / 1000);
	for (unsigned i = 0; i < sc->honest; i++) {
		const struct fm_engine_opts *e = &sc->engine_opts[i];

		sim_trace(sc->sim,
			  "n%u: chunk %u, slab %u of %zu, conns %u/%u, stall %llu ms, rate %llu",
			  i + 1, e->chunk_bytes, e->slab_bytes, o->arena_len[i], e->rdma_conns,
			  e->tcp_conns, (unsigned long long)e->stall_ns / 1000000,
			  (unsigned long long)e->rate_bytes);
	}
}

/* Transfers with the hostile node, at both ends of which nothing is certain. */
static void plan_unsafe_job(struct scenario *sc)
{
	struct sim *s = sc->sim;
	struct job *j = &sc->jobs[sc->job_count];

	j->sc = sc;
	j->index = sc->job_count++;
	j->is_unsafe = true;
	j->is_put = sim_one_in(s, 2);
	j->from = sim_node(s, (unsigned)sim_below(s, sc->honest));
	j->to = sim_node(s, sc->honest);
	j->start_ns = sim_below(s, 20 * SIM_S);
	j->caller.is_stream = sim_one_in(s, 3);
	j->caller.may_stand = j->caller.is_stream || sim_one_in(s, 2);
	(void)snprintf(j->path, sizeof(j->path), "u%u", j->index);
	j->is_tree = sim_one_in(s, 3);
	if (j->is_tree)
		j->tree = j->tree_source =
			sim_tree_new(s, 1 + sim_below(s, UINT64_C(1) << 40), 8, sc->chunk_bytes);
	else if (j->is_put)
		j->source = sim_blob_new(s, sim_random(s), pick_size(sc), sim_one_in(s, 3) ? 2 : 0);
	if (!j->is_tree && j->is_put && j->caller.is_stream)
		j->source->attr.has_holes = false;
	sim_user_after(j->from, j->start_ns, scenario_job_start, j);
	sim_user_after(j->from, 40 * SIM_S, scenario_job_cancel, j);
}

void scenario_plan_unsafe_work(struct scenario *sc)
{
	for (uint64_t n = 1 + sim_below(sc->sim, 6); n > 0; n--)
		plan_unsafe_job(sc);
}

static uint64_t within(struct scenario *sc)
{
	return sim_one_in(sc->sim, 2) ? 2 * SIM_S : 20 * SIM_S;
}

void scenario_plan_work(struct scenario *sc)
{
	describe(sc);
	for (uint64_t n = 1 + sim_below(sc->sim, 10); n > 0; n--)
		plan_manner(sc, plan_file(sc, within(sc)));
	if (sim_one_in(sc->sim, 2))
		for (uint64_t n = 1 + sim_below(sc->sim, 3); n > 0; n--)
			plan_manner(sc, plan_tree(sc, within(sc)));
	for (uint64_t n = sim_below(sc->sim, REQUESTS_MAX); n > 0; n--)
		plan_request(sc);
}
