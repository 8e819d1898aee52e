/* SPDX-License-Identifier: MIT */
/* evict - see evict.h. */
#include "staging/evict.h"

#include <stdlib.h>

enum fm_evict_reason fm_evict_reason(const struct fm_evict_item *item, uint64_t grace_ns)
{
	if (item->is_busy)
		return FM_EVICT_BUSY;
	if (item->pins > 0)
		return FM_EVICT_PINNED;
	if (item->holds > 0)
		return FM_EVICT_HELD;
	return item->asked_ns < grace_ns ? FM_EVICT_GRACE : FM_EVICT_MAY;
}

/* The product has up to 128 bits; a double orders what differs by more than one part in 2^52. */
static double score(const struct fm_evict_item *item)
{
	return (double)item->age_ns * (double)item->bytes / (item->cost ? item->cost : 1);
}

/* Equal ones have an order, too, so that the same cache always decides the same. */
static int compare(const void *a_, const void *b_)
{
	const struct fm_evict_item *a = a_, *b = b_;
	double of_a = score(a), of_b = score(b);

	if (a->is_ready != b->is_ready)
		return a->is_ready ? 1 : -1;
	if (of_a > of_b || of_a < of_b)
		return of_a > of_b ? -1 : 1;
	if (a->age_ns != b->age_ns)
		return a->age_ns > b->age_ns ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

size_t fm_evict_order(struct fm_evict_item *items, size_t count, uint64_t grace_ns)
{
	size_t may = 0;

	for (size_t i = 0; i < count; i++) {
		struct fm_evict_item item = items[i];

		if (fm_evict_reason(&item, grace_ns) != FM_EVICT_MAY)
			continue;
		items[i] = items[may];
		items[may++] = item;
	}
	if (may > 0)
		qsort(items, may, sizeof(*items), compare);
	return may;
}
