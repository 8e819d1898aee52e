/* SPDX-License-Identifier: MIT */
/* Which processors count: files as the kernel writes them, in a directory of the test. */
#include "tests/fm_test.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/cores.h"
#include "tests/unit/remove_all.h"

static char root[200], membership[220];

static void begin(void)
{
	const char *tmp = getenv("TMPDIR");

	(void)snprintf(root, sizeof(root), "%s/fmove-cores.XXXXXX", tmp ? tmp : "/tmp");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(root));
	(void)snprintf(membership, sizeof(membership), "%s/membership", root);
}

static void end(void)
{
	remove_all(root);
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_TRUE(fputs(text, f) >= 0);
	CU_ASSERT_EQUAL(fclose(f), 0);
}

/* The group "" is the root; those above it must be there. */
static void group(const char *name, const char *cpu_max)
{
	char path[300];

	(void)snprintf(path, sizeof(path), "%s%s", root, name);
	CU_ASSERT_TRUE(mkdir(path, 0700) == 0 || errno == EEXIST);
	(void)snprintf(path, sizeof(path), "%s%s/cpu.max", root, name);
	write_file(path, cpu_max);
}

static unsigned quota_in(const char *line)
{
	write_file(membership, line);
	return fm_cores_quota(membership, root);
}

static void test_quota(void)
{
	begin();
	CU_ASSERT_EQUAL(fm_cores_quota("/nowhere/at/all", root), 0);
	CU_ASSERT_EQUAL(quota_in("0::/\n"), 0);
	group("", "max 100000\n");
	CU_ASSERT_EQUAL(quota_in("0::/\n"), 0);
	group("", "400000 100000\n");
	CU_ASSERT_EQUAL(quota_in("0::/\n"), 4);
	CU_ASSERT_EQUAL(quota_in("12:cpu,cpuacct:/elsewhere\n0::/\n"), 4);
	group("", "150000 100000\n");
	CU_ASSERT_EQUAL(quota_in("0::/\n"), 2);		/* rounded up */
	group("", "1000 100000\n");
	CU_ASSERT_EQUAL(quota_in("0::/\n"), 1);
	end();
}

static void test_groups_above(void)
{
	begin();
	group("", "max 100000\n");
	group("/a", "200000 100000\n");
	group("/a/b", "max 100000\n");
	CU_ASSERT_EQUAL(quota_in("0::/a/b\n"), 2);
	group("/a/b", "800000 100000\n");
	CU_ASSERT_EQUAL(quota_in("0::/a/b\n"), 2);
	group("/a/b", "100000 100000\n");
	CU_ASSERT_EQUAL(quota_in("0::/a/b\n"), 1);
	CU_ASSERT_EQUAL(quota_in("0::/a/b/that/is/not/here\n"), 1);
	end();
}

/* What makes no sense limits nothing. */
static void test_nonsense(void)
{
	static const char *const texts[] = {
		"", "\n", "max\n", "0 100000\n", "-1 100000\n", "100000 0\n", "100000\n", "x y\n"};

	begin();
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		group("", texts[i]);
		CU_ASSERT_TRUE(quota_in("0::/\n") == 0 || quota_in("0::/\n") >= 64);
	}
	group("", "100000 100000\n");
	CU_ASSERT_EQUAL(quota_in(""), 0);
	CU_ASSERT_EQUAL(quota_in("1:cpu:/\n"), 0);
	CU_ASSERT_EQUAL(quota_in("0::/../other\n"), 0);
	end();
}

static void joined(unsigned online, unsigned allowed, unsigned quota, unsigned usable,
		   enum fm_cores_limit limit)
{
	struct fm_cores c;

	fm_cores_join(online, allowed, quota, &c);
	CU_ASSERT_EQUAL(c.online, online ? online : 1);
	CU_ASSERT_EQUAL(c.usable, usable);
	CU_ASSERT_EQUAL(c.limit, limit);
}

static void test_join(void)
{
	joined(32, 32, 0, 32, FM_CORES_ALL);
	joined(32, 0, 0, 32, FM_CORES_ALL);
	joined(32, 8, 0, 8, FM_CORES_AFFINITY);
	joined(32, 8, 2, 2, FM_CORES_CGROUP);
	joined(32, 2, 8, 2, FM_CORES_AFFINITY);
	joined(2, 2, 8, 2, FM_CORES_ALL);
	joined(0, 0, 0, 1, FM_CORES_ALL);
}

/* Whatever this machine is. */
static void test_here(void)
{
	struct fm_cores c;

	fm_cores_read(&c);
	CU_ASSERT_TRUE(c.usable >= 1 && c.usable <= c.online);
}

static const struct fm_test tests[] = {
	{ "cpu.max is a number of processors, rounded up", test_quota },
	{ "the smallest limit of a group and those above it counts", test_groups_above },
	{ "what cannot be understood limits nothing", test_nonsense },
	{ "machine, affinity and control group together", test_join },
	{ "this machine has processors", test_here },
};
FM_TEST_MAIN("cores", tests)
