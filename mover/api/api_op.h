/* SPDX-License-Identifier: MIT */
/*
 * api_op - an operation of the local API is a row: its name, its keys, what begins it.
 *
 * Who makes the API hands it the rows (struct fm_api_opts); api_ops.c has those of this folder in a
 * list. Loop thread.
 */
#ifndef FM_API_OP_H
#define FM_API_OP_H

#include <stdbool.h>
#include <stdint.h>

struct fm_api_owner;
struct fm_api_request;
struct fm_api_task;
struct fm_api_tasks;
struct fm_err;
struct fm_holder;

/* In the order of the table in api_request.c, which says their types. */
enum fm_api_key {
	FM_API_KEY_OP,
	FM_API_KEY_ID,
	FM_API_KEY_NODE,
	FM_API_KEY_STORE,
	FM_API_KEY_PATH,
	FM_API_KEY_TRANSPORT,
	FM_API_KEY_DURABILITY,
	FM_API_KEY_FORCE,
	FM_API_KEY_VERIFY,
	FM_API_KEY_HOLD,
	FM_API_KEY_BUFFERED,
	FM_API_KEY_GENERATE,
	FM_API_KEY_DISCARD,
	FM_API_KEY_ACCEPT_CORRUPT,
	FM_API_KEY_LIMIT,
	FM_API_KEY_TIMEOUT_MS,
	FM_API_KEY_PROGRESS_MS,
	FM_API_KEY_DETACH,
	FM_API_KEY_ATTENDED,
	FM_API_KEY_PRIORITY,
	FM_API_KEY_RETRY_MS,
	FM_API_KEY_LOCAL_STORE,
	FM_API_KEY_LOCAL_PATH,
	FM_API_KEY_FILE,
	FM_API_KEY_AFTER,
	FM_API_KEY_RECURSIVE,
	FM_API_KEY_PARTIAL,
	FM_API_KEY_TREE,
	FM_API_KEY_UPDATE,
	FM_API_KEY_DELETE,
	FM_API_KEY_CHECKSUM,
	FM_API_KEY_DRY_RUN,
	FM_API_KEY_NAMES,
	FM_API_KEY_TREE_BYTES,
	FM_API_KEY_DEV,
	FM_API_KEY_INO,
	FM_API_KEY_EXCLUDE,
	FM_API_KEY_JOB,
	FM_API_KEY_CODE,
	FM_API_KEY_TEXT,
	FM_API_KEY_KEEP,
	FM_API_KEY_ALL,
	FM_API_KEY_SEQ,
	FM_API_KEY_NAME,
	FM_API_KEY_PIN,
	FM_API_KEY_PID,
	FM_API_KEY_CHECK,
	FM_API_KEY_NODES,
	FM_API_KEY_TO,
	FM_API_KEY_RANGES,
	FM_API_KEY_WHOLE_BLOCKS,
	FM_API_KEY_DEVICE,
	FM_API_KEY_LOCAL,
	FM_API_KEY_REMOTE,
	FM_API_KEY_CONNECTIONS,
	FM_API_KEY_GROUP,
	FM_API_KEY_MEMBERS,
	FM_API_KEY_EXPECT,
	FM_API_KEY_EXPIRES_MS,
	FM_API_KEY_CHECK_ONLY,
	FM_API_KEY_KEEP_LAST,
	FM_API_KEY_LATER,
	FM_API_KEY_BUFFER,
	FM_API_KEY_BYTES,
	FM_API_KEY_COUNT,
};

#define FM_API_KEY(x) (UINT64_C(1) << FM_API_KEY_##x)
_Static_assert(FM_API_KEY_COUNT <= 64, "a bit for every key");

/* What its "job" is. */
enum fm_api_job {
	FM_API_JOB_ID,			/* a text: the id of any job */
	FM_API_JOB_REQUEST,		/* the number of a request of this connection */
	FM_API_JOB_EITHER,
};

/* One request, and who asks. */
struct fm_api_call {
	struct fm_api_tasks *tasks;
	struct fm_api_owner *owner;
	const struct fm_api_request *ask;
	int *fds;			/* FM_API_FDS_MAX, -1 behind the last; taken: set to -1 */
	struct fm_holder *holder;	/* who has them; NULL: we do */
};

/*
 * Of answer() and start() it has one; or both, if it may have to wait: answer() goes on with
 * fm_api_task_start() then. An error that either returns is the answer. The other functions may be
 * NULL.
 */
struct fm_api_op {
	const char *name;
	uint64_t takes;			/* keys beside "op" and "id", as bits ... */
	uint64_t needs;			/* ... and without which it is refused */
	enum fm_api_job job;
	/* How many descriptors come with it, least and most. NULL: none. */
	void (*fds)(const struct fm_api_request *ask, unsigned *least, unsigned *most);
	/* What the table of keys cannot check. */
	int (*check)(const struct fm_api_request *ask, struct fm_err *err);

	/* Answers at once. */
	int (*answer)(const struct fm_api_call *call, struct fm_err *err);
	/* Takes its time: *task sends what there is to say, and ends with fm_api_task_free(). */
	int (*start)(struct fm_api_task *task, const struct fm_api_call *call, struct fm_err *err);
	/* "cancel". NULL: it cannot be. */
	void (*cancel)(struct fm_api_task *task, bool is_kept);
	/* Its client is gone. NULL: it goes on, and what it says is dropped. */
	void (*abandon)(struct fm_api_task *task);
};

/* Those of this folder, NULL-terminated. */
extern const struct fm_api_op *const fm_api_ops[];

#endif
