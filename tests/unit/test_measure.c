/* SPDX-License-Identifier: MIT */
/* links: fm_tree */
#include "mover/tree/measure.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

#define BYTES 65536

static char dir[64];
static int root;

static void scene_up(void)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/fm-measure.XXXXXX");
	if (!mkdtemp(dir) || (root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
	    mkdirat(root, "in", 0755) < 0 || mkdirat(root, "in/sub", 0755) < 0)
		abort();
}

static void scene_down(void)
{
	(void)close(root);
	remove_all(dir);
}

static void file(const char *path, off_t hole)
{
	static const char bytes[BYTES];
	int fd = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0 || pwrite(fd, bytes, BYTES, hole) != BYTES || fsync(fd) < 0)
		abort();
	(void)close(fd);
}

static void name(const char *path, const char *as)
{
	if (linkat(root, path, root, as, 0) < 0)
		abort();
}

static uint64_t measured(const char *const *excludes)
{
	int fd = openat(root, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct fm_measure_opts opts = {.excludes = excludes};
	uint64_t bytes = fm_measure(fd, &opts);

	(void)close(fd);
	return bytes;
}

/*
 * Goal:   a file of several names counts once and whole, wherever the others are: it comes once,
 *         and whole.
 * Method: names of it in two directories, the same name in both; then one that has all but one of
 * its names outside.
 */
static void test_a_file_of_several_names_counts_once(void)
{
	scene_up();
	file("in/a", 0);
	CU_ASSERT_EQUAL(measured(NULL), BYTES);
	name("in/a", "in/b");
	name("in/a", "in/sub/a");
	CU_ASSERT_EQUAL(measured(NULL), BYTES);
	file("out", 0);
	name("out", "in/sub/c");
	name("out", "out2");
	name("out", "out3");
	CU_ASSERT_EQUAL(measured(NULL), 2 * BYTES);
	scene_down();
}

static void test_holes_and_what_is_left_out_do_not_count(void)
{
	const char *const excludes[] = { "big*", NULL };

	scene_up();
	file("in/holes", 1 << 30);
	CU_ASSERT_TRUE(measured(NULL) >= BYTES && measured(NULL) <= 4 * BYTES);
	file("in/sub/big1", 0);
	CU_ASSERT_TRUE(measured(excludes) <= 4 * BYTES);
	CU_ASSERT_TRUE(measured(NULL) >= 2 * BYTES);
	scene_down();
}

static bool is_asked_again(void *ctx)
{
	unsigned *asked = ctx;

	return ++*asked > 1;
}

static void test_it_can_be_ended(void)
{
	unsigned asked = 0;
	const struct fm_measure_opts opts = {.is_ended = is_asked_again, .ctx = &asked};

	scene_up();
	file("in/a", 0);
	file("in/b", 0);
	CU_ASSERT_EQUAL(measured(NULL), 2 * BYTES);
	CU_ASSERT_TRUE(fm_measure(root, &opts) < 2 * BYTES);
	CU_ASSERT_EQUAL(asked, 2);
	scene_down();
}

static const struct fm_test tests[] = {
	{"a file of several names counts once", test_a_file_of_several_names_counts_once},
	{"holes, and what is left out, do not count", test_holes_and_what_is_left_out_do_not_count},
	{"it can be ended", test_it_can_be_ended},
};

FM_TEST_MAIN("measure", tests)
