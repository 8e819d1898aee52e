/* SPDX-License-Identifier: MIT */
/*
 * group_record: what a group's directory says of it comes back as it was written, and is refused
 * whole when a value cannot be.
 *
 * links: fm_store
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/store/group_record.h"
#include "tests/fm_test.h"

#define DIGEST "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
/* as it was written before records had a checksum */
#define OLD                                                                                        \
	"{\"version\":1,\"digest\":\"" DIGEST "\",\"name\":\"step-1\",\"peer\":\"n1\","          \
	"\"uid\":1000,\"dir_ino\":16,\"ino\":17,\"begun_ns\":1,\"expires_ns\":2,"                \
	"\"replace\":true,"                                                                       \
	"\"members\":3,\"expect\":\"a\\nb/c\"}"
#define CRC "ee744362\n"
#define GOOD                                                                                       \
	"{\"version\":2,\"digest\":\"" DIGEST "\",\"name\":\"step-1\",\"peer\":\"n1\","          \
	"\"uid\":1000,\"dir_ino\":16,\"ino\":17,\"origin\":-18,"                                 \
	"\"begun_ns\":1,\"expires_ns\":2,\"replace\":true,\"notes\":true,"                       \
	"\"members\":3,\"expect\":\"a\\nb/c\"}\n" CRC

static struct fm_group_record record;
static struct fm_err err;

static int parse(const char *text)
{
	return fm_group_record_parse(text, strlen(text), &record, &err);
}

/* OLD, whose values are checked without a checksum, with `from` replaced. */
static int parse_with(const char *from, const char *to)
{
	static const char good[] = OLD;
	const char *at = strstr(good, from);
	char text[1024];

	CU_ASSERT_PTR_NOT_NULL_FATAL(at);
	snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
	return parse(text);
}

static void check_good(const struct fm_group_record *r)
{
	CU_ASSERT_STRING_EQUAL(r->digest, DIGEST);
	CU_ASSERT_STRING_EQUAL(r->name, "step-1");
	CU_ASSERT_STRING_EQUAL(r->peer, "n1");
	CU_ASSERT_TRUE(r->uid == 1000 && r->dir_ino == 16 && r->ino == 17);
	CU_ASSERT_TRUE(r->begun_ns == 1 && r->expires_ns == 2);
	CU_ASSERT_TRUE(r->may_replace && r->members == 3 && r->expect_len == 5);
	CU_ASSERT_STRING_EQUAL(r->expect, "a\nb/c");
}

static void test_good(void)
{
	CU_ASSERT_EQUAL_FATAL(parse(GOOD), 0);
	check_good(&record);
	CU_ASSERT_TRUE(record.has_notes && record.origin == UINT64_MAX - 17);
	memset(&record, 0, sizeof(record));
	record.has_notes = true;
	record.origin = 1;
	CU_ASSERT_EQUAL_FATAL(parse(OLD), 0);
	check_good(&record);
	/* who wrote that wrote none, and knew of none */
	CU_ASSERT_TRUE(!record.has_notes && record.origin == 0);
	CU_ASSERT_EQUAL(parse_with("\"peer\":\"n1\"", "\"peer\":\"\""), 0);
	CU_ASSERT_EQUAL(parse_with("\"expect\":\"a\\nb/c\"", "\"expect\":\"\""), 0);
}

static void test_bad(void)
{
	static const struct {
		const char *from, *to;
	} bad[] = {
		{ "\"version\":1", "\"version\":2" },	/* that has a checksum */
		{ "\"version\":1", "\"version\":3" },
		{ "\"version\":1,", "" },
		{ DIGEST, "ba78" },
		{ "ba7816", "BA7816" },
		{ "step-1", "" },
		{ "step-1", ".." },
		{ "step-1", "a/b" },
		{ "step-1", ".fmove.x" },
		{ "\"n1\"", "\"a/b\"" },
		{ "\"n1\"", "\"n1\\nn2\"" },
		{ "\"n1\"", "{\"bytes\":\"/w==\"}" },
		{ "\"uid\":1000", "\"uid\":4294967296" },
		{ "\"uid\":1000", "\"uid\":-1" },
		{ "\"dir_ino\":16,", "" },
		{ "\"ino\":17", "\"ino\":\"17\"" },
		{ "\"begun_ns\":1", "\"begun_ns\":1.5" },
		{ "\"begun_ns\":1", "\"begun_ns\":-1" },
		{ "\"expires_ns\":2", "\"expires_ns\":-1" },
		{ "\"expires_ns\":2,", "" },
		{ "\"replace\":true", "\"replace\":1" },
		{ "\"members\":3", "\"members\":4294967296" },
		{ "a\\nb/c", "a\\u0000b" },
		{ "}", "" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(parse_with(bad[i].from, bad[i].to), -EBADMSG);
	CU_ASSERT_EQUAL(parse(""), -EBADMSG);
	CU_ASSERT_EQUAL(parse("[]"), -EBADMSG);
}

/* A damaged inode would say that an open group was committed, a damaged time that it is over. */
static void test_damaged(void)
{
	char text[] = GOOD;
	unsigned taken = 0;

	for (size_t bit = 0; bit < 8 * strlen(GOOD); bit++) {
		text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
		taken += fm_group_record_parse(text, strlen(GOOD), &record, &err) != -EBADMSG;
		text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
	}
	CU_ASSERT_EQUAL(taken, 0);
	for (size_t len = 0; len < strlen(GOOD); len++)
		CU_ASSERT_EQUAL(fm_group_record_parse(text, len, &record, &err), -EBADMSG);
	CU_ASSERT_EQUAL(parse(text), 0);
}

/* Its bytes are on the disks of whoever has a group open: another text is another version. */
static void test_golden(void)
{
	char text[sizeof(GOOD)];

	CU_ASSERT_EQUAL_FATAL(parse(GOOD), 0);
	CU_ASSERT_EQUAL_FATAL(fm_group_record_print(&record, text, sizeof(text)),
			      sizeof(GOOD) - 1);
	CU_ASSERT_STRING_EQUAL(text, GOOD);
	CU_ASSERT_EQUAL(parse_with("\"version\":1", "\"version\":0"), -EBADMSG);
}

static void test_file(void)
{
	char path[] = "/tmp/fm-group-record.XXXXXX";
	int dir;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CU_ASSERT_EQUAL(fm_group_record_read(dir, &record, &err), -EBADMSG);
	CU_ASSERT_EQUAL_FATAL(parse(GOOD), 0);
	CU_ASSERT_EQUAL_FATAL(fm_group_record_write(dir, &record, true), 0);
	CU_ASSERT_EQUAL(fm_group_record_write(dir, &record, true), -EEXIST);
	memset(&record, 0, sizeof(record));
	CU_ASSERT_EQUAL_FATAL(fm_group_record_read(dir, &record, &err), 0);
	check_good(&record);
	/* The largest list that there may be, of what needs most room in JSON. */
	memset(record.expect, 1, FM_GROUP_EXPECT_MAX);
	record.expect_len = FM_GROUP_EXPECT_MAX;
	CU_ASSERT_EQUAL(unlinkat(dir, FM_GROUP_RECORD_NAME, 0), 0);
	CU_ASSERT_EQUAL_FATAL(fm_group_record_write(dir, &record, false), 0);
	CU_ASSERT_EQUAL_FATAL(fm_group_record_read(dir, &record, &err), 0);
	CU_ASSERT_EQUAL(record.expect_len, FM_GROUP_EXPECT_MAX);
	CU_ASSERT_EQUAL(unlinkat(dir, FM_GROUP_RECORD_NAME, 0), 0);
	CU_ASSERT_EQUAL(close(dir), 0);
	CU_ASSERT_EQUAL(rmdir(path), 0);
}

static void test_digest(void)
{
	static const uint8_t id[FM_GROUP_ID_LEN] = { 0 };
	char digest[FM_GROUP_DIGEST_LEN + 1];

	/* of sixteen zeros, as sha256sum(1) says it */
	fm_group_digest(id, digest);
	CU_ASSERT_STRING_EQUAL(digest, "374708fff7719dd5979ec875d56cd2286f6d3cf7ec317a3b25632aab28e"
				       "c37bb");
}

int main(void)
{
	static const struct fm_test tests[] = {
		{ "a record is taken as it is", test_good },
		{ "it is written with the same bytes", test_golden },
		{ "one that cannot be is refused", test_bad },
		{ "one with a bit or an end that was not written is refused", test_damaged },
		{ "the file: none, one, the largest", test_file },
		{ "the digest of an ID", test_digest },
	};

	return fm_test_main("group_record", tests, sizeof(tests) / sizeof(tests[0]));
}
