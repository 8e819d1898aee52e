/* SPDX-License-Identifier: MIT */
/* Waiting for a call, but not for ever. links: fm_base */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/within.h"
#include "tests/fm_test.h"

static atomic_bool is_let_go, has_ended;

static void count(void *arg)
{
	(*(unsigned *)arg)++;
}

static void hang(void *arg)
{
	(void)arg;
	while (!atomic_load(&is_let_go))
		sched_yield();
	atomic_store(&has_ended, true);
}

static void test_over(void)
{
	unsigned calls = 0;

	CU_ASSERT_EQUAL(fm_within(count, &calls, FM_TEST_HANG_S * FM_NS_PER_S), 0);
	CU_ASSERT_EQUAL(calls, 1);
}

static void test_left(void)
{
	CU_ASSERT_EQUAL(fm_within(hang, NULL, FM_NS_PER_MS), -ETIMEDOUT);
	CU_ASSERT_FALSE(atomic_load(&has_ended));
	atomic_store(&is_let_go, true);
	while (!atomic_load(&has_ended))
		sched_yield();
}

/* Without memory it is not called, and what it was to have is the caller's still. */
static void test_no_memory(void)
{
	unsigned calls = 0;

	fm_fault_arm("within.call", 1);
	CU_ASSERT_EQUAL(fm_within(count, &calls, FM_NS_PER_S), fm_fault_fired() ? -ENOMEM : 0);
	CU_ASSERT_EQUAL(calls, fm_fault_fired() ? 0 : 1);
	fm_fault_arm(NULL, 0);
}

static const struct fm_test tests[] = {
	{"what returns is waited for", test_over},
	{"what does not is left to itself", test_left},
	{"without memory it is not called", test_no_memory},
};

FM_TEST_MAIN("within", tests)
