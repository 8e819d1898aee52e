/* SPDX-License-Identifier: MIT */
/*
 * check_runs - the checks of datasets that are under way: the node stops when they have ended, and
 * ends them for it. Of one dataset one comes after the other, since a chunk that is mended has
 * another modification time and mode meanwhile. Control thread.
 */
#ifndef FM_STAGE_CHECK_RUNS_H
#define FM_STAGE_CHECK_RUNS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/list.h"
#include "mover/base/log.h"

struct fm_engine;

struct fm_stage_check_runs {
	struct fm_list all;
	struct fm_engine *engine;
	struct fm_log_users lines;
	bool is_stopping;
};

/* Part of what a check needs; its maker's. */
struct fm_stage_check_run {
	struct fm_list at;
	struct fm_engine *engine;
	struct fm_stage_check_runs *runs;
	uid_t uid;			/* who asked, whose lines of the log its lines are */
	uint64_t id;			/* of the dataset; 0: not known yet */
	bool is_waiting;		/* for another one of that dataset */
	void (*turn)(struct fm_stage_check_run *run);
	atomic_bool is_stopped;		/* the worker looks */
	/* what is under way that a stop is to end; NULL: nothing, or it looks itself */
	void (*halt)(void *ctx);
	void *halt_ctx;
};

void fm_stage_check_runs_init(struct fm_stage_check_runs *runs, struct fm_engine *engine);
void fm_stage_check_runs_stop(struct fm_stage_check_runs *runs);

void fm_stage_check_run_begin(struct fm_stage_check_runs *runs, struct fm_stage_check_run *run,
			      uid_t uid);

/* A line of the log under the id of a check. */
void fm_stage_check_run_log(const struct fm_stage_check_run *run, const char *job, const char *fmt,
			    ...) __attribute__((format(printf, 3, 4)));

/*
 * The dataset is known. turn() is called once: now, when those of the same dataset that came before
 * have ended, or when this one is stopped.
 */
void fm_stage_check_run_enter(struct fm_stage_check_run *run, uint64_t id,
			      void (*turn)(struct fm_stage_check_run *run));
void fm_stage_check_run_stop(struct fm_stage_check_run *run);

/* The next one of its dataset has its turn. It is not used any more. */
void fm_stage_check_run_end(struct fm_stage_check_run *run);

#endif
