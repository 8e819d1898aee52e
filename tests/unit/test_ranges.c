/* SPDX-License-Identifier: MIT */
/*
 * Sets of byte ranges, against a bitmap that does the same one byte at a time. links: fm_base
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "mover/base/fault.h"
#include "mover/base/ranges.h"
#include "tests/fm_test.h"

#define SPACE 300u	/* bytes that the bitmap knows of */
#define ROUNDS 1500
#define STEPS 60

static uint64_t seed;

static uint32_t roll(uint32_t below)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)((seed >> 33) % below);
}

/* ----------------------------------------------------------------------------------- the bitmap */

static bool is_in[SPACE + 1];	/* the last one is never in: a sentinel */

static size_t runs(void)
{
	size_t count = 0;

	for (size_t i = 0; i < SPACE; i++)
		count += is_in[i] && !is_in[i + 1];
	return count;
}

static size_t bits(size_t from, size_t len)
{
	size_t count = 0;

	for (size_t i = from; i < from + len; i++)
		count += is_in[i];
	return count;
}

/* Sorted, none empty, none touching the next, and just the bytes of the bitmap. */
static bool is_as_bitmap(const struct fm_ranges *r)
{
	uint64_t end = 0, bytes = 0;

	if (r->count != runs() || r->count > r->cap)
		return false;
	for (size_t i = 0; i < r->count; i++) {
		const struct fm_range *range = &r->at[i];

		if (range->len == 0 || (i > 0 && range->offset <= end))
			return false;
		if (bits(range->offset, range->len) != range->len)
			return false;
		end = range->offset + range->len;
		bytes += range->len;
	}
	return bytes == bits(0, SPACE) && bytes == fm_ranges_bytes(r);
}

static bool is_asked_as_bitmap(const struct fm_ranges *r, size_t offset, size_t len)
{
	size_t from = offset, to;
	uint64_t got_from, got_to;

	while (is_in[from])
		from++;
	for (to = from; to < SPACE && !is_in[to];)
		to++;
	fm_ranges_gap(r, offset, &got_from, &got_to);
	return fm_ranges_cover(r, offset, len) == (bits(offset, len) == len) &&
	       fm_ranges_overlap(r, offset, len) == (bits(offset, len) > 0) && got_from == from &&
	       got_to == (to == SPACE ? UINT64_MAX : to);
}

/* ---------------------------------------------------------------------------------------- tests */

/* Add at random, sometimes with a limit that is too low; whatever happens, the set is the
 * bitmap's. */
static bool one_round(uint32_t len_max)
{
	struct fm_ranges r = { 0 }, copy = { 0 };
	bool is_good = true;

	memset(is_in, 0, sizeof(is_in));
	for (unsigned i = 0; i < STEPS && is_good; i++) {
		size_t offset = roll(SPACE), len = 1 + roll(len_max), before = runs(),
		       max = roll(2) ? SPACE : roll(20);
		bool old[SPACE + 1];
		int ret;

		if (len > SPACE - offset)
			len = SPACE - offset;
		memcpy(old, is_in, sizeof(old));
		memset(is_in + offset, true, len);
		ret = fm_ranges_add(&r, offset, len, max);
		is_good = ret == (runs() > before && runs() > max ? -ENOSPC : 0);
		if (ret < 0)
			memcpy(is_in, old, sizeof(old));
		is_good = is_good && is_as_bitmap(&r);
		for (unsigned k = 0; k < 8 && is_good; k++) {
			offset = roll(SPACE);
			is_good = is_asked_as_bitmap(&r, offset,
						     roll((uint32_t)(SPACE - offset) + 1));
		}
	}
	is_good = is_good && fm_ranges_copy(&copy, &r) == 0 && is_as_bitmap(&copy);
	fm_ranges_free(&r);
	is_good = is_good && is_as_bitmap(&copy);
	fm_ranges_free(&copy);
	return is_good && r.count == 0 && !r.at;
}

static void test_bitmap(void)
{
	static const uint32_t lens[] = { 1, 3, 20, SPACE };

	for (uint64_t round = 1; round <= ROUNDS; round++) {
		seed = round;
		if (!one_round(lens[round % 4])) {
			printf("seed %" PRIu64 " differs from the bitmap\n", round);
			CU_FAIL("differs");
			return;
		}
	}
}

static void test_empty(void)
{
	struct fm_ranges r = { 0 }, copy = { 0 };
	uint64_t from, to;

	CU_ASSERT_EQUAL(fm_ranges_bytes(&r), 0);
	CU_ASSERT_FALSE(fm_ranges_cover(&r, 0, 1));
	CU_ASSERT_TRUE(fm_ranges_cover(&r, 5, 0));
	CU_ASSERT_FALSE(fm_ranges_overlap(&r, 0, UINT64_MAX));
	fm_ranges_gap(&r, 7, &from, &to);
	CU_ASSERT_EQUAL(from, 7);
	CU_ASSERT_EQUAL(to, UINT64_MAX);
	CU_ASSERT_EQUAL(fm_ranges_copy(&copy, &r), 0);
	CU_ASSERT_EQUAL(copy.count, 0);
	fm_ranges_free(&copy);
	fm_ranges_free(&r);
}

static void test_end_of_numbers(void)
{
	struct fm_ranges r = { 0 };
	uint64_t from, to;

	CU_ASSERT_EQUAL(fm_ranges_add(&r, UINT64_MAX - 10, 10, 9), 0);
	CU_ASSERT_EQUAL(fm_ranges_add(&r, 0, 1, 9), 0);
	CU_ASSERT_TRUE(fm_ranges_cover(&r, UINT64_MAX - 5, 5));
	CU_ASSERT_TRUE(fm_ranges_overlap(&r, 1, UINT64_MAX - 1));
	CU_ASSERT_FALSE(fm_ranges_overlap(&r, 1, UINT64_MAX - 11));
	fm_ranges_gap(&r, 0, &from, &to);
	CU_ASSERT_EQUAL(from, 1);
	CU_ASSERT_EQUAL(to, UINT64_MAX - 10);
	fm_ranges_gap(&r, UINT64_MAX - 1, &from, &to);
	CU_ASSERT_EQUAL(from, UINT64_MAX);
	CU_ASSERT_EQUAL(to, UINT64_MAX);
	CU_ASSERT_EQUAL(fm_ranges_add(&r, 0, UINT64_MAX, 1), 0);
	CU_ASSERT_EQUAL(r.count, 1);
	CU_ASSERT_EQUAL(fm_ranges_bytes(&r), UINT64_MAX);
	fm_ranges_free(&r);
}

/* What fails for want of memory leaves the set as it was. */
static void test_no_memory(void)
{
#ifdef FM_FAULTS
	struct fm_ranges r = { 0 }, copy = { 0 };
	int ret = 0;

	for (uint64_t i = 0; i < 40; i++) {
		size_t count = r.count;

		fm_fault_arm("ranges.alloc", 1);
		ret = fm_ranges_add(&r, 2 * i, 1, 100);
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(r.count, ret == 0 ? count + 1 : count);
		if (ret < 0) {
			CU_ASSERT_EQUAL(ret, -ENOMEM);
			CU_ASSERT_EQUAL(fm_ranges_add(&r, 2 * i, 1, 100), 0);
		}
	}
	CU_ASSERT_EQUAL(fm_ranges_bytes(&r), 40);
	fm_fault_arm("ranges.alloc", 1);
	CU_ASSERT_EQUAL(fm_ranges_copy(&copy, &r), -ENOMEM);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_PTR_NULL(copy.at);
	fm_ranges_free(&r);
#endif
}

static const struct fm_test tests[] = {
	{ "an empty set has nothing, and is one gap", test_empty },
	{ "adding and asking at random agree with a bitmap", test_bitmap },
	{ "the last offset that there is can be in a range", test_end_of_numbers },
	{ "without memory nothing changes", test_no_memory },
};

FM_TEST_MAIN("ranges", tests)
