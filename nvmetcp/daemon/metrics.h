/* SPDX-License-Identifier: MIT */
/*
 * metrics - what fmove-nvmed tells Prometheus, fmove-metrics(7). Every number is one that its owner
 * keeps anyway.
 */
#ifndef FM_NVMETCP_DAEMON_METRICS_H
#define FM_NVMETCP_DAEMON_METRICS_H

struct fm_err;
struct fm_helpers;
struct fm_loop;
struct fm_loop_exporter;
struct fm_nvmed_api;
struct fm_supervisor;

/* Where the numbers are. */
struct fm_nvmed_measured {
	struct fm_loop *loop;
	const struct fm_nvmed_api *api;
	const struct fm_helpers *helpers;
	const struct fm_supervisor *sup;
};

/* Serves them at listen, as nvme.metrics_listen says it. *of outlives the exporter. Errors of
 * loop_exporter.h. */
int fm_nvmed_metrics_serve(const struct fm_nvmed_measured *of, const char *listen,
			   struct fm_loop_exporter **out, struct fm_err *err);

#endif
