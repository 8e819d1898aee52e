/* SPDX-License-Identifier: MIT */
/*
 * ranges - a set of byte ranges, sorted and merged.
 *
 * Zero-initialised it is empty. Not thread-safe.
 */
#ifndef FM_BASE_RANGES_H
#define FM_BASE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_range {
	uint64_t offset;
	uint64_t len;		/* > 0 */
};

struct fm_ranges {
	struct fm_range *at;
	size_t count;
	size_t cap;
};

/* It is empty then, and may be used again. */
void fm_ranges_free(struct fm_ranges *r);

/*
 * Add; what overlaps or touches is merged. -ENOSPC: that would make more than max ranges. -ENOMEM.
 * Nothing is changed by a call that fails. len > 0, and offset + len must not overflow (asserted,
 * here and below).
 */
int fm_ranges_add(struct fm_ranges *r, uint64_t offset, uint64_t len, size_t max);

/* *to, which holds nothing before, becomes a copy. -ENOMEM: it is as it was. */
int fm_ranges_copy(struct fm_ranges *to, const struct fm_ranges *from);

uint64_t fm_ranges_bytes(const struct fm_ranges *r);

/* Whether all of [offset, offset + len) is in it; of no bytes, always. */
bool fm_ranges_cover(const struct fm_ranges *r, uint64_t offset, uint64_t len);

/* Whether any of [offset, offset + len) is in it; of no bytes, never. */
bool fm_ranges_overlap(const struct fm_ranges *r, uint64_t offset, uint64_t len);

/*
 * The first stretch at or behind offset that is not in it begins at *from; *to is where the next
 * range begins (UINT64_MAX: none does).
 */
void fm_ranges_gap(const struct fm_ranges *r, uint64_t offset, uint64_t *from, uint64_t *to);

#endif
