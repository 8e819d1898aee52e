/* SPDX-License-Identifier: MIT */
/*
 * Superblocks, byte by byte. links: fm_nvmetcp
 */
#include <errno.h>
#include <string.h>

#include "mover/base/crc32c.h"
#include "nvmetcp/superblock.h"
#include "tests/fm_test.h"

#define UUID "00010203-0405-0607-0809-0a0b0c0d0e0f"

static uint8_t bytes[FM_SUPERBLOCK_BYTES];

static void put_le(size_t at, uint64_t value, int len)
{
	for (int i = 0; i < len; i++)
		bytes[at + (size_t)i] = (uint8_t)(value >> (8 * i));
}

static void put_be(size_t at, uint64_t value, int len)
{
	for (int i = 0; i < len; i++)
		bytes[at + (size_t)i] = (uint8_t)(value >> (8 * (len - 1 - i)));
}

static void put_text(size_t at, const char *text)
{
	memcpy(bytes + at, text, strlen(text));
}

static void put_uuid(size_t at)
{
	for (uint8_t i = 0; i < 16; i++)
		bytes[at + i] = i;
}

static struct fm_superblock parsed(void)
{
	struct fm_superblock sb;

	memset(&sb, 0xff, sizeof(sb));
	CU_ASSERT_EQUAL(fm_superblock_parse(bytes, sizeof(bytes), &sb), 0);
	return sb;
}

static bool is(const char *type, enum fm_superblock_clean clean)
{
	struct fm_superblock sb = parsed();

	return strcmp(sb.type, type) == 0 && sb.clean == clean;
}

static void test_unknown(void)
{
	struct fm_superblock sb;

	memset(bytes, 0, sizeof(bytes));
	CU_ASSERT_TRUE(is("", FM_CLEAN_UNKNOWN));
	memset(bytes, 0xff, sizeof(bytes));
	sb = parsed();
	CU_ASSERT_STRING_EQUAL(sb.type, "");
	CU_ASSERT_STRING_EQUAL(sb.uuid, "");
	CU_ASSERT_STRING_EQUAL(sb.label, "");
	CU_ASSERT_FALSE(sb.has_mmp || sb.has_errors);
	CU_ASSERT_EQUAL(fm_superblock_parse(bytes, sizeof(bytes) - 1, &sb), -EINVAL);
	CU_ASSERT_EQUAL(fm_superblock_parse(bytes, 0, &sb), -EINVAL);
}

#define EXT(offset) (1024 + (offset))

/* Clean, with these features. */
static void make_ext(uint32_t compat, uint32_t incompat, uint32_t ro_compat)
{
	memset(bytes, 0, sizeof(bytes));
	put_le(EXT(0x38), 0xef53, 2);
	put_le(EXT(0x3a), 1, 2);
	put_le(EXT(0x4c), 1, 4);
	put_le(EXT(0x5c), compat, 4);
	put_le(EXT(0x60), incompat, 4);
	put_le(EXT(0x64), ro_compat, 4);
	put_uuid(EXT(0x68));
	put_text(EXT(0x78), "0123456789abcdefX");
}

static void test_ext_types(void)
{
	struct fm_superblock sb;

	make_ext(0, 0x2, 0x3);
	CU_ASSERT_TRUE(is("ext2", FM_CLEAN));
	make_ext(0x4, 0x2, 0x3);
	CU_ASSERT_TRUE(is("ext3", FM_CLEAN));
	make_ext(0x4, 0x2 | 0x40 /* extents */, 0x3);
	CU_ASSERT_TRUE(is("ext4", FM_CLEAN));
	make_ext(0x4, 0x2, 0x8 /* huge_file */);
	CU_ASSERT_TRUE(is("ext4", FM_CLEAN));
	make_ext(0, 0x2 | 0x100, 0);	/* no journal, but mmp */
	sb = parsed();
	CU_ASSERT_STRING_EQUAL(sb.type, "ext4");
	CU_ASSERT_TRUE(sb.has_mmp);
	CU_ASSERT_FALSE(sb.has_errors);
	CU_ASSERT_STRING_EQUAL(sb.uuid, UUID);
	CU_ASSERT_STRING_EQUAL(sb.label, "0123456789abcdef");
	make_ext(0, 0x8, 0);
	CU_ASSERT_TRUE(is("jbd", FM_CLEAN));
	make_ext(0x4, 0x102, 0);
	put_le(EXT(0x4c), 0, 4);	/* no revision, no features */
	sb = parsed();
	CU_ASSERT_STRING_EQUAL(sb.type, "ext2");
	CU_ASSERT_FALSE(sb.has_mmp);
}

static void test_ext_unclean(void)
{
	make_ext(0x4, 0x2 | 0x4 | 0x40, 0);
	CU_ASSERT_TRUE(is("ext4", FM_UNCLEAN));
	make_ext(0, 0x2, 0);
	put_le(EXT(0x3a), 0, 2);
	CU_ASSERT_TRUE(is("ext2", FM_UNCLEAN));
	make_ext(0x4, 0x42, 0);
	put_le(EXT(0x3a), 1 | 4, 2);
	CU_ASSERT_TRUE(is("ext4", FM_UNCLEAN));
	make_ext(0x4, 0x42, 0x10000);
	CU_ASSERT_TRUE(is("ext4", FM_UNCLEAN));
	make_ext(0x4, 0x42, 0);
	put_le(EXT(0xe8), 12, 4);
	CU_ASSERT_TRUE(is("ext4", FM_UNCLEAN));
}

static void test_ext_errors(void)
{
	make_ext(0x4, 0x42, 0);
	CU_ASSERT_FALSE(parsed().has_errors);
	put_le(EXT(0x3a), 1 | 2, 2);
	CU_ASSERT_TRUE(parsed().has_errors);
	make_ext(0x4, 0x42, 0);
	put_le(EXT(0x194), 3, 4);
	CU_ASSERT_TRUE(parsed().has_errors);
	make_ext(0x4, 0x42, 0x400);
	CU_ASSERT_TRUE(parsed().has_errors);
	put_le(EXT(0x3fc), ~fm_crc32c(0, bytes + 1024, 0x3fc), 4);
	CU_ASSERT_FALSE(parsed().has_errors);
	bytes[EXT(0x200)] ^= 1;
	CU_ASSERT_TRUE(parsed().has_errors);
}

static void test_label(void)
{
	make_ext(0, 0, 0);
	memset(bytes + EXT(0x78), 0, 16);
	CU_ASSERT_STRING_EQUAL(parsed().label, "");
	put_text(EXT(0x78), "a\n\x1b\x7f\xc3\xa9 z");
	CU_ASSERT_STRING_EQUAL(parsed().label, "a????? z");
	memset(bytes + EXT(0x68), 0, 16);
	CU_ASSERT_STRING_EQUAL(parsed().uuid, "");
}

static void xfs_sum(void)
{
	put_le(224, 0, 4);
	put_le(224, fm_crc32c(0, bytes, 512), 4);
}

static void make_xfs(unsigned version)
{
	memset(bytes, 0, sizeof(bytes));
	put_text(0, "XFSB");
	put_uuid(32);
	put_be(100, 0xb4a0 | version, 2);
	put_be(102, 512, 2);
	put_text(108, "scratch");
	xfs_sum();
}

static void test_xfs(void)
{
	struct fm_superblock sb;

	make_xfs(5);
	sb = parsed();
	CU_ASSERT_STRING_EQUAL(sb.type, "xfs");
	CU_ASSERT_STRING_EQUAL(sb.uuid, UUID);
	CU_ASSERT_STRING_EQUAL(sb.label, "scratch");
	CU_ASSERT_EQUAL(sb.clean, FM_CLEAN_UNKNOWN);
	CU_ASSERT_FALSE(sb.has_errors || sb.has_mmp);
	put_be(216, 0x10, 4);	/* needsrepair */
	xfs_sum();
	CU_ASSERT_TRUE(parsed().has_errors);
	make_xfs(5);
	bytes[400] ^= 1;
	CU_ASSERT_TRUE(parsed().has_errors);
	put_be(102, 32768, 2);	/* more than we have */
	CU_ASSERT_FALSE(parsed().has_errors);
	put_be(102, 0, 2);
	CU_ASSERT_FALSE(parsed().has_errors);
	make_xfs(4);		/* no checksum, no such flag */
	bytes[400] ^= 1;
	put_be(216, 0x10, 4);
	CU_ASSERT_FALSE(parsed().has_errors);
	bytes[126] = 1;		/* in progress */
	CU_ASSERT_TRUE(parsed().has_errors);
}

static void test_others(void)
{
	memset(bytes, 0, sizeof(bytes));
	put_le(1024, 0xe0f5e1e2, 4);
	put_uuid(1024 + 48);
	CU_ASSERT_TRUE(is("erofs", FM_CLEAN));
	CU_ASSERT_STRING_EQUAL(parsed().uuid, UUID);
	memset(bytes, 0, sizeof(bytes));
	put_text(4086, "SWAPSPACE2");
	CU_ASSERT_TRUE(is("swap", FM_CLEAN_UNKNOWN));
	put_text(512, "LABELONE");
	CU_ASSERT_TRUE(is("LVM2_member", FM_CLEAN_UNKNOWN));
	put_text(0, "LUKS\xba\xbe");
	CU_ASSERT_TRUE(is("crypto_LUKS", FM_CLEAN_UNKNOWN));
	put_text(0, "hsqs");
	CU_ASSERT_TRUE(is("squashfs", FM_CLEAN));
	memset(bytes, 0, sizeof(bytes));
	put_text(512, "EFI PART");
	CU_ASSERT_TRUE(is("gpt", FM_CLEAN_UNKNOWN));
}

static const struct fm_test tests[] = {
	{ "what nobody knows has no name; too few bytes are refused", test_unknown },
	{ "ext2, ext3 and ext4 by their features", test_ext_types },
	{ "ext: every sign of not having been unmounted", test_ext_unclean },
	{ "ext: every sign of damage", test_ext_errors },
	{ "a label is one line of ASCII", test_label },
	{ "XFS", test_xfs },
	{ "others by their magic", test_others },
};

FM_TEST_MAIN("superblock", tests)
