/* SPDX-License-Identifier: MIT */
/* links: fm_staging */
/*
 * test_evict - which dataset goes first, and which never.
 */
#include <string.h>

#include "staging/evict.h"
#include "tests/fm_test.h"

#define GIB	 (UINT64_C(1) << 30)
#define HOUR	 UINT64_C(3600000000000)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct fm_evict_item item(uint64_t id, uint64_t bytes, uint64_t age_ns, unsigned cost)
{
	return (struct fm_evict_item){.id = id,
				      .bytes = bytes,
				      .age_ns = age_ns,
				      .asked_ns = age_ns,
				      .cost = cost,
				      .is_ready = true};
}

/* The ids in their order, as digits. */
static const char *order(struct fm_evict_item *items, size_t count)
{
	static char text[16];
	size_t may = fm_evict_order(items, count, HOUR);

	memset(text, 0, sizeof(text));
	for (size_t i = 0; i < may; i++)
		text[i] = (char)('0' + items[i].id);
	return text;
}

static void test_age_size_and_cost(void)
{
	struct fm_evict_item by_age[] = {item(1, GIB, 2 * HOUR, 1), item(2, GIB, 9 * HOUR, 1),
					 item(3, GIB, 3 * HOUR, 1)};
	struct fm_evict_item by_size[] = {item(1, GIB, 2 * HOUR, 1), item(2, 9 * GIB, 2 * HOUR, 1),
					  item(3, 3 * GIB, 2 * HOUR, 1)};
	struct fm_evict_item by_cost[] = {item(1, GIB, 2 * HOUR, 5), item(2, GIB, 2 * HOUR, 1),
					  item(3, GIB, 2 * HOUR, 9)};
	struct fm_evict_item mixed[] = {item(1, 2 * GIB, 6 * HOUR, 4), item(2, GIB, 4 * HOUR, 1),
					item(3, 10 * GIB, 2 * HOUR, 4)};

	CU_ASSERT_STRING_EQUAL(order(by_age, COUNT(by_age)), "231");
	CU_ASSERT_STRING_EQUAL(order(by_size, COUNT(by_size)), "231");
	CU_ASSERT_STRING_EQUAL(order(by_cost, COUNT(by_cost)), "213");
	CU_ASSERT_STRING_EQUAL(order(mixed, COUNT(mixed)), "321"); /* 5, 4, 3 */
}

static void test_what_stays(void)
{
	struct fm_evict_item items[] = {
		item(1, GIB, 9 * HOUR, 1), item(2, GIB, 9 * HOUR, 1), item(3, GIB, 9 * HOUR, 1),
		item(4, GIB, 9 * HOUR, 1), item(5, GIB, 9 * HOUR, 1), item(6, GIB, 2 * HOUR, 1),
		item(7, GIB, 1 * HOUR, 1),
	};
	const enum fm_evict_reason reasons[] = {
		FM_EVICT_BUSY,	FM_EVICT_BUSY,	FM_EVICT_PINNED, FM_EVICT_HELD,
		FM_EVICT_GRACE,	    FM_EVICT_MAY,	FM_EVICT_MAY,
	};

	items[0].is_ready = false;
	items[0].is_busy = items[1].is_busy = true;
	items[2].pins = 1;
	items[3].holds = 1;
	items[4].asked_ns = HOUR - 1; /* its age does not matter then */
	for (size_t i = 0; i < COUNT(items); i++)
		CU_ASSERT_EQUAL(fm_evict_reason(&items[i], HOUR), reasons[i]);
	CU_ASSERT_STRING_EQUAL(order(items, COUNT(items)), "67");
	CU_ASSERT_EQUAL(fm_evict_order(items, 0, HOUR), 0);
}

/* What came of it, not whether it is large or old, decides; each stays as a READY one does. */
static void test_what_is_not_whole_goes_first(void)
{
	struct fm_evict_item items[] = {
		item(1, 9 * GIB, 9 * HOUR, 1), item(2, 1, 2 * HOUR, 9), item(3, GIB, HOUR - 1, 1),
		item(4, GIB, 9 * HOUR, 1), item(5, 2, 2 * HOUR, 9),
	};

	items[1].is_ready = items[2].is_ready = items[3].is_ready = items[4].is_ready = false;
	items[3].pins = 1;
	CU_ASSERT_EQUAL(fm_evict_reason(&items[2], HOUR), FM_EVICT_GRACE);
	CU_ASSERT_EQUAL(fm_evict_reason(&items[3], HOUR), FM_EVICT_PINNED);
	CU_ASSERT_STRING_EQUAL(order(items, COUNT(items)), "521");
}

/* Whatever order they are told in. */
static void test_equal_ones_have_an_order(void)
{
	struct fm_evict_item a[] = {item(1, GIB, 2 * HOUR, 1), item(2, 2 * GIB, HOUR, 1),
				    item(3, GIB, 2 * HOUR, 1)};
	struct fm_evict_item b[] = {a[2], a[1], a[0]};

	CU_ASSERT_STRING_EQUAL(order(a, COUNT(a)), "132");
	CU_ASSERT_STRING_EQUAL(order(b, COUNT(b)), "132");
}

/* Numbers that do not fit 64 bits when they are multiplied, and a cost that nobody said. */
static void test_extremes(void)
{
	struct fm_evict_item items[] = {
		item(1, UINT64_MAX / 2, UINT64_MAX / 2, UINT32_MAX),
		item(2, UINT64_MAX, UINT64_MAX, 0),
		item(3, 0, UINT64_MAX, 1),
		item(4, UINT64_MAX, UINT64_MAX, 2),
	};

	CU_ASSERT_STRING_EQUAL(order(items, COUNT(items)), "2413");
}

static const struct fm_test tests[] = {
	{"the oldest, the largest, the cheapest goes first", test_age_size_and_cost},
	{"what is fetched, pinned, held or just asked for stays", test_what_stays},
	{"what is not whole goes first", test_what_is_not_whole_goes_first},
	{"equal ones have an order", test_equal_ones_have_an_order},
	{"no number is too large", test_extremes},
};

FM_TEST_MAIN("evict", tests)
