/* SPDX-License-Identifier: MIT */
/*
 * process: a process is known again by its number and its start, and what /proc does not say
 * clearly may live. links: fm_nvmetcp
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "nvmetcp/process.h"
#include "tests/unit/sysfs_tree.h"

#define REST " 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 "

static void put_stat(int pid, const char *text)
{
	char name[64];

	snprintf(name, sizeof(name), "proc/%d/stat", pid);
	tree_put_bytes(name, text, strlen(text));
}

static bool may_live(pid_t pid, uint64_t start)
{
	return fm_process_may_live(tree_root, &(struct fm_process){ .pid = pid, .start = start });
}

static void test_who_may_live(void)
{
	tree_make();
	put_stat(7, "7 (nvmed-helper) D 1" REST "555 0 0\n");
	CU_ASSERT_TRUE(may_live(7, 555));
	CU_ASSERT_FALSE(may_live(7, 556));
	CU_ASSERT_FALSE(may_live(8, 555));
	/* A name may hold anything. */
	put_stat(9, "9 (a) Z 1 (b) D 1" REST "555 0 0\n");
	CU_ASSERT_TRUE(may_live(9, 555));
	/* It has ended, and waits for its parent. */
	put_stat(10, "10 (nvmed-helper) Z 1" REST "555 0 0\n");
	CU_ASSERT_FALSE(may_live(10, 555));
	/* What makes no sense may be anything. */
	put_stat(11, "");
	put_stat(12, "12 nvmed-helper D");
	put_stat(13, "13 (nvmed-helper) D 1 1 0");
	for (pid_t pid = 11; pid <= 13; pid++)
		CU_ASSERT_TRUE(may_live(pid, 555));
	tree_free();
}

static void test_strays(void)
{
	tree_make();
	put_stat(20, "20 (stray-test) D 1" REST "1 0 0\n");
	CU_ASSERT_TRUE(fm_process_may_stray(tree_root, "stray-test", 5));
	CU_ASSERT_FALSE(fm_process_may_stray(tree_root, "stray-test", 1));
	CU_ASSERT_FALSE(fm_process_may_stray(tree_root, "another", 5));
	CU_ASSERT_TRUE(fm_process_may_stray("/nonexistent", "another", 5));
	put_stat(21, "torn");
	CU_ASSERT_TRUE(fm_process_may_stray(tree_root, "another", 5));
	tree_free();
}

static void test_this_kernel(void)
{
	struct fm_process process;
	struct fm_err err;
	int ends[2];
	pid_t pid;

	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_NAME, "fm-stray-test");
		(void)!write(ends[1], "", 1);
		pause();
		_exit(0);
	}
	CU_ASSERT_EQUAL(read(ends[0], &(char){ 0 }, 1), 1);
	CU_ASSERT_EQUAL(fm_process_read("", pid, &process, &err), 0);
	CU_ASSERT_TRUE(fm_process_may_live("", &process));
	CU_ASSERT_TRUE(fm_process_may_stray("", "fm-stray-test", 1));
	CU_ASSERT_FALSE(fm_process_may_stray("", "fm-stray-test", getpid()));
	kill(pid, SIGKILL);
	(void)waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
	CU_ASSERT_FALSE(fm_process_may_live("", &process));
	waitpid(pid, NULL, 0);
	CU_ASSERT_FALSE(fm_process_may_live("", &process));
	close(ends[0]);
	close(ends[1]);
}

/* Whether one of that name may be a helper of ours. As root: started by another user, with these
 * rights. It hides its files. */
static bool is_taken_for_ours(uid_t effective)
{
	bool is_root = getuid() == 0, is_taken;
	int ends[2];
	pid_t pid;

	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_NAME, "fm-stray-other");
		if (is_root && setresuid(65534, effective, effective) < 0)
			_exit(1);
		(void)prctl(PR_SET_DUMPABLE, 0);
		(void)!write(ends[1], "", 1);
		pause();
		_exit(0);
	}
	CU_ASSERT_EQUAL(read(ends[0], &(char){ 0 }, 1), 1);
	is_taken = fm_process_may_stray("", "fm-stray-other", 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(ends[0]);
	close(ends[1]);
	return is_taken;
}

/* Another user's is none, whatever he runs; one of ours is one, though its files are root's. */
static void test_whose_it_is(void)
{
	bool is_root = getuid() == 0;

	CU_ASSERT_EQUAL(is_taken_for_ours(65534), !is_root);
	CU_ASSERT_EQUAL(is_taken_for_ours(0), !is_root);
}

static const struct fm_test tests[] = {
	{ "who may live", test_who_may_live },
	{ "who may be a helper of an earlier daemon", test_strays },
	{ "a process of this kernel", test_this_kernel },
	{ "another user's process of that name", test_whose_it_is },
};

FM_TEST_MAIN("process", tests)
