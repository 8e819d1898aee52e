/* SPDX-License-Identifier: MIT */
/* at_once - see at_once.h. */
#include "staging/at_once.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "mover/base/fault.h"

struct one {
	pthread_t thread;
	bool is_there;
	unsigned n;
	void (*work)(void *ctx, unsigned n);
	void *ctx;
};

static void *run(void *arg)
{
	const struct one *o = arg;

	o->work(o->ctx, o->n);
	return NULL;
}

void fm_stage_at_once(unsigned count, void (*work)(void *ctx, unsigned n), void *ctx)
{
	struct one one[FM_STAGE_AT_ONCE];
	sigset_t all, saved;

	assert(count > 0 && count <= FM_STAGE_AT_ONCE);
	/* signals are for the program's own threads */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	for (unsigned n = 1; n < count; n++) {
		one[n] = (struct one){ .n = n, .work = work, .ctx = ctx };
		one[n].is_there = !FM_FAULT("stage.thread") &&
				  pthread_create(&one[n].thread, NULL, run, &one[n]) == 0;
	}
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	work(ctx, 0);
	for (unsigned n = 1; n < count; n++)
		if (one[n].is_there)
			(void)pthread_join(one[n].thread, NULL);
}
