/* SPDX-License-Identifier: MIT */
/* What mount(8) calls options as mount(2) wants them. links: fm_nvmetcp */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "mover/base/err.h"
#include "nvmetcp/mount_options.h"
#include "tests/fm_test.h"

static struct fm_mount_options mo;
static struct fm_err err;

static int parse(const char *text)
{
	fm_err_clear(&err);
	return fm_mount_options_parse(text, &mo, &err);
}

static void test_flags(void)
{
	CU_ASSERT_EQUAL(parse(""), 0);
	CU_ASSERT_EQUAL(mo.flags, 0);
	CU_ASSERT_STRING_EQUAL(mo.data, "");
	CU_ASSERT_EQUAL(parse("ro,nosuid,nodev,noatime"), 0);
	CU_ASSERT_EQUAL(mo.flags, MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOATIME);
	CU_ASSERT_STRING_EQUAL(mo.data, "");
}

static void test_data(void)
{
	CU_ASSERT_EQUAL(parse("ro,noload,commit=30,_netdev,nofail,x-systemd.device-timeout=9,"
			      "defaults,stripe=8"),
			0);
	CU_ASSERT_EQUAL(mo.flags, MS_RDONLY);
	CU_ASSERT_STRING_EQUAL(mo.data, "noload,commit=30,stripe=8");
}

static void test_last_wins(void)
{
	CU_ASSERT_EQUAL(parse("ro,rw"), 0);
	CU_ASSERT_EQUAL(mo.flags, 0);
	CU_ASSERT_EQUAL(parse("rw,noexec,exec,ro"), 0);
	CU_ASSERT_EQUAL(mo.flags, MS_RDONLY);
}

static void test_refused(void)
{
	static const char *const bad[] = {
		"remount", "ro,bind", "loop", "loop=/dev/loop0", "offset=512",
		"a,,b",	   ",a",      "a,",   "ro\nrw",		 "users",
	};
	char *longest = malloc(2 * FM_MOUNT_DATA_MAX);

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CU_ASSERT_EQUAL(parse(bad[i]), -EINVAL);
		CU_ASSERT_TRUE(strlen(err.text) > 10);
	}
	CU_ASSERT_PTR_NOT_NULL_FATAL(longest);
	memset(longest, 'a', FM_MOUNT_DATA_MAX);
	longest[FM_MOUNT_DATA_MAX - 1] = '\0';
	CU_ASSERT_EQUAL(parse(longest), -E2BIG);
	longest[FM_MOUNT_DATA_MAX - 2] = '\0';
	CU_ASSERT_EQUAL(parse(longest), 0);
	free(longest);
}

static const struct fm_test tests[] = {
	{ "words of the kernel become flags", test_flags },
	{ "the rest is for the file system, without what only fstab knows", test_data },
	{ "the last word wins", test_last_wins },
	{ "what would be another kind of mount is refused", test_refused },
};

FM_TEST_MAIN("mount_options", tests)
