/* SPDX-License-Identifier: MIT */
/*
 * api_task - one request of a client that takes its time: a transfer, waiting for a job, or a
 * request about a store.
 *
 * The task of a request about a store, or of a verification, outlives its client, and ends by itself when the engine
 * is through with it; those of transfers are the queue's affair and end with their client. Loop thread.
 */
#ifndef FM_API_TASK_H
#define FM_API_TASK_H

#include <stddef.h>

#include "mover/api/api.h"
#include "mover/api/api_request.h"
#include "mover/base/list.h"
#include "mover/base/share.h"

struct fm_api_task;
struct fm_engine;
struct fm_holder;
struct fm_loop;
struct fm_queue;

#define FM_API_TASK_FDS FM_API_FDS_MAX	/* a file, and of a get its journal; a tree: its memory and sockets */
#define FM_API_TASK_BYTES_MAX 512	/* of one, whatever was asked */

/* What all tasks of one server share. */
struct fm_api_tasks {
	struct fm_loop *loop;
	struct fm_engine *engine;
	struct fm_queue *queue;
	char *tx;			/* FM_API_MSG_MAX, for writing events */
	struct fm_share places;		/* of those that have not ended */
};

/* Whose tasks they are. */
struct fm_api_owner {
	void (*send)(void *ctx, const char *text, size_t len);
	bool (*is_slow)(void *ctx);	/* progress is not worth sending now */
	void *ctx;
	struct fm_who who;
	struct fm_list tasks;
	unsigned count;
};

/*
 * Carry out *ask, of which what is needed later is copied; its descriptors (or -1), which holder has (NULL: they are ours), are taken
 * over in any case. The answer goes to owner->send. An error returned here has been answered to nobody.
 */
int fm_api_task_start(struct fm_api_tasks *tasks, struct fm_api_owner *owner,
		      const struct fm_api_request *ask, const int fds[FM_API_TASK_FDS], struct fm_holder *holder, struct fm_err *err);

/*
 * End the transfer or verification with this id, or the waiting for a job; its own event follows. is_kept: what
 * came stays for the next try. -ENOENT.
 */
int fm_api_task_cancel(struct fm_api_owner *owner, uint64_t id, bool is_kept);

/*
 * Let the put with this id, which is held, have its name; or hear that the client gave it to what an attended get received, or
 * (why) that it could not. -ENOENT, -EAGAIN: it is not prepared yet.
 */
int fm_api_task_commit(struct fm_api_owner *owner, uint64_t id, const struct fm_err *why);

/* Whether a task of this id is under way. */
bool fm_api_task_is(const struct fm_api_owner *owner, uint64_t id);

/* The owner goes away: cancel all of its tasks; nothing is sent any more. */
void fm_api_task_abandon(struct fm_api_owner *owner);

#endif
