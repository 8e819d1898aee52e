/* SPDX-License-Identifier: MIT */
/*
 * api_task - one request of a client that takes its time: a transfer, waiting for a job, or a
 * request about a store.
 *
 * The task of a request about a store, or of a verification, outlives its client, and ends by
 * itself when the engine is through with it; those of transfers are the queue's affair and end with
 * their client. Loop thread.
 */
#ifndef FM_API_TASK_H
#define FM_API_TASK_H

#include <stddef.h>

#include "mover/api/api_limits.h"
#include "mover/api/api_op.h"
#include "mover/api/api_request.h"
#include "mover/base/list.h"
#include "mover/base/loop.h"
#include "mover/base/share.h"
#include "mover/queue/queue.h"

struct fm_engine;
struct fm_holder;
struct fm_loop;

/* a file, and of a get its journal; a tree: its memory and sockets */
#define FM_API_TASK_FDS FM_API_FDS_MAX
#define FM_API_TASK_BYTES_MAX 512	/* of one, whatever was asked */

/* What all tasks of one server share. */
struct fm_api_tasks {
	struct fm_loop *loop;
	struct fm_engine *engine;
	struct fm_queue *queue;
	const char *node;		/* our name */
	char *tx;			/* FM_API_MSG_MAX, for writing events */
	const struct fm_list *doors;	/* struct fm_api_door */
	struct fm_share places;		/* of those that have not ended */
	struct fm_share buffer_bytes;
	struct fm_list buffers;		/* api_buffer.c's */
};

/* Whose tasks they are. */
struct fm_api_owner {
	void (*send)(void *ctx, const char *text, size_t len);
	bool (*is_slow)(void *ctx);	/* progress is not worth sending now */
	void *ctx;
	struct fm_who who;
	struct fm_list tasks;
	unsigned count;
	struct fm_list buffers;		/* api_buffer.c's */
};

struct fm_api_task {
	struct fm_list link;		/* of owner->tasks */
	struct fm_api_tasks *tasks;
	struct fm_api_owner *owner;	/* NULL: nobody is told any more */
	struct fm_share_held place;	/* its user's, also when nobody is told any more */
	uint64_t id;			/* of its request: the rest is with who carries it out */
	const struct fm_api_op *op;
	uint64_t progress_ms;
	void *work;			/* the operation's own: what it has under way; NULL: none */
	void (*work_forget)(struct fm_api_task *t);	/* freed before that is over; may be NULL */
	/* Of transfers, and of waiting for one: */
	bool is_detached;
	bool is_attended;
	bool is_held;
	bool is_prepared;		/* a put that is held, an attended get: may be committed */
	struct fm_queue_watch watch;
	struct fm_timer progress;
	struct fm_timer named;		/* names wait until the client is not slow any more */
};

/* What was written to tasks->tx is the answer. */
void fm_api_answer(const struct fm_api_call *call, int len);

/*
 * Carry out an operation that takes its time. The answer goes to owner->send. An error returned
 * here has been answered to nobody.
 */
int fm_api_task_start(const struct fm_api_call *call, struct fm_err *err);

/* For operations: what was written to tasks->tx goes to the client, if that is still there. */
void fm_api_task_send(struct fm_api_task *task, int len);
void fm_api_task_send_error(struct fm_api_task *task, const struct fm_err *err);

/*
 * If the client wants progress: tells it the job that this is logged under, and calls fire at
 * t->progress, which is to set that timer again, when the first event is due.
 */
void fm_api_task_begin_progress(struct fm_api_task *task, void (*fire)(struct fm_timer *timer),
				const char *job);

/* From here on the client knows nothing of it. */
void fm_api_task_detach(struct fm_api_task *task);

/* It is over. */
void fm_api_task_free(struct fm_api_task *task);

/*
 * End the transfer or verification with this id, or the waiting for a job; its own event follows.
 * is_kept: what came stays for the next try. -ENOENT.
 */
int fm_api_task_cancel(struct fm_api_owner *owner, uint64_t id, bool is_kept);

/*
 * Let the put with this id, which is held, have its name; or hear that the client gave it to what
 * an attended get received, or (why) that it could not. -ENOENT, -EAGAIN: it is not prepared yet.
 */
int fm_api_task_commit(struct fm_api_owner *owner, uint64_t id, const struct fm_err *why);

/* Whether a task of this id is under way. */
bool fm_api_task_is(const struct fm_api_owner *owner, uint64_t id);

/* The owner goes away: cancel all of its tasks; nothing is sent any more. */
void fm_api_task_abandon(struct fm_api_owner *owner);

#endif
