/* SPDX-License-Identifier: MIT */
/*
 * exporter - see exporter.h.
 *
 * There is one snapshot. From the moment that the loop is asked to fill it until it did, it is the
 * loop's, though the thread has given up waiting: who asks next waits for the same.
 */
#include "mover/metrics/exporter.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/list.h"
#include "mover/base/loop.h"
#include "mover/metrics/http.h"
#include "mover/metrics/page.h"

#define WAIT_S 2			/* for the loop; it comes round in milliseconds */

struct fm_exporter {
	struct fm_exporter_opts o;
	struct fm_http *http;		/* the thread's, as long as that runs */
	pthread_t thread;
	int stop_fd;
	struct fm_metrics *metrics;
	struct fm_task fill;
	pthread_mutex_t lock;
	pthread_cond_t changed;		/* of CLOCK_MONOTONIC */
	/* Under the lock. */
	bool is_lent;			/* the loop has the snapshot, or will */
	bool is_stopping;
};

static void fill_run(struct fm_task *task)
{
	struct fm_exporter *e = fm_container_of(task, struct fm_exporter, fill);

	fm_metrics_clear(e->metrics);
	e->o.collect(e->o.ctx, e->metrics);
	pthread_mutex_lock(&e->lock);
	e->is_lent = false;
	pthread_cond_signal(&e->changed);
	pthread_mutex_unlock(&e->lock);
}

/* The server's thread: the snapshot is its own when this has succeeded. */
static int take_snapshot(struct fm_exporter *e)
{
	struct timespec until;
	bool is_there;
	int ret = 0;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += WAIT_S;
	pthread_mutex_lock(&e->lock);
	if (!e->is_lent && !e->is_stopping) {
		e->is_lent = true;
		fm_loop_post(e->o.loop, &e->fill);
	}
	while (e->is_lent && !e->is_stopping && ret == 0)
		ret = pthread_cond_timedwait(&e->changed, &e->lock, &until);
	is_there = !e->is_lent && !e->is_stopping;
	pthread_mutex_unlock(&e->lock);
	return is_there ? 0 : -EAGAIN;
}

static int make_page(void *ctx, const char *accept, char **body, size_t *len, const char **type)
{
	struct fm_exporter *e = ctx;
	int ret = take_snapshot(e);

	return ret < 0 ? ret : fm_page_make(e->metrics, e->o.process, accept, body, len, type);
}

/* ---- the thread ---- */

static void *serve(void *arg)
{
	struct fm_exporter *e = arg;
	struct pollfd fds[] = {{.fd = fm_http_fd(e->http), .events = POLLIN},
			       {.fd = e->stop_fd, .events = POLLIN}};

	while (fds[1].revents == 0)
		(void)poll(fds, 2, fm_http_run(e->http));
	return NULL;
}

static int start_thread(struct fm_exporter *e)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);	/* they are the main thread's */
	ret = FM_FAULT("metrics.thread") ? EAGAIN : pthread_create(&e->thread, NULL, serve, e);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret == 0)
		(void)pthread_setname_np(e->thread, "metrics");	/* for people only */
	return -ret;
}

static int start(struct fm_exporter *e, struct fm_err *err)
{
	const struct fm_http_page page = {make_page, e};
	int ret;

	e->metrics = fm_metrics_new(e->o.table, e->o.count);
	if (!e->metrics)
		return fm_err_set(err, -ENOMEM, "no memory for metrics");
	e->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (e->stop_fd < 0)
		return fm_err_sys(err, -errno, "serve metrics");
	ret = fm_http_new(&e->o.at, &page, &e->http, err);
	if (ret < 0)
		return ret;
	ret = start_thread(e);
	if (ret < 0) {
		fm_http_free(e->http);
		e->http = NULL;
		return fm_err_sys(err, ret, "start a thread for metrics");
	}
	return 0;
}

int fm_exporter_new(const struct fm_exporter_opts *opts, struct fm_exporter **out,
		    struct fm_err *err)
{
	struct fm_exporter *e = FM_FAULT("metrics.exporter") ? NULL : calloc(1, sizeof(*e));
	pthread_condattr_t attr;
	int ret;

	if (!e)
		return fm_err_set(err, -ENOMEM, "no memory for metrics");
	e->o = *opts;
	e->fill.run = fill_run;
	pthread_mutex_init(&e->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&e->changed, &attr);
	pthread_condattr_destroy(&attr);
	e->stop_fd = -1;
	ret = start(e, err);
	if (ret < 0) {
		fm_exporter_free(e);
		return ret;
	}
	*out = e;
	return 0;
}

void fm_exporter_stop(struct fm_exporter *e)
{
	if (!e || !e->http)
		return;
	pthread_mutex_lock(&e->lock);
	e->is_stopping = true;
	pthread_cond_signal(&e->changed);
	pthread_mutex_unlock(&e->lock);
	(void)eventfd_write(e->stop_fd, 1);	/* cannot fail: it was 0 */
	(void)pthread_join(e->thread, NULL);
	fm_http_free(e->http);
	e->http = NULL;
}

void fm_exporter_free(struct fm_exporter *e)
{
	if (!e)
		return;
	pthread_cond_destroy(&e->changed);
	pthread_mutex_destroy(&e->lock);
	if (e->stop_fd >= 0)
		(void)close(e->stop_fd);	/* it holds nothing */
	fm_metrics_free(e->metrics);
	free(e);
}
