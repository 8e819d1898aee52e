/* SPDX-License-Identifier: MIT */
/* links: fm_staging_service */
/* test_mending - when no other node is asked for the bytes that a source does not give. */
#include "tests/fm_test.h"

#include "staging/service/mending.c"

static bool is_refused(int code, bool is_rule)
{
	struct mending m = { .o = { .source = "n1:s/set" },
			     .err = { .code = code, .is_rule = is_rule } };
	struct fm_err err;

	note_refusal(&m);
	return may_borrow(&m, &err) == -EACCES;
}

static void test_refusal(void)
{
	CU_ASSERT_TRUE(is_refused(-EACCES, true));
	CU_ASSERT_TRUE(is_refused(-EPERM, false));
	CU_ASSERT_FALSE(is_refused(-EACCES, false));	/* it does not know our key */
	CU_ASSERT_FALSE(is_refused(-ENOENT, false));
	CU_ASSERT_FALSE(is_refused(-EHOSTUNREACH, false));
}

static const struct fm_test tests[] = {
	{ "where its rules, or its file, refuse them: not where its node does not talk",
	  test_refusal },
};
FM_TEST_MAIN("mending", tests)
