/* SPDX-License-Identifier: MIT */
/*
 * The n-th-failure loop over the source of a tree. links: fm_tree
 *
 * Goal:   whatever call fails, there is one error with a text, later calls give it too, and no
 *         descriptor is left
 * (and no memory, which the sanitizer tells). Method: fail the n-th fault point, n = 1, 2, 3 ...
 * until a transfer ends without the fault: then every point has been tried.
 */
#include "mover/base/fault.h"
#include "mover/tree/staging.h"
#include "tests/unit/source_scene.h"

#define POINTS_MAX 2000

static const char *const excludes[] = { "*.o", "/x/y", NULL };

static const struct kind {
	const char *name;
	struct fm_tree_source_opts opts;
	unsigned points_min;
} kinds[] = {
	{"as it is", {.excludes = excludes, .skips = fm_staging_is_ours}, 100},
	{"with owners", {.has_owners = true}, 100},
	{"offered", {.is_offering = true}, 80},
	{"offered with everything",
	 {.is_offering = true, .has_checksums = true, .has_owners = true},
	 150},
};

static void make_little(void)
{
	char path[1024] = "deep";

	make_dir("d");
	make_file("d/f", 100);
	make_file("two pieces", 100000);
	make_sparse("big", 1 << 20, 0);
	CU_ASSERT_EQUAL(symlink("d/f", in_root("l")), 0);
	CU_ASSERT_EQUAL(link(in_root("d/f"), in_root("h")), 0);
	(void)setxattr(in_root("d/f"), "user.a", "b", 1, 0);
	make_dir(path);
	for (unsigned i = 0; i < 66; i++) {	/* some of the way is closed and opened again */
		strcat(path, "/d");
		make_dir(path);
	}
}

static unsigned fds_open(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* One transfer with each pack made twice; the first error. */
static int run(struct fm_tree_source_opts opts)
{
	const struct drive how = { .len = 64u << 10, .threads = 1, .again_percent = 100 };
	uint8_t *buf = aligned_alloc(64, how.len);
	int64_t ret = source_new(opts), again;
	struct fm_err later = { 0 };

	if (ret == 0) {
		ret = drive(&how);
		again = tree->ops->fill(tree, 1u << 20, buf, how.len, &later);
		if (ret < 0)	/* what is asked for later does not look like the end */
			CU_ASSERT_TRUE(again > 0 || (again == ret && strlen(later.text) > 10));
		tree->ops->close(tree);
	}
	free(buf);
	return (int)ret;
}

static void loop_over(const struct kind *kind)
{
	bool has_fired = true;
	unsigned n;
	int ret = 0;

	for (n = 1; has_fired && n < POINTS_MAX; n++) {
		unsigned fds = fds_open();

		fm_err_clear(&err);
		far.wanted_percent = 100;
		fm_fault_arm(NULL, n);
		ret = run(kind->opts);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(fds_open(), fds);
		CU_ASSERT_TRUE(ret == 0 || (has_fired && ret == err.code && strlen(err.text) > 10));
		if (ret == 0)
			compare_all();
		far_forget();
	}
	CU_ASSERT_EQUAL(ret, 0);
	CU_ASSERT_FALSE(has_fired);
	CU_ASSERT_TRUE(n > kind->points_min);
}

static void test_each_failure(void)
{
	root_make("/tmp");
	make_little();
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		unsigned failures = CU_get_number_of_failures();

		loop_over(&kinds[i]);
		if (CU_get_number_of_failures() > failures)
			printf("in: %s\n", kinds[i].name);
	}
	root_remove();
}

static const struct fm_test tests[] = {
	{ "whatever fails, there is one error and nothing is left", test_each_failure },
};

int main(void)
{
#ifndef FM_FAULTS
	fm_test_skip("built without fault points");
#endif
	return fm_test_main("tree source fault", tests, sizeof(tests) / sizeof(tests[0]));
}
