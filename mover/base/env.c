/* SPDX-License-Identifier: MIT */
/*
 * env - the real clock and the real randomness.
 */
#include "mover/base/env.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

/* False: it does not fit into *ns. */
static bool to_ns(const struct timespec *t, int64_t *ns)
{
	return !__builtin_mul_overflow(t->tv_sec, (int64_t)FM_NS_PER_S, ns) &&
	       !__builtin_add_overflow(*ns, t->tv_nsec, ns);
}

int64_t fm_time_ns(const struct timespec *t)
{
	int64_t ns;

	if (to_ns(t, &ns))
		return ns;
	return t->tv_sec < 0 ? INT64_MIN : INT64_MAX;
}

bool fm_time_is_cut(const struct timespec *t)
{
	int64_t ns;

	return !to_ns(t, &ns);
}

static uint64_t clock_now_ns(void *ctx)
{
	struct timespec ts;
	int ret;

	(void)ctx;
	ret = clock_gettime(CLOCK_MONOTONIC, &ts);
	assert(ret == 0);
	(void)ret;
	return (uint64_t)ts.tv_sec * FM_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* Aborts rather than return bytes somebody could guess: tokens and keys are made of them. */
static void random_fill(void *ctx, void *buf, size_t len)
{
	uint8_t *at = buf;

	(void)ctx;
	while (len > 0) {
		ssize_t got = getrandom(at, len, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			abort();
		at += got;
		len -= (size_t)got;
	}
}

const struct fm_clock fm_clock_real = { clock_now_ns, NULL };
const struct fm_random fm_random_real = { random_fill, NULL };
