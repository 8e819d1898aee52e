/* SPDX-License-Identifier: MIT */
/*
 * What nodes ask each other of datasets: the bytes of a question and of an answer, and what is
 * none.
 * links: fm_staging_service
 */
#include "staging/service/there.h"
#include "staging/manifest.h"

#include <errno.h>
#include <string.h>

#include "tests/fm_test.h"

static uint8_t buf[FM_WIRE_STAGE_MAX];

static void test_question(void)
{
	static const uint8_t golden[10 + 32] = { 7, 0, 0, 0, 0, 0, 0, 1, 1, 0, 9, [41] = 8 };
	static const struct fm_stage_question q = { .id = 0x0100000000000007,
						    .count = 1,
						    .key = { { .bytes = { 9, [31] = 8 } } } };
	static struct fm_stage_question out;

	CU_ASSERT_EQUAL(fm_stage_question_encode(&q, buf), sizeof(golden));
	CU_ASSERT_EQUAL(memcmp(buf, golden, sizeof(golden)), 0);
	CU_ASSERT_EQUAL(fm_stage_question_decode(golden, sizeof(golden), &out), 0);
	CU_ASSERT_EQUAL(out.id, q.id);
	CU_ASSERT_EQUAL(out.count, 1);
	CU_ASSERT_EQUAL(memcmp(&out.key, &q.key, sizeof(out.key[0])), 0);
}

static void test_answer(void)
{
	static const uint8_t golden[14 + 18] = { 7, [12] = 2, [14] = 3, 0x30, 0x75, [23] = 0 };
	static const struct fm_stage_answer a = { .id = 7,
						  .count = 2,
						  .at = { { FM_STAGE_READY, 30000 } } };
	static struct fm_stage_answer out;

	CU_ASSERT_EQUAL(fm_stage_answer_encode(&a, buf), sizeof(golden));
	CU_ASSERT_EQUAL(memcmp(buf, golden, sizeof(golden)), 0);
	CU_ASSERT_EQUAL(fm_stage_answer_decode(golden, sizeof(golden), &out), 0);
	CU_ASSERT_EQUAL(out.code, 0);
	CU_ASSERT_EQUAL(out.at[0].bytes, 30000);
	CU_ASSERT_EQUAL(out.at[1].state, FM_STAGE_ABSENT);
}

/* Every length but the right one, more than there may be, and values that are none. */
static void test_broken(void)
{
	static struct fm_stage_question q = { .count = FM_STAGE_THERE_MAX };
	static struct fm_stage_answer a = { .count = FM_STAGE_THERE_MAX };
	size_t len = fm_stage_question_encode(&q, buf);

	CU_ASSERT_EQUAL(fm_stage_question_decode(buf, len, &q), 0);
	CU_ASSERT_EQUAL(fm_stage_question_decode(buf, len + 1, &q), -EBADMSG);
	CU_ASSERT_EQUAL(fm_stage_question_decode(buf, len - 1, &q), -EBADMSG);
	CU_ASSERT_EQUAL(fm_stage_question_decode(buf, 9, &q), -EBADMSG);
	memset(buf + 8, 0, 2);		/* of nothing */
	CU_ASSERT_EQUAL(fm_stage_question_decode(buf, 10, &q), -EBADMSG);
	buf[9] = 2;			/* of 512 */
	CU_ASSERT_EQUAL(fm_stage_question_decode(buf, 10 + 512 * 32, &q), -EBADMSG);

	len = fm_stage_answer_encode(&a, buf);
	CU_ASSERT_EQUAL(fm_stage_answer_decode(buf, len, &a), 0);
	CU_ASSERT_EQUAL(fm_stage_answer_decode(buf, len - 1, &a), -EBADMSG);
	buf[14] = FM_STAGE_THERE_STATES;
	CU_ASSERT_EQUAL(fm_stage_answer_decode(buf, len, &a), -EBADMSG);
	buf[14] = FM_STAGE_READY;
	buf[22] = 0xff;			/* more bytes than any dataset has */
	CU_ASSERT_EQUAL(fm_stage_answer_decode(buf, len, &a), -EBADMSG);
	buf[22] = 0;
	buf[8] = EACCES;		/* refused, and yet an answer */
	CU_ASSERT_EQUAL(fm_stage_answer_decode(buf, len, &a), -EBADMSG);
}

/* Nor is any of that sent. */
static void test_not_sent(void)
{
	static struct fm_stage_question q;
	static struct fm_stage_answer a;

	CU_ASSERT_EQUAL(fm_stage_question_encode(&q, buf), 0);
	q.count = FM_STAGE_THERE_MAX + 1;
	CU_ASSERT_EQUAL(fm_stage_question_encode(&q, buf), 0);
	a.count = 1;
	CU_ASSERT_TRUE(fm_stage_answer_encode(&a, buf) > 0);
	a.at[0].bytes = FM_STAGE_BYTES_MAX + 1;
	CU_ASSERT_EQUAL(fm_stage_answer_encode(&a, buf), 0);
	a.at[0].bytes = 0;
	a.code = -EACCES;
	CU_ASSERT_EQUAL(fm_stage_answer_encode(&a, buf), 0);
}

static const struct fm_test tests[] = {
	{ "a question's bytes", test_question },
	{ "an answer's bytes", test_answer },
	{ "what is neither", test_broken },
	{ "and is not sent", test_not_sent },
};

FM_TEST_MAIN("stage_there", tests)
