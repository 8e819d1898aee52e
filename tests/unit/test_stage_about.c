/* SPDX-License-Identifier: MIT */
/*
 * What a staging run is known by: nodes that mean different datasets, or have another list of the
 * nodes, never meet in one.
 * links: fm_staging_service
 */
#include "staging/service/about.h"

#include <string.h>

#include "staging/cache.h"
#include "tests/fm_test.h"

static const struct fm_stage_about plain = {
	.listing = { 1, 2, 3 },
	.entries = 5,
	.bytes = 70000000,
	.extents = 2,
	.uid = 1000,
	.gid = 1000,
	.wanted = 3,
	.may_read = UINT64_MAX,
	.count = 2,
	.store = "s",
	.path = "set",
	.name = "set",
	.node = { "n1", "n2" },
};

static bool is_same_run(const struct fm_stage_about *a, const struct fm_stage_about *b)
{
	uint8_t run[2][FM_WIRE_STAGE_RUN_LEN];
	struct fm_cache_key key;

	CU_ASSERT_EQUAL(fm_stage_about_key(a, &key, run[0]), 0);
	CU_ASSERT_EQUAL(fm_stage_about_key(b, &key, run[1]), 0);
	return memcmp(run[0], run[1], sizeof(run[0])) == 0;
}

static void test_other_dataset(void)
{
	struct fm_stage_about other[7];

	for (unsigned i = 0; i < 7; i++)
		other[i] = plain;
	other[0].listing[31] = 1;
	other[1].entries++;
	other[2].bytes++;
	other[3].extents++;
	(void)strcpy(other[4].path, "sea");
	(void)strcpy(other[5].node[1], "n3");
	other[6].count = 1;
	for (unsigned i = 0; i < 7; i++)
		CU_ASSERT_FALSE(is_same_run(&plain, &other[i]));
}

static void test_same_dataset(void)
{
	struct fm_stage_about other = plain;

	other.uid = other.gid = 0;
	other.wanted = 1;
	other.may_read = 1;
	other.is_in = true;
	CU_ASSERT_TRUE(is_same_run(&plain, &other));
}

static const struct fm_test tests[] = {
	{ "another listing, other totals, other nodes: another run", test_other_dataset },
	{ "whoever asks, and for whom: the same run", test_same_dataset },
};

FM_TEST_MAIN("stage_about", tests)
