/* SPDX-License-Identifier: MIT */
/*
 * metrics - what fmoved tells Prometheus, fmove-metrics(7). Every number is one that its owner
 * keeps anyway, and is read on the control loop.
 */
#ifndef FM_DAEMON_METRICS_H
#define FM_DAEMON_METRICS_H

struct fm_config;
struct fm_engine;
struct fm_err;
struct fm_exporter;
struct fm_loop;
struct fm_queue;
struct fm_worker;

/* Where the numbers are. */
struct fm_measured {
	struct fm_loop *loop;
	struct fm_engine *engine;
	struct fm_queue *queue;
	struct fm_worker *worker;
	struct fm_config *const *cfg;	/* that is in force */
};

/* Serves them at listen, as metrics.listen says it. *of outlives the exporter. */
int fm_measured_serve(const struct fm_measured *of, const char *listen,
		      struct fm_exporter **out, struct fm_err *err);

#endif
