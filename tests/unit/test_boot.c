/* SPDX-License-Identifier: MIT */
/* Unit tests of mover/base/boot.c. */
#include "tests/fm_test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/boot.h"
#include "mover/base/fault.h"

static void test_here(void)
{
	char id[FM_BOOT_ID_LEN + 1], again[FM_BOOT_ID_LEN + 1];
	unsigned part[5];

	CU_ASSERT_EQUAL_FATAL(fm_boot_id(id), 0);
	CU_ASSERT_EQUAL(strlen(id), FM_BOOT_ID_LEN);
	CU_ASSERT_EQUAL(sscanf(id, "%8x-%4x-%4x-%4x-%4x", &part[0], &part[1], &part[2], &part[3],
			       &part[4]),
			5);
	CU_ASSERT_EQUAL(fm_boot_id(again), 0);
	CU_ASSERT_STRING_EQUAL(id, again);
}

static void test_unreadable(void)
{
	char id[FM_BOOT_ID_LEN + 1] = "of an earlier reading";

	fm_fault_arm("boot.id", 1);
	CU_ASSERT_EQUAL(fm_boot_id(id), -EIO);
	CU_ASSERT_STRING_EQUAL(id, "");
	fm_fault_arm(NULL, 0);
}

static const struct fm_test tests[] = {
	{ "the kernel says which boot this is, always the same", test_here },
	{ "an ID that cannot be read is an error and no text", test_unreadable },
};
FM_TEST_MAIN("boot", tests)
