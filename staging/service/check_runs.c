/* SPDX-License-Identifier: MIT */
/* check_runs - see check_runs.h. */
#include "staging/service/check_runs.h"

#include <stdarg.h>
#include <stdio.h>

#include "mover/base/err.h"
#include "mover/node/node.h"

void fm_stage_check_runs_init(struct fm_stage_check_runs *runs, struct fm_engine *engine)
{
	fm_list_init(&runs->all);
	runs->engine = engine;
	runs->lines.most = FM_LOG_USER_LINES;
}

static struct fm_stage_check_run *run_of(struct fm_list *at)
{
	return fm_container_of(at, struct fm_stage_check_run, at);
}

void fm_stage_check_runs_stop(struct fm_stage_check_runs *runs)
{
	runs->is_stopping = true;
	fm_list_each(at, next, &runs->all)
		fm_stage_check_run_stop(run_of(at));
}

void fm_stage_check_run_begin(struct fm_stage_check_runs *runs, struct fm_stage_check_run *run,
			      uid_t uid)
{
	run->uid = uid;
	run->engine = runs->engine;
	run->runs = runs;
	run->id = 0;
	run->is_waiting = false;
	run->halt = NULL;
	atomic_store(&run->is_stopped, runs->is_stopping);
	fm_list_append(&runs->all, &run->at);
}

void fm_stage_check_run_log(const struct fm_stage_check_run *run, const char *job, const char *fmt,
			    ...)
{
	uint64_t now_ns = fm_engine_now(run->engine);
	char text[2 * FM_ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);	/* what is too long is cut */
	va_end(ap);
	fm_log_job(fm_log_of_user(&run->runs->lines, run->uid, now_ns), now_ns, FM_LOG_INFO, job,
		   "%s", text);
}

/* ---- one after the other ---- */

/* Of that dataset; NULL: there is none. */
static struct fm_stage_check_run *find(struct fm_stage_check_runs *runs, uint64_t id,
				       bool is_waiting)
{
	fm_list_each(at, next, &runs->all) {
		struct fm_stage_check_run *run = run_of(at);

		if (run->id == id && run->is_waiting == is_waiting)
			return run;
	}
	return NULL;
}

static void give_turn(struct fm_stage_check_run *run)
{
	run->is_waiting = false;
	run->turn(run);
}

void fm_stage_check_run_enter(struct fm_stage_check_run *run, uint64_t id,
			      void (*turn)(struct fm_stage_check_run *run))
{
	bool is_free = !find(run->runs, id, false);

	run->turn = turn;
	run->id = id;
	run->is_waiting = true;
	if (is_free || atomic_load(&run->is_stopped))
		give_turn(run);
}

/* One that waits need not wait to be told that it is over. */
void fm_stage_check_run_stop(struct fm_stage_check_run *run)
{
	atomic_store(&run->is_stopped, true);
	if (run->is_waiting)
		give_turn(run);
	else if (run->halt)
		run->halt(run->halt_ctx);
}

void fm_stage_check_run_end(struct fm_stage_check_run *run)
{
	struct fm_engine *engine = run->engine;
	struct fm_stage_check_run *next;

	fm_list_del(&run->at);
	next = run->id == 0 || find(run->runs, run->id, false) ? NULL
							       : find(run->runs, run->id, true);
	if (next)
		give_turn(next);
	fm_engine_check_stopped(engine);
}
