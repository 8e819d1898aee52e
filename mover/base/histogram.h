/* SPDX-License-Identifier: MIT */
/*
 * histogram - how long things took, counted by a fixed scale from 10 ms to 6 hours. One owner's,
 * who may copy it as any struct.
 */
#ifndef FM_BASE_HISTOGRAM_H
#define FM_BASE_HISTOGRAM_H

#include <stdint.h>

#define FM_HISTOGRAM_BOUNDS 8u

struct fm_histogram_bound {
	uint64_t ns;
	const char *seconds;		/* the same as text: "0.01" */
};

extern const struct fm_histogram_bound fm_histogram_bounds[FM_HISTOGRAM_BOUNDS];

struct fm_histogram {
	/* [i]: longer than bound i - 1, and at most bound i; the last: longer than all bounds */
	uint64_t count[FM_HISTOGRAM_BOUNDS + 1];
	uint64_t sum_ns;
};

void fm_histogram_add(struct fm_histogram *h, uint64_t ns);

#endif
