/* SPDX-License-Identifier: MIT */
/*
 * api_task - see api_task.h.
 *
 * Happy path of a transfer: OPENING: the worker turns the descriptor into a file (fstat() of a file
 * on somebody's FUSE may take for ever, so never on the loop); RUNNING: the engine's job; the done
 * event; gone. Of a request: RUNNING; the done event; gone. Failure: the error event instead.
 *
 * Cancelled: if RUNNING, the engine's done() comes soon, with what really happened. If OPENING, it
 * is answered at once and detached; when the worker is through, the file is closed (CLOSING, on the
 * worker again).
 *
 * Abandoned: the same, detached and unanswered; a request ends in its own time.
 */
#include "mover/api_task.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "mover/api.h"
#include "mover/api_event.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/loop.h"
#include "mover/base/worker.h"

enum task_state { TASK_OPENING, TASK_RUNNING, TASK_CLOSING };

struct fm_api_task {
	struct fm_list link;		/* of owner->tasks */
	struct fm_api_tasks *tasks;
	struct fm_api_owner *owner;	/* NULL: detached */
	struct fm_api_request *ask;
	enum task_state state;
	struct fm_work work;
	int fd;				/* until it is a file */
	struct fm_file *file;		/* until it is the job's */
	struct fm_attr attr;
	int code;			/* of opening */
	struct fm_err err;
	struct fm_job *job;
	bool is_cancelled;
	struct fm_timer progress;
};

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
	task_send(t, fm_api_event_error(t->tasks->tx, FM_API_MSG_MAX, &t->ask->id, err));
}

/* ---- the end ---- */

/* From here on the owner knows nothing of it. */
static void task_detach(struct fm_api_task *t)
{
	if (!t->owner)
		return;
	fm_timer_clear(t->tasks->loop, &t->progress);
	fm_list_del(&t->link);
	t->owner->count--;
	t->owner = NULL;
}

static void task_free(struct fm_api_task *t)
{
	task_detach(t);
	assert(!t->file && t->fd < 0);
	t->tasks->count--;
	free(t->ask);
	free(t);
}

static void task_close_run(struct fm_work *work)
{
	struct fm_api_task *t = fm_container_of(work, struct fm_api_task, work);

	t->file->ops->close(t->file);
	t->file = NULL;
}

static void task_close_done(struct fm_work *work)
{
	task_free(fm_container_of(work, struct fm_api_task, work));
}

/* ---- transfers ---- */

static void task_arm_progress(struct fm_api_task *t)
{
	if (t->ask->progress_ms > 0)
		fm_timer_set(t->tasks->loop, &t->progress,
			     fm_loop_now(t->tasks->loop) + t->ask->progress_ms * FM_NS_PER_MS);
}

static void task_progress(struct fm_timer *timer)
{
	struct fm_api_task *t = fm_container_of(timer, struct fm_api_task, progress);
	struct fm_job_progress p;

	assert(t->owner && t->state == TASK_RUNNING);
	if (!t->owner->is_slow(t->owner->ctx)) {
		fm_job_progress(t->job, &p);
		task_send(t, fm_api_event_progress(t->tasks->tx, FM_API_MSG_MAX, t->ask->id, &p));
	}
	task_arm_progress(t);
}

static void task_job_done(void *ctx, const struct fm_job_result *result)
{
	struct fm_api_task *t = ctx;

	assert(t->state == TASK_RUNNING);
	if (result->code < 0)
		task_send_error(t, &result->err);
	else
		task_send(t, fm_api_event_job(t->tasks->tx, FM_API_MSG_MAX, t->ask->id, result));
	task_free(t);
}

static int task_start_job(struct fm_api_task *t, struct fm_err *err)
{
	static const struct fm_job_events events = { task_job_done };
	const struct fm_api_request *a = t->ask;
	const struct fm_job_opts opts = {
		.is_put = a->op == FM_API_PUT,
		.node = a->node,
		.store = a->store,
		.path = a->path,
		.path_len = a->path_len,
		.file = t->file,
		.attr = t->attr,
		.who = t->owner->who,
		.transport = (enum fm_transport_want)a->transport,
		.durability = (enum fm_durability)a->durability,
		.may_replace = a->is_force,
		.rate_bytes = a->rate_bytes,
		.timeout_ns = a->timeout_ms * FM_NS_PER_MS,
	};

	t->file = NULL;
	return fm_job_start(t->tasks->engine, &opts, &events, t, &t->job, err);
}

/* The file is open, or cannot be; or nobody wants it any more. */
static void task_opened(struct fm_api_task *t)
{
	int ret = t->code;

	assert(t->state == TASK_OPENING);
	if (ret == 0 && !t->owner) {
		t->state = TASK_CLOSING;
		t->work.run = task_close_run;
		t->work.done = task_close_done;
		fm_worker_submit(t->tasks->worker, &t->work, t->tasks->loop);
		return;
	}
	if (ret == 0) {
		t->state = TASK_RUNNING;
		ret = task_start_job(t, &t->err);
	}
	if (ret < 0) {
		task_send_error(t, &t->err);
		task_free(t);
		return;
	}
	if (t->ask->progress_ms > 0)
		task_send(t, fm_api_event_accepted(t->tasks->tx, FM_API_MSG_MAX, t->ask->id));
	task_arm_progress(t);
}

static void task_open_run(struct fm_work *work)
{
	static const struct fm_create how = { .size = FM_SIZE_UNKNOWN };
	struct fm_api_task *t = fm_container_of(work, struct fm_api_task, work);
	const struct fm_api_request *a = t->ask;

	if (a->is_generated)
		t->code = fm_null_source(a->bytes_generated, &t->file, &t->attr, &t->err);
	else if (a->is_discarded)
		t->code = fm_null_sink(&t->file, &t->err);
	else if (a->op == FM_API_PUT)
		t->code = fm_caller_source(t->fd, &t->file, &t->attr, &t->err);
	else
		t->code = fm_caller_sink(t->fd, &how, &t->file, &t->err);
	t->fd = -1;
}

static void task_open_done(struct fm_work *work)
{
	task_opened(fm_container_of(work, struct fm_api_task, work));
}

/* ---- requests ---- */

static void task_request_done(void *ctx, const struct fm_request_result *result)
{
	struct fm_api_task *t = ctx;
	char *tx = t->tasks->tx;
	uint64_t id = t->ask->id;

	assert(t->state == TASK_RUNNING);
	if (result->code < 0)
		task_send_error(t, &result->err);
	else if (t->ask->op == FM_API_STAT)
		task_send(t, fm_api_event_stat(tx, FM_API_MSG_MAX, id, result));
	else if (t->ask->op == FM_API_LIST)
		task_send(t, fm_api_event_list(tx, FM_API_MSG_MAX, id, result));
	else
		task_send(t, fm_api_event_done(tx, FM_API_MSG_MAX, id));
	task_free(t);
}

static enum fm_verb verb_of(enum fm_api_op op)
{
	switch (op) {
	case FM_API_STAT:
		return FM_VERB_STAT;
	case FM_API_LIST:
		return FM_VERB_LIST;
	case FM_API_REMOVE:
		return FM_VERB_REMOVE;
	default:
		assert(op == FM_API_MKDIR);
		return FM_VERB_MKDIR;
	}
}

static int task_start_request(struct fm_api_task *t, struct fm_err *err)
{
	const struct fm_api_request *a = t->ask;
	const struct fm_request_opts opts = {
		.verb = verb_of(a->op),
		.node = a->node[0] ? a->node : NULL,
		.store = a->store,
		.path = a->path,
		.path_len = a->path_len,
		.after = a->after,
		.is_recursive = a->is_recursive,
		.who = t->owner->who,
		.timeout_ns = a->timeout_ms * FM_NS_PER_MS,
	};

	t->state = TASK_RUNNING;
	return fm_request_start(t->tasks->engine, &opts, task_request_done, t, err);
}

/* ---- start and cancel ---- */

static void task_start_transfer(struct fm_api_task *t)
{
	t->state = TASK_OPENING;
	if (t->ask->is_generated || t->ask->is_discarded) {	/* nothing that could block */
		task_open_run(&t->work);
		task_opened(t);
		return;
	}
	t->work.run = task_open_run;
	t->work.done = task_open_done;
	fm_worker_submit(t->tasks->worker, &t->work, t->tasks->loop);
}

int fm_api_task_start(struct fm_api_tasks *tasks, struct fm_api_owner *owner,
		      struct fm_api_request *ask, int fd, struct fm_err *err)
{
	struct fm_api_task *t;
	int ret = 0;

	t = tasks->count < FM_API_TASKS_MAX ? calloc(1, sizeof(*t)) : NULL;
	if (!t) {
		if (fd >= 0)
			(void)close(fd);	/* unused */
		return fm_err_set(err, -EBUSY, "too much under way at this daemon");
	}
	t->tasks = tasks;
	t->owner = owner;
	t->ask = ask;
	t->fd = fd;
	t->progress.fire = task_progress;
	tasks->count++;
	fm_list_append(&owner->tasks, &t->link);
	owner->count++;
	if (fm_api_op_is_transfer(ask->op))
		task_start_transfer(t);
	else
		ret = task_start_request(t, err);
	if (ret < 0) {
		t->ask = NULL;	/* the caller's again */
		task_free(t);
	}
	return ret;
}

static struct fm_api_task *task_find(const struct fm_api_owner *owner, uint64_t id)
{
	fm_list_each(at, next, &owner->tasks) {
		struct fm_api_task *t = fm_container_of(at, struct fm_api_task, link);

		if (t->ask->id == id)
			return t;
	}
	return NULL;
}

bool fm_api_task_is(const struct fm_api_owner *owner, uint64_t id)
{
	return task_find(owner, id) != NULL;
}

/* Once; done() follows, and while there is an owner it sends the event. */
static void task_cancel_job(struct fm_api_task *t, const char *reason)
{
	if (t->state != TASK_RUNNING || !t->job || t->is_cancelled)
		return;
	t->is_cancelled = true;
	fm_job_cancel(t->job, -ECANCELED, reason);
}

int fm_api_task_cancel(struct fm_api_owner *owner, uint64_t id)
{
	struct fm_api_task *t = task_find(owner, id);
	struct fm_err err;

	if (!t || !fm_api_op_is_transfer(t->ask->op))
		return -ENOENT;
	if (t->state == TASK_OPENING) {
		(void)fm_err_set(&err, -ECANCELED, "cancelled");
		task_send_error(t, &err);
		task_detach(t);
	} else {
		task_cancel_job(t, "cancelled");
	}
	return 0;
}

void fm_api_task_abandon(struct fm_api_owner *owner)
{
	fm_list_each(at, next, &owner->tasks) {
		struct fm_api_task *t = fm_container_of(at, struct fm_api_task, link);

		task_cancel_job(t, "its client went away");
		task_detach(t);
	}
	assert(owner->count == 0);
}
