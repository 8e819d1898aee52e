/* SPDX-License-Identifier: MIT */
/*
 * check - what must hold, whatever went wrong. See sim_put_get.c.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "tests/sim/scenario_priv.h"

#define PATIENCE_NS (290 * SIM_S)	/* after 300 s the engine gives up what does not move */

/* The far end may have published and nobody was left to hear it. */
static bool is_unsure(int code)
{
	switch (-code) {
	case ECONNRESET:
	case ECONNABORTED:
	case ECONNREFUSED:
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case EHOSTDOWN:
	case ECANCELED:
	case ENOMEM:
		return true;
	default:
		return false;
	}
}

static bool has_cause(const struct job *j)
{
	unsigned fired = sim_what_fired(j->sc->sim);
	bool is_net = (fired & (SIM_FIRED_NET | SIM_FIRED_CRASH) && !j->sc->is_hostile) ||
		      j->sc->is_disturbed;
	bool may_break = is_net && !j->sc->is_only_cuts;

	if (j->sc->is_out_of_memory)
		return true;
	switch (-j->result.code) {
	case ECANCELED:
		return j->cancel_ns || j->died > 0;
	case EHOSTDOWN:
		return j->sc->is_disturbed;
	case ETIMEDOUT:
		return may_break || j->opts.timeout_ns || fired & SIM_FIRED_HANG;
	case ECONNRESET:
	case ECONNABORTED:
	case ECONNREFUSED:
		return may_break;
	case EHOSTUNREACH:
		return (is_net && !j->sc->is_only_cables) || j->is_doomed;
	case EACCES:
		return j->sc->is_disturbed;
	case EIO:
		return fired & (SIM_FIRED_IO | SIM_FIRED_CHANGE);
	case ENOSPC:
		return fired & SIM_FIRED_SPACE;
	case ESTALE:
		return fired & SIM_FIRED_CHANGE;
	case EBADMSG:
		return fired & SIM_FIRED_FLIP;
	case EEXIST:
		/* Or its own first try was heard to fail, and had not. */
		return j->is_put && !j->opts.may_replace &&
		       (strcmp(j->path, SHARED_NAME) == 0 || j->tree_old || j->failed > 0);
	case ENOENT:
		return j->is_member || j->sc->is_disturbed || j->is_missing ||
		       (!j->source && !j->is_tree);
	default:
		return false;
	}
}

/* Whether some put may have left this content under that name. */
static bool may_be_there(const struct scenario *sc, const struct sim_node *n, const char *path,
			 const struct sim_blob *blob)
{
	for (unsigned i = 0; i < sc->job_count; i++) {
		const struct job *j = &sc->jobs[i];

		if (j->to != n || strcmp(j->path, path) != 0 || !j->source || j->is_missing)
			continue;
		if (j->is_put && j->result.code != 0 && !is_unsure(j->result.code) &&
		    j->failed == 0)
			continue;
		if (sim_blob_is_same(j->source, blob))
			return true;
	}
	return false;
}

struct visit {
	struct scenario *sc;
	struct sim_node *node;
};

static void check_entry(void *ctx, const char *place, struct sim_blob *blob)
{
	const char *path = sim_group_name(place);
	struct visit *v = ctx;

	/* n3's own; nobody's any more */
	if ((v->sc->is_hostile && path[0] == 'h') || blob->is_torn)
		return;
	if (!may_be_there(v->sc, v->node, path, blob))
		sim_fail(v->sc->sim, "%s holds a file %s of %llu bytes that nobody put there",
			 v->node->name, path, (unsigned long long)blob->size);
}

/* What is under the name when the job is done: an update keeps what only the version before it
 * had. */
static const struct sim_tree *tree_wanted(const struct job *j)
{
	bool is_merged = j->is_put && j->opts.is_update && !j->opts.is_delete;

	return is_merged ? sim_tree_merged(j->sc->sim, j->tree, j->tree_old) : j->tree;
}

/* Whether some job may have left this tree under that name. */
static bool may_tree_be_there(const struct scenario *sc, const struct sim_node *n, const char *path,
			      const struct sim_tree *tree)
{
	for (unsigned i = 0; i < sc->job_count; i++) {
		const struct job *j = &sc->jobs[i];

		if (!j->is_tree || j->to != n || strcmp(j->path, path) != 0)
			continue;
		if (tree == j->tree_old || tree == j->tree_source)
			return true;
		if (j->is_put && !j->opts.is_dry && sim_tree_is_same(tree, tree_wanted(j)))
			return true;
	}
	return false;
}

static void check_tree(void *ctx, const char *place, struct sim_tree *tree)
{
	const char *path = sim_group_name(place);
	struct visit *v = ctx;

	if (v->sc->is_hostile && path[0] == 'h')	/* n3's own */
		return;
	if (!may_tree_be_there(v->sc, v->node, path, tree))
		sim_fail(v->sc->sim, "%s holds a tree %s of %zu entries that nobody put there",
			 v->node->name, path, tree->count);
}

static struct sim_tree *tree_now(const struct job *j)
{
	return j->is_put ? sim_disk_find_tree(j->to, j->path) : sim_caller_tree(j->from, j->path);
}

static void check_dry(const struct job *j)
{
	const struct fm_tree_count *c = &j->result.tree;

	if (tree_now(j) != j->tree_old)
		sim_fail(j->sc->sim, "job %u was a dry run, and something is another", j->index);
	if (!j->tree_old &&
	    (c->wanted_files != j->tree->files || c->wanted_bytes != j->tree->bytes))
		sim_fail(j->sc->sim,
			 "job %u: a dry run says %llu files, %llu bytes; in truth %u, %llu",
			 j->index, (unsigned long long)c->wanted_files,
			 (unsigned long long)c->wanted_bytes, j->tree->files,
			 (unsigned long long)j->tree->bytes);
}

static void check_whole_tree(const struct job *j)
{
	const struct fm_job_result *r = &j->result;
	const struct fm_tree_count *c = &r->tree;
	const struct sim_tree *want = j->tree, *got = tree_now(j);

	if (!r->is_tree || r->crc != 0)
		sim_fail(j->sc->sim, "job %u: the result is not that of a tree", j->index);
	if (j->opts.is_dry) {
		check_dry(j);
		return;
	}
	if (!got || !sim_tree_is_same(got, tree_wanted(j)))
		sim_fail(j->sc->sim, "job %u succeeded and the tree is not its source", j->index);
	if (c->files != want->files || c->dirs != want->dirs || c->links != want->links ||
	    c->hard_links != want->hards || c->bytes != want->bytes || r->size != want->bytes)
		sim_fail(j->sc->sim,
			 "job %u: the result counts %llu files, %llu dirs, %llu links, %llu hard "
			 "links, %llu bytes",
			 j->index, (unsigned long long)c->files, (unsigned long long)c->dirs,
			 (unsigned long long)c->links, (unsigned long long)c->hard_links,
			 (unsigned long long)c->bytes);
}

static void check_failed_tree(const struct job *j)
{
	const struct sim_tree *got = tree_now(j);

	if (got && got != j->tree_old && !is_unsure(j->result.code) && j->failed == 0)
		sim_fail(j->sc->sim, "job %u failed and left a tree", j->index);
}

static void check_content(struct job *j, const struct sim_blob *got)
{
	struct sim *s = j->sc->sim;
	const struct fm_job_result *r = &j->result;

	if (!got)
		sim_fail(s, "job %u succeeded and there is no file", j->index);
	if (j->source && !sim_blob_is_same(got, j->source))
		sim_fail(s, "job %u succeeded and the file is not its source", j->index);
	if (r->crc != got->crc || r->size != got->size)
		sim_fail(s, "job %u: CRC32C %08x, %llu bytes; in truth %08x, %llu", j->index,
			 r->crc, (unsigned long long)r->size, got->crc,
			 (unsigned long long)got->size);
	if (r->data_bytes > r->size || !r->is_checked)
		sim_fail(s, "job %u: %llu bytes of data in %llu", j->index,
			 (unsigned long long)r->data_bytes, (unsigned long long)r->size);
	if (j->source && (got->attr.mode != j->source->attr.mode ||
			  got->attr.mtime_ns != j->source->attr.mtime_ns))
		sim_fail(s, "job %u: mode or time are not the source's", j->index);
}

/* Who gets a tree hears of its end when what came is kept, or later than that takes: a disk that
 * hangs cannot say. */
static bool has_hung(const struct job *j)
{
	return j->is_tree && !j->is_put && sim_what_fired(j->sc->sim) & SIM_FIRED_HANG;
}

/*
 * Rates are kept over the whole, with 50 ms of it in hand and a chunk on the way; cancelling and
 * timeouts act at once. The engine gives up what has not moved for minutes, which here, where every
 * disk answers, is always a wake-up that was lost.
 */
static void check_times(const struct job *j)
{
	const struct fm_job_result *r = &j->result;
	uint64_t rate = j->opts.rate_bytes, allowed = rate / 20 + 2 * 16384,
		 second = SIM_S + 100 * SIM_MS;
	uint64_t moved = r->data_bytes - r->bytes_resumed;
	uint64_t keep = has_hung(j) ? 6 * SIM_S : 0, until_ns,
		 hung_ns = sim_disk_hung(j->sc->sim, &until_ns);

	if (r->code == 0 && rate && moved > allowed &&
	    r->elapsed_ns / 1000 < (moved - allowed) * 1000000 / rate)
		sim_fail(j->sc->sim, "job %u: %llu bytes in %llu ns, faster than its limit of %llu",
			 j->index, (unsigned long long)moved, (unsigned long long)r->elapsed_ns,
			 (unsigned long long)rate);
	if (r->elapsed_ns > PATIENCE_NS + hung_ns && !j->is_unsafe)
		sim_fail(j->sc->sim, "job %u took %llu ms: %d (%s)", j->index,
			 (unsigned long long)r->elapsed_ns / 1000000, r->code, r->err.text);
	if (j->cancel_ns && j->done_ns > j->cancel_ns + 50 * SIM_MS + keep)
		sim_fail(j->sc->sim, "job %u: cancelled, and done %llu ns later", j->index,
			 (unsigned long long)(j->done_ns - j->cancel_ns));
	if (j->opts.timeout_ns && r->elapsed_ns > j->opts.timeout_ns + second + keep)
		sim_fail(j->sc->sim, "job %u: done %llu ns after its deadline", j->index,
			 (unsigned long long)(r->elapsed_ns - j->opts.timeout_ns));
}

/*
 * Without faults nothing waits for a timeout or for luck: a job takes as long as all jobs' blocks
 * one after the other, and a second for memory to be handed around. (In the first seconds
 * connections are still being made; limited jobs take what they are given.)
 */
static void check_pace(const struct job *j)
{
	const struct scenario *sc = j->sc;
	uint64_t blocks = 20, bound_ns;

	for (unsigned i = 0; i < sc->job_count; i++) {
		blocks += sc->jobs[i].source ? sc->jobs[i].source->size / 4096 + 1 : 0;
		if (sc->jobs[i].is_tree)
			blocks += sc->jobs[i].tree->bytes / 2048 + 2 * sc->jobs[i].tree->count +
				  20 * sc->jobs[i].tree->larges;
		if (sc->jobs[i].opts.rate_bytes)
			return;
	}
	for (unsigned i = 0; i < sc->honest; i++)
		if (sc->engine_opts[i].rate_bytes)
			return;
	bound_ns = SIM_S + 4 * blocks * (sc->opts.net_ns + sc->opts.disk_ns);
	if (j->start_ns > 7 * SIM_S && j->result.code == 0 && j->result.elapsed_ns > bound_ns)
		sim_fail(sc->sim, "job %u took %llu us, and nothing was wrong", j->index,
			 (unsigned long long)j->result.elapsed_ns / 1000);
}

/* It was asked for without a sync, and then there was a power cut. */
static bool is_lost(const struct job *j)
{
	const struct sim_node *at = j->is_put ? j->to : j->from;

	return !j->result.is_durable && sim_disk_has_lost(at, j->path, !j->is_put);
}

static void check_job(struct job *j)
{
	struct scenario *sc = j->sc;
	bool is_shared = strcmp(j->path, SHARED_NAME) == 0;

	if (j->done != 1)
		sim_fail(sc->sim, "job %u was done %u times", j->index, j->done);
	check_times(j);
	if (j->is_unsafe) {
		if (j->result.code == 0 && !j->is_put && !j->is_tree)
			check_content(j, j->sunk);
		return;
	}
	if (sc->is_calm && !sc->is_reloaded)
		check_pace(j);
	if (j->result.code != 0) {
		if (!has_cause(j) || (j->result.code == -EHOSTDOWN && !j->result.err.text[0]))
			sim_fail(sc->sim, "job %u failed without a cause: %d (%s)", j->index,
				 j->result.code, j->result.err.text);
		if (j->is_tree && !j->is_member)
			check_failed_tree(j);
		if (j->sunk && !is_unsure(j->result.code))
			sim_fail(sc->sim, "job %u failed and left a file", j->index);
		return;
	}
	/* a file may be nothing but holes where it stands */
	if (j->caller.never_ends && j->caller.is_stream)
		sim_fail(sc->sim, "job %u: a stream that stands still was moved", j->index);
	if (j->result.is_durable != (j->opts.durability != FM_DURABILITY_MEMORY))
		sim_fail(sc->sim, "job %u is%s durable", j->index,
			 j->result.is_durable ? "" : " not");
	if (is_lost(j) || j->is_member)		/* of the latter: scenario_check_group() */
		return;
	if (j->is_tree)
		check_whole_tree(j);
	else if (!j->is_put)
		check_content(j, j->sunk);
	else if (!is_shared)
		check_content(j, sim_disk_find(j->to, j->path));
	else if (!sim_disk_find(j->to, j->path))
		sim_fail(sc->sim, "job %u succeeded and there is no file", j->index);
}

/* Every payload that was damaged was found out, once, by the job that it belonged to. */
static void check_flips(const struct scenario *sc, unsigned flips)
{
	unsigned found = 0;

	for (unsigned i = 0; i < sc->job_count; i++) {
		if (sc->jobs[i].result.code != 0 || sc->jobs[i].failed > 0)
			return;		/* what came after its end was found by nobody */
		found += sc->jobs[i].result.corrupt_chunks;
	}
	if (sc->is_only_flips && found != flips)
		sim_fail(sc->sim, "%u payloads were damaged, %u were found", flips, found);
}

void scenario_check_done(struct scenario *sc)
{
	for (unsigned i = 0; i < sc->job_count; i++)
		if (sc->jobs[i].done)
			check_job(&sc->jobs[i]);
	scenario_check_group(sc);
}

void scenario_check_jobs(struct scenario *sc)
{
	struct sim_net_counts net;

	for (unsigned i = 0; i < sc->job_count; i++)
		check_job(&sc->jobs[i]);
	scenario_check_group(sc);
	for (unsigned i = 0; i < sc->honest; i++) {
		struct visit v = { sc, sim_node(sc->sim, i) };

		sim_disk_each(v.node, check_entry, &v);
		sim_disk_each_tree(v.node, check_tree, &v);
	}
	for (unsigned i = 0; i < sc->request_count; i++)
		if (sc->requests[i].done != 1)
			sim_fail(sc->sim, "request %u was done %u times", i, sc->requests[i].done);
	sim_net_counts(sc->sim, &net);
	if (net.overruns && !sc->is_hostile)
		sim_fail(sc->sim, "%u writes to memory that was not lent", net.overruns);
	check_flips(sc, net.flips);
}

static void see_node(void *ctx, const struct fm_node_status *st)
{
	struct scenario *sc = ctx;

	sc->status = *st;
}

static void see_store(void *ctx, const struct fm_store *st)
{
	(void)ctx;
	assert(strcmp(st->name, "s") == 0);
}

static void see_peer(void *ctx, const struct fm_peer_status *st)
{
	struct scenario *sc = ctx;

	if (sc->is_hostile && strcmp(st->name, "n3") == 0)
		return;
	if (!st->is_connected && !sc->is_out_of_memory)
		sim_fail(sc->sim, "%s is not connected, long after the last fault: %s", st->name,
			 st->last_error);
}

static void see_rail(void *ctx, const struct fm_rail_status *st)
{
	struct scenario *sc = ctx;

	if (st->lane >= sc->opts.lanes)
		sim_fail(sc->sim, "a connection on lane %u", st->lane);
}

static void see_job(void *ctx, const struct fm_job_status *st)
{
	struct scenario *sc = ctx;

	sim_fail(sc->sim, "a job for %s still runs when all are done: %s", st->peer,
		 st->progress.state);
}

void scenario_check_quiet(struct scenario *sc)
{
	static const struct fm_status_visitor visitor = { see_node, see_store, see_peer, see_rail };
	struct sim_net_counts net;
	struct sim_disk_counts disk;

	for (unsigned i = 0; i < sc->honest; i++) {
		struct sim_node *n = sim_node(sc->sim, i);

		fm_engine_status(n->engine, &visitor, sc);
		fm_job_visit(n->engine, see_job, sc);
		if (sc->status.slabs_free != sc->status.slabs)
			sim_fail(sc->sim, "%s: %llu of %llu slabs are free", n->name,
				 (unsigned long long)sc->status.slabs_free,
				 (unsigned long long)sc->status.slabs);
	}
	sim_net_counts(sc->sim, &net);
	sim_disk_counts(sc->sim, &disk);
	if (net.regions || net.sends || disk.files || disk.ios)
		sim_fail(sc->sim,
			 "quiet, but %u regions lent, %u sends, %u files, %u reads and writes",
			 net.regions, net.sends, disk.files, disk.ios);
}

/* ---- what is refused at once ---- */

static void never_done(void *ctx, const struct fm_job_result *result)
{
	(void)result;
	sim_fail(ctx, "a job that was refused is done");
}

static void never_answered(void *ctx, const struct fm_request_result *result)
{
	(void)result;
	sim_fail(ctx, "a request that was refused is answered");
}

static void refuse_job(struct sim_node *n, const struct fm_job_opts *like, int want)
{
	static const struct fm_job_events events = { .done = never_done };
	struct sim_caller_opts caller = { .is_stream = false };
	struct fm_job_opts o = *like;
	struct fm_err err = { 0 };
	struct fm_job *job;
	struct sim_blob *result;
	int ret;

	o.file = sim_caller_sink(n, &caller, &result);
	ret = fm_job_start(n->engine, &o, &events, n->sim, &job, &err);
	if (ret != want || err.code != want || !err.text[0])
		sim_fail(n->sim, "a job that cannot be: %d (%s), not %d", ret, err.text, want);
}

static void refuse_request(struct sim_node *n, const struct fm_job_opts *like, int want)
{
	struct fm_request_opts o = {
		.verb = FM_VERB_LIST,
		.node = like->node,
		.store = like->store,
		.path = like->path,
		.path_len = like->path_len,
		.after = "",
	};
	struct fm_err err = { 0 };
	int ret = fm_request_start(n->engine, &o, never_answered, n->sim, &err);

	if (ret != want || err.code != want || !err.text[0])
		sim_fail(n->sim, "a request that cannot be: %d (%s), not %d", ret, err.text, want);
}

void scenario_check_refusals(struct scenario *sc, struct sim_node *n)
{
	static char long_path[FM_PATH_LEN_MAX + 2];
	const char *peer = sim_node(sc->sim, n->index == 0)->name;
	const struct {
		struct fm_job_opts opts;
		int want;
	} cases[] = {
		{{.node = "nobody", .store = "s", .path = "f", .path_len = 1}, -ENOENT},
		{{.node = peer, .store = "a/b", .path = "f", .path_len = 1}, -EINVAL},
		{{.node = peer, .store = "", .path = "f", .path_len = 1}, -EINVAL},
		{{.node = peer, .store = long_path, .path = "f", .path_len = 1}, -EINVAL},
		{{.node = peer, .store = "s", .path = "a\0b", .path_len = 3}, -EINVAL},
		{{.node = peer, .store = "s", .path = long_path, .path_len = FM_PATH_LEN_MAX + 1},
		 -ENAMETOOLONG},
	};

	memset(long_path, 'x', FM_PATH_LEN_MAX + 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		refuse_job(n, &cases[i].opts, cases[i].want);
		refuse_request(n, &cases[i].opts, cases[i].want);
	}
}
