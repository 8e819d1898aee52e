/* SPDX-License-Identifier: MIT */
/* libfmove_op - see ops.h, and fmove.h. */
#include "client/lib/libfmove_request.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "mover/base/err.h"

enum op_state { OP_QUEUED, OP_RUNNING, OP_OVER };

struct fmove_op {
	struct fmove *c;
	int (*call)(struct fmove *c, void *ctx, struct fmove_error *err);
	void *ctx;
	int fd; /* readable: it is over */
	enum op_state state;
	bool is_cancelled;
	int cancel_fd; /* OP_RUNNING: of its thread */
	int ret;
	struct fmove_error err;
	struct fm_list in_all, in_queue;
	pthread_cond_t ended;
};

struct op_thread {
	struct fmove *c;
	pthread_t id;
	int cancel_fd;
	bool is_over;
	struct fm_list in_threads;
};

/* Of the op that this thread runs. */
static _Thread_local int current_cancel_fd = -1;

int fm_op_cancel_fd(void)
{
	return current_cancel_fd;
}

void fm_ops_init(struct fm_ops *ops)
{
	*ops = (struct fm_ops){.count = 0};
	fm_list_init(&ops->all);
	fm_list_init(&ops->queue);
	fm_list_init(&ops->threads);
}

static void lock(struct fmove *c)
{
	pthread_mutex_lock(&c->connections.lock);
}

static void unlock(struct fmove *c)
{
	pthread_mutex_unlock(&c->connections.lock);
}

/* Makes an eventfd readable. It cannot fail: nobody counts it up to its end. */
static void tell(int fd)
{
	static const uint64_t one = 1;

	(void)!write(fd, &one, sizeof(one));
}

/* ---- running, under the lock unless said ---- */

static void op_end(struct fmove_op *op, int ret)
{
	op->state = OP_OVER;
	op->ret = ret;
	if (ret < 0 && op->err.code == 0)
		(void)fm_lib_fail(&op->err, ret, "%s", fm_err_name(ret));
	tell(op->fd);
	pthread_cond_broadcast(&op->ended);
}

static struct fmove_op *op_next(struct op_thread *t)
{
	struct fm_list *at = fm_list_pop(&t->c->ops.queue);
	struct fmove_op *op;

	if (!at)
		return NULL;
	op = fm_container_of(at, struct fmove_op, in_queue);
	op->state = OP_RUNNING;
	op->cancel_fd = t->cancel_fd;
	return op;
}

/* Without the lock for as long as the call takes. False: it came back in a child. */
static bool op_run(struct op_thread *t, struct fmove_op *op)
{
	uint64_t count;
	int ret;

	unlock(t->c);
	current_cancel_fd = t->cancel_fd;
	ret = op->call(t->c, op->ctx, &op->err);
	if (current_cancel_fd < 0)
		return false;
	current_cancel_fd = -1;
	lock(t->c);
	if (op->is_cancelled)
		(void)!read(t->cancel_fd, &count, sizeof(count)); /* for the next op */
	op_end(op, ret);
	return true;
}

static void *thread_main(void *arg)
{
	struct op_thread *t = arg;
	struct fmove_op *op;

	lock(t->c);
	while ((op = op_next(t)))
		if (!op_run(t, op))
			return NULL;
	t->is_over = true;
	t->c->ops.running--;
	unlock(t->c);
	return NULL;
}

/* Signals are for the threads of the program. */
static int thread_create(struct op_thread *t)
{
	sigset_t all, saved;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	ret = pthread_create(&t->id, NULL, thread_main, t);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	return -ret;
}

static void thread_join(struct op_thread *t)
{
	(void)pthread_join(t->id, NULL);
	(void)close(t->cancel_fd);
	fm_list_del(&t->in_threads);
	free(t);
}

/* Joins those that have ended: they need the lock no more. */
static void threads_join_ended(struct fm_ops *ops)
{
	fm_list_each(at, next, &ops->threads) {
		struct op_thread *t = fm_container_of(at, struct op_thread, in_threads);

		if (t->is_over)
			thread_join(t);
	}
}

static int thread_start(struct fmove *c)
{
	struct op_thread *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return -ENOMEM;
	t->c = c;
	t->cancel_fd = eventfd(0, EFD_CLOEXEC);
	ret = t->cancel_fd < 0 ? -errno : thread_create(t);
	if (ret < 0) {
		if (t->cancel_fd >= 0)
			(void)close(t->cancel_fd); /* unused */
		free(t);
		return ret;
	}
	fm_list_append(&c->ops.threads, &t->in_threads);
	c->ops.running++;
	return 0;
}

/* Queues it. Without a new thread it waits for one of those that there are. */
static int op_queue(struct fmove *c, struct fmove_op *op)
{
	int ret;

	if (c->ops.count >= FMOVE_OPS_MAX)
		return -EBUSY;
	threads_join_ended(&c->ops);
	ret = c->ops.running < FMOVE_CALLS_MAX ? thread_start(c) : 0;
	if (ret < 0 && c->ops.running == 0)
		return ret;
	fm_list_append(&c->ops.all, &op->in_all);
	fm_list_append(&c->ops.queue, &op->in_queue);
	c->ops.count++;
	return 0;
}

/* ---- for the caller ---- */

static void op_destroy(struct fmove_op *op)
{
	if (op->fd >= 0)
		(void)close(op->fd);
	(void)pthread_cond_destroy(&op->ended);
	free(op);
}

static int fail_start(struct fmove_error *err, int code)
{
	(void)fm_lib_fail(err, code, "start a call: %s", fm_err_name(code));
	if (err)
		err->is_full = code == -EBUSY || code == -EMFILE || code == -EAGAIN;
	return code;
}

int fmove_op_start(struct fmove *c,
		   int (*call)(struct fmove *c, void *ctx, struct fmove_error *err), void *ctx,
		   struct fmove_op **out, struct fmove_error *err)
{
	struct fmove_op *op = calloc(1, sizeof(*op));
	int ret;

	if (!op)
		return fail_start(err, -ENOMEM);
	*op = (struct fmove_op){.c = c, .call = call, .ctx = ctx, .cancel_fd = -1};
	(void)pthread_cond_init(&op->ended, NULL); /* cannot fail without attributes */
	op->fd = eventfd(0, EFD_CLOEXEC);
	ret = op->fd < 0 ? -errno : 0;
	if (ret == 0) {
		lock(c);
		ret = op_queue(c, op);
		unlock(c);
	}
	if (ret < 0) {
		op_destroy(op);
		return fail_start(err, ret);
	}
	*out = op;
	return 0;
}

int fmove_op_fd(const struct fmove_op *op)
{
	return op->fd;
}

static void op_cancel(struct fmove_op *op)
{
	if (op->state == OP_QUEUED) {
		fm_list_del(&op->in_queue);
		op_end(op, fm_lib_fail(&op->err, -ECANCELED, "cancelled"));
	} else if (op->state == OP_RUNNING && !op->is_cancelled) {
		op->is_cancelled = true;
		tell(op->cancel_fd);
	}
}

void fmove_op_cancel(struct fmove_op *op)
{
	lock(op->c);
	op_cancel(op);
	unlock(op->c);
}

int fmove_op_result(struct fmove_op *op, struct fmove_error *err)
{
	struct fmove *c = op->c;
	int ret;

	lock(c);
	while (op->state != OP_OVER)
		pthread_cond_wait(&op->ended, &c->connections.lock);
	ret = op->ret;
	if (ret < 0 && err)
		*err = op->err;
	unlock(c);
	return ret;
}

void fmove_op_free(struct fmove_op *op)
{
	if (!op)
		return;
	fmove_op_cancel(op);
	(void)fmove_op_result(op, NULL); /* nobody wants to know */
	lock(op->c);
	fm_list_del(&op->in_all);
	op->c->ops.count--;
	unlock(op->c);
	op_destroy(op);
}

/* ---- the end of a handle, and fork() ---- */

void fm_ops_close(struct fmove *c)
{
	lock(c);
	fm_list_each(at, next, &c->ops.all)
		op_cancel(fm_container_of(at, struct fmove_op, in_all));
	unlock(c);
	while (!fm_list_is_empty(&c->ops.all))
		fmove_op_free(fm_container_of(c->ops.all.next, struct fmove_op, in_all));
	fm_list_each(at, next, &c->ops.threads)
		thread_join(fm_container_of(at, struct op_thread, in_threads));
}

/*
 * The eventfd of an op that goes on is the parent's, too, who is not to be told anything: another
 * one gets its number, or none if there is none.
 */
static void op_forked(struct fmove_op *op)
{
	int fd;

	(void)pthread_cond_init(&op->ended, NULL); /* whoever waited is not here */
	if (op->state == OP_OVER)
		return;
	fd = eventfd(0, EFD_CLOEXEC);
	if (fd < 0 || dup3(fd, op->fd, O_CLOEXEC) < 0) {
		(void)close(op->fd);
		op->fd = -1;
	}
	if (fd >= 0)
		(void)close(fd);
	fm_list_del(&op->in_queue);
	op_end(op, fm_lib_fail_forked(&op->err));
}

/* The threads are not here. What they had in memory stays: this may be one of them. */
void fm_ops_forked(struct fmove *c)
{
	fm_list_each(at, next, &c->ops.all)
		op_forked(fm_container_of(at, struct fmove_op, in_all));
	fm_list_each(thread, next, &c->ops.threads)
		(void)close(fm_container_of(thread, struct op_thread, in_threads)->cancel_fd);
	fm_list_init(&c->ops.threads);
	c->ops.running = 0;
	current_cancel_fd = -1;
}
