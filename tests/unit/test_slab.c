/* SPDX-License-Identifier: MIT */
/* links: fm_engine */
#include "tests/fm_test.h"

#include <errno.h>
#include <stdint.h>

#include "mover/base/err.h"
#include "mover/slab.h"

#define SLAB 65536u
static char memory[8 * SLAB];

static struct fm_slabs *slabs_of(unsigned count)
{
	struct fm_slabs *s = NULL;

	CU_ASSERT_EQUAL_FATAL(fm_slabs_new(memory, (size_t)count * SLAB, SLAB, &s, NULL), 0);
	return s;
}

static void test_too_small(void)
{
	struct fm_slabs *s;
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL(fm_slabs_new(memory, SLAB, SLAB, &s, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "two slabs"));
}

/* Goal: no use can take what the other needs to make progress. */
static void test_halves(void)
{
	struct fm_slabs *s = slabs_of(5);
	int tx[5], n = 0;

	while ((tx[n] = fm_slabs_take(s, FM_SLAB_TX)) >= 0)
		n++;
	CU_ASSERT_EQUAL(n, 2);
	CU_ASSERT_EQUAL(tx[n], -EAGAIN);
	for (int i = 0; i < 3; i++)
		CU_ASSERT_TRUE(fm_slabs_take(s, FM_SLAB_RX) >= 0);
	CU_ASSERT_EQUAL(fm_slabs_take(s, FM_SLAB_RX), -EAGAIN);
	CU_ASSERT_EQUAL(fm_slabs_free_count(s), 0);
	for (int i = 0; i < 2; i++)
		fm_slabs_put(s, FM_SLAB_TX, tx[i]);
	CU_ASSERT_EQUAL(fm_slabs_take(s, FM_SLAB_RX), -EAGAIN);
	for (int i = 0; i < 5; i++)
		if (i != tx[0] && i != tx[1])
			fm_slabs_put(s, FM_SLAB_RX, i);
	CU_ASSERT_EQUAL(fm_slabs_free_count(s), 5);
	fm_slabs_free(s);
}

static void test_disjoint(void)
{
	struct fm_slabs *s = slabs_of(8);
	int a = fm_slabs_take(s, FM_SLAB_TX), b = fm_slabs_take(s, FM_SLAB_RX);
	char *at_a = fm_slabs_at(s, a), *at_b = fm_slabs_at(s, b);

	CU_ASSERT_NOT_EQUAL(a, b);
	CU_ASSERT_EQUAL((size_t)(at_a - memory) % SLAB, 0);
	CU_ASSERT_TRUE(at_a + SLAB <= at_b || at_b + SLAB <= at_a);
	fm_slabs_put(s, FM_SLAB_TX, a);
	CU_ASSERT_EQUAL(fm_slabs_take(s, FM_SLAB_TX), a);	/* the warm one first */
	fm_slabs_put(s, FM_SLAB_TX, a);
	fm_slabs_put(s, FM_SLAB_RX, b);
	fm_slabs_free(s);
}

static void test_waiting(void)
{
	struct fm_slabs *s = slabs_of(4);

	CU_ASSERT_FALSE(fm_slabs_is_wanted(s, FM_SLAB_RX));
	fm_slabs_wait(s, FM_SLAB_RX, 1);
	CU_ASSERT_TRUE(fm_slabs_is_wanted(s, FM_SLAB_RX));
	CU_ASSERT_FALSE(fm_slabs_is_wanted(s, FM_SLAB_TX));
	fm_slabs_wait(s, FM_SLAB_RX, -1);
	CU_ASSERT_FALSE(fm_slabs_is_wanted(s, FM_SLAB_RX));
	fm_slabs_free(s);
}

static const struct fm_test tests[] = {
	{ "an arena that does not hold two slabs is refused with the numbers", test_too_small },
	{ "sending and receiving each get at most their half, and get it whatever the other does", test_halves },
	{ "two leases never overlap, and the last slab given back is taken first", test_disjoint },
	{ "who waits for a slab is seen by those who could give one back, for that use only", test_waiting },
};
FM_TEST_MAIN("slab", tests)
