/* SPDX-License-Identifier: MIT */
/*
 * queue_run - one job of the queue from its place to its end. See queue.h.
 *
 * Happy path: probe: a worker looks at our end; a detached job is written down; accepted; QUEUED
 * until a place is free; RUNNING: a worker opens our end, the engine has it; its done(); DONE;
 * those who watch are told. A put for which a place is free at once is looked at when it is opened,
 * by the same piece of work.
 *
 * A failure that may pass: WAITING, and QUEUED again when its time has come. One cannot always tell
 * whether an earlier try gave the target its name (the peer may have died between that and its
 * word). So when a later try is refused because the target exists, both ends are looked at: the
 * same size and time, and it is done. Who refuses has what exists on the disk (store/placing.h), so
 * it is durable; nobody has compared the bytes. That a try went to the engine is written down with
 * a detached job before it does: what only stood in the queue when the daemon ended has made
 * nothing.
 *
 * Told to end: at once while no worker and no engine has it, else when they are through; but a
 * thread that does not come back soon, since the file system of our end does not answer, is left
 * there, with the try that it has (go_without()).
 */
#include "mover/queue/queue_priv.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/exit_code.h"
#include "mover/base/fault.h"
#include "mover/base/holder.h"
#include "mover/base/log.h"
#include "mover/base/words.h"
#include "mover/data/link.h"
#include "mover/node/node.h"
#include "mover/services/request.h"
#include "mover/store/access.h"
#include "mover/store/held_file.h"
#include "mover/store/sys.h"

#define COMPARE_NS (30 * FM_NS_PER_S)	/* of each end that is asked what it has there */

static void settle(struct fm_queue_job *j, const struct fm_job_result *result);
static void start(struct fm_queue_job *j);
static bool may_start(const struct fm_queue_job *j);

/* ---- a try ---- */

static struct fm_queue_try *try_new(struct fm_queue_job *j)
{
	struct fm_queue_try *t = FM_FAULT("queue.try") ? NULL : calloc(1, sizeof(*t));

	assert(!j->try);
	if (!t)
		return NULL;
	t->job = j;
	t->fd = t->journal = -1;
	j->try = t;
	return t;
}

/* Closes the descriptors of a try that were not used. Those that belong to the job stay open. */
static void drop_fds(const struct fm_queue_try *t)
{
	const int fds[] = { t->fd, t->journal };

	if (!t->is_dup)
		fm_holder_close(t->holder, fds, 2);
}

static void try_free(struct fm_queue_job *j)
{
	struct fm_queue_try *t = j->try;

	if (!t)
		return;
	assert(!t->file);
	drop_fds(t);
	fm_holder_put(t->holder);
	free(t->lingering);
	if (t->store)
		j->queue->c.needs->store_put(t->store);
	free(t);
	j->try = NULL;
}

/* The store, else the user database by its rules, which are asked until the file is open. */
static const void *may_await(const struct fm_queue_try *t)
{
	const struct fm_store *s = t->store ? t->store->store : NULL;
	const void *at = s ? fm_store_may_await(s) : NULL;

	return at || !s || t->file ? at : fm_access_may_await(s, &t->job->o.job.who);
}

static void work(struct fm_queue_try *t, void (*run)(struct fm_work *work),
		 void (*done)(struct fm_work *work))
{
	t->work.run = run;
	t->work.done = done;
	t->work.who = fm_queue_who(t->job);
	t->work.may_await = may_await(t);
	fm_queue_work(t->job->queue, t->holder, &t->work);
}

static void set_timer(struct fm_queue_job *j);

static bool is_at_work(const struct fm_queue_job *j)
{
	return j->try && j->try->is_at_work && !j->try->is_left;
}

static void left_returned(struct fm_queue_try *t);

static void returned(struct fm_work *w)
{
	struct fm_queue_try *t = fm_container_of(w, struct fm_queue_try, work);

	t->is_at_work = false;
	if (t->is_left) {
		left_returned(t);
		return;
	}
	set_timer(t->job);
	t->done(w);
}

static void close_run(struct fm_work *w);

/* As work(), and the job does not wait for its thread for ever (FM_QUEUE_OPEN_NS). */
static void at_work(struct fm_queue_try *t, void (*run)(struct fm_work *work),
		    void (*done)(struct fm_work *work))
{
	struct fm_queue_job *j = t->job;

	t->done = done;
	t->is_at_work = true;
	t->is_closing = run == close_run;
	j->late_ns = fm_loop_now(j->queue->c.loop) +
		     (j->end_code	? FM_QUEUE_LEAVE_NS
		      : j->is_accepted	? FM_QUEUE_OPEN_NS
					: FM_QUEUE_PROBE_NS);
	set_timer(j);
	work(t, run, returned);
}

/* Its thread came back, after all: its file is closed, then nobody has the job's options. */
static void left_returned(struct fm_queue_try *t)
{
	struct fm_queue_job *j = t->job;

	if (t->file) {
		work(t, close_run, returned);
		return;
	}
	try_free(j);
	fm_share_give_all(&j->held.fd);
	fm_queue_close_fds(&j->o);
	if (j->is_forgotten)
		fm_queue_job_drop(j);
}

/* Takes a reference to the store of this node that the job names. Errors of target.h. */
static int take_store(struct fm_queue_try *t)
{
	const struct fm_queue_job *j = t->job;

	return j->queue->c.needs->store_get(j->queue->c.engine, j->o.own_store,
					    strlen(j->o.own_store), &t->store, &t->err);
}

/* ---- probing: what can be said before it has its place ---- */

/*
 * Looks at the descriptor. 0: a regular file from its start, which can wait. 1: a pipe or the like,
 * which goes at the pace of its other end. Negative: it cannot be moved.
 */
static int probe_fd(struct fm_queue_try *t, int fd)
{
	struct fm_queue_job *j = t->job;
	struct stat st;

	if (FM_FAULT("queue.probe"))
		return fm_err_set(&t->err, -ENOTCONN, "look at the file: its file system is dead");
	if (fstat(fd, &st) < 0)
		return fm_err_sys(&t->err, -errno, "look at the file");
	if (S_ISREG(st.st_mode) && (!j->o.job.is_put || lseek(fd, 0, SEEK_CUR) == 0))
		return 0;
	if (S_ISDIR(st.st_mode))
		return fm_err_set(&t->err, -EISDIR, "it is a directory");
	if (j->o.is_detached)
		return fm_err_set(&t->err, -EINVAL,
				  "only a whole file can go on without you: leave out --detach");
	return 1;
}

/*
 * Looks at once for the source of a put in a store of this node, so that the caller hears
 * immediately if it is not there.
 */
static int probe_store(struct fm_queue_try *t)
{
	struct fm_queue_job *j = t->job;
	struct fm_attr attr;

	if (!j->o.job.is_put)
		return 0;
	return t->store->store->ops->stat(t->store->store, j->o.own_path, &j->o.job.who, &attr,
					  &t->err);
}

static void probe_run(struct fm_work *w)
{
	struct fm_queue_try *t = fm_container_of(w, struct fm_queue_try, work);

	t->ret = t->job->o.end == FM_QUEUE_FD ? probe_fd(t, t->job->o.fd) : probe_store(t);
}

static void wait_for_save(struct fm_queue_job *j);

/* It is accepted when it is on disk. */
static void save_first(struct fm_queue_job *j)
{
	wait_for_save(j);
	fm_queue_save(j);
}

static void probed(struct fm_queue_job *j, int ret, const struct fm_err *err)
{
	struct fm_err why = *err;

	if (ret < 0 && !j->end_code) {
		why.code = ret;
		(void)fm_err_not_begun(&why);
		fm_queue_fail_as(j, &why);
		return;
	}
	if (j->end_code) {
		fm_queue_fail(j, j->end_code, j->why ? j->why : "cancelled");
		return;
	}
	j->is_prompt |= ret > 0;
	j->is_whole = ret == 0 && j->o.end == FM_QUEUE_FD;
	if (j->o.is_detached)
		save_first(j);
	else
		fm_queue_accepted(j);
}

static void probe_done(struct fm_work *w)
{
	struct fm_queue_try *t = fm_container_of(w, struct fm_queue_try, work);
	struct fm_queue_job *j = t->job;
	struct fm_err err = t->err;
	int ret = t->ret;

	try_free(j);
	probed(j, ret, &err);
}

/*
 * Whether the job can run now without waiting. Then one call of a worker looks at its file and
 * opens it.
 */
static bool starts_at_once(const struct fm_queue_job *j)
{
	const struct fm_queue *q = j->queue;

	if (j->o.end != FM_QUEUE_FD || !j->o.job.is_put || j->o.is_detached || j->is_prompt ||
	    q->is_stopping)
		return false;
	for (unsigned p = 0; p < FM_QUEUE_PRIORITY_COUNT; p++)
		if (!fm_list_is_empty(&q->pending[p]))
			return false;
	return q->shares.running.used < q->shares.running.limits.total && may_start(j);
}

void fm_queue_probe(struct fm_queue_job *j)
{
	struct fm_err err = { 0 };
	struct fm_queue_try *t;

	if (starts_at_once(j)) {
		j->is_accepted = j->is_unseen = true;
		fm_loop_post(j->queue->c.loop, &j->tell);
		start(j);
		return;
	}
	if (j->o.end == FM_QUEUE_FILE) {
		if (j->o.is_detached)
			save_first(j);
		else
			fm_queue_accepted(j);
		return;
	}
	t = try_new(j);
	if (!t) {
		fm_queue_fail(j, -ENOMEM, "no memory for a job");
		return;
	}
	if (j->o.end == FM_QUEUE_STORE && take_store(t) < 0) {
		err = t->err;
		try_free(j);
		fm_queue_fail(j, err.code, err.text);
		return;
	}
	t->holder = fm_holder_ref(j->o.end == FM_QUEUE_FD ? j->o.holder : NULL);
	at_work(t, probe_run, probe_done);
}

void fm_queue_accepted(struct fm_queue_job *j)
{
	j->is_accepted = true;
	fm_queue_enqueue(j);
	fm_loop_post(j->queue->c.loop, &j->tell);
}

/* ---- places ---- */

void fm_queue_kick(struct fm_queue *q)
{
	if (!q->is_stopping)
		fm_loop_post(q->c.loop, &q->kick);
}

/* Whether it is ours to see to its deadline. The engine has its own. */
static bool has_deadline(const struct fm_queue_job *j)
{
	return j->deadline_ns && !j->end_code && !fm_queue_has_ended(j) &&
	       (j->state != FM_QUEUE_RUNNING || is_at_work(j) || j->is_noting);
}

static void set_timer(struct fm_queue_job *j)
{
	uint64_t at_ns = j->state == FM_QUEUE_WAITING ? j->again_ns : FM_NEVER;

	if (has_deadline(j) && j->deadline_ns < at_ns)
		at_ns = j->deadline_ns;
	if (is_at_work(j) && j->late_ns < at_ns)
		at_ns = j->late_ns;
	if (j->save_late_ns && j->save_late_ns < at_ns)
		at_ns = j->save_late_ns;
	if (at_ns == FM_NEVER)
		fm_timer_clear(j->queue->c.loop, &j->timer);
	else
		fm_timer_set(j->queue->c.loop, &j->timer, at_ns);
}

void fm_queue_enqueue(struct fm_queue_job *j)
{
	struct fm_list *pending =
		j->is_prompt ? &j->queue->prompts : &j->queue->pending[j->o.priority];
	struct fm_list *after = pending->prev;

	/* One that waited is older than those behind it. */
	while (after != pending &&
	       fm_container_of(after, struct fm_queue_job, pending_at)->seq > j->seq)
		after = after->prev;
	j->state = FM_QUEUE_QUEUED;
	j->before = (unsigned)j->queue->shares.jobs.used;
	fm_list_prepend(after, &j->pending_at);
	set_timer(j);
	fm_queue_kick(j->queue);
}

/*
 * Whether the job moves a tree of a store of this node. Such a tree has threads only while it runs;
 * a caller's directory has them from the beginning.
 */
static bool is_store_tree(const struct fm_queue_job *j)
{
	return j->o.is_tree && j->o.end == FM_QUEUE_STORE;
}

static void place_take(struct fm_queue_job *j)
{
	struct fm_queue_shares *s = &j->queue->shares;

	if (j->try && j->o.fd < 0)	/* it counted while the job had none */
		fm_share_give_all(&j->held.fd);
	fm_share_force(j->is_prompt ? &s->prompt : &s->running, fm_queue_who(j), 1, &j->held.place);
	if (is_store_tree(j))
		fm_share_force(&s->trees, fm_queue_who(j), 1, &j->held.tree);
	j->has_place = true;
}

static void place_give(struct fm_queue_job *j)
{
	if (!j->has_place)
		return;
	fm_share_give_all(&j->held.place);
	if (is_store_tree(j))
		fm_share_give_all(&j->held.tree);
	j->has_place = false;
	fm_queue_kick(j->queue);
}

/* ---- a place: open our end ---- */

static int dup_fd(int fd)
{
	int ret = FM_FAULT("queue.dup") ? (errno = EMFILE, -1) : fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return ret < 0 ? -errno : ret;
}

/* Gives this try copies of the job's descriptors if a later try may need the originals. */
static int dup_fds(struct fm_queue_try *t)
{
	int fd = t->fd, journal = t->journal;

	if (!t->is_dup)
		return 0;
	t->is_dup = false;
	t->journal = -1;
	t->fd = dup_fd(fd);
	if (t->fd >= 0 && journal >= 0)
		t->journal = dup_fd(journal);
	if (t->fd >= 0 && t->journal >= -1)
		return 0;
	return fm_err_sys(&t->err, t->fd < 0 ? t->fd : t->journal, "the file once more");
}

/*
 * Looks at the descriptor before anything is moved, once. fm_queue_resume() takes it unseen, and
 * half of a pipe, tried again, would pass for the whole.
 */
static int look_first(struct fm_queue_try *t)
{
	const struct fm_queue_job *j = t->job;

	if (j->is_whole)	/* though it may be prompt, too: a held one is */
		t->ret = 0;
	else if (j->is_prompt)
		t->ret = 1;
	else
		t->ret = probe_fd(t, t->fd);
	t->is_seen = t->ret >= 0;
	t->is_whole = t->ret == 0;
	t->is_prompt = t->ret > 0;
	t->is_refused = t->ret < 0 && j->is_unseen;
	return t->ret;
}

static void open_fd(struct fm_queue_try *t)
{
	const struct fm_create how = {.size = FM_SIZE_UNKNOWN,
				      .is_resumable = t->journal >= 0,
				      .is_synced =
					      t->job->o.job.durability != FM_DURABILITY_MEMORY};
	int fd, journal;

	t->ret = dup_fds(t);
	if (t->ret < 0)
		return;
	fd = t->fd;
	journal = t->journal;
	if (look_first(t) < 0)
		return;
	if (!t->job->o.job.is_put && journal < 0 && t->job->tries > 1 && ftruncate(fd, 0) < 0) {
		t->ret = fm_err_sys(&t->err, -errno, "empty the file of an earlier try");
		return;
	}
	if (FM_FAULT("queue.open")) {
		t->ret = fm_err_set(&t->err, -EMFILE, "open the file");
		return;
	}
	t->fd = t->journal = -1;	/* taken over */
	if (t->job->o.job.is_put && t->is_whole)
		t->ret = fm_caller_source_whole(fd, t->job->o.job.is_buffered, &t->file, &t->attr,
						&t->err);
	else if (t->job->o.job.is_put)
		t->ret = fm_caller_source(fd, &t->file, &t->attr, &t->err);
	else
		t->ret = fm_caller_sink(fd, journal, &how, &t->file, &t->err);
	if (t->ret == 0)
		t->ret = fm_held_file_new(t->holder, &t->file, &t->err);
}

static void open_store(struct fm_queue_try *t)
{
	const struct fm_queue_opts *o = &t->job->o;
	const struct fm_create how = {.size = FM_SIZE_UNKNOWN,
				      .may_replace = o->job.may_replace,
				      .is_resumable = true,
				      .is_synced = o->job.durability != FM_DURABILITY_MEMORY};
	struct fm_store *store = t->store->store;

	if (o->job.is_put)
		t->ret = store->ops->open_source(store, o->own_path, &o->job.who, &t->file,
						 &t->attr, &t->err);
	else
		t->ret = store->ops->create(store, o->own_path, &o->job.who, &how, &t->file,
					    &t->err);
}

static enum fm_durability durability_of(const struct fm_queue_try *t)
{
	const struct fm_job_opts *o = &t->job->o.job;

	/* A get asks nobody else what its store usually does. */
	if (o->is_put || !t->store || o->durability != FM_DURABILITY_DEFAULT)
		return o->durability;
	return t->store->store->is_durable ? FM_DURABILITY_DISK : FM_DURABILITY_MEMORY;
}

/*
 * Opens or creates the tree in a store of this node. A sink learns which source it becomes a copy
 * of only from the far end.
 */
static void open_tree(struct fm_queue_try *t)
{
	const struct fm_queue_opts *o = &t->job->o;
	const struct fm_create_tree how = { .may_replace = o->job.may_replace,
					    .is_update = o->job.is_update,
					    .is_delete = o->job.is_delete,
					    .has_checksums = o->job.has_checksums,
					    .is_dry = o->job.is_dry || t->job->is_measuring,
					    .has_names = o->job.has_names && !t->job->is_measuring,
					    .is_durable = durability_of(t) == FM_DURABILITY_DISK,
					    .has_digests = true,
					    .is_measured = t->job->is_measured,
					    .bytes = t->job->will_come };
	struct fm_store *store = t->store->store;

	if (o->job.is_put ? !store->ops->open_tree : !store->ops->create_tree)
		t->ret = fm_err_set(&t->err, -EOPNOTSUPP, "store %s has no directories",
				    store->name);
	else if (o->job.is_put)
		t->ret = store->ops->open_tree(store, o->own_path, &o->job.who, o->job.excludes,
					       &t->file, &t->attr, &t->err);
	else
		t->ret = store->ops->create_tree(store, o->own_path, &o->job.who, &how, &t->file,
						 &t->err);
}

static void open_run(struct fm_work *w)
{
	struct fm_queue_try *t = fm_container_of(w, struct fm_queue_try, work);

	if (t->holder)
		t->lingering = fm_sys_alloc(sizeof(*t->lingering));
	if (t->job->o.end == FM_QUEUE_FD)
		open_fd(t);
	else if (t->job->o.is_tree)
		open_tree(t);
	else
		open_store(t);
	if (t->ret < 0)
		t->file = NULL;
}

/* Ends a try that failed before the engine had a result. */
static void settle_err(struct fm_queue_job *j, int code, const struct fm_err *why)
{
	struct fm_job_result r = { .err = *why };

	r.err.code = code;
	r.code = fm_err_not_begun(&r.err);
	settle(j, &r);
}

static void settle_code(struct fm_queue_job *j, int code, const char *text)
{
	struct fm_err why = { .code = code };

	(void)snprintf(why.text, sizeof(why.text), "%s", text);	/* cut if it is too long */
	settle_err(j, code, &why);
}

static void close_run(struct fm_work *w)
{
	struct fm_queue_try *t = fm_container_of(w, struct fm_queue_try, work);
	const struct fm_queue_job *j = t->job;

	if (!j->o.job.is_put && (j->is_end_kept || t->ret < 0) && t->file->ops->keep)
		t->file->ops->keep(t->file);
	fm_file_close(t->file);
	t->file = NULL;
}

static void close_done(struct fm_work *w)
{
	struct fm_queue_job *j = fm_container_of(w, struct fm_queue_try, work)->job;

	settle_code(j, j->end_code, j->why ? j->why : "cancelled");
}

static void refused_done(struct fm_work *w)
{
	struct fm_queue_try *t = fm_container_of(w, struct fm_queue_try, work);

	settle_err(t->job, t->ret, &t->err);
}

/* ---- ... and hand it to the engine ---- */

static void closed(void *ctx)
{
	struct fm_queue_lingering *l = ctx;

	fm_share_give_all(&l->place);
	fm_queue_kick(l->queue);
	free(l);
}

static void open_done(struct fm_work *w);

static void job_done(void *ctx, const struct fm_job_result *result)
{
	struct fm_queue_job *j = ctx;
	/* of a dry run to measure; nothing was moved, whatever it says */
	bool was_told_to_end = j->is_measuring && j->end_code;

	j->job = NULL;
	if (j->lingering)
		fm_share_force(&j->queue->shares.lingering, fm_queue_who(j), 1,
			       &j->lingering->place);
	j->lingering = NULL;
	if (fm_queue_measures(j, result))
		at_work(j->try, open_run, open_done);
	else if (was_told_to_end && result->code == 0)
		settle_code(j, j->end_code, j->why ? j->why : "cancelled");
	else
		settle(j, result);
}

static void job_prepared(void *ctx, uint64_t sent)
{
	struct fm_queue_job *j = ctx;

	if (j->submitter && j->submitter->events->prepared)
		j->submitter->events->prepared(j->submitter, NULL, sent);
}

/*
 * Passes names of changed files to the caller that asked for them. If it has gone away, they are
 * acknowledged and dropped.
 */
static void job_names(void *ctx, const struct fm_tree_names *page)
{
	struct fm_queue_job *j = ctx;

	if (j->submitter && j->submitter->events->names)
		j->submitter->events->names(j->submitter, page);
	else
		j->queue->c.needs->named(j->job);
}

void fm_queue_named(struct fm_queue_watch *watch)
{
	if (watch->job && watch->job->job)
		watch->job->queue->c.needs->named(watch->job->job);
}

/* Whether a try that the target refuses since it exists may have been begun before. */
static bool may_find_its_own(const struct fm_queue_job *j)
{
	return !j->o.is_tree && !j->o.job.may_replace &&
	       (j->o.job.is_put || j->o.end == FM_QUEUE_STORE);
}

/* Notes that the job is sent. true: that is written down first, and fm_queue_noted() follows. */
static bool is_noted_first(struct fm_queue_job *j)
{
	bool is_new = !j->is_sent;

	j->is_sent = true;
	if (!is_new || !j->o.is_detached || !may_find_its_own(j) || j->queue->dir < 0)
		return false;
	j->is_noting = true;
	set_timer(j);
	fm_queue_save(j);
	return true;
}

static void begin(struct fm_queue_job *j)
{
	static const unsigned weights[] = { [FM_QUEUE_LOW] = FM_WEIGHT_LOW,
						[FM_QUEUE_NORMAL] = FM_WEIGHT_NORMAL,
						[FM_QUEUE_HIGH] = FM_WEIGHT_HIGH };
	/* is it held, by whom is its file */
	static const struct fm_job_events events[2][2] = {
		{{.done = job_done, .names = job_names},
		 {.done = job_done, .names = job_names, .gone = closed}},
		{{.done = job_done, .names = job_names, .prepared = job_prepared},
		 {.done = job_done, .names = job_names, .prepared = job_prepared, .gone = closed}},
	};
	struct fm_queue_try *t = j->try;
	uint64_t now_ns = fm_loop_now(j->queue->c.loop);
	struct fm_job_opts o = j->o.job;
	int ret;

	o.name = j->is_measuring ? NULL : j->id;
	o.asked_by = j->o.peer;
	o.file = t->file;
	o.store_ref = t->store;
	o.attr = t->attr;
	if (is_store_tree(j) && o.is_put)
		o.tree_bytes = o.is_update			 ? j->will_come
			       : t->attr.size == FM_SIZE_UNKNOWN ? 0
								 : t->attr.size;
	if (j->is_measuring) {
		o.is_dry = true;
		o.is_held = o.has_names = false;
	}
	o.durability = durability_of(t);
	o.weight = weights[j->o.priority];
	if (o.is_put)
		o.excludes = NULL;	/* our end leaves them out */
	if (j->deadline_ns)
		o.timeout_ns = j->deadline_ns > now_ns ? j->deadline_ns - now_ns : 1;
	t->ret = j->queue->c.needs->check(j->queue->c.engine, &o, &t->err);
	if (t->ret == 0 && t->file->holder && !t->lingering)
		t->ret = fm_err_set(&t->err, -ENOMEM, "no memory for a job");
	if (t->ret < 0) {	/* what an earlier try left stays for the next one */
		t->holder = t->holder ? t->holder : fm_holder_ref(t->file->holder);
		at_work(t, close_run, refused_done);
		return;
	}
	if (is_noted_first(j))
		return;
	if (t->file->holder)
		o.gone_ctx = t->lingering;
	t->file = NULL;
	ret = j->queue->c.needs->start(j->queue->c.engine, &o,
				       &events[o.is_held][o.gone_ctx != NULL], j, &j->job, &t->err);
	if (ret == 0 && o.gone_ctx) {
		j->lingering = t->lingering;
		j->lingering->queue = j->queue;
		t->lingering = NULL;
	}
	if (ret < 0) {
		j->job = NULL;
		settle_err(j, ret, &t->err);
	}
}

/*
 * Looks at the file that has the name of an attended get. It may be what an earlier try completed,
 * so it is synced too: its name may not be on the disk yet.
 */
static void look_run(struct fm_work *w)
{
	struct fm_queue_try *t = fm_container_of(w, struct fm_queue_try, work);
	struct stat st;

	t->ret = dup_fds(t);
	if (t->ret < 0)
		return;
	if (fstat(t->fd, &st) < 0 ||
	    (t->job->o.job.durability != FM_DURABILITY_MEMORY && syncfs(t->fd) < 0)) {
		t->ret = fm_err_sys(&t->err, -errno, "look at the file");
		return;
	}
	t->attr = (struct fm_attr){.type = S_ISREG(st.st_mode) ? FM_NODE_FILE : FM_NODE_OTHER,
				   .size = (uint64_t)st.st_size,
				   .mtime_ns = (int64_t)st.st_mtim.tv_sec * (int64_t)FM_NS_PER_S +
					       st.st_mtim.tv_nsec};
}

static void look_done(struct fm_work *w)
{
	struct fm_queue_try *t = fm_container_of(w, struct fm_queue_try, work);
	struct fm_queue_job *j = t->job;

	if (j->end_code) {
		settle_code(j, j->end_code, j->why ? j->why : "cancelled");
		return;
	}
	if (t->ret == 0)
		t->ret = fm_err_set(&t->err, -EEXIST,
				    "what has the name already is of another size or time than the "
				    "source: move it "
				    "away, or receive it again with --force");
	settle_err(j, t->ret, &t->err);
}

/*
 * Moves a pipe from the ordinary places to those of jobs that begin at once: it goes at the pace of
 * its other end, which no place may wait for. Its descriptors are closed, since there will be no
 * second try. Negative: too many such jobs run already.
 */
static int leave_place(struct fm_queue_job *j, struct fm_err *err)
{
	int ret = fm_share_check(&j->queue->shares.prompt, fm_queue_who(j), 1, err);

	if (ret < 0)
		return ret;
	place_give(j);
	place_take(j);
	fm_share_give_all(&j->held.fd);
	fm_queue_close_fds(&j->o);
	return 0;
}

/* Ends a job for a reason that no other try could change. */
static void refuse(struct fm_queue_job *j)
{
	struct fm_err err = j->try->err;

	if (j->end_code) {
		settle_code(j, j->end_code, j->why ? j->why : "cancelled");
		return;
	}
	place_give(j);
	try_free(j);
	fm_queue_fail_as(j, &err);
}

static void full_done(struct fm_work *w)
{
	refuse(fm_container_of(w, struct fm_queue_try, work)->job);
}

/*
 * Keeps what a try has seen of the file, before anything else is done about that try: a pipe is not
 * tried again, nor kept for a caller who goes away. Returns true if the file turned out to be a
 * pipe just now.
 */
static bool learn(struct fm_queue_try *t)
{
	struct fm_queue_job *j = t->job;
	bool is_new = t->is_prompt && !j->is_prompt;

	j->is_unseen = j->is_unseen && !t->is_seen;
	j->is_whole |= t->is_whole;
	j->is_prompt |= t->is_prompt;
	return is_new;
}

/* It was told to end while our end was opened, or before that was begun. */
static void end_opened(struct fm_queue_job *j)
{
	if (j->try->file)
		at_work(j->try, close_run, close_done);
	else
		settle_code(j, j->end_code, j->why ? j->why : "cancelled");
}

/* ---- ... which may have taken so long that the place was given back ---- */

/* Whether the job has a place, if need be a new one. */
static bool has_place_again(struct fm_queue_job *j)
{
	const struct fm_queue_shares *s = &j->queue->shares;

	if (j->has_place)
		return true;
	if (j->is_prompt ? fm_share_check(&s->prompt, fm_queue_who(j), 1, &j->try->err) < 0
			 : s->running.used >= s->running.limits.total || !may_start(j))
		return false;
	place_take(j);
	return true;
}

/* How many jobs of its user wait for a place with their file open. */
static uint64_t opened_beside(const struct fm_queue_job *j)
{
	uint64_t count = 0;

	for (unsigned p = 0; p < FM_QUEUE_PRIORITY_COUNT; p++)
		fm_list_each(at, next, &j->queue->pending[p]) {
			const struct fm_queue_job *other =
				fm_container_of(at, struct fm_queue_job, pending_at);

			count += other->try && other->user == j->user;
		}
	return count;
}

/* What it had opened is closed: it waits for a place as before. */
static void place_done(struct fm_work *w)
{
	struct fm_queue_job *j = fm_container_of(w, struct fm_queue_try, work)->job;

	if (j->end_code) {
		settle_code(j, j->end_code, j->why ? j->why : "cancelled");
		return;
	}
	try_free(j);
	j->tries--;	/* it was none */
	fm_queue_enqueue(j);
}

/*
 * What is open stays so while its job waits in its turn: where each opening takes too long, none
 * would ever move anything else. Of one user's not more than there are places, of what can be
 * opened once more.
 */
static void wait_for_place(struct fm_queue_job *j)
{
	const struct fm_queue *q = j->queue;
	struct fm_queue_try *t = j->try;
	bool can_open_again = j->o.end == FM_QUEUE_STORE || j->o.fd >= 0;

	if (j->is_prompt) {
		at_work(t, close_run, full_done);
	} else if (q->is_stopping ||
		   (can_open_again && opened_beside(j) >= q->shares.running.limits.total)) {
		t->ret = -EAGAIN;	/* what it has of an earlier one stays */
		at_work(t, close_run, place_done);
	} else {
		fm_queue_enqueue(j);
	}
}

/* One that waits so is told to end. */
static void end_waiting_opened(struct fm_queue_job *j)
{
	fm_list_del(&j->pending_at);
	end_opened(j);
}

void fm_queue_close_opened(struct fm_queue_job *j)
{
	if (j->state != FM_QUEUE_QUEUED || !j->try || !j->try->file || j->try->is_at_work)
		return;
	fm_list_del(&j->pending_at);
	j->try->ret = -EAGAIN;
	at_work(j->try, close_run, place_done);
}

static void open_done(struct fm_work *w)
{
	struct fm_queue_try *t = fm_container_of(w, struct fm_queue_try, work);
	struct fm_queue_job *j = t->job;
	bool leaves = learn(t);

	if (t->is_refused)
		refuse(j);
	else if (t->ret < 0)
		settle_err(j, t->ret, &t->err);
	else if (j->end_code)
		end_opened(j);
	else if (leaves && leave_place(j, &t->err) < 0)
		at_work(t, close_run, full_done);
	else if (!has_place_again(j))
		wait_for_place(j);
	else if (!fm_queue_asks_room(j))
		begin(j);
}

void fm_queue_room_said(struct fm_queue_job *j)
{
	if (j->end_code)
		end_opened(j);
	else
		begin(j);
}

/* It is told to end before it is written down as sent: it was not, and its file says so next. */
static void end_noting(struct fm_queue_job *j)
{
	j->is_noting = j->is_sent = false;
	end_opened(j);
}

void fm_queue_noted(struct fm_queue_job *j)
{
	j->is_noting = false;
	fm_queue_room_said(j);
}

/*
 * Gives the job's descriptors to this try if no other try will need them. Otherwise the try only
 * borrows them, and dup_fds() makes copies.
 */
static void take_fds(struct fm_queue_try *t)
{
	struct fm_queue_job *j = t->job;

	t->fd = j->o.fd;
	t->journal = j->o.journal;
	t->is_dup = j->o.retry_ns > 0 && !j->is_prompt;
	t->holder = fm_holder_ref(j->o.holder);
	if (t->is_dup)
		return;
	j->o.fd = j->o.journal = -1;
	fm_holder_put(j->o.holder);
	j->o.holder = NULL;
	fm_share_give_all(&j->held.fd);
}

/* One with its file open has a place now. */
static void start_opened(struct fm_queue_job *j)
{
	fm_list_del(&j->pending_at);
	j->state = FM_QUEUE_RUNNING;
	set_timer(j);
	place_take(j);
	if (!fm_queue_asks_room(j))
		begin(j);
}

static void start(struct fm_queue_job *j)
{
	struct fm_queue_try *t = try_new(j);
	int ret = 0;

	fm_list_del(&j->pending_at);
	j->state = FM_QUEUE_RUNNING;
	j->started_ns = fm_loop_now(j->queue->c.loop);
	j->queue->counts.retries += j->tries > 0;
	j->tries++;
	j->is_asked = j->is_measuring = j->is_measured = false;
	j->will_come = 0;
	set_timer(j);
	place_take(j);
	if (!t) {
		settle_code(j, -ENOMEM, "no memory for a job");
		return;
	}
	if (j->o.end == FM_QUEUE_FILE) {
		t->file = j->o.job.file;
		t->attr = j->o.job.attr;
		j->o.job.file = NULL;
		t->lingering = t->file->holder ? fm_sys_alloc(sizeof(*t->lingering)) : NULL;
		begin(j);
		return;
	}
	if (j->o.end == FM_QUEUE_FD)
		take_fds(t);
	else
		ret = take_store(t);
	if (ret < 0)
		settle_err(j, ret, &t->err);
	else if (j->is_found)
		at_work(t, look_run, look_done);
	else
		at_work(t, open_run, open_done);
}

/* Whether the file of the job is in the holder of its user. */
static bool is_held(const struct fm_queue_job *j)
{
	if (j->try && j->try->file)
		return j->try->file->holder != NULL;
	return j->o.end == FM_QUEUE_FD ? j->o.holder != NULL
				       : j->o.end == FM_QUEUE_FILE && j->o.job.file->holder;
}

static bool may_start(const struct fm_queue_job *j)
{
	const struct fm_queue_shares *s = &j->queue->shares;

	if (is_held(j) && !fm_share_may(&s->lingering, fm_queue_who(j), 1))
		return false;
	return fm_share_may(&s->running, fm_queue_who(j), 1) &&
	       (!is_store_tree(j) || fm_share_may(&s->trees, fm_queue_who(j), 1));
}

static uint64_t running_of(const struct fm_queue_job *j)
{
	return fm_share_of(&j->queue->shares.running, fm_queue_who(j));
}

/* Whether a job comes before an older one of its priority. */
static bool is_before(const struct fm_queue_job *j, const struct fm_queue_job *older)
{
	uint64_t running = running_of(j), others = running_of(older);

	return running < others || (running == others && j->try && !older->try);
}

/*
 * The job to start next: by priority, then of the user with the fewest running jobs, then one that
 * has its file open, then the oldest. Only jobs of users who may run one more count.
 */
static struct fm_queue_job *next_of(struct fm_queue *q)
{
	if (q->shares.running.used >= q->shares.running.limits.total)
		return NULL;
	for (unsigned i = 0; i < FM_QUEUE_PRIORITY_COUNT; i++) {
		struct fm_queue_job *best = NULL;

		fm_list_each(at, next, &q->pending[fm_queue_ranks[i]]) {
			struct fm_queue_job *j =
				fm_container_of(at, struct fm_queue_job, pending_at);

			if (may_start(j) && (!best || is_before(j, best)))
				best = j;
		}
		if (best)
			return best;
	}
	return NULL;
}

void fm_queue_kick_run(struct fm_task *task)
{
	struct fm_queue *q = fm_container_of(task, struct fm_queue, kick);
	struct fm_queue_job *j;
	struct fm_err err;
	struct fm_list *at;

	if (q->is_stopping)
		return;
	while ((at = fm_list_pop(&q->prompts))) {
		j = fm_container_of(at, struct fm_queue_job, pending_at);
		if (fm_share_check(&q->shares.prompt, fm_queue_who(j), 1, &err) == 0 &&
		    (!is_held(j) ||
		     fm_share_check(&q->shares.lingering, fm_queue_who(j), 1, &err) == 0))
			start(j);
		else
			fm_queue_fail_as(j, &err);
	}
	while ((j = next_of(q))) {
		if (j->try)
			start_opened(j);
		else
			start(j);
	}
	q->ranked_ns = 0;
}

/* ---- what a try came to ---- */

static bool is_retried(const struct fm_queue_job *j, const struct fm_job_result *r)
{
	return j->o.retry_ns > 0 && !j->is_prompt && j->o.end != FM_QUEUE_FILE &&
	       fm_errno_may_pass(r->code);
}

/* Ends a job whose error may pass, because it was tried for as long as it may be. */
static void give_up(struct fm_queue_job *j, const struct fm_job_result *r)
{
	struct fm_job_result told = *r;

	fm_retry_give_up(&j->retry, fm_loop_now(j->queue->c.loop), &told.err);
	fm_queue_end(j, FM_QUEUE_FAILED, &told);
}

/* Lets the job wait for its next try. false: it gets none. */
static bool wait_for_next(struct fm_queue_job *j, const struct fm_job_result *r)
{
	uint64_t now_ns = fm_loop_now(j->queue->c.loop), pause_ns;

	if (j->deadline_ns && now_ns >= j->deadline_ns)
		return false;
	if (!fm_retry_next(&j->retry, j->o.retry_ns, now_ns, j->queue->c.random, &pause_ns))
		return false;
	j->has_gone_far |= r->conns > 0 || j->is_found;	/* it was asked for there */
	fm_queue_set_why(j, r->code, r->err.text);
	j->again_ns = now_ns + pause_ns;
	j->soonest_ns = now_ns + FM_RETRY_PAUSE_MIN_NS;
	j->state = FM_QUEUE_WAITING;
	set_timer(j);
	return true;
}

static void try_again(struct fm_queue_job *j, const struct fm_job_result *r)
{
	fm_retry_failed(&j->retry, j->started_ns, fm_loop_now(j->queue->c.loop), r->bytes_reached);
	if (!wait_for_next(j, r))
		give_up(j, r);
}

/* Whether a job that this daemon stops is resumed by the next one. */
static bool is_for_next_daemon(const struct fm_queue_job *j, const struct fm_job_result *r)
{
	return j->queue->is_stopping && j->o.is_detached && j->is_accepted && !j->end_code &&
	       fm_errno_may_pass(r->code);
}

static void compare(struct fm_queue_job *j, const struct fm_job_result *r);

static void settle(struct fm_queue_job *j, const struct fm_job_result *r)
{
	bool can_compare = j->try && !j->o.is_tree &&
			   (j->o.job.is_put || j->o.end == FM_QUEUE_STORE || j->is_found);

	if (r->code == -EEXIST && j->has_gone_far && can_compare && !j->end_code) {
		compare(j, r);
		return;
	}
	place_give(j);
	try_free(j);
	if (r->code == 0 && fm_queue_needs_name(j) && !j->is_found)
		fm_queue_let_name(j, r);
	else if (r->code == 0)
		fm_queue_end(j, FM_QUEUE_DONE, r);
	else if (is_for_next_daemon(j, r))
		j->state = FM_QUEUE_QUEUED;
	else if (fm_queue_has_lost_client(j, r->code))
		fm_queue_end(j, FM_QUEUE_CANCELLED, r);
	else if (j->end_code || !is_retried(j, r))
		fm_queue_end(j, j->end_code == -ECANCELED ? FM_QUEUE_CANCELLED : FM_QUEUE_FAILED,
			     r);
	else
		try_again(j, r);
}

/* ---- "exists": perhaps by us ---- */

static bool is_same(const struct fm_attr *a, const struct fm_attr *b)
{
	return a->type == FM_NODE_FILE && b->type == FM_NODE_FILE && a->size == b->size &&
	       a->mtime_ns == b->mtime_ns;
}

static void compared(struct fm_queue_job *j, bool is_ours)
{
	struct fm_job_result r = j->try->result;

	if (j->queue->is_stopping)	/* nobody could look */
		r.code = fm_err_set(&r.err, -EHOSTDOWN, "fmoved is stopping");
	if (j->end_code) {
		r.code = r.err.code = j->end_code;
		(void)snprintf(r.err.text, sizeof(r.err.text), "%s",
			       j->why ? j->why : fm_err_name(j->end_code));
	} else if (is_ours) {
		r.code = 0;
		fm_err_clear(&r.err);
		r.attr = j->try->far;
		r.size = r.data_bytes = r.bytes_resumed = r.attr.size;
		r.is_durable = j->o.job.durability == FM_DURABILITY_DISK ||
			       (j->is_found && j->o.job.durability != FM_DURABILITY_MEMORY);
		r.was_there = true;
		(void)snprintf(r.note, sizeof(r.note), "an earlier try had got it there");
	}
	j->has_gone_far = j->is_sent = false;
	settle(j, &r);
}

static int ask(struct fm_queue_job *j, bool is_far,
	       void (*done)(void *ctx, const struct fm_request_result *result))
{
	const struct fm_request_opts o = {
		.verb = FM_VERB_STAT,
		.node = is_far ? j->o.job.node : NULL,
		.store = is_far ? j->o.job.store : j->o.own_store,
		.path = is_far ? j->o.job.path : j->o.own_path,
		.path_len = is_far ? j->o.job.path_len : j->o.own_path_len,
		.who = j->o.job.who,
		.timeout_ns = fm_queue_deadline_within(j, COMPARE_NS),
	};
	struct fm_err err;

	return j->queue->c.needs->request(j->queue->c.engine, &o, done, j, &err);
}

static void near_seen(void *ctx, const struct fm_request_result *result)
{
	struct fm_queue_job *j = ctx;

	compared(j, result->code == 0 && is_same(&j->try->far, &result->entries[0].attr));
}

static void far_seen(void *ctx, const struct fm_request_result *result)
{
	struct fm_queue_job *j = ctx;

	if (result->code < 0 && j->is_found) {	/* what is there says nothing, then */
		j->try->result.code = j->try->result.err.code = result->code;
		(void)snprintf(j->try->result.err.text, sizeof(j->try->result.err.text), "%s",
			       result->err.text);
	}
	if (result->code < 0) {
		compared(j, false);
		return;
	}
	j->try->far = result->entries[0].attr;
	if (j->o.end == FM_QUEUE_FD)
		compared(j, is_same(&j->try->far, &j->try->attr));
	else if (ask(j, false, near_seen) < 0)
		compared(j, false);
}

static void compare(struct fm_queue_job *j, const struct fm_job_result *r)
{
	j->try->result = *r;
	if (ask(j, true, far_seen) < 0)
		compared(j, false);
}

/* ---- time ---- */

/* Without a place the file of the try counts among those that jobs hold. */
static void count_fd(struct fm_queue_job *j)
{
	if (j->o.end == FM_QUEUE_FD && !j->held.fd.share)
		fm_share_force(&j->queue->shares.fds, fm_queue_who(j), 1, &j->held.fd);
}

/*
 * The thread of a try has not come back. A job that is to end does so without it; another one gives
 * back its place, which its file system may keep from everybody, and goes on when that answers.
 */
static void go_without(struct fm_queue_job *j)
{
	/* of a put nothing of ours is kept, nor of what was not begun */
	bool is_kept = j->is_end_kept && !j->o.job.is_put && j->tries > 0;
	struct fm_job_result r = { .code = j->end_code, .is_partial_kept = is_kept };

	if (!j->end_code && !j->is_accepted) {
		fm_queue_end_with(j, -ETIMEDOUT, true,
				  "its file system, or another one here, does not answer: nobody "
				  "could look at it for 30 s");
		return;
	}
	place_give(j);
	if (!j->end_code) {
		count_fd(j);
		j->late_ns = FM_NEVER;
		set_timer(j);
		return;
	}
	j->try->is_left = true;
	(void)fm_err_set(&r.err, j->end_code, "%s", j->why ? j->why : "cancelled");
	fm_queue_end(j, j->end_code == -ECANCELED ? FM_QUEUE_CANCELLED : FM_QUEUE_FAILED, &r);
}

/* It is to end: what no thread has begun for it is not begun, else that has a moment. */
static void hurry(struct fm_queue_job *j)
{
	struct fm_queue_try *t = j->try;
	struct fm_worker *worker = t->holder ? fm_holder_worker(t->holder) : j->queue->c.worker;

	if (!t->is_closing && fm_worker_cancel(worker, &t->work))
		return;
	j->late_ns = fm_loop_now(j->queue->c.loop) + FM_QUEUE_LEAVE_NS;
	set_timer(j);
}

void fm_queue_timer_fire(struct fm_timer *timer)
{
	struct fm_queue_job *j = fm_container_of(timer, struct fm_queue_job, timer);

	uint64_t now_ns = fm_loop_now(j->queue->c.loop);

	if (j->save_late_ns && now_ns >= j->save_late_ns) {
		j->save_late_ns = 0;
		fm_queue_save_late(j);
	}
	if (has_deadline(j) && now_ns >= j->deadline_ns) {
		fm_queue_end_with(j, -ETIMEDOUT, true,
				  "not done within the time that --timeout gave");
		if (!fm_queue_has_ended(j))
			set_timer(j);	/* its file may still be late */
	} else if (is_at_work(j) && now_ns >= j->late_ns) {
		go_without(j);
	} else if (j->state == FM_QUEUE_WAITING && now_ns >= j->again_ns) {
		fm_queue_enqueue(j);
	} else {
		set_timer(j);
	}
}

void fm_queue_peer_up(struct fm_queue *q, const char *peer)
{
	unsigned count = 0;

	fm_list_each(at, next, &q->jobs) {
		struct fm_queue_job *j = fm_container_of(at, struct fm_queue_job, at);

		if (q->is_stopping || j->state != FM_QUEUE_WAITING ||
		    strcmp(j->o.job.node, peer) != 0 || j->again_ns <= j->soonest_ns)
			continue;
		j->again_ns = j->soonest_ns;
		set_timer(j);
		count++;
	}
	if (count > 0)
		fm_log_info("%s is back: %u waiting %s tried at once", peer, count,
			    count == 1 ? "job is" : "jobs are");
}

/* ---- the end ---- */

void fm_queue_count_end(struct fm_queue_job *j)
{
	fm_share_give_all(&j->held.job);
	j->queue->kept++;
	j->user->kept++;
}

static void let_go(struct fm_queue_job *j)
{
	fm_list_del(&j->pending_at);
	fm_timer_clear(j->queue->c.loop, &j->timer);
	fm_share_give_all(&j->held.tree);
	fm_share_give_all(&j->held.attended);
	if (!j->try) {		/* else its thread may still use them */
		fm_share_give_all(&j->held.fd);
		fm_queue_close_fds(&j->o);
	}
	/* It was never begun, so closing one of ours does not wait for a disk. */
	if (j->o.end == FM_QUEUE_FILE && j->o.job.file)
		fm_file_give_up(j->o.job.file, false);
	j->o.job.file = NULL;
}

/* Pauses the job: its caller went away, and may come back for it. */
static void pause_job(struct fm_queue_job *j)
{
	j->state = FM_QUEUE_PAUSED;
	j->o.is_detached = j->is_accepted = j->is_told = true;
	if (!j->o.is_attended)
		j->o.retry_ns = FM_RETRY_ALWAYS;
	j->has_gone_far |= j->is_sent;
	j->end_code = 0;
	j->ended_ms = fm_queue_now_ms();
	fm_queue_keep(j);
	fm_queue_set_why(j, 0, "");
	fm_queue_save(j);
	fm_loop_post(j->queue->c.loop, &j->tell);
}

/*
 * Nobody hears of an end before it is on disk: a daemon that was killed meanwhile would have the
 * next one begin a job again that was said to be over. Nor is a job accepted before. But nobody
 * waits for that for ever (fm_queue_save_late()).
 */
static void wait_for_save(struct fm_queue_job *j)
{
	j->save_late_ns = fm_loop_now(j->queue->c.loop) + FM_QUEUE_SAVE_NS;
	set_timer(j);
}

void fm_queue_end(struct fm_queue_job *j, enum fm_queue_state state,
		  const struct fm_job_result *result)
{
	assert(!fm_queue_has_ended(j) && !j->job && (!j->try || j->try->is_left));
	let_go(j);
	if (j->is_abandoned && state == FM_QUEUE_CANCELLED && j->state != FM_QUEUE_PAUSED) {
		pause_job(j);
		return;
	}
	fm_queue_count_end(j);
	j->queue->counts.ended[state]++;
	j->state = state;
	j->ended_ms = fm_queue_now_ms();
	fm_queue_keep(j);
	/* Without memory its end is still told, but not what it was like. */
	free(j->result);
	j->result = FM_FAULT("queue.result") ? NULL : malloc(sizeof(*j->result));
	if (j->result)
		*j->result = *result;
	fm_queue_set_why(j, result->code, result->err.text);
	if (!j->o.is_detached || !j->is_accepted || j->queue->dir < 0) {
		fm_loop_post(j->queue->c.loop, &j->tell);
		return;
	}
	j->is_end_unsaved = true;
	wait_for_save(j);
	fm_queue_save(j);
}

void fm_queue_end_saved(struct fm_queue_job *j)
{
	fm_timer_clear(j->queue->c.loop, &j->timer);
	j->save_late_ns = 0;
	j->is_end_unsaved = false;
	fm_loop_post(j->queue->c.loop, &j->tell);
}

void fm_queue_fail_as(struct fm_queue_job *j, const struct fm_err *err)
{
	/* by whoever cancelled it, or since the daemon stops */
	bool is_told = err->code == -ECANCELED || err->code == -EHOSTDOWN;
	struct fm_job_result r = {.code = err->code,
				  .err = *err,
				  .is_partial_kept = is_told && j->is_end_kept};

	fm_queue_end(j, err->code == -ECANCELED ? FM_QUEUE_CANCELLED : FM_QUEUE_FAILED, &r);
}

void fm_queue_fail(struct fm_queue_job *j, int code, const char *text)
{
	struct fm_err err = { .code = code };

	(void)snprintf(err.text, sizeof(err.text), "%s", text);	/* cut if it is too long */
	fm_queue_fail_as(j, &err);
}

void fm_queue_end_with(struct fm_queue_job *j, int code, bool is_kept, const char *reason)
{
	if (fm_queue_has_ended(j) || j->end_code)
		return;
	j->end_code = code;
	j->is_end_kept = is_kept;
	if (j->job || (j->try && !j->try->is_left) || (!j->is_accepted && j->o.is_detached)) {
		fm_queue_set_why(j, code, reason);	/* when they are through with it */
		if (j->job)
			j->queue->c.needs->cancel(j->job, code, is_kept, reason);
		else if (is_at_work(j))
			hurry(j);
		else if (j->state == FM_QUEUE_QUEUED && j->try)
			end_waiting_opened(j);
		else if (j->is_noting)
			end_noting(j);
	} else {
		fm_queue_fail(j, code, reason);
		return;
	}
	if (fm_queue_is_ending(j)) {
		wait_for_save(j);
		fm_queue_save(j);
	}
}

/* ---- telling ---- */

static void tell_all(struct fm_queue_job *j, struct fm_list *watches,
		     const struct fm_job_result *result)
{
	struct fm_list *at;

	while ((at = fm_list_pop(watches))) {
		struct fm_queue_watch *watch = fm_container_of(at, struct fm_queue_watch, at);

		if (j->submitter == watch)
			j->submitter = NULL;
		watch->job = NULL;
		if (watch->events->done)
			watch->events->done(watch, result);
	}
}

static void tell_done(struct fm_queue_job *j, const struct fm_job_result *result)
{
	tell_all(j, &j->watches, result);
}

void fm_queue_cancels_said(struct fm_queue_job *j, const struct fm_err *err)
{
	struct fm_job_result r = { .code = err ? err->code : 0 };

	if (err)
		r.err = *err;
	tell_all(j, &j->cancels, &r);
}

static void tell_end(struct fm_queue_job *j)
{
	struct fm_job_result bare = { .code = j->code, .err = { .code = j->code } };
	struct fm_err late = { .code = 0 };

	(void)snprintf(bare.err.text, sizeof(bare.err.text), "%s",
		       j->why ? j->why : fm_err_name(j->code));
	tell_done(j, j->result ? j->result : &bare);
	if (j->state != FM_QUEUE_CANCELLED)
		(void)fm_err_set(&late, -EALREADY, "job %s had ended already: it is %s", j->id,
				 fm_words_state[j->state]);
	fm_queue_cancels_said(j, late.code ? &late : NULL);
	if (j->is_forgotten || !j->o.is_detached)
		fm_queue_job_drop(j);
	else if (!j->is_accepted)
		fm_queue_forget(j);
	else
		fm_queue_prune(j->queue, j->user);
}

void fm_queue_tell_run(struct fm_task *task)
{
	struct fm_queue_job *j = fm_container_of(task, struct fm_queue_job, tell);
	struct fm_job_result paused = { .code = -EAGAIN, .err = { .code = -EAGAIN } };

	if (j->is_accepted && !j->is_told) {
		j->is_told = true;
		if (j->submitter && j->submitter->events->accepted)
			j->submitter->events->accepted(j->submitter);
	}
	if (fm_queue_has_ended(j)) {
		if (!j->is_end_unsaved)
			tell_end(j);
	} else if (j->state == FM_QUEUE_PAUSED) {
		(void)snprintf(paused.err.text, sizeof(paused.err.text), "job %s is paused: %s",
			       j->id, fm_queue_paused_text(j));
		tell_done(j, &paused);
	}
}
