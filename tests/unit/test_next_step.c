/* SPDX-License-Identifier: MIT */
/*
 * What is told to whoever reads an error that ends in the words of a number.
 * links: fm_cli
 */
#include "client/cli/next_step.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/err.h"
#include "tests/fm_test.h"

static void test_steps(void)
{
	CU_ASSERT_PTR_NOT_NULL(
		strstr(fm_next_step(-ENOENT, "n2: store s: open \"a\": no such file or directory"),
		       "fmove ls"));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(fm_next_step(-ENOENT, "put: a: No such file or directory"), "namei -l"));
	CU_ASSERT_PTR_NOT_NULL(strstr(fm_next_step(-EACCES, "a: Permission denied"),
				      "(namei -l); root may (sudo)"));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(fm_next_step(-EACCES, "n2: store s: open \"a\": permission denied"),
		       "(namei -l on that node); root may"));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(fm_next_step(-EIO, "n2: store s: read \"a\": Input/output error"),
		       "of that node"));
	CU_ASSERT_PTR_NOT_NULL(strstr(fm_next_step(-EHOSTDOWN, "ls: n2: fmoved at n2 is stopping"),
				      "again when it runs"));
	CU_ASSERT_PTR_NOT_NULL(strstr(fm_next_step(-EHOSTDOWN, "stage: a: fmoved stops"),
				      "again when it runs"));
}

/* What says more itself, or nothing that is known, is left as it is. */
static void test_none(void)
{
	CU_ASSERT_STRING_EQUAL(fm_next_step(-ENOENT, "no node n3; fmove status lists them"), "");
	CU_ASSERT_STRING_EQUAL(fm_next_step(-ENOENT, "a: Permission denied"), "");
	CU_ASSERT_STRING_EQUAL(fm_next_step(-ECANCELED, "Operation canceled"), "");
	CU_ASSERT_STRING_EQUAL(fm_next_step(-ENOENT, ""), "");
}

/* What fmoved met with files of its own is not what the caller may open, or how much. */
static void test_told(void)
{
	static const char met[] = "stage: a: open the manifest of what is here: ";
	static const char store[] = "n2: store s: open \"a\": ";
	static const int codes[] = { -EMFILE, -EACCES, -EPERM };
	char text[128];

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		(void)snprintf(text, sizeof(text), "%s%s", met, fm_err_name(codes[i]));
		CU_ASSERT_STRING_EQUAL(fm_next_step_told(codes[i], text), "");
		CU_ASSERT_STRING_NOT_EQUAL(fm_next_step(codes[i], text), "");
		(void)snprintf(text, sizeof(text), "%s%s", store, fm_err_name(codes[i]));
		CU_ASSERT_STRING_NOT_EQUAL(fm_next_step_told(codes[i], text), "");
		CU_ASSERT_STRING_EQUAL(fm_next_step_told(codes[i], text),
				       fm_next_step(codes[i], text));
	}
	(void)snprintf(text, sizeof(text), "%s%s", met, fm_err_name(-ENOSPC));
	CU_ASSERT_STRING_EQUAL(fm_next_step_told(-ENOSPC, text), fm_next_step(-ENOSPC, text));
}

static const struct fm_test tests[] = {
	{ "the same number in a store and on this machine", test_steps },
	{ "nothing where there is nothing to add", test_none },
	{ "what fmoved may is not what the caller may", test_told },
};

FM_TEST_MAIN("next_step", tests)
