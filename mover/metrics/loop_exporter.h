/* SPDX-License-Identifier: MIT */
/*
 * loop_exporter - a daemon's metrics, as exporter.h has them, for one that has no other thread than
 * its loop's: it forks, and what a thread holds at that moment the child would hold for ever.
 *
 * A request takes the loop's time: as long as it takes to collect the numbers and to write the
 * page. Loop thread only.
 */
#ifndef FM_METRICS_LOOP_EXPORTER_H
#define FM_METRICS_LOOP_EXPORTER_H

#include "mover/metrics/exporter.h"

struct fm_loop_exporter;

/* Errors of http.h. */
int fm_loop_exporter_new(const struct fm_exporter_opts *opts, struct fm_loop_exporter **out,
			 struct fm_err *err);

/* NULL is allowed. */
void fm_loop_exporter_free(struct fm_loop_exporter *e);

#endif
