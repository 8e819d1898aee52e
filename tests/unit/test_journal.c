/* SPDX-License-Identifier: MIT */
/*
 * The journal: its bytes, what it trusts, what it adds up to. links: fm_journal
 *
 * The golden bytes come from a second implementation of fmove-journal(5), not from this one.
 */
#include "tests/unit/journal_fixture.h"

#include "mover/base/crc32c.h"
#include "mover/journal/host.h"
#include "mover/journal/siphash.h"
#include "mover/journal/table.h"

#define MIB (UINT64_C(1) << 20)
#define HEAD FM_JOURNAL_HEAD_LEN

/* A synced tree: "a" is complete; of "dir/large" two of ten MiB were written, the second one
 * first. */
static const uint8_t golden[] = {
	0x46, 0x4d, 0x4f, 0x56, 0x45, 0x4a, 0x4e, 0x4c, 0x02, 0x00, 0x02, 0x01, 0x05, 0x0c, 0x00,
	0x00, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d,
	0x1e, 0x1f, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x2c,
	0x2d, 0x2e, 0x2f, 0x01, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x88, 0x77, 0x66, 0x55,
	0x44, 0x33, 0x22, 0x11, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x6e, 0x6f,
	0x64, 0x65, 0x37, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x63, 0x68, 0x65, 0x63, 0x6b,
	0x70, 0x6f, 0x69, 0x6e, 0x74, 0x2d, 0x37, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xe8, 0x03, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0xf0, 0xde, 0xbc, 0x9a, 0xa4, 0x4b, 0x20, 0xd0, 0x67, 0xab, 0x5c,
	0x24, 0x01, 0x00, 0x01, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x15, 0xcd,
	0x85, 0x3d, 0xfe, 0x9c, 0x97, 0x17, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x67, 0x45, 0x23, 0x01, 0x00, 0x00, 0x00, 0x00, 0x61, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x95, 0x72, 0xd0, 0xf0, 0x01, 0x00, 0x09, 0x00, 0x00, 0x00, 0xa0, 0x00, 0x00, 0x00,
	0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x07, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x40, 0x00,
	0x00, 0x00, 0x00, 0x00, 0xef, 0xcd, 0xab, 0x89, 0x00, 0x00, 0x00, 0x00, 0x64, 0x69, 0x72,
	0x2f, 0x6c, 0x61, 0x72, 0x67, 0x65, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x2f, 0xa8,
	0x1c, 0x3b, 0x01, 0x00, 0x09, 0x00, 0x00, 0x00, 0xa0, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff,
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x11, 0x11, 0x11, 0x11, 0x00, 0x00, 0x00, 0x00, 0x64, 0x69, 0x72, 0x2f, 0x6c, 0x61,
	0x72, 0x67, 0x65, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
};

/* Where its records begin, and where the last one ends. */
static const size_t golden_at[] = { HEAD, HEAD + 64, HEAD + 64 + 72, HEAD + 64 + 72 + 72 };
#define GOLDEN_RECORDS 3

/*
 * A file, not synced; as no journal is written: the third record overlaps the first two but adds
 * nothing, the fifth overlaps the fourth in part, the sixth is good but stands behind it.
 */
static const uint8_t sample[] = {
	0x46, 0x4d, 0x4f, 0x56, 0x45, 0x4a, 0x4e, 0x4c, 0x02, 0x00, 0x01, 0x00, 0x00, 0x05, 0x00,
	0x00, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d,
	0x1e, 0x1f, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x2c,
	0x2d, 0x2e, 0x2f, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0xe8, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x11, 0x10, 0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x61, 0x2e, 0x62, 0x69, 0x6e,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x9d, 0xcb, 0xda, 0xcd, 0x81, 0x0f, 0x5a,
	0x2c, 0x01, 0x00, 0x00, 0x00, 0xe8, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x64,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x64, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0xf0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf7, 0x5a, 0x66, 0xc2, 0x01, 0x00, 0x00,
	0x00, 0xe8, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x64, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0f, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x1d, 0xe2, 0x73, 0x9f, 0x01, 0x00, 0x00, 0x00, 0xe8, 0x03, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x09, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x32, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x64,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x7d, 0x19, 0xb6, 0x6f, 0x01, 0x00, 0x00, 0x00, 0xe8, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x84, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x64, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x0f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x8b, 0xf2, 0x7c, 0x3b,
	0x01, 0x00, 0x00, 0x00, 0xe8, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x83, 0x03,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x64, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0xf0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x54, 0xcb, 0x32, 0x7d, 0x01, 0x00, 0x00, 0x00,
	0xe8, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf4, 0x01, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x0a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0f, 0x00, 0x00,
	0x00, 0x00, 0x00,
};

#define SAMPLE_GOOD 656	/* up to here it counts */

/* ---------------------------------------------------------------------------------------- bytes */

static const struct fm_journal_entry golden_entries[] = {
	{.path = "a",
	 .path_len = 1,
	 .size = 5,
	 .mtime_ns = INT64_C(1700000000123456789),
	 .identity = UINT64_C(0xfedcba9876543210),
	 .len = 5,
	 .crc = 0x01234567},
	{.path = "dir/large",
	 .path_len = 9,
	 .size = 10 * MIB,
	 .mtime_ns = -1,
	 .identity = 7,
	 .offset = 4 * MIB,
	 .len = 4 * MIB,
	 .crc = 0x89abcdef},
	{.path = "dir/large",
	 .path_len = 9,
	 .size = 10 * MIB,
	 .mtime_ns = -1,
	 .identity = 7,
	 .len = 4 * MIB,
	 .crc = 0x11111111},
};

static void test_golden_write(void)
{
	int fd = file_of("", 0);
	struct fm_journal *j = open_journal(fd, &tree_opts);

	CU_ASSERT_PTR_NULL(why);
	CU_ASSERT_TRUE(fm_journal_is_empty(j));
	CU_ASSERT_EQUAL(fm_journal_append(j, NULL, 0, &err), 0);
	CU_ASSERT_EQUAL(file_len(fd), 0);	/* no head before the first record */
	CU_ASSERT_EQUAL(fm_journal_append(j, golden_entries, 1, &err), 0);
	CU_ASSERT_FALSE(fm_journal_is_empty(j));
	CU_ASSERT_EQUAL(fm_journal_append(j, golden_entries + 1, 2, &err), 0);
	CU_ASSERT_TRUE(file_is(fd, golden, sizeof(golden)));
	/* What it has already it does not write again. */
	CU_ASSERT_EQUAL(fm_journal_append(j, golden_entries, 3, &err), 0);
	CU_ASSERT_TRUE(file_is(fd, golden, sizeof(golden)));
	fm_journal_close(j);
	close(fd);
}

/* What the first n golden records say. */
static bool is_golden(struct fm_journal *j, size_t n)
{
	const struct fm_journal_file *f = fm_journal_find(j, "a", 1);

	if (n < 1)
		return !f && fm_journal_is_empty(j);
	if (!f || f->size != 5 || f->mtime_ns != INT64_C(1700000000123456789) ||
	    f->crc != 0x01234567 || f->identity != UINT64_C(0xfedcba9876543210) ||
	    f->ranges.count != 1 || f->ranges.at[0].offset != 0 || f->ranges.at[0].len != 5)
		return false;
	f = fm_journal_find(j, "dir/large", 9);
	if (n < 2)
		return !f;
	return f && f->size == 10 * MIB && f->mtime_ns == -1 && f->identity == 7 &&
	       f->ranges.count == 1 && f->ranges.at[0].offset == (n < 3 ? 4 * MIB : 0) &&
	       f->ranges.at[0].len == (n < 3 ? 4 * MIB : 8 * MIB) &&
	       f->crc == (n < 3 ? 0x89abcdef : (0x89abcdef ^ 0x11111111));
}

static void test_golden_read(void)
{
	int fd = file_of(golden, sizeof(golden));
	struct fm_journal *j = open_journal(fd, &tree_opts);

	CU_ASSERT_PTR_NULL(why);
	CU_ASSERT_TRUE(is_golden(j, GOLDEN_RECORDS));
	CU_ASSERT_TRUE(file_is(fd, golden, sizeof(golden)));
	CU_ASSERT_PTR_NULL(fm_journal_find(j, "", 0));
	CU_ASSERT_PTR_NULL(fm_journal_find(j, "dir/larg", 8));
	fm_journal_close(j);
	close(fd);
}

static void test_sample_read(void)
{
	int fd = file_of(sample, sizeof(sample));
	struct fm_journal *j = open_journal(fd, &file_opts);
	const struct fm_journal_file *f = fm_journal_find(j, "", 0);

	CU_ASSERT_PTR_NULL(why);
	CU_ASSERT_EQUAL_FATAL(f ? f->ranges.count : 0, 2);
	CU_ASSERT_EQUAL(f->ranges.at[0].offset, 0);
	CU_ASSERT_EQUAL(f->ranges.at[0].len, 200);
	CU_ASSERT_EQUAL(f->ranges.at[1].offset, 900);
	CU_ASSERT_EQUAL(f->ranges.at[1].len, 100);
	CU_ASSERT_EQUAL(f->crc, 0xfff);
	CU_ASSERT_TRUE(file_is(fd, sample, SAMPLE_GOOD));
	fm_journal_close(j);
	close(fd);
}

/* The authors' test vectors: key 00 01 .. 0f, message 00 01 .. */
static void test_siphash(void)
{
	static const struct fm_sip key = {.low = UINT64_C(0x0706050403020100),
					  .high = UINT64_C(0x0f0e0d0c0b0a0908)};
	static const struct {
		size_t len;
		struct fm_sip hash;
	} vectors[] = {
		{ 0, { UINT64_C(0xe6a825ba047f81a3), UINT64_C(0x930255c71472f66d) } },
		{ 1, { UINT64_C(0x44af996bd8c187da), UINT64_C(0x45fc229b11597634) } },
		{ 8, { UINT64_C(0x61f55862baa9623b), UINT64_C(0xb49714f364e2830f) } },
		{ 15, { UINT64_C(0x11a8b03399e99354), UINT64_C(0xd9c3cf970fec087e) } },
		{ 63, { UINT64_C(0x4a83502f77d15051), UINT64_C(0x7cbd3f979a063e50) } },
	};
	uint8_t message[63];

	for (size_t i = 0; i < sizeof(message); i++)
		message[i] = (uint8_t)i;
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		struct fm_sip hash = fm_siphash(&key, message, vectors[i].len);

		CU_ASSERT_EQUAL(hash.low, vectors[i].hash.low);
		CU_ASSERT_EQUAL(hash.high, vectors[i].hash.high);
	}
}

static void test_identity(void)
{
	static const struct fm_identity zero,
		some = {.dev = 1, .ino = 2, .size = 3, .mtime_ns = 4, .ctime_ns = -5};
	struct fm_identity other[] = { some, some, some, some, some, some, some };

	CU_ASSERT_EQUAL(fm_identity_hash(&some), UINT64_C(0xf9189809f0bf15ce));
	CU_ASSERT_EQUAL(fm_identity_hash(&zero), UINT64_C(0x78ae5a9a6b5fd45e));
	other[0].dev = 2;
	other[1].ino = 1;
	other[2].size = 0;
	other[3].mtime_ns = -4;
	other[4].ctime_ns = 5;
	strcpy(other[5].node, "n");
	other[6].uid = 1;
	for (size_t i = 0; i < 7; i++) {
		CU_ASSERT_FALSE(fm_identity_is_same(&some, &other[i]));
		CU_ASSERT_EQUAL(fm_identity_hash(&some) == fm_identity_hash(&other[i]), i >= 5);
	}
	other[5] = some;
	CU_ASSERT_TRUE(fm_identity_is_same(&some, &other[5]));
}

static void test_host(void)
{
	static const uint8_t machine[] = { 0x21, 0x3b, 0xa6, 0x23, 0x6c, 0x00, 0x78, 0x55,
					   0xff, 0x0d, 0x10, 0xd0, 0x44, 0x40, 0xd6, 0x17 };
	static const uint8_t named[] = { 0x48, 0xd0, 0xc6, 0x23, 0x91, 0x4a, 0xe0, 0x90,
					 0xbc, 0xe0, 0x24, 0xf8, 0x19, 0x0f, 0xe6, 0x32 };
	static const uint8_t boot[] = { 0x7e, 0xa8, 0xca, 0x1d, 0x9c, 0x5f, 0x4a, 0xa7,
					0xa0, 0x94, 0x56, 0x75, 0x6f, 0x69, 0x05, 0x3f };
	static const char *const bad[] = {NULL,
					  "",
					  "uninitialized\n",
					  "0123456789abcdef0123456789abcde\n",
					  "0123456789abcdef0123456789abcdef0",
					  "0123456789ABCDEF0123456789abcdef"};
	struct fm_journal_host host;

	fm_journal_host_of("0123456789abcdef0123456789abcdef\n",
			   "7ea8ca1d-9c5f-4aa7-a094-56756f69053f\n", "node7", &host);
	CU_ASSERT_EQUAL(memcmp(host.machine, machine, sizeof(machine)), 0);
	CU_ASSERT_EQUAL(memcmp(host.boot, boot, sizeof(boot)), 0);
	CU_ASSERT_TRUE(fm_journal_host_is_same(host.machine, machine));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		fm_journal_host_of(bad[i], bad[i], "node7", &host);
		CU_ASSERT_EQUAL(memcmp(host.machine, named, sizeof(named)), 0);
		/* not known: as no other */
		CU_ASSERT_FALSE(fm_journal_host_is_same(host.boot, host.boot));
	}
	CU_ASSERT_EQUAL(fm_journal_host_here(&host), 0);
}

/* --------------------------------------------------------------------------------------- damage */

static size_t records_within(size_t len)
{
	size_t n = 0;

	while (n < GOLDEN_RECORDS && golden_at[n + 1] <= len)
		n++;
	return n;
}

/* Whatever was damaged, the rest of the golden records can be appended, and then all is as it
 * should be. */
static bool is_mended(int fd, struct fm_journal *j)
{
	bool is_good = fm_journal_append(j, golden_entries, GOLDEN_RECORDS, &err) == 0 &&
		       is_golden(j, GOLDEN_RECORDS);

	fm_journal_close(j);
	return is_good && file_is(fd, golden, sizeof(golden));
}

static void test_torn(void)
{
	for (size_t len = 0; len < sizeof(golden); len++) {
		size_t n = records_within(len);
		int fd = file_of(golden, len);
		struct fm_journal *j = open_journal(fd, &tree_opts);

		CU_ASSERT_EQUAL(why != NULL, len > 0 && len < HEAD);
		CU_ASSERT_EQUAL(file_len(fd), len < HEAD ? 0 : golden_at[n]);
		CU_ASSERT_TRUE(is_golden(j, n));
		CU_ASSERT_TRUE(is_mended(fd, j));
		close(fd);
	}
}

/* A power cut can leave zeros behind the end instead of nothing, or what was in the block
 * before. */
static void test_grown(void)
{
	static const uint8_t fills[] = { 0, 0xff, 1 };
	uint8_t bytes[sizeof(golden) + 5000];

	for (size_t i = 0; i < sizeof(fills); i++) {
		int fd;

		memset(bytes, fills[i], sizeof(bytes));
		memcpy(bytes, golden, golden_at[2]);
		fd = file_of(bytes, sizeof(bytes));
		CU_ASSERT_TRUE(is_mended(fd, open_journal(fd, &tree_opts)));
		close(fd);
	}
}

static void test_flipped(void)
{
	uint8_t bytes[sizeof(golden)];

	for (size_t bit = 0; bit < 8 * sizeof(golden); bit++) {
		size_t n = bit / 8 < HEAD ? 0 : records_within(bit / 8);
		struct fm_journal *j;
		int fd;

		memcpy(bytes, golden, sizeof(golden));
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		fd = file_of(bytes, sizeof(bytes));
		j = open_journal(fd, &tree_opts);
		CU_ASSERT_EQUAL(why != NULL, bit / 8 < HEAD);
		CU_ASSERT_TRUE(is_golden(j, n));
		CU_ASSERT_EQUAL(file_len(fd), bit / 8 < HEAD ? 0 : golden_at[n]);
		CU_ASSERT_TRUE(is_mended(fd, j));
		close(fd);
	}
}

/* The records of one journal behind the head of another, which differs in its salt only. */
static void test_foreign_records(void)
{
	struct fm_journal_env other = here;
	int fd = file_of("", 0);
	struct fm_journal *j;

	other.salt++;
	j = open_env(fd, &tree_opts, &other);
	CU_ASSERT_EQUAL(append_one(j, golden_entries[0]), 0);
	fm_journal_close(j);
	CU_ASSERT_EQUAL(pwrite(fd, golden + HEAD, sizeof(golden) - HEAD, HEAD),
			(ssize_t)(sizeof(golden) - HEAD));
	j = open_journal(fd, &tree_opts);
	CU_ASSERT_PTR_NULL(why);
	CU_ASSERT_TRUE(is_golden(j, 0));
	fm_journal_close(j);
	close(fd);
}

/* A head and one record, whose byte at `at` of the record is another, and whose CRC is right all
 * the same. */
static bool counts_with(size_t at, uint8_t value)
{
	uint8_t bytes[HEAD + 64];
	uint32_t crc;
	int fd;
	struct fm_journal *j;
	bool counts;

	memcpy(bytes, golden, sizeof(bytes));
	bytes[HEAD + at] = value;
	crc = fm_crc32c(here.salt, bytes + HEAD + 4, 60);
	for (size_t i = 0; i < 4; i++)
		bytes[HEAD + i] = (uint8_t)(crc >> (8 * i));
	fd = file_of(bytes, sizeof(bytes));
	j = open_journal(fd, &tree_opts);
	counts = !fm_journal_is_empty(j);
	CU_ASSERT_EQUAL(file_len(fd), counts ? sizeof(bytes) : HEAD);
	fm_journal_close(j);
	close(fd);
	return counts;
}

static void test_bad_records(void)
{
	CU_ASSERT_TRUE(counts_with(4, 1));	/* as it was */
	CU_ASSERT_TRUE(counts_with(48, 0xee));	/* any CRC will do */
	CU_ASSERT_FALSE(counts_with(4, 2));	/* type */
	CU_ASSERT_FALSE(counts_with(5, 1));
	CU_ASSERT_FALSE(counts_with(6, 0));	/* no path */
	CU_ASSERT_FALSE(counts_with(8, 4));	/* shorter than the stretch */
	CU_ASSERT_FALSE(counts_with(15, 0x80));	/* larger than any file */
	CU_ASSERT_FALSE(counts_with(32, 1));	/* the stretch ends behind the file */
	CU_ASSERT_FALSE(counts_with(40, 0));	/* no stretch */
	CU_ASSERT_FALSE(counts_with(47, 0xff));
	CU_ASSERT_FALSE(counts_with(56, 0));	/* NUL in the path */
	for (size_t at = 52; at < 56; at++)
		CU_ASSERT_FALSE(counts_with(at, 1));
	for (size_t at = 57; at < 64; at++)
		CU_ASSERT_FALSE(counts_with(at, 1));
}

/* ---------------------------------------------------------------------------------------- trust */

/* Open the golden journal as somebody else: it must be emptied, with a reason that has the word. */
static void expect_refused(const struct fm_journal_opts *opts, const struct fm_journal_env *env,
			   const char *word)
{
	int fd = file_of(golden, sizeof(golden));
	struct fm_journal *j = open_env(fd, opts, env);

	CU_ASSERT_PTR_NOT_NULL_FATAL(why);
	CU_ASSERT_PTR_NOT_NULL(strstr(why, word));
	CU_ASSERT_EQUAL(file_len(fd), 0);
	CU_ASSERT_TRUE(is_golden(j, 0));
	fm_journal_close(j);
	close(fd);
}

static void test_other_source(void)
{
	struct fm_journal_opts opts[10];
	static const char *const words[] = {"another source", "another source", "another source",
					    "changed",	      "changed",	"changed",
					    "file",	      "another file",	"another file",
					    "another user"};

	for (size_t i = 0; i < 10; i++)
		opts[i] = tree_opts;
	strcpy(opts[0].source.node, "node8");
	opts[1].source.dev++;
	opts[2].source.ino++;
	opts[3].source.size++;
	opts[4].source.mtime_ns++;
	opts[5].source.ctime_ns++;
	opts[6].is_tree = false;
	opts[7].ino++;
	strcpy(opts[8].name, "checkpoint-8");
	opts[9].source.uid++;
	for (size_t i = 0; i < 10; i++)
		expect_refused(&opts[i], &here, words[i]);
}

static void test_other_machine(void)
{
	struct fm_journal_env other = here;
	struct fm_journal *j;
	int fd = file_of(golden, sizeof(golden));

	other.host.boot[0]++;
	j = open_env(fd, &tree_opts, &other);	/* synced: another boot does not matter */
	CU_ASSERT_PTR_NULL(why);
	CU_ASSERT_TRUE(is_golden(j, GOLDEN_RECORDS));
	fm_journal_close(j);
	close(fd);
	other.host.machine[15]++;
	expect_refused(&tree_opts, &other, "another machine");
	memset(other.host.machine, 0, sizeof(other.host.machine));
	expect_refused(&tree_opts, &other, "another machine");
}

static void test_other_boot(void)
{
	struct fm_journal_env other = here;
	int fd = file_of(sample, sizeof(sample));
	struct fm_journal *j = open_journal(fd, &file_opts);

	CU_ASSERT_EQUAL(bytes_there(j, ""), 300);
	fm_journal_close(j);
	other.host.boot[0]++;
	j = open_env(fd, &file_opts, &other);
	CU_ASSERT_PTR_NOT_NULL_FATAL(why);
	CU_ASSERT_PTR_NOT_NULL(strstr(why, "started again"));
	CU_ASSERT_EQUAL(bytes_there(j, ""), NEVER_KNOWN);
	/* Where the boot is not known, what is not synced counts only until the journal is
	 * closed. */
	fm_journal_close(j);
	memset(other.host.boot, 0, sizeof(other.host.boot));
	j = open_env(fd, &file_opts, &other);
	CU_ASSERT_EQUAL(append_one(j, piece("", 1000, 0, 10, 1)), 0);
	fm_journal_close(j);
	j = open_env(fd, &file_opts, &other);
	CU_ASSERT_PTR_NOT_NULL(why);
	fm_journal_close(j);
	close(fd);
}

/* A head with this version; the CRC is not that of the bytes, as a later version's need not be. */
static void test_other_version(void)
{
	uint8_t bytes[sizeof(golden)];
	struct fm_journal_opts opts;
	struct fm_journal *j;
	uint64_t there;
	int fd;

	for (unsigned version = 0; version < 0x10000; version += version < 3 ? 1 : 0x101) {
		if (version == FM_JOURNAL_VERSION)
			continue;
		memcpy(bytes, golden, sizeof(golden));
		bytes[8] = (uint8_t)version;
		bytes[9] = (uint8_t)(version >> 8);
		fd = file_of(bytes, sizeof(bytes));
		CU_ASSERT_EQUAL(fm_journal_peek_as(fd, &here.host, &opts, &there), -EBADMSG);
		j = open_journal(fd, &tree_opts);
		CU_ASSERT_PTR_NOT_NULL_FATAL(why);
		CU_ASSERT_PTR_NOT_NULL(strstr(why, "another version"));
		CU_ASSERT_TRUE(is_mended(fd, j));
		close(fd);
	}
}

static void test_no_journal(void)
{
	struct fm_journal *j;
	int ends[2], fd = file_of("#!/bin/sh\nexit 0\n", 17);

	fm_journal_close(open_journal(fd, &tree_opts));
	CU_ASSERT_PTR_NOT_NULL_FATAL(why);
	CU_ASSERT_PTR_NOT_NULL(strstr(why, "damaged"));
	close(fd);
	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	CU_ASSERT_EQUAL(try_open_env(ends[0], &tree_opts, &here, &j), -EINVAL);
	CU_ASSERT_PTR_NULL(j);
	CU_ASSERT_TRUE(strlen(err.text) > 10);
	close(ends[0]);
	close(ends[1]);
	CU_ASSERT_EQUAL(fm_journal_open(-1, &tree_opts, &j, &why, &err), -EBADF);
	fm_journal_close(NULL);
}

/* Durable first, then not: what is there still counts, until the machine is started again. */
static void test_no_longer_synced(void)
{
	struct fm_journal_opts opts = tree_opts;
	struct fm_journal_env other = here;
	int fd = file_of(golden, sizeof(golden));
	struct fm_journal *j;

	opts.is_synced = false;
	other.host.boot[3]++;
	j = open_env(fd, &opts, &other);
	CU_ASSERT_PTR_NULL(why);
	CU_ASSERT_TRUE(file_is(fd, golden, sizeof(golden)));	/* nothing new is claimed yet */
	CU_ASSERT_EQUAL(append_one(j, piece("b", 1, 0, 1, 7)), 0);
	fm_journal_close(j);
	for (int i = 0; i < 2; i++) {	/* asked for as synced or not: it is not */
		opts.is_synced = i == 1;
		j = open_env(fd, &opts, &other);
		CU_ASSERT_PTR_NULL(why);
		CU_ASSERT_TRUE(is_golden(j, GOLDEN_RECORDS));
		CU_ASSERT_EQUAL(bytes_there(j, "b"), 1);
		CU_ASSERT_EQUAL(append_one(j, piece("c", 1 + (uint64_t)i, 0, 1 + (uint64_t)i, 7)),
				0);
		fm_journal_close(j);
	}
	j = open_journal(fd, &tree_opts);
	CU_ASSERT_PTR_NOT_NULL(why);
	CU_ASSERT_TRUE(is_golden(j, 0));
	fm_journal_close(j);
	close(fd);
}

static void test_peek(void)
{
	struct fm_journal_env other = here;
	struct fm_journal_opts opts;
	int fd = file_of(golden, sizeof(golden) - 1);
	uint64_t there;

	CU_ASSERT_EQUAL(fm_journal_peek_as(fd, &here.host, &opts, &there), 0);
	CU_ASSERT_TRUE(opts.is_tree && opts.is_synced &&
		       fm_identity_is_same(&opts.source, &tree_opts.source));
	CU_ASSERT_TRUE(opts.ino == tree_opts.ino && strcmp(opts.name, tree_opts.name) == 0);
	CU_ASSERT_EQUAL(there, 5 + 4 * MIB);
	CU_ASSERT_TRUE(file_is(fd, golden, sizeof(golden) - 1));
	other.host.machine[0]++;
	CU_ASSERT_EQUAL(fm_journal_peek_as(fd, &other.host, &opts, &there), 0);
	CU_ASSERT_EQUAL(there, 0);
	for (size_t len = 0; len < HEAD; len++) {
		CU_ASSERT_EQUAL(ftruncate(fd, (off_t)len), 0);
		CU_ASSERT_EQUAL(fm_journal_peek_as(fd, &here.host, &opts, &there), -EBADMSG);
	}
	CU_ASSERT_EQUAL(fm_journal_peek(fd, &opts, &there), -EBADMSG);
	close(fd);
	CU_ASSERT_EQUAL(fm_journal_peek(fd, &opts, &there), -EBADF);
}

/* Goal: nothing but what no record came to, or what a power cut left of it, is blank. */
static void test_is_blank(void)
{
	static char bytes[HEAD + 1];
	int fd = file_of(golden, sizeof(golden) - 1);

	CU_ASSERT_FALSE(fm_journal_is_blank(fd));
	close(fd);
	CU_ASSERT_FALSE(fm_journal_is_blank(fd));
	for (size_t len = 0; len <= sizeof(bytes); len++) {
		fd = file_of(bytes, len);
		CU_ASSERT_TRUE(fm_journal_is_blank(fd));
		if (len > 0) {
			bytes[len - 1] = 1;
			CU_ASSERT_EQUAL(pwrite(fd, bytes, len, 0), (ssize_t)len);
			bytes[len - 1] = 0;
			CU_ASSERT_EQUAL(fm_journal_is_blank(fd), len > HEAD);
		}
		close(fd);
	}
}

/* With this machine's own identity, by the public functions. */
static void test_this_machine(void)
{
	int fd = file_of("", 0);
	struct fm_journal_opts opts;
	struct fm_journal *j;
	uint64_t there;

	for (int i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL_FATAL(
			fm_journal_open(fcntl(fd, F_DUPFD_CLOEXEC, 0), &tree_opts, &j, &why, &err),
			0);
		CU_ASSERT_PTR_NULL(why);
		CU_ASSERT_EQUAL(bytes_there(j, "x"), i == 0 ? NEVER_KNOWN : 3);
		CU_ASSERT_EQUAL(append_one(j, piece("x", 4, (uint64_t)i * 3, i == 0 ? 3 : 1, 0)),
				0);
		fm_journal_close(j);
	}
	CU_ASSERT_EQUAL(fm_journal_peek(fd, &opts, &there), 0);
	CU_ASSERT_EQUAL(there, 4);
	close(fd);
}

/* --------------------------------------------------------------------------------------- pieces */

/* Close and open again: what is there must not depend on having been there when it was written. */
static struct fm_journal *reopened(int fd, struct fm_journal *j, const struct fm_journal_opts *opts)
{
	fm_journal_close(j);
	j = open_journal(fd, opts);
	CU_ASSERT_PTR_NULL(why);
	return j;
}

static void test_pieces(void)
{
	int fd = file_of("", 0);
	struct fm_journal *j = open_journal(fd, &tree_opts);

	CU_ASSERT_EQUAL(append_one(j, piece("f", 100, 10, 20, 0x1)), 0);
	CU_ASSERT_EQUAL(append_one(j, piece("f", 100, 50, 50, 0x2)), 0);
	CU_ASSERT_EQUAL(bytes_there(j, "f"), 70);
	/* Twice, or within what is there: not counted twice. */
	CU_ASSERT_EQUAL(append_one(j, piece("f", 100, 10, 20, 0x1)), 0);
	CU_ASSERT_EQUAL(append_one(j, piece("f", 100, 60, 10, 0x8)), 0);
	CU_ASSERT_EQUAL(bytes_there(j, "f"), 70);
	CU_ASSERT_EQUAL(crc_there(j, "f"), 0x3);
	/* In part: its share of the CRC is not known. */
	CU_ASSERT_EQUAL(append_one(j, piece("f", 100, 5, 10, 0x10)), -EINVAL);
	CU_ASSERT_EQUAL(append_one(j, piece("f", 100, 0, 100, 0x10)), -EINVAL);
	CU_ASSERT_TRUE(strlen(err.text) > 10);
	CU_ASSERT_EQUAL(bytes_there(j, "f"), 70);
	CU_ASSERT_EQUAL(crc_there(j, "f"), 0x3);
	j = reopened(fd, j, &tree_opts);
	CU_ASSERT_EQUAL(append_one(j, piece("f", 100, 0, 10, 0x4)), 0);
	CU_ASSERT_EQUAL(append_one(j, piece("f", 100, 30, 20, 0x20)), 0);
	CU_ASSERT_EQUAL(bytes_there(j, "f"), 100);
	CU_ASSERT_EQUAL(crc_there(j, "f"), 0x27);
	/* It is complete: nothing can be added. */
	CU_ASSERT_EQUAL(append_one(j, piece("f", 100, 0, 100, 0x40)), 0);
	CU_ASSERT_EQUAL(append_one(j, piece("f", 100, 20, 40, 0x40)), 0);
	j = reopened(fd, j, &tree_opts);
	CU_ASSERT_EQUAL(bytes_there(j, "f"), 100);
	CU_ASSERT_EQUAL(crc_there(j, "f"), 0x27);
	fm_journal_close(j);
	close(fd);
}

static void test_empty_file(void)
{
	int fd = file_of("", 0);
	struct fm_journal *j = open_journal(fd, &tree_opts);
	uint64_t len;

	CU_ASSERT_EQUAL(append_one(j, piece("empty", 0, 0, 0, 0)), 0);
	CU_ASSERT_EQUAL(bytes_there(j, "empty"), 0);
	len = file_len(fd);
	CU_ASSERT_EQUAL(append_one(j, piece("empty", 0, 0, 0, 0)), 0);
	CU_ASSERT_EQUAL(file_len(fd), len);
	j = reopened(fd, j, &tree_opts);
	CU_ASSERT_EQUAL(bytes_there(j, "empty"), 0);
	fm_journal_close(j);
	close(fd);
}

static void test_anew(void)
{
	struct fm_journal_entry e = piece("f", 100, 0, 100, 0x1);
	int fd = file_of("", 0);
	struct fm_journal *j = open_journal(fd, &tree_opts);
	struct fm_journal_opts opts;
	uint64_t there;

	CU_ASSERT_EQUAL(append_one(j, e), 0);
	e.mtime_ns++;
	e.len = 10;
	e.crc = 0x2;
	CU_ASSERT_EQUAL(append_one(j, e), 0);
	CU_ASSERT_EQUAL(bytes_there(j, "f"), 10);
	CU_ASSERT_EQUAL(crc_there(j, "f"), 0x2);
	e.identity++;
	e.offset = 5;	/* overlaps, but with what no longer counts */
	CU_ASSERT_EQUAL(append_one(j, e), 0);
	CU_ASSERT_EQUAL(bytes_there(j, "f"), 10);
	e.size = 50;
	e.offset = 0;
	CU_ASSERT_EQUAL(append_one(j, e), 0);
	e.offset = 20;
	e.crc = 0x4;
	CU_ASSERT_EQUAL(append_one(j, e), 0);
	j = reopened(fd, j, &tree_opts);
	CU_ASSERT_EQUAL(bytes_there(j, "f"), 20);
	CU_ASSERT_EQUAL(crc_there(j, "f"), 0x6);
	CU_ASSERT_EQUAL(fm_journal_find(j, "f", 1)->size, 50);
	CU_ASSERT_EQUAL(fm_journal_find(j, "f", 1)->mtime_ns, e.mtime_ns);
	CU_ASSERT_EQUAL(fm_journal_find(j, "f", 1)->identity, e.identity);
	CU_ASSERT_EQUAL(fm_journal_peek_as(fd, &here.host, &opts, &there), 0);
	CU_ASSERT_EQUAL(there, 20);
	fm_journal_close(j);
	close(fd);
}

/* An entry that is refused takes the whole call with it, also what it would have begun anew. */
static void test_all_or_nothing(void)
{
	struct fm_journal_entry batch[] = { piece("new", 5, 0, 5, 9), piece("f", 100, 20, 10, 2),
					    piece("g", 70, 0, 70, 4), piece("f", 100, 25, 10, 2) };
	int fd = file_of("", 0);
	struct fm_journal *j = open_journal(fd, &tree_opts);
	uint64_t len;

	CU_ASSERT_EQUAL(append_one(j, piece("f", 100, 0, 10, 1)), 0);
	CU_ASSERT_EQUAL(append_one(j, piece("g", 60, 0, 10, 3)), 0);
	len = file_len(fd);
	CU_ASSERT_EQUAL(fm_journal_append(j, batch, 4, &err), -EINVAL);
	CU_ASSERT_EQUAL(file_len(fd), len);
	CU_ASSERT_EQUAL(bytes_there(j, "new"), NEVER_KNOWN);
	CU_ASSERT_EQUAL(bytes_there(j, "f"), 10);
	CU_ASSERT_EQUAL(bytes_there(j, "g"), 10);
	CU_ASSERT_EQUAL(fm_journal_find(j, "g", 1)->size, 60);
	CU_ASSERT_EQUAL(fm_journal_append(j, batch, 3, &err), 0);
	CU_ASSERT_EQUAL(bytes_there(j, "f"), 20);
	CU_ASSERT_EQUAL(bytes_there(j, "g"), 70);
	fm_journal_close(j);
	close(fd);
}

static void test_bad_entries(void)
{
	static char path[FM_JOURNAL_PATH_MAX + 2];
	struct fm_journal_entry bad[10];
	int fd = file_of("", 0);
	struct fm_journal *j = open_journal(fd, &tree_opts);

	memset(path, 'x', sizeof(path) - 1);
	for (size_t i = 0; i < 9; i++)
		bad[i] = piece("f", 100, 0, 100, 0);
	bad[0].path_len = 0;
	bad[1].path = path;
	bad[1].path_len = FM_JOURNAL_PATH_MAX + 1;
	bad[2].path = "a\0b";
	bad[2].path_len = 3;
	bad[3].size = UINT64_C(1) << 63;
	bad[4].offset = 1;
	bad[5].offset = 101;
	bad[6].len = 0;
	bad[7].len = UINT64_MAX;
	bad[8].offset = UINT64_MAX;
	bad[9] = piece("f", 0, 0, 0, 7);		/* a CRC of no bytes */
	for (size_t i = 0; i < 10; i++)
		CU_ASSERT_EQUAL(append_one(j, bad[i]), -EINVAL);
	CU_ASSERT_EQUAL(file_len(fd), 0);
	/* The longest path, and the largest file, are good. */
	bad[1].path_len--;
	bad[1].size = INT64_MAX;
	CU_ASSERT_EQUAL(append_one(j, bad[1]), 0);
	j = reopened(fd, j, &tree_opts);
	CU_ASSERT_PTR_NOT_NULL(fm_journal_find(j, path, FM_JOURNAL_PATH_MAX));
	fm_journal_close(j);
	close(fd);
	fd = file_of("", 0);
	j = open_journal(fd, &file_opts);
	/* a single file has no path */
	CU_ASSERT_EQUAL(append_one(j, piece("f", 1000, 0, 1, 0)), -EINVAL);
	CU_ASSERT_EQUAL(append_one(j, piece("", 1000, 0, 1, 0)), 0);
	fm_journal_close(j);
	close(fd);
}

/* --------------------------------------------------------------------------------------- limits */

/* A single file's pieces are told one by one, also when it is complete; of a tree's file that is
 * complete there is one. */
static void test_pieces_told(void)
{
	int fd = file_of("", 0), tree_fd = file_of("", 0);
	struct fm_journal *j = open_journal(fd, &file_opts),
			  *tree = open_journal(tree_fd, &tree_opts);
	const struct fm_journal_file *f;
	struct fm_have have;

	CU_ASSERT_EQUAL(append_one(j, piece("", 30, 20, 10, 4)), 0);
	CU_ASSERT_EQUAL(append_one(j, piece("", 30, 0, 10, 1)), 0);
	CU_ASSERT_EQUAL(append_one(j, piece("", 30, 10, 10, 2)), 0);
	j = reopened(fd, j, &file_opts);
	f = fm_journal_find(j, "", 0);
	CU_ASSERT_TRUE(f && f->ranges.count == 1 && f->ranges.at[0].len == 30 && f->crc == 7);
	CU_ASSERT_EQUAL_FATAL(f->count, 3);
	for (uint64_t i = 0; i < 3; i++)
		CU_ASSERT_TRUE(f->pieces[i].offset == 10 * i && f->pieces[i].len == 10 &&
			       f->pieces[i].crc == 1u << i);
	CU_ASSERT_EQUAL(fm_have_copy(&have, f), 0);
	CU_ASSERT_TRUE(have.count == 3 && have.crc == 7 && fm_ranges_bytes(&have.ranges) == 30 &&
		       have.pieces[2].offset == 20);
	fm_have_free(&have);
	CU_ASSERT_EQUAL(append_one(tree, piece("f", 30, 20, 10, 4)), 0);
	CU_ASSERT_EQUAL(append_one(tree, piece("f", 30, 0, 10, 1)), 0);
	CU_ASSERT_EQUAL(fm_journal_find(tree, "f", 1)->count, 2);
	CU_ASSERT_EQUAL(append_one(tree, piece("f", 30, 10, 10, 2)), 0);
	f = fm_journal_find(tree, "f", 1);
	CU_ASSERT_TRUE(f && f->count == 1 && f->pieces[0].len == 30 && f->pieces[0].crc == 7);
	fm_journal_close(j);
	fm_journal_close(tree);
	close(fd);
	close(tree_fd);
}

/* More pieces than are told apart: neighbours become one, and nothing is lost. */
static void test_pieces_max(void)
{
	const uint64_t count = 3 * FM_JOURNAL_PIECES_MAX, size = count + 1;
	int fd = file_of("", 0);
	struct fm_journal *j = open_journal(fd, &file_opts);
	const struct fm_journal_file *f;
	uint64_t end = 0;
	uint32_t crc = 0;

	for (uint64_t i = 0; i < count; i++)
		CU_ASSERT_EQUAL(append_one(j, piece("", size, i, 1, 1u << i % 31)), 0);
	j = reopened(fd, j, &file_opts);
	f = fm_journal_find(j, "", 0);
	CU_ASSERT_TRUE(f->count <= FM_JOURNAL_PIECES_MAX && fm_ranges_bytes(&f->ranges) == count);
	for (size_t i = 0; i < f->count; i++) {
		CU_ASSERT_EQUAL(f->pieces[i].offset, end);
		end += f->pieces[i].len;
		crc ^= f->pieces[i].crc;
	}
	CU_ASSERT_TRUE(end == count && crc == f->crc);
	fm_journal_close(j);
	close(fd);
}

static void test_ranges_max(void)
{
	const uint64_t size = 4 * FM_JOURNAL_RANGES_MAX;
	int fd = file_of("", 0);
	struct fm_journal *j = open_journal(fd, &file_opts);
	uint64_t len;

	for (uint64_t i = 0; i < FM_JOURNAL_RANGES_MAX; i++)
		CU_ASSERT_EQUAL(append_one(j, piece("", size, 2 * i, 1, 1u << i % 32)), 0);
	CU_ASSERT_EQUAL(bytes_there(j, ""), FM_JOURNAL_RANGES_MAX);
	len = file_len(fd);
	CU_ASSERT_EQUAL(append_one(j, piece("", size, size - 1, 1, 0xff)), 0);	/* left out */
	CU_ASSERT_EQUAL(file_len(fd), len);
	CU_ASSERT_EQUAL(append_one(j, piece("", size, 1, 1, 0)), 0);		/* joins two */
	CU_ASSERT_EQUAL(append_one(j, piece("", size, size - 1, 1, 0)), 0);
	j = reopened(fd, j, &file_opts);
	CU_ASSERT_EQUAL(bytes_there(j, ""), FM_JOURNAL_RANGES_MAX + 2);
	CU_ASSERT_EQUAL(crc_there(j, ""), 0);
	fm_journal_close(j);
	close(fd);
}

static void path_of(uint32_t i, char path[16])
{
	snprintf(path, 16, "%" PRIx32, i);
}

static void test_partial_max(void)
{
	int fd = file_of("", 0);
	struct fm_journal *j = open_journal(fd, &tree_opts);
	char path[16];

	for (uint32_t i = 0; i < FM_JOURNAL_PARTIAL_MAX; i++) {
		path_of(i, path);
		CU_ASSERT_EQUAL(append_one(j, piece(path, 2, 0, 1, 1)), 0);
	}
	CU_ASSERT_EQUAL(append_one(j, piece("more", 2, 0, 1, 1)), 0);	/* left out ... */
	CU_ASSERT_EQUAL(bytes_there(j, "more"), NEVER_KNOWN);
	/* ... but a whole one has room */
	CU_ASSERT_EQUAL(append_one(j, piece("whole", 2, 0, 2, 1)), 0);
	CU_ASSERT_EQUAL(bytes_there(j, "whole"), 2);
	/* It has another content now, of which a part came: what was there counts no more, and the
	 * part has no room. */
	CU_ASSERT_EQUAL(append_one(j, piece("whole", 3, 0, 1, 1)), 0);
	CU_ASSERT_EQUAL(bytes_there(j, "whole"), 0);
	j = reopened(fd, j, &tree_opts);
	CU_ASSERT_EQUAL(bytes_there(j, "whole"), 0);
	CU_ASSERT_EQUAL(fm_journal_find(j, "whole", 5)->size, 3);
	CU_ASSERT_EQUAL(append_one(j, piece("whole", 3, 0, 1, 1)), 0);
	CU_ASSERT_EQUAL(bytes_there(j, "whole"), 0);
	/* one is complete: there is room */
	CU_ASSERT_EQUAL(append_one(j, piece("0", 2, 1, 1, 1)), 0);
	CU_ASSERT_EQUAL(append_one(j, piece("whole", 3, 0, 1, 1)), 0);
	CU_ASSERT_EQUAL(bytes_there(j, "whole"), 1);
	fm_journal_close(j);
	close(fd);
}

/* As many files as there may be. In the table only: the journal of them is large. */
static void test_files_max(void)
{
	struct fm_table t;
	char path[16];
	bool is_good = true;

	fm_table_init(&t);
	for (uint32_t i = 0; i < FM_JOURNAL_FILES_MAX; i++) {
		struct fm_journal_entry e;

		path_of(i, path);
		e = piece(path, 1 + i % 7, 0, 1 + i % 7, i);
		fm_table_begin(&t);
		is_good = is_good && fm_table_put(&t, &e) == FM_TABLE_CHANGED;
		fm_table_commit(&t);
	}
	CU_ASSERT_TRUE(is_good);
	for (uint32_t i = 0; i < FM_JOURNAL_FILES_MAX; i += 1 + i / 100) {
		const struct fm_journal_file *f;

		path_of(i, path);
		f = fm_table_find(&t, path, strlen(path));
		is_good = is_good && f && f->crc == i && fm_ranges_bytes(&f->ranges) == 1 + i % 7;
	}
	CU_ASSERT_TRUE(is_good);
	fm_table_begin(&t);
	CU_ASSERT_EQUAL(fm_table_put(&t, &(struct fm_journal_entry){.path = "g", .path_len = 1}),
			FM_TABLE_FULL);
	CU_ASSERT_EQUAL(fm_table_put(&t, &(struct fm_journal_entry){.path = "a", .path_len = 1}),
			FM_TABLE_CHANGED);
	fm_table_commit(&t);
	fm_table_free(&t);
}

static void test_bytes_max(void)
{
	struct fm_journal_entry both[] = { piece("a", 1, 0, 1, 0), piece("b", 1, 0, 1, 0) };
	struct fm_journal_env small = here;
	int fd = file_of("", 0);
	struct fm_journal *j;

	small.bytes_max = HEAD + 64 + 63;
	j = open_env(fd, &tree_opts, &small);
	CU_ASSERT_EQUAL(fm_journal_append(j, both, 2, &err), -EFBIG);
	CU_ASSERT_EQUAL(err.code, -EFBIG);
	CU_ASSERT_TRUE(fm_journal_is_empty(j));
	CU_ASSERT_EQUAL(bytes_there(j, "a"), NEVER_KNOWN);
	CU_ASSERT_EQUAL(append_one(j, both[0]), 0);
	CU_ASSERT_EQUAL(append_one(j, both[1]), -EFBIG);
	CU_ASSERT_EQUAL(append_one(j, both[0]), 0);	/* it is there */
	fm_journal_close(j);
	/* A file that is longer is of no use behind that. */
	CU_ASSERT_EQUAL(ftruncate(fd, 0), 0);
	j = open_journal(fd, &tree_opts);
	CU_ASSERT_EQUAL(fm_journal_append(j, both, 2, &err), 0);
	fm_journal_close(j);
	j = open_env(fd, &tree_opts, &small);
	CU_ASSERT_PTR_NULL(why);
	CU_ASSERT_EQUAL(bytes_there(j, "a"), 1);
	CU_ASSERT_EQUAL(bytes_there(j, "b"), NEVER_KNOWN);
	CU_ASSERT_EQUAL(file_len(fd), HEAD + 64);
	fm_journal_close(j);
	close(fd);
}

/* Several blocks in one append, and several windows to read them: records lie across their
 * borders. */
static void test_many(void)
{
	enum { COUNT = 60000 };
	struct fm_journal_entry *entries = calloc(COUNT, sizeof(*entries));
	char (*paths)[16] = calloc(COUNT, sizeof(*paths));
	int fd = file_of("", 0);
	struct fm_journal *j = open_journal(fd, &tree_opts);
	bool is_good = true;

	CU_ASSERT_TRUE_FATAL(entries && paths);
	for (uint32_t i = 0; i < COUNT; i++) {
		path_of(i * 0x1234567, paths[i]);
		entries[i] = piece(paths[i], i, 0, i, i);
	}
	CU_ASSERT_EQUAL(fm_journal_append(j, entries, COUNT, &err), 0);
	CU_ASSERT_TRUE(file_len(fd) > 3 * MIB);
	j = reopened(fd, j, &tree_opts);
	for (uint32_t i = 0; i < COUNT; i++)
		is_good = is_good && bytes_there(j, paths[i]) == i && crc_there(j, paths[i]) == i;
	CU_ASSERT_TRUE(is_good);
	fm_journal_close(j);
	close(fd);
	free(entries);
	free(paths);
}

/* -------------------------------------------------------------------------------------- undoing */

/* soon more than buckets: they grow with the files that come, and stay so */
#define UNDO_FILES 1000u

/* Files 0 .. UNDO_FILES - 1 as they were put at first: the even ones whole, of the odd ones a
 * part. */
static bool is_first_state(struct fm_table *t)
{
	char path[16];
	bool is_good = t->count == UNDO_FILES && t->partial_count == UNDO_FILES / 2 &&
		       t->bytes == 150 * UNDO_FILES / 2;

	for (uint32_t i = 0; i < UNDO_FILES + 100; i++) {
		const struct fm_journal_file *f;

		path_of(i, path);
		f = fm_table_find(t, path, strlen(path));
		is_good = is_good && (f != NULL) == (i < UNDO_FILES);
		is_good =
			is_good &&
			(!f || (f->crc == i && fm_ranges_bytes(&f->ranges) == (i % 2 ? 50 : 100)));
	}
	return is_good;
}

/* Some file or other, known or not, of its old content or another. */
static int put_any(struct fm_table *t, uint32_t i)
{
	struct fm_journal_entry e;
	char path[16];

	path_of(i * 7 % (UNDO_FILES + 100), path);
	e = piece(path, i % 3 ? 100 : 99, i % 2 ? 60 : 0, i % 5 ? 39 : 20, i);
	return fm_table_put(t, &e);
}

/* However much was put since, and whatever grew by that, it is as it was. */
static void test_undo(void)
{
	struct fm_journal_entry e;
	struct fm_table t;
	char path[16];

	fm_table_init(&t);
	fm_table_begin(&t);
	for (uint32_t i = 0; i < UNDO_FILES; i++) {
		path_of(i, path);
		e = piece(path, 100, 0, i % 2 ? 50 : 100, i);
		CU_ASSERT_EQUAL(fm_table_put(&t, &e), FM_TABLE_CHANGED);
	}
	fm_table_commit(&t);
	CU_ASSERT_TRUE(is_first_state(&t));
	for (uint32_t count = 1; count < 1200; count += 59) {
		fm_table_begin(&t);
		for (uint32_t i = 0; i < count; i++)
			(void)put_any(&t, i);	/* some of them overlap */
		CU_ASSERT_FALSE(count > 1 && is_first_state(&t));
		fm_table_rollback(&t);
		CU_ASSERT_TRUE(is_first_state(&t));
	}
	fm_table_free(&t);
}

/* ------------------------------------------------------------------------ against a naive model */

#define MODEL_FILES 5
#define MODEL_BYTES 40
#define MODEL_ROUNDS 150
#define MODEL_STEPS 60

static uint64_t seed;

static struct model {
	uint64_t size;		/* 0: never known */
	bool is_there[MODEL_BYTES];
	uint32_t crc;
} model[MODEL_FILES];

static uint32_t roll(uint32_t below)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)((seed >> 33) % below);
}

/* What append should return, and what it should change. */
static int model_put(struct model *m, const struct fm_journal_entry *e)
{
	size_t there = 0;

	if (m->size != e->size)
		*m = (struct model){ .size = e->size };
	for (uint64_t i = 0; i < e->len; i++)
		there += m->is_there[e->offset + i];
	if (there > 0)
		return there == e->len ? 0 : -EINVAL;
	memset(m->is_there + e->offset, true, e->len);
	m->crc ^= e->crc;
	return 0;
}

static bool is_as_model(struct fm_journal *j)
{
	static const char *const paths[] = { "0", "1", "2", "3", "4" };

	for (size_t i = 0; i < MODEL_FILES; i++) {
		const struct fm_journal_file *f = fm_journal_find(j, paths[i], 1);

		if (!f || model[i].size == 0) {
			if (f || model[i].size != 0)
				return false;
			continue;
		}
		if (f->size != model[i].size || f->crc != model[i].crc)
			return false;
		for (uint64_t k = 0; k < f->size; k++)
			if (fm_ranges_cover(&f->ranges, k, 1) != model[i].is_there[k])
				return false;
	}
	return true;
}

/* One append of a few entries at random. */
static bool model_step(struct fm_journal *j)
{
	static const char *const paths[] = { "0", "1", "2", "3", "4" };
	struct fm_journal_entry entries[4];
	struct model old[MODEL_FILES];
	size_t count = 1 + roll(4);
	int expected = 0;

	memcpy(old, model, sizeof(old));
	for (size_t i = 0; i < count; i++) {
		uint32_t which = roll(MODEL_FILES), size = MODEL_BYTES - (roll(20) == 0);
		uint32_t offset = roll(size),
			 len = roll(10) == 0 ? size - offset : 1 + roll(size - offset) % 4;

		entries[i] = piece(paths[which], size, offset, len, roll(UINT32_MAX));
		if (expected == 0)
			expected = model_put(&model[which], &entries[i]);
	}
	if (expected < 0)
		memcpy(model, old, sizeof(old));
	return fm_journal_append(j, entries, count, &err) == expected && is_as_model(j);
}

static void test_model(void)
{
	for (uint64_t round = 1; round <= MODEL_ROUNDS; round++) {
		int fd = file_of("", 0);
		struct fm_journal *j = open_journal(fd, &tree_opts);
		bool is_good = true;

		seed = round;
		memset(model, 0, sizeof(model));
		for (int i = 0; i < MODEL_STEPS && is_good; i++) {
			is_good = model_step(j);
			if (roll(8) == 0) {
				j = reopened(fd, j, &tree_opts);
				is_good = is_good && is_as_model(j);
			}
		}
		fm_journal_close(j);
		close(fd);
		if (!is_good)
			printf("seed %" PRIu64 " differs from the model\n", round);
		CU_ASSERT_TRUE(is_good);
	}
}

static const struct fm_test tests[] = {
	{ "a journal is written byte by byte as the manual page says", test_golden_write },
	{ "a journal that was written once is read", test_golden_read },
	{ "a record that overlaps in part ends what is trusted", test_sample_read },
	{ "SipHash gives its authors' results", test_siphash },
	{ "an identity is all of its numbers", test_identity },
	{ "a machine is told by its ID, or its name", test_host },
	{ "a journal cut at any byte has the records before that", test_torn },
	{ "what a power cut leaves behind the end is cut off", test_grown },
	{ "a flipped bit anywhere costs the record it is in, and those behind", test_flipped },
	{ "a record whose CRC is right and whose fields are not does not count", test_bad_records },
	{ "records of another journal do not count", test_foreign_records },
	{ "another source, or kind, starts an empty journal and says so", test_other_source },
	{ "another machine's journal is not trusted", test_other_machine },
	{ "what was not synced counts as long as the machine runs", test_other_boot },
	{ "another version's journal is told as such", test_other_version },
	{ "what is no journal is none", test_no_journal },
	{ "a journal that is no longer synced does not say it is", test_no_longer_synced },
	{ "peeking counts bytes and changes nothing", test_peek },
	{ "a blank one is known", test_is_blank },
	{ "a journal of this machine is found again on it", test_this_machine },
	{ "pieces add up, each byte once", test_pieces },
	{ "an empty file is complete", test_empty_file },
	{ "a file of another content starts anew", test_anew },
	{ "a refused entry takes its whole call along", test_all_or_nothing },
	{ "an entry out of its range is refused", test_bad_entries },
	{ "too many ranges: the rest is left out", test_ranges_max },
	{ "pieces are told one by one", test_pieces_told },
	{ "too many pieces become fewer", test_pieces_max },
	{ "too many unfinished files: the rest is left out", test_partial_max },
	{ "too many files: the rest is left out", test_files_max },
	{ "a journal does not grow beyond its limit", test_bytes_max },
	{ "many records in one append are all found again", test_many },
	{ "what is undone leaves no trace", test_undo },
	{ "appending and opening at random agree with a model", test_model },
};

FM_TEST_MAIN("journal", tests)
