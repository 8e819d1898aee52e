/* SPDX-License-Identifier: MIT */
/* links: fm_base */
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/fault.h"
#include "tests/fm_test.h"

static void test_any(void)
{
	fm_fault_arm(NULL, 3);
	CU_ASSERT_FALSE(fm_fault_hit("a.x"));
	CU_ASSERT_FALSE(fm_fault_hit("b.y"));
	CU_ASSERT_FALSE(fm_fault_fired());
	CU_ASSERT_TRUE(fm_fault_hit("a.x"));
	CU_ASSERT_TRUE(fm_fault_fired());
	CU_ASSERT_FALSE(fm_fault_hit("a.x"));
	CU_ASSERT_TRUE(fm_fault_fired());
	CU_ASSERT_EQUAL(fm_fault_count(), 4);
}

static void test_named(void)
{
	fm_fault_arm("a.x", 2);
	CU_ASSERT_FALSE(fm_fault_hit("a.x"));
	CU_ASSERT_FALSE(fm_fault_hit("a.xx"));
	CU_ASSERT_FALSE(fm_fault_hit("a"));
	CU_ASSERT_TRUE(fm_fault_hit("a.x"));
	CU_ASSERT_FALSE(fm_fault_hit("a.x"));
}

static void test_disarm(void)
{
	fm_fault_arm(NULL, 1);
	CU_ASSERT_TRUE(fm_fault_hit("a.x"));
	fm_fault_arm(NULL, 0);
	CU_ASSERT_FALSE(fm_fault_fired());
	CU_ASSERT_EQUAL(fm_fault_count(), 0);
	CU_ASSERT_FALSE(fm_fault_hit("a.x"));
	CU_ASSERT_FALSE(fm_fault_fired());
}

static void test_compiled_in(void)
{
	bool is_hit;

	fm_fault_arm("a.x", 1);
	is_hit = FM_FAULT("a.x");
	CU_ASSERT_EQUAL(is_hit, fm_fault_count() == 1);
	fm_fault_arm(NULL, 0);
}

/*
 * The exit status of a process that arms from FMOVE_FAULT = text (NULL: unset), then reaches a.x,
 * b.y, a.x: the number that failed.
 */
static int run_with_env(const char *text)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		static const char *const points[] = { "a.x", "b.y", "a.x" };
		int failed = 0;

		(void)!freopen("/dev/null", "w", stderr);
		if (text)
			setenv("FMOVE_FAULT", text, 1);
		else
			unsetenv("FMOVE_FAULT");
		fm_fault_arm_from_env();
		for (int i = 0; i < 3; i++)
			if (fm_fault_hit(points[i]))
				failed = 10 + i;
		_exit(failed);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_env(void)
{
	CU_ASSERT_EQUAL(run_with_env(NULL), 0);
	CU_ASSERT_EQUAL(run_with_env("2"), 11);
	CU_ASSERT_EQUAL(run_with_env("a.x:1"), 10);
	CU_ASSERT_EQUAL(run_with_env("a.x:2"), 12);
	CU_ASSERT_EQUAL(run_with_env("c.z:1"), 0);
}

static void test_late(void)
{
	time_t began = time(NULL);

	CU_ASSERT_EQUAL(run_with_env("b.y:1+2"), 0);
	CU_ASSERT_TRUE(time(NULL) > began);
}

static void test_env_malformed(void)
{
	static const char *const malformed[] = {"",
						"0",
						"x",
						"a.x",
						"a.x:",
						"a.x:0",
						":1",
						"a.x:-1",
						"a.x: 1",
						"1x",
						"1+",
						"1+0",
						"a.x:1+2s",
						"99999999999999999999",
						"4294967296"};

	for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++)
		CU_ASSERT_EQUAL(run_with_env(malformed[i]), 2);
}

static const struct fm_test tests[] = {
	{ "the n-th point fails, once, whatever its name", test_any },
	{ "a named point fails the n-th time it is reached", test_named },
	{ "a disarmed fault does not happen", test_disarm },
	{ "a point that is compiled in is counted, another is constantly false", test_compiled_in },
	{ "the environment arms a whole program", test_env },
	{ "a point can be late instead of failing", test_late },
	{ "what the environment says wrongly ends the program", test_env_malformed },
};
FM_TEST_MAIN("fault", tests)
