/* SPDX-License-Identifier: MIT */
/* What the user database has, and what not. links: fm_base */
#include "tests/fm_test.h"

#include <errno.h>

#include "mover/base/env.h"
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

/* cli.sockets_silent has a database that does not answer. */
static void test_within(void)
{
	const uint64_t max_ns = FM_TEST_HANG_S * FM_NS_PER_S;
	char name[16] = "as it was";
	gid_t gid = 7;

	CU_ASSERT_EQUAL(fm_users_find_group_within("no:body", max_ns, &gid), -ENOENT);
	CU_ASSERT_EQUAL(fm_users_name_within((uid_t)-2, max_ns, name, sizeof(name)), -ENOENT);
	CU_ASSERT_EQUAL(gid, 7);
	CU_ASSERT_STRING_EQUAL(name, "as it was");
	CU_ASSERT_EQUAL(fm_users_find_group_within("root", max_ns, &gid), 0);
	CU_ASSERT_EQUAL(gid, 0);
	CU_ASSERT_EQUAL(fm_users_name_within(0, max_ns, name, 3), 0);
	CU_ASSERT_STRING_EQUAL(name, "ro");
}

static const struct fm_test tests[] = {
	{"who is there is found", test_who_is_there},
	{"who is not leaves all as it was", test_who_is_not},
	{"the same within a time", test_within},
};

FM_TEST_MAIN("users", tests)
