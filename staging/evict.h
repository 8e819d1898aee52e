/* SPDX-License-Identifier: MIT */
/*
 * evict - which datasets may go, and which of them first. Pure: what it is told is all it knows.
 *
 * The oldest, the largest and the cheapest to fetch again go first: age times size over cost. Age
 * alone would keep a small new dataset and throw away the one that every epoch reads; size alone
 * would throw away what takes longest to come back.
 *
 * What an interrupted fetch left goes before all that is READY: nobody can read it, and most of its
 * room may be a promise for what never came.
 */
#ifndef FM_STAGING_EVICT_H
#define FM_STAGING_EVICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_evict_item {
	uint64_t id;
	uint64_t bytes;	   /* that the disk gets back */
	uint64_t age_ns;   /* since it was used last */
	uint64_t asked_ns; /* since it was asked for last */
	unsigned cost;	   /* of a byte, when it is fetched again; 0 counts as 1 */
	bool is_ready; /* else what came of it */
	bool is_busy; /* it is fetched, looked at or removed just now */
	unsigned pins;
	unsigned holds;
};

/* Why one stays. */
enum fm_evict_reason {
	FM_EVICT_MAY,
	FM_EVICT_BUSY,
	FM_EVICT_PINNED,
	FM_EVICT_HELD,
	FM_EVICT_GRACE,
};

enum fm_evict_reason fm_evict_reason(const struct fm_evict_item *item, uint64_t grace_ns);

/*
 * Sorts the datasets that may be evicted to the front, in the order of eviction. Returns how many.
 */
size_t fm_evict_order(struct fm_evict_item *items, size_t count, uint64_t grace_ns);

#endif
