/* SPDX-License-Identifier: MIT */
/* links: fm_staging */
/*
 * test_hold - a process is known by more than its number, and that it ended is seen.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "staging/hold.h"
#include "tests/fm_test.h"

static struct fm_err err;

/* A child that waits until it is killed, and calls itself as a hostile one would. */
static pid_t start_child(void)
{
	int pipes[2];
	char c;
	pid_t pid;

	CU_ASSERT_EQUAL_FATAL(pipe(pipes), 0);
	pid = fork();
	CU_ASSERT_TRUE_FATAL(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_NAME, ") R 1 2 3 (");
		(void)!write(pipes[1], "x", 1);
		for (;;)
			pause();
	}
	CU_ASSERT_EQUAL(read(pipes[0], &c, 1), 1);
	close(pipes[0]);
	close(pipes[1]);
	return pid;
}

static void end_child(pid_t pid)
{
	CU_ASSERT_EQUAL(kill(pid, SIGKILL), 0);
	CU_ASSERT_EQUAL(waitpid(pid, NULL, 0), pid);
}

static void test_lives_and_ends(void)
{
	pid_t pid = start_child();
	struct fm_hold_process process;
	uid_t uid = 77;
	int fd, again;

	CU_ASSERT_EQUAL_FATAL(fm_hold_find(pid, &process, &uid, &fd, &err), 0);
	CU_ASSERT_EQUAL(process.pid, pid);
	CU_ASSERT_EQUAL(uid, getuid());
	CU_ASSERT_TRUE(process.start > 100); /* not one of the numbers in its name */
	CU_ASSERT_FALSE(fm_hold_is_over(fd));
	CU_ASSERT_EQUAL_FATAL(fm_hold_find_again(&process, &again), 0);
	CU_ASSERT_FALSE(fm_hold_is_over(again));
	CU_ASSERT_EQUAL(kill(pid, SIGKILL), 0);
	CU_ASSERT_EQUAL(
		poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, FM_TEST_HANG_S * 1000), 1);
	/* A zombie, whose number is still its own, has ended too. */
	CU_ASSERT_TRUE(fm_hold_is_over(fd) && fm_hold_is_over(again));
	CU_ASSERT_EQUAL(fm_hold_find_again(&process, &again), -ESRCH);
	CU_ASSERT_EQUAL(waitpid(pid, NULL, 0), pid);
	CU_ASSERT_TRUE(fm_hold_is_over(fd));
	CU_ASSERT_EQUAL(fm_hold_find_again(&process, &again), -ESRCH);
	CU_ASSERT_EQUAL(fm_hold_find(pid, &process, &uid, &again, &err), -ESRCH);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "no process"));
	close(fd);
}

static void test_another_with_its_number(void)
{
	pid_t pid = start_child();
	struct fm_hold_process process, other;
	uid_t uid;
	int fd;

	CU_ASSERT_EQUAL_FATAL(fm_hold_find(pid, &process, &uid, &fd, &err), 0);
	close(fd);
	other = process;
	other.start++;
	CU_ASSERT_EQUAL(fm_hold_find_again(&other, &fd), -ESRCH);
	other = process;
	other.boot[3] ^= 1;
	CU_ASSERT_EQUAL(fm_hold_find_again(&other, &fd), -ESRCH);
	memset(other.boot, 0, sizeof(other.boot)); /* a boot that is not known is not this one */
	CU_ASSERT_EQUAL(fm_hold_find_again(&other, &fd), -ESRCH);
	end_child(pid);
}

static void test_no_process(void)
{
	static const pid_t numbers[] = {0, -1, -2147483647 - 1, 2147483647};
	struct fm_hold_process process;
	uid_t uid;
	int fd;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		CU_ASSERT_EQUAL(fm_hold_find(numbers[i], &process, &uid, &fd, &err), -ESRCH);
}

static unsigned fds_open(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void test_each_failure(void)
{
	struct fm_hold_process process;
	unsigned n = 1, fds = fds_open();
	int ret = -1, fd;
	uid_t uid;

	if (fm_test_lacks_faults())
		return;
	for (; ret < 0 && n < 50; n++) {
		fm_fault_arm(NULL, n);
		ret = fm_hold_find(getpid(), &process, &uid, &fd, &err);
		CU_ASSERT_EQUAL(ret < 0, fm_fault_fired());
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(fds_open(), fds + (ret == 0));
	}
	CU_ASSERT_TRUE(n > 5 && n < 50);
	close(fd);
}

static const struct fm_test tests[] = {
	{"that a process lives is seen, and that it has ended", test_lives_and_ends},
	{"another one with its number is not taken for it", test_another_with_its_number},
	{"what is no process is none", test_no_process},
	{"whatever fails, no descriptor is left", test_each_failure},
};

FM_TEST_MAIN("hold", tests)
