/* SPDX-License-Identifier: MIT */
/* test_hub_name - names of repositories and revisions, refs and links of a hub cache. */
#include "mover/base/hub_name.h"

#include <errno.h>
#include <string.h>

#include "mover/base/err.h"
#include "tests/fm_test.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static void check_name(const char *text, const char *dir, const char *revision)
{
	struct fm_hub_name name;
	struct fm_err err;

	CU_ASSERT_EQUAL_FATAL(fm_hub_name_parse(text, &name, &err), 0);
	CU_ASSERT_STRING_EQUAL(name.dir, dir);
	CU_ASSERT_STRING_EQUAL(name.revision, revision);
}

static void test_names(void)
{
	check_name("org/name", "models--org--name", "main");
	check_name("gpt2", "models--gpt2", "main");
	check_name("models/org/name", "models--org--name", "main");
	check_name("datasets/org/na.me_1-x@v1.0", "datasets--org--na.me_1-x", "v1.0");
	check_name("spaces/org/name@refs/pr/1", "spaces--org--name", "refs/pr/1");
	check_name("org/name@" COMMIT, "models--org--name", COMMIT);
	check_name("org/name@a@b", "models--org--name", "a@b");
}

static void test_bad_names(void)
{
	static const char *const bad[] = {
		"", "/", "@", "org/", "/name", "org/name/x", "../name", "org/..", "org/.x",
		"org/x.",
		"a--b/c", "org/a--b", "org/a..b", "-a/b", "org/b-", "org/na me", "org/n\nme",
		"org/name@", "org/name@/x", "org/name@x/", "org/name@x//y", "org/name@..",
		"org/name@x/../y", "org/name@.x", "org/name@a\tb", "datasets/", "datasets/@main",
	};
	char text[FM_HUB_ID_MAX + 2];
	struct fm_hub_name name;
	struct fm_err err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(fm_hub_name_parse(bad[i], &name, &err), -EINVAL);
	memset(text, 'a', sizeof(text));
	text[FM_HUB_ID_MAX] = '\0';
	CU_ASSERT_EQUAL(fm_hub_name_parse(text, &name, &err), 0);
	text[FM_HUB_ID_MAX] = 'a';
	text[FM_HUB_ID_MAX + 1] = '\0';
	CU_ASSERT_EQUAL(fm_hub_name_parse(text, &name, &err), -EINVAL);
}

static void test_paths(void)
{
	static const char *const bad[] = {
		"models--org--name", "org--name@main", "models--@main", "models--a--b--c@main",
		"models--a/b@main", "models--../x@main", "models--a--b@", "models--a--b@../x",
	};
	struct fm_hub_name name;

	CU_ASSERT_EQUAL(fm_hub_path_parse("datasets--a--b@pr/1", &name), 0);
	CU_ASSERT_STRING_EQUAL(name.dir, "datasets--a--b");
	CU_ASSERT_STRING_EQUAL(name.revision, "pr/1");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(fm_hub_path_parse(bad[i], &name), -EINVAL);
}

static void check_ref(const char *text, int expected)
{
	char commit[FM_HUB_COMMIT_LEN + 1];

	CU_ASSERT_EQUAL(fm_hub_ref_parse(text, strlen(text), commit), expected);
	if (expected == 0)
		CU_ASSERT_STRING_EQUAL(commit, COMMIT);
}

static void test_refs(void)
{
	check_ref(COMMIT, 0);
	check_ref(" " COMMIT "\n", 0);
	check_ref("", -EBADMSG);
	check_ref(" \n", -EBADMSG);
	check_ref(COMMIT "0", -EBADMSG);
	check_ref("../../../../../../../../../../../../etc/x", -EBADMSG);
	check_ref("0123456789ABCDEF0123456789abcdef01234567", -EBADMSG);
}

static void check_link(const char *dir, const char *target, const char *expected)
{
	char out[64];
	int ret = fm_hub_link(dir, target, out, sizeof(out));

	if (!expected)
		CU_ASSERT_EQUAL(ret, -EXDEV);
	if (expected && ret == 0)
		CU_ASSERT_STRING_EQUAL(out, expected);
	if (expected)
		CU_ASSERT_EQUAL(ret, 0);
}

static void test_links(void)
{
	char out[8];

	check_link("r/snapshots/c", "../../blobs/x", "r/blobs/x");
	check_link("r/snapshots/c/d", "../../../blobs/x", "r/blobs/x");
	check_link("r/blobs", "../../blobs/ab/x", "blobs/ab/x");
	check_link("r/blobs", "./x//y", "r/blobs/x/y");
	check_link("r/blobs", "../../..", NULL);
	check_link("r/blobs", "../..", NULL);
	check_link("r/blobs", "../../../r/blobs/x", NULL);
	check_link("r/blobs", "/etc/passwd", NULL);
	check_link("r/blobs", "", NULL);
	CU_ASSERT_EQUAL(fm_hub_link("r", "abcdefgh", out, sizeof(out)), -ENAMETOOLONG);
}

static void test_can_be(void)
{
	static const char one[] = "1111111111111111111111111111111111111111";
	static const char two[] = "2222222222222222222222222222222222222222";

	CU_ASSERT_TRUE(fm_hub_can_be("main", one));
	CU_ASSERT_TRUE(fm_hub_can_be("1111111", two));
	CU_ASSERT_TRUE(fm_hub_can_be(one, one));
	CU_ASSERT_FALSE(fm_hub_can_be(one, two));
}

static const struct fm_test tests[] = {
	{ "what people say", test_names },
	{ "what is no repository", test_bad_names },
	{ "what a store is asked for", test_paths },
	{ "refs", test_refs },
	{ "a commit is itself alone", test_can_be },
	{ "links", test_links },
};
FM_TEST_MAIN("hub_name", tests)
