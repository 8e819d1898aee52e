/* SPDX-License-Identifier: MIT */
/* test_share - what one gets of a share, what is left for others and for root. links: fm_base */
#include "mover/base/share.h"

#include <errno.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "tests/fm_test.h"

#define HELD_MAX 1024

static struct fm_share share;
static struct fm_share_held held[HELD_MAX];
static unsigned held_count;
static struct fm_err err;

static void begin(uint64_t total, uint64_t root, unsigned times)
{
	fm_share_init(&share, &(struct fm_share_limits){ "places", total, root, 0, times });
	held_count = 0;
}

/* As much as one gets, a piece at a time. */
static unsigned greedy(struct fm_share_id id)
{
	unsigned n = 0;

	while (fm_share_take(&share, id, 1, &held[held_count], &err) == 0) {
		held_count++;
		n++;
	}
	CU_ASSERT_EQUAL(err.code, -EBUSY);
	CU_ASSERT_EQUAL(fm_share_of(&share, id), n);
	return n;
}

static void end(void)
{
	while (held_count > 0)
		fm_share_give_all(&held[--held_count]);
	CU_ASSERT_EQUAL(share.used, 0);
	CU_ASSERT_TRUE(fm_list_is_empty(&share.holders));
}

/* Goal: who wants everything leaves something, to the next one too. */
static void test_greedy(void)
{
	begin(48, 0, 1);
	CU_ASSERT_EQUAL(greedy(fm_share_name("a")), 24);
	CU_ASSERT_EQUAL(greedy(fm_share_name("b")), 12);
	CU_ASSERT_EQUAL(greedy(fm_share_name("c")), 6);
	CU_ASSERT_EQUAL(greedy(fm_share_name("d")), 3);
	CU_ASSERT_EQUAL(greedy(fm_share_name("e")), 1);
	CU_ASSERT_EQUAL(greedy(fm_share_name("f")), 1);
	CU_ASSERT_EQUAL(greedy(fm_share_name("g")), 1);
	CU_ASSERT_EQUAL(greedy(fm_share_name("h")), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "all places are taken (48)"));
	end();
}

static void test_seven_eighths(void)
{
	begin(64, 0, 7);
	CU_ASSERT_EQUAL(greedy(fm_share_user(1000)), 56);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "too many places are yours (56 of 64)"));
	CU_ASSERT_EQUAL(greedy(fm_share_user(1001)), 7);
	CU_ASSERT_EQUAL(greedy(fm_share_user(1002)), 1);
	end();
}

/* Goal: a table of one serves one; of two, two. */
static void test_small(void)
{
	begin(1, 0, 1);
	CU_ASSERT_EQUAL(greedy(fm_share_user(1)), 1);
	CU_ASSERT_EQUAL(greedy(fm_share_user(2)), 0);
	end();
	begin(2, 0, 7);
	CU_ASSERT_EQUAL(greedy(fm_share_user(1)), 1);
	CU_ASSERT_EQUAL(greedy(fm_share_user(2)), 1);
	end();
}

/* Goal: root's part is root's, whatever users took; more than that is a share as everybody's. */
static void test_root(void)
{
	begin(20, 4, 1);
	for (uid_t uid = 1; uid < 20; uid++)
		(void)greedy(fm_share_user(uid));
	CU_ASSERT_EQUAL(share.used, 16);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "all places are taken (16, beside root's)"));
	CU_ASSERT_EQUAL(greedy(fm_share_user(0)), 4);
	end();
	begin(20, 4, 1);
	CU_ASSERT_EQUAL(greedy(fm_share_user(0)), 10);
	CU_ASSERT_EQUAL(greedy(fm_share_user(1)), 3);
	end();
}

/* Goal: a peer that calls itself as a user's number is no user. */
static void test_names_are_no_users(void)
{
	begin(8, 4, 1);
	CU_ASSERT_EQUAL(greedy(fm_share_name("0")), 2);
	CU_ASSERT_EQUAL(fm_share_of(&share, fm_share_user(0)), 0);
	CU_ASSERT_EQUAL(fm_share_of(&share, fm_share_name("0")), 2);
	end();
}

static void test_most(void)
{
	fm_share_init(&share, &(struct fm_share_limits){ "jobs", 100, 10, 5, 7 });
	CU_ASSERT_EQUAL(greedy(fm_share_user(7)), 5);
	CU_ASSERT_EQUAL(greedy(fm_share_user(0)), 5);
	end();
}

/* Goal: who could have it later is told from who never could. */
static void test_full_is_no_never(void)
{
	fm_share_init(&share, &(struct fm_share_limits){ "jobs", 100, 10, 50, 1 });
	CU_ASSERT_EQUAL(greedy(fm_share_user(7)), 45);
	CU_ASSERT_TRUE(err.is_full);		/* too many are his */
	CU_ASSERT_EQUAL(fm_share_check(&share, fm_share_user(7), 50, &err), -EBUSY);
	CU_ASSERT_TRUE(err.is_full);
	CU_ASSERT_EQUAL(fm_share_check(&share, fm_share_user(7), 51, &err), -EBUSY);
	CU_ASSERT_FALSE(err.is_full);
	share.limits.most = 0;
	CU_ASSERT_EQUAL(fm_share_check(&share, fm_share_user(8), 90, &err), -EBUSY);
	CU_ASSERT_TRUE(err.is_full);		/* all are taken */
	CU_ASSERT_EQUAL(fm_share_check(&share, fm_share_user(8), 91, &err), -EBUSY);
	CU_ASSERT_FALSE(err.is_full);		/* root's are among them */
	CU_ASSERT_EQUAL(fm_share_check(&share, fm_share_user(0), 91, &err), -EBUSY);
	CU_ASSERT_TRUE(err.is_full);
	end();
	begin(0, 0, 1);
	CU_ASSERT_EQUAL(fm_share_check(&share, fm_share_user(8), 1, &err), -EBUSY);
	CU_ASSERT_FALSE(err.is_full);
	end();
}

/* Goal: amounts: one holder in several pieces, given back in others. */
static void test_amounts(void)
{
	struct fm_share_held h = { 0 }, other = { 0 };
	struct fm_share_id id = fm_share_user(1);

	begin(1000, 0, 1);
	CU_ASSERT_EQUAL(fm_share_take(&share, id, 1001, &h, &err), -EBUSY);
	CU_ASSERT_EQUAL(fm_share_take(&share, id, 700, &h, &err), 0);	/* the first may be large */
	CU_ASSERT_EQUAL(fm_share_take(&share, id, 1, &h, &err), -EBUSY);
	fm_share_give(&h, 500);
	CU_ASSERT_EQUAL(fm_share_take(&share, id, 300, &h, &err), 0);
	CU_ASSERT_EQUAL(fm_share_take(&share, id, 1, &other, &err), -EBUSY);
	CU_ASSERT_EQUAL(fm_share_of(&share, id), 500);
	fm_share_give(&h, 499);
	CU_ASSERT_EQUAL(h.count, 1);
	fm_share_give_all(&h);
	fm_share_give_all(&h);		/* nothing is left of it */
	CU_ASSERT_PTR_NULL(h.share);
	CU_ASSERT_EQUAL(share.used, 0);
	end();
}

/* Goal: what must be counted is, and takes from what the others may have. */
static void test_force_and_less(void)
{
	struct fm_share_held h = { 0 };

	begin(10, 0, 1);
	fm_share_force(&share, fm_share_user(1), 12, &h);
	CU_ASSERT_EQUAL(fm_share_check(&share, fm_share_user(2), 1, &err), -EBUSY);
	fm_share_set_total(&share, 14);
	CU_ASSERT_EQUAL(fm_share_check(&share, fm_share_user(2), 1, &err), 0);
	CU_ASSERT_EQUAL(fm_share_check(&share, fm_share_user(1), 1, &err), -EBUSY);
	fm_share_set_total(&share, 3);
	CU_ASSERT_EQUAL(fm_share_check(&share, fm_share_user(2), 1, &err), -EBUSY);
	fm_share_give_all(&h);
	end();
}

static void test_no_memory(void)
{
	if (fm_test_lacks_faults())
		return;
	begin(10, 0, 1);
	fm_fault_arm("share.holder", 1);
	CU_ASSERT_EQUAL(fm_share_take(&share, fm_share_user(1), 1, &held[0], &err), -ENOMEM);
	CU_ASSERT_EQUAL(share.used, 0);
	fm_fault_arm("share.holder", 1);
	fm_share_force(&share, fm_share_user(1), 1, &held[0]);
	CU_ASSERT_EQUAL(share.used, 0);
	fm_share_give_all(&held[0]);
	end();
}

static void test_no_share(void)
{
	begin(5, 1, 0);
	CU_ASSERT_EQUAL(greedy(fm_share_user(1)), 4);
	CU_ASSERT_EQUAL(greedy(fm_share_user(0)), 1);
	end();
}

static const struct fm_test tests[] = {
	{ "who wants everything leaves something to everybody who comes later", test_greedy },
	{ "seven eighths", test_seven_eighths },
	{ "small tables", test_small },
	{ "some is kept for root", test_root },
	{ "a name is no user", test_names_are_no_users },
	{ "a fixed most for each", test_most },
	{ "what may be had later is told from what never may", test_full_is_no_never },
	{ "amounts", test_amounts },
	{ "what is there already is counted, and a total may shrink", test_force_and_less },
	{ "no memory", test_no_memory },
	{ "first come, first served", test_no_share },
};
FM_TEST_MAIN("share", tests)
