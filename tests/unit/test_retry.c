/* SPDX-License-Identifier: MIT */
/* test_retry - how often and how long something is tried again, by a clock of ours.
 * links: fm_base */
#include "mover/base/retry.h"

#include <errno.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "tests/fm_test.h"

#define S FM_NS_PER_S

static struct fm_retry retry;
static uint64_t now_ns;

/* A pause is as short as chance can make it. */
static void lowest(void *ctx, void *buf, size_t len)
{
	(void)ctx;
	memset(buf, 0, len);
}

static const struct fm_random random_low = { .fill = lowest };

/*
 * A try fails that took no time, having reached so much. Whether there is another one; the clock
 * shows its begin then.
 */
static bool again(uint64_t for_ns, uint64_t reached)
{
	uint64_t pause_ns;

	fm_retry_failed(&retry, now_ns, now_ns, reached);
	if (!fm_retry_next(&retry, for_ns, now_ns, &random_low, &pause_ns))
		return false;
	now_ns += pause_ns;
	return true;
}

static void begin(void)
{
	retry = (struct fm_retry){ .tries = 0 };
	now_ns = 1000 * S;
}

/* Goal: as long as each try goes a byte further there is no end to it, and then there is. */
static void test_further_than_ever_counts(void)
{
	begin();
	for (uint64_t reached = 1; reached < 100; reached++)
		CU_ASSERT_TRUE_FATAL(again(3 * S, reached));
	for (uint64_t since_ns = now_ns; again(3 * S, 99);)
		CU_ASSERT_TRUE_FATAL(now_ns <= since_ns + 3 * S);
}

/* Goal: the mark outlives what is counted anew with it, and a try that got less far. */
static void test_the_same_again_does_not(void)
{
	static const uint64_t reached[] = { 70, 40, 70, 0, 69 };
	uint64_t since_ns;
	unsigned i = 0;

	begin();
	CU_ASSERT_TRUE(again(10 * S, 50));
	CU_ASSERT_TRUE(again(10 * S, 70));
	since_ns = now_ns;
	while (again(10 * S, reached[i++ % 5]))
		CU_ASSERT_TRUE_FATAL(now_ns <= since_ns + 10 * S);
	CU_ASSERT_TRUE(now_ns >= since_ns + 9 * S);
}

/* Goal: pauses have a lowest bound, whoever gets on and however short the time is. */
static void test_a_short_time_makes_no_short_pauses(void)
{
	uint64_t begun_ns;

	begin();
	begun_ns = now_ns;
	for (uint64_t reached = 1; reached <= 10; reached++)
		CU_ASSERT_TRUE(again(FM_NS_PER_MS, reached));
	CU_ASSERT_TRUE(now_ns - begun_ns >= 10 * FM_RETRY_PAUSE_MIN_NS * 3 / 4);
	begin();
	CU_ASSERT_TRUE(again(FM_NS_PER_MS, 0));
	CU_ASSERT_TRUE(now_ns - begun_ns >= FM_RETRY_PAUSE_MIN_NS * 3 / 4);
	CU_ASSERT_FALSE(again(FM_NS_PER_MS, 0));
}

static void test_for_ever(void)
{
	begin();
	for (unsigned tries = 0; tries < 1000; tries++) {
		uint64_t from_ns = now_ns;

		CU_ASSERT_TRUE_FATAL(again(FM_RETRY_ALWAYS, 0));
		CU_ASSERT_TRUE(now_ns - from_ns <= FM_RETRY_PAUSE_MAX_NS * 5 / 4);
	}
}

static const struct fm_test tests[] = {
	{ "further than ever counts", test_further_than_ever_counts },
	{ "the same again does not", test_the_same_again_does_not },
	{ "a short time makes no short pauses", test_a_short_time_makes_no_short_pauses },
	{ "for ever", test_for_ever },
};
FM_TEST_MAIN("retry", tests)
