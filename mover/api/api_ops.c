/* SPDX-License-Identifier: MIT */
/* api_ops - the operations of the local API, and those of them that are short. See api_op.h. */
#include "mover/api/api_op.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>

#include "mover/api/api.h"
#include "mover/api/api_event.h"
#include "mover/api/api_rows.h"
#include "mover/api/api_task.h"
#include "mover/base/err.h"
#include "mover/base/env.h"
#include "mover/base/exit_code.h"
#include "mover/base/holder.h"

static int answer_done(const struct fm_api_call *call)
{
	fm_api_answer(call, fm_api_event_done(call->tasks->tx, FM_API_MSG_MAX, call->ask->id));
	return 0;
}

static int ping(const struct fm_api_call *call, struct fm_err *err)
{
	(void)err;
	fm_api_answer(call, fm_api_event_pong(call->tasks->tx, FM_API_MSG_MAX, call->ask->id,
					      call->tasks->node));
	return 0;
}

static int cancel_job(const struct fm_api_call *call, struct fm_queue_watch *watch,
		      struct fm_err *err)
{
	const struct fm_api_request *ask = call->ask;

	return fm_queue_cancel(call->tasks->queue, ask->job_id, call->owner->who.uid, ask->is_kept,
			       watch, err);
}

/* That it is cancelled is written down, or cannot be. */
static void cancel_said(struct fm_queue_watch *watch, const struct fm_job_result *result)
{
	struct fm_api_task *t = fm_container_of(watch, struct fm_api_task, watch);

	if (result->code < 0)
		fm_api_task_send_error(t, &result->err);
	else
		fm_api_task_send(t, fm_api_event_done(t->tasks->tx, FM_API_MSG_MAX, t->id));
	fm_api_task_free(t);
}

/* Cancelled it is already: waits until no later fmoved can begin it again. */
static int start_cancel(struct fm_api_task *t, const struct fm_api_call *call, struct fm_err *err)
{
	static const struct fm_queue_events events = { .done = cancel_said };
	int ret;

	t->watch.events = &events;
	ret = cancel_job(call, &t->watch, err);
	if (ret == 0) {
		(void)answer_done(call);
		fm_api_task_free(t);
	}
	return ret < 0 ? ret : 0;
}

static int cancel(const struct fm_api_call *call, struct fm_err *err)
{
	const struct fm_api_request *ask = call->ask;
	int ret = 0;

	if (ask->job_id[0])
		ret = cancel_job(call, NULL, err);
	else if (fm_api_task_cancel(call->owner, ask->job, ask->is_kept) < 0)
		ret = fm_err_set(err, -ENOENT,
				 "cancel: no transfer with the id %" PRIu64 " on this connection",
				 ask->job);
	if (ret == 1) {
		ret = fm_api_task_start(call, err);
		if (ret < 0)
			fm_err_wrap(err, "job %s is cancelled, but whether that is written down is "
				    "not known", ask->job_id);
		return ret;
	}
	return ret < 0 ? ret : answer_done(call);
}

static int commit(const struct fm_api_call *call, struct fm_err *err)
{
	const struct fm_api_request *ask = call->ask;
	struct fm_err why = { .code = 0 };
	int ret;

	if (ask->error_code[0])
		(void)fm_err_set(&why, fm_api_errno(ask->error_code), "%s", ask->file);
	ret = fm_api_task_commit(call->owner, ask->job, why.code < 0 ? &why : NULL);
	if (ret == -ENOENT)
		return fm_err_set(err, ret,
				  "commit: no put with \"hold\" and no attended get has the id "
				  "%" PRIu64 " on this connection", ask->job);
	if (ret < 0)
		return fm_err_set(err, ret, "commit: %" PRIu64 " is not prepared yet", ask->job);
	return answer_done(call);
}

static void resume_fds(const struct fm_api_request *ask, unsigned *least, unsigned *most)
{
	(void)ask;
	*least = 0;
	*most = 1;
}

static int resume(const struct fm_api_call *call, struct fm_err *err)
{
	int fd = call->fds[0], ret;

	call->fds[0] = -1;	/* taken over */
	ret = fm_queue_resume(call->tasks->queue, call->ask->job_id, call->owner->who.uid, fd,
			      fd >= 0 ? fm_holder_ref(call->holder) : NULL, err);
	return ret < 0 ? ret : answer_done(call);
}

static const struct fm_api_op op_ping = { .name = "ping", .answer = ping };
static const struct fm_api_op op_cancel = {
	.name = "cancel",
	.takes = FM_API_KEY(KEEP),
	.needs = FM_API_KEY(JOB),
	.job = FM_API_JOB_EITHER,
	.answer = cancel,
	.start = start_cancel,
	.abandon = fm_api_task_free,
};
static const struct fm_api_op op_commit = {
	.name = "commit",
	.takes = FM_API_KEY(CODE) | FM_API_KEY(TEXT),
	.needs = FM_API_KEY(JOB),
	.job = FM_API_JOB_REQUEST,
	.answer = commit,
};
static const struct fm_api_op op_resume = {
	.name = "resume",
	.needs = FM_API_KEY(JOB),
	.fds = resume_fds,
	.answer = resume,
};

const struct fm_api_op *const fm_api_ops[] = {
	&op_ping,
	&op_cancel,
	&op_commit,
	&op_resume,
	&fm_api_put,
	&fm_api_get,
	&fm_api_wait,
	&fm_api_buffer,
	&fm_api_buffer_free,
	&fm_api_stat,
	&fm_api_look,
	&fm_api_list,
	&fm_api_remove,
	&fm_api_mkdir,
	&fm_api_move,
	&fm_api_link,
	&fm_api_group_begin,
	&fm_api_group_commit,
	&fm_api_group_discard,
	&fm_api_group_list,
	&fm_api_space,
	&fm_api_purge,
	&fm_api_verify,
	&fm_api_volumes,
	&fm_api_facts,
	&fm_api_jobs,
	&fm_api_status,
	NULL,
};
