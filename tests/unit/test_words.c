/* SPDX-License-Identifier: MIT */
/* test_words - the words of options, states and kinds. links: fm_base */
#include "mover/base/words.h"

#include <stddef.h>
#include <string.h>

#include "tests/fm_test.h"

static const char *const *const tables[] = {
	fm_words_transport, fm_words_durability, fm_words_priority,   fm_words_readback,
	fm_words_state,	    fm_words_kind,	 fm_words_encryption,
};

/* Goal: each word is read as the place that it stands at, so no table has one twice. */
static void test_there_and_back(void)
{
	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
		for (int i = 0; tables[t][i]; i++)
			CU_ASSERT_EQUAL(fm_word_parse(tables[t], tables[t][i]), i);
}

/* Goal: a beginning, more than a word, another case and nothing are no words. */
static void test_no_word(void)
{
	static const char *const bad[] = { "", "rdm", "rdmax", "RDMA", " rdma" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(fm_word_parse(fm_words_transport, bad[i]), -1);
}

/* Goal: the words are those that are written down in jobs and configurations, and a change of one
 * is seen here. */
static void test_as_they_are_written_down(void)
{
	CU_ASSERT_EQUAL(fm_word_parse(fm_words_transport, "rdma"), 1);
	CU_ASSERT_EQUAL(fm_word_parse(fm_words_durability, "memory"), 2);
	CU_ASSERT_EQUAL(fm_word_parse(fm_words_priority, "low"), 1);
	CU_ASSERT_EQUAL(fm_word_parse(fm_words_readback, "readback"), 1);
	CU_ASSERT_EQUAL(fm_word_parse(fm_words_state, "cancelled"), 6);
	CU_ASSERT_EQUAL(fm_word_parse(fm_words_kind, "rdma"), 1);
	CU_ASSERT_EQUAL(fm_word_parse(fm_words_encryption, "ktls"), 2);
}

static const struct fm_test tests[] = {
	{ "each word is read as its place", test_there_and_back },
	{ "what is no word", test_no_word },
	{ "as they are written down", test_as_they_are_written_down },
};
FM_TEST_MAIN("words", tests)
