/* SPDX-License-Identifier: MIT */
/*
 * meet_others - whether threads are at a fault point at once: the first one there waits for another
 * one, for FM_TEST_HANG_S at most.
 */
#ifndef FM_MEET_OTHERS_H
#define FM_MEET_OTHERS_H

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "mover/base/fault.h"
#include "tests/fm_test.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t has_met_changed;
	const char *point;
	unsigned there;
	bool have_met, is_over;
} meeting = { .lock = PTHREAD_MUTEX_INITIALIZER, .has_met_changed = PTHREAD_COND_INITIALIZER };

static inline void meeting_reached(void *ctx, const char *name)
{
	struct timespec until;

	(void)ctx;
	if (strcmp(name, meeting.point) != 0)
		return;
	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += FM_TEST_HANG_S;
	pthread_mutex_lock(&meeting.lock);
	meeting.have_met |= ++meeting.there > 1;
	if (meeting.have_met)
		pthread_cond_broadcast(&meeting.has_met_changed);
	while (!meeting.have_met && !meeting.is_over)
		meeting.is_over = pthread_cond_timedwait(&meeting.has_met_changed, &meeting.lock,
							 &until) != 0;
	meeting.there--;
	pthread_mutex_unlock(&meeting.lock);
}

/* From here on. */
static inline void meet_others_at(const char *point)
{
	meeting.point = point;
	meeting.have_met = meeting.is_over = false;
	fm_fault_watch(meeting_reached, NULL);
}

/* Until here. */
static inline bool have_met_others(void)
{
	fm_fault_watch(NULL, NULL);
	return meeting.have_met;
}

#endif
