/* SPDX-License-Identifier: MIT */
/* job - see job.h. */
#include "mover/services/transfer/job.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/base/exit_code.h"
#include "mover/base/fault.h"
#include "mover/base/holder.h"
#include "mover/base/log.h"
#include "mover/base/plain.h"
#include "mover/base/words.h"
#include "mover/data/layout.h"
#include "mover/services/target.h"
#include "mover/store/held_file.h"
#include "mover/store/tree_file.h"
#include "mover/tree/pack.h"

/* Waiting for a session, then for a connection: cables that come and go do not make it longer. */
#define CONNECT_NS (6 * FM_NS_PER_S)
#define SILENT_NS (5 * FM_NS_PER_S)	/* without an answer to what each second asks */
#define STALL_NS (300 * FM_NS_PER_S)	/* no byte moved: longer than any disk that recovers */
/* A chunk is what a limit lets go in so long, or who waits for the next one seems to stand still.
 * The node's limit is shared by many. */
#define LIMIT_CHUNK_MS 10000u
#define NODE_LIMIT_CHUNK_MS 250u
/* A pack has room for the name and the attributes of any file. At the least limit that `fmove`
 * takes, 1 kB/s, it goes in some two minutes. */
#define PACK_MIN (128u << 10)
_Static_assert(PACK_MIN > FM_TREE_XATTRS_MAX + FM_PATH_LEN_MAX + FM_PACK_HEAD + FM_PACK_ENTRY_HEAD,
	       "any entry fits");
#define COMMIT_NS (3600 * FM_NS_PER_S)	/* syncing what a slow disk has in its cache */
/* for a caller's file to be closed; a client that cancelled waits longer */
#define KEEP_NS (5 * FM_NS_PER_S)
#define LOG_WHAT_MAX (3 * FM_WIRE_NAME_MAX + sizeof("put of : for "))
#define ABORT_NS (2 * FM_NS_PER_S)	/* the reason follows on the control connection */

struct fm_jobs *fm_jobs_of(const struct fm_engine *e)
{
	return fm_service_state(e, &fm_transfer_service);
}

/* ---- in the log ---- */

/* A peer may ask for anything: what no store can be called might read like more of the line. */
static const char *store_name(const struct fm_job *j)
{
	static const char may[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	return j->store[strspn(j->store, may)] ? "?" : j->store;
}

/* What the job does, as both nodes call it: "put of n2:store for n1". */
static const char *log_what(const struct fm_job *j, char out[static LOG_WHAT_MAX])
{
	const char *here = j->engine->name;

	(void)snprintf(out, LOG_WHAT_MAX, "%s of %s:%s for %s",
		       j->is_source == j->is_ours ? "put" : "get", j->is_ours ? j->peer_name : here,
		       store_name(j), j->is_ours ? here : j->peer_name);	/* fits */
	return out;
}

/*
 * What a peer asks for without a name counts as anything else that it causes. For whom a job of
 * this node is that a peer asked for is that peer's word: all of it counts on the peer.
 */
static struct fm_log_limit *log_limit(const struct fm_job *j)
{
	struct fm_log_users *own = &fm_jobs_of(j->engine)->lines;
	struct fm_peer *peer = j->session ? j->session->peer : NULL;

	own->most = FM_LOG_USER_LINES;
	if (j->asked_by[0])
		return fm_engine_job_lines(j->engine, j->asked_by);
	if (j->is_ours && *j->name)
		return fm_log_of_user(own, j->who.uid, fm_loop_now(j->engine->env.loop));
	if (!peer)
		return &j->engine->lines;
	return *j->name ? &peer->job_lines : &peer->lines;
}

/* What has no name is no job, but what one service asks of another: its beginning is not logged. */
static void log_begin(const struct fm_job *j)
{
	char what[LOG_WHAT_MAX];

	if (*j->name)
		fm_log_job(log_limit(j), fm_engine_now(j->engine), FM_LOG_INFO, j->name,
			   "%s begins: %s", log_what(j, what), j->path);
}

static void log_end(const struct fm_job *j)
{
	const struct fm_job_result *r = &j->result;
	char what[LOG_WHAT_MAX];

	if (r->code && (*j->name || !j->is_ours))
		fm_log_job(log_limit(j), fm_engine_now(j->engine), FM_LOG_INFO, j->name,
			   "%s ended: %s", log_what(j, what), r->err.text);
	else if (*j->name)
		fm_log_job(log_limit(j), fm_engine_now(j->engine), FM_LOG_INFO, j->name,
			   "%s is done: %llu bytes moved in %llu ms", log_what(j, what),
			   (unsigned long long)r->data_bytes,
			   (unsigned long long)(r->elapsed_ns / FM_NS_PER_MS));
}

/* ---- the end ---- */

static void free_run(struct fm_task *task)
{
	struct fm_job *j = fm_container_of(task, struct fm_job, free_task);
	struct fm_engine *e = j->engine;

	assert(!j->is_working && !j->sink.is_rereading && !j->x && (!j->file || j->file->is_ours));
	if (j->file)
		fm_file_close(j->file);
	if (j->store_ref)
		fm_engine_store_put(j->store_ref);
	fm_list_del(&j->at);
	if (j->parent)
		fm_job_sub_freed(j);
	else
		fm_jobs_of(e)->count--;
	fm_jobs_of(e)->tree_count -= j->is_tree;
	fm_share_give_all(&j->place);
	fm_share_give_all(&j->tree.place);
	fm_have_free(&j->have);
	fm_budget_free(j->sink.kept);
	fm_ranges_free(&j->tree.answered);
	if (j->events.gone)
		j->events.gone(j->gone_ctx);
	free(j->tree.excludes);
	fm_budget_free(j->ranges);
	free(j->large);
	fm_budget_free(j->sink.log);
	fm_budget_free(j->sink.last_log);
	fm_budget_free(j->tree.names.page);
	free(j->path);
	fm_budget_free(j);
	fm_engine_check_stopped(e);
}

/* Whether a sync of the sink failed. Then nothing that came is kept, whatever the job ended for. */
static bool has_lost(const struct fm_job *j)
{
	if (j->parent && has_lost(j->parent))
		return true;
	return !j->is_source && j->file && fm_file_sync_error(j->file) < 0;
}

/* Keeps what came for the next try, or removes it. */
static void leave(struct fm_job *j)
{
	bool is_kept = j->is_kept && j->file->ops->keep && !has_lost(j);

	if (is_kept && j->sink.has_begun && j->sink.last_log_count > 0)
		/* then it is sent again */
		(void)j->file->ops->log(j->file, j->sink.last_log, j->sink.last_log_count,
					&j->work_err);
	is_kept = is_kept && !has_lost(j);
	if (is_kept)
		j->file->ops->keep(j->file);
	else
		j->file->ops->discard(j->file);
	j->work_ret = is_kept ? 0 : -ENODATA;
}

static void clean_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	if (!j->is_source && !j->sink.is_published)
		leave(j);
	fm_file_close(j->file);
}

static void clean_done(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	j->is_working = false;
	j->file = NULL;
	if (j->work_ret == -ENODATA)
		j->result.is_partial_kept = false;
	fm_job_clean(j);
}

static void report(struct fm_job *j)
{
	if (!j->report_task.is_posted)
		fm_loop_post(j->engine->env.loop, &j->report_task);
}

/*
 * Whether the end is reported only after the file is closed, because its caller then looks at it:
 * at what the journal says is kept, or by a descriptor of its own, which has our flags until then;
 * or has other uses for the memory that it came to. A disk that hangs must not delay it for long.
 */
static bool is_reported_late(const struct fm_job *j)
{
	if (j->file && (j->file->has_other_flags || j->file->place))
		return true;
	return !j->is_source && j->result.code && j->is_kept && j->sink.has_begun &&
	       j->file->ops->keep;
}

void fm_job_clean(struct fm_job *j)
{
	assert(j->state == FM_JOB_ENDED);
	if (j->is_working || j->sink.is_rereading || j->x || j->report == FM_REPORT_DUE ||
	    !fm_list_is_empty(&j->tree.subs))
		return;
	if (j->file && !j->file->is_ours)
		fm_job_work(j, clean_run, clean_done);
	else if (j->report == FM_REPORT_LATE)
		report(j);
	else
		/* later: lists of jobs are being walked */
		fm_loop_post(j->engine->env.loop, &j->free_task);
}

bool fm_job_is_over(struct fm_job *j)
{
	j->is_working = false;
	if (j->state != FM_JOB_ENDED)
		return false;
	fm_job_clean(j);
	return true;
}

bool fm_job_goes_on(struct fm_job *j)
{
	int ret = j->work_ret;	/* the end may begin with more work, on another thread */

	if (fm_job_is_over(j))
		return false;
	if (ret >= 0)
		return true;
	j->work_err.code = ret;
	fm_job_fail(j, &j->work_err);
	return false;
}

/*
 * Whether the next try will probably find something at the far end. It is a guess: only the sink
 * knows what its journal says.
 */
static bool is_kept_there(const struct fm_job *j, const struct fm_moved *moved)
{
	bool is_known = j->is_tree || j->attr.ino != 0 || j->attr.ctime_ns != 0;
	bool is_long = fm_engine_now(j->engine) > j->started_ns + FM_JOB_LOG_NS;

	if (j->result.code == 0 || !j->is_kept || j->tree.is_dry || !is_known ||
	    j->engine->o.is_unchecked)
		return false;
	return moved->resumed > 0 || (moved->bytes > 0 && is_long);
}

/*
 * The bytes that are at the target, whichever try moved them. Of a tree, a source counts what the
 * far end did not ask for, a sink what it found.
 */
static uint64_t bytes_reached(const struct fm_job *j)
{
	const struct fm_job_result *r = &j->result;
	struct fm_tree_count count = { 0 };
	uint64_t there, in_large;

	if (j->is_tree)
		fm_job_tree_count(j, &count);
	there = count.resumed_bytes + count.reused_bytes;
	/* A sink found the beginnings of large files, too, which these know of. */
	in_large = j->is_source ? 0 : r->bytes_resumed;
	there = r->data_bytes + (there > in_large ? there - in_large : 0);
	return there < INT64_MAX ? there : INT64_MAX;	/* clients may say anything */
}

static void fill_result(struct fm_job *j)
{
	struct fm_job_result *r = &j->result;
	struct fm_moved all = j->tree.sums, own = {0};

	if (j->x)
		fm_link_moved(j->x, &own);
	fm_moved_add(&all, &own);
	r->elapsed_ns = fm_engine_now(j->engine) - j->started_ns;
	r->attr = j->attr;
	r->is_durable = j->is_durable && r->code == 0;
	r->is_checked = !j->engine->o.is_unchecked;
	r->is_tree = j->is_tree;
	r->is_unmeasured = !j->is_source && r->code == -ENOSPC && j->file && j->file->tree &&
			   j->file->tree->is_unmeasured;
	r->data_bytes = all.bytes;
	memcpy(r->kind_bytes, all.kind_bytes, sizeof(r->kind_bytes));
	if (j->only.conns > 0)
		r->conns = all.carriers;
	memcpy(r->encryption_bytes, all.encryption_bytes, sizeof(r->encryption_bytes));
	r->chunks = all.chunks;
	r->bytes_resent = all.resent;
	r->bytes_direct = all.direct;
	r->bytes_resumed = all.resumed;
	r->bytes_damaged = all.damaged;
	r->corrupt_chunks = all.corrupt;
	if (!j->x)
		return;
	if (r->kind_bytes[r->kind] == 0 && r->kind_bytes[!r->kind] > 0)
		r->kind = !r->kind;	/* chosen last, and it came too late to carry anything */
	if (j->is_source)
		r->is_partial_kept = is_kept_there(j, &own);
	r->bytes_reached = bytes_reached(j);
}

static void add_moved(struct fm_transfer_total *to, const struct fm_moved *moved)
{
	for (unsigned i = 0; i < FM_KIND_COUNT; i++)
		to->kind_bytes[i] += moved->kind_bytes[i];
	to->chunks += moved->chunks;
	to->bytes_resent += moved->resent;
	to->bytes_resumed += moved->resumed;
	to->corrupt_chunks += moved->corrupt;
}

/* From here on it is one of those that are over. */
static void count_end(struct fm_job *j)
{
	struct fm_transfer_total *to = &fm_jobs_of(j->engine)->ended.way[j->is_source];
	const struct fm_job_result *r = &j->result;
	struct fm_moved moved = {.chunks = r->chunks,
				 .resent = r->bytes_resent,
				 .resumed = r->bytes_resumed,
				 .corrupt = r->corrupt_chunks};

	memcpy(moved.kind_bytes, r->kind_bytes, sizeof(moved.kind_bytes));
	add_moved(to, &moved);
	fm_histogram_add(r->code ? &to->failed : &to->done,
			 fm_engine_now(j->engine) - j->started_ns);
}

static void report_run(struct fm_task *task)
{
	struct fm_job *j = fm_container_of(task, struct fm_job, report_task);

	j->report = FM_REPORT_TOLD;
	j->events.done(j->ctx, &j->result);
	fm_job_clean(j);
}

static unsigned abort_full(const struct fm_err *why)
{
	return why->is_full && why->code == -EBUSY ? FM_WIRE_ABORT_FULL : 0;
}

static void tell_far_end(struct fm_job *j)
{
	struct fm_wire_msg m = { .type = FM_WIRE_ABORT };

	if (!j->session || j->is_far_end_told || j->result.code == 0)
		return;
	m.abort.flags =
		(uint16_t)((j->is_kept ? FM_WIRE_ABORT_KEEP : 0) | abort_full(&j->result.err));
	m.abort.xfer = j->id;
	m.abort.code = (uint32_t)-fm_err_told(&j->result.err);
	m.abort.text = fm_wire_str(j->result.err.text);
	fm_session_send(j->session, &m);
}

/*
 * Frees the transfer. Writes that the journal does not know yet are taken out first, and
 * clean_run() logs them if the file is kept.
 */
static void free_xfer(struct fm_job *j)
{
	if (j->sink.has_begun && j->is_kept)
		j->sink.last_log = fm_xfer_steal_log(j->x, &j->sink.last_log_count);
	fm_xfer_free(j->x);
	j->x = NULL;
}

void fm_job_end(struct fm_job *j, int code, const char *fmt, ...)
{
	char text[FM_ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);	/* a cut text is still a text */
	va_end(ap);
	fm_job_end_kept(j, fm_errno_keeps_partial(code), code, text);
}

void fm_job_fail(struct fm_job *j, const struct fm_err *why)
{
	struct fm_err err = *why;

	if (j->state <= FM_JOB_OPENING)
		(void)fm_err_not_begun(&err);
	if (j->state != FM_JOB_ENDED) {
		j->result.err.is_full = err.is_full;
		j->result.err.is_rule = err.is_rule;
	}
	fm_job_end(j, err.code, "%s", err.text);
}

void fm_job_end_kept(struct fm_job *j, bool is_kept, int code, const char *text)
{
	if (j->state == FM_JOB_ENDED)
		return;
	is_kept = is_kept && !has_lost(j);
	j->state = FM_JOB_ENDED;
	j->is_kept = is_kept;
	j->result.code = code;
	/* here: if its journal says anything */
	j->result.is_partial_kept = is_kept && code && !j->is_source;
	j->result.err.code = code;
	(void)snprintf(j->result.err.text, sizeof(j->result.err.text), "%s", text);
	if (j->is_tree)
		fm_job_tree_end_subs(j);
	if (j->session)
		fill_result(j);
	if (!j->parent)
		count_end(j);
	if (!j->parent)
		log_end(j);
	tell_far_end(j);
	if (j->is_drained)
		free_xfer(j);
	if (j->x && !j->x->is_removed) {
		if (fm_link_remove(j->x->link, j->x) && j->session)
			/* reads that wait for ever are given up */
			fm_session_wake(j->session, UINT_MAX, UINT64_MAX);
	}
	j->session = NULL;
	if (j->tree.is_listening && code)
		fm_tree_file_stop(j->file);
	if (j->is_ours && is_reported_late(j)) {
		j->report = FM_REPORT_LATE;
		j->report_by_ns = fm_engine_now(j->engine) + KEEP_NS;
	} else if (j->is_ours) {
		report(j);
	}
	if (j->parent)
		fm_job_sub_ended(j);
	fm_job_clean(j);
}

/* ---- the middle ---- */

struct fm_holder *fm_job_holder(const struct fm_job *j)
{
	const struct fm_file *file = j->parent ? j->parent->file : j->file;

	return file ? file->holder : NULL;
}

/*
 * The worker that runs the blocking calls of a job. A caller's files belong to the holder of that
 * user. A running tree has threads of its own, because its calls may hang. They also close its
 * large files that are over, which come one after the other. The end of a tree frees those threads,
 * so it must run on another worker.
 */
static struct fm_worker *worker_of(const struct fm_job *j)
{
	const struct fm_job *tree = j->parent ? j->parent : j;
	struct fm_holder *holder = fm_job_holder(j);

	if (tree->state != FM_JOB_ENDED && tree->tree.is_listening)
		return fm_tree_file_worker(tree->file);
	return holder ? fm_holder_worker(holder) : j->engine->env.worker;
}

/*
 * Whom the job counts for: our user, the peer whose it is, or the one that had it begun here in the
 * name of a user. A large file of a tree counts as the tree does.
 */
static struct fm_share_id whose(const struct fm_job *j)
{
	const struct fm_job *tree = j->parent ? j->parent : j;

	if (tree->asked_by[0])
		return fm_share_name(tree->asked_by);
	return tree->is_ours ? fm_share_user(tree->who.uid) : fm_share_name(j->peer_name);
}

void fm_job_work(struct fm_job *j, void (*run)(struct fm_work *work),
		 void (*done)(struct fm_work *work))
{
	assert(!j->is_working);
	j->is_working = true;
	j->work_attr = j->attr;
	j->work.run = run;
	j->work.done = done;
	fm_job_submit(j, &j->work);
}

/*
 * The store: a large file is in its tree's. Not the user database, which nothing here asks: whether
 * a user of this node may is looked at before there is a job, and of a peer's users nobody knows.
 */
static const void *may_await(const struct fm_job *j)
{
	const struct fm_store_ref *ref = (j->parent ? j->parent : j)->store_ref;

	return ref ? fm_store_may_await(ref->store) : NULL;
}

void fm_job_submit(struct fm_job *j, struct fm_work *work)
{
	work->who = whose(j);
	work->user = j->who.uid;
	work->job = j->name;
	work->may_await = may_await(j);
	fm_worker_submit(worker_of(j), work, j->engine->env.loop);
}

void fm_job_set_note(struct fm_job *j, const char *text, size_t len)
{
	char now[sizeof(j->result.note)], *said = j->result.note;
	size_t have;

	(void)fm_plain(text, len, now, sizeof(now));
	if (strstr(said, now))
		return;
	have = strlen(now);
	/* else it is said again, with more */
	if (!strstr(now, said) && have + 2 < sizeof(now)) {
		memcpy(now + have, "; ", 2);
		/* cut: the last matters more */
		(void)fm_plain(said, strlen(said), now + have + 2, sizeof(now) - have - 2);
	}
	memcpy(said, now, sizeof(now));
}

static struct fm_job *job_of(struct fm_task *task, size_t offset)
{
	struct fm_xfer *x = (struct fm_xfer *)(void *)((char *)task - offset);

	return fm_container_of(x->o.owner, struct fm_job, at);
}

static void xfer_progressed(struct fm_task *task)
{
	struct fm_job *j = job_of(task, offsetof(struct fm_xfer, notify));
	struct fm_err err;

	if (j->state == FM_JOB_ENDED || !j->session)
		return;
	if (fm_link_error(j->x, &err) == -ECONNABORTED) {
		j->source.is_given_up = true;
		/* its ABORT with the reason is on the way */
		j->deadline_ns = fm_engine_now(j->engine) + ABORT_NS;
	} else if (err.code == -ECONNRESET)
		fm_job_end(j, err.code, "%s: %s", j->peer_name, err.text);
	else if (err.code)
		fm_job_end(j, err.code, "%s", err.text);
	else if (j->is_source)
		fm_job_source_progressed(j);
	else if (fm_job_is_beside(j))
		fm_job_sink_progressed(j);
}

static void xfer_drained(struct fm_task *task)
{
	struct fm_job *j = job_of(task, offsetof(struct fm_xfer, ended));

	/* `notify` may still be on its way; it was posted before, so it runs before a task posted
	 * now. */
	if (j->x->notify.is_posted) {
		fm_loop_post(j->engine->env.loop, task);
		return;
	}
	j->is_drained = true;
	if (j->state == FM_JOB_ENDED) {
		free_xfer(j);
		fm_job_clean(j);
	} else if (!j->is_working) {	/* else the journal is being written: its end goes on */
		fm_job_sink_drained(j);
	}
}

bool fm_job_is_beside(const struct fm_job *j)
{
	return j->file->may_stand;
}

static void limit_to(struct fm_job *j, uint32_t most)
{
	if (j->chunk > most)
		j->chunk = most;
}

/* Its chunks are no larger than what that rate lets go in so long, as long as that may be. */
static void limit_to_rate(struct fm_job *j, uint64_t bytes_per_s, uint64_t ms)
{
	const uint64_t fast = 4 * (uint64_t)FM_WIRE_CHUNK_MAX;
	uint64_t bytes = (bytes_per_s < fast ? bytes_per_s : fast) * ms / 1000;
	uint32_t chunk = j->is_tree ? PACK_MIN : FM_WIRE_CHUNK_MIN;

	if (bytes_per_s == 0)
		return;
	while (chunk < FM_WIRE_CHUNK_MAX && 2 * (uint64_t)chunk <= bytes)
		chunk *= 2;	/* it is a power of two */
	limit_to(j, chunk);
}

void fm_job_limit_chunk(struct fm_job *j)
{
	if (fm_job_is_beside(j))
		limit_to(j, FM_JOB_BESIDE_CHUNK_MAX);
	limit_to_rate(j, (j->parent ? j->parent : j)->rate_bytes, LIMIT_CHUNK_MS);
	limit_to_rate(j, j->engine->rate.bytes_per_s, NODE_LIMIT_CHUNK_MS);
}

/*
 * A number for transfers whose files may stand still together, so that they leave slots for others;
 * 0: this one need not. All transfers of a caller have one number, since his disk may hang. So have
 * those that serve one user of a peer, whose get may end at such a disk. Each tree of a store has
 * its own. Files that stand still because somebody wants it, such as pipes, have none: two ends of
 * a pipeline could wait for each other. They are bounded otherwise (fill.h, drain.h).
 */
static uint64_t share_of(const struct fm_job *j)
{
	const uint64_t is_users = UINT64_C(1) << 63, is_peers = UINT64_C(1) << 62;

	if (fm_job_is_beside(j) || j->source.is_windowed)
		return 0;
	if (!(j->parent ? j->parent : j)->is_ours)
		return is_users | is_peers | j->who.uid;
	if (fm_job_holder(j))
		return is_users | j->who.uid;
	return j->is_tree ? j->id + 1 : 0;
}

int fm_job_make_xfer(struct fm_job *j)
{
	struct fm_xfer_opts o = {.id = j->id,
				 .is_source = j->is_source,
				 .file = j->file,
				 .size = j->attr.size,
				 .chunk_bytes = j->chunk,
				 .is_ordered = j->is_ordered,
				 .is_windowed = j->source.is_windowed,
				 .window = j->source.window,
				 .is_read_back =
					 !j->is_source && j->is_readback && j->file->ops->read,
				 .is_logged = !j->is_source && j->file->ops->log && !j->file->tree,
				 .share = j->is_source ? share_of(j) : 0,
				 .who = whose(j),
				 .only = j->only,
				 .rate_bytes = j->rate_bytes,
				 .weight = j->weight,
				 .rate_of = j->parent ? j->parent->x : NULL,
				 .control = j->engine->env.loop,
				 .owner = &j->at,
				 .progressed = xfer_progressed,
				 .drained = xfer_drained};
	struct fm_err err = { 0 };
	int ret;

	if (j->is_source)
		o.kinds = fm_job_choose(j);
	ret = fm_xfer_new(&o, &j->x, &err);
	if (ret < 0) {
		j->x = NULL;
		fm_job_fail(j, &err);
		return ret;
	}
	ret = fm_xfer_set_have(j->x, &j->have);
	if (ret < 0) {
		fm_xfer_abandon(j->x);
		j->x = NULL;
		fm_job_end(j, ret, "what is there of an earlier try does not fit the file");
		return ret;
	}
	ret = fm_link_add(j->session->link, j->x);
	if (ret < 0) {		/* fm_job_find() was asked before; a number comes from the peer */
		fm_xfer_abandon(j->x);
		j->x = NULL;
		fm_job_end(j, ret, "there is a transfer of that number already");
	}
	return ret;
}

unsigned fm_job_kinds(const struct fm_job *j)
{
	const struct fm_session *s = j->session;

	if (j->want != FM_WANT_TCP && fm_session_conns(s, FM_KIND_RDMA, &j->only) > 0)
		return 1u << FM_KIND_RDMA;
	if (j->want != FM_WANT_RDMA && fm_session_conns(s, FM_KIND_TCP, &j->only) > 0)
		return 1u << FM_KIND_TCP;
	return 0;
}

unsigned fm_job_choose(struct fm_job *j)
{
	unsigned kinds = fm_job_kinds(j);
	struct fm_job_result *r = &j->result;

	if (kinds == 0)
		return 0;
	r->kind = kinds == 1u << FM_KIND_RDMA ? FM_KIND_RDMA : FM_KIND_TCP;
	r->conns = fm_session_conns(j->session, r->kind, &j->only);
	r->encryption = fm_session_encryption(j->session, r->kind);
	if (r->kind == FM_KIND_RDMA)
		(void)snprintf(r->why, sizeof(r->why), "%u RDMA connection%s", r->conns,
			       r->conns == 1 ? "" : "s");
	else if (j->want == FM_WANT_TCP)
		(void)snprintf(r->why, sizeof(r->why), "asked for");
	else
		fm_rail_why_not(j->session, FM_KIND_RDMA, r->why, sizeof(r->why));
	return kinds;
}

/*
 * Whether the job still uses this session. A job that has ended keeps it for a moment, to tell the
 * peer.
 */
static bool is_on(const struct fm_job *j, const struct fm_session *s)
{
	return j->session == s && j->state != FM_JOB_ENDED;
}

struct fm_job *fm_job_find(struct fm_session *s, uint64_t id)
{
	fm_list_each(at, next, &fm_jobs_of(s->engine)->list) {
		struct fm_job *j = fm_container_of(at, struct fm_job, at);

		/* Who waits has no number yet. */
		if (is_on(j, s) && j->id == id && j->state != FM_JOB_WAIT)
			return j;
	}
	return NULL;
}

/* ---- the beginning ---- */

struct fm_job *fm_job_new(struct fm_engine *e, const char *path, size_t path_len,
			  struct fm_job *parent)
{
	struct fm_job *j = FM_FAULT("job.new") ? NULL : fm_budget_alloc(sizeof(*j));

	if (!j)
		return NULL;
	j->path = malloc(path_len + 1);
	if (!j->path) {
		fm_budget_free(j);
		return NULL;
	}
	memcpy(j->path, path, path_len);
	j->path[path_len] = '\0';
	j->path_len = path_len;
	j->engine = e;
	j->chunk = e->o.chunk_bytes;
	j->started_ns = fm_engine_now(e);
	j->report_task.run = report_run;
	j->free_task.run = free_run;
	fm_list_init(&j->tree.subs);
	fm_list_init(&j->sub_at);
	fm_list_append(&fm_jobs_of(e)->list, &j->at);
	j->parent = parent;
	if (parent)
		fm_list_append(&parent->tree.subs, &j->sub_at);
	else
		fm_jobs_of(e)->count++;
	return j;
}

int fm_job_make_ranges(struct fm_job *j, size_t count, struct fm_err *err)
{
	j->ranges = FM_FAULT("job.ranges") ? NULL : fm_budget_alloc(count * sizeof(*j->ranges));
	if (!j->ranges)
		return fm_err_set(err, -ENOMEM, "no memory for %zu ranges", count);
	j->range_count = count;
	return 0;
}

void fm_job_refuse(struct fm_session *s, uint64_t id, const struct fm_err *why)
{
	struct fm_wire_msg m = { .type = FM_WIRE_ABORT };

	m.abort.flags = (uint16_t)abort_full(why);
	m.abort.xfer = id;
	m.abort.code = (uint32_t)-fm_err_told(why);
	m.abort.text = fm_wire_str(why->text);
	fm_session_send(s, &m);
}

struct fm_job *fm_job_new_for_peer(struct fm_session *s, uint64_t id, const char *name,
				   const struct fm_wire_str *store, const struct fm_wire_str *path,
				   uint32_t uid, uint32_t gid, bool is_source)
{
	struct fm_share_held place = { 0 };
	struct fm_engine *e = s->engine;
	struct fm_err err = { 0 };
	struct fm_job *j;

	if (!fm_session_is_peers_id(s, id) || fm_job_find(s, id)) {
		fm_session_protocol_error(s, "a transfer number that is not its to use");
		return NULL;
	}
	if (fm_share_take(&fm_jobs_of(e)->peer_places, fm_share_name(s->name), 1, &place, &err) <
	    0) {
		fm_job_refuse(s, id, &err);
		return NULL;
	}
	j = fm_job_new(e, path->at, path->len, NULL);
	if (!j) {
		fm_share_give_all(&place);
		(void)fm_err_set(&err, -ENOMEM, "out of memory");
		fm_job_refuse(s, id, &err);
		return NULL;
	}
	j->place = place;
	j->id = id;
	memcpy(j->name, name, FM_WIRE_JOB_LEN);
	j->session = s;
	j->is_source = is_source;
	j->state = FM_JOB_OPENING;
	j->deadline_ns = j->started_ns + FM_JOB_OPEN_NS;
	(void)snprintf(j->peer_name, sizeof(j->peer_name), "%s", s->name);
	(void)snprintf(j->store, sizeof(j->store), "%.*s", (int)store->len, store->at);
	(void)snprintf(j->who_peer, sizeof(j->who_peer), "%s", s->name);
	j->who = (struct fm_who){ .peer = j->who_peer, .uid = uid, .gid = gid };
	if (fm_target_store(e, store->at, store->len, &j->store_ref, &err) < 0) {
		fm_job_end(j, err.code, "%s", err.text);
		return NULL;
	}
	log_begin(j);
	return j;
}

/*
 * Whether there is time left to wait for a connection, or for the session to move to another line.
 */
static bool may_wait(const struct fm_job *j)
{
	return fm_engine_now(j->engine) <= j->deadline_ns;
}

static bool may_wait_for(const struct fm_job *j, enum fm_kind kind)
{
	return may_wait(j) && fm_rail_may_come(j->session, kind);
}

static void say_why_not(const struct fm_job *j, char *out, size_t len)
{
	enum fm_kind kind = j->want == FM_WANT_RDMA ? FM_KIND_RDMA : FM_KIND_TCP;
	char only[FM_ERR_TEXT_MAX];

	if (j->session->up[kind] == 0 || fm_only_is_any(&j->only))
		fm_rail_why_not(j->session, kind, out, len);
	else
		(void)snprintf(out, len, "there are no %s among its %u of %s",
			       fm_only_text(&j->only, only, sizeof(only)), j->session->up[kind],
			       fm_words_kind[kind]);
}

static void end_unconnected(struct fm_job *j)
{
	char why[FM_ERR_TEXT_MAX];

	say_why_not(j, why, sizeof(why));
	fm_job_end(j, -EHOSTUNREACH, "%s: no connection for the data: %s", j->peer_name, why);
}

/*
 * Begins the transfer if the session has a connection that may carry it. Otherwise it waits, or
 * ends with the reason.
 */
static void go(struct fm_job *j)
{
	struct fm_session *s = j->session;
	enum fm_kind first = j->want == FM_WANT_TCP ? FM_KIND_TCP : FM_KIND_RDMA;
	struct fm_err err = { 0 };

	if (fm_session_is_lost(s, &err)) {
		fm_job_end(j, err.code, "%s", err.text);
		return;
	}
	if (fm_session_conns(s, first, &j->only) == 0 && may_wait_for(j, first))
		return;
	if (fm_job_choose(j) == 0) {
		if ((fm_line_is_moving(s) && may_wait(j)) ||
		    (j->want == FM_WANT_AUTO && may_wait_for(j, FM_KIND_TCP)))
			return;
		if (fm_line_is_moving(s)) {
			fm_session_name_cable(s, &err);
			fm_job_end(j, err.code, "%s", err.text);
			return;
		}
		end_unconnected(j);
		return;
	}
	j->id = fm_session_new_id(s);
	j->state = FM_JOB_OPENING;
	j->deadline_ns =
		fm_engine_now(j->engine) + (j->is_tree ? FM_JOB_OPEN_TREE_NS : FM_JOB_OPEN_NS);
	if (j->is_source)
		fm_job_source_start(j);
	else
		fm_job_sink_start(j);
}

static void bind_session(struct fm_job *j, struct fm_session *s)
{
	j->session = s;
	j->peer = NULL;
	j->is_far_end_told = true;	/* nothing was asked of it yet */
	j->deadline_ns = fm_engine_now(j->engine) + CONNECT_NS;
	go(j);
}

static int check_opts(struct fm_engine *e, const struct fm_job_opts *o, struct fm_peer **peer,
		      struct fm_err *err)
{
	int ret;

	if (e->is_stopping)
		return fm_err_set(err, -EHOSTDOWN, "fmoved is stopping");
	if (strcmp(o->node, e->name) == 0)
		return fm_err_set(err, -EINVAL, "%s is this node: copy the file with cp", o->node);
	ret = fm_target_peer(e, o->node, peer, err);
	if (ret == 0)
		ret = fm_target_check_store(o->store, err);
	if (ret < 0)
		return ret;
	if (o->path_len > FM_PATH_LEN_MAX)
		return fm_err_set(err, -ENAMETOOLONG, "the path has %zu bytes, %d are allowed",
				  o->path_len, FM_PATH_LEN_MAX);
	if (memchr(o->path, '\0', o->path_len))
		return fm_err_set(err, -EINVAL, "the path holds a NUL byte");
	/* A user's share of them is the queue's affair. */
	if (fm_jobs_of(e)->count - fm_jobs_of(e)->peer_places.used >= FM_JOBS_LOCAL_MAX)
		return fm_err_full(err, "%u transfers are running, no more are allowed",
				   FM_JOBS_LOCAL_MAX);
	if (o->file && o->file->tree && !fm_job_has_room_for_tree(e))
		return fm_err_full(err, "%u directories are being moved, no more are allowed",
				   FM_TREES_LOCAL_MAX);
	return 0;
}

int fm_job_check(struct fm_engine *e, const struct fm_job_opts *o, struct fm_err *err)
{
	struct fm_peer *peer;

	return check_opts(e, o, &peer, err);
}

/* Takes the ranges of a get. */
static int take_ranges(struct fm_job *j, const struct fm_job_opts *o, struct fm_err *err)
{
	int ret = fm_job_make_ranges(j, o->range_count, err);

	if (ret < 0)
		return ret;
	memcpy(j->ranges, o->ranges, o->range_count * sizeof(*j->ranges));
	j->is_verified = o->is_verified;
	j->result.is_ranged = true;
	return 0;
}

/* Frees a job that was not begun. */
static void job_undo(struct fm_job *j)
{
	fm_budget_free(j->ranges);
	fm_list_del(&j->at);
	fm_jobs_of(j->engine)->count--;
	free(j->path);
	fm_budget_free(j);
}

static void start_tree(struct fm_job *j, const struct fm_job_opts *o)
{
	assert(j->file->tree->is_source == o->is_put);
	fm_job_set_tree(j);
	j->file->tree->is_compared = o->is_held;
	j->attr.type = FM_NODE_DIR;
	j->attr.size = FM_SIZE_UNKNOWN;
	j->tree.is_update = o->is_update;
	j->tree.is_delete = o->is_delete;
	j->tree.has_checksums = o->has_checksums;
	j->tree.is_dry = o->is_dry;
	j->tree.bytes = o->tree_bytes;
	j->tree.names.state = o->has_names ? FM_NAMES_ASKED : FM_NAMES_UNASKED;
	fm_job_tree_listen(j);
}

int fm_job_start(struct fm_engine *e, const struct fm_job_opts *o,
		 const struct fm_job_events *events, void *ctx, struct fm_job **out,
		 struct fm_err *err)
{
	struct fm_peer *peer = NULL;
	struct fm_job *j;
	int ret = check_opts(e, o, &peer, err);

	j = ret < 0 ? NULL : fm_job_new(e, o->path, o->path_len, NULL);
	if (ret == 0 && !j)
		ret = fm_err_sys(err, -ENOMEM, "allocate the transfer");
	if (ret == 0 && o->excludes)
		ret = fm_job_set_excludes_of(j, o->excludes, err);
	if (ret == 0 && o->range_count > 0)
		ret = take_ranges(j, o, err);
	if (ret < 0) {
		/* It did nothing yet: closing what is ours does not wait for a disk. */
		fm_file_give_up(o->file, false);
		if (j)
			job_undo(j);
		return ret;
	}
	j->is_ours = true;
	if (o->name)
		(void)snprintf(j->name, sizeof(j->name), "%s", o->name);
	j->report = FM_REPORT_DUE;
	j->is_source = o->is_put;
	j->peer = peer;
	(void)snprintf(j->peer_name, sizeof(j->peer_name), "%s", peer->name);
	(void)snprintf(j->store, sizeof(j->store), "%s", o->store);
	j->file = o->file;
	j->store_ref = o->store_ref ? fm_engine_store_again(o->store_ref) : NULL;
	j->attr = o->attr;
	j->size_max = o->size_max;
	if (!o->is_put)
		j->attr = (struct fm_attr){ .size = FM_SIZE_UNKNOWN };
	j->is_ordered = !o->is_put && fm_layout_of(o->file)->is_in_order;
	j->who = o->who;
	(void)snprintf(j->asked_by, sizeof(j->asked_by), "%s", o->asked_by ? o->asked_by : "");
	j->who.peer = NULL;
	j->want = o->transport;
	j->durability = o->durability;
	j->source.may_replace = o->may_replace;
	j->is_readback = o->is_readback;
	j->has_group = o->is_put && o->has_group;
	memcpy(j->group, o->group, sizeof(j->group));
	j->accepts_corrupt = o->accepts_corrupt;
	j->source.is_buffered = o->is_buffered;
	j->source.is_held = o->is_held;
	j->only = o->only;
	j->rate_bytes = o->rate_bytes;
	j->weight = o->weight;
	j->events = *events;
	j->ctx = ctx;
	j->gone_ctx = o->gone_ctx;
	j->state = FM_JOB_WAIT;
	if (o->timeout_ns)
		j->timeout_ns = j->started_ns + o->timeout_ns;
	j->deadline_ns = j->started_ns + CONNECT_NS;
	if (o->file->note)
		fm_job_set_note(j, o->file->note, strlen(o->file->note));
	if (o->file->tree)
		start_tree(j, o);
	log_begin(j);
	*out = j;
	if (peer->session)
		bind_session(j, peer->session);
	else
		fm_peer_need(peer);
	return 0;
}

void fm_job_cancel(struct fm_job *j, int code, bool is_kept, const char *reason)
{
	assert(j->is_ours && code < 0);
	fm_job_end_kept(j, is_kept, code, reason);
}

/* ---- what happens around it ---- */

static void choose_again(struct fm_job *j)
{
	unsigned kinds;

	if (!j->x || !j->is_source || j->x->is_removed)
		return;
	kinds = fm_job_choose(j);
	if (kinds == 0)
		return;		/* what there was may come back; the tick watches */
	fm_link_set_kinds(j->x, kinds);
}

/* Whether the job copies, but has no connection left to do it. */
static bool is_stranded(const struct fm_job *j)
{
	const struct fm_session *s = j->session;

	if (j->state != FM_JOB_COPYING)
		return false;
	return j->is_source ? fm_job_kinds(j) == 0 : s->up[FM_KIND_TCP] + s->up[FM_KIND_RDMA] == 0;
}

/*
 * Gives a copying job a deadline while it has no connection, and takes it away when one comes. It
 * is called also when one comes, since that may be gone by the next tick and have moved something.
 */
static void watch_connections(struct fm_job *j, uint64_t now_ns)
{
	if (j->state != FM_JOB_COPYING)
		return;
	if (is_stranded(j) && j->deadline_ns == 0)
		j->deadline_ns = now_ns + j->engine->o.stall_ns;
	else if (!is_stranded(j) && !j->source.is_given_up)
		j->deadline_ns = 0;
}

static void transfer_session_changed(struct fm_session *s)
{
	fm_list_each(at, next, &fm_jobs_of(s->engine)->list) {
		struct fm_job *j = fm_container_of(at, struct fm_job, at);

		if (!is_on(j, s))
			continue;
		if (j->state == FM_JOB_WAIT) {
			go(j);
		} else {
			choose_again(j);
			watch_connections(j, fm_engine_now(s->engine));
		}
		if (s->is_closed)
			return;
	}
}

static void transfer_peer_up(struct fm_peer *p)
{
	fm_list_each(at, next, &fm_jobs_of(p->engine)->list) {
		struct fm_job *j = fm_container_of(at, struct fm_job, at);

		if (j->state == FM_JOB_WAIT && j->peer == p && p->session)
			bind_session(j, p->session);
	}
}

static void transfer_peer_unreachable(struct fm_peer *p, const struct fm_err *err)
{
	fm_list_each(at, next, &fm_jobs_of(p->engine)->list) {
		struct fm_job *j = fm_container_of(at, struct fm_job, at);

		if (j->state == FM_JOB_WAIT && j->peer == p)
			fm_job_end(j, err->code, "%s", err->text);
	}
}

static void transfer_session_lost(struct fm_session *s, const struct fm_err *err)
{
	fm_list_each(at, next, &fm_jobs_of(s->engine)->list) {
		struct fm_job *j = fm_container_of(at, struct fm_job, at);

		if (is_on(j, s))
			fm_job_end(j, err->code, "%s", err->text);
	}
}

static bool transfer_is_on(const struct fm_session *s)
{
	fm_list_each(at, next, &fm_jobs_of(s->engine)->list)
		if (is_on(fm_container_of(at, struct fm_job, at), s))
			return true;
	return false;
}

static void transfer_stop(struct fm_engine *e)
{
	fm_list_each(at, next, &fm_jobs_of(e)->list)
		fm_job_end(fm_container_of(at, struct fm_job, at), -EHOSTDOWN,
			   "fmoved at %s is stopping", e->name);
}

/*
 * Whether every job that is left has ended, was reported, and only waits for a file of a caller in
 * a holder. Then the daemon can end without it.
 */
static bool transfer_awaits_callers(const struct fm_engine *e)
{
	fm_list_each(at, next, &fm_jobs_of(e)->list) {
		const struct fm_job *j = fm_container_of(at, struct fm_job, at);

		if (j->state != FM_JOB_ENDED || j->report == FM_REPORT_DUE ||
		    j->report == FM_REPORT_LATE || !fm_job_holder(j))
			return false;
	}
	return true;
}

/*
 * Whether nothing has moved for limit_ns. `moved` is any number that changes when something moves.
 */
static bool is_still(struct fm_job *j, uint64_t moved, uint64_t limit_ns, uint64_t now_ns)
{
	if (moved != j->moved || !j->moved_ns) {
		j->moved = moved;
		j->moved_ns = now_ns;
	}
	return now_ns > j->moved_ns + limit_ns;
}

static uint64_t bytes_moved(const struct fm_job *j)
{
	struct fm_moved moved;

	fm_link_moved(j->x, &moved);
	return moved.bytes + moved.damaged + moved.reread;
}

/* The same of all of a tree, its large files included. */
static uint64_t tree_bytes_moved(const struct fm_job *j)
{
	struct fm_moved sums;

	fm_job_tree_sums(j, &sums);
	return sums.bytes + sums.damaged + sums.reread + (j->x ? bytes_moved(j) : 0);
}

/*
 * Whether a file moves no byte. A pipe may be slow for ever. A large file may wait long for its
 * turn if the limit of its tree is low, so as long as something of that moves it has not stalled.
 */
static bool is_stalled(struct fm_job *j, uint64_t now_ns)
{
	uint64_t moved = j->parent ? tree_bytes_moved(j->parent) : bytes_moved(j);

	return j->attr.size != FM_SIZE_UNKNOWN && is_still(j, moved, STALL_NS, now_ns);
}

/*
 * Whether a call to this end's disk hangs while nothing else of the tree moves. Each end watches
 * its own disk, because its far end may rightly wait for a caller. Large files are watched as files
 * are. A tree that compares content gets the time of a sync, since it reads without moving a byte.
 */
static bool has_tree_stalled(struct fm_job *j, uint64_t now_ns)
{
	uint64_t limit_ns = j->tree.has_checksums || j->tree.wants & FM_WIRE_READY_CHECKSUM
				    ? COMMIT_NS
				    : STALL_NS;
	struct fm_tree_count count;
	struct fm_moved sums;
	uint64_t ended;

	if (!j->tree.is_listening || j->file->tree->is_callers)
		return false;
	if (fm_tree_file_calls(j->file, &ended) == 0) {
		j->moved_ns = now_ns;
		return false;
	}
	fm_job_tree_sums(j, &sums);
	fm_job_tree_count(j, &count);
	return is_still(j, ended + sums.bytes + bytes_moved(j) + count.files + count.dirs, limit_ns,
			now_ns);
}

/* Ends a job that has stalled. true: it did. */
static bool ends_stalled(struct fm_job *j, uint64_t now_ns)
{
	unsigned long long limit_s = STALL_NS / FM_NS_PER_S;

	if (j->state != FM_JOB_COPYING || !j->x || !j->session || j->is_ordered)
		return false;
	if (j->is_tree ? !has_tree_stalled(j, now_ns) : !is_stalled(j, now_ns))
		return false;
	if (j->is_tree)
		fm_job_end(j, -ETIMEDOUT,
			   "nothing of the directory was %s at %s for %llu s and more: a disk "
			   "there hangs",
			   j->is_source ? "read" : "written", j->engine->name, limit_s);
	else
		fm_job_end(j, -ETIMEDOUT, "not a byte was moved for %llu s: a disk or %s hangs",
			   limit_s, j->peer_name);
	return true;
}

/*
 * Whether the job waits for the reader of a pipe: FINISH comes after the last byte, DONE after all
 * of it was read.
 */
static bool waits_for_pipe(const struct fm_job *j)
{
	return j->is_ordered && (j->state == FM_JOB_EMPTYING || j->state == FM_JOB_FINISHING);
}

/*
 * Whether what is awaited is no disk and no peer that may hang, but somebody who may take as long
 * as he likes: the reader of a pipe, or whoever decides about a held put, which may wait for all
 * the other nodes that it goes to. His end, and that of the session, end the job anyway.
 */
static bool waits_for_somebody(const struct fm_job *j)
{
	return j->state == FM_JOB_PREPARED || waits_for_pipe(j);
}

/*
 * Whether the peer says nothing, on no connection at all: it answers each second. Its session ends
 * soon, or it is heard again: that end says why, and names the cable, so what waits leaves it to
 * that.
 */
static bool is_peer_silent(const struct fm_job *j)
{
	uint64_t half_ns = j->engine->o.stall_ns / 2;

	return fm_engine_now(j->engine) >
	       j->session->heard_ns + (half_ns < SILENT_NS ? half_ns : SILENT_NS);
}

static void deadline_passed(struct fm_job *j)
{
	if (j->tree.names.state == FM_NAMES_SHOWN && !j->is_source) {
		fm_job_names_unread(j);
		return;
	}
	switch (j->state) {
	case FM_JOB_WAIT:
		fm_job_end(j, -EHOSTUNREACH, "%s is not connected%s%s", j->peer_name,
			   j->peer && j->peer->last_error[0] ? ": " : "",
			   j->peer ? j->peer->last_error : "");
		break;
	case FM_JOB_OPENING:
		fm_job_end(j, -ETIMEDOUT, "%s did not open the file in time",
			   j->is_working ? j->engine->name : j->peer_name);
		break;
	case FM_JOB_COPYING:
		if (is_stranded(j) && is_peer_silent(j))
			return;
		if (!fm_only_is_any(&j->only) && is_stranded(j)) {
			end_unconnected(j);
			break;
		}
		fm_job_end(j, -ECONNRESET,
			   "%s: no data connection is left, or it gave the transfer up",
			   j->peer_name);
		break;
	default:
		fm_job_end(j, -ETIMEDOUT, "not committed within an hour: a disk or %s hangs",
			   j->peer_name);
		break;
	}
}

static void tick(struct fm_job *j, uint64_t now_ns)
{
	if (j->timeout_ns && now_ns > j->timeout_ns) {
		fm_job_end(j, -ETIMEDOUT, "not done within the time that --timeout gave");
		return;
	}
	if (j->state == FM_JOB_WAIT && j->session) {
		go(j);
		return;
	}
	if (ends_stalled(j, now_ns))
		return;
	if (j->session)
		watch_connections(j, now_ns);
	if (!j->is_source && j->session)
		fm_job_sink_tick(j, now_ns);
	if (j->state > FM_JOB_COPYING && j->deadline_ns == 0 && !waits_for_somebody(j))
		j->deadline_ns = now_ns + COMMIT_NS;
	if (j->deadline_ns && now_ns >= j->deadline_ns)
		deadline_passed(j);
}

static void transfer_tick(struct fm_engine *e, uint64_t now_ns)
{
	fm_list_each(at, next, &fm_jobs_of(e)->list) {
		struct fm_job *j = fm_container_of(at, struct fm_job, at);

		if (j->state != FM_JOB_ENDED)
			tick(j, now_ns);
		else if (j->report == FM_REPORT_LATE && now_ns >= j->report_by_ns)
			report(j);
	}
}

static void on_abort(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_abort *m = &msg->abort;
	struct fm_job *j = fm_job_find(s, m->xfer);
	char text[FM_ERR_TEXT_MAX];

	if (!j)
		return;		/* it crossed our own end */
	j->is_far_end_told = true;
	/* a cut text is still a text */
	(void)snprintf(text, sizeof(text), "%s: %.*s", s->name, (int)m->text.len, m->text.at);
	j->result.err.is_full =
		j->is_ours && j->state == FM_JOB_OPENING && m->flags & FM_WIRE_ABORT_FULL;
	if (j->state != FM_JOB_ENDED)
		j->result.err.is_rule = m->code == EACCES;
	fm_job_end_kept(j, m->flags & FM_WIRE_ABORT_KEEP, -(int)m->code, text);
}

void fm_job_progress(struct fm_job *j, struct fm_job_progress *out)
{
	static const char *const names[] = {
		[FM_JOB_WAIT] = "connecting",	    [FM_JOB_OPENING] = "opening",
		[FM_JOB_COPYING] = "copying",	    [FM_JOB_EMPTYING] = "copying",
		[FM_JOB_CHECKING] = "committing",   [FM_JOB_FINISHING] = "committing",
		[FM_JOB_PREPARED] = "prepared",	    [FM_JOB_DRAINING] = "committing",
		[FM_JOB_PUBLISHING] = "committing", [FM_JOB_ENDED] = "ending",
	};

	struct fm_moved own, all;
	struct fm_tree_count count;

	*out = (struct fm_job_progress){ .size = j->attr.size, .state = names[j->state] };
	if (!j->x || !j->session)
		return;
	fm_job_tree_sums(j, &all);
	fm_link_moved(j->x, &own);
	fm_moved_add(&all, &own);
	out->bytes_done = all.bytes;
	out->bytes_resent = all.resent;
	out->bytes_resumed = all.resumed;
	out->corrupt_chunks = all.corrupt;
	out->conns = j->result.conns;
	if (j->is_tree) {
		/* Of an update the far end has the most part already: nobody knows how much. */
		if (j->tree.bytes > 0 && !j->tree.is_update && !j->tree.is_dry)
			out->size = j->tree.bytes;
		fm_job_tree_count(j, &count);
		out->files = count.files;
	}
}

void fm_job_visit(struct fm_engine *e, void (*visit)(void *ctx, const struct fm_job_status *s),
		  void *ctx)
{
	fm_list_each(at, next, &fm_jobs_of(e)->list) {
		struct fm_job *j = fm_container_of(at, struct fm_job, at);
		struct fm_job_status st = { .is_put = j->is_source == j->is_ours,
					    .is_ours = j->is_ours,
					    .peer = j->peer_name,
					    .store = j->store,
					    .path = j->path,
					    .elapsed_ns = fm_engine_now(e) - j->started_ns };

		if (j->state == FM_JOB_ENDED || j->parent)
			continue;
		fm_job_progress(j, &st.progress);
		visit(ctx, &st);
	}
}

void fm_transfer_totals(struct fm_engine *e, struct fm_transfer_totals *out)
{
	*out = fm_jobs_of(e)->ended;
	fm_list_each(at, next, &fm_jobs_of(e)->list) {
		struct fm_job *j = fm_container_of(at, struct fm_job, at);
		struct fm_transfer_total *to = &out->way[j->is_source];
		struct fm_moved all, own;

		if (j->state == FM_JOB_ENDED || j->parent)
			continue;
		to->running++;
		if (!j->session)
			continue;
		fm_job_tree_sums(j, &all);
		add_moved(to, &all);
		if (!j->x)
			continue;
		fm_link_moved(j->x, &own);
		add_moved(to, &own);
	}
}

/* ---- the service ---- */

static bool transfer_is_idle(const struct fm_engine *e)
{
	return fm_jobs_of(e)->count == 0;
}

static bool transfer_is_working(const struct fm_engine *e)
{
	return !transfer_is_idle(e);
}

static void transfer_init(void *state)
{
	struct fm_jobs *all = state;

	fm_list_init(&all->list);
	fm_share_init(&all->peer_places, &(struct fm_share_limits){ "places for transfers of peers",
								    FM_JOBS_PEERS_MAX, 0, 0, 1 });
	fm_share_init(&all->peer_trees, &(struct fm_share_limits){"places for directories of peers",
								  FM_TREES_PEERS_MAX, 0, 0, 1});
}

static const struct fm_service_message messages[] = {
	{ FM_WIRE_PUT, fm_job_on_put },
	{ FM_WIRE_GET, fm_job_on_get },
	{ FM_WIRE_READY, fm_job_on_ready },
	{ FM_WIRE_FOUND, fm_job_on_found },
	{ FM_WIRE_FINISH, fm_job_on_finish },
	{ FM_WIRE_DONE, fm_job_on_done },
	{ FM_WIRE_COMMIT, fm_job_on_commit },
	{ FM_WIRE_NEED, fm_job_on_need },
	{ FM_WIRE_KEPT, fm_job_on_kept },
	{ FM_WIRE_WINDOW, fm_job_on_window },
	{ FM_WIRE_NAMES, fm_job_on_names },
	{ FM_WIRE_ABORT, on_abort },
};

const struct fm_service fm_transfer_service = {
	.name = "transfer",
	.messages = messages,
	.message_count = sizeof(messages) / sizeof(messages[0]),
	.state_bytes = sizeof(struct fm_jobs),
	.init = transfer_init,
	.peer_up = transfer_peer_up,
	.peer_unreachable = transfer_peer_unreachable,
	.session_changed = transfer_session_changed,
	.session_lost = transfer_session_lost,
	.is_on = transfer_is_on,
	.tick = transfer_tick,
	.stop = transfer_stop,
	.is_idle = transfer_is_idle,
	.is_working = transfer_is_working,
	.awaits_callers = transfer_awaits_callers,
};
