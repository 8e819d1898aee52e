/* SPDX-License-Identifier: MIT */
/*
 * What a node asks another one to keep for a user of its own: the bytes of it and of its answer,
 * and what is neither.
 * links: fm_staging_service
 */
#include "staging/service/keep.h"
#include "mover/store/store.h"

#include <errno.h>
#include <string.h>

#include "mover/base/bytes.h"
#include "staging/service/wire_text.h"
#include "tests/fm_test.h"

static uint8_t buf[FM_WIRE_STAGE_MAX];

static const struct fm_cache_key key = { .bytes = { 9, [31] = 8 } };

/* What a node hears of one that encodes without a look. */
static int forged(const struct fm_stage_keep *k, struct fm_stage_keep *out)
{
	struct fm_writer w = { buf, buf + sizeof(buf), false };

	fm_put_le64(&w, k->id);
	fm_put_u8(&w, (uint8_t)k->verb);
	fm_put_le32(&w, k->uid);
	fm_put_le64(&w, k->hold);
	fm_put_bytes(&w, k->key.bytes, sizeof(k->key.bytes));
	fm_put_bytes(&w, k->job, FM_WIRE_JOB_LEN);
	fm_stage_put_text(&w, k->name);
	return fm_stage_keep_decode(buf, (size_t)(w.at - buf), out);
}

static void test_keep(void)
{
	static const uint8_t golden[63] = { 7,		0,	  0, 0, 0, 0, 0, 1, FM_STAGE_HOLD,
					    0xe8,	3,	  0, 0, 5, 0, 0, 0, 0,
					    0,		0,	  1, 9, [52] = 8,
					    'a',	'2',	  'b', '3', 'c', '4', 'd', '5' };
	const struct fm_stage_keep k = { .id = 0x0100000000000007,
					 .verb = FM_STAGE_HOLD,
					 .uid = 1000,
					 .hold = 0x0100000000000005,
					 .key = key, .job = "a2b3c4d5" };
	struct fm_stage_keep out;

	CU_ASSERT_EQUAL(fm_stage_keep_encode(&k, buf), sizeof(golden));
	CU_ASSERT_EQUAL(memcmp(buf, golden, sizeof(golden)), 0);
	CU_ASSERT_EQUAL(fm_stage_keep_decode(golden, sizeof(golden), &out), 0);
	CU_ASSERT_TRUE(out.id == k.id && out.verb == k.verb && out.uid == 1000 &&
		       out.hold == k.hold && out.name[0] == '\0');
	CU_ASSERT_EQUAL(memcmp(&out.key, &key, sizeof(key)), 0);
	CU_ASSERT_STRING_EQUAL(out.job, "a2b3c4d5");
}

/* It may have none, but no other bytes, and what ends a hold is of no request. */
static void test_job(void)
{
	struct fm_stage_keep k = { .verb = FM_STAGE_PIN, .key = key }, out;

	CU_ASSERT_EQUAL(fm_stage_keep_decode(buf, fm_stage_keep_encode(&k, buf), &out), 0);
	CU_ASSERT_STRING_EQUAL(out.job, "");
	(void)strcpy(k.job, "a2b3c4d5");
	k.job[7] = '\n';
	CU_ASSERT_EQUAL(forged(&k, &out), -EBADMSG);
	CU_ASSERT_EQUAL(fm_stage_keep_encode(&k, buf), 0);
	k.job[7] = '\0';
	CU_ASSERT_EQUAL(forged(&k, &out), -EBADMSG);
	k = (struct fm_stage_keep){ .verb = FM_STAGE_RELEASE, .hold = 1, .job = "a2b3c4d5" };
	CU_ASSERT_EQUAL(forged(&k, &out), -EBADMSG);
	CU_ASSERT_EQUAL(fm_stage_keep_encode(&k, buf), 0);
}

static void test_kept(void)
{
	static const uint8_t golden[] = { 7, 0, 0, 0, 0, 0, 0, 0, EDQUOT, 0, 0, 0, 3, 0, 'w', 'h',
					  'y' };
	const struct fm_stage_kept k = { .id = 7, .code = -EDQUOT, .text = "why" };
	struct fm_stage_kept out;

	CU_ASSERT_EQUAL(fm_stage_kept_encode(&k, buf), sizeof(golden));
	CU_ASSERT_EQUAL(memcmp(buf, golden, sizeof(golden)), 0);
	CU_ASSERT_EQUAL(fm_stage_kept_decode(golden, sizeof(golden), &out), 0);
	CU_ASSERT_TRUE(out.id == 7 && out.code == -EDQUOT);
	CU_ASSERT_STRING_EQUAL(out.text, "why");
}

/*
 * Each verb names its dataset as it must, and has a hold if it is of one. What no node takes is not
 * sent either: it would end the session.
 */
static void test_verbs(void)
{
	static const struct {
		enum fm_stage_verb verb;
		uint64_t hold;
		bool has_key;
		const char *name;
		int ret;
	} cases[] = {
		{ FM_STAGE_HOLD, 1, true, "", 0 },
		{ FM_STAGE_HOLD, 0, true, "", -EBADMSG },
		{ FM_STAGE_HOLD, 1, false, "a", -EBADMSG },
		{ FM_STAGE_RELEASE, 1, false, "", 0 },
		{ FM_STAGE_RELEASE, 1, true, "", -EBADMSG },
		{ FM_STAGE_PIN, 0, true, "", 0 },
		{ FM_STAGE_PIN, 0, false, "a", 0 },
		{ FM_STAGE_PIN, 0, true, "a", -EBADMSG },
		{ FM_STAGE_PIN, 0, false, "", -EBADMSG },
		{ FM_STAGE_PIN, 1, true, "", -EBADMSG },
		{ FM_STAGE_UNPIN, 0, false, "a", 0 },
		{ FM_STAGE_UNPIN, 0, true, "", -EBADMSG },
		{ FM_STAGE_UNSTAGE, 0, false, "a", 0 },
		{ 0, 1, true, "", -EBADMSG },
		{ FM_STAGE_SHOW, 0, true, "main", 0 },
		{ FM_STAGE_SHOW, UINT32_MAX, true, "pr/1", 0 },
		{ FM_STAGE_SHOW, UINT32_MAX + UINT64_C(1), true, "main", -EBADMSG },
		{ FM_STAGE_SHOW, 0, false, "main", -EBADMSG },
		{ FM_STAGE_SHOW, 0, true, "", -EBADMSG },
		{ FM_STAGE_SHOW, 0, true, "../main", -EBADMSG },
		{ FM_STAGE_SHOW, 0, true, "a/../../b", -EBADMSG },
		{ FM_STAGE_SHOW, 0, true, "/etc/passwd", -EBADMSG },
		{ FM_STAGE_SHOW, 0, true, "a//b", -EBADMSG },
		{ FM_STAGE_SHOW, 0, true, ".new", -EBADMSG },
		{ FM_STAGE_SHOW, 0, true, "a\033[2J", -EBADMSG },
		{ FM_STAGE_LET, 0, true, "", 0 },
		{ FM_STAGE_LET, 1, true, "", -EBADMSG },
		{ FM_STAGE_LET, 0, true, "a", -EBADMSG },
		{ FM_STAGE_LET, 0, false, "", -EBADMSG },
		{ FM_STAGE_VERB_LAST + 1, 0, false, "a", -EBADMSG },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fm_stage_keep k = { .verb = cases[i].verb, .hold = cases[i].hold }, out;

		if (cases[i].has_key)
			k.key = key;
		(void)strcpy(k.name, cases[i].name);
		CU_ASSERT_EQUAL(forged(&k, &out), cases[i].ret);
		CU_ASSERT_EQUAL(fm_stage_keep_encode(&k, buf) > 0, cases[i].ret == 0);
	}
}

/* Every length but the right one, and values that are none. */
static void test_broken(void)
{
	struct fm_stage_keep k = { .verb = FM_STAGE_PIN };
	struct fm_stage_kept a = { .text = "text" };
	size_t len;

	memset(k.name, 'n', FM_CACHE_NAME_MAX);
	len = fm_stage_keep_encode(&k, buf);
	CU_ASSERT_EQUAL(fm_stage_keep_decode(buf, len, &k), 0);
	for (size_t cut = 0; cut < len; cut++)
		CU_ASSERT_EQUAL(fm_stage_keep_decode(buf, cut, &k), -EBADMSG);
	CU_ASSERT_EQUAL(fm_stage_keep_decode(buf, len + 1, &k), -EBADMSG);
	buf[68] = 0;			/* within the name */
	CU_ASSERT_EQUAL(fm_stage_keep_decode(buf, len, &k), -EBADMSG);
	buf[68] = 'n';
	buf[len] = 'n';			/* a byte more than a name has */
	buf[61]++;
	CU_ASSERT_EQUAL(fm_stage_keep_decode(buf, len + 1, &k), -EBADMSG);

	len = fm_stage_kept_encode(&a, buf);
	CU_ASSERT_EQUAL(fm_stage_kept_decode(buf, len, &a), 0);
	for (size_t cut = 0; cut < len; cut++)
		CU_ASSERT_EQUAL(fm_stage_kept_decode(buf, cut, &a), -EBADMSG);
	CU_ASSERT_EQUAL(fm_stage_kept_decode(buf, len + 1, &a), -EBADMSG);
	a.code = -4096;
	CU_ASSERT_EQUAL(fm_stage_kept_encode(&a, buf), 0);
	a.code = 0;
	/* a path of any length fits */
	memset(a.text, 'x', FM_PATH_LEN_MAX);
	a.text[FM_PATH_LEN_MAX] = '\0';
	len = fm_stage_kept_encode(&a, buf);
	memset(&a, 0, sizeof(a));
	CU_ASSERT_EQUAL(fm_stage_kept_decode(buf, len, &a), 0);
	CU_ASSERT_EQUAL(strlen(a.text), FM_PATH_LEN_MAX);
	buf[9] = 0x10;			/* 4096 */
	CU_ASSERT_EQUAL(fm_stage_kept_decode(buf, len, &a), -EBADMSG);
}

static const struct fm_test tests[] = {
	{ "the bytes of what is to be kept", test_keep },
	{ "the id of the request", test_job },
	{ "the bytes of the answer", test_kept },
	{ "each verb names its dataset as it must", test_verbs },
	{ "what is neither", test_broken },
};

FM_TEST_MAIN("stage_keep", tests)
