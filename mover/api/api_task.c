/* SPDX-License-Identifier: MIT */
/*
 * api_task - see api_task.h.
 *
 * Happy path of a transfer: submitted to the queue; accepted; progress; the done event; gone. Of a
 * detached one: submitted; accepted, which is its done event; gone. Of an attended get: prepared before done, which
 * comes when the client has given the file its name. Of waiting for a job: watching;
 * progress; the job's own done event; gone. Of a request: the engine's; the done event; gone. Failure:
 * the error event instead.
 *
 * Of a verification: the engine's; progress; findings; the done event; gone. Of asking the peers for volumes: the
 * engine's; an event for each; the done event; gone.
 *
 * Abandoned: a transfer is ended in the queue, which no longer tells us; a request or verification ends in its own
 * time, detached and unanswered.
 */
#include "mover/api/api_task.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/api/api.h"
#include "mover/api/api_event.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/holder.h"
#include "mover/base/loop.h"
#include "mover/base/worker.h"
#include "mover/queue/queue.h"
#include "mover/services/request.h"
#include "mover/services/verification.h"
#include "mover/services/volumes.h"
#include "mover/store/held_file.h"
#include "mover/store/tree_file.h"
#include "mover/tree/channel.h"

#define NAMED_LOOK_MS 20

struct making;

struct fm_api_task {
	struct fm_list link;		/* of owner->tasks */
	struct fm_api_tasks *tasks;
	struct fm_api_owner *owner;	/* NULL: nobody is told any more */
	struct fm_share_held place;	/* its user's, also when nobody is told any more */
	uint64_t id;			/* of its request, ... */
	enum fm_api_op op;
	uint64_t progress_ms;
	bool is_detached;
	bool is_attended;
	bool is_held;			/* ... the rest of which, up to 30 KiB, is with who carries it out */
	struct fm_queue_watch watch;	/* transfers and waiting */
	struct fm_timer progress;
	struct fm_timer named;		/* the client is slow: the next names wait until it is not */
	bool is_prepared;		/* a put that is held, an attended get: may be committed */
	struct fm_verification *verification;	/* until its done() */
	struct making *making;		/* a caller's tree, which its holder makes */
};
_Static_assert(sizeof(struct fm_api_task) <= FM_API_TASK_BYTES_MAX, "many of them are held at once");

/* ---- events ---- */

static void task_send(struct fm_api_task *t, int len)
{
	/* Every event has a limit below FM_API_MSG_MAX by construction. */
	assert(len > 0);
	if (t->owner)
		t->owner->send(t->owner->ctx, t->tasks->tx, (size_t)len);
}

static void task_send_error(struct fm_api_task *t, const struct fm_err *err)
{
	task_send(t, fm_api_event_error(t->tasks->tx, FM_API_MSG_MAX, &t->id, err));
}

/* ---- the end ---- */

static void forget_making(struct making *m);

/* From here on the owner knows nothing of it. */
static void task_detach(struct fm_api_task *t)
{
	if (!t->owner)
		return;
	fm_timer_clear(t->tasks->loop, &t->progress);
	fm_timer_clear(t->tasks->loop, &t->named);
	fm_list_del(&t->link);
	t->owner->count--;
	t->owner = NULL;
}

static void task_free(struct fm_api_task *t)
{
	task_detach(t);
	if (t->making)
		forget_making(t->making);
	fm_queue_unwatch(&t->watch);
	fm_share_give_all(&t->place);
	free(t);
}

/* ---- transfers, and waiting for one ---- */

static void task_arm_progress(struct fm_api_task *t)
{
	if (t->progress_ms > 0)
		fm_timer_set(t->tasks->loop, &t->progress,
			     fm_loop_now(t->tasks->loop) + t->progress_ms * FM_NS_PER_MS);
}

static void task_progress(struct fm_timer *timer)
{
	struct fm_api_task *t = fm_container_of(timer, struct fm_api_task, progress);
	struct fm_queue_progress p;

	assert(t->owner && t->watch.job);
	if (!t->owner->is_slow(t->owner->ctx)) {
		fm_queue_progress(t->watch.job, &p);
		task_send(t, fm_api_event_progress(t->tasks->tx, FM_API_MSG_MAX, t->id, &p));
	}
	task_arm_progress(t);
}

static void task_accepted(struct fm_queue_watch *watch)
{
	struct fm_api_task *t = fm_container_of(watch, struct fm_api_task, watch);
	const char *job = fm_queue_id(watch->job);

	if (t->is_detached) {
		task_send(t, fm_api_event_detached(t->tasks->tx, FM_API_MSG_MAX, t->id, job));
		task_free(t);
		return;
	}
	if (t->progress_ms > 0 || t->is_attended)
		task_send(t, fm_api_event_accepted(t->tasks->tx, FM_API_MSG_MAX, t->id, job));
	task_arm_progress(t);
}

static void task_ended(struct fm_queue_watch *watch, const struct fm_job_result *result)
{
	struct fm_api_task *t = fm_container_of(watch, struct fm_api_task, watch);
	struct fm_job_result failed;

	if (result->code < 0) {
		failed = *result;
		failed.err.is_full &= t->op != FM_API_WAIT;	/* who waits for another's end was not refused anything */
		task_send(t, fm_api_event_failed(t->tasks->tx, FM_API_MSG_MAX, t->id, &failed));
	} else {
		task_send(t, fm_api_event_job(t->tasks->tx, FM_API_MSG_MAX, t->id, result));
	}
	task_free(t);
}

static void task_prepared(struct fm_queue_watch *watch, const struct fm_job_result *result)
{
	struct fm_api_task *t = fm_container_of(watch, struct fm_api_task, watch);

	t->is_prepared = true;
	task_send(t, fm_api_event_prepared(t->tasks->tx, FM_API_MSG_MAX, t->id, result));
}

/* The next page, as soon as the client has read what it has. */
static void task_take_more(struct fm_api_task *t)
{
	if (t->owner && t->owner->is_slow(t->owner->ctx))
		fm_timer_set(t->tasks->loop, &t->named, fm_loop_now(t->tasks->loop) + NAMED_LOOK_MS * FM_NS_PER_MS);
	else
		fm_queue_named(&t->watch);
}

static void task_named(struct fm_timer *timer)
{
	task_take_more(fm_container_of(timer, struct fm_api_task, named));
}

static void task_names(struct fm_queue_watch *watch, const struct fm_tree_names *page)
{
	struct fm_api_task *t = fm_container_of(watch, struct fm_api_task, watch);

	task_send(t, fm_api_event_names(t->tasks->tx, FM_API_MSG_MAX, t->id, page));
	task_take_more(t);
}

static const struct fm_queue_events watch_events = { .accepted = task_accepted, .prepared = task_prepared, .names = task_names,
						     .done = task_ended };

static uint64_t retry_of(const struct fm_api_request *a)
{
	if (a->has_retry)
		return a->retry_ms * FM_NS_PER_MS;
	return a->is_detached || a->is_attended ? FM_RETRY_ALWAYS : 0;
}

static void task_options(const struct fm_api_task *t, const struct fm_api_request *a, struct fm_queue_opts *o)
{
	*o = (struct fm_queue_opts){
		.job = { .is_put = a->op == FM_API_PUT,
			 .node = a->node,
			 .store = a->store,
			 .path = a->path,
			 .path_len = a->path_len,
			 .who = t->owner->who,
			 .transport = (enum fm_transport_want)a->transport,
			 .durability = (enum fm_durability)a->durability,
			 .may_replace = a->is_force,
			 .is_readback = a->readback != 0,
			 .is_held = a->is_held,
			 .accepts_corrupt = a->accepts_corrupt,
			 .is_buffered = a->is_buffered,
			 .is_update = a->is_update || a->has_checksums,
			 .has_checksums = a->has_checksums,
			 .is_delete = a->is_delete,
			 .is_dry = a->is_dry,
			 .has_names = a->has_names && a->is_tree && !a->is_detached && !a->is_attended,
			 .tree_bytes = a->tree_bytes,
			 .rate_bytes = a->rate_bytes,
			 .timeout_ns = a->timeout_ms * FM_NS_PER_MS },
		.end = a->is_store ? FM_QUEUE_STORE : FM_QUEUE_FD,
		.fd = -1,
		.journal = -1,
		.file = a->file,
		.file_len = a->file_len,
		.own_store = a->local_store,
		.own_path = a->local_path,
		.own_path_len = a->local_path_len,
		.is_tree = a->is_tree,
		.is_detached = a->is_detached || a->is_attended,
		.is_attended = a->is_attended,
		.again = a->job_id,
		.priority = (enum fm_queue_priority)a->priority,
		.retry_ns = retry_of(a),
	};
}

/* What needs no worker to be opened: nothing here could block. */
static int task_make_file(const struct fm_api_request *a, struct fm_queue_opts *o, struct fm_err *err)
{
	o->end = FM_QUEUE_FILE;
	if (a->is_generated)
		return fm_null_source(a->bytes_generated, &o->job.file, &o->job.attr, err);
	return fm_null_sink(&o->job.file, err);
}

/* tree: a directory of the caller, taken over; NULL: it is something else. */
static int task_submit(struct fm_api_task *t, const struct fm_api_request *a, int fds[FM_API_TASK_FDS], struct fm_holder *holder,
		       struct fm_file *tree, struct fm_err *err)
{
	const char *excludes[FM_TREE_EXCLUDES_MAX + 1] = { NULL };
	struct fm_queue_opts o;
	int ret = 0;

	task_options(t, a, &o);
	for (unsigned i = 0; i < a->excludes_count; i++)
		excludes[i] = a->excludes[i];
	o.job.excludes = a->excludes_count > 0 ? excludes : NULL;
	if (tree) {
		o.end = FM_QUEUE_FILE;
		o.job.file = tree;
		o.job.attr = (struct fm_attr){ .type = FM_NODE_DIR, .size = FM_SIZE_UNKNOWN, .dev = a->dev, .ino = a->ino };
	} else if (a->is_generated || a->is_discarded) {
		ret = task_make_file(a, &o, err);
	}
	if (ret < 0)
		return ret;
	if (o.end == FM_QUEUE_FD) {
		o.fd = fds[0];
		o.journal = fds[1];
		o.holder = fm_holder_ref(holder);
		fds[0] = fds[1] = -1;	/* taken over */
	}
	return fm_queue_submit(t->tasks->queue, &o, &t->watch, err);
}

/* ---- a directory of the caller: its holder looks at the descriptors, and has the threads that ask the caller ---- */

struct making {
	struct fm_work work;
	struct fm_api_task *task;	/* NULL: it is gone */
	struct fm_api_request ask;
	struct fm_holder *holder;	/* NULL: they are ours */
	int fds[FM_API_TASK_FDS];
	bool is_cancelled;
	uid_t uid;
	struct fm_file *file;
	int ret;
	struct fm_err err;
};

static void forget_making(struct making *m)
{
	m->task = NULL;
}

static void make_run(struct fm_work *work)
{
	struct making *m = fm_container_of(work, struct making, work);
	struct fm_tree_remote_opts remote = { .is_source = m->ask.op == FM_API_PUT, .fds = m->fds, .holder = m->holder };
	struct fm_tree_file_opts file = { .threads = fm_tree_file_threads(), .who = fm_share_user(m->uid) };

	while (remote.count < FM_API_TASK_FDS && m->fds[remote.count] >= 0)
		remote.count++;
	m->ret = fm_tree_remote_new(&remote, &file.tree, &m->err);
	if (m->ret < 0)
		return;
	file.tree->is_callers = true;
	m->ret = fm_tree_file_new(&file, &m->file, &m->err);
	if (m->ret < 0)
		return;
	m->ret = fm_file_set_holder(m->file, m->holder, &m->err);
	if (m->ret < 0)
		m->file->ops->close(m->file);
}

static int make_submit(struct making *m, struct fm_err *err)
{
	int none[FM_API_TASK_FDS] = { -1, -1 };

	if (m->ret < 0) {
		*err = m->err;
		return m->ret;
	}
	if (m->task && !m->is_cancelled)
		return task_submit(m->task, &m->ask, none, NULL, m->file, err);
	fm_file_give_up(m->file, false);
	return fm_err_set(err, -ECANCELED, "cancelled");
}

static void make_done(struct fm_work *work)
{
	struct making *m = fm_container_of(work, struct making, work);
	struct fm_api_task *t = m->task;
	struct fm_err err;

	if (t)
		t->making = NULL;
	if (make_submit(m, &err) < 0 && t) {
		task_send_error(t, &err);
		task_free(t);
	}
	fm_holder_put(m->holder);
	free(m);
}

static int task_make_tree(struct fm_api_task *t, const struct fm_api_request *a, int fds[FM_API_TASK_FDS], struct fm_holder *holder,
			  struct fm_err *err)
{
	struct making *m = FM_FAULT("api.making") ? NULL : calloc(1, sizeof(*m));
	int ret;

	if (!m)
		return fm_err_set(err, -ENOMEM, "no memory for a request");
	m->work.run = make_run;
	m->work.done = make_done;
	m->ask = *a;
	m->uid = t->owner->who.uid;
	memcpy(m->fds, fds, sizeof(m->fds));
	for (unsigned i = 0; i < FM_API_TASK_FDS; i++)
		fds[i] = -1;	/* taken over */
	m->task = t;
	if (holder) {
		m->holder = fm_holder_ref(holder);
		t->making = m;
		fm_holder_work(holder, &m->work);
		return 0;
	}
	make_run(&m->work);
	ret = make_submit(m, err);
	free(m);
	return ret;
}

static int task_start_transfer(struct fm_api_task *t, const struct fm_api_request *a, int fds[FM_API_TASK_FDS], struct fm_holder *holder,
			       struct fm_err *err)
{
	if (a->is_tree && !a->is_store)
		return task_make_tree(t, a, fds, holder, err);
	return task_submit(t, a, fds, holder, NULL, err);
}

static int task_start_waiting(struct fm_api_task *t, const struct fm_api_request *a, struct fm_err *err)
{
	int ret = fm_queue_watch_id(t->tasks->queue, a->job_id, t->owner->who.uid, &t->watch, err);

	if (ret == 0)
		task_arm_progress(t);
	return ret;
}

/* ---- requests ---- */

static void task_request_done(void *ctx, const struct fm_request_result *result)
{
	struct fm_api_task *t = ctx;
	char *tx = t->tasks->tx;
	uint64_t id = t->id;

	if (result->code < 0)
		task_send_error(t, &result->err);
	else if (t->op == FM_API_STAT)
		task_send(t, fm_api_event_stat(tx, FM_API_MSG_MAX, id, result));
	else if (t->op == FM_API_LIST)
		task_send(t, fm_api_event_list(tx, FM_API_MSG_MAX, id, result));
	else if (t->op == FM_API_SPACE)
		task_send(t, fm_api_event_space(tx, FM_API_MSG_MAX, id, result));
	else if (t->op == FM_API_PURGE)
		task_send(t, fm_api_event_purged(tx, FM_API_MSG_MAX, id, result));
	else
		task_send(t, fm_api_event_done(tx, FM_API_MSG_MAX, id));
	task_free(t);
}

static enum fm_verb verb_of(const struct fm_api_request *a)
{
	switch (a->op) {
	case FM_API_STAT:
		return FM_VERB_STAT;
	case FM_API_LIST:
		return a->is_partial ? FM_VERB_PARTIALS : FM_VERB_LIST;
	case FM_API_REMOVE:
		return FM_VERB_REMOVE;
	case FM_API_SPACE:
		return FM_VERB_FREE;
	case FM_API_PURGE:
		return FM_VERB_PURGE;
	default:
		assert(a->op == FM_API_MKDIR);
		return FM_VERB_MKDIR;
	}
}

static int task_start_request(struct fm_api_task *t, const struct fm_api_request *a, struct fm_err *err)
{
	const struct fm_request_opts opts = {
		.verb = verb_of(a),
		.node = a->node[0] ? a->node : NULL,
		.store = a->store,
		.path = a->path,
		.path_len = a->path_len,
		.after = a->after,
		.is_recursive = a->is_recursive,
		.is_dry = a->is_dry,
		.who = t->owner->who,
		.timeout_ns = a->timeout_ms * FM_NS_PER_MS,
	};

	return fm_request_start(t->tasks->engine, &opts, task_request_done, t, err);
}

/* ---- verifying ---- */

/* Progress and findings are made in the engine's own time: of a client that is gone nobody wants to know. */
static void task_verifying(void *ctx, const struct fm_verify_count *count)
{
	struct fm_api_task *t = ctx;

	if (t->owner && t->progress_ms > 0 && !t->owner->is_slow(t->owner->ctx))
		task_send(t, fm_api_event_verifying(t->tasks->tx, FM_API_MSG_MAX, t->id, count));
}

static void task_finding(void *ctx, enum fm_finding_kind kind, uint64_t offset, uint64_t length, const char *path)
{
	struct fm_api_task *t = ctx;

	if (t->owner)
		task_send(t, fm_api_event_finding(t->tasks->tx, FM_API_MSG_MAX, t->id, kind, offset, length, path));
}

static void task_verified(void *ctx, const struct fm_err *err, const struct fm_verify_count *count)
{
	struct fm_api_task *t = ctx;

	if (err->code < 0)
		task_send_error(t, err);
	else
		task_send(t, fm_api_event_verified(t->tasks->tx, FM_API_MSG_MAX, t->id, count));
	task_free(t);
}

static int task_start_verifying(struct fm_api_task *t, const struct fm_api_request *a, struct fm_err *err)
{
	static const struct fm_verification_events events = { task_verifying, task_finding, task_verified };
	const struct fm_verification_opts opts = {
		.node = a->node[0] ? a->node : NULL,
		.store = a->store,
		.path = a->path,
		.path_len = a->path_len,
		.who = t->owner->who,
	};

	return fm_verification_start(t->tasks->engine, &opts, &events, t, &t->verification, err);
}

/* ---- what the peers say of volumes ---- */

static void task_volumes(void *ctx, const struct fm_volumes_answer *answer)
{
	struct fm_api_task *t = ctx;

	if (t->owner)
		task_send(t, fm_api_event_volumes(t->tasks->tx, FM_API_MSG_MAX, t->id, answer));
}

static void task_volumes_done(void *ctx)
{
	struct fm_api_task *t = ctx;

	task_send(t, fm_api_event_done(t->tasks->tx, FM_API_MSG_MAX, t->id));
	task_free(t);
}

/* ---- start and cancel ---- */

static bool is_watching(const struct fm_api_task *t)
{
	return fm_api_op_is_transfer(t->op) || t->op == FM_API_WAIT;
}

static int task_start(struct fm_api_task *t, const struct fm_api_request *a, int fds[FM_API_TASK_FDS], struct fm_holder *holder,
		      struct fm_err *err)
{
	static const struct fm_volumes_events volumes_events = { task_volumes, task_volumes_done };

	if (fm_api_op_is_transfer(t->op))
		return task_start_transfer(t, a, fds, holder, err);
	if (t->op == FM_API_WAIT)
		return task_start_waiting(t, a, err);
	if (t->op == FM_API_VERIFY)
		return task_start_verifying(t, a, err);
	if (t->op == FM_API_VOLUMES)
		return fm_volumes_ask(t->tasks->engine, t->owner->who.uid, &volumes_events, t, err);
	return task_start_request(t, a, err);
}

int fm_api_task_start(struct fm_api_tasks *tasks, struct fm_api_owner *owner,
		      const struct fm_api_request *ask, const int fds_in[FM_API_TASK_FDS], struct fm_holder *holder, struct fm_err *err)
{
	int fds[FM_API_TASK_FDS];
	struct fm_share_held place = { 0 };
	struct fm_api_task *t = NULL;
	int ret;

	memcpy(fds, fds_in, sizeof(fds));
	ret = fm_share_take(&tasks->places, fm_share_user(owner->who.uid), 1, &place, err);
	if (ret == 0)
		t = FM_FAULT("api.task") ? NULL : calloc(1, sizeof(*t));
	if (!t) {
		fm_share_give_all(&place);
		fm_holder_close(holder, fds, FM_API_TASK_FDS);
		return ret < 0 ? ret : fm_err_set(err, -ENOMEM, "no memory for a request");
	}
	t->place = place;
	t->tasks = tasks;
	t->owner = owner;
	t->id = ask->id;
	t->op = ask->op;
	t->progress_ms = ask->progress_ms;
	t->is_detached = ask->is_detached;
	t->is_attended = ask->is_attended;
	t->is_held = ask->is_held;
	t->progress.fire = task_progress;
	t->named.fire = task_named;
	t->watch.events = &watch_events;
	fm_list_append(&owner->tasks, &t->link);
	owner->count++;
	ret = task_start(t, ask, fds, holder, err);
	fm_holder_close(holder, fds, FM_API_TASK_FDS);	/* unused */
	if (ret < 0)
		task_free(t);
	return ret;
}

static struct fm_api_task *task_find(const struct fm_api_owner *owner, uint64_t id)
{
	fm_list_each(at, next, &owner->tasks) {
		struct fm_api_task *t = fm_container_of(at, struct fm_api_task, link);

		if (t->id == id)
			return t;
	}
	return NULL;
}

bool fm_api_task_is(const struct fm_api_owner *owner, uint64_t id)
{
	return task_find(owner, id) != NULL;
}

int fm_api_task_cancel(struct fm_api_owner *owner, uint64_t id, bool is_kept)
{
	struct fm_api_task *t = task_find(owner, id);
	struct fm_err err;

	if (!t || (!is_watching(t) && !t->verification))
		return -ENOENT;
	if (t->verification) {
		fm_verification_cancel(t->verification);
	} else if (t->making) {
		t->making->is_cancelled = true;
	} else if (t->op == FM_API_WAIT) {
		(void)fm_err_set(&err, -ECANCELED, "not waited for any longer; the job goes on");
		task_send_error(t, &err);
		task_free(t);
	} else {
		fm_queue_end_job(&t->watch, -ECANCELED, is_kept, "cancelled");
	}
	return 0;
}

int fm_api_task_commit(struct fm_api_owner *owner, uint64_t id, const struct fm_err *why)
{
	struct fm_api_task *t = task_find(owner, id);

	if (!t || !(t->is_held || t->is_attended))
		return -ENOENT;
	if (!t->is_prepared)
		return -EAGAIN;
	fm_queue_commit(&t->watch, why);
	return 0;
}

void fm_api_task_abandon(struct fm_api_owner *owner)
{
	fm_list_each(at, next, &owner->tasks) {
		struct fm_api_task *t = fm_container_of(at, struct fm_api_task, link);

		if (!is_watching(t)) {
			task_detach(t);
			if (t->verification)
				fm_verification_cancel(t->verification);
			continue;
		}
		/* A detached one that was not accepted yet is known to nobody. */
		if (t->op != FM_API_WAIT)
			fm_queue_abandon(&t->watch);
		task_free(t);
	}
	assert(owner->count == 0);
}
