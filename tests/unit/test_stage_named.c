/* SPDX-License-Identifier: MIT */
/*
 * Whom a node names: what cannot be is refused, and no node names more than a list takes.
 * links: fm_staging_service
 */
#include "staging/service/named.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/bytes.h"
#include "staging/cache.h"
#include "tests/fm_test.h"

static uint8_t buf[FM_WIRE_STAGE_MAX];
static struct fm_stage_named n, out;

static int decoded(void)
{
	return fm_stage_named_decode(buf, fm_stage_named_encode(&n, buf), &out);
}

static void named_new(void)
{
	memset(&n, 0, sizeof(n));
	(void)strcpy(n.store, "data");
}

static void test_words(void)
{
	char store[FM_WIRE_NAME_MAX + 1];
	size_t len = fm_stage_who_encode("data", buf);

	CU_ASSERT_EQUAL(fm_stage_who_decode(buf, len, store), 0);
	CU_ASSERT_STRING_EQUAL(store, "data");
	CU_ASSERT_EQUAL(fm_stage_who_decode(buf, len - 1, store), -EBADMSG);
	CU_ASSERT_EQUAL(fm_stage_who_decode(buf, fm_stage_who_encode("a/b", buf), store), -EBADMSG);
	named_new();
	fm_stage_named_add(&n, FM_ACCESS_USER, 1000, "ann");
	fm_stage_named_add(&n, FM_ACCESS_GROUP, 1000, "ml");
	fm_stage_named_add(&n, FM_ACCESS_ALL, 0, "");
	CU_ASSERT_EQUAL_FATAL(decoded(), 0);
	CU_ASSERT_TRUE(out.code == 0 && out.count == 3);
	CU_ASSERT_STRING_EQUAL(out.store, "data");
	CU_ASSERT_STRING_EQUAL(out.at[0].name, "ann");
	CU_ASSERT_TRUE(out.at[1].kind == FM_ACCESS_GROUP && out.at[2].kind == FM_ACCESS_ALL);
}

static void test_refusal(void)
{
	named_new();
	n.code = -EACCES;
	CU_ASSERT_EQUAL(decoded(), 0);
	CU_ASSERT_TRUE(out.code == -EACCES && out.count == 0);
	fm_stage_named_add(&n, FM_ACCESS_USER, 0, "ann");
	CU_ASSERT_EQUAL(decoded(), -EBADMSG);
}

/* A list has room for all that is taken, whatever a peer says. */
static void test_too_many(void)
{
	char name[FM_STAGE_NAMED_LEN + 2];

	CU_ASSERT_TRUE(FM_STAGE_NAMED_MAX <= FM_CACHE_READERS_MAX);
	named_new();
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	fm_stage_named_add(&n, FM_ACCESS_USER, 0, name);
	CU_ASSERT_EQUAL(n.count, 0);		/* too long to travel */
	name[sizeof(name) - 2] = '\0';
	for (unsigned i = 0; i < FM_STAGE_NAMED_MAX + 10; i++)
		fm_stage_named_add(&n, FM_ACCESS_USER, 0, name);
	CU_ASSERT_EQUAL(n.count, FM_STAGE_NAMED_MAX);
	CU_ASSERT_EQUAL(decoded(), 0);
	CU_ASSERT_EQUAL(out.count, FM_STAGE_NAMED_MAX);
	/* The count of one more, with that one behind the others. */
	memset(&n, 0, sizeof(n));
	(void)strcpy(n.store, "data");
	for (unsigned i = 0; i < FM_STAGE_NAMED_MAX; i++)
		fm_stage_named_add(&n, FM_ACCESS_USER, 0, "u");
	size_t len = fm_stage_named_encode(&n, buf);
	const uint8_t one[] = { FM_ACCESS_USER, 1, 0, 'u' };

	memcpy(buf + len, one, sizeof(one));
	CU_ASSERT_EQUAL(fm_stage_named_decode(buf, len + sizeof(one), &out), -EBADMSG);
	buf[4 + 2 + 4]++;	/* behind the code and the store */
	CU_ASSERT_EQUAL(fm_stage_named_decode(buf, len + sizeof(one), &out), -EBADMSG);
}

static void test_bad_entries(void)
{
	named_new();
	fm_stage_named_add(&n, FM_ACCESS_USER, 0, "");
	CU_ASSERT_EQUAL(decoded(), -EBADMSG);
	named_new();
	fm_stage_named_add(&n, FM_ACCESS_ALL, 0, "all");
	CU_ASSERT_EQUAL(decoded(), -EBADMSG);
	named_new();
	fm_stage_named_add(&n, FM_ACCESS_KINDS, 0, "ann");
	CU_ASSERT_EQUAL(decoded(), -EBADMSG);
	named_new();
	n.store[0] = '\0';
	CU_ASSERT_EQUAL(decoded(), -EBADMSG);
}

static const struct fm_test tests[] = {
	{ "what is said is understood", test_words },
	{ "who refuses names nobody", test_refusal },
	{ "no more than a list takes, and no longer names", test_too_many },
	{ "entries that cannot be", test_bad_entries },
};
FM_TEST_MAIN("stage named", tests)
