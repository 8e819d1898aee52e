/* SPDX-License-Identifier: MIT */
/* loop_exporter - see loop_exporter.h. */
#include "mover/metrics/loop_exporter.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/list.h"
#include "mover/base/loop.h"
#include "mover/metrics/http.h"
#include "mover/metrics/page.h"

struct fm_loop_exporter {
	struct fm_exporter_opts o;
	struct fm_http *http;
	struct fm_metrics *metrics;
	struct fm_watch watch;
	struct fm_timer timer;
};

static int make_page(void *ctx, const char *accept, char **body, size_t *len, const char **type)
{
	struct fm_loop_exporter *e = ctx;

	fm_metrics_clear(e->metrics);
	e->o.collect(e->o.ctx, e->metrics);
	return fm_page_make(e->metrics, e->o.process, accept, body, len, type);
}

static void run(struct fm_loop_exporter *e)
{
	int ms = fm_http_run(e->http);

	fm_timer_clear(e->o.loop, &e->timer);
	if (ms >= 0)
		fm_timer_set(e->o.loop, &e->timer,
			     fm_loop_now(e->o.loop) + (uint64_t)ms * FM_NS_PER_MS);
}

static void can_be_read(struct fm_watch *watch, uint32_t events)
{
	(void)events;
	run(fm_container_of(watch, struct fm_loop_exporter, watch));
}

static void time_is_over(struct fm_timer *timer)
{
	run(fm_container_of(timer, struct fm_loop_exporter, timer));
}

static int start(struct fm_loop_exporter *e, struct fm_err *err)
{
	const struct fm_http_page page = {make_page, e};
	int ret;

	e->metrics = fm_metrics_new(e->o.table, e->o.count);
	if (!e->metrics)
		return fm_err_set(err, -ENOMEM, "no memory for metrics");
	ret = fm_http_new(&e->o.at, &page, &e->http, err);
	if (ret < 0)
		return ret;
	e->watch = (struct fm_watch){
		.ready = can_be_read, .fd = fm_http_fd(e->http), .events = EPOLLIN};
	return fm_watch_add(e->o.loop, &e->watch, err);
}

int fm_loop_exporter_new(const struct fm_exporter_opts *opts, struct fm_loop_exporter **out,
			 struct fm_err *err)
{
	struct fm_loop_exporter *e = FM_FAULT("metrics.exporter") ? NULL : calloc(1, sizeof(*e));
	int ret;

	if (!e)
		return fm_err_set(err, -ENOMEM, "no memory for metrics");
	e->o = *opts;
	e->timer.fire = time_is_over;
	ret = start(e, err);
	if (ret < 0) {
		fm_loop_exporter_free(e);
		return ret;
	}
	*out = e;
	return 0;
}

void fm_loop_exporter_free(struct fm_loop_exporter *e)
{
	if (!e)
		return;
	fm_timer_clear(e->o.loop, &e->timer);
	if (e->watch.is_added)
		fm_watch_del(e->o.loop, &e->watch);
	fm_http_free(e->http);
	fm_metrics_free(e->metrics);
	free(e);
}
