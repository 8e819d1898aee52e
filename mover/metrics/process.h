/* SPDX-License-Identifier: MIT */
/*
 * process - the metrics that every program has of itself, under the names that Prometheus' own
 * client libraries give them.
 */
#ifndef FM_METRICS_PROCESS_H
#define FM_METRICS_PROCESS_H

#include "mover/metrics/metrics.h"

/* Rows of a table, in this order. */
enum fm_metrics_process {
	FM_PROCESS_CPU,
	FM_PROCESS_START,
	FM_PROCESS_RESIDENT,
	FM_PROCESS_VIRTUAL,
	FM_PROCESS_FDS,
	FM_PROCESS_FDS_MAX,
	FM_PROCESS_COUNT,
};

/* clang-format off */
#define FM_METRICS_PROCESS_ROWS \
	{ "process_cpu_seconds", FM_METRIC_COUNTER, \
	  "Processor time of this process, in user space and in the kernel." }, \
	{ "process_start_time_seconds", FM_METRIC_GAUGE, \
	  "When it was started, as Unix time." }, \
	{ "process_resident_memory_bytes", FM_METRIC_GAUGE, \
	  "Memory that it has in RAM, what it shares included." }, \
	{ "process_virtual_memory_bytes", FM_METRIC_GAUGE, \
	  "Addresses that it has mapped." }, \
	{ "process_open_fds", FM_METRIC_GAUGE, \
	  "Descriptors that it has open." }, \
	{ "process_max_fds", FM_METRIC_GAUGE, \
	  "Descriptors that it may have open." }
/* clang-format on */

/* Their values; first: where these rows begin in the table. What cannot be read is left out. Reads
 * /proc. */
void fm_metrics_add_process(struct fm_metrics *m, unsigned first);

#endif
