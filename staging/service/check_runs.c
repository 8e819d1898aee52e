/* SPDX-License-Identifier: MIT */
/* check_runs - see check_runs.h. */
#include "staging/service/check_runs.h"

#include "mover/node/node.h"

void fm_stage_check_runs_init(struct fm_stage_check_runs *runs, struct fm_engine *engine)
{
	fm_list_init(&runs->all);
	runs->engine = engine;
}

void fm_stage_check_runs_stop(struct fm_stage_check_runs *runs)
{
	runs->is_stopping = true;
	fm_list_each(at, next, &runs->all)
		atomic_store(&fm_container_of(at, struct fm_stage_check_run, at)->is_stopped,
			     true);
}

void fm_stage_check_run_begin(struct fm_stage_check_runs *runs, struct fm_stage_check_run *run)
{
	run->engine = runs->engine;
	atomic_store(&run->is_stopped, runs->is_stopping);
	fm_list_append(&runs->all, &run->at);
}

void fm_stage_check_run_end(struct fm_stage_check_run *run)
{
	fm_list_del(&run->at);
	fm_engine_check_stopped(run->engine);
}
