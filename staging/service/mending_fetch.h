/* SPDX-License-Identifier: MIT */
/*
 * mending_fetch - what comes from another node to mend something with: a job of the queue that
 * fills a file of fm_mending_file(), and ends with the check that it is for. Control thread.
 */
#ifndef FM_STAGE_MENDING_FETCH_H
#define FM_STAGE_MENDING_FETCH_H

#include "mover/queue/queue.h"

struct fm_err;
struct fm_mending_opts;
struct fm_stage_check_run;

/* The caller's, who sets the first two; it stays until done(). */
struct fm_mending_fetch {
	int to;				/* not closed here */
	/* Once; err->code 0: it all came. May be called within fm_stage_check_run_stop(). */
	void (*done)(struct fm_mending_fetch *fetch, const struct fm_err *err);
	struct fm_queue_watch watch;
	struct fm_stage_check_run *run;
};

/*
 * job: copied, its who is that of opts. -ECANCELED: the check is stopped; else as
 * fm_queue_submit(), and done() is not called.
 */
int fm_mending_fetch_start(struct fm_mending_fetch *fetch, const struct fm_mending_opts *opts,
			   const struct fm_job_opts *job, struct fm_err *err);

#endif
