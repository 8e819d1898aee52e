/* SPDX-License-Identifier: MIT */
/* rate - see rate.h. */
#include "mover/data/rate.h"

#include "mover/base/env.h"

#define BURST_NS (50 * FM_NS_PER_MS)

void fm_rate_set(struct fm_rate *rate, uint64_t bytes_per_s)
{
	rate->bytes_per_s = bytes_per_s;
	rate->free_at_ns = 0;
}

uint64_t fm_rate_when(const struct fm_rate *rate, uint64_t now_ns)
{
	if (rate->bytes_per_s == 0 || rate->free_at_ns <= now_ns + BURST_NS)
		return 0;
	return rate->free_at_ns - BURST_NS;
}

/* As a floating-point number: bytes * 10^9 does not fit 64 bits for chunks of 64 MiB and many of
 * them. */
static uint64_t time_of(const struct fm_rate *rate, uint64_t bytes)
{
	return (uint64_t)((double)bytes * 1e9 / (double)rate->bytes_per_s);
}

void fm_rate_take(struct fm_rate *rate, uint64_t bytes, uint64_t now_ns)
{
	if (rate->bytes_per_s == 0)
		return;
	if (rate->free_at_ns < now_ns)
		rate->free_at_ns = now_ns;
	rate->free_at_ns += time_of(rate, bytes);
}

/*
 * Gives bytes back to the bucket. The rate may have changed since they were taken, so the
 * subtraction is limited to zero.
 */
void fm_rate_give(struct fm_rate *rate, uint64_t bytes)
{
	uint64_t ns = rate->bytes_per_s ? time_of(rate, bytes) : 0;

	rate->free_at_ns -= ns < rate->free_at_ns ? ns : rate->free_at_ns;
}
