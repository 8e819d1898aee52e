/* SPDX-License-Identifier: MIT */
/*
 * api_transfer - put, get and wait: what of the local API is the queue's affair. See api_op.h.
 *
 * Happy path of a transfer: submitted to the queue; accepted; progress; the done event; gone. Of a
 * detached one: submitted; accepted, which is its done event; gone. Of an attended get: prepared
 * before done, which comes when the client has given the file its name. Of waiting for a job:
 * watching; progress; the job's own done event; gone. Failure: the error event instead.
 *
 * Abandoned: the transfer is ended in the queue, which no longer tells us.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mover/api/api.h"
#include "mover/api/api_buffer.h"
#include "mover/api/api_event.h"
#include "mover/api/api_rows.h"
#include "mover/api/api_task.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/holder.h"
#include "mover/base/loop.h"
#include "mover/base/worker.h"
#include "mover/queue/queue.h"
#include "mover/store/held_file.h"
#include "mover/store/tree_file.h"
#include "mover/tree/channel.h"

#define NAMED_LOOK_MS 20

#define TRANSFER \
	(FM_API_KEY(NODE) | FM_API_KEY(STORE) | FM_API_KEY(PATH) | FM_API_KEY(TRANSPORT) | \
	 FM_API_KEY(DURABILITY) | FM_API_KEY(FORCE) | FM_API_KEY(ACCEPT_CORRUPT) | \
	 FM_API_KEY(LIMIT) | FM_API_KEY(TIMEOUT_MS) | FM_API_KEY(PROGRESS_MS) | \
	 FM_API_KEY(DETACH) | FM_API_KEY(ATTENDED) | FM_API_KEY(PRIORITY) | \
	 FM_API_KEY(RETRY_MS) | FM_API_KEY(LOCAL_STORE) | FM_API_KEY(LOCAL_PATH) | \
	 FM_API_KEY(FILE) | FM_API_KEY(TREE) | FM_API_KEY(UPDATE) | FM_API_KEY(DELETE) | \
	 FM_API_KEY(CHECKSUM) | FM_API_KEY(DRY_RUN) | FM_API_KEY(NAMES) | FM_API_KEY(EXCLUDE) | \
	 FM_API_KEY(JOB) | FM_API_KEY(BUFFER))
#define ONLY \
	(FM_API_KEY(DEVICE) | FM_API_KEY(LOCAL) | FM_API_KEY(REMOTE) | FM_API_KEY(CONNECTIONS))
#define NAMED (FM_API_KEY(NODE) | FM_API_KEY(STORE) | FM_API_KEY(PATH))

/* ---- what the queue says ---- */

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
		fm_api_task_send(t, fm_api_event_progress(t->tasks->tx, FM_API_MSG_MAX, t->id, &p));
	}
	task_arm_progress(t);
}

static void task_accepted(struct fm_queue_watch *watch)
{
	struct fm_api_task *t = fm_container_of(watch, struct fm_api_task, watch);
	const char *job = fm_queue_id(watch->job);

	if (t->is_detached) {
		fm_api_task_send(t,
				 fm_api_event_detached(t->tasks->tx, FM_API_MSG_MAX, t->id, job));
		fm_api_task_free(t);
		return;
	}
	if (t->progress_ms > 0 || t->is_attended)
		fm_api_task_send(t,
				 fm_api_event_accepted(t->tasks->tx, FM_API_MSG_MAX, t->id, job));
	task_arm_progress(t);
}

static void task_ended(struct fm_queue_watch *watch, const struct fm_job_result *result)
{
	struct fm_api_task *t = fm_container_of(watch, struct fm_api_task, watch);
	struct fm_job_result failed;

	if (result->code < 0) {
		failed = *result;
		/* Who waits for another's end was not refused anything. */
		failed.err.is_full &= t->op != &fm_api_wait;
		fm_api_task_send(t,
				 fm_api_event_failed(t->tasks->tx, FM_API_MSG_MAX, t->id, &failed));
	} else {
		fm_api_task_send(t, fm_api_event_job(t->tasks->tx, FM_API_MSG_MAX, t->id, result));
	}
	fm_api_task_free(t);
}

static void task_prepared(struct fm_queue_watch *watch, const struct fm_job_result *result,
			  uint64_t sent)
{
	struct fm_api_task *t = fm_container_of(watch, struct fm_api_task, watch);

	t->is_prepared = true;
	fm_api_task_send(
		t, fm_api_event_prepared(t->tasks->tx, FM_API_MSG_MAX, t->id, result, sent));
}

/* Asks for the next page of names, but only after the client has read those it has. */
static void task_take_more(struct fm_api_task *t)
{
	if (t->owner && t->owner->is_slow(t->owner->ctx))
		fm_timer_set(t->tasks->loop, &t->named,
			     fm_loop_now(t->tasks->loop) + NAMED_LOOK_MS * FM_NS_PER_MS);
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

	fm_api_task_send(t, fm_api_event_names(t->tasks->tx, FM_API_MSG_MAX, t->id, page));
	task_take_more(t);
}

static const struct fm_queue_events watch_events = {.accepted = task_accepted,
						    .prepared = task_prepared,
						    .names = task_names,
						    .done = task_ended};

static uint64_t retry_of(const struct fm_api_request *a)
{
	if (a->has_retry)
		return a->retry_ms * FM_NS_PER_MS;
	return a->is_detached || a->is_attended ? FM_RETRY_ALWAYS : 0;
}

static struct fm_only only_of(const struct fm_api_request *a)
{
	struct fm_only only = a->only;

	only.way_count = only.way[0].local[0] || only.way[0].remote[0];
	only.conns = (unsigned)a->conns;
	return only;
}

static void task_options(const struct fm_api_task *t, const struct fm_api_request *a,
			 struct fm_queue_opts *o)
{
	*o = (struct fm_queue_opts){
		.job = {.is_put = a->op == &fm_api_put,
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
			.has_group = a->has_group,
			.accepts_corrupt = a->accepts_corrupt,
			.is_buffered = a->is_buffered,
			.is_update = a->is_update || a->has_checksums,
			.has_checksums = a->has_checksums,
			.is_delete = a->is_delete,
			.is_dry = a->is_dry,
			.has_names =
				a->has_names && a->is_tree && !a->is_detached && !a->is_attended,
			.tree_bytes = a->tree_bytes,
			.ranges = a->range_count > 0 ? a->ranges : NULL,
			.range_count = a->range_count,
			.is_verified = a->is_verified,
			.size_max = a->bytes,
			.only = only_of(a),
			.rate_bytes = a->rate_bytes,
			.timeout_ns = a->timeout_ms * FM_NS_PER_MS},
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
	memcpy(o->job.group, a->group, sizeof(o->job.group));
}

/* Whether our end is memory. */
static bool is_memory(const struct fm_api_request *a)
{
	return a->is_generated || a->is_discarded || a->has_buffer;
}

/* Makes a source or a sink that is memory. It never blocks, so it needs no worker. */
static int task_make_file(const struct fm_api_task *t, const struct fm_api_request *a,
			  struct fm_queue_opts *o, struct fm_err *err)
{
	o->end = FM_QUEUE_FILE;
	if (a->has_buffer)
		return fm_api_buffer_file(t, a, &o->job.file, &o->job.attr, err);
	if (a->is_generated)
		return fm_null_source(a->bytes_generated, &o->job.file, &o->job.attr, err);
	return fm_null_sink(&o->job.file, err);
}

/*
 * Gives the transfer to the queue. tree: a directory of the caller, which the queue takes over;
 * NULL: it moves something else.
 */
static int task_submit(struct fm_api_task *t, const struct fm_api_request *a,
		       int fds[FM_API_TASK_FDS], struct fm_holder *holder, struct fm_file *tree,
		       struct fm_err *err)
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
		o.job.attr = (struct fm_attr){
			.type = FM_NODE_DIR, .size = FM_SIZE_UNKNOWN, .dev = a->dev, .ino = a->ino};
	} else if (is_memory(a)) {
		ret = task_make_file(t, a, &o, err);
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

/* ---- a directory of the caller: its holder looks at the descriptors, and has the threads that ask
 * the caller ---- */

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

static void forget_making(struct fm_api_task *t)
{
	((struct making *)t->work)->task = NULL;
}

static void make_run(struct fm_work *work)
{
	struct making *m = fm_container_of(work, struct making, work);
	struct fm_tree_remote_opts remote = {
		.is_source = m->ask.op == &fm_api_put, .fds = m->fds, .holder = m->holder
	};
	struct fm_tree_file_opts file = {.threads = fm_tree_file_threads(),
					 .who = fm_share_user(m->uid)};

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
		t->work = NULL;
	if (make_submit(m, &err) < 0 && t) {
		fm_api_task_send_error(t, &err);
		fm_api_task_free(t);
	}
	fm_holder_put(m->holder);
	free(m);
}

static int task_make_tree(struct fm_api_task *t, const struct fm_api_request *a,
			  int fds[FM_API_TASK_FDS], struct fm_holder *holder, struct fm_err *err)
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
		t->work = m;
		t->work_forget = forget_making;
		fm_holder_work(holder, &m->work);
		return 0;
	}
	make_run(&m->work);
	ret = make_submit(m, err);
	free(m);
	return ret;
}

/* ---- beginning and end ---- */

static void begin(struct fm_api_task *t, const struct fm_api_request *a)
{
	t->is_detached = a->is_detached;
	t->is_attended = a->is_attended;
	t->is_held = a->is_held;
	t->progress.fire = task_progress;
	t->named.fire = task_named;
	t->watch.events = &watch_events;
}

static int start_transfer(struct fm_api_task *t, const struct fm_api_call *call, struct fm_err *err)
{
	begin(t, call->ask);
	if (call->ask->is_tree && !call->ask->is_store)
		return task_make_tree(t, call->ask, call->fds, call->holder, err);
	return task_submit(t, call->ask, call->fds, call->holder, NULL, err);
}

static void cancel_transfer(struct fm_api_task *t, bool is_kept)
{
	struct making *m = t->work;

	if (m)
		m->is_cancelled = true;
	else
		fm_queue_end_job(&t->watch, -ECANCELED, is_kept, "cancelled");
}

/*
 * The client is gone. A detached transfer that was not accepted yet ends with it: nobody knows of
 * it.
 */
static void abandon_transfer(struct fm_api_task *t)
{
	fm_queue_abandon(&t->watch);
	fm_api_task_free(t);
}

static int start_waiting(struct fm_api_task *t, const struct fm_api_call *call, struct fm_err *err)
{
	int ret;

	begin(t, call->ask);
	ret = fm_queue_watch_id(t->tasks->queue, call->ask->job_id, t->owner->who.uid, &t->watch,
				err);
	if (ret == 0)
		task_arm_progress(t);
	return ret;
}

static void cancel_waiting(struct fm_api_task *t, bool is_kept)
{
	struct fm_err err;

	(void)is_kept;
	(void)fm_err_set(&err, -ECANCELED, "not waited for any longer; the job goes on");
	fm_api_task_send_error(t, &err);
	fm_api_task_free(t);
}

/* ---- what the table of keys cannot check ---- */

static void transfer_fds(const struct fm_api_request *ask, unsigned *least, unsigned *most)
{
	*least = *most = 0;
	if (is_memory(ask) || ask->is_store)
		return;
	*least = ask->is_tree ? 1 + FM_CHANNEL_SOCKETS_MIN : 1;
	*most = ask->is_tree ? 1 + FM_CHANNEL_SOCKETS_MAX : ask->op == &fm_api_get ? 2 : 1;
}

static int attended_check(const struct fm_api_request *ask, struct fm_err *err)
{
	if (!ask->is_attended && ask->job_id[0])
		return fm_err_set(err, -EINVAL, "\"job\" needs \"attended\": true");
	if (ask->is_attended && (ask->is_store || ask->is_generated || ask->is_discarded ||
				 ask->is_detached || ask->is_held))
		return fm_err_set(err, -EINVAL,
				  "\"attended\" is for a file or directory of the client, and "
				  "leaves no room for \"detach\" "
				  "or \"hold\"");
	return 0;
}

static int ranges_check(const struct fm_api_request *ask, struct fm_err *err)
{
	if (ask->is_verified && ask->range_count == 0)
		return fm_err_set(err, -EINVAL,
				  "\"whole_blocks\" needs \"ranges\": a whole file is always "
				  "compared");
	if (ask->range_count > 0 &&
	    (ask->is_tree || ask->is_store || ask->is_detached || ask->is_attended))
		return fm_err_set(err, -EINVAL,
				  "\"ranges\" come into a file or pipe of the client, and leave no "
				  "room for \"tree\", \"local_store\", \"detach\" or \"attended\"");
	return 0;
}

static int buffer_check(const struct fm_api_request *ask, struct fm_err *err)
{
	if (!ask->has_buffer || !(ask->is_generated || ask->is_discarded || ask->is_store ||
				  ask->is_tree || ask->is_attended || ask->is_detached))
		return 0;
	return fm_err_set(err, -EINVAL,
			  "a \"buffer\" is memory of the client: it leaves no room for another "
			  "source or target, \"detach\" or \"attended\"");
}

static int bytes_check(const struct fm_api_request *ask, struct fm_err *err)
{
	if (ask->bytes == 0 || !(is_memory(ask) || ask->is_store || ask->is_tree ||
				 ask->is_detached || ask->is_attended))
		return 0;
	return fm_err_set(err, -EINVAL,
			  "\"bytes\" is for a file that comes into one of the client, or a pipe, "
			  "and leaves no room for \"detach\" or \"attended\"");
}

static int only_check(const struct fm_api_request *ask, struct fm_err *err)
{
	const struct fm_only only = only_of(ask);

	if (fm_only_is_any(&only))
		return 0;
	if (!ask->is_generated && !ask->is_discarded)
		return fm_err_set(err, -EINVAL,
				  "\"device\", \"local\", \"remote\" and \"connections\" are for "
				  "measuring: they need \"generate\" or \"discard\"");
	if (ask->range_count > 0)
		return fm_err_set(err, -EINVAL,
				  "\"device\", \"local\", \"remote\" and \"connections\" leave no "
				  "room for \"ranges\"");
	return 0;
}

static int check_transfer(const struct fm_api_request *ask, struct fm_err *err)
{
	if (buffer_check(ask, err) < 0 || bytes_check(ask, err) < 0)
		return err->code;
	if (ask->is_store && (ask->is_generated || ask->is_discarded || ask->file_len > 0))
		return fm_err_set(err, -EINVAL,
				  "\"local_store\" leaves no room for another source or target");
	if (ask->is_tree &&
	    (ask->is_generated || ask->is_discarded || (ask->is_detached && !ask->is_store)))
		return fm_err_set(err, -EINVAL,
				  "a \"tree\" is a directory of the client, which cannot be "
				  "detached, or of \"local_store\"");
	if (only_check(ask, err) < 0 || attended_check(ask, err) < 0 || ranges_check(ask, err) < 0)
		return err->code;
	if (ask->op == &fm_api_put && ask->excludes_count > 0 && !ask->is_store &&
	    !ask->is_attended)
		return fm_err_set(err, -EINVAL,
				  "\"exclude\" has no meaning for put without \"local_store\": "
				  "leave them out");
	if (!ask->is_tree &&
	    (ask->is_update || ask->has_checksums || ask->is_dry || ask->excludes_count > 0))
		return fm_err_set(err, -EINVAL,
				  "\"update\", \"checksum\", \"dry_run\" and \"exclude\" need "
				  "\"tree\": true");
	if (ask->is_delete && (!ask->is_tree || (!ask->is_update && !ask->has_checksums)))
		return fm_err_set(err, -EINVAL, "\"delete\" needs \"update\": true");
	if (ask->op == &fm_api_get && ask->is_force && !ask->is_store && !ask->is_attended)
		return fm_err_set(err, -EINVAL,
				  "\"force\" has no meaning for get without \"local_store\"");
	if (!ask->is_store && ask->local_path_len > 0)
		return fm_err_set(err, -EINVAL, "\"local_path\" needs \"local_store\"");
	return 0;
}

const struct fm_api_op fm_api_put = {
	.name = "put",
	.takes = TRANSFER | FM_API_KEY(VERIFY) | FM_API_KEY(HOLD) | FM_API_KEY(BUFFERED) |
		 FM_API_KEY(GENERATE) | ONLY | FM_API_KEY(TREE_BYTES) | FM_API_KEY(DEV) |
		 FM_API_KEY(INO) | FM_API_KEY(GROUP),
	.needs = NAMED,
	.fds = transfer_fds,
	.check = check_transfer,
	.start = start_transfer,
	.cancel = cancel_transfer,
	.abandon = abandon_transfer,
};

const struct fm_api_op fm_api_get = {
	.name = "get",
	.takes = TRANSFER | FM_API_KEY(DISCARD) | ONLY | FM_API_KEY(RANGES) |
		 FM_API_KEY(WHOLE_BLOCKS) | FM_API_KEY(BYTES),
	.needs = NAMED,
	.fds = transfer_fds,
	.check = check_transfer,
	.start = start_transfer,
	.cancel = cancel_transfer,
	.abandon = abandon_transfer,
};

const struct fm_api_op fm_api_wait = {
	.name = "wait",
	.takes = FM_API_KEY(PROGRESS_MS),
	.needs = FM_API_KEY(JOB),
	.start = start_waiting,
	.cancel = cancel_waiting,
	.abandon = fm_api_task_free,
};
