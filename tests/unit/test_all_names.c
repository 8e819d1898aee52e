/* SPDX-License-Identifier: MIT */
/* Files of several names: which of them go with their names. links: fm_store */
#include "tests/fm_test.h"

#include "mover/base/budget.h"
#include "mover/store/all_names.h"

#define FILES 5000u	/* of two names each; more than the first table holds */

static struct stat file(uint64_t number)
{
	return (struct stat){ .st_dev = 1, .st_ino = number, .st_nlink = 2 };
}

static unsigned meet_all(struct fm_all_names *n)
{
	unsigned last = 0;

	for (uint64_t i = 0; i < FILES; i++) {
		const struct stat st = file(i);

		last += fm_all_names_meet(n, &st);
	}
	return last;
}

static void test_last_name(void)
{
	const struct stat other = {.st_dev = 2, .st_ino = 7, .st_nlink = 2},
			  alone = {.st_nlink = 1};
	struct fm_all_names n = { .count = 0 };

	CU_ASSERT_TRUE(fm_all_names_meet(&n, &alone));
	CU_ASSERT_EQUAL(meet_all(&n), 0);
	/* the same number on another file system */
	CU_ASSERT_FALSE(fm_all_names_meet(&n, &other));
	CU_ASSERT_EQUAL(meet_all(&n), FILES);
	/* one more than there are: nobody knows */
	CU_ASSERT_EQUAL(meet_all(&n), 0);
	fm_all_names_free(&n);
}

/* Goal: what is remembered counts against the budget, and what it has no room for is not said to
 * go. */
static void test_budget(void)
{
	struct fm_all_names n = { .count = 0 };

	(void)meet_all(&n);
	CU_ASSERT_TRUE(fm_budget_used() > FILES * sizeof(ino_t));
	fm_all_names_free(&n);
	CU_ASSERT_EQUAL(fm_budget_used(), 0);
	fm_budget_set(64u << 10);
	(void)meet_all(&n);
	CU_ASSERT_TRUE(n.count > 0 && n.count < FILES && fm_budget_used() <= 64u << 10);
	CU_ASSERT_EQUAL(meet_all(&n), n.count);
	fm_all_names_free(&n);
	fm_budget_set(UINT64_MAX);
	CU_ASSERT_EQUAL(fm_budget_used(), 0);
}

static const struct fm_test tests[] = {
	{ "a file goes with the last of its names", test_last_name },
	{ "files that are remembered are taken from the budget", test_budget },
};
FM_TEST_MAIN("all_names", tests)
