/* SPDX-License-Identifier: MIT */
/* Unit tests of mover/base/text.c. */
#include "tests/fm_test.h"

#include <string.h>

#include "mover/base/text.h"

static void test_pieces(void)
{
	char room[8] = "old";
	struct fm_text t = { .at = room, .left = sizeof(room) };

	fm_text_add(&t, "%s", "");
	CU_ASSERT_STRING_EQUAL(room, "");
	fm_text_add(&t, "ab%d", 12);
	fm_text_add(&t, "%s", "cde");
	CU_ASSERT_STRING_EQUAL(room, "ab12cde");
	CU_ASSERT_FALSE(t.is_full);
	fm_text_add(&t, "%s", "");
	CU_ASSERT_FALSE(t.is_full);
}

static void test_cut(void)
{
	char room[8 + 1];
	struct fm_text t = { .at = room, .left = 8 };

	memset(room, 'x', sizeof(room));
	fm_text_add(&t, "abcd");
	fm_text_add(&t, "efgh");
	CU_ASSERT_TRUE(t.is_full);
	fm_text_add(&t, "i");
	CU_ASSERT_STRING_EQUAL(room, "abcdefg");
	CU_ASSERT_EQUAL(room[8], 'x');
}

static const struct fm_test tests[] = {
	{ "pieces follow each other, up to the last byte", test_pieces },
	{ "what does not fit is cut, and nothing comes behind it", test_cut },
};
FM_TEST_MAIN("text", tests)
