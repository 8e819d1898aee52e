/* SPDX-License-Identifier: MIT */
/*
 * env - time and randomness as tables, so that the simulator can supply both.
 */
#ifndef FM_BASE_ENV_H
#define FM_BASE_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define FM_NS_PER_MS UINT64_C(1000000)
#define FM_NS_PER_S UINT64_C(1000000000)
#define FM_NEVER UINT64_MAX

struct fm_clock {
	/* Monotonic nanoseconds; the start is arbitrary, never 0. Any thread. */
	uint64_t (*now_ns)(void *ctx);
	void *ctx;
};

struct fm_random {
	/* Fill buf with bytes nobody can guess (the simulator: bytes from its seed). Never fails.
	 * Any thread. */
	void (*fill)(void *ctx, void *buf, size_t len);
	void *ctx;
};

/*
 * Nanoseconds since 1970. 64 bits reach from 1677 to 2262, a file system's times farther: what is
 * before or behind becomes the first or the last that there is.
 */
int64_t fm_time_ns(const struct timespec *t);

/* Whether fm_time_ns() had to change it. */
bool fm_time_is_cut(const struct timespec *t);

#define FM_TIME_CUT_NOTE                                                                          \
	"times before 1677 or after 2262 cannot be kept: they became the first or the last that "  \
	"can"

/* CLOCK_MONOTONIC; getrandom(2). */
extern const struct fm_clock fm_clock_real;
extern const struct fm_random fm_random_real;

#endif
