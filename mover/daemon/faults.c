/* SPDX-License-Identifier: MIT */
/* faults - see faults.h. */
#include "mover/daemon/faults.h"

#include <pthread.h>
#include <time.h>

#include "config/preflight.h"
#include "mover/base/env.h"
#include "mover/base/err.h"

void fm_fault_say(const struct fm_preflight_fault *fault, enum fm_log_level level)
{
	char line[2 * FM_PREFLIGHT_MEND_MAX];

	fm_preflight_print(fault, line, sizeof(line));
	fm_log(level, "%s", line);
}

void fm_faults_warn(const struct fm_config *cfg)
{
	struct fm_preflight_user user;
	struct fm_preflight *found;
	struct fm_err err = { 0 };

	fm_preflight_self(&user);
	if (fm_preflight_run(cfg, &user, &found, &err) < 0) {
		fm_log_warn("%s", err.text);
		return;
	}
	for (unsigned i = 0; i < found->count; i++)
		if (!found->fault[i].is_borne)	/* of these the start itself tells more */
			fm_fault_say(&found->fault[i], FM_LOG_WARN);
	fm_preflight_free(found);
}

/* What looks, and who waits for it. Never freed: a look may end when nobody waits any more. */
static struct look {
	struct fm_config *cfg;
	pthread_mutex_t lock;
	pthread_cond_t has_ended;
	bool is_over;
} look = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *look_run(void *arg)
{
	struct look *l = arg;

	fm_faults_warn(l->cfg);
	pthread_mutex_lock(&l->lock);
	l->is_over = true;
	pthread_cond_signal(&l->has_ended);
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

/* The end of waiting: when it is over, or then. */
static bool await_look(struct look *l, uint64_t max_ns)
{
	struct timespec by;
	bool is_over;
	int ret = 0;

	clock_gettime(CLOCK_MONOTONIC, &by);
	by.tv_sec += (time_t)(max_ns / FM_NS_PER_S);
	pthread_mutex_lock(&l->lock);
	while (!l->is_over && ret == 0)
		ret = pthread_cond_clockwait(&l->has_ended, &l->lock, CLOCK_MONOTONIC, &by);
	is_over = l->is_over;
	pthread_mutex_unlock(&l->lock);
	return is_over;
}

void fm_faults_warn_within(struct fm_config *cfg, uint64_t max_ns)
{
	pthread_t thread;

	look.cfg = cfg;
	if (pthread_create(&thread, NULL, look_run, &look) != 0)
		return;		/* what is wrong shows later */
	if (await_look(&look, max_ns)) {
		(void)pthread_join(thread, NULL);
	} else {
		fm_config_share(cfg);	/* the thread's, which is never given back */
		(void)pthread_detach(thread);
	}
}
