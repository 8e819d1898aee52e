/* SPDX-License-Identifier: MIT */
/* given_up - see given_up.h. */
#include "mover/facts/given_up.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mover/base/env.h"

static bool write_all(int fd, const char *at, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno != EINTR)
			return false;
		at += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* What comes through the pipe is the result, and behind it the answer. */
static _Noreturn void be_asking(int (*ask)(void *ctx, char *out, size_t cap), void *ctx, char *out,
				size_t cap, int fd)
{
	int result;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* if it can be ended at all */
	result = ask(ctx, out, cap);
	if (write_all(fd, (const char *)&result, sizeof(result)) && result > 0)
		(void)write_all(fd, out, (size_t)result); /* who reads sees that it is short */
	_exit(0);
}

static int ms_left(uint64_t end_ns)
{
	uint64_t now_ns = fm_clock_real.now_ns(fm_clock_real.ctx);

	return now_ns >= end_ns ? 0 : (int)((end_ns - now_ns) / FM_NS_PER_MS) + 1;
}

/* Just len bytes. -EIO: its end came before; -ETIMEDOUT. */
static int read_until(int fd, char *out, size_t len, uint64_t end_ns)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n;
	int ready;

	while (len > 0) {
		ready = poll(&p, 1, ms_left(end_ns));
		if (ready == 0)
			return -ETIMEDOUT;
		n = ready < 0 ? -1 : read(fd, out, len);
		if (n == 0)
			return -EIO;
		if (n < 0 && errno != EINTR)
			return -errno;
		out += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int take_answer(int fd, char *out, size_t cap)
{
	uint64_t end_ns = fm_clock_real.now_ns(fm_clock_real.ctx) + FM_GIVEN_UP_S * FM_NS_PER_S;
	int result, ret = read_until(fd, (char *)&result, sizeof(result), end_ns);

	if (ret < 0 || result <= 0)
		return ret < 0 ? ret : result;
	if ((size_t)result > cap)
		return -EMSGSIZE;
	ret = read_until(fd, out, (size_t)result, end_ns);
	return ret < 0 ? ret : result;
}

int fm_ask_or_give_up(int (*ask)(void *ctx, char *out, size_t cap), void *ctx, char *out,
		      size_t cap)
{
	int ends[2], ret;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		be_asking(ask, ctx, out, cap, ends[1]);
	ret = pid < 0 ? -errno : 0;
	(void)close(ends[1]); /* its end, in its process */
	if (ret == 0)
		ret = take_answer(ends[0], out, cap);
	(void)close(ends[0]);
	if (pid > 0 && ret == -ETIMEDOUT)
		(void)kill(pid, SIGKILL); /* and it is left to whom it will be left to */
	else if (pid > 0)
		(void)waitpid(pid, NULL, 0); /* it has ended, or is about to */
	return ret;
}
