/* SPDX-License-Identifier: MIT */
/*
 * sim_put_get - puts, gets and requests at once among real engines, while things go wrong.
 *
 * A seed decides everything: how many nodes, lanes, rails and slabs, how fast they are, what is
 * moved, what breaks. When the jobs are over the faults stop, and these must hold:
 * - every job was done exactly once, within bounds of virtual time, and a failure has a cause that
 * did happen;
 * - success: under the final name are exactly the source's bytes, and the CRC32C is theirs;
 * failure: what was there before;
 * - a new put between every two nodes succeeds;
 * - every slab is back, and nothing of network and disks is left (sim_free() looks).
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/fault.h"
#include "mover/services/services.h"
#include "tests/sim/scenario_priv.h"

static struct fm_engine *engine_new(struct scenario *sc, struct sim_node *n, struct fm_err *err)
{
	struct fm_engine_opts o = sc->engine_opts[n->index];
	struct fm_engine_env env;
	struct fm_engine *engine;

	sim_node_env(n, &env);
	env.services = fm_services;
	o.node = n->name;
	memcpy(o.key, n->key, FM_KEY_LEN);
	return fm_engine_new(&o, &env, &engine, err) < 0 ? NULL : engine;
}

int scenario_add_peer(struct sim_node *n, const struct sim_node *peer, bool dials)
{
	struct fm_peer_opts o = {
		.name = peer->name, .host = dials ? peer->name : NULL, .port = 7471};
	struct fm_err err = { 0 };

	memcpy(o.key, peer->key, FM_KEY_LEN);
	return fm_engine_set_peer(n->engine, &o, &err);
}

/* Of two nodes at least one dials. */
int scenario_node_start(struct scenario *sc, struct sim_node *n)
{
	struct fm_err err = { 0 };
	int ret = 0;

	n->engine = engine_new(sc, n, &err);
	if (!n->engine)
		return -ENOMEM;
	ret = fm_engine_set_store(n->engine, sim_store_new(n, "s"), &err);
	for (unsigned i = 0; i < sc->opts.nodes && ret == 0; i++) {
		struct sim_node *peer = sim_node(sc->sim, i);

		if (peer != n)
			ret = scenario_add_peer(n, peer, n->index < i || sim_one_in(sc->sim, 2));
	}
	if (ret == 0)
		ret = fm_engine_start(n->engine, &err);
	return ret;
}

/* ---- jobs ---- */

static void job_done(void *ctx, const struct fm_job_result *result)
{
	struct job *j = ctx;

	j->job = NULL;
	if (!j->is_put && !j->is_tree)
		sim_caller_told(j->opts.file);
	if (j->from->death) {
		scenario_job_died(j);
		return;
	}
	sim_trace(j->sc->sim, "job %u done after %llu us: %d %s; %llu bytes resumed", j->index,
		  (unsigned long long)result->elapsed_ns / 1000, result->code, result->err.text,
		  (unsigned long long)result->bytes_resumed);
	if (result->code == 0 && j->opts.is_held && !j->opts.is_dry && !j->is_committed)
		sim_fail(j->sc->sim, "job %u is held, and done", j->index);
	scenario_check_end(j, result);
	j->was_taken |= result->code == -EEXIST;
	if (result->code != 0 && j->tries > 0 && !scenario_is_group_over(j, result->code)) {
		j->tries--;
		j->failed++;
		sim_user_after(j->from, sim_below(j->sc->sim, 5 * SIM_S), scenario_job_start, j);
		return;
	}
	j->done++;
	j->done_ns = sim_now(j->sc->sim);
	j->result = *result;
}

static void job_commit(void *ctx)
{
	struct job *j = ctx;

	if (!j->job)
		return;
	j->is_committed = true;
	fm_job_commit(j->job);
}

/* A held put: whoever holds it makes up his mind. */
static void job_prepared(void *ctx, uint64_t sent)
{
	struct job *j = ctx;

	(void)sent;
	sim_trace(j->sc->sim, "job %u is prepared", j->index);
	sim_user_after(j->from, j->decided_ns ? j->decided_ns : sim_below(j->sc->sim, SIM_S),
		       job_commit, j);
}

static const struct fm_job_events job_events = { .done = job_done, .prepared = job_prepared };

static void open_file(struct job *j)
{
	struct fm_job_opts *o = &j->opts;

	if (!j->is_put) {
		j->sunk = NULL;
		j->caller.is_synced = o->durability != FM_DURABILITY_MEMORY;
		o->file = sim_caller_sink(j->from, &j->caller, &j->sunk);
		return;
	}
	o->attr = j->source->attr;
	if (j->caller.is_stream)
		o->attr = (struct fm_attr){.type = FM_NODE_FILE,
					   .size = FM_SIZE_UNKNOWN,
					   .mode = o->attr.mode,
					   .mtime_ns = o->attr.mtime_ns};
	o->file = sim_caller_source(j->from, j->source, &j->caller);
}

static void open_tree(struct job *j)
{
	struct fm_job_opts *o = &j->opts;
	const struct fm_create_tree how = { .may_replace = true,
					    .is_update = o->is_update,
					    .is_delete = o->is_delete,
					    .has_checksums = o->has_checksums,
					    .is_dry = o->is_dry,
					    .is_durable = o->durability != FM_DURABILITY_MEMORY };

	if (j->is_put) {
		o->file = sim_caller_tree_source(j->from, j->tree);
		o->attr = (struct fm_attr){.type = FM_NODE_DIR,
					   .size = FM_SIZE_UNKNOWN,
					   .dev = 1,
					   .ino = j->tree->ino};
	} else {
		o->excludes = j->excludes;
		o->file = sim_caller_tree_sink(j->from, j->path, &how);
	}
	if (o->file)
		o->file->tree->is_callers = o->file->may_stand = j->caller.may_stand;
}

void scenario_job_start(void *ctx)
{
	struct job *j = ctx;
	struct fm_job_opts *o = &j->opts;
	struct fm_err err = { 0 };
	int ret;

	j->cancel_ns = j->peer_died_ns = 0;
	j->is_committed = false;
	if (j->from->death) {
		scenario_job_died(j);
		return;
	}
	j->start_ns = sim_now(j->sc->sim);
	if (j->breaks > 0) {
		j->breaks--;
		sim_user_after(j->from, SIM_S + sim_below(j->sc->sim, 4 * SIM_S),
			       scenario_job_cancel, j);
	}
	if (!j->from->engine) {		/* being started again */
		j->done = 1;
		j->result.code =
			fm_err_set(&j->result.err, -EHOSTDOWN, "its node is started again");
		return;
	}
	o->is_put = j->is_put;
	o->node = j->to->name;
	o->store = "s";
	o->path = j->path;
	o->path_len = strlen(j->path);
	if (j->is_tree)
		open_tree(j);
	else
		open_file(j);
	if (!o->file) {		/* no memory */
		j->done = 1;
		j->result.code = -ENOMEM;
		return;
	}
	ret = fm_job_start(j->from->engine, o, &job_events, j, &j->job, &err);
	sim_trace(j->sc->sim, "job %u: %s %s %s %s:%s%s%s%s, %llu bytes%s, limit %llu: %d %s",
		  j->index, j->from->name, j->is_put ? "puts" : "gets", j->is_put ? "to" : "from",
		  j->to->name, j->path, j->is_tree ? ", tree" : "",
		  j->caller.is_stream	? ", stream"
		  : j->caller.may_stand ? ", may stand"
					: "",
		  j->caller.never_ends ? " without end" : "",
		  (unsigned long long)(j->source ? j->source->size : 0),
		  j->source && j->source->is_data ? " with holes" : "",
		  (unsigned long long)o->rate_bytes, ret, err.text);
	if (ret < 0) {
		j->done = 1;
		j->result = (struct fm_job_result){ .code = ret, .err = err };
		j->job = NULL;
	}
}

void scenario_job_cancel(void *ctx)
{
	struct job *j = ctx;

	if (j->done || !j->job)
		return;
	j->cancel_ns = sim_now(j->sc->sim);
	sim_trace(j->sc->sim, "job %u: cancel", j->index);
	fm_job_cancel(j->job, -ECANCELED, j->is_cancel_kept, "cancelled by the scenario");
}

/* ---- requests ---- */

static void request_done(void *ctx, const struct fm_request_result *result)
{
	struct request *r = ctx;

	sim_trace(r->sc->sim, "request done: %d %s, %zu entries", result->code, result->err.text,
		  result->count);
	r->done++;
	for (size_t i = 0; r->verb == FM_VERB_LIST && i < result->count; i++)
		if (strlen(result->entries[i].name) < 1)
			sim_fail(r->sc->sim, "LIST gave a name that is empty");
}

void scenario_request_start(void *ctx)
{
	struct request *r = ctx;
	struct fm_request_opts o = {
		.verb = r->verb, .node = r->to->name, .store = "s", .after = ""};
	struct fm_err err = { 0 };

	o.path = r->verb == FM_VERB_LIST ? "" : r->verb == FM_VERB_STAT ? SHARED_NAME : "nothing";
	o.path_len = strlen(o.path);
	if (!r->from->engine || fm_request_start(r->from->engine, &o, request_done, r, &err) < 0)
		r->done++;
}

bool scenario_are_jobs_done(const struct scenario *sc)
{
	for (unsigned i = 0; i < sc->job_count; i++)
		if (!sc->jobs[i].done)
			return false;
	return true;
}

static bool is_all_done(void *ctx)
{
	const struct scenario *sc = ctx;

	if (!scenario_are_jobs_done(sc) || (sc->group && sc->group->asking > 0))
		return false;
	for (unsigned i = 0; i < sc->request_count; i++)
		if (!sc->requests[i].done)
			return false;
	return true;
}

/* ---- the course of it ---- */

void scenario_wait_for_all(struct scenario *sc)
{
	if (sim_run(sc->sim, is_all_done, sc, 600 * SIM_S))
		return;
	for (unsigned i = 0; i < sc->job_count; i++)
		if (!sc->jobs[i].done)
			fprintf(stderr, "job %u is not done\n", i);
	if (sc->group && sc->group->asking > 0)
		fprintf(stderr, "%u still ask about the group\n", sc->group->asking);
	sim_fail(sc->sim, "not over after ten minutes");
}

/* The faults are over; everybody must be able to reach everybody again. */
static void put_again(struct scenario *sc)
{
	unsigned first = sc->job_count;

	for (unsigned i = 0; i < sc->honest * (sc->honest - 1); i++) {
		struct job *j = &sc->jobs[sc->job_count];

		*j = (struct job){ .sc = sc, .index = sc->job_count++, .is_put = true };
		assert(sc->job_count <= JOBS_MAX);
		j->from = sim_node(sc->sim, i / (sc->honest - 1));
		j->to = sim_node(sc->sim, (j->from->index + 1 + i % (sc->honest - 1)) % sc->honest);
		(void)snprintf(j->path, sizeof(j->path), "again%u", i);
		j->source = sim_blob_new(sc->sim, 1000 + i, 3 * sc->chunk_bytes + 13, 0);
		sim_user_after(j->from, 0, scenario_job_start, j);
	}
	scenario_wait_for_all(sc);
	for (unsigned i = first; i < sc->job_count; i++)
		if (sc->jobs[i].result.code != 0)
			sim_fail(sc->sim, "after the faults a new put fails: %s",
				 sc->jobs[i].result.err.text);
}

static void engine_stopped(void *ctx)
{
	struct scenario *sc = ctx;

	sc->stopping--;
}

static void engine_stop(void *ctx)
{
	struct scenario_node *r = ctx;

	fm_engine_stop(r->node->engine, engine_stopped, r->sc);
}

static bool is_stopped(void *ctx)
{
	const struct scenario *sc = ctx;

	return sc->stopping == 0;
}

static void stop_all(struct scenario *sc)
{
	for (unsigned i = 0; i < sc->honest; i++) {
		struct scenario_node *r = sim_alloc(sc->sim, sizeof(*r));

		r->sc = sc;
		r->node = sim_node(sc->sim, i);
		if (!r->node->engine)
			continue;
		sc->stopping++;
		sim_user_after(r->node, sim_below(sc->sim, 10 * SIM_MS), engine_stop, r);
	}
	if (!sim_run(sc->sim, is_stopped, sc, 60 * SIM_S))
		sim_fail(sc->sim, "an engine does not stop");
	for (unsigned i = 0; i < sc->honest; i++)
		fm_engine_free(sim_node(sc->sim, i)->engine);
}

static void count_totals(const struct scenario *sc, struct scenario_totals *t)
{
	struct sim_net_counts net;
	struct sim_disk_counts disk;

	sim_net_counts(sc->sim, &net);
	sim_disk_counts(sc->sim, &disk);
	t->seeds++;
	t->jobs += sc->job_count;
	t->flips += net.flips;
	t->overlaps += disk.overlaps;
	t->resumed += disk.resumed > 0;
	t->crashes += sc->crashes;
	t->requests += sc->request_count;
	t->trace_hash = sim_trace_hash(sc->sim);
	for (unsigned i = 0; i < sc->job_count; i++) {
		const struct fm_job_result *r = &sc->jobs[i].result;

		t->codes[-r->code & 4095]++;
		t->jobs_done += r->code == 0;
		t->resent += r->code == 0 && r->bytes_resent > 0;
		t->trees += sc->jobs[i].is_tree;
		t->trees_done += sc->jobs[i].is_tree && r->code == 0;
		t->again += sc->jobs[i].failed;
	}
}

/* Until the sessions have dialled as late as they ever do (30 s) and given every slab back. */
#define CALM_NS (75 * SIM_S)

static void calm_down(struct scenario *sc)
{
	uint64_t until_ns, now_ns = sim_now(sc->sim);

	(void)sim_disk_hung(sc->sim, &until_ns);
	(void)sim_run(sc->sim, NULL, NULL, CALM_NS + (until_ns > now_ns ? until_ns - now_ns : 0));
}

void scenario_end(struct scenario *sc, struct scenario_totals *totals)
{
	calm_down(sc);
	scenario_check_jobs(sc);
	put_again(sc);
	(void)sim_run(sc->sim, NULL, NULL, CALM_NS);
	scenario_check_jobs(sc);
	scenario_check_quiet(sc);
	stop_all(sc);
	count_totals(sc, totals);
	sim_free(sc->sim);
	free(sc);
}

void scenario_run(uint64_t seed, enum sim_tracing tracing, struct scenario_totals *totals)
{
	struct scenario *sc = calloc(1, sizeof(*sc));
	const struct sim_faults none = { .conn_cut = 0 };

	if (!sc)
		abort();
	scenario_plan_opts(sc, seed);
	sc->opts.tracing = tracing;
	sc->sim = sim_new(&sc->opts);
	scenario_plan_work(sc);
	scenario_plan_faults(sc);
	for (unsigned i = 0; i < sc->honest; i++)
		if (scenario_node_start(sc, sim_node(sc->sim, i)) < 0)
			sim_fail(sc->sim, "a node does not start");
	scenario_check_refusals(sc, sim_node(sc->sim, 0));
	scenario_wait_for_all(sc);
	sim_set_faults(sc->sim, &none);
	scenario_end(sc, totals);
}

/* ---- among thieves ---- */

static void remove_hostile(void *ctx)
{
	const struct sim_node *n = ctx;

	fm_engine_remove_peer(n->engine, "n3");
}

void scenario_run_hostile(uint64_t seed, enum sim_tracing tracing, struct scenario_totals *totals)
{
	struct scenario *sc = calloc(1, sizeof(*sc));

	if (!sc)
		abort();
	sc->is_hostile = true;
	scenario_plan_opts(sc, seed);
	sc->opts.tracing = tracing;
	sc->sim = sim_new(&sc->opts);
	scenario_plan_work(sc);
	scenario_plan_unsafe_work(sc);
	for (unsigned i = 0; i < sc->honest; i++)
		if (scenario_node_start(sc, sim_node(sc->sim, i)) < 0)
			sim_fail(sc->sim, "a node does not start");
	scenario_hostile_start(sc, sim_node(sc->sim, sc->honest));
	scenario_wait_for_all(sc);
	(void)sim_run(sc->sim, NULL, NULL, CALM_NS);
	scenario_check_jobs(sc);
	put_again(sc);
	for (unsigned i = 0; i < sc->honest; i++)
		sim_user_after(sim_node(sc->sim, i), 0, remove_hostile, sim_node(sc->sim, i));
	(void)sim_run(sc->sim, NULL, NULL, CALM_NS);
	scenario_check_quiet(sc);
	stop_all(sc);
	scenario_hostile_stop(sc);
	count_totals(sc, totals);
	sim_free(sc->sim);
	free(sc);
}

/* ---- hours ---- */

#define HOUR_NS (3600 * SIM_S)

static struct job *plan_patient_job(struct scenario *sc, bool is_put, uint64_t size)
{
	struct job *j = &sc->jobs[sc->job_count];

	*j = (struct job){ .sc = sc, .index = sc->job_count++, .is_put = is_put };
	j->from = sim_node(sc->sim, 0);
	j->to = sim_node(sc->sim, 1);
	(void)snprintf(j->path, sizeof(j->path), "p%u", j->index);
	if (size > 0)
		j->source = sim_blob_new(sc->sim, 1 + j->index, size, 0);
	if (size > 0 && !is_put)
		sim_disk_add(j->to, j->path, j->source);
	sim_user_after(j->from, 2 * SIM_S, scenario_job_start, j);
	return j;
}

/* Of a put to several nodes, one is done an hour and more before the others. */
static void plan_held(struct scenario *sc)
{
	struct job *file = plan_patient_job(sc, true, 3 * sc->chunk_bytes + 13);
	struct job *tree = plan_patient_job(sc, true, 0);

	tree->is_tree = true;
	tree->tree = tree->tree_source = sim_tree_new(sc->sim, 77, 12, 4096);
	file->opts.is_held = tree->opts.is_held = true;
	file->decided_ns = tree->decided_ns = 2 * HOUR_NS;
}

/* With the least limit that `fmove` takes. */
static void plan_limited(struct scenario *sc)
{
	struct job *tree;

	for (unsigned is_put = 0; is_put < 2; is_put++)
		plan_patient_job(sc, is_put, sc->chunk_bytes + 4096)->opts.rate_bytes = 1000;
	tree = plan_patient_job(sc, true, 0);
	tree->is_tree = true;
	tree->tree = tree->tree_source = sim_tree_new(sc->sim, 78, 12, 1u << 18);
	tree->opts.rate_bytes = 1000;
}

void scenario_run_patient(uint64_t seed, enum sim_tracing tracing, struct scenario_totals *totals)
{
	struct scenario *sc = calloc(1, sizeof(*sc));

	if (!sc)
		abort();
	sc->honest = 2;
	sc->chunk_bytes = 1u << 20;
	sc->opts = (struct sim_opts){ .seed = seed,
				      .nodes = 2,
				      .lanes = 1,
				      .rails = 1,
				      .rdma_rails = 1,
				      .net_ns = SIM_MS,
				      .disk_ns = SIM_MS,
				      .arena_len = { 8u << 20, 8u << 20 },
				      .tracing = tracing };
	for (unsigned i = 0; i < 2; i++)
		sc->engine_opts[i] = (struct fm_engine_opts){ .lanes = 1,
							      .chunk_bytes = sc->chunk_bytes,
							      .slab_bytes = 2 * sc->chunk_bytes,
							      .rdma_conns = 1,
							      .tcp_conns = 1 };
	sc->sim = sim_new(&sc->opts);
	plan_held(sc);
	plan_limited(sc);
	for (unsigned i = 0; i < sc->honest; i++)
		if (scenario_node_start(sc, sim_node(sc->sim, i)) < 0)
			sim_fail(sc->sim, "a node does not start");
	if (!sim_run(sc->sim, is_all_done, sc, 4 * HOUR_NS))
		sim_fail(sc->sim, "not over after four hours");
	for (unsigned i = 0; i < sc->job_count; i++)
		if (sc->jobs[i].result.code != 0)
			sim_fail(sc->sim, "job %u took its time, and failed: %s", i,
				 sc->jobs[i].result.err.text);
	(void)sim_run(sc->sim, NULL, NULL, CALM_NS);
	scenario_check_quiet(sc);
	stop_all(sc);
	count_totals(sc, totals);
	sim_free(sc->sim);
	free(sc);
}

/* ---- the n-th fault point ---- */

#ifdef FM_FAULTS
static void plan_plain_tree(struct scenario *sc, struct job *j)
{
	j->is_tree = true;
	j->tree = j->tree_source = sim_tree_new(sc->sim, 77 + j->index, 12, sc->chunk_bytes);
	if (!j->is_put)
		sim_disk_add_tree(j->to, j->path, j->tree);
}

static void cut_conn(void *ctx)
{
	sim_net_cut_conn(ctx);
}

/* Put and get in turn: files, directories, streams; in the midst of them connections break. */
static void plan_plain_jobs(struct scenario *sc)
{
	for (uint64_t i = 1; i <= 3; i++)
		(void)sim_after(sc->sim, NULL, 2 * SIM_S + i * SIM_MS / 2, cut_conn, sc->sim);
	for (unsigned i = 0; i < 6; i++) {
		struct job *j = &sc->jobs[i];

		*j = (struct job){ .sc = sc, .index = sc->job_count++, .is_put = i % 2 == 0 };
		j->from = sim_node(sc->sim, 0);
		j->to = sim_node(sc->sim, 1);
		(void)snprintf(j->path, sizeof(j->path), "f%u", i);
		sim_user_after(j->from, 2 * SIM_S, scenario_job_start, j);
		if (i == 2 || i == 3) {
			plan_plain_tree(sc, j);
			continue;
		}
		j->caller.is_stream = j->caller.may_stand = i >= 4;
		j->source = sim_blob_new(sc->sim, i, 6 * sc->chunk_bytes + 13, i == 1 ? 2 : 0);
		if (!j->is_put)
			sim_disk_add(j->to, j->path, j->source);
	}
}

bool scenario_run_with_fault(unsigned n, enum sim_tracing tracing)
{
	struct scenario *sc = calloc(1, sizeof(*sc));
	bool has_started = true, has_fired;

	if (!sc)
		abort();
	sc->honest = 2;
	sc->opts = (struct sim_opts){ .seed = n,
				      .nodes = 2,
				      .lanes = 2,
				      .rails = 2,
				      .rdma_rails = 1,
				      .net_ns = SIM_MS,
				      .disk_ns = SIM_MS,
				      .arena_len = { 131072, 131072 },
				      .tracing = tracing };
	for (unsigned i = 0; i < 2; i++)
		sc->engine_opts[i] = (struct fm_engine_opts){
			.lanes = 2,
			.chunk_bytes = 4096,
			.slab_bytes = 16384,
			.rdma_conns = 2,
			.tcp_conns = 2,
		};
	sc->chunk_bytes = 4096;
	sc->sim = sim_new(&sc->opts);
	sc->is_out_of_memory = true;
	plan_plain_jobs(sc);
	fm_fault_arm(NULL, n);
	for (unsigned i = 0; i < sc->honest && has_started; i++)
		has_started = scenario_node_start(sc, sim_node(sc->sim, i)) == 0;
	if (has_started)
		scenario_wait_for_all(sc);
	has_fired = fm_fault_fired();
	fm_fault_arm(NULL, 0);
	if (!has_fired && !has_started)
		sim_fail(sc->sim, "a node does not start");
	if (has_started) {
		(void)sim_run(sc->sim, NULL, NULL, CALM_NS);
		scenario_check_jobs(sc);
		put_again(sc);
		(void)sim_run(sc->sim, NULL, NULL, CALM_NS);
		scenario_check_quiet(sc);
	}
	stop_all(sc);
	sim_free(sc->sim);
	free(sc);
	return has_fired;
}
#else
bool scenario_run_with_fault(unsigned n, enum sim_tracing tracing)
{
	(void)n;
	(void)tracing;
	return false;
}
#endif
