/* SPDX-License-Identifier: MIT */
/* Rates, latencies and what overlaps. links: fm_cli */
#include "client/bench/stats.h"

#include <math.h>
#include <stdlib.h>

#include "tests/fm_test.h"

static bool is_near(double is, double wanted)
{
	return fabs(is - wanted) <= 1e-6 * fabs(wanted) + 1e-9;
}

static void test_rates(void)
{
	const struct fm_bench_repeat odd[] = {{300, 1}, {200, 2}, {800, 4}};
	const struct fm_bench_repeat even[] = {{100, 1}, {0, 0}, {300, 1}};
	struct fm_bench_rates r;

	fm_bench_rates(odd, 3, &r);
	CU_ASSERT_TRUE(is_near(r.median, 200) && is_near(r.min, 100) && is_near(r.max, 300));
	CU_ASSERT_TRUE(is_near(r.cv, 0.5));
	fm_bench_rates(even, 3, &r);
	CU_ASSERT_TRUE(is_near(r.median, 200) && is_near(r.min, 100));
	fm_bench_rates(odd, 1, &r);
	CU_ASSERT_TRUE(is_near(r.median, 300) && r.cv == 0);
	fm_bench_rates(&even[1], 1, &r);
	CU_ASSERT_TRUE(r.median == 0 && r.max == 0 && r.cv == 0);
	fm_bench_rates(NULL, 0, &r);
	CU_ASSERT_EQUAL(r.median, 0);
	fm_bench_rates(&(const struct fm_bench_repeat){0, 2}, 1, &r);
	CU_ASSERT_TRUE(r.median == 0 && r.cv == 0);
}

/* Goal: a value is told as itself or at most a 32nd more, whatever it is. */
static void test_histogram_places(void)
{
	static struct fm_histogram h;

	for (unsigned bit = 0; bit < 64; bit++)
		for (int d = -1; d <= 1; d++) {
			uint64_t v = (UINT64_C(1) << bit) + (uint64_t)(int64_t)d, told;

			h = (struct fm_histogram){0};
			fm_histogram_add(&h, v);
			h.max_ns = UINT64_MAX; /* what is told is the place's, not the greatest's */
			told = fm_histogram_at(&h, 1);
			CU_ASSERT_TRUE(told >= v && told - v <= v / FM_HISTOGRAM_SUB);
		}
}

static void test_histogram_shares(void)
{
	static struct fm_histogram h;
	struct fm_bench_latency l;

	CU_ASSERT_EQUAL(fm_histogram_at(&h, 0.5), 0);
	for (uint64_t i = 1; i <= 1000; i++)
		fm_histogram_add(&h, i * 1000);
	fm_histogram_latency(&h, &l);
	CU_ASSERT_EQUAL(l.count, 1000);
	CU_ASSERT_TRUE(l.p50 >= 500e-6 && l.p50 < 516e-6);
	CU_ASSERT_TRUE(l.p90 >= 900e-6 && l.p90 < 929e-6);
	CU_ASSERT_TRUE(l.p99 >= 990e-6 && l.p999 >= 999e-6);
	CU_ASSERT_TRUE(l.p50 <= l.p90 && l.p90 <= l.p99 && l.p99 <= l.p999 && l.p999 <= l.max);
	CU_ASSERT_TRUE(is_near(l.max, 1000e-6));
	h = (struct fm_histogram){0};
	for (int i = 0; i < 3; i++)
		fm_histogram_add(&h, 7);
	CU_ASSERT_EQUAL(fm_histogram_at(&h, 0), 7);
	CU_ASSERT_EQUAL(fm_histogram_at(&h, 0.5), 7);
}

#define S UINT64_C(1000000000)

/* Goal: only what both moved at the same time is added. The second begins late and ends early. */
static void test_overlap(void)
{
	const struct fm_bench_sample a[] = {{1 * S, 0}, {11 * S, 1000}, {12 * S, 1000}};
	const struct fm_bench_sample b[] = {{1 * S, 0}, {3 * S, 0}, {8 * S, 250}};
	const struct fm_bench_sample late[] = {{12 * S, 0}, {13 * S, 5}};
	struct fm_bench_repeat sum = fm_bench_overlap(a, 3, b, 3);

	CU_ASSERT_TRUE(is_near(sum.seconds, 5));
	CU_ASSERT_EQUAL(sum.bytes, 750);
	sum = fm_bench_overlap(b, 3, a, 3);
	CU_ASSERT_EQUAL(sum.bytes, 750);
	CU_ASSERT_EQUAL(fm_bench_overlap(a, 3, late, 2).seconds, 0);
	CU_ASSERT_EQUAL(fm_bench_overlap(a, 3, NULL, 0).bytes, 0);
	CU_ASSERT_EQUAL(fm_bench_overlap(a, 1, b, 1).bytes, 0);
	CU_ASSERT_TRUE(is_near(fm_bench_moved(a, 3, 2 * S, 3 * S), 100));
	CU_ASSERT_EQUAL(fm_bench_moved(a, 3, 3 * S, 3 * S), 0);
	CU_ASSERT_TRUE(is_near(fm_bench_moved(a, 3, 0, 20 * S), 1000));
}

static const struct fm_test tests[] = {
	{"median, least, greatest, scatter", test_rates},
	{"a latency is told to a 32nd", test_histogram_places},
	{"shares of all latencies", test_histogram_shares},
	{"what overlaps in time is added", test_overlap},
};
FM_TEST_MAIN("bench stats", tests)
