/* SPDX-License-Identifier: MIT */
/* channel_pulse - see channel_pulse.h. */
#include "mover/tree/channel_pulse.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"

_Static_assert(sizeof(atomic_uint_fast64_t) == 8 && ATOMIC_LLONG_LOCK_FREE == 2,
	       "another process reads it");
_Static_assert(FM_CHANNEL_PULSE_MS % 1000 == 0, "whole seconds");

struct fm_channel_pulse {
	atomic_uint_fast64_t *at;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t ended;		/* of CLOCK_MONOTONIC */
	bool is_ended;
};

/* ---- the caller's ---- */

static void *count(void *arg)
{
	struct fm_channel_pulse *p = arg;
	struct timespec next;

	pthread_mutex_lock(&p->lock);
	while (!p->is_ended) {
		atomic_fetch_add(p->at, 1);
		(void)clock_gettime(CLOCK_MONOTONIC, &next);	/* it exists */
		next.tv_sec += FM_CHANNEL_PULSE_MS / 1000;
		while (!p->is_ended && pthread_cond_timedwait(&p->ended, &p->lock, &next) == 0)
			;	/* woken for nothing */
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void pulse_destroy(struct fm_channel_pulse *p)
{
	pthread_cond_destroy(&p->ended);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

int fm_channel_pulse_new(atomic_uint_fast64_t *at, struct fm_channel_pulse **out,
			 struct fm_err *err)
{
	struct fm_channel_pulse *p = FM_FAULT("channel.pulse") ? NULL : calloc(1, sizeof(*p));
	pthread_condattr_t attr;
	int ret;

	if (!p)
		return fm_err_set(err, -ENOMEM, "no memory for a channel");
	p->at = at;
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->ended, &attr);
	pthread_condattr_destroy(&attr);
	ret = FM_FAULT("channel.pulse_thread") ? EAGAIN
					       : pthread_create(&p->thread, NULL, count, p);
	if (ret != 0) {
		pulse_destroy(p);
		return fm_err_sys(err, -ret, "start a thread");
	}
	*out = p;
	return 0;
}

void fm_channel_pulse_free(struct fm_channel_pulse *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->is_ended = true;
	pthread_cond_signal(&p->ended);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	pulse_destroy(p);
}

/* ---- the daemon's ---- */

/* Reads the number that the caller counts up. If it cannot be read it stays the same. */
static uint64_t look(int memory)
{
	uint64_t n;

	return pread(memory, &n, sizeof(n), FM_CHANNEL_PULSE_AT) == (ssize_t)sizeof(n) ? n : 0;
}

int fm_channel_pulse_wait(int socket, int memory,
			  int (*poll_fn)(struct pollfd *fds, nfds_t count, int timeout_ms))
{
	struct pollfd at = { .fd = socket, .events = POLLIN };
	uint64_t now, seen = look(memory);
	unsigned missed = 0;
	int n;

	while (missed < FM_CHANNEL_PULSES_MISSED) {
		n = poll_fn(&at, 1, FM_CHANNEL_PULSE_MS);
		if (n > 0 || (n < 0 && errno != EINTR))
			return 0;	/* after an error the wait is for receive() */
		if (n < 0)
			continue;
		now = look(memory);
		missed = now == seen ? missed + 1 : 0;
		seen = now;
	}
	return -ETIMEDOUT;
}
