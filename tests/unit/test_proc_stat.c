/* SPDX-License-Identifier: MIT */
/* proc_stat: a line as the kernel writes it, whatever the process is called. links: fm_base */
#include "tests/fm_test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "mover/base/proc_stat.h"

#define REST " 3 4 5 6 77 8 9 10 11 120 130 14 15 16 17 18 19 2000 21 22\n"

static void test_fields(void)
{
	struct fm_proc_stat s;

	CU_ASSERT_EQUAL(fm_proc_stat_parse("1 (init) S 2" REST, &s), 0);
	CU_ASSERT_STRING_EQUAL(s.name, "init");
	CU_ASSERT_TRUE(s.state == 'S' && s.parent == 2 && s.flags == 77);
	CU_ASSERT_TRUE(s.user_ticks == 120 && s.system_ticks == 130 && s.start_ticks == 2000);
}

static void test_names(void)
{
	static const char *const names[] = { "", " ", ") Z 1 (", "a) S 9" REST "(b", "((", "))" };
	struct fm_proc_stat s;
	char text[FM_PROC_STAT_MAX];

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		(void)snprintf(text, sizeof(text), "1 (%s) R 2" REST, names[i]);
		CU_ASSERT_EQUAL(fm_proc_stat_parse(text, &s), 0);
		CU_ASSERT_EQUAL(strncmp(s.name, names[i], sizeof(s.name) - 1), 0);
		CU_ASSERT_TRUE(s.state == 'R' && s.parent == 2 && s.start_ticks == 2000);
	}
}

static void test_what_is_none(void)
{
	static const char *const bad[] = {
		"", "1", "1 (a", "1 a) R 2" REST, ")(", "1 (a)", "1 (a) R x" REST,
		"1 (a) R 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19",
	};
	struct fm_proc_stat s;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(fm_proc_stat_parse(bad[i], &s), -EBADMSG);
}

static void test_the_kernels(void)
{
	char text[FM_PROC_STAT_MAX];
	struct fm_proc_stat s;
	ssize_t len;
	int fd;

	CU_ASSERT_EQUAL_FATAL(prctl(PR_SET_NAME, ") Z 1 (x"), 0);
	fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	len = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	CU_ASSERT_TRUE_FATAL(len > 0);
	text[len] = '\0';
	CU_ASSERT_EQUAL(fm_proc_stat_parse(text, &s), 0);
	CU_ASSERT_STRING_EQUAL(s.name, ") Z 1 (x");
	CU_ASSERT_TRUE(s.state == 'R' && s.parent == getppid() && s.start_ticks > 0);
}

static const struct fm_test tests[] = {
	{ "its fields", test_fields },
	{ "a name may hold anything", test_names },
	{ "what is no such line", test_what_is_none },
	{ "a line of the kernel's", test_the_kernels },
};

FM_TEST_MAIN("proc_stat", tests)
