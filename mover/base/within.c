/* SPDX-License-Identifier: MIT */
/* within - see within.h. */
#include "mover/base/within.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"

struct call {
	void (*run)(void *arg);
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_over, is_left;		/* whoever sets the second one does not free it */
};

static void call_free(struct call *c)
{
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void *call_run(void *arg)
{
	struct call *c = arg;
	bool is_left;

	c->run(c->arg);
	pthread_mutex_lock(&c->lock);
	c->is_over = true;
	is_left = c->is_left;
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
	if (is_left)
		call_free(c);
	return NULL;
}

static void end_of(uint64_t max_ns, struct timespec *out)
{
	uint64_t ns;

	clock_gettime(CLOCK_MONOTONIC, out);
	ns = (uint64_t)out->tv_nsec + max_ns;
	out->tv_sec += (time_t)(ns / FM_NS_PER_S);
	out->tv_nsec = (long)(ns % FM_NS_PER_S);
}

static bool await(struct call *c, uint64_t max_ns)
{
	struct timespec end;
	bool is_over;
	int ret = 0;

	end_of(max_ns, &end);
	pthread_mutex_lock(&c->lock);
	while (!c->is_over && ret == 0)
		ret = pthread_cond_clockwait(&c->changed, &c->lock, CLOCK_MONOTONIC, &end);
	is_over = c->is_over;
	c->is_left = !is_over;
	pthread_mutex_unlock(&c->lock);
	return is_over;
}

int fm_within(void (*run)(void *arg), void *arg, uint64_t max_ns)
{
	struct call *c = FM_FAULT("within.call") ? NULL : calloc(1, sizeof(*c));
	pthread_t thread;

	if (!c)
		return -ENOMEM;
	c->run = run;
	c->arg = arg;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	if (pthread_create(&thread, NULL, call_run, c) != 0) {
		call_free(c);
		return -ENOMEM;
	}
	if (!await(c, max_ns)) {
		(void)pthread_detach(thread);
		return -ETIMEDOUT;
	}
	(void)pthread_join(thread, NULL);
	call_free(c);
	return 0;
}
