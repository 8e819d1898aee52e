/* SPDX-License-Identifier: MIT */
/*
 * A tree of links is made whole, or goes on the next time. tests/cli/stage_link.sh has the rest.
 * links: fm_cli
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/link_tree.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

static char top[64], staged[128], dir[128], out[PATH_MAX];
static struct fm_err err;

static void below(const char *path, char whole[static 192])
{
	(void)snprintf(whole, 192, "%s/%s", top, path);
}

static void put(const char *path)
{
	char whole[192];
	int fd;

	below(path, whole);
	fd = open(whole, O_WRONLY | O_CREAT, 0644);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	(void)close(fd);
}

static void make_dir(const char *path)
{
	char whole[192];

	below(path, whole);
	CU_ASSERT_EQUAL(mkdir(whole, 0755), 0);
}

static void begin(void)
{
	char whole[192];

	(void)snprintf(top, sizeof(top), "/tmp/fmove-test-XXXXXX");
	if (!mkdtemp(top))
		abort();
	(void)snprintf(staged, sizeof(staged), "%s/staged", top);
	(void)snprintf(dir, sizeof(dir), "%s/links", top);
	make_dir("staged");
	make_dir("staged/d");
	put("staged/a");
	put("staged/d/b");
	below("staged/d/up", whole);
	CU_ASSERT_EQUAL(symlink("../a", whole), 0);
}

static int leads_to(const char *path, const char *target)
{
	char whole[192], is[PATH_MAX];
	ssize_t n;

	below(path, whole);
	n = readlink(whole, is, sizeof(is) - 1);
	if (n < 0)
		return -errno;
	is[n] = '\0';
	return strcmp(is, target) == 0;
}

static void check_whole(uint64_t links)
{
	char a[192], b[192];

	below("staged/a", a);
	below("staged/d/b", b);
	CU_ASSERT_EQUAL(links, 3);
	CU_ASSERT_STRING_EQUAL(out, dir);
	CU_ASSERT_EQUAL(leads_to("links/a", a), 1);
	CU_ASSERT_EQUAL(leads_to("links/d/b", b), 1);
	CU_ASSERT_EQUAL(leads_to("links/d/up", "../a"), 1);
	CU_ASSERT_EQUAL(leads_to("links/" FM_LINK_MARK, ""), -ENOENT);
}

/* Goal: whichever call fails, one error says so, and the same again makes it whole. */
static void test_fails(void)
{
	bool has_fired = true;
	uint64_t links;
	unsigned n = 0;

	if (fm_test_lacks_faults())
		return;
	while (has_fired && n < 1000) {
		int ret;

		begin();
		fm_err_clear(&err);
		fm_fault_arm(NULL, ++n);
		ret = fm_link_tree(staged, dir, out, sizeof(out), &links, &err);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(ret < 0, has_fired);
		if (has_fired) {
			CU_ASSERT_EQUAL(err.code, ret);
			CU_ASSERT_EQUAL(strncmp(err.text, "--link", 6), 0);
			CU_ASSERT_TRUE(ret == -EIO || ret == -ENOSPC || ret == -EMFILE ||
				       ret == -ENOMEM);
			ret = fm_link_tree(staged, dir, out, sizeof(out), &links, &err);
			CU_ASSERT_EQUAL(ret, 0);
		}
		check_whole(links);
		remove_all(top);
	}
	CU_ASSERT_FALSE(has_fired);
	CU_ASSERT_TRUE(n > 15);
}

/* Goal: of a tree that is whole a failing call is no sign that something else is there. */
static void test_whole_fails(void)
{
	bool has_fired = true;
	uint64_t links;
	unsigned n = 0;

	if (fm_test_lacks_faults())
		return;
	begin();
	CU_ASSERT_EQUAL(fm_link_tree(staged, dir, out, sizeof(out), &links, &err), 0);
	while (has_fired && n < 1000) {
		int ret;

		fm_fault_arm(NULL, ++n);
		ret = fm_link_tree(staged, dir, out, sizeof(out), &links, &err);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(ret < 0, has_fired);
		if (has_fired)
			CU_ASSERT_TRUE(ret != -ENOTEMPTY && ret != -EEXIST);
	}
	check_whole(links);
	remove_all(top);
}

static const struct fm_test tests[] = {
	{ "the n-th call fails, the next time all is made", test_fails },
	{ "the n-th call fails where all is there", test_whole_fails },
};
FM_TEST_MAIN("link_tree", tests)
