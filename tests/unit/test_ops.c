/* SPDX-License-Identifier: MIT */
/* links: fm_cli */
/*
 * Goal:   whatever libfmove can do can be started and left alone: its descriptor says when it is
 *         over, its result is that of the call, it can be cancelled at any time, and nothing of it
 *         is left, neither in memory nor of descriptors nor in a child.
 * Method: a small daemon that answers, or not.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "tests/unit/small_daemon.h"

#define OPS 400

static const struct fmove_name name = {"n2", "s", "f"};

static int ask(struct fmove *c, void *ctx, struct fmove_error *err)
{
	char version[16];

	(void)ctx;
	return fmove_version(c, version, sizeof(version), err);
}

static int put(struct fmove *c, void *ctx, struct fmove_error *err)
{
	struct fmove_result result = {.struct_size = sizeof(result)};
	int fd = eventfd(0, EFD_CLOEXEC);
	int ret = fmove_put(c, fd, &name, NULL, &result, err);

	(void)ctx;
	(void)close(fd);
	return ret;
}

static struct fmove_op *start(struct fmove *c,
			      int (*call)(struct fmove *c, void *ctx, struct fmove_error *err),
			      void *ctx)
{
	struct fmove_error err;
	struct fmove_op *op;

	CU_ASSERT_EQUAL_FATAL(fmove_op_start(c, call, ctx, &op, &err), 0);
	return op;
}

static bool is_over(const struct fmove_op *op)
{
	struct pollfd fd = {fmove_op_fd(op), POLLIN, 0};

	return poll(&fd, 1, 0) == 1;
}

static void await_over(const struct fmove_op *op)
{
	struct pollfd fd = {fmove_op_fd(op), POLLIN, 0};

	CU_ASSERT_EQUAL(poll(&fd, 1, FM_TEST_HANG_S * 1000), 1);
}

static void test_many(void)
{
	unsigned before = open_descriptors();
	struct fmove *c = up(3, 100);
	struct fmove_op *ops[OPS];

	for (unsigned i = 0; i < OPS; i++)
		ops[i] = start(c, ask, NULL);
	for (unsigned i = 0; i < OPS; i++) {
		await_over(ops[i]);
		CU_ASSERT_EQUAL(fmove_op_result(ops[i], NULL), 0);
		CU_ASSERT_TRUE(is_over(ops[i]));
		fmove_op_free(ops[i]);
	}
	CU_ASSERT_EQUAL(counts->answered, OPS);
	down(c);
	CU_ASSERT_EQUAL(open_descriptors(), before);
}

static int fail_alone(struct fmove *c, void *ctx, struct fmove_error *err)
{
	(void)c;
	(void)ctx;
	(void)err;
	return -ENODATA;
}

static void test_a_result_is_the_call_s(void)
{
	struct fmove *c = up(1, 0);
	struct fmove_op *op = start(c, fail_alone, NULL);
	struct fmove_error err = {.code = 0};

	CU_ASSERT_EQUAL(fmove_op_result(op, &err), -ENODATA);
	CU_ASSERT_EQUAL(err.code, -ENODATA);
	CU_ASSERT_TRUE(err.text[0] != '\0');
	fmove_op_free(op);
	fmove_op_free(NULL);
	down(c);
}

static int look_at_signals(struct fmove *c, void *ctx, struct fmove_error *err)
{
	sigset_t *blocked = ctx;

	(void)c;
	(void)err;
	return pthread_sigmask(SIG_SETMASK, NULL, blocked);
}

static void test_no_signals(void)
{
	struct fmove *c = up(1, 0);
	sigset_t blocked, ours;
	struct fmove_op *op = start(c, look_at_signals, &blocked);

	CU_ASSERT_EQUAL(fmove_op_result(op, NULL), 0);
	CU_ASSERT_TRUE(sigismember(&blocked, SIGALRM) == 1 && sigismember(&blocked, SIGTERM) == 1);
	(void)pthread_sigmask(SIG_SETMASK, NULL, &ours);
	CU_ASSERT_EQUAL(sigismember(&ours, SIGALRM), 0);
	fmove_op_free(op);
	down(c);
}

static void is_cancelled_at_last(struct fmove_op *op, const char *text)
{
	struct fmove_error err;

	await_over(op);
	CU_ASSERT_EQUAL(fmove_op_result(op, &err), -ECANCELED);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, text));
	fmove_op_free(op);
}

/* A request is given up; a transfer is cancelled at the daemon, which confirms it. */
static void test_cancel_what_runs(void)
{
	struct fmove *c = up(8, 0);
	struct fmove_op *request, *transfer;

	counts->is_silent = counts->confirms = true;
	request = start(c, ask, NULL);
	transfer = start(c, put, NULL);
	await(&counts->asked, 2);
	CU_ASSERT_FALSE(is_over(request) || is_over(transfer));
	fmove_op_cancel(request);
	is_cancelled_at_last(request, "cancelled");
	CU_ASSERT_EQUAL(counts->cancels, 0);
	fmove_op_cancel(transfer);
	await(&counts->cancels, 1);
	fmove_op_cancel(transfer);
	is_cancelled_at_last(transfer, "cancelled as asked");
	CU_ASSERT_EQUAL(counts->cancels, 1);
	/* the thread serves the next one */
	counts->is_silent = false;
	request = start(c, ask, NULL);
	CU_ASSERT_EQUAL(fmove_op_result(request, NULL), 0);
	fmove_op_free(request);
	down(c);
}

/*
 * The first one has the connection, others wait in the line for it, and the last ones in the queue
 * for a thread. What is not cancelled goes on.
 */
static void test_cancel_what_waits(void)
{
	enum { THREADS = FMOVE_CALLS_MAX, GOES_ON = THREADS + 5, COUNT = GOES_ON + 5 };
	struct fmove *c = up(1, 0);
	struct fmove_op *ops[COUNT];

	counts->is_silent = true;
	ops[0] = start(c, ask, NULL);
	await(&counts->asked, 1);
	for (unsigned i = 1; i < COUNT; i++)
		ops[i] = start(c, ask, NULL);
	await(&counts->refused, 1);
	for (unsigned i = COUNT; i-- > 1;) {
		CU_ASSERT_FALSE(is_over(ops[i]));
		if (i < THREADS || i >= GOES_ON)
			fmove_op_cancel(ops[i]);
	}
	for (unsigned i = 1; i < COUNT; i++)
		if (i < THREADS || i >= GOES_ON)
			is_cancelled_at_last(ops[i], "cancelled");
	counts->is_silent = false;
	fmove_op_cancel(ops[0]);
	is_cancelled_at_last(ops[0], "cancelled");
	for (unsigned i = THREADS; i < GOES_ON; i++) {
		CU_ASSERT_EQUAL(fmove_op_result(ops[i], NULL), 0);
		fmove_op_free(ops[i]);
	}
	down(c);
}

static void test_close_ends_all(void)
{
	unsigned before = open_descriptors();
	struct fmove *c = up(2, 0);

	counts->is_silent = true;
	for (unsigned i = 0; i < 200; i++)
		(void)start(c, ask, NULL);
	await(&counts->open, 1);
	down(c);
	CU_ASSERT_EQUAL(open_descriptors(), before);
}

/*
 * No descriptor can be opened any more. A limit of none at all would be more than that: poll(2)
 * takes no more descriptors than the limit, and other threads are about to call it.
 */
static void allow_no_more(struct rlimit *saved)
{
	struct rlimit now;
	int next = dup(STDOUT_FILENO);	/* the lowest number that is free */

	CU_ASSERT_TRUE_FATAL(next >= 0);
	(void)close(next);
	CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_NOFILE, saved), 0);
	now = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = saved->rlim_max};
	CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_NOFILE, &now), 0);
}

static void test_too_many(void)
{
	struct fmove *c = up(1, 0);
	struct rlimit saved;
	struct fmove_error err;
	struct fmove_op *op;

	allow_no_more(&saved);
	CU_ASSERT_EQUAL(fmove_op_start(c, ask, NULL, &op, &err), -EMFILE);
	CU_ASSERT_TRUE(err.is_full);
	CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_NOFILE, &saved), 0);
	op = start(c, ask, NULL);
	CU_ASSERT_EQUAL(fmove_op_result(op, NULL), 0);
	fmove_op_free(op);
	down(c);
}

/* The thread sanitizer cannot have threads in the child of a program with threads. */
#ifdef __SANITIZE_THREAD__
#define CHILD_HAS_THREADS false
#else
#define CHILD_HAS_THREADS true
#endif

static int child(struct fmove *c, struct fmove_op *old)
{
	struct fmove_error err;
	struct fmove_op *op;

	if (!is_over(old) || fmove_op_result(old, &err) != -ECONNRESET)
		return 1;
	fmove_op_free(old);
	counts->is_silent = false;
	if (CHILD_HAS_THREADS && (fmove_op_start(c, ask, NULL, &op, &err) < 0 ||
				  fmove_op_result(op, NULL) < 0))
		return 2;
	fmove_close(c);
	return 0;
}

static void test_a_child_has_its_own(void)
{
	struct fmove *c = up(8, 0);
	struct fmove_op *op;
	int status;
	pid_t pid;

	counts->is_silent = true;
	op = start(c, ask, NULL);
	await(&counts->asked, 1);
	pid = fork();
	if (pid == 0)
		_exit(child(c, op));
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
	/* the parent's goes on */
	CU_ASSERT_FALSE(is_over(op));
	fmove_op_cancel(op);
	is_cancelled_at_last(op, "cancelled");
	down(c);
}

/* The child cannot be told, and the parent is not told instead. */
static void test_a_child_without_descriptors(void)
{
	struct fmove *c = up(8, 0);
	struct rlimit saved;
	struct fmove_op *op;
	int status;
	pid_t pid;

	counts->is_silent = true;
	op = start(c, ask, NULL);
	await(&counts->asked, 1);
	allow_no_more(&saved);
	pid = fork();
	if (pid == 0)
		_exit(fmove_op_result(op, NULL) != -ECONNRESET);
	CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_NOFILE, &saved), 0);
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
	CU_ASSERT_FALSE(is_over(op));
	fmove_op_cancel(op);
	is_cancelled_at_last(op, "cancelled");
	down(c);
}

static const struct fm_test tests[] = {
	{"many ops, few connections", test_many},
	{"a result is that of the call", test_a_result_is_the_call_s},
	{"threads of the library take no signals", test_no_signals},
	{"what runs can be cancelled", test_cancel_what_runs},
	{"what waits can be cancelled", test_cancel_what_waits},
	{"to close a handle ends what was started", test_close_ends_all},
	{"without descriptors nothing is started", test_too_many},
	{"a child has ops of its own", test_a_child_has_its_own},
	{"a child without descriptors tells its parent nothing", test_a_child_without_descriptors},
};
FM_TEST_MAIN("ops", tests)
