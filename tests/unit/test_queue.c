/* SPDX-License-Identifier: MIT */
/* links: fm_queue fm_store */
/*
 * test_queue - the queue of jobs over an engine that is made up here: it starts what it is told to
 * and ends it when the test says so. Time stands still unless it is moved.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/base/worker.h"
#include "mover/node/node.h"
#include "mover/queue/queue.h"
#include "mover/queue/queue_priv.h"
#include "mover/services/request.h"
#include "mover/store/access.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

#define ALICE 1001
#define BOB 1002
#define STARTED_MAX 1200

/* A worker's thread that stands still at a point until it is let go. */
static struct {
	const char *point;		/* NULL: nowhere */
	bool is_for_all;		/* each that comes, in place of the first one */
	sem_t is_there, may_go;
} gate;

static void gate_pass(const char *point)
{
	if (!gate.point || strcmp(point, gate.point) != 0)
		return;
	if (!gate.is_for_all)
		gate.point = NULL;
	sem_post(&gate.is_there);
	sem_wait(&gate.may_go);
}

/* ---- an engine ---- */

struct transfer {
	struct fm_job_events events;
	void *ctx;
	char path[64];
	uint64_t timeout_ns;
	uint64_t size;		/* of the source */
	const struct fm_store_ref *store_ref;
	bool may_replace;
	bool is_dry;
	bool is_over;
	int cancelled;		/* the code */
	bool is_kept;
};

static struct transfer started[STARTED_MAX];
static unsigned started_count;
static int check_answer;

static struct {
	void (*done)(void *ctx, const struct fm_request_result *result);
	void *ctx;
	bool is_far;
	uint64_t timeout_ns;
	unsigned count;
} asked;

static struct fm_attr own_attr = { .type = FM_NODE_FILE, .size = 1000, .mtime_ns = 5 };

static int engine_check(struct fm_engine *e, const struct fm_job_opts *o, struct fm_err *err)
{
	(void)e;
	(void)o;
	return check_answer ? fm_err_set(err, check_answer, "no such node") : 0;
}

static int engine_start(struct fm_engine *e, const struct fm_job_opts *o,
			const struct fm_job_events *events, void *ctx,
		 struct fm_job **out, struct fm_err *err)
{
	struct transfer *j = &started[started_count];

	(void)e;
	o->file->ops->close(o->file);
	if (FM_FAULT("test.start"))
		return fm_err_set(err, -ENOMEM, "no memory");
	if (started_count == STARTED_MAX)
		abort();
	*j = (struct transfer){ .events = *events, .ctx = ctx, .timeout_ns = o->timeout_ns,
				.size = o->attr.size,
				.store_ref = o->store_ref,
				.may_replace = o->may_replace,
				.is_dry = o->is_dry };
	(void)snprintf(j->path, sizeof(j->path), "%s", o->path);
	started_count++;
	*out = (struct fm_job *)(void *)j;
	return 0;
}

static void engine_cancel(struct fm_job *job, int code, bool is_kept, const char *reason)
{
	struct transfer *j = (struct transfer *)(void *)job;

	(void)reason;
	CU_ASSERT_FALSE(j->is_over);
	j->cancelled = code;
	j->is_kept = is_kept;
}

static void engine_named(struct fm_job *j)
{
	(void)j;
}

static void engine_commit(struct fm_job *j)
{
	(void)j;
}

static void engine_progress(struct fm_job *j, struct fm_job_progress *out)
{
	(void)j;
	*out = (struct fm_job_progress){ .size = 1000, .bytes_done = 10, .state = "copying" };
}

static int engine_request(struct fm_engine *e, const struct fm_request_opts *o,
			  void (*done)(void *ctx, const struct fm_request_result *result),
			  void *ctx, struct fm_err *err)
{
	(void)e;
	(void)err;
	asked.done = done;
	asked.ctx = ctx;
	asked.is_far = o->node != NULL;
	asked.timeout_ns = o->timeout_ns;
	asked.count++;
	return 0;
}

static _Atomic unsigned opened;		/* sources of stores */

static int store_open_source(struct fm_store *s, const char *path, const struct fm_who *who,
			     struct fm_file **out, struct fm_attr *attr, struct fm_err *err)
{
	(void)s;
	(void)who;
	gate_pass("open");
	opened++;
	if (strcmp(path, "missing") == 0)
		return fm_err_set(err, -ENOENT, "no such file");
	if (strcmp(path, "full") == 0)
		return fm_err_full(err, "all memory is taken");
	if (fm_null_source(1000, out, attr, err) < 0)
		return -ENOMEM;
	*attr = own_attr;
	return 0;
}

/* A sink that has something of an earlier try. */
static unsigned kept, closed;
/* Its file system may hang: what would close it on the loop's thread does not stand there, for the
 * test to end, but is seen. */
static bool is_closed_on_loop;
static pthread_t loop_thread;

static void partial_keep(struct fm_file *file)
{
	(void)file;
	kept++;
}

static void partial_close(struct fm_file *file)
{
	(void)file;
	if (pthread_equal(pthread_self(), loop_thread))
		is_closed_on_loop = true;
	else
		gate_pass("close");
	closed++;
}

static const struct fm_file_ops partial_ops = { .keep = partial_keep, .close = partial_close };
static struct fm_file partial = { .ops = &partial_ops, .has_partial = true };

static int store_create(struct fm_store *s, const char *path, const struct fm_who *who,
			const struct fm_create *how, struct fm_file **out, struct fm_err *err)
{
	(void)s;
	(void)who;
	(void)how;
	gate_pass("create");
	if (strcmp(path, "partial") == 0) {
		*out = &partial;
		return 0;
	}
	return fm_null_sink(out, err);
}

static int store_stat(struct fm_store *s, const char *path, const struct fm_who *who,
		      struct fm_attr *attr, struct fm_err *err)
{
	(void)s;
	(void)who;
	gate_pass("stat");
	*attr = own_attr;
	return strcmp(path, "missing") == 0 ? fm_err_set(err, -ENOENT, "no such file") : 0;
}

static bool is_of_groups;	/* its rules name some */

static bool store_asks_users(struct fm_store *s)
{
	(void)s;
	return is_of_groups;
}

static int store_open_tree(struct fm_store *s, const char *path, const struct fm_who *who,
			   const char *const *excludes, struct fm_file **out, struct fm_attr *attr,
			   struct fm_err *err)
{
	(void)excludes;
	return store_open_source(s, path, who, out, attr, err);
}

static const struct fm_store_ops store_ops = {.open_source = store_open_source,
					      .create = store_create,
					      .open_tree = store_open_tree,
					      .stat = store_stat,
					      .asks_users = store_asks_users};
static struct fm_store store = { .ops = &store_ops, .name = "s", .is_durable = true };
static struct fm_store_ref store_ref = { .store = &store };

static bool is_store_away;	/* its volume is not mounted */

static int engine_store_get(struct fm_engine *e, const char *name, size_t len,
			    struct fm_store_ref **out, struct fm_err *err)
{
	(void)e;
	if (len != 1 || name[0] != 's')
		return fm_err_set(err, -ENOENT, "no such store");
	if (is_store_away)
		return fm_err_set(err, -EAGAIN, "its volume is not mounted");
	store_ref.refs++;
	*out = &store_ref;
	return 0;
}

static void engine_store_put(struct fm_store_ref *ref)
{
	ref->refs--;
}

static const struct fm_queue_needs engine = {
	.check = engine_check,
	.start = engine_start,
	.cancel = engine_cancel,
	.named = engine_named,
	.commit = engine_commit,
	.progress = engine_progress,
	.request = engine_request,
	.store_get = engine_store_get,
	.store_put = engine_store_put,
};

/* ---- time ---- */

static uint64_t now_ns = FM_NS_PER_S;

static uint64_t clock_now(void *ctx)
{
	(void)ctx;
	return now_ns;
}

static const struct fm_clock test_clock = { clock_now, NULL };

/* ---- a scene ---- */

static char dir[64];
static struct fm_loop *loop;
static struct fm_worker *worker;
static struct fm_queue *q;

static void run(void)
{
	while (fm_loop_step(loop, 0))
		;
}

static void pass(uint64_t ns)
{
	now_ns += ns;
	run();
}

static void queue_up(unsigned running_max)
{
	struct fm_queue_config config = { .loop = loop, .needs = &engine, .worker = worker,
					  .random = &fm_random_real, .node = "n1",
					  .running_max = running_max, .directory = dir };
	struct fm_err err;

	if (fm_queue_new(&config, &q, &err) < 0)
		abort();
}

static void scene_up(unsigned running_max)
{
	struct fm_loop_opts opts = { .clock = &test_clock, .is_simulated = true };
	struct fm_err err;

	(void)snprintf(dir, sizeof(dir), "/tmp/fm-queue.XXXXXX");
	if (!mkdtemp(dir) || fm_loop_new(&opts, &loop, &err) < 0 ||
	    fm_worker_new(0, &worker, &err) < 0)
		abort();
	fm_log_set_level(FM_LOG_ERROR);
	started_count = 0;
	check_answer = 0;
	asked.count = 0;
	queue_up(running_max);
}

static void settle(void);

/* The engine ends what runs, as fm_engine_stop() would. */
static void queue_down(void)
{
	fm_queue_stop(q);
	for (unsigned i = 0; i < started_count; i++) {
		struct fm_job_result r = {.code = -EHOSTDOWN,
					  .err = {.code = -EHOSTDOWN,
						  .text = "fmoved is stopping"}};

		if (started[i].is_over)
			continue;
		started[i].is_over = true;
		started[i].events.done(started[i].ctx, &r);
	}
	settle();
	fm_queue_worker_ends(q);
	fm_queue_free(q);
}

static void scene_down(void)
{
	queue_down();
	CU_ASSERT_EQUAL(store_ref.refs, 0);
	fm_worker_free(worker);
	fm_loop_free(loop);
	remove_all(dir);
}

/* One who asked, and what he was told. */
struct caller {
	struct fm_queue_watch watch;
	char id[FM_QUEUE_ID_LEN + 1];
	bool is_accepted;
	bool is_prepared;
	bool is_done;
	struct fm_job_result result;
};

static void caller_accepted(struct fm_queue_watch *watch)
{
	struct caller *c = fm_container_of(watch, struct caller, watch);

	CU_ASSERT_FALSE(c->is_accepted);
	CU_ASSERT_FALSE(c->is_done);
	c->is_accepted = true;
	(void)snprintf(c->id, sizeof(c->id), "%s", fm_queue_id(watch->job));
}

static void caller_prepared(struct fm_queue_watch *watch, const struct fm_job_result *result,
			    uint64_t sent)
{
	struct caller *c = fm_container_of(watch, struct caller, watch);

	(void)sent;
	CU_ASSERT_TRUE(c->is_accepted);
	CU_ASSERT_FALSE(c->is_prepared || c->is_done);
	c->is_prepared = true;
	CU_ASSERT_PTR_NOT_NULL_FATAL(result);
	c->result = *result;
}

static void caller_done(struct fm_queue_watch *watch, const struct fm_job_result *result)
{
	struct caller *c = fm_container_of(watch, struct caller, watch);

	CU_ASSERT_FALSE(c->is_done);
	c->is_done = true;
	c->result = *result;
}

static const struct fm_queue_events caller_events = {
	.accepted = caller_accepted, .prepared = caller_prepared, .done = caller_done};

static struct fm_queue_opts store_put(const char *path, uid_t uid)
{
	return (struct fm_queue_opts){
		.job = {.is_put = true,
			.node = "n2",
			.store = "t",
			.path = path,
			.path_len = strlen(path),
			.who = {.uid = uid}},
		.end = FM_QUEUE_STORE,
		.fd = -1,
		.journal = -1,
		.own_store = "s",
		.own_path = "src",
		.own_path_len = 3,
		.priority = FM_QUEUE_NORMAL,
	};
}

static struct fm_queue_opts file_put(const char *path, uid_t uid)
{
	struct fm_queue_opts o = store_put(path, uid);
	char name[96];

	(void)snprintf(name, sizeof(name), "%s.src", dir);
	o.end = FM_QUEUE_FD;
	o.fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	o.file = "/home/alice/src";
	o.file_len = strlen(o.file);
	o.own_store = o.own_path = NULL;
	(void)unlink(name);
	return o;
}

static struct fm_queue_opts attended_get(const char *path, uid_t uid)
{
	struct fm_queue_opts o = file_put(path, uid);

	o.job.is_put = false;
	o.is_detached = o.is_attended = true;
	o.retry_ns = FM_RETRY_ALWAYS;
	return o;
}

/* What there is to say of a directory whose client is asked for everything; it is never asked
 * here. */
static struct fm_tree no_tree;

static void tree_close(struct fm_file *file)
{
	free(file);
}

static struct fm_queue_opts attended_tree(const char *path, uid_t uid)
{
	static const struct fm_file_ops ops = { .close = tree_close };
	struct fm_queue_opts o = store_put(path, uid);

	o.end = FM_QUEUE_FILE;
	o.job.file = calloc(1, sizeof(*o.job.file));
	if (!o.job.file)
		abort();
	o.job.file->ops = &ops;
	o.job.file->tree = &no_tree;
	o.is_tree = o.is_detached = o.is_attended = true;
	o.file = "/home/alice/dir";
	o.file_len = strlen(o.file);
	return o;
}

static int submit(const struct fm_queue_opts *o, struct caller *c, struct fm_err *err)
{
	*c = (struct caller){ .watch = { .events = &caller_events } };
	return fm_queue_submit(q, o, &c->watch, err);
}

static void submitted(const struct fm_queue_opts *o, struct caller *c)
{
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL_FATAL(submit(o, c, &err), 0);
	run();
}

static void detached(struct fm_queue_opts o, struct caller *c)
{
	o.is_detached = true;
	o.retry_ns = FM_RETRY_ALWAYS;
	submitted(&o, c);
	CU_ASSERT_TRUE_FATAL(c->is_accepted);
	fm_queue_unwatch(&c->watch);
}

/* The one of those running that goes to this path; NULL: none does. */
static struct transfer *running(const char *path)
{
	for (unsigned i = 0; i < started_count; i++)
		if (!started[i].is_over && strcmp(started[i].path, path) == 0)
			return &started[i];
	return NULL;
}

static unsigned running_count(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < started_count; i++)
		n += !started[i].is_over;
	return n;
}

static void end_after(const char *path, int code, uint64_t data_bytes)
{
	struct transfer *j = running(path);
	struct fm_job_result r = { .code = code, .size = 1000, .data_bytes = data_bytes,
				   .bytes_reached = data_bytes, .conns = 1, .crc = 77 };

	CU_ASSERT_PTR_NOT_NULL_FATAL(j);
	if (code)
		(void)fm_err_set(&r.err, code, "it ended so");
	(void)snprintf(r.why, sizeof(r.why), "asked for");
	j->is_over = true;
	j->events.done(j->ctx, &r);
	run();
}

static void end(const char *path, int code)
{
	end_after(path, code, code ? 0 : 1000);
}

static enum fm_queue_state state_of(const char *id)
{
	struct fm_queue_info info = { .state = FM_QUEUE_QUEUED };
	struct fm_err err;

	CU_ASSERT_EQUAL(fm_queue_find(q, id, 0, &info, &err), 0);
	return info.state;
}

static bool is_known(const char *id)
{
	struct fm_queue_info info;
	struct fm_err err;

	return fm_queue_find(q, id, 0, &info, &err) == 0;
}

/* What a watch on a job is told. */
static int told(const char *id, struct caller *c)
{
	struct fm_err err;

	*c = (struct caller){ .watch = { .events = &caller_events } };
	CU_ASSERT_EQUAL_FATAL(fm_queue_watch_id(q, id, 0, &c->watch, &err), 0);
	run();
	CU_ASSERT_TRUE(c->is_done);
	return c->result.code;
}

/* What who cancels a job is told. */
static int cancel_by_id(const char *id, uid_t who, bool is_kept)
{
	struct caller c = { .watch = { .events = &caller_events } };
	struct fm_err err;
	int ret = fm_queue_cancel(q, id, who, is_kept, &c.watch, &err);

	if (ret != 1)
		return ret;
	CU_ASSERT_FALSE(c.is_done);
	run();
	CU_ASSERT_TRUE_FATAL(c.is_done);
	return c.result.code;
}

static bool has_file(const char *id, const char *suffix)
{
	char name[128];

	(void)snprintf(name, sizeof(name), "%s/%s%s", dir, id, suffix);
	return access(name, F_OK) == 0;
}

/* ---- who is next ---- */

static void test_the_oldest_is_next_and_no_more_than_the_limit_run(void)
{
	static const char *const paths[] = { "a", "b", "c", "d", "e" };
	struct caller c[5];
	struct fm_queue_opts o;

	scene_up(2);
	for (unsigned i = 0; i < 5; i++) {
		o = store_put(paths[i], ALICE);
		submitted(&o, &c[i]);
		CU_ASSERT_TRUE(c[i].is_accepted);
	}
	CU_ASSERT_EQUAL(running_count(), 2);
	for (unsigned i = 0; i < 5; i++) {
		CU_ASSERT_PTR_NOT_NULL(running(paths[i]));
		end(paths[i], 0);
		CU_ASSERT_TRUE(c[i].is_done && c[i].result.code == 0);
		CU_ASSERT_EQUAL(running_count(), i < 3 ? 2 : 4 - i);
	}
	scene_down();
}

static void test_the_limit_can_be_changed(void)
{
	struct caller c[4];

	scene_up(1);
	for (unsigned i = 0; i < 4; i++) {
		struct fm_queue_opts o = store_put("a", ALICE);

		submitted(&o, &c[i]);
	}
	CU_ASSERT_EQUAL(running_count(), 1);
	fm_queue_set_running_max(q, 3);
	run();
	CU_ASSERT_EQUAL(running_count(), 3);
	fm_queue_set_running_max(q, 1);
	end("a", 0);
	CU_ASSERT_EQUAL(running_count(), 2);
	end("a", 0);
	end("a", 0);
	CU_ASSERT_EQUAL(running_count(), 1);
	scene_down();
}

static void test_priority_comes_before_age(void)
{
	struct caller c[4];
	struct fm_queue_opts o;

	scene_up(1);
	o = store_put("first", ALICE);
	submitted(&o, &c[0]);
	o = store_put("low", ALICE);
	o.priority = FM_QUEUE_LOW;
	submitted(&o, &c[1]);
	o = store_put("normal", ALICE);
	submitted(&o, &c[2]);
	o = store_put("high", ALICE);
	o.priority = FM_QUEUE_HIGH;
	submitted(&o, &c[3]);
	end("first", 0);
	CU_ASSERT_PTR_NOT_NULL(running("high"));
	end("high", 0);
	CU_ASSERT_PTR_NOT_NULL(running("normal"));
	end("normal", 0);
	CU_ASSERT_PTR_NOT_NULL(running("low"));
	scene_down();
}

static void test_users_take_turns(void)
{
	static const char *const paths[] = { "a1", "a2", "a3", "a4" };
	struct caller c[5];
	struct fm_queue_opts o;

	scene_up(2);
	for (unsigned i = 0; i < 4; i++) {
		o = store_put(paths[i], ALICE);
		submitted(&o, &c[i]);
	}
	o = store_put("b", BOB);
	submitted(&o, &c[4]);
	end("a1", 0);
	CU_ASSERT_PTR_NOT_NULL(running("b"));
	CU_ASSERT_PTR_NULL(running("a3"));
	end("a2", 0);
	CU_ASSERT_PTR_NOT_NULL(running("a3"));
	scene_down();
}

static void test_one_user_does_not_get_every_place(void)
{
	struct caller c[12];
	struct fm_queue_opts o;

	scene_up(8);
	for (unsigned i = 0; i < 10; i++) {
		o = store_put("a", ALICE);
		submitted(&o, &c[i]);
	}
	CU_ASSERT_EQUAL(running_count(), 6);
	o = store_put("b", BOB);
	submitted(&o, &c[10]);
	CU_ASSERT_PTR_NOT_NULL(running("b"));
	o = store_put("root's", 0);
	submitted(&o, &c[11]);
	CU_ASSERT_PTR_NOT_NULL(running("root's"));
	CU_ASSERT_EQUAL(running_count(), 8);
	scene_down();
}

static void test_a_pipe_does_not_wait(void)
{
	struct caller c[2];
	struct fm_queue_opts o;
	int fds[2];

	scene_up(1);
	o = store_put("a", ALICE);
	submitted(&o, &c[0]);
	if (pipe2(fds, O_CLOEXEC) < 0)
		abort();
	o = file_put("pipe", ALICE);
	(void)close(o.fd);
	o.fd = fds[0];
	submitted(&o, &c[1]);
	CU_ASSERT_PTR_NOT_NULL(running("pipe"));
	end("a", 0);
	CU_ASSERT_PTR_NOT_NULL(running("pipe"));
	(void)close(fds[1]);
	scene_down();
}

static unsigned fds_open(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* The end to be read of a pipe into which nothing comes; it may be tried again. */
static struct fm_queue_opts pipe_put(const char *path, uid_t uid)
{
	struct fm_queue_opts o = file_put(path, uid);
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		abort();
	(void)close(o.fd);
	(void)close(fds[1]);
	o.fd = fds[0];
	o.retry_ns = FM_RETRY_ALWAYS;
	return o;
}

/*
 * Goal:   what is left in a pipe after a try that failed is never taken for the whole, and no place
 *         waits for it.
 * Method: the first try fails before it could look what it is.
 */
static void test_who_could_not_look_does_so_later(void)
{
	struct fm_queue_opts o = { 0 };
	struct caller c, d;

	if (fm_test_lacks_faults())
		return;
	scene_up(1);
	o = pipe_put("pipe", ALICE);
	fm_fault_arm("queue.dup", 1);
	submitted(&o, &c);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_FALSE(c.is_done);
	pass(2 * FM_NS_PER_S);
	CU_ASSERT_PTR_NOT_NULL(running("pipe"));
	o = store_put("a", ALICE);
	submitted(&o, &d);
	CU_ASSERT_PTR_NOT_NULL(running("a"));
	end("pipe", -ECONNRESET);
	CU_ASSERT_TRUE(c.is_done && c.result.code == -ECONNRESET);
	end("a", 0);
	scene_down();
}

/* Goal: a pipe is not tried again either when it was looked at and could not be opened. */
static void test_a_pipe_not_opened_is_not_tried_later(void)
{
	struct fm_queue_opts o;
	struct caller c;

	if (fm_test_lacks_faults())
		return;
	scene_up(1);
	o = pipe_put("pipe", ALICE);
	fm_fault_arm("store.alloc", 1);
	submitted(&o, &c);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(c.is_done && c.result.code == -ENOMEM);
	scene_down();
}

/* Goal: a file that nobody can look at is said at once, also where such a failure might pass. */
static void test_what_cannot_be_looked_at_is_told(void)
{
	struct fm_queue_opts o;
	struct caller c;

	if (fm_test_lacks_faults())
		return;
	scene_up(1);
	o = file_put("a", ALICE);
	o.retry_ns = FM_RETRY_ALWAYS;
	fm_fault_arm("queue.probe", 1);
	submitted(&o, &c);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(c.is_done && c.result.code == -ENOTCONN);
	CU_ASSERT_EQUAL(started_count, 0);
	scene_down();
}

static bool is_none_paused(void *ctx, const struct fm_queue_info *info)
{
	CU_ASSERT_NOT_EQUAL(info->state, FM_QUEUE_PAUSED);
	(void)ctx;
	return true;
}

/*
 * Goal:   a pipe is not kept for a caller who goes away, at whatever point he does.
 * Method: as many of them run as may; he goes after each step of one more.
 */
static void test_a_pipe_is_never_paused(void)
{
	static struct caller c[FM_QUEUE_PROMPT_MAX + 1];
	struct fm_queue_opts o;
	struct fm_err err;

	for (unsigned steps = 0; steps < 12; steps++) {
		scene_up(1);
		for (unsigned i = 0; i < FM_QUEUE_PROMPT_MAX; i++) {
			o = pipe_put("pipe", ALICE);
			submitted(&o, &c[i]);
		}
		CU_ASSERT_TRUE(c[FM_QUEUE_PROMPT_MAX - 1].is_done);
		o = pipe_put("pipe", ALICE);
		CU_ASSERT_EQUAL_FATAL(submit(&o, &c[FM_QUEUE_PROMPT_MAX], &err), 0);
		for (unsigned i = 0; i < steps; i++)
			(void)fm_loop_step(loop, 0);
		fm_queue_abandon(&c[FM_QUEUE_PROMPT_MAX].watch);
		run();
		fm_queue_visit(q, 0, true, 0, is_none_paused, NULL);
		scene_down();
	}
}

/* Goal: a pipe that runs, perhaps for days, takes no place for jobs with an open file. */
static void test_a_pipe_leaves_room_for_files(void)
{
	static struct caller c[FM_QUEUE_PROMPT_MAX];
	struct fm_queue_opts o;
	unsigned open_before, running;

	scene_up(1);
	open_before = fds_open();
	for (unsigned i = 0; i < FM_QUEUE_PROMPT_MAX; i++) {
		o = pipe_put("pipe", ALICE);
		submitted(&o, &c[i]);
	}
	running = running_count();
	CU_ASSERT_TRUE(running > 10);
	/* The engine of this test closed what it got. */
	CU_ASSERT_EQUAL(fds_open(), open_before);
	scene_down();
}

static void test_places_before_it_are_counted(void)
{
	struct caller c[3];
	struct fm_queue_info info;
	struct fm_queue_opts o;
	struct fm_err err;

	scene_up(1);
	for (unsigned i = 0; i < 3; i++) {
		o = store_put("a", ALICE);
		submitted(&o, &c[i]);
	}
	pass(FM_NS_PER_S);
	CU_ASSERT_EQUAL(fm_queue_find(q, c[2].id, ALICE, &info, &err), 0);
	CU_ASSERT_EQUAL(info.state, FM_QUEUE_QUEUED);
	CU_ASSERT_EQUAL(info.progress.before, 1);
	CU_ASSERT_STRING_EQUAL(info.progress.job.state, "queued");
	CU_ASSERT_EQUAL(fm_queue_find(q, c[0].id, ALICE, &info, &err), 0);
	CU_ASSERT_STRING_EQUAL(info.progress.job.state, "copying");
	scene_down();
}

/* ---- what is refused ---- */

static void test_limits_are_refused_politely(void)
{
	static struct caller c[FM_QUEUE_JOBS_USER_MAX + 1];
	struct fm_queue_opts o;
	struct caller bob;
	struct fm_err err;

	scene_up(1);
	for (unsigned i = 0; i < FM_QUEUE_JOBS_USER_MAX; i++) {
		o = store_put("a", ALICE);
		CU_ASSERT_EQUAL_FATAL(submit(&o, &c[i], &err), 0);
	}
	CU_ASSERT_EQUAL(submit(&o, &c[FM_QUEUE_JOBS_USER_MAX], &err), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(err.text, "too many places for jobs that have not ended are yours"));
	o = store_put("b", BOB);
	CU_ASSERT_EQUAL(submit(&o, &bob, &err), 0);
	run();
	check_answer = -ENOENT;
	CU_ASSERT_EQUAL(submit(&o, &c[FM_QUEUE_JOBS_USER_MAX], &err), -ENOENT);
	check_answer = -EBUSY;		/* now; not when its turn comes */
	CU_ASSERT_EQUAL(submit(&o, &c[FM_QUEUE_JOBS_USER_MAX], &err), 0);
	run();
	scene_down();
}

static void test_what_cannot_go_on_alone_is_not_detached(void)
{
	struct fm_queue_opts o;
	struct fm_err err;
	struct caller c;
	int fds[2];

	scene_up(1);
	o = file_put("a", ALICE);
	o.is_detached = true;
	o.job.is_put = false;
	CU_ASSERT_EQUAL(submit(&o, &c, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "n1:STORE/PATH"));
	o = store_put("a", ALICE);
	o.end = FM_QUEUE_FILE;
	o.is_detached = true;
	CU_ASSERT_EQUAL(fm_null_source(10, &o.job.file, &o.job.attr, &err), 0);
	CU_ASSERT_EQUAL(submit(&o, &c, &err), -EINVAL);
	if (pipe2(fds, O_CLOEXEC) < 0)
		abort();
	o = file_put("pipe", ALICE);
	(void)close(o.fd);
	o.fd = fds[0];
	o.is_detached = true;
	submitted(&o, &c);
	CU_ASSERT_TRUE(c.is_done && c.result.code == -EINVAL && !c.is_accepted);
	(void)close(fds[1]);
	o = store_put("a", ALICE);
	o.own_path = "missing";
	o.own_path_len = 7;
	o.is_detached = true;
	submitted(&o, &c);
	CU_ASSERT_TRUE(c.is_done && c.result.code == -ENOENT && !c.is_accepted);
	scene_down();
}

static void test_a_full_directory_is_told_at_once(void)
{
	struct fm_queue_opts o;
	struct caller c;

	if (fm_test_lacks_faults())
		return;
	scene_up(1);
	o = store_put("a", ALICE);
	o.is_detached = true;
	fm_fault_arm("queue.write", 1);
	submitted(&o, &c);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(c.is_done && c.result.code == -ENOSPC && !c.is_accepted);
	CU_ASSERT_PTR_NOT_NULL(strstr(c.result.err.text, "leave out --detach"));
	CU_ASSERT_EQUAL(started_count, 0);
	scene_down();
}

/* ---- failures that may pass ---- */

static void test_a_failure_that_may_pass_is_tried_again(void)
{
	uint64_t most_ns = 5 * FM_RETRY_PAUSE_MIN_NS / 4;
	struct caller c;

	scene_up(1);
	detached(store_put("a", ALICE), &c);
	for (unsigned i = 0; i < 10; i++) {
		end("a", i % 2 ? -ECONNRESET : -ECANCELED);
		CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_WAITING);
		pass(most_ns / 5 * 3 - FM_NS_PER_MS);	/* never before three quarters of it */
		CU_ASSERT_PTR_NULL(running("a"));
		pass(most_ns);
		CU_ASSERT_PTR_NOT_NULL_FATAL(running("a"));
		most_ns = most_ns * 2 > 75 * FM_NS_PER_S ? 75 * FM_NS_PER_S : most_ns * 2;
	}
	end("a", 0);
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_DONE);
	scene_down();
}

/* Somebody who has the description, too, moves its position. */
static int moved_fd(const char *path, struct fm_queue_opts *o, off_t to)
{
	int fd;

	*o = file_put(path, ALICE);
	o->retry_ns = FM_RETRY_ALWAYS;
	fd = dup(o->fd);
	CU_ASSERT_EQUAL(ftruncate(fd, 10000), 0);
	CU_ASSERT_EQUAL(lseek(fd, to, SEEK_SET), to);
	return fd;
}

/*
 * Goal:   a file that was taken as a whole is sent as a whole by every try.
 * Method: its position is moved, as a search for holes does, while a try runs: of a job that began
 *         at once, of one that was looked at before it had a place, and of one that is detached.
 */
static void test_a_whole_file_is_whole_in_every_try(void)
{
	for (unsigned i = 0; i < 3; i++) {
		struct fm_queue_opts o;
		struct caller c, first;
		int fd;

		scene_up(1);
		if (i == 1) {
			o = store_put("first", ALICE);
			submitted(&o, &first);
		}
		fd = moved_fd("f", &o, 0);
		if (i == 2)
			detached(o, &c);
		else
			submitted(&o, &c);
		if (i == 1)
			end("first", 0);
		for (unsigned tries = 0; tries < 3; tries++) {
			CU_ASSERT_PTR_NOT_NULL_FATAL(running("f"));
			CU_ASSERT_EQUAL(running("f")->size, 10000);
			CU_ASSERT_EQUAL(lseek(fd, 4096, SEEK_SET), 4096);
			end("f", -ECONNRESET);
			pass(60 * FM_NS_PER_S);
		}
		end("f", 0);
		close(fd);
		scene_down();
	}
}

/* What is handed over anew is looked at anew. */
static void test_a_part_does_not_pass_for_the_whole_that_was_before(void)
{
	struct fm_queue_opts o;
	struct fm_err err;
	struct caller c;
	char id[FM_QUEUE_ID_LEN + 1];
	int fd;

	scene_up(1);
	close(moved_fd("f", &o, 0));
	submitted(&o, &c);
	memcpy(id, c.id, sizeof(id));
	fm_queue_abandon(&c.watch);
	end("f", -ECANCELED);
	CU_ASSERT_EQUAL(state_of(id), FM_QUEUE_PAUSED);
	fd = moved_fd("f", &o, 4096);
	CU_ASSERT_EQUAL(fm_queue_resume(q, id, ALICE, o.fd, NULL, &err), 0);
	run();
	CU_ASSERT_PTR_NULL(running("f"));
	CU_ASSERT_EQUAL(told(id, &c), -EINVAL);
	close(fd);
	scene_down();
}

static void test_other_failures_are_final(void)
{
	struct caller c, w;

	scene_up(1);
	detached(store_put("a", ALICE), &c);
	end("a", -EACCES);
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_FAILED);
	CU_ASSERT_EQUAL(told(c.id, &w), -EACCES);
	CU_ASSERT_STRING_EQUAL(w.result.err.text, "it ended so");
	scene_down();
}

static void test_a_caller_who_waits_says_how_long(void)
{
	struct fm_queue_opts o;
	struct caller c;

	scene_up(1);
	o = store_put("a", ALICE);
	submitted(&o, &c);
	end("a", -ECONNRESET);
	CU_ASSERT_TRUE(c.is_done && c.result.code == -ECONNRESET);
	o.retry_ns = 5 * FM_NS_PER_S;
	submitted(&o, &c);
	for (unsigned i = 0; i < 10 && !c.is_done; i++) {
		end("a", -ECONNRESET);
		pass(5 * FM_NS_PER_S);
	}
	CU_ASSERT_TRUE(c.is_done && c.result.code == -ECONNRESET);
	CU_ASSERT_TRUE(started_count >= 3);
	scene_down();
}

/*
 * Goal:   a peer that is back is not waited for, and one that comes and goes all the time costs a
 *         try in a second.
 * Method: a job whose pause is a minute by now; a session with another peer, then with its own;
 * then one every tenth of a second.
 */
static void test_a_peer_that_is_back_is_not_waited_for(void)
{
	struct caller c;
	unsigned before;

	scene_up(1);
	detached(store_put("a", ALICE), &c);
	for (unsigned i = 0; i < 10; i++) {
		end("a", -EHOSTUNREACH);
		pass(75 * FM_NS_PER_S);
	}
	end("a", -EHOSTUNREACH);
	pass(2 * FM_NS_PER_S);
	fm_queue_peer_up(q, "n3");
	run();
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_WAITING);
	fm_queue_peer_up(q, "n2");
	run();
	CU_ASSERT_PTR_NOT_NULL_FATAL(running("a"));
	before = started_count;
	for (unsigned i = 0; i < 100; i++) {
		if (running("a"))
			end("a", -ECONNRESET);
		pass(FM_NS_PER_S / 10);
		fm_queue_peer_up(q, "n2");
		run();
	}
	CU_ASSERT_TRUE(started_count - before >= 8 && started_count - before <= 10);
	if (running("a"))
		end("a", 0);
	scene_down();
}

/* Each try of "a" fails at once, step by step, until the clock shows `until_ns` or nothing more is
 * tried. */
static void fail_until(uint64_t until_ns, const struct caller *c)
{
	while (!c->is_done && now_ns < until_ns) {
		if (running("a"))
			end("a", -ECONNRESET);
		pass(FM_NS_PER_S / 4);
	}
}

/*
 * Goal:   --retry 30s is 30 s, neither 13 nor 60, whatever the steps between tries are.
 * Method: every try fails at once. A last one begins when the time is up, and only its failure ends
 * the job, which says how long and how often it was tried; if it goes well instead, the job is
 * done.
 */
static void test_it_is_tried_for_as_long_as_was_asked(void)
{
	struct fm_queue_opts o;
	struct caller c;
	uint64_t begin_ns;

	for (unsigned is_back = 0; is_back < 2; is_back++) {
		scene_up(1);
		o = store_put("a", ALICE);
		o.retry_ns = 30 * FM_NS_PER_S;
		begin_ns = now_ns;
		submitted(&o, &c);
		fail_until(begin_ns + 30 * FM_NS_PER_S, &c);
		CU_ASSERT_FALSE_FATAL(c.is_done);
		pass(FM_NS_PER_S / 4);
		end("a", is_back ? 0 : -ECONNRESET);
		CU_ASSERT_TRUE_FATAL(c.is_done);
		CU_ASSERT_EQUAL(c.result.code, is_back ? 0 : -ECONNRESET);
		if (!is_back) {
			CU_ASSERT_PTR_NOT_NULL(strstr(c.result.err.text, "gave up after 30."));
			CU_ASSERT_PTR_NOT_NULL(strstr(c.result.err.text, "tries: it ended so"));
		}
		scene_down();
	}
}

/* Goal: who gets on starts to count anew; one try that takes longer than that is the only one. */
static void test_time_counts_from_the_last_progress(void)
{
	struct fm_queue_opts o;
	struct caller c;
	uint64_t begin_ns;

	scene_up(1);
	o = store_put("a", ALICE);
	o.retry_ns = 10 * FM_NS_PER_S;
	begin_ns = now_ns;
	submitted(&o, &c);
	fail_until(begin_ns + 9 * FM_NS_PER_S, &c);
	pass(FM_NS_PER_S);
	end_after("a", -ECONNRESET, 10);
	fail_until(begin_ns + 19 * FM_NS_PER_S, &c);
	CU_ASSERT_FALSE(c.is_done);
	fail_until(FM_NEVER, &c);
	CU_ASSERT_TRUE(now_ns >= begin_ns + 20 * FM_NS_PER_S);
	submitted(&o, &c);
	pass(11 * FM_NS_PER_S);
	end("a", -ETIMEDOUT);
	CU_ASSERT_TRUE_FATAL(c.is_done);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(c.result.err.text, "gave up after 11.0 s without progress, 1 try: "));
	scene_down();
}

/*
 * Goal:   what got no further than a try before it does not count as progress, so that it ends.
 * Method: each try fails where the first did, or before it; then one goes further, and time counts
 *         from there.
 */
static void test_the_same_again_is_no_progress(void)
{
	struct fm_queue_opts o;
	struct caller c;
	uint64_t begin_ns, further_ns = 0;

	scene_up(1);
	o = store_put("a", ALICE);
	o.retry_ns = 10 * FM_NS_PER_S;
	submitted(&o, &c);
	begin_ns = now_ns;
	for (unsigned tries = 0; !c.is_done && now_ns < begin_ns + 60 * FM_NS_PER_S;) {
		pass(FM_NS_PER_S / 4);
		if (!running("a"))
			continue;
		if (++tries == 3)
			further_ns = now_ns;
		end_after("a", -ECONNRESET, tries == 3 ? 501 : 500 - tries);
	}
	CU_ASSERT_TRUE_FATAL(c.is_done);
	CU_ASSERT_TRUE(now_ns >= further_ns + 10 * FM_NS_PER_S);
	CU_ASSERT_TRUE(now_ns <= further_ns + 11 * FM_NS_PER_S);
	CU_ASSERT_PTR_NOT_NULL(strstr(c.result.err.text, "gave up after 10."));
	scene_down();
}

static void test_the_timeout_counts_from_the_beginning(void)
{
	struct fm_queue_opts o;
	struct caller c[3];

	scene_up(1);
	o = store_put("a", ALICE);
	submitted(&o, &c[0]);
	o = store_put("b", ALICE);
	o.job.timeout_ns = 10 * FM_NS_PER_S;
	submitted(&o, &c[1]);
	o = store_put("c", ALICE);
	o.job.timeout_ns = 10 * FM_NS_PER_S;
	o.retry_ns = FM_RETRY_ALWAYS;
	submitted(&o, &c[2]);
	pass(4 * FM_NS_PER_S);
	end("a", 0);
	CU_ASSERT_EQUAL(running("b")->timeout_ns, 6 * FM_NS_PER_S);
	pass(7 * FM_NS_PER_S);
	CU_ASSERT_TRUE(c[2].is_done && c[2].result.code == -ETIMEDOUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(c[2].result.err.text, "within the time that --timeout gave"));
	scene_down();
}

/* The peer may have given the file its name just before it was lost. */
static void test_a_target_that_an_earlier_try_made_is_done(void)
{
	struct fm_entry entry = { .attr = own_attr };
	struct fm_request_result r = { .entries = &entry, .count = 1 };
	struct caller c[2];

	scene_up(1);
	for (unsigned i = 0; i < 2; i++) {
		detached(store_put("a", ALICE), &c[i]);
		end("a", -ECONNRESET);
		pass(2 * FM_NS_PER_S);
		asked.count = 0;
		end("a", -EEXIST);
		CU_ASSERT_TRUE_FATAL(asked.count == 1 && asked.is_far);
		entry.attr.mtime_ns = own_attr.mtime_ns + i;
		asked.done(asked.ctx, &r);
		CU_ASSERT_TRUE_FATAL(asked.count == 2 && !asked.is_far);
		entry.attr = own_attr;
		asked.done(asked.ctx, &r);
		run();
		CU_ASSERT_EQUAL(state_of(c[i].id), i == 0 ? FM_QUEUE_DONE : FM_QUEUE_FAILED);
	}
	/* One that was refused at once was there before. */
	detached(store_put("a", ALICE), &c[0]);
	asked.count = 0;
	end("a", -EEXIST);
	CU_ASSERT_EQUAL(asked.count, 0);
	CU_ASSERT_EQUAL(state_of(c[0].id), FM_QUEUE_FAILED);
	scene_down();
}

/* ---- cancelling, and who may ---- */

static void test_a_job_can_be_cancelled_in_every_state(void)
{
	struct caller c[3], watcher;
	struct fm_err err;

	scene_up(1);
	detached(store_put("run", ALICE), &c[0]);
	detached(store_put("queued", ALICE), &c[1]);
	CU_ASSERT_EQUAL(cancel_by_id(c[1].id, ALICE, false), 0);
	run();
	CU_ASSERT_EQUAL(state_of(c[1].id), FM_QUEUE_CANCELLED);
	CU_ASSERT_EQUAL(cancel_by_id(c[1].id, ALICE, false), -EALREADY);
	watcher = (struct caller){ .watch = { .events = &caller_events } };
	CU_ASSERT_EQUAL(fm_queue_watch_id(q, c[0].id, ALICE, &watcher.watch, &err), 0);
	CU_ASSERT_EQUAL(cancel_by_id(c[0].id, ALICE, true), 0);
	CU_ASSERT_EQUAL(running("run")->cancelled, -ECANCELED);
	CU_ASSERT_TRUE(running("run")->is_kept);
	CU_ASSERT_EQUAL(state_of(c[0].id), FM_QUEUE_RUNNING);
	end("run", -ECANCELED);
	CU_ASSERT_EQUAL(state_of(c[0].id), FM_QUEUE_CANCELLED);
	CU_ASSERT_TRUE(watcher.is_done && watcher.result.code == -ECANCELED);
	detached(store_put("waits", ALICE), &c[2]);
	end("waits", -ECONNRESET);
	CU_ASSERT_EQUAL(state_of(c[2].id), FM_QUEUE_WAITING);
	CU_ASSERT_EQUAL(cancel_by_id(c[2].id, 0, false), 0);
	run();
	CU_ASSERT_EQUAL(state_of(c[2].id), FM_QUEUE_CANCELLED);
	pass(100 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(running_count(), 0);
	scene_down();
}

/* Goal: what the queue itself asks for a job takes no longer than the job has. */
static void test_the_timeout_holds_for_what_is_asked(void)
{
	struct fm_entry entry = { .attr = own_attr };
	struct fm_request_result r = { .entries = &entry, .count = 1 };
	struct fm_queue_opts o;
	struct caller c;

	scene_up(2);
	o = store_put("tree", ALICE);
	o.is_tree = o.job.is_update = true;
	o.job.timeout_ns = 3 * FM_NS_PER_S;
	submitted(&o, &c);
	CU_ASSERT_EQUAL_FATAL(asked.count, 1);
	CU_ASSERT_EQUAL(asked.timeout_ns, 3 * FM_NS_PER_S);
	r.code = -ETIMEDOUT;
	asked.done(asked.ctx, &r);
	end("tree", 0);
	o = store_put("a", ALICE);
	o.retry_ns = FM_RETRY_ALWAYS;
	o.job.timeout_ns = 20 * FM_NS_PER_S;
	submitted(&o, &c);
	end("a", -ECONNRESET);
	pass(5 * FM_NS_PER_S);
	end("a", -EEXIST);
	CU_ASSERT_EQUAL_FATAL(asked.count, 2);
	CU_ASSERT_EQUAL(asked.timeout_ns, 15 * FM_NS_PER_S);
	r.code = 0;
	asked.done(asked.ctx, &r);
	CU_ASSERT_EQUAL_FATAL(asked.count, 3);
	CU_ASSERT_EQUAL(asked.timeout_ns, 15 * FM_NS_PER_S);
	asked.done(asked.ctx, &r);
	run();
	CU_ASSERT_TRUE(c.is_done && c.result.code == 0);
	scene_down();
}

/* Goal: a dry run that was to say how much an update brings, and ends well as it is cancelled, is
 * no update that is done. */
static void test_a_cancelled_update_that_was_measured_is_not_done(void)
{
	struct fm_space_page full = { .space = { .free = 10 } };
	struct fm_request_result r = { .page = &full };
	struct fm_queue_opts o;
	struct caller c, later;

	scene_up(1);
	o = store_put("a", ALICE);
	o.is_tree = o.job.is_update = o.is_detached = true;
	submitted(&o, &c);
	fm_queue_unwatch(&c.watch);
	CU_ASSERT_EQUAL_FATAL(asked.count, 1);
	asked.done(asked.ctx, &r);
	run();
	CU_ASSERT_PTR_NOT_NULL_FATAL(running("a"));
	CU_ASSERT_TRUE(running("a")->is_dry);
	CU_ASSERT_EQUAL(cancel_by_id(c.id, ALICE, false), 0);
	end("a", 0);
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_CANCELLED);
	CU_ASSERT_EQUAL(told(c.id, &later), -ECANCELED);
	CU_ASSERT_EQUAL(started_count, 1);
	scene_down();
}

static void test_a_job_can_be_cancelled_while_it_is_accepted(void)
{
	struct fm_queue_opts o;
	struct fm_err err;
	struct caller c;

	/* After so many passes of the loop: on its way to the disk, being opened, ... */
	for (unsigned passes = 0; passes < 8; passes++) {
		scene_up(1);
		o = store_put("a", ALICE);
		o.is_detached = true;
		o.retry_ns = FM_RETRY_ALWAYS;
		CU_ASSERT_EQUAL_FATAL(submit(&o, &c, &err), 0);
		for (unsigned i = 0; i < passes; i++)
			(void)fm_loop_step(loop, 0);
		fm_queue_end_job(&c.watch, -ECANCELED, false, "never mind");
		run();
		if (running("a"))
			end("a", -ECANCELED);
		CU_ASSERT_TRUE(c.is_done && c.result.code == -ECANCELED);
		CU_ASSERT_EQUAL(running_count(), 0);
		scene_down();
	}
}

static void test_jobs_of_others_are_as_if_they_were_not_there(void)
{
	struct fm_queue_info info;
	struct caller c, watcher = { .watch = { .events = &caller_events } };
	struct fm_err err;

	scene_up(1);
	detached(store_put("a", ALICE), &c);
	CU_ASSERT_EQUAL(cancel_by_id(c.id, BOB, false), -ENOENT);
	CU_ASSERT_EQUAL(fm_queue_find(q, c.id, BOB, &info, &err), -ENOENT);
	CU_ASSERT_EQUAL(fm_queue_resume(q, c.id, BOB, -1, NULL, &err), -ENOENT);
	CU_ASSERT_EQUAL(fm_queue_watch_id(q, c.id, BOB, &watcher.watch, &err), -ENOENT);
	CU_ASSERT_EQUAL(cancel_by_id("nothing", ALICE, false), -ENOENT);
	CU_ASSERT_EQUAL(fm_queue_find(q, c.id, 0, &info, &err), 0);
	scene_down();
}

/* ---- on disk ---- */

static void spoil(const char *id, const char *text)
{
	char name[128];
	FILE *f;

	(void)snprintf(name, sizeof(name), "%s/%s.json", dir, id);
	f = fopen(name, "w");
	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		abort();
}

static void test_jobs_survive_a_restart(void)
{
	struct caller between, own, done, failed, w;

	scene_up(4);
	detached(store_put("between", ALICE), &between);
	detached(file_put("own", ALICE), &own);
	detached(store_put("done", BOB), &done);
	end("done", 0);
	detached(store_put("failed", BOB), &failed);
	end("failed", -EACCES);
	queue_down();
	started_count = 0;
	queue_up(4);
	run();
	CU_ASSERT_EQUAL(running_count(), 1);
	CU_ASSERT_EQUAL(state_of(between.id), FM_QUEUE_RUNNING);
	CU_ASSERT_EQUAL(state_of(own.id), FM_QUEUE_PAUSED);
	CU_ASSERT_EQUAL(state_of(done.id), FM_QUEUE_DONE);
	CU_ASSERT_EQUAL(told(own.id, &w), -EAGAIN);
	CU_ASSERT_EQUAL(told(done.id, &w), 0);
	CU_ASSERT_TRUE(w.result.size == 1000 && w.result.crc == 77 &&
		       strcmp(w.result.why, "asked for") == 0);
	CU_ASSERT_EQUAL(told(failed.id, &w), -EACCES);
	CU_ASSERT_STRING_EQUAL(w.result.err.text, "it ended so");
	end("between", 0);
	CU_ASSERT_EQUAL(state_of(between.id), FM_QUEUE_DONE);
	scene_down();
}

/* After a boot fmoved may run before the volume is mounted. */
static void test_a_job_waits_for_the_volume_of_its_store(void)
{
	struct caller c, w;

	scene_up(4);
	detached(store_put("a", ALICE), &c);
	queue_down();
	started_count = 0;
	is_store_away = true;
	queue_up(4);
	run();
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_WAITING);
	is_store_away = false;
	pass(75 * FM_NS_PER_S);
	CU_ASSERT_PTR_NOT_NULL_FATAL(running("a"));
	end("a", 0);
	CU_ASSERT_EQUAL(told(c.id, &w), 0);
	scene_down();
}

/* Put another value behind a key of a job's file; NULL: as if the key was never written. */
static void edit(const char *id, const char *key, const char *value)
{
	char name[128], quoted[64], text[4096] = "", *at, *end;
	FILE *f;

	(void)snprintf(name, sizeof(name), "%s/%s.json", dir, id);
	(void)snprintf(quoted, sizeof(quoted), "\"%s\":", key);
	f = fopen(name, "r");
	if (!f || fread(text, 1, sizeof(text) - 1, f) == 0 || fclose(f) != 0)
		abort();
	at = strstr(text, quoted);
	CU_ASSERT_PTR_NOT_NULL_FATAL(at);
	end = at + (value ? strcspn(at, ",}") : strlen(quoted));
	f = fopen(name, "w");
	if (!f)
		abort();
	fprintf(f, "%.*s\"%s%s\":%s%s", (int)(at - text), text, value ? "" : "un", key,
		value ? value : "", end);
	if (fclose(f) != 0)
		abort();
}

/* The daemon, which is down, is away for 3 s; what is left to the job of that path then. */
static uint64_t left_after_start(const char *path)
{
	pass(3 * FM_NS_PER_S);
	started_count = 0;
	queue_up(1);
	run();
	return running(path) ? running(path)->timeout_ns : 0;
}

/* Goal: a restart gives no time anew. Method: 10 s, of which 4 are over and 3 go by between two
 * daemons, of one boot and of two, with a wall clock that is right, set back and set forward. */
static void test_the_timeout_goes_on_over_a_restart(void)
{
	struct fm_queue_opts o;
	char now[32], later[32];
	struct caller c;

	scene_up(1);
	o = store_put("a", ALICE);
	o.job.timeout_ns = 10 * FM_NS_PER_S;
	detached(o, &c);
	pass(4 * FM_NS_PER_S);
	queue_down();
	CU_ASSERT_EQUAL(left_after_start("a"), 3 * FM_NS_PER_S);
	queue_down();
	(void)snprintf(now, sizeof(now), "%lld000", (long long)time(NULL) + 2);
	(void)snprintf(later, sizeof(later), "%lld000", (long long)time(NULL) + 3600);
	edit(c.id, "boot", "\"00000000000000000000000000000001\"");
	edit(c.id, "left_ns", "5000000000");
	edit(c.id, "at_ms", now);
	CU_ASSERT_TRUE(left_after_start("a") <= 2 * FM_NS_PER_S);
	queue_down();
	edit(c.id, "boot", "\"00000000000000000000000000000001\"");
	edit(c.id, "left_ns", "5000000000");
	edit(c.id, "at_ms", later);
	CU_ASSERT_EQUAL(left_after_start("a"), 5 * FM_NS_PER_S);
	queue_down();
	edit(c.id, "boot", "\"\"");
	edit(c.id, "left_ns", "9223372036854775807");
	edit(c.id, "at_ms", "9223372036854775807");
	CU_ASSERT_EQUAL(left_after_start("a"), 10 * FM_NS_PER_S);
	queue_down();
	edit(c.id, "boot", "\"\"");
	edit(c.id, "at_ms", "1");
	CU_ASSERT_EQUAL(left_after_start("a"), 0);
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_FAILED);
	scene_down();
}

static void test_a_job_without_a_noted_deadline_has_all_its_time(void)
{
	struct fm_queue_opts o;
	struct caller c;

	scene_up(1);
	o = store_put("a", ALICE);
	o.job.timeout_ns = 10 * FM_NS_PER_S;
	detached(o, &c);
	queue_down();
	edit(c.id, "deadline", NULL);
	CU_ASSERT_EQUAL(left_after_start("a"), 10 * FM_NS_PER_S);
	scene_down();
}

/* Nothing was told to the queue: what is on the disk is all there is. */
/* The queue is another one, over what the last had written down when it was killed. */
static void crash(void)
{
	char moved[80], command[256];

	/* Its lock goes with its process; here another directory with the same files does. */
	(void)snprintf(moved, sizeof(moved), "%s.2", dir);
	(void)snprintf(command, sizeof(command), "cp -r %s %s", dir, moved);
	if (system(command) != 0)
		abort();
	queue_down();
	(void)snprintf(command, sizeof(command), "rm -rf %s && mv %s %s", dir, moved, dir);
	if (system(command) != 0)
		abort();
	started_count = 0;
	queue_up(1);
	run();
}

/* ---- what is told is on disk ---- */

#define PASSES 20			/* of the loop, in which what is not to happen would */

static void gate_reached(void *ctx, const char *point)
{
	(void)ctx;
	gate_pass(point);
}

static void gate_close(const char *point)
{
	gate.point = point;
	fm_fault_watch(gate_reached, NULL);
}

static void pass_some(void)
{
	for (unsigned i = 0; i < PASSES; i++)
		run();
}

/* The loop goes on until the thread stands at the gate. */
static void gate_await(void)
{
	while (sem_trywait(&gate.is_there) < 0) {
		run();
		(void)usleep(100);
	}
	pass_some();
}

static void until(const bool *is)
{
	while (!*is) {
		run();
		(void)usleep(100);
	}
}

/* Neither the worker nor the loop has anything left to do. */
static void settle(void)
{
	while (!fm_worker_is_idle(worker) || fm_loop_step(loop, 0)) {
		run();
		(void)usleep(100);
	}
}

static void gate_open(void)
{
	sem_post(&gate.may_go);
}

/* A scene whose worker has threads. */
static void threads_up(unsigned running_max, unsigned threads)
{
	struct fm_err err;

	scene_up(running_max);
	queue_down();
	fm_worker_free(worker);
	if (fm_worker_new(threads, &worker, &err) < 0)
		abort();
	(void)sem_init(&gate.is_there, 0, 0);
	(void)sem_init(&gate.may_go, 0, 0);
	queue_up(running_max);
}

static void threads_down(void)
{
	settle();
	scene_down();
	fm_fault_watch(NULL, NULL);
	(void)sem_destroy(&gate.is_there);
	(void)sem_destroy(&gate.may_go);
}

/* One that is detached and runs, over a worker with threads. */
static void runs_detached(const char *path, struct caller *c)
{
	struct fm_queue_opts o = store_put(path, ALICE);
	struct fm_err err;
	unsigned before = started_count;

	o.is_detached = true;
	o.retry_ns = FM_RETRY_ALWAYS;
	CU_ASSERT_EQUAL_FATAL(submit(&o, c, &err), 0);
	until(&c->is_accepted);
	fm_queue_unwatch(&c->watch);
	while (started_count == before)
		settle();
}

static void watched(const char *id, struct caller *c)
{
	struct fm_err err;

	*c = (struct caller){ .watch = { .events = &caller_events } };
	CU_ASSERT_EQUAL_FATAL(fm_queue_watch_id(q, id, 0, &c->watch, &err), 0);
}

/* Goal: until the end is on disk nobody hears of it, sees it, or takes the daemon for idle. */
static void test_an_end_is_told_when_it_is_on_disk(void)
{
	struct fm_queue_counts counts;
	struct caller c, watcher, later;
	struct fm_err err;

	if (fm_test_lacks_faults())
		return;
	threads_up(1, 2);
	runs_detached("a", &c);
	watched(c.id, &watcher);
	gate_close("queue.write");
	end("a", 0);
	gate_await();
	watched(c.id, &later);
	pass_some();
	CU_ASSERT_FALSE(watcher.is_done || later.is_done);
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_RUNNING);
	fm_queue_counts(q, &counts);
	CU_ASSERT_EQUAL(counts.jobs[FM_QUEUE_RUNNING], 1);
	CU_ASSERT_EQUAL(fm_queue_resume(q, c.id, ALICE, -1, NULL, &err), -EALREADY);
	gate_open();
	until(&watcher.is_done);
	until(&later.is_done);
	CU_ASSERT_EQUAL(watcher.result.code, 0);
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_DONE);
	threads_down();
}

/* Goal: a state directory that does not answer keeps an end from nobody for ever. */
static void test_an_end_that_is_never_on_disk_is_told_all_the_same(void)
{
	struct caller c, watcher, again = { .watch = { .events = &caller_events } };
	struct fm_err err;

	if (fm_test_lacks_faults())
		return;
	threads_up(1, 2);
	runs_detached("a", &c);
	watched(c.id, &watcher);
	gate_close("queue.write");
	CU_ASSERT_EQUAL(fm_queue_cancel(q, c.id, ALICE, false, &again.watch, &err), 1);
	gate_await();
	pass(19 * FM_NS_PER_S);
	CU_ASSERT_FALSE(again.is_done);
	pass(2 * FM_NS_PER_S);
	CU_ASSERT_TRUE(again.is_done && again.result.code == -ETIMEDOUT);
	end("a", 0);
	pass(19 * FM_NS_PER_S);
	CU_ASSERT_FALSE(watcher.is_done);
	pass(2 * FM_NS_PER_S);
	CU_ASSERT_TRUE(watcher.is_done && watcher.result.code == 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(watcher.result.note, "it may begin again"));
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_DONE);
	gate_open();
	threads_down();
}

/* Goal: whose job cannot be written down hears that before he takes the daemon for dead, and it
 * does not begin later. */
static void never_on_disk(uint64_t timeout_ns)
{
	struct fm_queue_opts o = store_put("a", ALICE);
	struct caller a;
	struct fm_err err;

	threads_up(1, 2);
	gate_close("queue.write");
	o.is_detached = true;
	o.job.timeout_ns = timeout_ns;
	CU_ASSERT_EQUAL_FATAL(submit(&o, &a, &err), 0);
	gate_await();
	pass(5 * FM_NS_PER_S);
	pass(14 * FM_NS_PER_S);
	CU_ASSERT_FALSE(a.is_done);
	pass(2 * FM_NS_PER_S);
	CU_ASSERT_TRUE(a.is_done && a.result.code == -ETIMEDOUT && !a.is_accepted);
	CU_ASSERT_PTR_NOT_NULL(strstr(a.result.err.text, "node.state_directory"));
	gate_open();
	settle();
	CU_ASSERT_PTR_NULL(running("a"));
	crash();
	CU_ASSERT_EQUAL(started_count, 0);
	threads_down();
}

static void test_a_job_that_is_never_on_disk_is_not_accepted(void)
{
	if (fm_test_lacks_faults())
		return;
	never_on_disk(0);
	never_on_disk(5 * FM_NS_PER_S);
}

/* Goal: who was told that a job is cancelled does not see it go on behind a crash, though it had
 * not come to its end. */
static void test_what_is_cancelled_stays_so_behind_a_crash(void)
{
	struct caller c, later, waiting;

	scene_up(1);
	detached(store_put("a", ALICE), &c);
	detached(store_put("b", ALICE), &waiting);
	CU_ASSERT_EQUAL(cancel_by_id(c.id, ALICE, false), 0);
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_RUNNING);
	CU_ASSERT_PTR_NOT_NULL(running("a"));
	crash();
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_CANCELLED);
	CU_ASSERT_EQUAL(told(c.id, &later), -ECANCELED);
	CU_ASSERT_PTR_NULL(running("a"));
	CU_ASSERT_EQUAL(state_of(waiting.id), FM_QUEUE_RUNNING);
	/* It is an end like any other. */
	crash();
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_CANCELLED);
	CU_ASSERT_EQUAL(fm_queue_resume(q, c.id, ALICE, -1, NULL, &later.result.err), 0);
	run();
	end("b", 0);
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_RUNNING);
	end("a", 0);
	scene_down();
}

/* Goal: a cancel that no file can say removes the file. */
static void test_a_cancel_that_cannot_be_written_down_removes_the_file(void)
{
	struct caller c;

	if (fm_test_lacks_faults())
		return;
	scene_up(1);
	detached(store_put("a", ALICE), &c);
	fm_fault_arm("queue.write", 1);
	CU_ASSERT_EQUAL(cancel_by_id(c.id, ALICE, false), 0);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_FALSE(has_file(c.id, ".json"));
	end("a", -ECANCELED);
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_CANCELLED);
	scene_down();
}

/* ---- a file system that does not answer ---- */

/* One that stands at the gate, which is in a thread that looks at, opens or creates its file. */
static void stands(const char *path, const char *point, uint64_t timeout_ns, bool is_detached,
		   struct caller *c)
{
	struct fm_queue_opts o = store_put(path, ALICE);
	struct fm_err err;

	o.job.is_put = strcmp(point, "create") != 0;
	o.job.timeout_ns = timeout_ns;
	o.is_detached = is_detached;
	o.retry_ns = is_detached ? FM_RETRY_ALWAYS : 0;
	gate.point = point;
	CU_ASSERT_EQUAL_FATAL(submit(&o, c, &err), 0);
	gate_await();
}

static void runs(const char *path, struct caller *c)
{
	struct fm_queue_opts o = store_put(path, BOB);
	struct fm_err err;

	CU_ASSERT_EQUAL_FATAL(submit(&o, c, &err), 0);
	while (!running(path))
		pass_some();
}

/* Goal: a store that does not answer keeps its jobs waiting, not those of others. */
static void test_an_open_that_hangs_keeps_no_place(void)
{
	struct fm_queue_opts o;
	struct caller a, b;
	struct fm_err err;
	unsigned before;

	threads_up(1, 3);
	stands("a", "open", 0, false, &a);
	o = store_put("b", BOB);
	CU_ASSERT_EQUAL_FATAL(submit(&o, &b, &err), 0);
	until(&b.is_accepted);
	pass_some();
	CU_ASSERT_PTR_NULL(running("b"));
	pass(FM_NS_PER_S * 10);
	while (!running("b"))
		pass_some();
	CU_ASSERT_FALSE(a.is_done);
	/* It answers, and there is no place: that is waited for. It is not opened once more, which
	 * may take as long again. */
	gate_open();
	settle();
	CU_ASSERT_EQUAL(state_of(a.id), FM_QUEUE_QUEUED);
	CU_ASSERT_PTR_NULL(running("a"));
	before = opened;
	end("b", 0);
	settle();
	CU_ASSERT_EQUAL(opened, before);
	end("a", 0);
	CU_ASSERT_TRUE(a.is_done && a.result.code == 0);
	threads_down();
}

/* Goal: --timeout holds whatever our end hangs at, and whoever asked goes on at once. */
static void test_the_timeout_holds_before_the_engine_has_it(void)
{
	static const char *const points[] = { "stat", "open", "create" };
	static const bool may_keep[] = { false, false, true };
	struct caller a, b;

	for (unsigned i = 0; i < 3; i++) {
		threads_up(1, 2);
		stands("a", points[i], 3 * FM_NS_PER_S, false, &a);
		pass(2 * FM_NS_PER_S);
		CU_ASSERT_FALSE(a.is_done);
		pass(2 * FM_NS_PER_S);
		pass(FM_NS_PER_S);
		CU_ASSERT_TRUE(a.is_done && a.result.code == -ETIMEDOUT);
		CU_ASSERT_EQUAL(a.result.is_partial_kept, may_keep[i]);
		runs("b", &b);	/* the place is free */
		gate_open();
		settle();
		CU_ASSERT_PTR_NULL(running("a"));
		threads_down();
	}
}

/* Goal: who has no limit is told, too, before he takes the daemon for dead. */
static void test_a_look_that_hangs_is_told(void)
{
	struct caller a;

	threads_up(1, 2);
	stands("a", "stat", 0, true, &a);
	pass(29 * FM_NS_PER_S);
	CU_ASSERT_FALSE(a.is_done);
	pass(FM_NS_PER_S);
	pass(FM_NS_PER_S);
	CU_ASSERT_TRUE(a.is_done && a.result.code == -ETIMEDOUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(a.result.err.text, "does not answer"));
	gate_open();
	settle();
	CU_ASSERT_PTR_NULL(running("a"));
	threads_down();
}

/* Goal: what is cancelled while its file system hangs is over, for the next daemon, too, and cannot
 * go on before that answers. */
static void test_a_cancel_does_not_wait_for_a_file_system(void)
{
	struct caller a, w = { .watch = { .events = &caller_events } }, later;
	struct fm_err err;

	threads_up(1, 3);
	stands("a", "open", 0, true, &a);
	fm_queue_unwatch(&a.watch);
	CU_ASSERT_EQUAL(fm_queue_cancel(q, a.id, ALICE, false, &w.watch, &err), 1);
	until(&w.is_done);
	CU_ASSERT_EQUAL(w.result.code, 0);
	watched(a.id, &later);
	pass(FM_NS_PER_S);
	until(&later.is_done);
	CU_ASSERT_EQUAL(later.result.code, -ECANCELED);
	CU_ASSERT_EQUAL(state_of(a.id), FM_QUEUE_CANCELLED);
	CU_ASSERT_EQUAL(fm_queue_resume(q, a.id, ALICE, -1, NULL, &err), -EBUSY);
	gate_open();
	settle();
	CU_ASSERT_EQUAL(fm_queue_resume(q, a.id, ALICE, -1, NULL, &err), 0);
	settle();
	CU_ASSERT_PTR_NOT_NULL(running("a"));
	threads_down();
}

/* Goal: who goes away while his file system hangs keeps nothing but the thread. */
static void test_who_goes_away_leaves_the_thread(void)
{
	struct caller a, b;

	threads_up(1, 2);
	stands("a", "open", 0, false, &a);
	fm_queue_abandon(&a.watch);
	pass(FM_NS_PER_S);
	CU_ASSERT_FALSE(is_known(a.id));
	runs("b", &b);
	gate_open();
	settle();
	CU_ASSERT_EQUAL(store_ref.refs, 1);	/* that of b */
	threads_down();
}

/* Goal: a state directory that does not answer keeps no place, nor a job beyond its --timeout,
 * where it is to be written down that this is sent. */
static void test_the_timeout_holds_while_a_job_is_written_down(void)
{
	struct fm_queue_opts o = store_put("a", ALICE);
	struct caller a, b, c;
	struct fm_err err;

	if (fm_test_lacks_faults())
		return;
	threads_up(1, 3);
	runs("b", &b);
	o.is_detached = true;
	o.job.timeout_ns = 5 * FM_NS_PER_S;
	CU_ASSERT_EQUAL_FATAL(submit(&o, &a, &err), 0);
	until(&a.is_accepted);
	gate_close("queue.write");
	end("b", 0);
	gate_await();
	pass(6 * FM_NS_PER_S);
	runs("c", &c);		/* the place is free */
	pass(21 * FM_NS_PER_S);
	CU_ASSERT_TRUE(a.is_done && a.result.code == -ETIMEDOUT);
	gate_open();
	settle();
	CU_ASSERT_PTR_NULL(running("a"));
	threads_down();
}

static unsigned count_running(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < started_count; i++)
		count += !started[i].is_over;
	return count;
}

/* Puts of a file of Alice's, each of which stands in its open and has given back its place. */
static void files_hang(const char *const *paths, struct caller *callers, unsigned count,
		       bool is_retried, uint64_t timeout_ns)
{
	struct fm_err err;

	gate.is_for_all = true;
	for (unsigned i = 0; i < count; i++) {
		struct fm_queue_opts o = file_put(paths[i], ALICE);

		o.retry_ns = is_retried ? FM_RETRY_ALWAYS : 0;
		o.job.timeout_ns = timeout_ns;
		CU_ASSERT_EQUAL_FATAL(submit(&o, &callers[i], &err), 0);
		until(&callers[i].is_accepted);
	}
	gate_close(is_retried ? "queue.dup" : "queue.open");
	end("first", 0);
	for (unsigned i = 0; i < count; i++) {
		gate_await();
		pass(FM_NS_PER_S * 10);
	}
}

static void all_answer(unsigned count)
{
	gate.point = NULL;
	gate.is_for_all = false;
	for (unsigned i = 0; i < count; i++)
		gate_open();
	settle();
}

/*
 * Goal:   whoever gave back his place while his file system hung waits for one when that answers:
 *         no more run at once than may, however many files had been asked for by then.
 * Method: one place; three puts of one user, of files that can be opened once more and that cannot,
 *         and one of somebody else.
 */
static void test_those_that_hung_take_no_more_places_than_there_are(void)
{
	static const char *const paths[] = { "x", "y", "z" };
	struct caller first, a[3], b;
	unsigned ended;

	if (fm_test_lacks_faults())
		return;
	for (unsigned is_retried = 0; is_retried < 2; is_retried++) {
		threads_up(1, 5);
		runs("first", &first);
		files_hang(paths, a, 3, is_retried, 0);
		runs("b", &b);
		all_answer(3);
		CU_ASSERT_EQUAL(count_running(), 1);
		end("b", 0);
		for (ended = 0; ended < 3; ended++) {
			settle();
			CU_ASSERT_EQUAL(count_running(), 1);
			for (unsigned i = 0; i < 3; i++)
				if (running(paths[i])) {
					end(paths[i], 0);
					break;
				}
		}
		settle();
		CU_ASSERT_TRUE(a[0].is_done && a[1].is_done && a[2].is_done);
		threads_down();
	}
}

/* Goal: who waits for a place with his file open is cancelled, ends in his time, and keeps no
 * stop. */
static void test_what_waits_with_its_file_open_can_be_ended(void)
{
	static const char *const paths[] = { "x", "y" };
	struct caller first, a[2], b;

	if (fm_test_lacks_faults())
		return;
	threads_up(1, 4);
	runs("first", &first);
	files_hang(paths, a, 2, false, 60 * FM_NS_PER_S);
	runs("b", &b);
	all_answer(2);
	CU_ASSERT_EQUAL(state_of(a[0].id), FM_QUEUE_QUEUED);
	fm_queue_end_job(&a[0].watch, -ECANCELED, false, "never mind");
	settle();
	CU_ASSERT_TRUE(a[0].is_done && a[0].result.code == -ECANCELED);
	pass(60 * FM_NS_PER_S);
	settle();
	CU_ASSERT_TRUE(a[1].is_done && a[1].result.code == -ETIMEDOUT);
	CU_ASSERT_EQUAL(count_running(), 1);
	threads_down();
}

/* Goal: a stop closes what a detached job that waits for a place has open. */
static void test_a_stop_closes_what_waits_with_its_file_open(void)
{
	struct caller a, b;

	threads_up(1, 3);
	stands("a", "open", 0, true, &a);
	fm_queue_unwatch(&a.watch);
	pass(FM_NS_PER_S * 10);
	runs("b", &b);
	gate_open();
	settle();
	CU_ASSERT_EQUAL(state_of(a.id), FM_QUEUE_QUEUED);
	CU_ASSERT_EQUAL(store_ref.refs, 2);
	threads_down();		/* which finds no reference left */
}

/* A get into a store, where something of an earlier try is, stands in its create. */
static void creates_partial(bool is_detached, struct caller *c)
{
	struct fm_queue_opts o = store_put("a", ALICE);
	struct fm_err err;

	o.job.is_put = false;
	o.own_path = "partial";
	o.own_path_len = strlen(o.own_path);
	o.is_detached = is_detached;
	o.retry_ns = is_detached ? FM_RETRY_ALWAYS : 0;
	gate.point = "create";
	CU_ASSERT_EQUAL_FATAL(submit(&o, c, &err), 0);
	gate_await();
}

/*
 * Goal:   a file system that hangs once more at the close keeps neither a stop nor the loop, which
 *         has the time that a stop may take.
 * Method: a detached get into a store, and one whose caller waits, each stands in its create, and
 *         waits for a place with its file open; then in its close.
 */
static void test_a_stop_does_not_wait_for_a_close(void)
{
	struct caller a, b;

	loop_thread = pthread_self();
	for (unsigned is_detached = 0; is_detached < 2; is_detached++) {
		threads_up(1, 3);
		is_closed_on_loop = false;
		kept = closed = 0;
		creates_partial(is_detached, &a);
		if (is_detached)
			fm_queue_unwatch(&a.watch);
		pass(FM_NS_PER_S * 10);
		runs("b", &b);
		gate_open();
		settle();
		CU_ASSERT_EQUAL_FATAL(state_of(a.id), FM_QUEUE_QUEUED);
		gate.point = "close";
		fm_queue_stop(q);
		CU_ASSERT_FALSE_FATAL(is_closed_on_loop);
		gate_await();		/* the loop goes on meanwhile */
		CU_ASSERT_EQUAL(closed, 0);
		if (!is_detached) {
			pass(FM_QUEUE_LEAVE_NS);
			CU_ASSERT_TRUE(a.is_done && a.result.code == -EHOSTDOWN);
		}
		gate_open();
		settle();
		CU_ASSERT_EQUAL(closed, 1);
		CU_ASSERT_EQUAL(kept, 1);
		threads_down();		/* which finds no reference left */
	}
}

/*
 * Goal:   what is cancelled after its caller went away, while its file is still being opened, is
 *         over, and stays so when its file system answers.
 */
static void test_a_paused_one_that_still_opens_can_be_cancelled(void)
{
	struct caller a, b, w = { .watch = { .events = &caller_events } };
	struct fm_queue_opts o;
	struct fm_err err;

	if (fm_test_lacks_faults())
		return;
	threads_up(1, 3);
	runs("b", &b);
	o = file_put("a", ALICE);
	o.retry_ns = FM_RETRY_ALWAYS;
	CU_ASSERT_EQUAL_FATAL(submit(&o, &a, &err), 0);
	until(&a.is_accepted);
	gate_close("queue.dup");
	end("b", 0);
	gate_await();
	fm_queue_abandon(&a.watch);
	pass(FM_NS_PER_S);
	CU_ASSERT_EQUAL(state_of(a.id), FM_QUEUE_PAUSED);
	CU_ASSERT_EQUAL_FATAL(fm_queue_cancel(q, a.id, ALICE, false, &w.watch, &err), 1);
	until(&w.is_done);
	CU_ASSERT_EQUAL(w.result.code, 0);
	CU_ASSERT_EQUAL(state_of(a.id), FM_QUEUE_CANCELLED);
	gate_open();
	settle();
	CU_ASSERT_EQUAL(state_of(a.id), FM_QUEUE_CANCELLED);
	CU_ASSERT_PTR_NULL(running("a"));
	threads_down();
}

/* Goal: what waits for a thread is cancelled without one. */
static void test_what_no_thread_has_begun_is_cancelled_at_once(void)
{
	struct fm_queue_opts o;
	struct caller a, b;
	struct fm_err err;

	threads_up(2, 1);
	stands("a", "open", 0, false, &a);
	o = store_put("b", BOB);
	CU_ASSERT_EQUAL_FATAL(submit(&o, &b, &err), 0);
	pass_some();
	CU_ASSERT_FALSE(b.is_accepted);
	fm_queue_end_job(&b.watch, -ECANCELED, false, "never mind");
	pass_some();
	CU_ASSERT_TRUE(b.is_done && b.result.code == -ECANCELED);
	gate_open();
	settle();
	CU_ASSERT_PTR_NOT_NULL(running("a"));
	threads_down();
}

static void test_jobs_survive_a_crash(void)
{
	struct caller waiting, running_one;

	scene_up(1);
	detached(store_put("run", ALICE), &running_one);
	detached(store_put("wait", ALICE), &waiting);
	crash();
	CU_ASSERT_EQUAL(state_of(running_one.id), FM_QUEUE_RUNNING);
	CU_ASSERT_EQUAL(state_of(waiting.id), FM_QUEUE_QUEUED);
	scene_down();
}

/* What is there may be of a try that was begun, not of one that only stood in the queue. */
static void test_only_what_was_sent_is_found_behind_a_crash(void)
{
	struct fm_entry entry = { .attr = own_attr };
	struct fm_request_result r = { .entries = &entry, .count = 1 };
	struct caller waiting, sent, c;

	scene_up(1);
	detached(store_put("sent", ALICE), &sent);
	detached(store_put("wait", ALICE), &waiting);
	crash();
	asked.count = 0;
	end("sent", -EEXIST);
	CU_ASSERT_TRUE_FATAL(asked.count == 1 && asked.is_far);
	asked.done(asked.ctx, &r);
	CU_ASSERT_TRUE_FATAL(asked.count == 2 && !asked.is_far);
	asked.done(asked.ctx, &r);
	run();
	CU_ASSERT_EQUAL(told(sent.id, &c), 0);
	CU_ASSERT_TRUE(c.result.was_there && !c.result.is_checked);
	asked.count = 0;
	end("wait", -EEXIST);
	CU_ASSERT_EQUAL(asked.count, 0);
	CU_ASSERT_EQUAL(told(waiting.id, &c), -EEXIST);
	/* Nobody compared the bytes, which is kept, too. */
	crash();
	CU_ASSERT_EQUAL(told(sent.id, &c), 0);
	CU_ASSERT_TRUE(c.result.was_there && !c.result.is_checked);
	scene_down();
}

/* A daemon that did not write down what it sent may have sent it. */
static void test_what_an_older_daemon_left_may_have_been_sent(void)
{
	struct fm_entry entry = { .attr = own_attr };
	struct fm_request_result r = { .entries = &entry, .count = 1 };
	struct caller c, later;

	scene_up(1);
	detached(store_put("a", ALICE), &c);
	queue_down();
	edit(c.id, "sent", NULL);
	started_count = 0;
	queue_up(1);
	run();
	asked.count = 0;
	end("a", -EEXIST);
	CU_ASSERT_TRUE_FATAL(asked.count == 1 && asked.is_far);
	asked.done(asked.ctx, &r);
	asked.done(asked.ctx, &r);
	run();
	CU_ASSERT_EQUAL(told(c.id, &later), 0);
	scene_down();
}

/* When it is written down that it is sent, which is the second time that it is written down. */
static void cancel_second(void *ctx, const char *point)
{
	static unsigned writes;
	const struct caller *c = ctx;
	struct fm_err err;

	if (strcmp(point, "queue.sync") == 0 && ++writes == 2)
		CU_ASSERT_EQUAL(fm_queue_cancel(q, c->id, ALICE, false, NULL, &err), 1);
}

static void test_one_that_is_about_to_be_sent_can_be_cancelled(void)
{
	struct fm_queue_opts o;
	struct caller c;

	if (fm_test_lacks_faults())
		return;
	scene_up(1);
	o = store_put("a", ALICE);
	o.is_detached = true;
	o.retry_ns = FM_RETRY_ALWAYS;
	fm_fault_watch(cancel_second, &c);
	submitted(&o, &c);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_TRUE(c.is_done && c.result.code == -ECANCELED);
	CU_ASSERT_EQUAL(started_count, 0);
	scene_down();
}

static void test_torn_and_strange_files_are_set_aside(void)
{
	static const char *const bad[] = {
		"",
		"{",
		"[]",
		"{}",
		"nonsense",
		"{\"version\":2,\"node\":\"n1\"}",
		"{\"version\":1,\"node\":\"n1\",\"seq\":0,\"state\":\"queued\",\"end\":\"store\","
		"\"peer\":\"n2\",\"store\":\"s\","
		"\"own_store\":\"s\",\"uid\":1000,\"gid\":1000,\"created_ms\":0,\"ended_ms\":0}",
		"{\"version\":1,\"node\":\"n1\",\"seq\":1,\"state\":\"flying\",\"end\":\"store\","
		"\"peer\":\"n2\",\"store\":\"s\","
		"\"own_store\":\"s\",\"uid\":1000,\"gid\":1000,\"created_ms\":0,\"ended_ms\":0}",
		"{\"version\":1,\"node\":\"n1\",\"seq\":1,\"state\":\"queued\",\"end\":\"file\","
		"\"peer\":\"n2\",\"store\":\"s\","
		"\"uid\":1000,\"gid\":1000,\"created_ms\":0,\"ended_ms\":0}",
		"{\"version\":1,\"node\":\"n1\",\"seq\":1,\"state\":\"queued\",\"end\":\"store\","
		"\"peer\":\"n2\",\"store\":\"s\","
		"\"own_store\":\"s\",\"uid\":-1,\"gid\":1000,\"created_ms\":0,\"ended_ms\":0}",
		"{\"version\":1,\"node\":\"n1\",\"seq\":1,\"state\":\"queued\",\"end\":\"store\","
		"\"peer\":\"n2\",\"store\":\"s\","
		"\"own_store\":\"s\",\"uid\":1000,\"gid\":1000,"
		"\"excludes\":[1],\"created_ms\":0,\"ended_ms\":0}",
		/* whose? */
		"{\"version\":1,\"node\":\"n1\",\"seq\":1,\"state\":\"queued\",\"end\":\"store\","
		"\"peer\":\"n2\",\"store\":\"s\","
		"\"own_store\":\"s\",\"gid\":1000,\"created_ms\":0,\"ended_ms\":0}",
		"{\"version\":1,\"node\":\"n1\",\"seq\":1,\"state\":\"queued\",\"end\":\"store\","
		"\"peer\":\"n2\",\"store\":\"s\","
		"\"own_store\":\"s\",\"uid\":1000,\"created_ms\":0,\"ended_ms\":0}",
		"{\"version\":1,\"node\":\"n1\",\"seq\":1,\"state\":\"queued\",\"end\":\"store\","
		"\"peer\":\"n2\",\"store\":\"s\","
		"\"own_store\":\"s\",\"uid\":null,\"gid\":1000,\"created_ms\":0,\"ended_ms\":0}",
		"{\"version\":1,\"node\":\"n1\",\"seq\":1,\"state\":\"queued\",\"end\":\"store\","
		"\"peer\":\"n2\",\"store\":\"s\","
		"\"own_store\":\"s\",\"uid\":4294967295,\"gid\":1000,"
		"\"created_ms\":0,\"ended_ms\":0}",
		"{\"version\":1,\"node\":\"n1\",\"seq\":1,\"state\":\"queued\",\"end\":\"store\","
		"\"peer\":\"n2\",\"store\":\"s\","
		"\"own_store\":\"s\",\"uid\":1000,\"gid\":4294967295,"
		"\"created_ms\":0,\"ended_ms\":0}",
	};
	char id[FM_QUEUE_ID_LEN + 1];
	struct caller good;

	scene_up(1);
	detached(store_put("good", ALICE), &good);
	queue_down();
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		(void)snprintf(id, sizeof(id), "aaaaaaa%c", 'a' + i);
		spoil(id, bad[i]);
	}
	spoil("zzzzzzzz", "{\"version\":1,\"node\":\"n9\"}");
	spoil("UPPERCAS", "{");
	started_count = 0;
	queue_up(1);
	run();
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		(void)snprintf(id, sizeof(id), "aaaaaaa%c", 'a' + i);
		CU_ASSERT_FALSE(is_known(id));
		CU_ASSERT_TRUE(has_file(id, ".json.bad") && !has_file(id, ".json"));
	}
	/* another node's, and none of our business */
	CU_ASSERT_TRUE(has_file("zzzzzzzz", ".json"));
	CU_ASSERT_TRUE(has_file("UPPERCAS", ".json"));
	CU_ASSERT_EQUAL(state_of(good.id), FM_QUEUE_RUNNING);
	scene_down();
}

/* Goal: a job whose number is the last one that can be read costs no later one. */
static void test_a_number_at_the_end_costs_no_job(void)
{
	static const char last[] =
		"{\"version\":1,\"node\":\"n1\",\"seq\":9007199254740991,\"state\":\"queued\","
		"\"end\":\"store\",\"put\":true,\"peer\":\"n2\",\"store\":\"s\",\"path\":\"x\","
		"\"own_store\":\"s\",\"own_path\":\"x\",\"uid\":1000,\"gid\":1000,"
		"\"created_ms\":0,\"ended_ms\":0}";
	struct caller first, later;

	scene_up(1);
	detached(store_put("first", ALICE), &first);
	queue_down();
	spoil("aaaaaaaa", last);
	queue_up(1);
	CU_ASSERT_TRUE(is_known("aaaaaaaa"));
	detached(store_put("later", ALICE), &later);
	queue_down();
	queue_up(1);
	CU_ASSERT_TRUE(is_known(first.id) && is_known("aaaaaaaa") && is_known(later.id));
	CU_ASSERT_TRUE(has_file(later.id, ".json") && !has_file(later.id, ".json.bad"));
	scene_down();
}

/* Goal: any cut of a file is a job, or is set aside; nothing else. Method: every length of a real
 * one. */
static void test_any_part_of_a_file_does_no_harm(void)
{
	char name[128], text[4096];
	struct caller c;
	ssize_t len;
	int fd;

	scene_up(1);
	detached(store_put("a", ALICE), &c);
	(void)snprintf(name, sizeof(name), "%s/%s.json", dir, c.id);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	len = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	queue_down();
	for (ssize_t cut = 0; cut < len; cut++) {
		char saved = text[cut];

		text[cut] = '\0';
		spoil(c.id, text);
		text[cut] = saved;
		started_count = 0;
		queue_up(1);
		run();
		CU_ASSERT_FALSE(is_known(c.id));
		queue_down();
	}
	queue_up(1);
	scene_down();
}

static void test_two_daemons_do_not_share_a_directory(void)
{
	struct fm_queue_opts o;
	struct fm_queue *first;
	struct caller c;
	struct fm_err err;

	scene_up(1);
	first = q;
	queue_up(1);
	o = store_put("a", ALICE);
	o.is_detached = true;
	CU_ASSERT_EQUAL(submit(&o, &c, &err), -EOPNOTSUPP);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "another fmoved"));
	o.is_detached = false;
	CU_ASSERT_EQUAL(submit(&o, &c, &err), 0);
	run();
	queue_down();
	q = first;
	started_count = 0;
	scene_down();
}

/* Goal: what a restart would leave to its user is counted while it waits, and nothing else is. */
static void test_who_waits_with_a_file_is_counted(void)
{
	struct fm_queue_counts counts;
	struct caller c[3];

	scene_up(1);
	detached(store_put("between", ALICE), &c[0]);
	detached(store_put("stores", ALICE), &c[1]);
	fm_queue_counts(q, &counts);
	CU_ASSERT_EQUAL(counts.with_file, 0);
	detached(file_put("file", ALICE), &c[2]);
	fm_queue_counts(q, &counts);
	CU_ASSERT_EQUAL(counts.with_file, 1);
	end("between", 0);
	end("stores", 0);
	end("file", -EHOSTUNREACH);
	CU_ASSERT_EQUAL(state_of(c[2].id), FM_QUEUE_WAITING);
	fm_queue_counts(q, &counts);
	CU_ASSERT_TRUE(counts.jobs[FM_QUEUE_RUNNING] == 0 && counts.with_file == 1);
	queue_down();
	queue_up(1);
	CU_ASSERT_EQUAL(state_of(c[2].id), FM_QUEUE_PAUSED);
	fm_queue_counts(q, &counts);
	CU_ASSERT_EQUAL(counts.with_file, 0);
	scene_down();
}

static void test_a_paused_job_goes_on_with_its_file(void)
{
	struct fm_queue_opts o;
	struct fm_err err;
	struct caller c;

	scene_up(1);
	detached(file_put("own", ALICE), &c);
	CU_ASSERT_PTR_NOT_NULL(running("own"));
	queue_down();
	started_count = 0;
	queue_up(1);
	run();
	CU_ASSERT_EQUAL(fm_queue_resume(q, c.id, ALICE, -1, NULL, &err), -EINVAL);
	o = file_put("own", ALICE);
	CU_ASSERT_EQUAL(fm_queue_resume(q, c.id, BOB, dup(o.fd), NULL, &err), -ENOENT);
	/* root may open what ALICE may not: what he hands over is not hers to send */
	CU_ASSERT_EQUAL(fm_queue_resume(q, c.id, 0, dup(o.fd), NULL, &err), -EPERM);
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_PAUSED);
	CU_ASSERT_EQUAL(fm_queue_resume(q, c.id, ALICE, o.fd, NULL, &err), 0);
	run();
	CU_ASSERT_PTR_NOT_NULL(running("own"));
	CU_ASSERT_EQUAL(fm_queue_resume(q, c.id, ALICE, -1, NULL, &err), -EALREADY);
	end("own", -ECONNRESET);	/* it still has the file */
	CU_ASSERT_EQUAL(fm_queue_resume(q, c.id, ALICE, -1, NULL, &err), 0);
	run();
	end("own", 0);
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_DONE);
	scene_down();
}

static void test_a_failed_job_can_be_tried_again(void)
{
	struct fm_err err;
	struct caller c;

	scene_up(1);
	detached(store_put("a", ALICE), &c);
	end("a", -ENOSPC);
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_FAILED);
	CU_ASSERT_EQUAL(fm_queue_resume(q, c.id, ALICE, -1, NULL, &err), 0);
	run();
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_RUNNING);
	queue_down();
	started_count = 0;
	queue_up(1);
	run();
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_RUNNING);
	end("a", 0);
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_DONE);
	scene_down();
}

static void test_only_the_last_that_ended_are_kept(void)
{
	static struct caller c[FM_QUEUE_KEPT_USER_MAX + 5];
	struct caller bob;

	scene_up(1);
	detached(store_put("b", BOB), &bob);
	end("b", 0);
	for (unsigned i = 0; i < FM_QUEUE_KEPT_USER_MAX + 5; i++) {
		detached(store_put("a", ALICE), &c[i]);
		end("a", 0);
	}
	for (unsigned i = 0; i < FM_QUEUE_KEPT_USER_MAX + 5; i++) {
		CU_ASSERT_EQUAL(is_known(c[i].id), i >= 5);
		CU_ASSERT_EQUAL(has_file(c[i].id, ".json"), i >= 5);
	}
	CU_ASSERT_TRUE(is_known(bob.id));
	scene_down();
}

static bool count_visited(void *ctx, const struct fm_queue_info *info)
{
	unsigned *count = ctx;

	(void)info;
	++*count;
	return true;
}

/* Its file once more, under so many other ids. */
static void multiply(const char *id, unsigned times)
{
	char name[128], text[4096] = "";
	FILE *f;

	(void)snprintf(name, sizeof(name), "%s/%s.json", dir, id);
	f = fopen(name, "r");
	if (!f || fread(text, 1, sizeof(text) - 1, f) == 0 || fclose(f) != 0)
		abort();
	for (unsigned i = 0; i < times; i++) {
		(void)snprintf(name, sizeof(name), "%s/zzzzz%c%c%c.json", dir, 'a' + i / 625,
			       'a' + i / 25 % 25, 'a' + i % 25);
		f = fopen(name, "w");
		if (!f || fputs(text, f) < 0 || fclose(f) != 0)
			abort();
	}
}

/* Goal: of all users together so many are known as it says, and looking forgets none of these,
 * though the files of others take their time. */
static void test_looking_forgets_no_more_than_it_must(void)
{
	struct caller c;
	unsigned count;

	scene_up(1);
	detached(store_put("a", ALICE), &c);
	end("a", 0);
	queue_down();
	multiply(c.id, FM_QUEUE_KEPT_MAX + 2);
	queue_up(1);
	run();
	for (unsigned i = 0; i < 9; i++) {
		count = 0;
		fm_queue_visit(q, ALICE, false, 0, count_visited, &count);
	}
	CU_ASSERT_EQUAL(count, FM_QUEUE_KEPT_MAX);
	run();
	count = 0;
	fm_queue_visit(q, ALICE, false, 0, count_visited, &count);
	CU_ASSERT_EQUAL(count, FM_QUEUE_KEPT_MAX);
	scene_down();
}

/* What could not be written down as done must not be done twice. */
static void test_an_end_that_cannot_be_written_down_is_not_begun_again(void)
{
	struct caller c;

	if (fm_test_lacks_faults())
		return;
	scene_up(1);
	detached(store_put("a", ALICE), &c);
	fm_fault_arm("queue.write", 1);
	end("a", 0);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_DONE);
	CU_ASSERT_FALSE(has_file(c.id, ".json"));
	scene_down();
}

/* How many lines of that kind were written to the file. */
static unsigned lines_with(FILE *log, const char *text)
{
	char line[1024];
	unsigned count = 0;

	rewind(log);
	while (fgets(line, sizeof(line), log))
		count += strstr(line, text) != NULL;
	return count;
}

/* A full directory is not said of each job: 20 lines a minute are enough. */
static void test_lines_of_a_full_directory_have_a_limit(void)
{
	struct caller c;
	FILE *log;
	int saved;

	if (fm_test_lacks_faults())
		return;
	saved = dup(STDERR_FILENO);
	log = tmpfile();
	CU_ASSERT_TRUE_FATAL(log && saved >= 0);
	scene_up(1);
	(void)dup2(fileno(log), STDERR_FILENO);
	fm_log_set_level(FM_LOG_WARN);
	for (unsigned i = 0; i < 25; i++) {
		detached(store_put("a", ALICE), &c);
		fm_fault_arm("queue.write", 1);
		end("a", 0);
		fm_fault_arm(NULL, 0);
	}
	fm_log_set_level(FM_LOG_ERROR);
	(void)dup2(saved, STDERR_FILENO);
	(void)close(saved);
	CU_ASSERT_EQUAL(lines_with(log, "the next start does not know of it"), 20);
	(void)fclose(log);
	scene_down();
}

static void test_what_a_lost_caller_wanted_is_paused(void)
{
	struct fm_queue_opts o;
	struct caller c[2];
	struct fm_err err;
	char id[2][FM_QUEUE_ID_LEN + 1];

	scene_up(1);
	/* One that runs, one that is queued. */
	for (unsigned i = 0; i < 2; i++) {
		o = file_put(i ? "second" : "first", ALICE);
		submitted(&o, &c[i]);
		memcpy(id[i], c[i].id, sizeof(id[i]));
	}
	for (unsigned i = 0; i < 2; i++)
		fm_queue_abandon(&c[i].watch);
	CU_ASSERT_TRUE(running("first")->is_kept);
	end("first", -ECANCELED);
	run();
	CU_ASSERT_FALSE(c[0].is_done || c[1].is_done);
	CU_ASSERT_EQUAL(state_of(id[0]), FM_QUEUE_PAUSED);
	CU_ASSERT_EQUAL(state_of(id[1]), FM_QUEUE_PAUSED);
	queue_down();
	queue_up(1);
	run();
	CU_ASSERT_EQUAL(state_of(id[0]), FM_QUEUE_PAUSED);
	/* The same again takes the place of the one; the other is handed its file. */
	o = file_put("first", ALICE);
	submitted(&o, &c[0]);
	CU_ASSERT_FALSE(is_known(id[0]));
	CU_ASSERT_FALSE(has_file(id[0], ".json"));
	o = file_put("second", ALICE);
	CU_ASSERT_EQUAL(fm_queue_resume(q, id[1], ALICE, o.fd, NULL, &err), 0);
	run();
	end("first", 0);
	CU_ASSERT_TRUE(c[0].is_done);
	end("second", 0);
	CU_ASSERT_EQUAL(state_of(id[1]), FM_QUEUE_DONE);
	/* What cannot be handed again just ends. */
	o = file_put("third", ALICE);
	o.file_len = 0;
	submitted(&o, &c[0]);
	memcpy(id[0], c[0].id, sizeof(id[0]));
	fm_queue_abandon(&c[0].watch);
	end("third", -ECANCELED);
	CU_ASSERT_FALSE(is_known(id[0]));
	scene_down();
}

static void test_a_paused_job_of_a_lost_caller_can_be_cancelled(void)
{
	struct fm_queue_opts o;
	struct caller c;
	char id[FM_QUEUE_ID_LEN + 1];

	scene_up(1);
	o = file_put("a", ALICE);
	submitted(&o, &c);
	memcpy(id, c.id, sizeof(id));
	fm_queue_abandon(&c.watch);
	end("a", -ECANCELED);
	CU_ASSERT_EQUAL(state_of(id), FM_QUEUE_PAUSED);
	CU_ASSERT_EQUAL(cancel_by_id(id, ALICE, false), 0);
	run();
	CU_ASSERT_EQUAL(state_of(id), FM_QUEUE_CANCELLED);
	CU_ASSERT_EQUAL(told(id, &c), -ECANCELED);
	queue_down();
	queue_up(1);
	run();
	CU_ASSERT_EQUAL(state_of(id), FM_QUEUE_CANCELLED);
	scene_down();
}

/* Goal: who asks for a paused job in the same pass in which its place is taken is not told that it
 * is done. */
static void test_whose_place_was_taken_is_not_done(void)
{
	struct fm_queue_opts o;
	struct caller c[2];
	struct fm_err err;
	char id[FM_QUEUE_ID_LEN + 1];

	scene_up(1);
	o = file_put("a", ALICE);
	submitted(&o, &c[0]);
	memcpy(id, c[0].id, sizeof(id));
	fm_queue_abandon(&c[0].watch);
	end("a", -ECANCELED);
	c[0] = (struct caller){ .watch = { .events = &caller_events } };
	CU_ASSERT_EQUAL(fm_queue_watch_id(q, id, ALICE, &c[0].watch, &err), 0);
	o = file_put("a", ALICE);
	submitted(&o, &c[1]);
	CU_ASSERT_TRUE(c[0].is_done);
	CU_ASSERT_EQUAL(c[0].result.code, -ECANCELED);
	CU_ASSERT_FALSE(is_known(id));
	end("a", 0);
	scene_down();
}

/* ---- what a process of the caller attends to ---- */

static void test_what_is_received_is_done_when_it_has_its_name(void)
{
	const struct fm_err exists = { .code = -EEXIST, .text = "it appeared meanwhile" };
	char id[2][FM_QUEUE_ID_LEN + 1];
	struct fm_queue_info info;
	struct fm_queue_opts o;
	struct caller c[2];
	struct fm_err err;

	scene_up(1);
	for (unsigned i = 0; i < 2; i++) {
		o = attended_get(i ? "second" : "first", ALICE);
		submitted(&o, &c[i]);
		memcpy(id[i], c[i].id, sizeof(id[i]));
		CU_ASSERT_TRUE(c[i].is_accepted && has_file(id[i], ".json"));
		end(i ? "second" : "first", 0);
		CU_ASSERT_TRUE(c[i].is_prepared && !c[i].is_done);
		CU_ASSERT_EQUAL(c[i].result.size, 1000);
		CU_ASSERT_EQUAL(state_of(id[i]), FM_QUEUE_RUNNING);
	}
	CU_ASSERT_EQUAL(fm_queue_find(q, id[0], ALICE, &info, &err), 0);
	CU_ASSERT_STRING_EQUAL(info.progress.job.state, "committing");
	CU_ASSERT_EQUAL(info.progress.job.bytes_done, 1000);
	/* It may have its name already. */
	CU_ASSERT_EQUAL(cancel_by_id(id[0], ALICE, false), -EALREADY);
	fm_queue_commit(&c[0].watch, NULL);
	fm_queue_commit(&c[1].watch, &exists);
	run();
	CU_ASSERT_TRUE(c[0].is_done && c[0].result.code == 0 && c[0].result.crc == 77);
	CU_ASSERT_TRUE(c[1].is_done && c[1].result.code == -EEXIST);
	queue_down();
	queue_up(1);
	CU_ASSERT_EQUAL(told(id[0], &c[0]), 0);
	CU_ASSERT_EQUAL(c[0].result.size, 1000);
	CU_ASSERT_EQUAL(told(id[1], &c[1]), -EEXIST);
	CU_ASSERT_PTR_NOT_NULL(strstr(c[1].result.err.text, "appeared"));
	scene_down();
}

/* It goes away while it waits, while bytes move, and while it gives the file its name. */
static void test_who_attended_and_went_away_is_waited_for(void)
{
	char id[FM_QUEUE_ID_LEN + 1];
	struct fm_queue_opts o;
	struct caller c, other;
	struct fm_err err;

	scene_up(1);
	for (unsigned i = 0; i < 3; i++) {
		o = attended_get("a", ALICE);
		submitted(&o, &c);
		/* The same again is the same job. */
		CU_ASSERT_TRUE(i == 0 || strcmp(id, c.id) == 0);
		memcpy(id, c.id, sizeof(id));
		if (i == 2)
			end("a", 0);
		CU_ASSERT_EQUAL(c.is_prepared, i == 2);
		fm_queue_abandon(&c.watch);
		if (running("a"))
			end("a", i == 1 ? 0 : -ECANCELED);	/* too late is too late, too */
		run();
		CU_ASSERT_FALSE(c.is_done);
		CU_ASSERT_EQUAL(state_of(id), FM_QUEUE_PAUSED);
		CU_ASSERT_EQUAL(told(id, &other), -EAGAIN);
		CU_ASSERT_PTR_NOT_NULL(
			strstr(other.result.err.text,
			       i == 2 ? "looks whether it has it" : "its command has gone away"));
	}
	CU_ASSERT_EQUAL(fm_queue_resume(q, id, ALICE, -1, NULL, &err), -EINVAL);
	queue_down();
	queue_up(1);
	CU_ASSERT_EQUAL(state_of(id), FM_QUEUE_PAUSED);
	o = attended_get("a", ALICE);
	submitted(&o, &c);
	CU_ASSERT_STRING_EQUAL(c.id, id);
	end("a", 0);
	fm_queue_commit(&c.watch, NULL);
	run();
	CU_ASSERT_TRUE(c.is_done);
	CU_ASSERT_EQUAL(state_of(id), FM_QUEUE_DONE);
	scene_down();
}

/* Goal: what has the name already is the job's if it is of the size and time of its source, which
 * must be there to be asked. */
static void test_what_has_its_name_already_is_found(void)
{
	const int codes[] = { -EHOSTUNREACH, -EEXIST, 0 };
	struct fm_entry entry = {.attr = {.type = FM_NODE_FILE, .size = 4, .mtime_ns = 1000000007}};
	struct fm_request_result r = { .entries = &entry, .count = 1 };
	const struct timespec times[2] = { { 1, 7 }, { 1, 7 } };
	char id[FM_QUEUE_ID_LEN + 1];
	struct fm_queue_opts o;
	struct caller c;
	struct fm_err err;

	scene_up(1);
	o = attended_get("a", ALICE);
	o.retry_ns = 0;
	submitted(&o, &c);
	memcpy(id, c.id, sizeof(id));
	end("a", 0);
	fm_queue_abandon(&c.watch);
	run();
	for (unsigned i = 0; i < 3; i++) {
		o = file_put("a", ALICE);
		CU_ASSERT_EQUAL(write(o.fd, "made", 4), 4);
		CU_ASSERT_EQUAL(futimens(o.fd, times), 0);
		asked.count = 0;
		CU_ASSERT_EQUAL(fm_queue_resume(q, id, ALICE, o.fd, NULL, &err), 0);
		run();
		CU_ASSERT_TRUE_FATAL(asked.count == 1 && asked.is_far);
		CU_ASSERT_PTR_NULL(running("a"));
		r.code = r.err.code = codes[i] == -EHOSTUNREACH ? codes[i] : 0;
		entry.attr.size = codes[i] == -EEXIST ? 5 : 4;
		asked.done(asked.ctx, &r);
		run();
		CU_ASSERT_EQUAL(state_of(id), codes[i] ? FM_QUEUE_FAILED : FM_QUEUE_DONE);
		CU_ASSERT_EQUAL(told(id, &c), codes[i]);
	}
	CU_ASSERT_TRUE(c.result.size == 4 && c.result.is_durable &&
		       strstr(c.result.note, "an earlier try"));
	scene_down();
}

static void test_an_attended_job_is_begun_again_by_its_id(void)
{
	char id[FM_QUEUE_ID_LEN + 1];
	struct fm_queue_opts o;
	struct caller c, other;
	struct fm_err err;

	scene_up(1);
	o = attended_get("a", ALICE);
	submitted(&o, &c);
	memcpy(id, c.id, sizeof(id));
	o = attended_get("a", ALICE);
	o.again = id;
	CU_ASSERT_EQUAL(submit(&o, &other, &err), -EALREADY);
	CU_ASSERT_EQUAL(cancel_by_id(id, ALICE, true), 0);
	end("a", -ECANCELED);
	CU_ASSERT_TRUE(c.is_done && c.result.code == -ECANCELED);
	o = attended_get("b", ALICE);
	o.again = id;
	CU_ASSERT_EQUAL(submit(&o, &other, &err), -EINVAL);
	o = attended_get("a", BOB);
	o.again = id;
	CU_ASSERT_EQUAL(submit(&o, &other, &err), -ENOENT);
	o = attended_get("a", ALICE);
	o.again = id;
	o.file = "/somewhere/else";
	o.file_len = strlen(o.file);
	submitted(&o, &c);
	CU_ASSERT_STRING_EQUAL(c.id, id);
	end("a", 0);
	fm_queue_commit(&c.watch, NULL);
	run();
	CU_ASSERT_TRUE(c.is_done && c.result.code == 0);
	scene_down();
}

static void test_a_directory_whose_client_went_away_waits(void)
{
	char id[FM_QUEUE_ID_LEN + 1];
	struct fm_queue_opts o;
	struct caller c;

	scene_up(1);
	o = attended_tree("a", ALICE);
	submitted(&o, &c);
	memcpy(id, c.id, sizeof(id));
	/* That it does not answer may be seen before its connection ends. */
	end("a", -EPIPE);
	CU_ASSERT_TRUE(c.is_done && c.result.code == -EAGAIN);
	CU_ASSERT_EQUAL(state_of(id), FM_QUEUE_PAUSED);
	queue_down();
	queue_up(1);
	CU_ASSERT_EQUAL(state_of(id), FM_QUEUE_PAUSED);
	for (unsigned i = 0; i < 2; i++) {
		o = attended_tree("a", ALICE);
		submitted(&o, &c);
		CU_ASSERT_STRING_EQUAL(c.id, id);
		if (i == 0) {
			fm_queue_abandon(&c.watch);
			end("a", -ECANCELED);
		}
	}
	/* It had its name before. */
	end("a", 0);
	CU_ASSERT_TRUE(c.is_done && c.result.code == 0 && !c.is_prepared);
	scene_down();
}

static void test_what_is_attended_is_limited(void)
{
	static struct caller c[FM_QUEUE_ATTENDED_MAX];
	struct fm_queue_opts o;
	struct caller more;
	struct fm_err err;
	unsigned n = 0;

	scene_up(1);
	while (n < FM_QUEUE_ATTENDED_MAX) {
		o = attended_get("a", ALICE);
		if (submit(&o, &c[n], &err) < 0)
			break;
		n++;
	}
	CU_ASSERT_EQUAL(n, (FM_QUEUE_ATTENDED_MAX - FM_QUEUE_ATTENDED_ROOT) / 8 * 7);
	CU_ASSERT_EQUAL(err.code, -EBUSY);
	o = attended_get("b", BOB);
	submitted(&o, &more);
	CU_ASSERT_TRUE(more.is_accepted);
	o = attended_get("c", BOB);
	o.file_len = 0;
	CU_ASSERT_EQUAL(submit(&o, &c[n], &err), -EINVAL);
	o = file_put("c", BOB);
	o.is_detached = o.is_attended = true;
	CU_ASSERT_EQUAL(submit(&o, &c[n], &err), -EINVAL);
	fm_queue_unwatch(&more.watch);
	for (unsigned i = 0; i < n; i++)
		fm_queue_unwatch(&c[i].watch);
	scene_down();
}

/* The time that its file says it ended at. */
static void set_ended(const char *id, const char *ms)
{
	char command[256];

	(void)snprintf(command, sizeof(command),
		       "sed -i 's/\"ended_ms\":[0-9]*/\"ended_ms\":%s/' %s/%s.json", ms, dir, id);
	if (system(command) != 0)
		abort();
}

static bool visit_none(void *ctx, const struct fm_queue_info *info)
{
	(void)info;
	*(unsigned *)ctx += 1;
	return true;
}

static void test_what_ended_long_ago_is_forgotten_without_another_end(void)
{
	unsigned count = 0;
	struct caller c;

	scene_up(1);
	detached(store_put("a", ALICE), &c);
	end("a", 0);
	queue_down();
	set_ended(c.id, "1000");
	started_count = 0;
	queue_up(1);
	run();
	fm_queue_visit(q, 0, true, 0, visit_none, &count);
	CU_ASSERT_EQUAL(count, 0);
	run();
	CU_ASSERT_FALSE(has_file(c.id, ".json"));
	scene_down();
}

static time_t set_forward_s;

/* The clock that people set. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
	int ret = (int)syscall(SYS_clock_gettime, clock, out);

	if (clock == CLOCK_REALTIME)
		out->tv_sec += set_forward_s;
	return ret;
}

/* Goal: no job is lost because somebody set the clock, as happens after a start without a
 * battery. */
static void test_a_clock_that_is_set_loses_no_job(void)
{
	unsigned count = 0;
	struct caller c;

	scene_up(1);
	detached(store_put("a", ALICE), &c);
	end("a", 0);
	set_forward_s = 50 * 365 * 86400L;
	run();
	fm_queue_visit(q, 0, true, 0, visit_none, &count);
	CU_ASSERT_EQUAL(count, 1);
	CU_ASSERT_TRUE(has_file(c.id, ".json"));
	set_forward_s = 0;

	/* it ended while the clock was ahead */
	queue_down();
	set_ended(c.id, "4000000000000");
	started_count = 0;
	queue_up(1);
	run();
	fm_queue_visit(q, 0, true, 0, visit_none, &count);
	CU_ASSERT_EQUAL(count, 2);
	scene_down();
}

/* Goal: what is left in a pipe after a try that failed is never taken for the whole. */
static void test_a_job_cannot_be_resumed_with_a_pipe(void)
{
	struct fm_err err;
	struct caller c;
	int fds[2];

	scene_up(1);
	detached(file_put("own", ALICE), &c);
	end("own", -ENOSPC);
	if (pipe2(fds, O_CLOEXEC) < 0)
		abort();
	CU_ASSERT_EQUAL(fm_queue_resume(q, c.id, ALICE, fds[0], NULL, &err), 0);
	run();
	CU_ASSERT_PTR_NULL(running("own"));
	CU_ASSERT_EQUAL(state_of(c.id), FM_QUEUE_FAILED);
	(void)close(fds[1]);
	scene_down();
}

/* Goal: a peer that was removed while a job waited costs the job, not what an earlier try left. */
static void test_what_an_earlier_try_left_survives_a_refusal(void)
{
	struct fm_queue_opts o = store_put("a", ALICE);
	struct fm_err err;
	struct caller c;

	scene_up(1);
	kept = closed = 0;
	o.job.is_put = false;
	o.own_path = "partial";
	o.own_path_len = strlen(o.own_path);
	CU_ASSERT_EQUAL(submit(&o, &c, &err), 0);
	check_answer = -ENOENT;
	run();
	CU_ASSERT_TRUE(c.is_done);
	CU_ASSERT_EQUAL(c.result.code, -ENOENT);
	CU_ASSERT_EQUAL(started_count, 0);
	CU_ASSERT_EQUAL(kept, 1);
	CU_ASSERT_EQUAL(closed, 1);
	scene_down();
}

/* ---- what is full ---- */

/* Goal: who is refused since nothing is left for his end hears that it may pass, so that he
 * waits. */
static void test_a_full_end_may_pass(void)
{
	struct fm_queue_opts o = store_put("a", ALICE);
	struct caller c;

	scene_up(1);
	o.own_path = "full";
	o.own_path_len = strlen(o.own_path);
	submitted(&o, &c);
	CU_ASSERT_TRUE(c.is_done && c.result.code == -EBUSY && c.result.err.code == -EBUSY &&
		       c.result.err.is_full);
	scene_down();
}

/* ---- one user does not get all ---- */

static void test_one_user_does_not_get_all_the_pipes(void)
{
	static struct caller c[FM_QUEUE_PROMPT_MAX];
	struct fm_queue_opts o;
	struct caller bob;
	unsigned running = 0;
	int fds[2];

	scene_up(1);
	for (unsigned i = 0; i <= FM_QUEUE_PROMPT_MAX; i++) {
		bool is_bob = i == FM_QUEUE_PROMPT_MAX;

		if (pipe2(fds, O_CLOEXEC) < 0)
			abort();
		o = file_put("pipe", is_bob ? BOB : ALICE);
		(void)close(o.fd);
		(void)close(fds[1]);
		o.fd = fds[0];
		submitted(&o, is_bob ? &bob : &c[i]);
		if (!is_bob && c[i].is_done)
			CU_ASSERT_TRUE(c[i].result.code == -EBUSY && c[i].result.err.is_full);
		running += !is_bob && !c[i].is_done;
	}
	CU_ASSERT_EQUAL(running, (FM_QUEUE_PROMPT_MAX - FM_QUEUE_PROMPT_ROOT) / 8 * 7);
	CU_ASSERT_FALSE(bob.is_done);
	scene_down();
}

static void test_one_user_does_not_get_all_the_memory(void)
{
	static struct caller c[FM_QUEUE_JOBS_USER_MAX];
	static char pattern[FM_TREE_EXCLUDE_LEN_MAX + 1];
	const char *excludes[FM_TREE_EXCLUDES_MAX + 1] = { NULL };
	struct fm_queue_opts o = store_put("a", ALICE);
	struct fm_err err = { 0 };
	struct caller bob;
	unsigned i = 0;

	memset(pattern, 'x', sizeof(pattern) - 1);
	for (unsigned e = 0; e < FM_TREE_EXCLUDES_MAX; e++)
		excludes[e] = pattern;
	o.job.excludes = excludes;
	o.is_tree = true;
	scene_up(1);
	while (i < FM_QUEUE_JOBS_USER_MAX && submit(&o, &c[i], &err) == 0)
		i++;
	CU_ASSERT_TRUE(i < FM_QUEUE_JOBS_USER_MAX);
	CU_ASSERT_EQUAL(err.code, -EBUSY);
	CU_ASSERT_TRUE(err.is_full);
	o.job.who.uid = BOB;
	CU_ASSERT_EQUAL(submit(&o, &bob, &err), 0);
	run();
	scene_down();
}

/* Whatever another node has this one do in a user's name, he finds a place, and so does a third. */
static void test_what_a_peer_asks_for_takes_the_peers_places(void)
{
	static struct caller c[FM_QUEUE_JOBS_USER_MAX + 1], alice[FM_QUEUE_JOBS_USER_MAX / 4];
	struct fm_queue_opts o = store_put("a", ALICE);
	struct caller other;
	char peer[] = "n2";
	struct fm_err err = { 0 };
	unsigned i = 0;

	scene_up(1);
	o.peer = peer;
	while (i <= FM_QUEUE_JOBS_USER_MAX && submit(&o, &c[i], &err) == 0)
		i++;
	CU_ASSERT_TRUE(i > 0 && i <= FM_QUEUE_JOBS_USER_MAX && err.code == -EBUSY);
	strcpy(peer, "n3");		/* it was copied */
	CU_ASSERT_EQUAL(submit(&o, &other, &err), 0);
	o.peer = NULL;
	for (i = 0; i < FM_QUEUE_JOBS_USER_MAX / 4; i++)
		CU_ASSERT_EQUAL_FATAL(submit(&o, &alice[i], &err), 0);
	run();
	scene_down();
}

/* ---- the n-th failure ---- */

static void visit(void)
{
	struct caller c[4] = { { .is_done = false } };
	struct fm_queue_opts o[4] = {store_put("a", ALICE), file_put("b", ALICE),
				     store_put("c", BOB), attended_get("d", BOB)};
	struct fm_err err;
	struct transfer *j;

	o[0].is_detached = o[1].is_detached = true;
	o[0].retry_ns = o[1].retry_ns = FM_RETRY_ALWAYS;
	for (unsigned i = 0; i < 4; i++) {
		if (submit(&o[i], &c[i], &err) < 0)
			c[i].is_done = true;
		run();
	}
	for (unsigned i = 0; i < 4; i++) {
		static const char *const paths[] = { "a", "b", "c", "d" };

		pass(2 * FM_NS_PER_S);
		j = running(paths[i]);
		if (j)
			end(paths[i], i == 1 ? -ECONNRESET : 0);
	}
	pass(3 * FM_NS_PER_S);
	if (running("b"))
		end("b", 0);
	if (c[3].is_prepared)
		fm_queue_commit(&c[3].watch, NULL);
	run();
	for (unsigned i = 0; i < 4; i++)
		fm_queue_unwatch(&c[i].watch);
	/* Every one of them ended, is known, or was refused. */
	CU_ASSERT_TRUE(c[2].is_done && c[3].is_done);
}

static void test_the_nth_failure_costs_nothing_but_itself(void)
{
	unsigned fired = 0;
	bool was_fired = true;

	if (fm_test_lacks_faults())
		return;
	for (unsigned i = 1; was_fired && i < 500; i++) {
		scene_up(2);
		fm_fault_arm(NULL, i);
		visit();
		was_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		fired += was_fired;
		scene_down();
	}
	CU_ASSERT_TRUE(fired > 15);
}

/* What the job's call that is with the worker now may wait for without end. */
static const void *awaited(const struct caller *c)
{
	CU_ASSERT_PTR_NOT_NULL_FATAL(c->watch.job);
	CU_ASSERT_PTR_NOT_NULL_FATAL(c->watch.job->try);
	return c->watch.job->try->work.may_await;
}

/*
 * Goal: a call in a store of this node that may never answer is told to wait for that store, or for
 * the user database where its rules need it; the engine learns whose store it is. A caller's file
 * is none of a store.
 */
static void test_what_may_never_answer_is_said(void)
{
	struct fm_queue_opts o = store_put("a", ALICE);
	struct caller c[4];
	struct fm_err err;

	scene_up(4);
	store.may_stand = true;
	CU_ASSERT_EQUAL(submit(&o, &c[0], &err), 0);
	CU_ASSERT_PTR_EQUAL(awaited(&c[0]), &store);
	store.may_stand = false;
	is_of_groups = true;
	CU_ASSERT_EQUAL(submit(&o, &c[1], &err), 0);
	CU_ASSERT_PTR_EQUAL(awaited(&c[1]), fm_access_user_database());
	is_of_groups = false;
	CU_ASSERT_EQUAL(submit(&o, &c[2], &err), 0);
	CU_ASSERT_PTR_NULL(awaited(&c[2]));
	run();
	CU_ASSERT_EQUAL_FATAL(started_count, 3);
	CU_ASSERT_PTR_EQUAL(started[0].store_ref, &store_ref);
	o = file_put("b", ALICE);
	CU_ASSERT_EQUAL(submit(&o, &c[3], &err), 0);
	CU_ASSERT_PTR_NULL(awaited(&c[3]));
	run();
	CU_ASSERT_EQUAL_FATAL(started_count, 4);
	CU_ASSERT_PTR_NULL(started[3].store_ref);
	scene_down();
}

static const struct fm_test tests[] = {
	{"what may never answer is said", test_what_may_never_answer_is_said},
	{"the oldest is next, and no more than the limit run",
	 test_the_oldest_is_next_and_no_more_than_the_limit_run},
	{"the limit can be changed", test_the_limit_can_be_changed},
	{"priority comes before age", test_priority_comes_before_age},
	{"users take turns", test_users_take_turns},
	{"one user does not get every place", test_one_user_does_not_get_every_place},
	{"a pipe does not wait", test_a_pipe_does_not_wait},
	{"who could not look does so later", test_who_could_not_look_does_so_later},
	{"a pipe not opened is not tried later", test_a_pipe_not_opened_is_not_tried_later},
	{"what cannot be looked at is told", test_what_cannot_be_looked_at_is_told},
	{"a pipe is never paused", test_a_pipe_is_never_paused},
	{"a pipe leaves room for files", test_a_pipe_leaves_room_for_files},
	{"the places before a job are counted", test_places_before_it_are_counted},
	{"limits are refused politely", test_limits_are_refused_politely},
	{"what cannot go on alone is not detached", test_what_cannot_go_on_alone_is_not_detached},
	{"a full directory is told at once", test_a_full_directory_is_told_at_once},
	{"a failure that may pass is tried again", test_a_failure_that_may_pass_is_tried_again},
	{"a whole file is whole in every try", test_a_whole_file_is_whole_in_every_try},
	{"a part does not pass for the whole that was before",
	 test_a_part_does_not_pass_for_the_whole_that_was_before},
	{"what an older daemon left may have been sent",
	 test_what_an_older_daemon_left_may_have_been_sent},
	{"other failures are final", test_other_failures_are_final},
	{"a peer that is back is not waited for", test_a_peer_that_is_back_is_not_waited_for},
	{"a caller who waits says how long", test_a_caller_who_waits_says_how_long},
	{"it is tried for as long as was asked", test_it_is_tried_for_as_long_as_was_asked},
	{"time counts from the last progress", test_time_counts_from_the_last_progress},
	{"the same again is no progress", test_the_same_again_is_no_progress},
	{"the timeout counts from the beginning", test_the_timeout_counts_from_the_beginning},
	{"a target that an earlier try made is done",
	 test_a_target_that_an_earlier_try_made_is_done},
	{"a job can be cancelled in every state", test_a_job_can_be_cancelled_in_every_state},
	{"the timeout holds for what is asked", test_the_timeout_holds_for_what_is_asked},
	{"a cancelled update that was measured is not done",
	 test_a_cancelled_update_that_was_measured_is_not_done},
	{"a job can be cancelled while it is accepted",
	 test_a_job_can_be_cancelled_while_it_is_accepted},
	{"jobs of others are as if they were not there",
	 test_jobs_of_others_are_as_if_they_were_not_there},
	{"jobs survive a restart", test_jobs_survive_a_restart},
	{"a job waits for the volume of its store", test_a_job_waits_for_the_volume_of_its_store},
	{"the timeout goes on over a restart", test_the_timeout_goes_on_over_a_restart},
	{"an earlier version's job has all its time",
	 test_a_job_without_a_noted_deadline_has_all_its_time},
	{"jobs survive a crash", test_jobs_survive_a_crash},
	{"an end is told when it is on disk", test_an_end_is_told_when_it_is_on_disk},
	{"an end that is never on disk is told all the same",
	 test_an_end_that_is_never_on_disk_is_told_all_the_same},
	{"the timeout holds while a job is written down",
	 test_the_timeout_holds_while_a_job_is_written_down},
	{"a job that is never on disk is not accepted",
	 test_a_job_that_is_never_on_disk_is_not_accepted},
	{"what is cancelled stays so behind a crash",
	 test_what_is_cancelled_stays_so_behind_a_crash},
	{"a cancel that cannot be written down removes the file",
	 test_a_cancel_that_cannot_be_written_down_removes_the_file},
	{"an open that hangs keeps no place", test_an_open_that_hangs_keeps_no_place},
	{"the timeout holds before the engine has it",
	 test_the_timeout_holds_before_the_engine_has_it},
	{"a look that hangs is told", test_a_look_that_hangs_is_told},
	{"a cancel does not wait for a file system",
	 test_a_cancel_does_not_wait_for_a_file_system},
	{"who goes away leaves the thread", test_who_goes_away_leaves_the_thread},
	{"those that hung take no more places than there are",
	 test_those_that_hung_take_no_more_places_than_there_are},
	{"what waits with its file open can be ended",
	 test_what_waits_with_its_file_open_can_be_ended},
	{"a stop closes what waits with its file open",
	 test_a_stop_closes_what_waits_with_its_file_open},
	{"a stop does not wait for a close", test_a_stop_does_not_wait_for_a_close},
	{"a paused one that still opens can be cancelled",
	 test_a_paused_one_that_still_opens_can_be_cancelled},
	{"what no thread has begun is cancelled at once",
	 test_what_no_thread_has_begun_is_cancelled_at_once},
	{"only what was sent is found behind a crash",
	 test_only_what_was_sent_is_found_behind_a_crash},
	{"one that is about to be sent can be cancelled",
	 test_one_that_is_about_to_be_sent_can_be_cancelled},
	{"torn and strange files are set aside", test_torn_and_strange_files_are_set_aside},
	{"a number at the end costs no job", test_a_number_at_the_end_costs_no_job},
	{"any part of a file does no harm", test_any_part_of_a_file_does_no_harm},
	{"two daemons do not share a directory", test_two_daemons_do_not_share_a_directory},
	{"who waits with a file is counted", test_who_waits_with_a_file_is_counted},
	{"a paused job goes on with its file", test_a_paused_job_goes_on_with_its_file},
	{"a failed job can be tried again", test_a_failed_job_can_be_tried_again},
	{"only the last that ended are kept", test_only_the_last_that_ended_are_kept},
	{"looking forgets no more than it must", test_looking_forgets_no_more_than_it_must},
	{"an end that cannot be written down is not begun again",
	 test_an_end_that_cannot_be_written_down_is_not_begun_again},
	{"lines of a full directory have a limit",
	 test_lines_of_a_full_directory_have_a_limit},
	{"what a lost caller wanted is paused", test_what_a_lost_caller_wanted_is_paused},
	{"a paused job of a lost caller can be cancelled",
	 test_a_paused_job_of_a_lost_caller_can_be_cancelled},
	{"whose place was taken is not done", test_whose_place_was_taken_is_not_done},
	{"what is received is done when it has its name",
	 test_what_is_received_is_done_when_it_has_its_name},
	{"who attended and went away is waited for", test_who_attended_and_went_away_is_waited_for},
	{"what has its name already is found", test_what_has_its_name_already_is_found},
	{"an attended job is begun again by its id", test_an_attended_job_is_begun_again_by_its_id},
	{"a directory whose client went away waits", test_a_directory_whose_client_went_away_waits},
	{"what is attended is limited", test_what_is_attended_is_limited},
	{"what ended long ago is forgotten without another end",
	 test_what_ended_long_ago_is_forgotten_without_another_end},
	{"a clock that is set loses no job", test_a_clock_that_is_set_loses_no_job},
	{"a job cannot be resumed with a pipe", test_a_job_cannot_be_resumed_with_a_pipe},
	{"what an earlier try left survives a refusal",
	 test_what_an_earlier_try_left_survives_a_refusal},
	{"one user does not get all the pipes", test_one_user_does_not_get_all_the_pipes},
	{"who is refused since nothing is left for his end may wait", test_a_full_end_may_pass},
	{"one user does not get all the memory", test_one_user_does_not_get_all_the_memory},
	{"what a peer asks for takes the peer's places",
	 test_what_a_peer_asks_for_takes_the_peers_places},
	{"the n-th failure costs nothing but itself",
	 test_the_nth_failure_costs_nothing_but_itself},
};
FM_TEST_MAIN("queue", tests)
