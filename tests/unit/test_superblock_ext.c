/* SPDX-License-Identifier: MIT */
/*
 * Superblocks that mke2fs wrote and debugfs changed. links: fm_nvmetcp
 */
#include "tests/unit/mkfs_scene.h"

#define UUID "12345678-9abc-4def-8123-456789abcdef"

static struct fm_superblock made(const char *tool, const char *options)
{
	struct fm_superblock sb;

	image_make(16 << 20);
	CU_ASSERT_EQUAL(shell("%s -q -F -L made -U " UUID " %s %s", tool, options, image), 0);
	sb = image_superblock();
	CU_ASSERT_STRING_EQUAL(sb.uuid, UUID);
	CU_ASSERT_STRING_EQUAL(sb.label, "made");
	CU_ASSERT_FALSE(sb.has_errors);
	CU_ASSERT_EQUAL(sb.clean, FM_CLEAN);
	return sb;
}

/* As made, then this done to it. */
static struct fm_superblock changed(const char *how)
{
	(void)made("mkfs.ext4", "");
	CU_ASSERT_EQUAL(shell("debugfs -w -R '%s' %s", how, image), 0);
	return image_superblock();
}

static void test_types(void)
{
	struct fm_superblock sb;

	sb = made("mkfs.ext2", "");
	CU_ASSERT_STRING_EQUAL(sb.type, "ext2");
	unlink(image);
	sb = made("mkfs.ext3", "");
	CU_ASSERT_STRING_EQUAL(sb.type, "ext3");
	unlink(image);
	sb = made("mkfs.ext4", "");
	CU_ASSERT_STRING_EQUAL(sb.type, "ext4");
	CU_ASSERT_FALSE(sb.has_mmp);
	unlink(image);
	sb = made("mkfs.ext4", "-O mmp");
	CU_ASSERT_STRING_EQUAL(sb.type, "ext4");
	CU_ASSERT_TRUE(sb.has_mmp);
	unlink(image);
	sb = made("mkfs.ext4", "-O ^metadata_csum,^has_journal");
	CU_ASSERT_STRING_EQUAL(sb.type, "ext4");
	unlink(image);
}

static void test_dirty(void)
{
	CU_ASSERT_EQUAL(changed("feature needs_recovery").clean, FM_UNCLEAN);
	CU_ASSERT_FALSE(image_superblock().has_errors);	/* debugfs sets the checksum right */
	unlink(image);
	CU_ASSERT_EQUAL(changed("ssv state 0").clean, FM_UNCLEAN);
	unlink(image);
	CU_ASSERT_EQUAL(changed("ssv last_orphan 13").clean, FM_UNCLEAN);
	unlink(image);
}

static void test_damaged(void)
{
	CU_ASSERT_TRUE(changed("ssv state 3").has_errors);
	unlink(image);
	CU_ASSERT_TRUE(changed("ssv error_count 1").has_errors);
	unlink(image);
	(void)made("mkfs.ext4", "");
	image_damage(1024 + 0x300);
	CU_ASSERT_TRUE(image_superblock().has_errors);
	unlink(image);
}

static const struct fm_test tests[] = {
	{ "what mke2fs made", test_types },
	{ "what was not unmounted", test_dirty },
	{ "what is damaged", test_damaged },
};

int main(void)
{
	need("mkfs.ext2");
	need("mkfs.ext3");
	need("mkfs.ext4");
	need("debugfs");
	return fm_test_main("superblock of ext", tests, sizeof(tests) / sizeof(tests[0]));
}
