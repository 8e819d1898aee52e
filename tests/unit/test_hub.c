/* SPDX-License-Identifier: MIT */
/* links: fm_store */
/* test_hub - what a hub cache that somebody else writes in can cost the one who looks at it. */
#include "mover/store/hub.h"

#undef FM_HUB_NAMES_MAX
#define FM_HUB_NAMES_MAX 512u	/* as many are made soon */
#include "mover/store/hub.c"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/err.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

#define REPOSITORY "models--org--name"
#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static char cache[] = "/tmp/fm-hub.XXXXXX";
static int root = -1;

static void setup(void)
{
	strcpy(cache + sizeof(cache) - sizeof("XXXXXX"), "XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(cache));
	root = open(cache, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CU_ASSERT_TRUE_FATAL(root >= 0);
	CU_ASSERT_EQUAL_FATAL(mkdirat(root, REPOSITORY, 0755), 0);
	CU_ASSERT_EQUAL_FATAL(mkdirat(root, REPOSITORY "/snapshots", 0755), 0);
	CU_ASSERT_EQUAL_FATAL(mkdirat(root, REPOSITORY "/snapshots/" COMMIT, 0755), 0);
}

static void teardown(void)
{
	close(root);
	remove_all(cache);
}

static void make_file(int dir, const char *name)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	close(fd);
}

/* A file below so many directories of the snapshot. */
static void make_deep(unsigned depth)
{
	int dir = openat(root, REPOSITORY "/snapshots/" COMMIT, O_PATH | O_CLOEXEC);

	while (depth-- > 0) {
		int next;

		CU_ASSERT_EQUAL_FATAL(mkdirat(dir, "d", 0755), 0);
		next = openat(dir, "d", O_PATH | O_CLOEXEC);
		close(dir);
		dir = next;
	}
	make_file(dir, "f");
	close(dir);
}

static int look(struct fm_err *err)
{
	struct fm_hub_view *view = NULL;
	int ret = fm_hub_view(root, REPOSITORY, COMMIT, &view, err);

	fm_hub_view_free(view);
	return ret;
}

static void test_depth(void)
{
	struct fm_err err = { 0 };

	setup();
	make_deep(FM_HUB_DEPTH_MAX);
	CU_ASSERT_EQUAL(look(&err), 0);
	teardown();
	setup();
	make_deep(FM_HUB_DEPTH_MAX + 1);
	CU_ASSERT_EQUAL(look(&err), -E2BIG);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "too deep"));
	teardown();
	setup();
	make_deep(1900);	/* as deep as a path can be */
	CU_ASSERT_EQUAL(look(&err), -E2BIG);
	teardown();
}

/* So many links, each to a blob of its own, of a file for each. */
static void make_links(unsigned from, unsigned to)
{
	char name[128], target[64];

	for (unsigned i = from; i < to; i++) {
		(void)snprintf(name, sizeof(name), REPOSITORY "/blobs/%u", i);
		make_file(root, name);
		(void)snprintf(target, sizeof(target), "../../blobs/%u", i);
		(void)snprintf(name, sizeof(name), REPOSITORY "/snapshots/" COMMIT "/%u", i);
		CU_ASSERT_EQUAL_FATAL(symlinkat(target, root, name), 0);
	}
}

/* Files, blobs and directories count once each: 254 of each of two, and four. */
static void test_names(void)
{
	struct fm_err err = { 0 };

	setup();
	CU_ASSERT_EQUAL_FATAL(mkdirat(root, REPOSITORY "/blobs", 0755), 0);
	make_links(0, 254);
	CU_ASSERT_EQUAL(look(&err), 0);
	make_links(254, 255);
	CU_ASSERT_EQUAL(look(&err), -E2BIG);
	make_links(255, 600);
	CU_ASSERT_EQUAL(look(&err), -E2BIG);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "512 files, blobs and directories at most"));
	CU_ASSERT_EQUAL(fm_budget_used(), 0);
	teardown();
}

static void test_budget(void)
{
	struct fm_err err = { 0 };
	char name[16];
	int dir;

	setup();
	dir = openat(root, REPOSITORY "/snapshots/" COMMIT, O_PATH | O_CLOEXEC);
	for (unsigned i = 0; i < 300; i++) {
		(void)snprintf(name, sizeof(name), "%u", i);
		make_file(dir, name);
	}
	close(dir);
	fm_budget_set(16 << 10);
	CU_ASSERT_EQUAL(look(&err), -ENOMEM);
	CU_ASSERT_EQUAL(fm_budget_used(), 0);
	fm_budget_set(UINT64_MAX);
	CU_ASSERT_EQUAL(look(&err), 0);
	CU_ASSERT_EQUAL(fm_budget_used(), 0);
	teardown();
}

static const struct fm_test tests[] = {
	{ "a snapshot that is very deep is refused", test_depth },
	{ "each of its names counts once, and too many are refused as that", test_names },
	{ "its names are taken from the budget", test_budget },
};
FM_TEST_MAIN("hub", tests)
