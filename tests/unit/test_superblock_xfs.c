/* SPDX-License-Identifier: MIT */
/*
 * Superblocks that mkfs.xfs wrote. links: fm_nvmetcp
 */
#include "tests/unit/mkfs_scene.h"

#define UUID "12345678-9abc-4def-8123-456789abcdef"
#define SIZE (300 << 20)	/* the least that mkfs.xfs takes; most of it is a hole */

static struct fm_superblock made(const char *options)
{
	image_make(SIZE);
	CU_ASSERT_EQUAL(shell("mkfs.xfs -q -K -L made %s %s", options, image), 0);
	return image_superblock();
}

static void test_made(void)
{
	static const char *const options[] = { "-m uuid=" UUID, "-s size=4096 -m uuid=" UUID };
	struct fm_superblock sb;

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		sb = made(options[i]);
		CU_ASSERT_STRING_EQUAL(sb.type, "xfs");
		CU_ASSERT_STRING_EQUAL(sb.label, "made");
		CU_ASSERT_STRING_EQUAL(sb.uuid, UUID);
		CU_ASSERT_EQUAL(sb.clean, FM_CLEAN_UNKNOWN);
		CU_ASSERT_FALSE(sb.has_errors || sb.has_mmp);
		unlink(image);
	}
}

static void test_damaged(void)
{
	CU_ASSERT_FALSE(made("").has_errors);
	image_damage(300);
	CU_ASSERT_TRUE(image_superblock().has_errors);
	unlink(image);
}

static const struct fm_test tests[] = {
	{ "what mkfs.xfs made", test_made },
	{ "what is damaged", test_damaged },
};

int main(void)
{
	need("mkfs.xfs");
	return fm_test_main("superblock of XFS", tests, sizeof(tests) / sizeof(tests[0]));
}
