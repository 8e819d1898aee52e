/* SPDX-License-Identifier: MIT */
/* What is mounted at a volume's point. links: fm_cli */
#include <errno.h>
#include <string.h>

#include "client/bench/targets.h"
#include "tests/fm_test.h"

static const char mounts[] = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
			     "30 22 259:1 / /srv/data rw shared:5 master:1 - xfs /dev/nvme1n1 rw\n"
			     "31 22 259:2 / /srv/data\\040two rw - xfs /dev/nvme2n1 rw\n"
			     "32 22 0:40 / /srv/nfs rw - nfs4 host:/x rw\n"
			     "33 30 259:3 / /srv/data ro - ext4 /dev/nvme3n1 ro\n"
			     "34 22 259:4 / /cut";

static int find(const char *text, const char *point, char *out, size_t cap)
{
	return fm_targets_device(text, strlen(text), point, out, cap);
}

static const char *at(const char *text, const char *point)
{
	static char device[64];

	return find(text, point, device, sizeof(device)) == 0 ? device : "";
}

static void test_found(void)
{
	CU_ASSERT_STRING_EQUAL(at(mounts, "/"), "/dev/sda1");
	CU_ASSERT_STRING_EQUAL(at(mounts, "/srv/data two"), "/dev/nvme2n1");
	CU_ASSERT_STRING_EQUAL(at(mounts, "/srv/nfs"), "host:/x");
	CU_ASSERT_STRING_EQUAL(at(mounts, "/srv/data"), "/dev/nvme3n1"); /* it hides the other */
}

static void test_not_found(void)
{
	char small[8];

	CU_ASSERT_EQUAL(find(mounts, "/srv", small, sizeof(small)), -ENOTCONN);
	CU_ASSERT_EQUAL(find(mounts, "/cut", small, sizeof(small)), -ENOTCONN);
	CU_ASSERT_EQUAL(find("", "/", small, sizeof(small)), -ENOTCONN);
	CU_ASSERT_EQUAL(find("\n\n - \n", "/", small, sizeof(small)), -ENOTCONN);
	CU_ASSERT_EQUAL(find(mounts, "/", small, sizeof(small)), -ENAMETOOLONG);
}

static const struct fm_test tests[] = {
	{"the last mount at a point counts", test_found},
	{"nothing is mounted there", test_not_found},
};
FM_TEST_MAIN("bench targets", tests)
