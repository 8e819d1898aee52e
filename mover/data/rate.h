/* SPDX-License-Identifier: MIT */
/*
 * rate - a token bucket: how many bytes a second may leave. Holds 50 ms of its rate, so that bursts
 * stay short. No lock of its own.
 */
#ifndef FM_RATE_H
#define FM_RATE_H

#include <stdint.h>

struct fm_rate {
	uint64_t bytes_per_s;		/* 0: no limit */
	uint64_t free_at_ns;		/* when what was taken so far has been paid for */
};

void fm_rate_set(struct fm_rate *rate, uint64_t bytes_per_s);

/* 0: bytes may go now. Else the time of the clock to ask again at; nothing was taken. */
uint64_t fm_rate_when(const struct fm_rate *rate, uint64_t now_ns);

/* They go. Call after fm_rate_when() said 0. */
void fm_rate_take(struct fm_rate *rate, uint64_t bytes, uint64_t now_ns);

/* Gives bytes back that were taken and will not be sent. */
void fm_rate_give(struct fm_rate *rate, uint64_t bytes);

#endif
