/* SPDX-License-Identifier: MIT */
/*
 * ranges - a sorted array of ranges, none of which touches the next one.
 */
#include "mover/base/ranges.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/fault.h"

#define RANGES_FIRST 4	/* room of the first allocation */

static uint64_t end_of(const struct fm_range *range)
{
	return range->offset + range->len;
}

/* The index of the first range that ends at or behind offset. */
static size_t first_ending_from(const struct fm_ranges *r, uint64_t offset)
{
	size_t low = 0, high = r->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (end_of(&r->at[middle]) < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The index of the first range, from index low on, that begins behind offset. */
static size_t first_beginning_behind(const struct fm_ranges *r, size_t low, uint64_t offset)
{
	size_t high = r->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (r->at[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int reserve(struct fm_ranges *r, size_t cap)
{
	struct fm_range *at;

	if (cap <= r->cap)
		return 0;
	at = FM_FAULT("ranges.alloc") ? NULL : fm_budget_realloc(r->at, cap * sizeof(*at));
	if (!at)
		return -ENOMEM;
	r->at = at;
	r->cap = cap;
	return 0;
}

static int insert(struct fm_ranges *r, size_t i, struct fm_range range, size_t max)
{
	int ret;

	if (r->count >= max)
		return -ENOSPC;
	if (r->count == r->cap) {
		ret = reserve(r, r->cap ? 2 * r->cap : RANGES_FIRST);
		if (ret < 0)
			return ret;
	}
	memmove(&r->at[i + 1], &r->at[i], (r->count - i) * sizeof(range));
	r->at[i] = range;
	r->count++;
	return 0;
}

void fm_ranges_free(struct fm_ranges *r)
{
	fm_budget_free(r->at);
	*r = (struct fm_ranges){ 0 };
}

int fm_ranges_add(struct fm_ranges *r, uint64_t offset, uint64_t len, size_t max)
{
	uint64_t end = offset + len;
	size_t i, behind;

	assert(len > 0 && end > offset);
	i = first_ending_from(r, offset);
	behind = first_beginning_behind(r, i, end);
	if (i == behind)
		return insert(r, i, (struct fm_range){ .offset = offset, .len = len }, max);
	/* Ranges i .. behind - 1 overlap or touch the new one: they become one. */
	if (r->at[i].offset < offset)
		offset = r->at[i].offset;
	if (end_of(&r->at[behind - 1]) > end)
		end = end_of(&r->at[behind - 1]);
	r->at[i] = (struct fm_range){ .offset = offset, .len = end - offset };
	memmove(&r->at[i + 1], &r->at[behind], (r->count - behind) * sizeof(r->at[0]));
	r->count -= behind - i - 1;
	return 0;
}

int fm_ranges_copy(struct fm_ranges *to, const struct fm_ranges *from)
{
	struct fm_ranges copy = { 0 };
	int ret = reserve(&copy, from->count);

	if (ret < 0)
		return ret;
	if (from->count > 0)
		memcpy(copy.at, from->at, from->count * sizeof(copy.at[0]));
	copy.count = from->count;
	*to = copy;
	return 0;
}

uint64_t fm_ranges_bytes(const struct fm_ranges *r)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < r->count; i++)
		bytes += r->at[i].len;
	return bytes;
}

bool fm_ranges_cover(const struct fm_ranges *r, uint64_t offset, uint64_t len)
{
	size_t i = first_ending_from(r, offset + len);

	assert(offset + len >= offset);
	return len == 0 || (i < r->count && r->at[i].offset <= offset);
}

bool fm_ranges_overlap(const struct fm_ranges *r, uint64_t offset, uint64_t len)
{
	size_t i = first_ending_from(r, offset);

	assert(offset + len >= offset);
	if (i < r->count && end_of(&r->at[i]) == offset)
		i++;	/* it only touches */
	return len > 0 && i < r->count && r->at[i].offset < offset + len;
}

void fm_ranges_gap(const struct fm_ranges *r, uint64_t offset, uint64_t *from, uint64_t *to)
{
	size_t i = first_ending_from(r, offset);

	*from = offset;
	if (i < r->count && r->at[i].offset <= offset)
		*from = end_of(&r->at[i++]);
	*to = i < r->count ? r->at[i].offset : UINT64_MAX;
}
