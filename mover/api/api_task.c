/* SPDX-License-Identifier: MIT */
/* api_task - see api_task.h. */
#include "mover/api/api_task.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "mover/api/api_limits.h"
#include "mover/api/api_event.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/loop.h"

_Static_assert(sizeof(struct fm_api_task) <= FM_API_TASK_BYTES_MAX, "many of them are held");

/* ---- events ---- */

void fm_api_answer(const struct fm_api_call *call, int len)
{
	/* Every event has a limit below FM_API_MSG_MAX by construction. */
	assert(len > 0);
	call->owner->send(call->owner->ctx, call->tasks->tx, (size_t)len);
}

void fm_api_task_send(struct fm_api_task *t, int len)
{
	assert(len > 0);
	if (t->owner)
		t->owner->send(t->owner->ctx, t->tasks->tx, (size_t)len);
}

void fm_api_task_send_error(struct fm_api_task *t, const struct fm_err *err)
{
	fm_api_task_send(t, fm_api_event_error(t->tasks->tx, FM_API_MSG_MAX, &t->id, err));
}

void fm_api_task_begin_progress(struct fm_api_task *t, void (*fire)(struct fm_timer *timer),
				const char *job)
{
	t->progress.fire = fire;
	if (t->progress_ms == 0)
		return;
	fm_api_task_send(t, fm_api_event_accepted(t->tasks->tx, FM_API_MSG_MAX, t->id, job));
	fm_timer_set(t->tasks->loop, &t->progress,
		     fm_loop_now(t->tasks->loop) + t->progress_ms * FM_NS_PER_MS);
}

/* ---- the end ---- */

void fm_api_task_detach(struct fm_api_task *t)
{
	if (!t->owner)
		return;
	fm_timer_clear(t->tasks->loop, &t->progress);
	fm_timer_clear(t->tasks->loop, &t->named);
	fm_list_del(&t->link);
	t->owner->count--;
	t->owner = NULL;
}

void fm_api_task_free(struct fm_api_task *t)
{
	fm_api_task_detach(t);
	if (t->work && t->work_forget)
		t->work_forget(t);
	fm_queue_unwatch(&t->watch);
	fm_share_give_all(&t->place);
	free(t);
}

/* ---- start and cancel ---- */

int fm_api_task_start(const struct fm_api_call *call, struct fm_err *err)
{
	const struct fm_api_request *ask = call->ask;
	struct fm_api_owner *owner = call->owner;
	struct fm_share_held place = { 0 };
	struct fm_api_task *t = NULL;
	int ret;

	ret = fm_share_take(&call->tasks->places, fm_share_user(owner->who.uid), 1, &place, err);
	if (ret == 0)
		t = FM_FAULT("api.task") ? NULL : calloc(1, sizeof(*t));
	if (!t) {
		fm_share_give_all(&place);
		return ret < 0 ? ret : fm_err_set(err, -ENOMEM, "no memory for a request");
	}
	t->place = place;
	t->tasks = call->tasks;
	t->owner = owner;
	t->id = ask->id;
	t->op = ask->op;
	t->progress_ms = ask->progress_ms;
	fm_list_append(&owner->tasks, &t->link);
	owner->count++;
	ret = t->op->start(t, call, err);
	if (ret < 0)
		fm_api_task_free(t);
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

	if (!t || !t->op->cancel)
		return -ENOENT;
	t->op->cancel(t, is_kept);
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

		if (t->op->abandon)
			t->op->abandon(t);
		else
			fm_api_task_detach(t);
	}
	assert(owner->count == 0);
}
