/* SPDX-License-Identifier: MIT */
/*
 * env - time and randomness as tables, so that the simulator can supply both.
 */
#ifndef FM_BASE_ENV_H
#define FM_BASE_ENV_H

#include <stddef.h>
#include <stdint.h>

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

/* CLOCK_MONOTONIC; getrandom(2). */
extern const struct fm_clock fm_clock_real;
extern const struct fm_random fm_random_real;

#endif
