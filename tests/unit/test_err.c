/* SPDX-License-Identifier: MIT */
/* links: fm_base */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "mover/base/err.h"
#include "tests/fm_test.h"

static void test_set(void)
{
	struct fm_err err;

	CU_ASSERT_EQUAL(fm_err_set(&err, -EINVAL, "size %d is odd", 7), -EINVAL);
	CU_ASSERT_EQUAL(err.code, -EINVAL);
	CU_ASSERT_STRING_EQUAL(err.text, "size 7 is odd");
}

static void test_sys(void)
{
	struct fm_err err;

	CU_ASSERT_EQUAL(fm_err_sys(&err, -ENOENT, "open %s", "a.dat"), -ENOENT);
	CU_ASSERT_STRING_EQUAL(err.text, "open a.dat: No such file or directory");
}

static void test_wrap(void)
{
	struct fm_err err;

	fm_err_set(&err, -ETIMEDOUT, "timed out");
	CU_ASSERT_EQUAL(fm_err_wrap(&err, "resolve address"), -ETIMEDOUT);
	CU_ASSERT_EQUAL(fm_err_wrap(&err, "connect to %s", "node7"), -ETIMEDOUT);
	CU_ASSERT_STRING_EQUAL(err.text, "connect to node7: resolve address: timed out");
}

static void test_no_err(void)
{
	CU_ASSERT_EQUAL(fm_err_set(NULL, -EIO, "lost"), -EIO);
	CU_ASSERT_EQUAL(fm_err_sys(NULL, -EIO, "lost"), -EIO);
	CU_ASSERT_EQUAL(fm_err_wrap(NULL, "lost"), 0);
	fm_err_clear(NULL);
}

static void test_own_text(void)
{
	struct fm_err err;

	fm_err_set(&err, -EIO, "disk");
	fm_err_set(&err, -EPIPE, "after %s: pipe", err.text);
	CU_ASSERT_STRING_EQUAL(err.text, "after disk: pipe");
	fm_err_wrap(&err, "[%s]", err.text);
	CU_ASSERT_STRING_EQUAL(err.text, "[after disk: pipe]: after disk: pipe");
}

/* Every length around the limit, by each of the three ways a text grows. */
static void test_cut(void)
{
	static char name[FM_ERR_TEXT_MAX + 16];
	struct fm_err err;

	for (size_t len = FM_ERR_TEXT_MAX - 40; len < sizeof(name); len++) {
		memset(name, 'n', len - 1);
		name[len - 1] = '\0';
		fm_err_sys(&err, -EIO, "%s", name);
		CU_ASSERT_PTR_NOT_NULL_FATAL(memchr(err.text, '\0', sizeof(err.text)));
		CU_ASSERT_EQUAL(strcmp(err.text + strlen(err.text) - 3, "...") == 0,
				strlen(name) + strlen(": Input/output error") >= FM_ERR_TEXT_MAX);
		fm_err_wrap(&err, "%s", name);
		CU_ASSERT_EQUAL(strlen(err.text), FM_ERR_TEXT_MAX - 1);
		CU_ASSERT_STRING_EQUAL(err.text + FM_ERR_TEXT_MAX - 4, "...");
	}
}

static void test_cut_utf8(void)
{
	char name[FM_ERR_TEXT_MAX + 8];
	struct fm_err err;

	/* Two-byte characters at an even and at an odd place: one of the two cuts falls into the
	 * middle of one. */
	for (size_t shift = 0; shift < 2; shift++) {
		size_t len;

		memset(name, 'x', shift);
		for (len = shift; len + 2 < sizeof(name); len += 2)
			memcpy(name + len, "\xc3\xa9", 2);
		name[len] = '\0';
		fm_err_set(&err, -EIO, "%s", name);
		len = strlen(err.text) - 3;
		CU_ASSERT_STRING_EQUAL(err.text + len, "...");
		CU_ASSERT_EQUAL((len - shift) % 2, 0);
	}
}

static void test_clear(void)
{
	struct fm_err err;

	fm_err_set(&err, -EIO, "lost");
	fm_err_clear(&err);
	CU_ASSERT_EQUAL(err.code, 0);
	CU_ASSERT_STRING_EQUAL(err.text, "");
}

/* Goal: a refusal that may pass stays one through all layers, and what is said instead of it is
 * none. */
static void test_full(void)
{
	struct fm_err err;

	CU_ASSERT_EQUAL(fm_err_full(&err, "all %d are taken", 7), -EBUSY);
	CU_ASSERT_TRUE(err.is_full);
	CU_ASSERT_EQUAL(fm_err_wrap(&err, "put"), -EBUSY);
	CU_ASSERT_TRUE(err.is_full);
	CU_ASSERT_STRING_EQUAL(err.text, "put: all 7 are taken");
	(void)fm_err_set(&err, -EBUSY, "in use");
	CU_ASSERT_FALSE(err.is_full);
	(void)fm_err_full(&err, "full");
	(void)fm_err_sys(&err, -EBUSY, "remove");
	CU_ASSERT_FALSE(err.is_full);
	(void)fm_err_full(&err, "full");
	fm_err_clear(&err);
	CU_ASSERT_FALSE(err.is_full);
	CU_ASSERT_EQUAL(fm_err_full(NULL, "full"), -EBUSY);
}

/* Goal: that a rule refused stays so through all layers, and what is said instead of it is none; to
 * another node -EACCES is said of rules alone. */
static void test_rule(void)
{
	struct fm_err err;

	CU_ASSERT_EQUAL(fm_err_rule(&err, "uid %d may not", 7), -EACCES);
	CU_ASSERT_TRUE(err.is_rule);
	CU_ASSERT_EQUAL(fm_err_wrap(&err, "store s"), -EACCES);
	CU_ASSERT_TRUE(err.is_rule);
	CU_ASSERT_STRING_EQUAL(err.text, "store s: uid 7 may not");
	CU_ASSERT_EQUAL(fm_err_told(&err), -EACCES);
	(void)fm_err_sys(&err, -EACCES, "open d");
	CU_ASSERT_FALSE(err.is_rule);
	CU_ASSERT_EQUAL(fm_err_told(&err), -EPERM);
	(void)fm_err_set(&err, -EIO, "lost");
	CU_ASSERT_EQUAL(fm_err_told(&err), -EIO);
	(void)fm_err_rule(&err, "no");
	fm_err_clear(&err);
	CU_ASSERT_FALSE(err.is_rule);
	CU_ASSERT_EQUAL(fm_err_rule(NULL, "no"), -EACCES);
}

static void test_name(void)
{
	CU_ASSERT_STRING_EQUAL(fm_err_name(ENOSPC), "No space left on device");
	CU_ASSERT_STRING_EQUAL(fm_err_name(-ENOSPC), "No space left on device");
	CU_ASSERT_STRING_EQUAL(fm_err_name(100000), "unknown error");
	CU_ASSERT_STRING_EQUAL(fm_err_name(INT_MIN), "unknown error");
	CU_ASSERT_STRING_EQUAL(fm_err_name(INT_MAX), "unknown error");
}

static const struct fm_test tests[] = {
	{ "setting an error keeps code and text, and returns the code", test_set },
	{ "a system error ends with the text of its errno", test_sys },
	{ "each layer's prefix comes before what was there", test_wrap },
	{ "without a struct the code still comes through", test_no_err },
	{ "the old text may be an argument of the new one", test_own_text },
	{ "a text that is too long ends in dots and is terminated", test_cut },
	{ "a cut leaves no half of a UTF-8 character", test_cut_utf8 },
	{ "a cleared error is empty", test_clear },
	{ "a refusal that may pass is told from the others", test_full },
	{ "that of a rule is told from the others, here and to other nodes", test_rule },
	{ "every number has a name, unknown ones too", test_name },
};
FM_TEST_MAIN("err", tests)
