/* SPDX-License-Identifier: MIT */
/* test_budget - the limit on what grows with what is asked. links: fm_store */
#include "tests/fm_test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/journal/table.h"
#include "mover/tree/hardlinks.h"

#define LIMIT 11432u		/* without the eighth that is for sessions 10,003 */

static void test_what_is_over_it_is_refused(void)
{
	struct fm_share_held held = { 0 };
	char *a, *b, *grown;

	fm_budget_set(LIMIT);
	a = fm_budget_alloc(6000);
	CU_ASSERT_PTR_NOT_NULL_FATAL(a);
	CU_ASSERT_TRUE(a[0] == 0 && a[5999] == 0);
	CU_ASSERT_TRUE(fm_budget_used() >= 6000 && fm_budget_used() < 6100);
	CU_ASSERT_PTR_NULL(fm_budget_alloc(6000));
	memset(a, 'x', 6000);
	CU_ASSERT_PTR_NULL(fm_budget_realloc(a, 7000));		/* both are there while it moves */
	CU_ASSERT_TRUE(a[0] == 'x' && a[5999] == 'x');
	b = fm_budget_alloc(100);
	CU_ASSERT_PTR_NOT_NULL_FATAL(b);
	b[99] = 'y';
	grown = fm_budget_realloc(b, 3000);
	CU_ASSERT_PTR_NOT_NULL_FATAL(grown);
	CU_ASSERT_EQUAL(grown[99], 'y');
	CU_ASSERT_FALSE(fm_budget_take(2000));
	CU_ASSERT_FALSE(fm_budget_take_leaving(400, 1000));
	CU_ASSERT_FALSE(fm_budget_take_leaving(1, LIMIT));
	CU_ASSERT_TRUE(fm_budget_take_leaving(400, 500));
	fm_budget_give(400);
	CU_ASSERT_TRUE(fm_budget_take(500));
	CU_ASSERT_FALSE(fm_budget_take_waiting(fm_share_user(1), 500, &held));
	CU_ASSERT_TRUE(fm_budget_could_waiting(fm_share_user(1), 500));
	CU_ASSERT_FALSE(fm_budget_could_waiting(fm_share_user(1), LIMIT / 2));
	CU_ASSERT_TRUE(fm_budget_could_waiting(fm_share_user(0), LIMIT / 2));
	CU_ASSERT_PTR_NULL(fm_budget_alloc(1000));
	b = fm_budget_alloc_link(1000);		/* sessions go on */
	CU_ASSERT_PTR_NOT_NULL_FATAL(b);
	CU_ASSERT_EQUAL(b[999], 0);
	CU_ASSERT_PTR_NULL(fm_budget_realloc_link(b, LIMIT));
	fm_budget_free(b);
	fm_budget_give(500);
	fm_budget_free(grown);
	fm_budget_free(a);
	fm_budget_free(NULL);
	CU_ASSERT_EQUAL(fm_budget_used(), 0);
	CU_ASSERT_PTR_NULL(fm_budget_alloc(SIZE_MAX - 8));
	CU_ASSERT_EQUAL(fm_budget_used(), 0);
	fm_budget_set(UINT64_MAX);
}

/* Goal: what a walk remembers of hard links, and what a journal says of files, ends at it and not
 * at the machine's memory. */
static void test_walks_and_journals_are_bounded(void)
{
	struct fm_hardlinks links = { .buckets = NULL };
	struct fm_journal_entry e = { .path = "", .size = 10, .mtime_ns = 1, .len = 10 };
	uint64_t limit = UINT64_C(4) << 20;
	struct fm_table t;
	size_t len;
	char path[32];
	int ret = 0;

	fm_budget_set(limit);
	for (unsigned i = 0; i < 200000 && ret == 0; i++) {
		(void)snprintf(path, sizeof(path), "%u", i);
		(void)fm_hardlinks_meet(&links, &(struct fm_hardlink_id){.dev = 1, .ino = i}, path,
					&len, &ret);
		CU_ASSERT_TRUE(fm_budget_used() <= limit);
	}
	CU_ASSERT_EQUAL(ret, -ENOMEM);
	fm_hardlinks_free(&links);
	CU_ASSERT_EQUAL(fm_budget_used(), 0);
	fm_table_init(&t);
	ret = 0;
	for (unsigned i = 0; i < 200000 && ret >= 0; i++) {
		(void)snprintf(path, sizeof(path), "%u", i);
		e.path = path;
		e.path_len = strlen(path);
		fm_table_begin(&t);
		ret = fm_table_put(&t, &e);
		if (ret >= 0)
			fm_table_commit(&t);
	}
	CU_ASSERT_EQUAL(ret, -ENOMEM);
	CU_ASSERT_TRUE(fm_budget_used() <= limit);
	fm_table_rollback(&t);
	fm_table_free(&t);
	CU_ASSERT_EQUAL(fm_budget_used(), 0);
	fm_budget_set(UINT64_MAX);
}

/* Goal: the trees of one peer, or of one user, leave memory to those of others. */
static void test_memory_of_trees_is_shared(void)
{
	struct fm_share_held a[64] = { 0 }, b[64] = { 0 }, c = { 0 };
	unsigned n = 0, m = 0;

	fm_budget_set(64u << 20);
	while (n < 64 && fm_budget_take_waiting(fm_share_name("n2"), 1u << 20, &a[n]))
		n++;
	while (m < 64 && fm_budget_take_waiting(fm_share_name("n3"), 1u << 20, &b[m]))
		m++;
	CU_ASSERT_EQUAL(n, 14);		/* of 32 MiB 4 are root's */
	CU_ASSERT_EQUAL(m, 7);
	CU_ASSERT_TRUE(fm_budget_take_waiting(fm_share_user(1000), 4u << 20, &c));
	fm_budget_give_waiting(4u << 20, &c);
	while (n > 0)
		fm_budget_give_waiting(1u << 20, &a[--n]);
	while (m > 0)
		fm_budget_give_waiting(1u << 20, &b[--m]);
	CU_ASSERT_EQUAL(fm_budget_used(), 0);
}

static const struct fm_test tests[] = {
	{ "the memory of trees is shared", test_memory_of_trees_is_shared },
	{ "what is over it is refused", test_what_is_over_it_is_refused },
	{ "walks and journals are bounded", test_walks_and_journals_are_bounded },
};
FM_TEST_MAIN("budget", tests)
