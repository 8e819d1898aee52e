/* SPDX-License-Identifier: MIT */
/*
 * Directory stores: symbolic links are made. links: fm_store
 */
#include <glob.h>
#include <libgen.h>

#include "mover/base/fault.h"
#include "tests/unit/store_scene.h"

static int ln(const char *target, const char *path, bool may_replace)
{
	fm_err_clear(&err);
	return s->ops->link(s, path, target, &a_peer, may_replace, &err);
}

static bool says(const char *path, const char *want)
{
	char text[256];
	ssize_t len = readlink(at(path), text, sizeof(text));

	return len == (ssize_t)strlen(want) && memcmp(text, want, (size_t)len) == 0;
}

/* What it may say depends on where it is: real directories count, not what leads there. */
static void test_targets(void)
{
	static const struct {
		const char *target, *path;
		int want;
	} cases[] = {
		{"f", "1", 0},		       {"d/none", "2", 0},
		{"../f", "d/1", 0},	       {"../../f", "d/e/1", 0},
		{"..", "d/2", 0},	       {"-x", "3", 0},
		{"a\nb", "4", 0},	       {"../f", "5", -EXDEV},
		{"..", "5", -EXDEV},	       {"../../f", "d/5", -EXDEV},
		{"../..", "d/5", -EXDEV},      {"/etc/passwd", "5", -EXDEV},
		{"d/../f", "5", -EXDEV},       {"d/..", "5", -EXDEV},
		{"d/../../x", "5", -EXDEV},    {".fmove.x", "5", -EXDEV},
		{"d/.fmove.x", "5", -EXDEV},   {"../../f", "up/d/5", -EXDEV},
		{"../../../f", "d/up/5", -EXDEV}, {"../f", "deep/4", 0},
		{"../../f", "deep/5", 0},      {"../../../f", "deep/3", -EXDEV},
		{"f", "none/1", -ENOENT},      {"f", "f/1", -ENOTDIR},
		{"f", "out/1", -EXDEV},	       {"f", "", -EEXIST},
		{"f", "../x", -EXDEV},	       {"f", ".fmove.x", -EINVAL},
	};

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("f", 1000, 1, false), 0);
	CU_ASSERT_EQUAL(s->ops->mkdir(s, "d/e", &a_peer, &err), 0);
	CU_ASSERT_EQUAL(symlink("..", at("d/up")), 0);
	CU_ASSERT_EQUAL(symlink(".", at("up")), 0);
	CU_ASSERT_EQUAL(symlink("d/e", at("deep")), 0);
	CU_ASSERT_EQUAL(symlink("/", at("out")), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int ret = ln(cases[i].target, cases[i].path, false);

		if (ret != cases[i].want)
			printf("ln \"%s\" \"%s\": %d\n", cases[i].target, cases[i].path, ret);
		CU_ASSERT_EQUAL(ret, cases[i].want);
		CU_ASSERT_TRUE(ret < 0 ? strstr(err.text, "store s") != NULL
				       : says(cases[i].path, cases[i].target));
	}
	CU_ASSERT_EQUAL(store_verify(&l, s, "d/e/1", 1000, 1), 0);
	CU_ASSERT_EQUAL(dir_count(dir, ".fmove."), 0);
	end();
}

/* Only a link is replaced, and only if that is asked for. */
static void test_replaces(void)
{
	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("f", 1000, 1, false), 0);
	CU_ASSERT_EQUAL(mkdir(at("d"), 0755), 0);
	CU_ASSERT_EQUAL(ln("f", "l", false), 0);
	CU_ASSERT_EQUAL(ln("g", "l", false), -EEXIST);
	CU_ASSERT_TRUE(says("l", "f"));
	CU_ASSERT_EQUAL(ln("g", "l", true), 0);
	CU_ASSERT_TRUE(says("l", "g"));
	CU_ASSERT_EQUAL(ln("l", "f", true), -EEXIST);
	CU_ASSERT_EQUAL(ln("l", "d", true), -EEXIST);
	CU_ASSERT_EQUAL(store_verify(&l, s, "f", 1000, 1), 0);
	CU_ASSERT_EQUAL(ln("g", "new", true), 0);	/* what may be replaced need not be there */
	fm_fault_arm("store.rename_flags", 1);
	CU_ASSERT_EQUAL(ln("h", "other", false), 0);
	CU_ASSERT_TRUE(fm_fault_fired() && says("other", "h"));
	fm_fault_arm("store.rename_flags", 2);
	CU_ASSERT_EQUAL(ln("i", "other", true), 0);
	CU_ASSERT_TRUE(fm_fault_fired() && says("other", "i"));
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(dir_count(dir, ".fmove."), 0);
	end();
}

/* A file takes the name between look and exchange. */
static void take(void *ctx, const char *point)
{
	unsigned *renames = ctx;

	if (strcmp(point, "store.rename") != 0 || ++*renames != 2)
		return;
	CU_ASSERT_EQUAL(rename(at("f"), at("l")), 0);
}

static void test_meanwhile(void)
{
	unsigned renames = 0;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("f", 1000, 1, false), 0);
	CU_ASSERT_EQUAL(ln("x", "l", false), 0);
	fm_fault_watch(take, &renames);
	CU_ASSERT_EQUAL(ln("g", "l", true), -EEXIST);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_EQUAL(store_verify(&l, s, "l", 1000, 1), 0);
	CU_ASSERT_EQUAL(dir_count(dir, ".fmove."), 0);
	end();
}

/* So, and the link that took the file's place is removed before that is given back. */
static void take_and_remove(void *ctx, const char *point)
{
	const unsigned *renames = ctx;

	take(ctx, point);
	if (strcmp(point, "store.rename") == 0 && *renames == 3)
		CU_ASSERT_EQUAL(unlink(at("l")), 0);
}

static void test_removed_meanwhile(void)
{
	unsigned renames = 0;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("f", 1000, 1, false), 0);
	CU_ASSERT_EQUAL(ln("x", "l", false), 0);
	fm_fault_watch(take_and_remove, &renames);
	CU_ASSERT_EQUAL(ln("g", "l", true), -EEXIST);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_TRUE(renames > 3);
	CU_ASSERT_EQUAL(store_verify(&l, s, "l", 1000, 1), 0);
	CU_ASSERT_EQUAL(dir_count(dir, ".fmove."), 0);
	end();
}

/* What cannot be given back is not removed at once: it lies in the private directory. */
static void test_not_given_back(void)
{
	unsigned renames = 0;
	glob_t kept;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("f", 1000, 1, false), 0);
	CU_ASSERT_EQUAL(ln("x", "l", false), 0);
	fm_fault_watch(take, &renames);
	fm_fault_arm("store.rename", 3);
	CU_ASSERT_EQUAL(ln("g", "l", true), -EEXIST);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_EQUAL_FATAL(glob(at(".fmove.*/made"), 0, NULL, &kept), 0);
	CU_ASSERT_EQUAL(rename(kept.gl_pathv[0], at("kept")), 0);
	CU_ASSERT_EQUAL(store_verify(&l, s, "kept", 1000, 1), 0);
	CU_ASSERT_EQUAL(rmdir(dirname(kept.gl_pathv[0])), 0);
	globfree(&kept);
	end();
}

static const struct fm_test tests[] = {
	{ "a link leads to something in its store, or is refused", test_targets },
	{ "only a link is replaced, if asked for", test_replaces },
	{ "a file that takes the name meanwhile stays", test_meanwhile },
	{ "it stays though its name is taken from it again", test_removed_meanwhile },
	{ "a file that cannot be given back is not removed", test_not_given_back },
};
FM_TEST_MAIN("store symlink", tests)
