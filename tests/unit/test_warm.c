/* SPDX-License-Identifier: MIT */
/*
 * How much may be read into memory: of the machine, of each control group above us, less a margin.
 * links: fm_cli
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "client/cli/warm.h"
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

static const struct fm_test tests[] = {
	{ "what the machine has, less a margin", test_machine },
	{ "the narrowest control group counts", test_groups },
};

FM_TEST_MAIN("warm", tests)
