/* SPDX-License-Identifier: MIT */
/*
 * api_task - one request of a client while the engine works on it: from the opening of its
 * descriptor to its last event.
 *
 * A task outlives its client: whoever goes away (or cancels) has its answer or none, and the task
 * ends by itself when the engine and the worker are through with it. Loop thread.
 */
#ifndef FM_API_TASK_H
#define FM_API_TASK_H

#include <stddef.h>

#include "mover/api_request.h"
#include "mover/base/list.h"

struct fm_api_task;
struct fm_engine;
struct fm_loop;
struct fm_worker;

/* of one server: what the engine itself could take */
#define FM_API_TASKS_MAX (FM_JOBS_MAX + FM_REQUESTS_MAX)

/* What all tasks of one server share. */
struct fm_api_tasks {
	struct fm_loop *loop;
	struct fm_engine *engine;
	struct fm_worker *worker;
	char *tx;			/* FM_API_MSG_MAX, for writing events */
	unsigned count;			/* that have not ended */
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
 * Carry out *ask, whose memory (malloc) is taken over on success; its fd (or -1) is taken over in
 * any case. The answer goes to owner->send. An error returned here has been answered to nobody.
 */
int fm_api_task_start(struct fm_api_tasks *tasks, struct fm_api_owner *owner,
		      struct fm_api_request *ask, int fd, struct fm_err *err);

/* End the transfer with this id; its own event follows. -ENOENT. */
int fm_api_task_cancel(struct fm_api_owner *owner, uint64_t id);

/* Whether a task of this id is under way. */
bool fm_api_task_is(const struct fm_api_owner *owner, uint64_t id);

/* The owner goes away: cancel all of its tasks; nothing is sent any more. */
void fm_api_task_abandon(struct fm_api_owner *owner);

#endif
