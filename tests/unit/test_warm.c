/* SPDX-License-Identifier: MIT */
/*
 * How much may be read into memory: of the machine, of each control group above us, less a margin;
 * and what becomes of a call that fails.
 * links: fm_cli
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/cli/warm.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

#define MIB (UINT64_C(1) << 20)

static char top[64];
static char meminfo[128], cgroup[128], cgroups[128];
static const struct fm_warm_places places = { meminfo, cgroup, cgroups };

static void put(const char *path, const char *text)
{
	char whole[192];
	FILE *f;

	(void)snprintf(whole, sizeof(whole), "%s/%s", top, path);
	f = fopen(whole, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	(void)fputs(text, f);
	(void)fclose(f);
}

static void make_dir(const char *path)
{
	char whole[192];

	(void)snprintf(whole, sizeof(whole), "%s/%s", top, path);
	CU_ASSERT_EQUAL(mkdir(whole, 0755), 0);
}

static void begin(void)
{
	(void)snprintf(top, sizeof(top), "/tmp/fmove-test-XXXXXX");
	if (!mkdtemp(top))
		abort();
	(void)snprintf(meminfo, sizeof(meminfo), "%s/meminfo", top);
	(void)snprintf(cgroup, sizeof(cgroup), "%s/cgroup", top);
	(void)snprintf(cgroups, sizeof(cgroups), "%s/groups", top);
	make_dir("groups");
	make_dir("groups/job");
	make_dir("groups/job/step");
	put("meminfo", "MemTotal: 99999999 kB\nMemAvailable: 10485760 kB\n");
	put("cgroup", "1:cpu:/other\n0::/job/step\n");
}

static void test_machine(void)
{
	begin();
	CU_ASSERT_EQUAL(fm_warm_room(&places), 10240 * MIB - 512 * MIB);
	put("meminfo", "MemAvailable: 409600 kB\n");
	CU_ASSERT_EQUAL(fm_warm_room(&places), 400 * MIB - 256 * MIB);
	put("meminfo", "MemAvailable: 102400 kB\n");
	CU_ASSERT_EQUAL(fm_warm_room(&places), 0);
	put("meminfo", "nothing of it\n");
	CU_ASSERT_EQUAL(fm_warm_room(&places), 0);
	remove_all(top);
}

/* The narrowest counts; what a group has cached goes for what is read. */
static void test_groups(void)
{
	begin();
	put("groups/job/step/memory.max", "max\n");
	CU_ASSERT_EQUAL(fm_warm_room(&places), 10240 * MIB - 512 * MIB);
	put("groups/job/memory.max", "1073741824\n");
	put("groups/job/memory.current", "536870912\n");
	CU_ASSERT_EQUAL(fm_warm_room(&places), 512 * MIB - 256 * MIB);
	put("groups/job/memory.stat", "inactive_file 134217728\nactive_file 134217728\n");
	CU_ASSERT_EQUAL(fm_warm_room(&places), 768 * MIB - 256 * MIB);
	put("groups/job/memory.current", "2147483648\n");
	CU_ASSERT_EQUAL(fm_warm_room(&places), 0);
	remove_all(top);
}

/* The n-th time that point is reached; whether it was. */
static bool warm_with(const char *point, unsigned n, struct fm_warmed *w, int *ret)
{
	const struct fm_warm_opts opts = { .path = top };
	struct fm_err err;
	bool has_fired;

	fm_err_clear(&err);
	fm_fault_arm(point, n);
	*ret = fm_warm(&opts, w, &err);
	has_fired = fm_fault_fired();
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(err.code, *ret);
	CU_ASSERT_TRUE(*ret == 0 || strncmp(err.text, "--warm: ", 8) == 0);
	return has_fired;
}

/* Goal: whichever call fails, it is told. Nothing is said to be in memory that is not. */
static void test_fails(void)
{
	static const char *const points[] = { "warm.walk", "warm.next", "warm.open", "warm.read",
					      "warm.alloc" };
	struct fm_warmed w;
	int ret;

	if (fm_test_lacks_faults())
		return;
	begin();
	for (unsigned i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		unsigned n = 1;

		for (; warm_with(points[i], n, &w, &ret); n++)
			CU_ASSERT_TRUE(ret == -EIO || ret == -ENOMEM || ret == -EMFILE);
		CU_ASSERT_TRUE(n > 1 && ret == 0 && w.bytes > 0 && w.fits);
	}
	/* Where nobody knows what is free, nothing is read. */
	CU_ASSERT_TRUE(warm_with("warm.facts", 1, &w, &ret));
	CU_ASSERT_TRUE(ret == 0 && !w.fits && w.room == 0);
	remove_all(top);
}

static const struct fm_test tests[] = {
	{ "what the machine has, less a margin", test_machine },
	{ "the narrowest control group counts", test_groups },
	{ "the n-th call fails", test_fails },
};

FM_TEST_MAIN("warm", tests)
