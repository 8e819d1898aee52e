/* SPDX-License-Identifier: MIT */
/*
 * exporter - a daemon's metrics, where Prometheus reads them.
 *
 * Numbers are the control loop's, requests come in a thread of their own: for each the loop fills a
 * snapshot, in a later pass, and the thread writes the page. The loop waits for nobody. The thread
 * waits for the loop, and answers that there is nothing now (503) if that takes too long.
 */
#ifndef FM_METRICS_EXPORTER_H
#define FM_METRICS_EXPORTER_H

#include <stdint.h>

#include "mover/metrics/listen.h"
#include "mover/metrics/metrics.h"

struct fm_err;
struct fm_exporter;
struct fm_loop;

struct fm_exporter_opts {
	struct fm_loop *loop;
	struct fm_metrics_at at;	/* its texts are needed by the call alone */
	/* What there is: outlives it. */
	const struct fm_metric *table;
	unsigned count;
	unsigned process;		/* where FM_METRICS_PROCESS_ROWS begin in the table */
	/* Fill in all but these. On the loop; must not wait. */
	void (*collect)(void *ctx, struct fm_metrics *m);
	void *ctx;
};

/* Errors of listen.h and http.h. */
int fm_exporter_new(const struct fm_exporter_opts *opts, struct fm_exporter **out,
		    struct fm_err *err);

/* On the loop's thread: nothing is served any more. NULL is allowed, as below. */
void fm_exporter_stop(struct fm_exporter *e);

/* Stopped, and the loop has run what was posted. */
void fm_exporter_free(struct fm_exporter *e);

#endif
