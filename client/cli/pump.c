/* SPDX-License-Identifier: MIT */
/*
 * pump - see pump.h. A pump is never freed: its thread may wait for a terminal until the process
 * ends, and there are one or two.
 */
#include "client/cli/pump.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/cli/interrupt.h"
#include "mover/base/err.h"

#define STEP (1u << 20)
#define PIPE_BYTES (1 << 20)

struct fm_pump {
	pthread_t thread;
	int from;
	int to;
	bool is_input;		/* from the outside into our pipe: */
	int failed_fd;		/* an eventfd: reading failed; else -1 */
	int cancel_fd;		/* an epoll of that and of signals; else -1 */
	atomic_int code;
	struct fm_pump *next;
	char buf[STEP];
};

static struct fm_pump *pumps;

static ssize_t pump_read(struct fm_pump *p)
{
	ssize_t n;

	do {
		n = read(p->from, p->buf, sizeof(p->buf));
	} while (n < 0 && errno == EINTR);
	return n;
}

static int pump_write(struct fm_pump *p, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = write(p->to, p->buf + at, len - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += (size_t)n;
	}
	return 0;
}

/*
 * Moves one piece. 0: the input has ended; 1: there is more; negative: an error of the side that is
 * not our pipe.
 */
static int pump_step(struct fm_pump *p)
{
	ssize_t n = pump_read(p);
	int ret;

	if (n < 0)
		return -errno;
	if (n == 0)
		return 0;
	ret = pump_write(p, (size_t)n);
	if (ret == -EPIPE && p->is_input)	/* the daemon gave up, and says why by itself */
		return 0;
	return ret < 0 ? ret : 1;
}

static void *pump_run(void *arg)
{
	struct fm_pump *p = arg;
	int ret;

	do {
		ret = pump_step(p);
	} while (ret > 0);
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);	/* cannot fail with this */
	atomic_store(&p->code, ret);
	if (p->is_input && ret < 0)
		/* and the pipe stays open: an end here would look like the end of the data */
		(void)eventfd_write(p->failed_fd, 1);	/* it counts up to more than that */
	else
		(void)close(p->is_input ? p->to : p->from);
	return NULL;
}

static int watch(int epoll, int fd)
{
	struct epoll_event readable = {.events = EPOLLIN};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &readable);
}

static void cancel_end(const struct fm_pump *p)
{
	if (p->failed_fd >= 0)
		(void)close(p->failed_fd);	/* nothing is kept in it, nor in the next */
	if (p->cancel_fd >= 0)
		(void)close(p->cancel_fd);
}

/*
 * What it has of its own is not the pipe of signals: what comes behind a device that cannot be read
 * is sent all the same.
 */
static int cancel_begin(struct fm_pump *p, struct fm_err *err)
{
	p->failed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	p->cancel_fd = epoll_create1(EPOLL_CLOEXEC);
	if (p->failed_fd >= 0 && p->cancel_fd >= 0 && watch(p->cancel_fd, p->failed_fd) == 0 &&
	    watch(p->cancel_fd, fm_interrupt_fd()) == 0)
		return 0;
	(void)fm_err_sys(err, -errno, "make an event");
	cancel_end(p);
	return err->code;
}

static int pump_new(int from, int to, bool is_input, struct fm_pump **out, struct fm_err *err)
{
	sigset_t all, before;
	struct fm_pump *p;
	int ret;

	p = malloc(sizeof(*p));
	if (!p)
		return fm_err_set(err, -ENOMEM, "no memory for a pipe");
	p->from = from;
	p->to = to;
	p->is_input = is_input;
	p->failed_fd = p->cancel_fd = -1;
	if (is_input && cancel_begin(p, err) < 0) {
		free(p);
		return err->code;
	}
	atomic_init(&p->code, 0);
	(void)sigfillset(&all);
	/* signals are for the main thread, which they wake */
	(void)pthread_sigmask(SIG_BLOCK, &all, &before);
	ret = pthread_create(&p->thread, NULL, pump_run, p);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret != 0) {
		cancel_end(p);
		free(p);
		return fm_err_sys(err, -ret, "start a thread");
	}
	p->next = pumps;
	pumps = p;
	*out = p;
	return 0;
}

static int pipe_open(int fds[2], struct fm_err *err)
{
	if (pipe2(fds, O_CLOEXEC) < 0)
		return fm_err_sys(err, -errno, "make a pipe");
	/* a larger one is faster, the usual one will do */
	(void)fcntl(fds[0], F_SETPIPE_SZ, PIPE_BYTES);
	return 0;
}

static void pipe_close(const int fds[2])
{
	(void)close(fds[0]);	/* nothing was written */
	(void)close(fds[1]);
}

int fm_pump_from(int fd, struct fm_pump **out_pump, int *out, struct fm_err *err)
{
	int fds[2];
	int ret;

	ret = pipe_open(fds, err);
	if (ret < 0)
		return ret;
	ret = pump_new(fd, fds[1], true, out_pump, err);
	if (ret < 0)
		pipe_close(fds);
	else
		*out = fds[0];
	return ret;
}

int fm_pump_to(int fd, struct fm_pump **out_pump, int *out, struct fm_err *err)
{
	int fds[2];
	int ret;

	ret = pipe_open(fds, err);
	if (ret < 0)
		return ret;
	ret = pump_new(fds[0], fd, false, out_pump, err);
	if (ret < 0)
		pipe_close(fds);
	else
		*out = fds[1];
	return ret;
}

int fm_pump_cancel_fd(const struct fm_pump *pump)
{
	return pump->cancel_fd;
}

int fm_pump_error(struct fm_pump *pump)
{
	return atomic_load(&pump->code);
}

int fm_pump_finish(struct fm_pump *pump)
{
	(void)pthread_join(pump->thread, NULL);	/* it is joinable, and nobody else joins it */
	return atomic_load(&pump->code);
}

/* The thread has no lock, and can be cancelled in read() and write() only. */
void fm_pump_stop(struct fm_pump *pump)
{
	void *end;

	(void)pthread_cancel(pump->thread);		/* it may have ended already */
	(void)pthread_join(pump->thread, &end);		/* nobody else joins it */
	if (end == PTHREAD_CANCELED)
		(void)close(pump->from);
}
