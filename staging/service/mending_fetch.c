/* SPDX-License-Identifier: MIT */
/* mending_fetch - see mending_fetch.h. */
#include "staging/service/mending_fetch.h"

#include <errno.h>
#include <fcntl.h>

#include "mover/base/err.h"
#include "staging/service/check_runs.h"
#include "staging/service/mending_opts.h"
#include "staging/service/stager.h"

/* Somebody else may wait for the dataset: not for all of a file that nobody wants any more. */
static void halt(void *ctx)
{
	struct fm_mending_fetch *f = ctx;

	fm_queue_end_job(&f->watch, -ECANCELED, false, "the check was ended");
}

static void fetched(struct fm_queue_watch *watch, const struct fm_job_result *result)
{
	struct fm_mending_fetch *f = fm_container_of(watch, struct fm_mending_fetch, watch);
	struct fm_err err = { 0 };

	if (result->code < 0)
		err = result->err;
	f->run->halt = NULL;
	(void)fcntl(f->to, F_SETFL, 0);	/* the job's O_DIRECT is not for any length */
	f->done(f, &err);
}

int fm_mending_fetch_start(struct fm_mending_fetch *f, const struct fm_mending_opts *opts,
			   const struct fm_job_opts *job, struct fm_err *err)
{
	static const struct fm_queue_events events = { .done = fetched };
	struct fm_queue_opts o = { .job = *job, .end = FM_QUEUE_FD, .journal = -1, .file = "",
				   .id = opts->job };
	int ret;

	if (atomic_load(&opts->run->is_stopped))
		return fm_err_set(err, -ECANCELED, "the check was ended");
	o.job.who = opts->who;
	o.fd = fcntl(f->to, F_DUPFD_CLOEXEC, 0);
	if (o.fd < 0)
		return fm_err_sys(err, -errno, "fetch what is damaged");
	f->watch.events = &events;
	f->run = opts->run;
	ret = fm_queue_submit(fm_stager_config(opts->stager)->queue, &o, &f->watch, err);
	if (ret == 0) {
		f->run->halt = halt;
		f->run->halt_ctx = f;
	}
	return ret;
}
