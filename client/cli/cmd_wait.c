/* SPDX-License-Identifier: MIT */
/*
 * cmd_wait - fmove wait JOB...: until each has ended, shown as its put or get would have been, with
 * the same exit status.
 *
 * Ctrl-C ends the waiting, and so does the end of --timeout; the jobs go on.
 */
#include "client/cli/transfer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "client/cli/interrupt.h"
#include "mover/base/err.h"

enum { OPT_QUIET = 1, OPT_JSON, OPT_TIMEOUT };

const struct fm_opt fm_opts_wait[] = {
	{"quiet", 'q', OPT_QUIET, NULL, "no progress and no line at the end; errors are still said",
	 NULL},
	{"timeout", 0, OPT_TIMEOUT, "TIME",
	 "wait for all of them no longer than this, for example 30s or 5min", NULL},
	{"json", 0, OPT_JSON, NULL, "the result as one JSON object on standard output", NULL},
	{NULL, 0, 0, NULL, NULL, NULL},
};

#define LATE_MS 2000	/* for fmoved to say what has ended, though the time is up */

#define END_MAX (FMOVE_PATH_MAX + 2 * FMOVE_NAME_MAX + 4)

/* Names source and target as put or get would have done. */
static void name_ends(const struct fmove_job *j, char near[static END_MAX],
		      char far[static END_MAX])
{
	(void)snprintf(far, END_MAX, "%s:%s/%s", j->node, j->store, j->path);		/* fits */
	if (j->local_store[0])
		(void)snprintf(near, END_MAX, "%s:%s/%s", j->local_node, j->local_store,
			       j->local_path);
	else
		(void)snprintf(near, END_MAX, "%s", j->local_path[0] ? j->local_path : "-");
}

/* ---- the end of the waiting ---- */

/* What ends it: readable after a signal, or when the time is up; or the daemon's end. */
struct limit {
	int timer;
	int either;
	bool is_late;			/* the time was up, whatever the timer is set to since */
	struct fmove_error gone;	/* code: of fmoved, which is gone, or does not answer */
};

static int watch(int epoll, int fd)
{
	struct epoll_event readable = {.events = EPOLLIN};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &readable);
}

static int timer_set(const struct limit *l, uint64_t ms)
{
	const struct itimerspec at = {.it_value = {.tv_sec = (time_t)(ms / 1000),
						   .tv_nsec = (long)(ms % 1000) * 1000000}};

	return timerfd_settime(l->timer, 0, &at, NULL);
}

static int limit_begin(struct limit *l, uint64_t ms, struct fm_err *err)
{
	l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	l->either = epoll_create1(EPOLL_CLOEXEC);
	if (l->timer < 0 || l->either < 0 || timer_set(l, ms) < 0 ||
	    watch(l->either, l->timer) < 0 || watch(l->either, fm_interrupt_fd()) < 0)
		return fm_err_set(err, -errno, "--timeout: a timer");
	return 0;
}

static void limit_end(struct limit *l)
{
	if (l->timer >= 0)
		(void)close(l->timer);	/* only waited for, as the next */
	if (l->either >= 0)
		(void)close(l->either);
}

static bool is_time_up(struct limit *l)
{
	struct pollfd timer = {.fd = l->timer, .events = POLLIN};

	l->is_late |= l->timer >= 0 && poll(&timer, 1, 0) > 0;
	return l->is_late;
}

/* Rounded up; 0: the time is up, or none was given. */
static uint64_t ms_left(const struct limit *l)
{
	struct itimerspec at = {.it_value = {.tv_sec = 0}};

	if (l->timer >= 0)
		(void)timerfd_gettime(l->timer, &at);
	return (uint64_t)at.it_value.tv_sec * 1000 +
	       ((uint64_t)at.it_value.tv_nsec + 999999) / 1000000;
}

/* ---- */

/*
 * Each job has its outcome, though the waiting ended with one before it: to be found has LATE_MS of
 * its own where less is left. A look that is cut off ends the connection.
 */
static int find(struct fm_transfer *t, struct limit *limit, const char *id, struct fmove_job *job,
		struct fmove_error *why)
{
	bool is_late = is_time_up(limit);
	uint64_t left = ms_left(limit);
	bool is_short = limit->timer >= 0 && left < LATE_MS;
	int ret;

	if (fm_is_interrupted())
		return -ECANCELED;
	*why = limit->gone;
	if (why->code)
		return why->code;
	if (is_short)
		(void)timer_set(limit, LATE_MS);	/* it could be set before, as the next */
	ret = fmove_find_job(t->conn, id, job, why);
	if (ret == -ECANCELED && is_time_up(limit))
		limit->gone = *why;
	if (is_short)
		(void)timer_set(limit, is_late || left == 0 ? 1 : left);
	return ret;
}

static void wait_one(struct fm_transfer *t, struct limit *limit, const char *id)
{
	char near[END_MAX] = "", far[END_MAX] = "";
	struct fm_outcome one = { .source = id, .target = "" };
	struct fmove_error why;
	struct fmove_job job = {.struct_size = sizeof(job)};
	int ret = find(t, limit, id, &job, &why);

	/* an id has less */
	(void)snprintf(one.job, sizeof(one.job), "%.*s", (int)sizeof(one.job) - 1, id);
	if (ret == 0) {
		name_ends(&job, near, far);
		one.source = job.is_put ? near : far;
		one.target = job.is_put ? far : near;
		fm_transfer_begin(t, one.source);
		one.result.struct_size = sizeof(one.result);
		ret = fmove_wait(t->conn, id, &t->opts, &one.result, &why);
		fm_transfer_end(t);
	}
	if (ret < 0 && fm_is_interrupted())
		(void)fm_err_set(&one.err, -ECANCELED,
				 "%s: no longer waited for; the job itself was not cancelled "
				 "(fmove cancel does that)",
				 id);
	else if (ret == -ECANCELED && job.state != FMOVE_JOB_CANCELLED && is_time_up(limit))
		t->outcomes.is_late = fm_err_set(&one.err, -ETIMEDOUT,
						 "%s: no longer waited for, the time of --timeout "
						 "is up; the job itself goes on", id) < 0;
	else if (ret < 0)
		(void)fm_err_set(&one.err, why.code, "%s: %s", id, why.text);
	if (ret == -ECONNRESET && !fm_is_interrupted())
		limit->gone = why;
	fm_outcomes_add(&t->outcomes, &one);
}

int fm_cmd_wait(int argc, char **argv)
{
	struct limit limit = {.timer = -1, .either = -1, .gone = {.code = 0}};
	struct fm_transfer t;
	struct fm_args args;
	struct fm_err err;
	uint64_t ms = 0;
	int key;

	fm_transfer_init(&t, "wait");
	fm_args_begin(&args, "wait", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		t.outcomes.is_quiet |= key == OPT_QUIET;
		t.outcomes.is_json |= key == OPT_JSON;
		if (key == OPT_TIMEOUT && fm_transfer_take_time(&args, &ms) != 0)
			return FM_EXIT_USAGE;
	}
	if (fm_args_end(&args, 1, -1) < 0)
		return args.status;
	t.outcomes.is_many = args.count > 1;
	if (fm_transfer_open(&t, &err) < 0)
		return fm_fail("wait", &err);
	if (ms > 0 && limit_begin(&limit, ms, &err) < 0)
		return fm_fail("wait", &err);
	if (ms > 0) {
		t.opts.cancel_fd = limit.either;
		fmove_set_cancel(t.conn, limit.either);
	}
	fm_outcomes_begin(&t.outcomes);
	for (int i = 0; i < args.count; i++)
		wait_one(&t, &limit, args.operands[i]);
	fm_transfer_close(&t);
	limit_end(&limit);
	return fm_outcomes_end(&t.outcomes);
}
