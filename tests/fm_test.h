/* SPDX-License-Identifier: MIT */
/*
 * fm_test - the main() of a CUnit program: one table of tests, an exit status that tells the truth.
 *
 * 0: all passed. 1: a failure, or no test ran. 77: skipped; say why with fm_test_skip() before any
 * assertion failed.
 */
#ifndef FM_TEST_H
#define FM_TEST_H

#include <CUnit/Basic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* When a test gives up waiting: for what never comes. How fast a machine is decides no test. */
#define FM_TEST_HANG_S 120u

struct fm_test {
	const char *name;	/* a sentence about behaviour */
	void (*run)(void);
};

/* This whole program cannot run here. */
static inline void fm_test_skip(const char *why)
{
	printf("SKIP: %s\n", why);
	exit(77);
}

/* True, and said, where there are no fault points: what one test is about cannot happen in such a
 * build. */
static inline bool fm_test_lacks_faults(void)
{
#ifdef FM_FAULTS
	return false;
#else
	printf("SKIP: built without fault points\n");
	return true;
#endif
}

static inline int fm_test_main(const char *suite_name, const struct fm_test *tests, size_t count)
{
	CU_pSuite suite;
	bool is_bad;

	if (CU_initialize_registry() != CUE_SUCCESS)
		return 1;
	suite = CU_add_suite(suite_name, NULL, NULL);
	for (size_t i = 0; suite && i < count; i++)
		if (!CU_add_test(suite, tests[i].name, tests[i].run))
			return 1;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	(void)CU_basic_run_tests();	/* the counts below say more than its result */
	is_bad = CU_get_number_of_failures() > 0 || CU_get_number_of_tests_run() != count;
	CU_cleanup_registry();
	return is_bad ? 1 : 0;
}

#define FM_TEST_MAIN(suite, tests) \
	int main(void) \
	{ \
		return fm_test_main(suite, tests, sizeof(tests) / sizeof((tests)[0])); \
	}

#endif
