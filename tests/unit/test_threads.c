/* SPDX-License-Identifier: MIT */
/* links: fm_cli */
/*
 * Goal:   one handle of libfmove serves any number of threads, however few connections the daemon
 *         allows: they wait in a line, from which they can be cancelled and time out. A child that
 *         was forked goes on by itself. Signals neither end a call nor make its time longer.
 * Method: a daemon of our own, in another process, that allows so many connections at once and
 *         answers each request after a while, or never.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/fmove.h"
#include "tests/fm_test.h"
#include "tests/unit/small_daemon.h"

#define THREADS 1000
/* ---- threads ---- */

struct call {
	pthread_t thread;
	struct fmove *c;
	struct fmove_error err;
	atomic_int ret;			/* 1: it is not over */
};

static void *ask(void *arg)
{
	struct call *call = arg;
	char version[16];

	call->ret = fmove_version(call->c, version, sizeof(version), &call->err);
	return NULL;
}

static void call_start(struct call *call, struct fmove *c)
{
	*call = (struct call){.c = c};
	call->ret = 1;
	CU_ASSERT_EQUAL_FATAL(pthread_create(&call->thread, NULL, ask, call), 0);
}

static void all_are_served(unsigned limit)
{
	unsigned before = open_descriptors();
	struct fmove *c = up(limit, 100);
	struct call *calls = calloc(THREADS, sizeof(*calls));

	for (unsigned i = 0; i < THREADS; i++)
		call_start(&calls[i], c);
	for (unsigned i = 0; i < THREADS; i++) {
		CU_ASSERT_EQUAL(pthread_join(calls[i].thread, NULL), 0);
		CU_ASSERT_EQUAL(calls[i].ret, 0);
	}
	CU_ASSERT_EQUAL(counts->answered, THREADS);
	CU_ASSERT_TRUE(counts->most <= limit);
	free(calls);
	down(c);
	CU_ASSERT_EQUAL(open_descriptors(), before);
}

static void test_the_daemon_allows_few(void)
{
	all_are_served(3);
	all_are_served(1);
}

static void test_the_daemon_allows_more_than_a_handle_has(void)
{
	all_are_served(FMOVE_CALLS_MAX + 100);
}

static void test_connections_are_used_again(void)
{
	struct fmove *c = up(8, 0);
	char version[16];

	for (unsigned i = 0; i < 100; i++)
		CU_ASSERT_EQUAL(fmove_version(c, version, sizeof(version), NULL), 0);
	CU_ASSERT_EQUAL(counts->accepted, 1);
	fmove_disconnect(c);
	CU_ASSERT_EQUAL(fmove_version(c, version, sizeof(version), NULL), 0);
	await(&counts->accepted, 2);
	down(c);
}

/* Goal: who connects when it starts, and asks much later, does not notice that the daemon was
 * started again meanwhile. */
static void test_the_daemon_was_started_again(void)
{
	struct fmove *c = up(8, 0);
	char version[16];
	int listener;

	(void)kill(daemon_pid, SIGKILL);
	(void)waitpid(daemon_pid, NULL, 0);
	listener = listen_here();
	daemon_pid = fork();
	if (daemon_pid == 0)
		serve(listener, 8, 0);
	(void)close(listener);
	CU_ASSERT_EQUAL(fmove_version(c, version, sizeof(version), NULL), 0);
	down(c);
}

/* ---- the line ---- */

/* A call that the daemon does not answer, and one that waits for its end. */
static void two_calls(struct fmove *c, struct call two[2])
{
	counts->is_silent = true;
	call_start(&two[0], c);
	await(&counts->asked, 1);
	call_start(&two[1], c);
	await(&counts->refused, 1);
}

static void test_the_line_can_be_left(void)
{
	struct fmove *c = up(1, 0);
	int cancel = eventfd(0, EFD_CLOEXEC);
	struct call two[2];

	fmove_set_cancel(c, cancel);
	two_calls(c, two);
	CU_ASSERT_EQUAL(two[1].ret, 1);
	(void)!write(cancel, &(uint64_t){1}, sizeof(uint64_t));
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(pthread_join(two[i].thread, NULL), 0);
		CU_ASSERT_EQUAL(two[i].ret, -ECANCELED);
	}
	(void)close(cancel);
	down(c);
}

static void test_the_line_takes_no_longer_than_the_timeout(void)
{
	static const struct fmove_name name = {"n2", "s", "f"};
	struct fmove *c = up(1, 0);
	int cancel = eventfd(0, EFD_CLOEXEC);
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	struct fmove_error err;
	struct call first;

	counts->is_silent = true;
	fmove_set_cancel(c, cancel);
	call_start(&first, c);
	await(&counts->asked, 1);
	fmove_set_timeout(c, 50);
	CU_ASSERT_EQUAL(fmove_stat(c, &name, &entry, &err), -ETIMEDOUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "all are taken"));
	(void)!write(cancel, &(uint64_t){1}, sizeof(uint64_t));
	CU_ASSERT_EQUAL(pthread_join(first.thread, NULL), 0);
	(void)close(cancel);
	down(c);
}

static int ask_as_op(struct fmove *c, void *ctx, struct fmove_error *err)
{
	char version[16];

	(void)ctx;
	return fmove_version(c, version, sizeof(version), err);
}

static void *look(void *arg)
{
	static const struct fmove_name name = {"n2", "s", "f"};
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	struct call *call = arg;

	call->ret = fmove_stat(call->c, &name, &entry, &call->err);
	return NULL;
}

/* Goal: who has waited for a place of the handle has less time left for the request. */
static void test_the_line_takes_of_the_timeout(void)
{
	struct fmove *c = up(FMOVE_CALLS_MAX + 8, 0);
	struct fmove_op *ops[FMOVE_CALLS_MAX];
	struct call call = {.c = c};

	fmove_set_timeout(c, 60000);
	counts->is_silent = true;
	for (unsigned i = 0; i < FMOVE_CALLS_MAX; i++)
		CU_ASSERT_EQUAL_FATAL(fmove_op_start(c, ask_as_op, NULL, &ops[i], NULL), 0);
	await(&counts->asked, FMOVE_CALLS_MAX);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&call.thread, NULL, look, &call), 0);
	(void)usleep(500000);	/* in which it comes into the line */
	counts->is_silent = false;
	fmove_op_cancel(ops[0]);
	CU_ASSERT_EQUAL(pthread_join(call.thread, NULL), 0);
	CU_ASSERT_EQUAL(call.ret, 0);
	CU_ASSERT_TRUE(counts->timeout_ms > 0 && counts->timeout_ms < 60000);
	for (unsigned i = 0; i < FMOVE_CALLS_MAX; i++)
		fmove_op_free(ops[i]);
	down(c);
}

/* Nobody of ours will end: whoever waited for that hears of it, and the daemon's words. */
static void test_other_programs_have_all(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct fmove *c = up(1, 0);
	struct call calls[10];
	int other;

	fmove_disconnect(c);
	for (unsigned ms = 0; counts->open > 0 && ms < FM_TEST_HANG_S * 1000; ms++)
		(void)usleep(1000);
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	other = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CU_ASSERT_EQUAL_FATAL(connect(other, (struct sockaddr *)&at, sizeof(at)), 0);
	await(&counts->open, 1);
	for (unsigned i = 0; i < 10; i++)
		call_start(&calls[i], c);
	for (unsigned i = 0; i < 10; i++) {
		CU_ASSERT_EQUAL(pthread_join(calls[i].thread, NULL), 0);
		CU_ASSERT_EQUAL(calls[i].ret, -EBUSY);
		CU_ASSERT_TRUE(calls[i].err.is_full);
	}
	(void)close(other);
	down(c);
}

/* ---- fork ---- */

static unsigned sockets(void)
{
	char link[64];
	struct stat st;
	unsigned n = 0;

	for (unsigned fd = 3; fd < 1024; fd++) {
		(void)snprintf(link, sizeof(link), "/proc/self/fd/%u", fd);
		n += stat(link, &st) == 0 && S_ISSOCK(st.st_mode);
	}
	return n;
}

/* In the child: what is wrong. */
static int child(struct fmove *c)
{
	char version[16];

	if (sockets() > 0)
		return 1;	/* the daemon would think that the parent lives */
	counts->is_silent = false;
	if (fmove_version(c, version, sizeof(version), NULL) < 0)
		return 2;
	fmove_close(c);
	return sockets() > 0 ? 3 : 0;
}

static void test_a_child_goes_on(void)
{
	struct fmove *c = up(8, 0);
	char version[16];
	struct call call;
	int status;
	pid_t pid;

	CU_ASSERT_EQUAL(fmove_version(c, version, sizeof(version), NULL), 0);
	await(&counts->asked, 1);
	counts->is_silent = true;
	call_start(&call, c);
	await(&counts->asked, 2);
	pid = fork();
	if (pid == 0)
		_exit(child(c));
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
	/* what was under way still is, and goes on when the daemon ends */
	CU_ASSERT_EQUAL(call.ret, 1);
	(void)kill(daemon_pid, SIGKILL);
	CU_ASSERT_EQUAL(pthread_join(call.thread, NULL), 0);
	CU_ASSERT_EQUAL(call.ret, -ECONNRESET);
	down(c);
}

static void test_forks_beside_threads(void)
{
	struct fmove *c = up(2, 100);
	struct call calls[50];
	int status;

	for (unsigned i = 0; i < 50; i++)
		call_start(&calls[i], c);
	for (unsigned i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(sockets() > 0);
		CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
		CU_ASSERT_EQUAL(status, 0);
	}
	for (unsigned i = 0; i < 50; i++) {
		CU_ASSERT_EQUAL(pthread_join(calls[i].thread, NULL), 0);
		CU_ASSERT_EQUAL(calls[i].ret, 0);
	}
	down(c);
}

static bool forks_to_connect;
static int status_at_connect = -1;	/* of the child then: whether it had a socket */

/* Instead of the library's. */
int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t len)
{
	pid_t pid = forks_to_connect ? fork() : -1;

	if (pid == 0)
		_exit(sockets() > 0);
	if (pid > 0)
		(void)waitpid(pid, &status_at_connect, 0);
	return (int)syscall(SYS_connect, fd, address.__sockaddr__, len);
}

/* Goal: nor does a child have a socket that another thread just connects. */
static void test_a_fork_to_connect(void)
{
	struct fmove *c;

	forks_to_connect = true;
	c = up(8, 0);
	forks_to_connect = false;
	CU_ASSERT_EQUAL(status_at_connect, 0);
	down(c);
}

static struct fmove_buffer *buffer;

static int put_buffer(struct fmove *c, struct fmove_error *err)
{
	static const struct fmove_name name = {"n2", "s", "f"};
	const struct fmove_part part = {buffer, 0, 1};
	struct fmove_result result = {.struct_size = sizeof(result)};

	return fmove_put_buffer(c, &part, &name, NULL, &result, err);
}

static void *put_it(void *arg)
{
	struct call *call = arg;

	call->ret = put_buffer(call->c, &call->err);
	return NULL;
}

/* Goal: a child may use a buffer that its parent just shows to a daemon that did not know it. */
static void test_a_buffer_in_a_child(void)
{
	struct fmove *c = up(8, 0);
	struct call call = {.c = c};
	int status;
	pid_t pid;

	CU_ASSERT_EQUAL_FATAL(fmove_buffer_alloc(c, 4096, &buffer, NULL), 0);
	counts->forgets = true;
	CU_ASSERT_EQUAL_FATAL(pthread_create(&call.thread, NULL, put_it, &call), 0);
	await(&counts->asked, 3);	/* the put, and the buffer once more */
	pid = fork();
	if (pid == 0) {
		(void)alarm(FM_TEST_HANG_S);
		counts->forgets = false;
		_exit(put_buffer(c, NULL) != 0);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_EQUAL(status, 0);
	(void)kill(daemon_pid, SIGKILL);
	CU_ASSERT_EQUAL(pthread_join(call.thread, NULL), 0);
	CU_ASSERT_EQUAL(call.ret, -ECONNRESET);
	fmove_buffer_free(buffer);
	down(c);
}

/* ---- signals ---- */

static atomic_uint alarms;
static unsigned jumps_at;		/* that alarm is nine seconds later than the one before */

/* Instead of the library's. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
	int ret = (int)syscall(SYS_clock_gettime, clock, out);

	out->tv_sec += jumps_at > 0 && alarms >= jumps_at ? 9 : 0;
	return ret;
}

static void on_alarm(int signal)
{
	(void)signal;
	alarms++;
}

static void storm(suseconds_t us)
{
	const struct itimerval every = {{0, us}, {0, us}};
	struct sigaction action = {.sa_handler = on_alarm};	/* calls are interrupted */

	alarms = 0;
	CU_ASSERT_EQUAL(sigaction(SIGALRM, &action, NULL), 0);
	CU_ASSERT_EQUAL(setitimer(ITIMER_REAL, &every, NULL), 0);
}

static void test_a_storm_of_signals(void)
{
	struct fmove *c = up(2, 200);
	char version[16];

	storm(300);
	for (unsigned i = 0; i < 500; i++)
		CU_ASSERT_EQUAL(fmove_version(c, version, sizeof(version), NULL), 0);
	CU_ASSERT_TRUE(alarms > 10);
	storm(0);
	down(c);
}

/* Who cancels a transfer waits eight seconds for the daemon's word, and signals begin none of them
 * again. */
static void test_signals_do_not_make_it_longer(void)
{
	static const struct fmove_name name = {"n2", "s", "f"};
	struct fmove_options opts = {
		.struct_size = sizeof(opts), .cancel_fd = eventfd(1, EFD_CLOEXEC)};
	struct fmove *c = up(2, 0);
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error err;

	counts->is_silent = true;
	jumps_at = 100;
	storm(300);
	CU_ASSERT_EQUAL(fmove_put(c, opts.cancel_fd, &name, &opts, &result, &err), -ECANCELED);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "did not confirm"));
	storm(0);
	jumps_at = 0;
	(void)close(opts.cancel_fd);
	down(c);
}

static const struct fm_test tests[] = {
	{"a thousand threads where the daemon allows few connections", test_the_daemon_allows_few},
	{"... and where it allows more than a handle has",
	 test_the_daemon_allows_more_than_a_handle_has},
	{"a connection serves one call after the other", test_connections_are_used_again},
	{"a daemon that was started again before the first call",
	 test_the_daemon_was_started_again},
	{"who waits in the line can be cancelled", test_the_line_can_be_left},
	{"who waits in the line does so no longer than its timeout",
	 test_the_line_takes_no_longer_than_the_timeout},
	{"and what it takes is gone of that", test_the_line_takes_of_the_timeout},
	{"where others have all connections it is said", test_other_programs_have_all},
	{"a child has connections of its own", test_a_child_goes_on},
	{"children beside many calls", test_forks_beside_threads},
	{"a child of who just connects", test_a_fork_to_connect},
	{"a buffer can be used in a child", test_a_buffer_in_a_child},
	{"a storm of signals", test_a_storm_of_signals},
	{"signals make no time longer", test_signals_do_not_make_it_longer},
};
FM_TEST_MAIN("threads", tests)
