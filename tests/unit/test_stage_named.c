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
#include "staging/service/wire_text.h"
#include "tests/fm_test.h"

static uint8_t buf[FM_WIRE_STAGE_MAX];
static struct fm_stage_named n, out;

static int decoded(void)
{
	return fm_stage_named_decode(buf, fm_stage_named_encode(&n, buf), &out);
}

/* What a node would hear of it that encodes without a look; and what this one sends: nothing. */
static int forged(void)
{
	struct fm_writer w = { buf, buf + sizeof(buf), false };

	CU_ASSERT_EQUAL(fm_stage_named_encode(&n, buf), 0);
	fm_put_le32(&w, (uint32_t)-n.code);
	fm_stage_put_text(&w, n.store);
	fm_put_le16(&w, (uint16_t)n.count);
	for (unsigned i = 0; i < n.count; i++) {
		fm_put_u8(&w, n.at[i].kind);
		fm_stage_put_text(&w, n.at[i].name);
	}
	return fm_stage_named_decode(buf, (size_t)(w.at - buf), &out);
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

/*
 * What a local user calls a store goes out only if who is asked takes it: else that node ends the
 * session, which other users have, too.
 */
static void test_stores(void)
{
	static const char *const names[] = {
		"s", "a:b", "~1000", "\033[2J", "..", "hf:", "shared ", "",	"/", "a/b", "/etc",
		"a/../../b", "012345678901234567890123456789012345678901234567890123456789abcd",
		"012345678901234567890123456789012345678901234567890123456789abcde",
	};
	char store[FM_WIRE_NAME_MAX + 1];
	unsigned sent = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct fm_writer w = { buf, buf + sizeof(buf), false };
		size_t len;
		int ret;

		fm_stage_put_text(&w, names[i]);
		ret = fm_stage_who_decode(buf, (size_t)(w.at - buf), store);
		len = fm_stage_who_encode(names[i], buf);
		CU_ASSERT_EQUAL(len > 0, ret == 0);
		CU_ASSERT_TRUE(len == 0 || fm_stage_who_decode(buf, len, store) == 0);
		sent += len > 0;
	}
	CU_ASSERT_EQUAL(sent, 8);
}

static void test_refusal(void)
{
	named_new();
	n.code = -EACCES;
	CU_ASSERT_EQUAL(decoded(), 0);
	CU_ASSERT_TRUE(out.code == -EACCES && out.count == 0);
	fm_stage_named_add(&n, FM_ACCESS_USER, 0, "ann");
	CU_ASSERT_EQUAL(forged(), -EBADMSG);
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
	CU_ASSERT_EQUAL(forged(), -EBADMSG);
	named_new();
	fm_stage_named_add(&n, FM_ACCESS_ALL, 0, "all");
	CU_ASSERT_EQUAL(forged(), -EBADMSG);
	named_new();
	fm_stage_named_add(&n, FM_ACCESS_KINDS, 0, "ann");
	CU_ASSERT_EQUAL(forged(), -EBADMSG);
	named_new();
	n.store[0] = '\0';
	CU_ASSERT_EQUAL(forged(), -EBADMSG);
	(void)strcpy(n.store, "a/b");
	CU_ASSERT_EQUAL(forged(), -EBADMSG);
	named_new();
	n.code = -4096;
	CU_ASSERT_EQUAL(forged(), -EBADMSG);
}

static const struct fm_test tests[] = {
	{ "what is said is understood", test_words },
	{ "a store that no node takes is not asked about", test_stores },
	{ "who refuses names nobody", test_refusal },
	{ "no more than a list takes, and no longer names", test_too_many },
	{ "entries that cannot be", test_bad_entries },
};
FM_TEST_MAIN("stage named", tests)
