/* SPDX-License-Identifier: MIT */
/* tries - see tries.h. */
#include "client/lib/tries.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "client/lib/connections.h"
#include "client/lib/fail.h"
#include "client/lib/ops.h"
#include "mover/base/exit_code.h"
#include "mover/base/env.h"
#include "mover/base/err.h"

#define LOOK_MS 1000

static uint64_t now_ns(void)
{
	return fm_clock_real.now_ns(fm_clock_real.ctx);
}

/* Milliseconds as nanoseconds. A time too long to be counted is for ever. */
static uint64_t ns_of(uint64_t ms)
{
	return ms < UINT64_MAX / 2 / FM_NS_PER_MS ? ms * FM_NS_PER_MS : UINT64_MAX / 2;
}

static uint64_t ms_of(uint64_t ns)
{
	return (ns + FM_NS_PER_MS - 1) / FM_NS_PER_MS;
}

/* Sets an error. What the last try kept is still kept. */
static bool fail(struct fmove_error *err, int code, const char *text)
{
	err->code = code;
	err->exit = (int)fm_api_exit(code);
	(void)snprintf(err->text, sizeof(err->text), "%s", text);
	return false;
}

static bool time_is_up(struct fmove_error *err)
{
	return fail(err, -ETIMEDOUT, "not done within the time that --timeout gave");
}

void fm_tries_begin(struct fm_tries *t, const struct fmove_options *opts)
{
	*t = (struct fm_tries){.opts = *opts,
			       .begun_ns = now_ns(),
			       .deadline_ns = FM_NEVER,
			       .forks = fm_forks()};
	if (opts->timeout_ms > 0)
		t->deadline_ns = t->begun_ns + ns_of(opts->timeout_ms);
	/* How far it is has to be known when the daemon is gone, too. */
	if (opts->retry_ms > 0 && (opts->progress_ms == 0 || !opts->progress)) {
		t->opts.progress_ms = LOOK_MS;
		t->opts.progress = NULL;
	}
}

/* progress() may have forked, and come back in the child: what goes on is its parent's. */
static bool is_forked(const struct fm_tries *t)
{
	return t->forks != fm_forks();
}

/* Waits, and tells the caller why. False: the caller wants no more tries. */
static bool nap(const struct fm_tries *t, uint64_t pause_ns, const char *why)
{
	const struct fmove_options *o = &t->opts;
	struct pollfd cancel[] = {{o->cancel_fd > 0 ? o->cancel_fd : -1, POLLIN, 0},
				  {fm_op_cancel_fd(), POLLIN, 0}};
	uint64_t end_ns = now_ns() + pause_ns,
		 step_ms = o->progress_ms > 0 ? o->progress_ms : UINT64_MAX;

	for (uint64_t at_ns = now_ns(); at_ns < end_ns && !is_forked(t); at_ns = now_ns()) {
		const struct fmove_progress p = {.struct_size = sizeof(p),
						 .state = "waiting",
						 .size = UINT64_MAX,
						 .again_ms = ms_of(end_ns - at_ns),
						 .text = why};

		if (o->progress_ms > 0 && o->progress)
			o->progress(o->ctx, &p);
		if (poll(cancel, 2, (int)(p.again_ms < step_ms ? p.again_ms : step_ms)) > 0)
			return false;
	}
	return true;
}

static bool give_up(const struct fm_tries *t, uint64_t at_ns, struct fmove_error *err)
{
	struct fm_err why = { .code = err->code };

	(void)snprintf(why.text, sizeof(why.text), "%s", err->text);	/* as long at most */
	fm_retry_give_up(&t->retry, at_ns, &why);
	return fail(err, why.code, why.text);
}

bool fm_tries_again(struct fm_tries *t, struct fmove *c, struct fmove_error *err)
{
	uint64_t at_ns = now_ns(), pause_ns;

	/* Of what is held others depend on how the first try ends; of a job that is listed, those
	 * who look at it. */
	bool is_once = t->opts.retry_ms == 0 || t->opts.is_attended || t->opts.hold_fd > 0;

	/* Who cancels the job means the command. */
	if (is_once || is_forked(t) || err->code == -ECANCELED || !fm_errno_may_pass(err->code))
		return false;
	if (at_ns >= t->deadline_ns)
		return time_is_up(err);
	fm_retry_failed(&t->retry, t->begun_ns, at_ns, err->bytes);
	if (!fm_retry_next(&t->retry, ns_of(t->opts.retry_ms), at_ns, &fm_random_real, &pause_ns))
		return give_up(t, at_ns, err);
	if (pause_ns > t->deadline_ns - at_ns)
		pause_ns = t->deadline_ns - at_ns;
	fmove_disconnect(c);
	if (!nap(t, pause_ns, err->text))
		return fail(err, -ECANCELED, "cancelled");
	if (is_forked(t))
		return fm_lib_fail_forked(err), false;
	t->begun_ns = now_ns();
	if (t->begun_ns >= t->deadline_ns)
		return time_is_up(err);
	if (t->opts.timeout_ms > 0)
		t->opts.timeout_ms = ms_of(t->deadline_ns - t->begun_ns);
	return true;
}
