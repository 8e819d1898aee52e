/* SPDX-License-Identifier: MIT */
/* api_buffer - see api_buffer.h. */
#include "mover/api/api_buffer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "mover/api/api_event.h"
#include "mover/api/api_limits.h"
#include "mover/api/api_request.h"
#include "mover/api/api_rows.h"
#include "mover/api/api_task.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/holder.h"
#include "mover/base/loop.h"
#include "mover/base/worker.h"
#include "mover/store/buffer.h"

/* One that a client has. */
struct entry {
	struct fm_list at;		/* owner->buffers */
	struct fm_list all_at;		/* tasks->buffers */
	uint64_t number;
	uid_t uid;
	struct fm_buffer *buffer;	/* a reference */
};

void fm_api_buffers_init(struct fm_api_tasks *tasks, uint64_t bytes_max)
{
	const struct fm_share_limits limits = {"bytes of buffers (memory.buffers)", bytes_max,
					       bytes_max / 8, 0, 7};

	fm_share_init(&tasks->buffer_bytes, &limits);
	fm_list_init(&tasks->buffers);
}

static struct entry *find(const struct fm_api_tasks *tasks, uid_t uid, uint64_t number,
			  struct fm_err *err)
{
	fm_list_each(at, next, &tasks->buffers) {
		struct entry *e = fm_container_of(at, struct entry, all_at);

		if (e->number == number && e->uid == uid)
			return e;
	}
	(void)fm_err_set(err, -EBADF, "you have no buffer %" PRIu64, number);
	return NULL;
}

static void forget(struct entry *e)
{
	fm_list_del(&e->at);
	fm_list_del(&e->all_at);
	fm_buffer_unref(e->buffer);
	free(e);
}

void fm_api_buffers_drop(struct fm_api_owner *owner)
{
	fm_list_each(at, next, &owner->buffers)
		forget(fm_container_of(at, struct entry, at));
}

int fm_api_buffer_file(const struct fm_api_task *t, const struct fm_api_request *ask,
		       struct fm_file **out, struct fm_attr *attr, struct fm_err *err)
{
	const struct entry *e =
		find(t->tasks, t->owner->who.uid, ask->buffer.number, err);
	uint64_t len = ask->buffer.len;

	if (!e)
		return err->code;
	if (ask->buffer.is_whole)
		len = fm_buffer_bytes(e->buffer);
	if (ask->op == &fm_api_put)
		return fm_buffer_source(e->buffer, ask->buffer.offset, len, out, attr, err);
	return fm_buffer_sink(e->buffer, ask->buffer.offset, len, out, err);
}

/* ---- a new one ---- */

struct making {
	struct fm_work work;
	struct fm_api_task *task;
	struct fm_buffer_opts opts;
	struct fm_share_held held;
	struct fm_buffer *buffer;
	int ret;
	struct fm_err err;
};

static void make_run(struct fm_work *work)
{
	struct making *m = fm_container_of(work, struct making, work);

	m->ret = fm_buffer_map(&m->opts, &m->buffer, &m->err);
	close(m->opts.fd);
}

/* Not 0, and what every language's numbers hold exactly. */
static uint64_t new_number(void)
{
	uint64_t number;

	fm_random_real.fill(fm_random_real.ctx, &number, sizeof(number));
	return number % FM_API_ID_MAX + 1;
}

/* Its client has it from here on. */
static int take(struct making *m, struct fm_err *err)
{
	struct fm_api_task *t = m->task;
	struct entry *e;

	if (m->ret < 0) {
		*err = m->err;
		fm_share_give_all(&m->held);
		return m->ret;
	}
	fm_buffer_charge(m->buffer, &m->held);
	e = t->owner && !FM_FAULT("api.buffer") ? malloc(sizeof(*e)) : NULL;
	if (!e) {
		fm_buffer_unref(m->buffer);
		return fm_err_set(err, -ENOMEM, "no memory for a buffer");
	}
	*e = (struct entry){
		.number = new_number(), .uid = t->owner->who.uid, .buffer = m->buffer};
	fm_list_append(&t->owner->buffers, &e->at);
	fm_list_append(&t->tasks->buffers, &e->all_at);
	fm_api_task_send(t, fm_api_event_buffer(t->tasks->tx, FM_API_MSG_MAX, t->id, e->number));
	return 0;
}

static void make_done(struct fm_work *work)
{
	struct making *m = fm_container_of(work, struct making, work);
	struct fm_err err;

	if (take(m, &err) < 0)
		fm_api_task_send_error(m->task, &err);
	fm_api_task_free(m->task);
	fm_holder_put(m->opts.holder);
	free(m);
}

/* What a buffer counts for: small ones cost a mapping each, of which a process has not many. */
static uint64_t cost_of(const struct fm_api_tasks *tasks, uint64_t bytes)
{
	uint64_t least = tasks->buffer_bytes.limits.total / FM_API_BUFFERS_MAX;

	return bytes > least ? bytes : least;
}

static int start_buffer(struct fm_api_task *t, const struct fm_api_call *call, struct fm_err *err)
{
	struct making *m = FM_FAULT("api.making") ? NULL : calloc(1, sizeof(*m));
	uint64_t cost = cost_of(t->tasks, call->ask->bytes);
	int ret;

	if (!m)
		return fm_err_set(err, -ENOMEM, "no memory for a request");
	ret = fm_share_take(&t->tasks->buffer_bytes, fm_share_user(t->owner->who.uid), cost,
			    &m->held, err);
	if (ret < 0) {
		free(m);
		return ret;
	}
	m->work.run = make_run;
	m->work.done = make_done;
	m->task = t;
	m->opts = (struct fm_buffer_opts){.fd = call->fds[0],
					  .bytes = call->ask->bytes,
					  .uid = t->owner->who.uid,
					  .holder = fm_holder_ref(call->holder)};
	call->fds[0] = -1;	/* taken over */
	if (call->holder) {
		fm_holder_work(call->holder, &m->work);
		return 0;
	}
	make_run(&m->work);
	make_done(&m->work);
	return 0;
}

static void one_fd(const struct fm_api_request *ask, unsigned *least, unsigned *most)
{
	(void)ask;
	*least = *most = 1;
}

const struct fm_api_op fm_api_buffer = {
	.name = "buffer",
	.needs = FM_API_KEY(BYTES),
	.fds = one_fd,
	.start = start_buffer,
};

/* ---- given back ---- */

static int answer_free(const struct fm_api_call *call, struct fm_err *err)
{
	struct entry *e =
		find(call->tasks, call->owner->who.uid, call->ask->buffer.number, err);

	if (!e)
		return err->code;
	forget(e);
	fm_api_answer(call, fm_api_event_done(call->tasks->tx, FM_API_MSG_MAX, call->ask->id));
	return 0;
}

static int check_free(const struct fm_api_request *ask, struct fm_err *err)
{
	if (ask->buffer.is_whole)
		return 0;
	return fm_err_set(err, -EINVAL, "buffer_free takes all of a \"buffer\": [NUMBER]");
}

const struct fm_api_op fm_api_buffer_free = {
	.name = "buffer_free",
	.needs = FM_API_KEY(BUFFER),
	.check = check_free,
	.answer = answer_free,
};
