/* SPDX-License-Identifier: MIT */
/* What the user database has, and what not. links: fm_base */
#include "tests/fm_test.h"

#include "mover/base/users.h"

static void test_who_is_there(void)
{
	char name[16] = "";
	uid_t uid = 1;
	gid_t gid = 1;

	CU_ASSERT_TRUE(fm_users_find("root", &uid, &gid));
	CU_ASSERT_TRUE(uid == 0 && gid == 0);
	gid = 1;
	CU_ASSERT_TRUE(fm_users_find_group("root", &gid));
	CU_ASSERT_EQUAL(gid, 0);
	gid = 1;
	CU_ASSERT_TRUE(fm_users_name(0, name, sizeof(name), &gid));
	CU_ASSERT_STRING_EQUAL(name, "root");
	CU_ASSERT_EQUAL(gid, 0);
	CU_ASSERT_TRUE(fm_users_name(0, name, 3, &gid));
	CU_ASSERT_STRING_EQUAL(name, "ro");
}

static void test_who_is_not(void)
{
	char name[16] = "as it was";
	uid_t uid = 7;
	gid_t gid = 7;

	CU_ASSERT_FALSE(fm_users_find("no:body", &uid, &gid));
	CU_ASSERT_FALSE(fm_users_find_group("no:body", &gid));
	CU_ASSERT_FALSE(fm_users_name((uid_t)-2, name, sizeof(name), &gid));
	CU_ASSERT_TRUE(uid == 7 && gid == 7);
	CU_ASSERT_STRING_EQUAL(name, "as it was");
}

static const struct fm_test tests[] = {
	{"who is there is found", test_who_is_there},
	{"who is not leaves all as it was", test_who_is_not},
};

FM_TEST_MAIN("users", tests)
