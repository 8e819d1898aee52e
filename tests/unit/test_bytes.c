/* SPDX-License-Identifier: MIT */
/* links: fm_base */
#include <string.h>

#include "mover/base/bytes.h"
#include "tests/fm_test.h"

static const uint8_t golden[] = { 0x01, 0x03, 0x02, 0x07, 0x06, 0x05, 0x04, 0x0f, 0x0e, 0x0d,
				  0x0c, 0x0b, 0x0a, 0x09, 0x08, 'a',  'b',  'c' };

static void test_golden(void)
{
	uint8_t buf[sizeof(golden)];
	struct fm_writer w = { .at = buf, .end = buf + sizeof(buf) };

	fm_put_u8(&w, 0x01);
	fm_put_le16(&w, 0x0203);
	fm_put_le32(&w, 0x04050607);
	fm_put_le64(&w, UINT64_C(0x08090a0b0c0d0e0f));
	fm_put_bytes(&w, "abc", 3);
	CU_ASSERT_FALSE(w.failed);
	CU_ASSERT_PTR_EQUAL(w.at, w.end);
	CU_ASSERT_EQUAL(memcmp(buf, golden, sizeof(golden)), 0);
}

static void test_read(void)
{
	struct fm_reader r = { .at = golden, .end = golden + sizeof(golden) };
	char text[3];

	CU_ASSERT_EQUAL(fm_get_u8(&r), 0x01);
	CU_ASSERT_EQUAL(fm_get_le16(&r), 0x0203);
	CU_ASSERT_EQUAL(fm_get_le32(&r), 0x04050607);
	CU_ASSERT_EQUAL(fm_get_le64(&r), UINT64_C(0x08090a0b0c0d0e0f));
	CU_ASSERT_EQUAL(fm_reader_left(&r), 3);
	fm_get_bytes(&r, text, sizeof(text));
	CU_ASSERT_EQUAL(memcmp(text, "abc", 3), 0);
	CU_ASSERT_FALSE(r.failed);
	CU_ASSERT_EQUAL(fm_reader_left(&r), 0);
}

static void test_write_past_end(void)
{
	uint8_t buf[8] = { 0 };
	struct fm_writer w = { .at = buf, .end = buf + 3 };

	fm_put_le16(&w, 0x1111);
	fm_put_le32(&w, 0x22222222);
	CU_ASSERT_TRUE(w.failed);
	fm_put_u8(&w, 0x33);	/* would fit, but its place in the message is wrong by now */
	CU_ASSERT_EQUAL(memcmp(buf, "\x11\x11\0\0\0\0\0\0", 8), 0);
	CU_ASSERT_TRUE(w.failed);
}

static void test_read_past_end(void)
{
	struct fm_reader r = { .at = golden, .end = golden + 3 };
	char text[2] = { 'x', 'x' };

	CU_ASSERT_EQUAL(fm_get_le32(&r), 0);
	CU_ASSERT_TRUE(r.failed);
	CU_ASSERT_EQUAL(fm_get_u8(&r), 0);
	CU_ASSERT_PTR_NULL(fm_get_span(&r, 1));
	fm_get_bytes(&r, text, sizeof(text));
	CU_ASSERT_EQUAL(memcmp(text, "\0\0", 2), 0);
	CU_ASSERT_TRUE(r.failed);
}

static void test_span(void)
{
	struct fm_reader r = { .at = golden, .end = golden + 4 };

	CU_ASSERT_PTR_EQUAL(fm_get_span(&r, 3), golden);
	CU_ASSERT_PTR_NOT_NULL(fm_get_span(&r, 0));
	CU_ASSERT_EQUAL(fm_reader_left(&r), 1);
	CU_ASSERT_PTR_NULL(fm_get_span(&r, SIZE_MAX));
	CU_ASSERT_TRUE(r.failed);
}

static void test_nothing(void)
{
	uint8_t buf[1];
	struct fm_writer w = { .at = buf, .end = buf };
	struct fm_reader r = { .at = buf, .end = buf };

	fm_put_bytes(&w, NULL, 0);
	fm_get_bytes(&r, NULL, 0);
	CU_ASSERT_FALSE(w.failed);
	CU_ASSERT_FALSE(r.failed);
}

static const struct fm_test tests[] = {
	{ "numbers are written with the low byte first", test_golden },
	{ "what was written is read back", test_read },
	{ "writing past the end fails once and for all, and touches nothing", test_write_past_end },
	{ "reading past the end fails once and for all, and yields zeros", test_read_past_end },
	{ "a span points into the buffer, and never out of it", test_span },
	{ "no bytes may come from nowhere", test_nothing },
};
FM_TEST_MAIN("bytes", tests)
