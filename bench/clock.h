/* SPDX-License-Identifier: MIT */
/* clock - the time of a clock in seconds, for programs that call libfmove alone. */
#ifndef FM_BENCH_CLOCK_H
#define FM_BENCH_CLOCK_H

#include <time.h>

static inline double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

#endif
