/* SPDX-License-Identifier: MIT */
/*
 * refusals: which runs are not begun anew for a while, and whose are forgotten first.
 *
 * links: fm_staging_service
 */
#include <errno.h>
#include <stdio.h>

#include "staging/service/refusals.h"
#include "tests/fm_test.h"

static struct fm_refusals all;
static uint64_t now_ns;

static void begin(void)
{
	all = (struct fm_refusals){ 0 };
	now_ns = 1;
}

/* The run of that number, which a message of that peer began, each a little later. */
static void note(unsigned number, const char *by)
{
	uint8_t run[FM_WIRE_STAGE_RUN_LEN] = { (uint8_t)number, (uint8_t)(number >> 8) };
	struct fm_err why;

	(void)fm_err_set(&why, -EOPNOTSUPP, "run %u", number);
	fm_refusals_note(&all, run, by, ++now_ns, &why);
}

static bool is_there(unsigned number)
{
	uint8_t run[FM_WIRE_STAGE_RUN_LEN] = { (uint8_t)number, (uint8_t)(number >> 8) };
	char text[32];
	struct fm_err why;

	(void)snprintf(text, sizeof(text), "run %u", number);
	if (fm_refusals_find(&all, run, now_ns, &why) == 0)
		return false;
	CU_ASSERT_EQUAL(why.code, -EOPNOTSUPP);
	CU_ASSERT_STRING_EQUAL(why.text, text);
	return true;
}

static void test_for_a_while(void)
{
	uint8_t run[FM_WIRE_STAGE_RUN_LEN] = { 1 };

	begin();
	CU_ASSERT_FALSE(is_there(0));	/* what is free has that number, too */
	note(1, "n1");
	CU_ASSERT_TRUE(is_there(1));
	CU_ASSERT_FALSE(is_there(2));
	now_ns += FM_REFUSALS_KEPT_NS - 1;
	CU_ASSERT_TRUE(is_there(1));
	now_ns++;
	CU_ASSERT_FALSE(is_there(1));
	note(1, "n1");
	CU_ASSERT_TRUE(is_there(1));
	fm_refusals_forget(&all, run);
	CU_ASSERT_FALSE(is_there(1));
	fm_refusals_forget(&all, run);
}

/* One that is refused time and again takes one place. */
static void test_again(void)
{
	begin();
	note(1, "n1");
	for (unsigned i = 0; i < 3 * FM_REFUSALS_MAX; i++)
		note(2, "n2");
	CU_ASSERT_TRUE(is_there(1));
	CU_ASSERT_TRUE(is_there(2));
}

/* A peer that brings many takes the places of none that brings few. */
static void test_one_brings_many(void)
{
	begin();
	note(1, "");
	note(2, "n2");
	note(3, "n2");
	for (unsigned i = 4; i < 4 + 2 * FM_REFUSALS_MAX; i++)
		note(i, "n1");
	CU_ASSERT_TRUE(is_there(1));
	CU_ASSERT_TRUE(is_there(2));
	CU_ASSERT_TRUE(is_there(3));
	CU_ASSERT_TRUE(is_there(3 + 2 * FM_REFUSALS_MAX));
	CU_ASSERT_TRUE(is_there(3 + FM_REFUSALS_MAX + 4));	/* its oldest that is there */
	CU_ASSERT_FALSE(is_there(3 + FM_REFUSALS_MAX + 3));
	note(4, "n2");
	CU_ASSERT_TRUE(is_there(2));
	CU_ASSERT_FALSE(is_there(3 + FM_REFUSALS_MAX + 4));
}

/* What is over makes room first, whose ever it is. */
static void test_over_first(void)
{
	begin();
	note(1, "n2");
	now_ns += FM_REFUSALS_KEPT_NS / 2;
	for (unsigned i = 2; i <= FM_REFUSALS_MAX; i++)
		note(i, "n1");
	now_ns += FM_REFUSALS_KEPT_NS / 2;
	note(FM_REFUSALS_MAX + 1, "n3");
	for (unsigned i = 2; i <= FM_REFUSALS_MAX + 1; i++)
		CU_ASSERT_TRUE(is_there(i));
}

static const struct fm_test tests[] = {
	{ "known for a while", test_for_a_while },
	{ "the same again takes one place", test_again },
	{ "one that brings many takes no other's place", test_one_brings_many },
	{ "what is over makes room first", test_over_first },
};
FM_TEST_MAIN("refusals", tests)
