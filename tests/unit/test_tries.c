/* SPDX-License-Identifier: MIT */
/* test_tries - what the client tries again, and what it does not. links: fm_cli */
#include "client/lib/tries.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "tests/fm_test.h"

static struct fmove *c;
static int cancel[2];		/* readable: a pause ends at once */

static void begin(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char dir[] = "/tmp/fm-tries.XXXXXX";
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/sock", dir);
	CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	CU_ASSERT_EQUAL_FATAL(listen(fd, 1), 0);
	CU_ASSERT_EQUAL_FATAL(fmove_connect(at.sun_path, &c, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(pipe(cancel), 0);
	CU_ASSERT_EQUAL(write(cancel[1], "", 1), 1);
	close(fd);
	unlink(at.sun_path);
	rmdir(dir);
}

static void end(void)
{
	fmove_close(c);
	close(cancel[0]);
	close(cancel[1]);
}

/* What it says of a try that failed so; -ECANCELED: it began to wait for the next one. */
static int after(const struct fmove_options *opts, int code)
{
	struct fmove_error err = { .code = code, .text = "it failed" };
	struct fm_tries tries;
	struct fmove_options o = *opts;

	o.cancel_fd = cancel[0];
	fm_tries_begin(&tries, &o);
	CU_ASSERT_FALSE(fm_tries_again(&tries, c, &err));
	return err.code;
}

/* Goal: a time that is more than can be counted is no short one. */
static void test_long_times(void)
{
	/* In nanoseconds the last but one is 0, if what does not fit is forgotten. */
	static const uint64_t ms[] = {1000, UINT64_MAX / FM_NS_PER_MS + 1, UINT64_C(1) << 58,
				      UINT64_MAX};

	begin();
	for (unsigned i = 0; i < 4; i++) {
		const struct fmove_options long_retry = { .retry_ms = ms[i] };
		const struct fmove_options long_timeout = { .retry_ms = 1000, .timeout_ms = ms[i] };

		CU_ASSERT_EQUAL(after(&long_retry, -ECONNRESET), -ECANCELED);
		CU_ASSERT_EQUAL(after(&long_timeout, -ECONNRESET), -ECANCELED);
	}
	end();
}

static void test_not_again(void)
{
	static const struct fmove_options once[] = {
		{ .retry_ms = 0 },
		{ .retry_ms = 1000, .is_attended = true },
		{ .retry_ms = 1000, .hold_fd = 1 },
	};

	begin();
	for (unsigned i = 0; i < 3; i++)
		CU_ASSERT_EQUAL(after(&once[i], -ECONNRESET), -ECONNRESET);
	CU_ASSERT_EQUAL(after(&(struct fmove_options){ .retry_ms = 1000 }, -EEXIST), -EEXIST);
	end();
}

static pid_t child = -1;

static void fork_once(void *ctx, const struct fmove_progress *p)
{
	(void)ctx;
	(void)p;
	if (child < 0)
		child = fork();
}

/* Goal: what the parent tries again the child does not, also if it was forked while that waits. */
static void test_a_child_tries_nothing(void)
{
	struct fmove_error err = { .code = -ECONNRESET, .text = "it failed" };
	const struct fmove_options opts = {
		.retry_ms = 60000, .progress_ms = 10, .progress = fork_once};
	struct fm_tries tries;
	bool is_again;
	int status;

	begin();
	fm_tries_begin(&tries, &opts);
	is_again = fm_tries_again(&tries, c, &err);
	if (child == 0)
		_exit(is_again || err.code != -ECONNRESET);
	CU_ASSERT_TRUE(is_again);
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
	end();
}

static const struct fm_test tests[] = {
	{ "times that are more than can be counted", test_long_times },
	{ "what is not tried again", test_not_again },
	{ "a child tries nothing of its parent's", test_a_child_tries_nothing },
};
FM_TEST_MAIN("tries", tests)
