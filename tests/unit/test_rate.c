/* SPDX-License-Identifier: MIT */
/* links: fm_data */
#include "tests/fm_test.h"

#include "mover/base/env.h"
#include "mover/data/rate.h"

static void test_no_limit(void)
{
	struct fm_rate r;

	fm_rate_set(&r, 0);
	for (int i = 0; i < 100; i++) {
		CU_ASSERT_EQUAL(fm_rate_when(&r, 1), 0);
		fm_rate_take(&r, UINT64_MAX / 2, 1);
	}
}

/* Method: ask again exactly when told, for ten seconds of the clock, and count. */
static void test_average(void)
{
	const uint64_t rate = 100 << 20, chunk = 1 << 20;
	uint64_t now = 1, sent = 0, until = 10 * FM_NS_PER_S;
	struct fm_rate r;

	fm_rate_set(&r, rate);
	while (now < until) {
		uint64_t when = fm_rate_when(&r, now);

		if (when) {
			CU_ASSERT_TRUE_FATAL(when > now);
			now = when;
			continue;
		}
		fm_rate_take(&r, chunk, now);
		sent += chunk;
	}
	CU_ASSERT_TRUE(sent >= 10 * rate);
	CU_ASSERT_TRUE(sent <= 10 * rate + rate / 10);	/* a burst of 50 ms, and one chunk */
}

static void test_pause_saves_nothing(void)
{
	struct fm_rate r;
	uint64_t now = 100 * FM_NS_PER_S, sent = 0;

	fm_rate_set(&r, 1 << 20);
	fm_rate_take(&r, 1 << 20, 1);
	while (fm_rate_when(&r, now) == 0) {
		fm_rate_take(&r, 4096, now);
		sent += 4096;
	}
	CU_ASSERT_TRUE(sent <= (1 << 20) / 10);
}

static void test_huge_chunk(void)
{
	struct fm_rate r;

	fm_rate_set(&r, 1);
	fm_rate_take(&r, 64 << 20, 1);
	CU_ASSERT_TRUE(fm_rate_when(&r, 1) > 60000000ull * FM_NS_PER_S);
}

static const struct fm_test tests[] = {
	{"a rate of 0 never makes anybody wait", test_no_limit},
	{"asked again when it says, it lets through its rate and at most a tenth of a second more",
	 test_average},
	{"what was not used in a pause is not saved up", test_pause_saves_nothing},
	{"a chunk of 64 MiB at a byte a second does not overflow", test_huge_chunk},
};
FM_TEST_MAIN("rate", tests)
