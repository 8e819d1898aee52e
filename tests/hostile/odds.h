/* SPDX-License-Identifier: MIT */
/*
 * odds - chances from a seed, for the hostile programs (SplitMix64).
 */
#ifndef FM_TEST_ODDS_H
#define FM_TEST_ODDS_H

#include <stdbool.h>
#include <stdint.h>

struct odds {
	uint64_t state;
};

static inline uint64_t odds_next(struct odds *o)
{
	uint64_t z = o->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* 0 .. n - 1 */
static inline uint64_t below(struct odds *o, uint64_t n)
{
	return odds_next(o) % n;
}

static inline bool one_in(struct odds *o, unsigned n)
{
	return below(o, n) == 0;
}

/* Mostly small, sometimes at an edge, sometimes anything. */
static inline uint64_t any_number(struct odds *o)
{
	static const uint64_t edges[] = {0,
					 1,
					 4095,
					 4096,
					 65535,
					 65536,
					 UINT32_MAX,
					 INT64_MAX,
					 UINT64_MAX,
					 UINT64_C(1) << 53,
					 UINT64_C(1) << 63};

	switch (below(o, 4)) {
	case 0:
		return edges[below(o, sizeof(edges) / sizeof(edges[0]))];
	case 1:
		return odds_next(o);
	default:
		return below(o, 100);
	}
}

#endif
