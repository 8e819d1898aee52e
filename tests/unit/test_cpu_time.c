/* SPDX-License-Identifier: MIT */
/* What processors did: files as the kernel writes them, in a directory of the test. */
#include "tests/fm_test.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/cpu_time.h"
#include "mover/base/err.h"
#include "tests/unit/remove_all.h"

static char root[200];

static void begin(void)
{
	const char *tmp = getenv("TMPDIR");

	(void)snprintf(root, sizeof(root), "%s/fmove-cpu.XXXXXX", tmp ? tmp : "/tmp");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(root));
}

static void write_file(const char *name, const char *text)
{
	char path[300];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", root, name);
	f = fopen(path, "we");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_TRUE(fputs(text, f) >= 0);
	CU_ASSERT_EQUAL(fclose(f), 0);
}

#define PROGRAM 4194560	  /* its flags, as the kernel writes them */
#define KERNEL	69238880 /* of a thread of its own */

static void write_flagged(const char *pid, const char *name, int parent, unsigned flags, int user,
			  int system)
{
	char path[300], text[400];

	(void)snprintf(path, sizeof(path), "%s/%s", root, pid);
	CU_ASSERT_TRUE(mkdir(path, 0700) == 0 || errno == EEXIST);
	(void)snprintf(path, sizeof(path), "%s/stat", pid);
	(void)snprintf(text, sizeof(text),
		       "%s (%s) S %d 1 1 0 -1 %u 3 3 0 0 %d %d 900 900 20 0 1 0 5 0 0\n", pid, name,
		       parent, flags, user, system);
	write_file(path, text);
}

static void write_process(const char *pid, const char *name, int parent, int user, int system)
{
	write_flagged(pid, name, parent, PROGRAM, user, system);
}

static void write_thread(const char *pid, const char *name, int system)
{
	write_flagged(pid, name, 2, KERNEL, 0, system);
}

static bool is_near(double is, double wanted)
{
	return fabs(is - wanted) < 1e-6;
}

/* Goal: the daemon, its child and the kernel's threads count; a spinner and ksoftirqd do not. */
static void test_who_counts(void)
{
	static struct fm_cpu_time before, after;
	struct fm_cpu_used used;
	struct fm_err err = { 0 };
	int hz = (int)sysconf(_SC_CLK_TCK);
	char text[400];

	begin();
	write_file("stat", "cpu  10 0 10 100 0 0 5 0 0 0\ncpu0 5 0 5 50 0 0 5 0 0 0\n"
			   "cpu1 5 0 5 50 0 0 0 0 0 0\nintr 12 0\nctxt 5\n");
	write_process("40", "fmoved", 1, 0, 0);
	write_process("41", "fmoved", 40, 0, 0);
	write_thread("3", "kworker/0:1", 0);
	write_thread("4", "ksoftirqd/0", 0);
	write_process("50", "spin (40) S 40", 1, 0, 0);
	CU_ASSERT_EQUAL_FATAL(fm_cpu_time_read(root, 40, &before, &err), 0);
	CU_ASSERT_EQUAL(before.cores, 2);
	write_process("40", "fmoved", 1, hz, 2 * hz);
	write_process("41", "fmoved", 40, 0, hz);
	write_thread("3", "kworker/0:1", 5 * hz);
	write_thread("4", "ksoftirqd/0", 7 * hz);
	write_process("50", "spin (40) S 40", 1, 90 * hz, 0);
	write_thread("6", "kworker/1:1", hz);
	(void)snprintf(text, sizeof(text),
		       "cpu  0 0 0 0 0 %d %d 0 0 0\ncpu0 5 0 5 50 0 0 5 0 0 0\n"
		       "cpu1 5 0 %d 90 0 0 0 0 0 0\n",
		       hz, 5 + hz, 5 + hz / 2);
	write_file("stat", text);
	CU_ASSERT_EQUAL_FATAL(fm_cpu_time_read(root, 40, &after, &err), 0);
	after.at_ns = before.at_ns + 10000000000;
	CU_ASSERT_EQUAL_FATAL(fm_cpu_time_used(&before, &after, &used), 0);
	CU_ASSERT_TRUE(is_near(used.process_s, 4));
	CU_ASSERT_TRUE(is_near(used.kernel_s, 6));
	CU_ASSERT_TRUE(is_near(used.softirq_s, 2));
	CU_ASSERT_TRUE(is_near(used.busiest, 0.05));
	CU_ASSERT_TRUE(is_near(used.core_softirq, 0));
	remove_all(root);
}

/* Goal: in a container the process with number 2 is any program; its children are no threads of the
 * kernel, whatever they are called. */
static void test_container(void)
{
	static struct fm_cpu_time before, after;
	struct fm_cpu_used used;
	struct fm_err err = { 0 };
	int hz = (int)sysconf(_SC_CLK_TCK);

	begin();
	write_file("stat", "cpu  10 0 10 100 0 0 5 0 0 0\ncpu0 5 0 5 50 0 0 5 0 0 0\n");
	write_process("1", "fmoved", 0, 0, 0);
	write_process("7", "spin", 2, 0, 0);
	write_process("8", "ksoftirqd/0", 1, 0, 0);
	CU_ASSERT_EQUAL_FATAL(fm_cpu_time_read(root, 1, &before, &err), 0);
	write_process("7", "spin", 2, hz, 0);
	write_process("8", "ksoftirqd/0", 1, hz, 0);
	CU_ASSERT_EQUAL_FATAL(fm_cpu_time_read(root, 1, &after, &err), 0);
	after.at_ns = before.at_ns + 1000000000;
	CU_ASSERT_EQUAL_FATAL(fm_cpu_time_used(&before, &after, &used), 0);
	CU_ASSERT_TRUE(is_near(used.kernel_s, 0));
	CU_ASSERT_TRUE(is_near(used.process_s, 1));
	remove_all(root);
}

/* Goal: of a process on one of two processors, that one counts, with what its threads waited. */
static void test_allowed(void)
{
	static struct fm_cpu_time before, after;
	struct fm_cpu_used used;
	struct fm_err err = { 0 };
	char path[300];

	begin();
	write_file("stat", "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n"
			   "cpu1 0 0 0 0 0 0 0 0 0 0\n");
	write_process("40", "fmoved", 1, 0, 0);
	write_file("40/status", "Name:\tfmoved\nCpus_allowed:\t2\nCpus_allowed_list:\t1,5-7\n");
	(void)snprintf(path, sizeof(path), "%s/40/task", root);
	CU_ASSERT_EQUAL(mkdir(path, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/40/task/40", root);
	CU_ASSERT_EQUAL(mkdir(path, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/40/task/44", root);
	CU_ASSERT_EQUAL(mkdir(path, 0700), 0);
	write_file("40/task/40/schedstat", "7 1000000000 3\n");
	CU_ASSERT_EQUAL_FATAL(fm_cpu_time_read(root, 40, &before, &err), 0);
	CU_ASSERT_EQUAL(before.affine, 1);
	CU_ASSERT_EQUAL(before.allowed, 1);
	write_file("stat", "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 900 0 0 0 0 0 0 0 0 0\n"
			   "cpu1 50 0 0 0 0 0 0 0 0 0\n");
	write_file("40/task/40/schedstat", "7 1500000000 3\n");
	write_file("40/task/44/schedstat", "3000000000 2000000000 3\n");
	CU_ASSERT_EQUAL_FATAL(fm_cpu_time_read(root, 40, &after, &err), 0);
	after.at_ns = before.at_ns + 10 * UINT64_C(100000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
	CU_ASSERT_EQUAL_FATAL(fm_cpu_time_used(&before, &after, &used), 0);
	CU_ASSERT_EQUAL(used.allowed, 1);
	CU_ASSERT_TRUE(is_near(used.wait_s, 2.5));
	CU_ASSERT_TRUE(is_near(used.allowed_busy, 0.05));
	CU_ASSERT_TRUE(is_near(used.busiest, 0.9));
	CU_ASSERT_TRUE(is_near(used.thread_wanted * used.seconds, 5));
	remove_all(root);
}

/* Goal: a core that does nothing but softirqs is told, apart from one that computes. */
static void test_softirq_core(void)
{
	static struct fm_cpu_time before = {.at_ns = 1, .cores = 2}, after;
	struct fm_cpu_used used;

	after = before;
	after.at_ns += 1000000000;
	after.busy_ns[0] = 1000000000;
	after.busy_ns[1] = 980000000;
	after.core_softirq_ns[1] = 970000000;
	CU_ASSERT_EQUAL_FATAL(fm_cpu_time_used(&before, &after, &used), 0);
	CU_ASSERT_TRUE(is_near(used.busiest, 1));
	CU_ASSERT_TRUE(is_near(used.core_softirq, 0.97));
}

/* Goal: a node that says more than its processors could have done says nothing. */
static void test_impossible(void)
{
	static struct fm_cpu_time before = { .at_ns = 1, .cores = 2 }, after;
	struct fm_cpu_used used;

	after = before;
	after.at_ns += 1000000000;
	after.process_ns = 3900000000;
	CU_ASSERT_EQUAL(fm_cpu_time_used(&before, &after, &used), 0);
	after.process_ns = INT64_MAX;
	CU_ASSERT_EQUAL(fm_cpu_time_used(&before, &after, &used), -EINVAL);
	after.process_ns = 3000000000;
	after.softirq_ns = 4000000000;
	CU_ASSERT_EQUAL(fm_cpu_time_used(&before, &after, &used), -EINVAL);
	after.softirq_ns = 0;
	after.at_ns = INT64_MAX;
	CU_ASSERT_EQUAL(fm_cpu_time_used(&before, &after, &used), -EINVAL);
}

/* Goal: what one writes the other reads; all else is refused, whoever sent it. */
static void test_text(void)
{
	static const char *const bad[] = {"",
					  "fmove_cpu 1 1 1 1 1 0\n",
					  "fmove_cpu 3 1 1 1 1 1 1 0 0 0 0\n",
					  "fmove_cpu 2 1 1 1 1 1 1 0 0 1 0\n",
					  "fmove_cpu 2 1 1 1 1 1 1 0 0 1 1 0\n",
					  "fmove_cpu 2 1 1 1 1 1 1 0 0 0\n",
					  "fmove_cpu 2 1 1 1 1 1 1 0 0 0 0",
					  "fmove_cpu 2 1 1 1 1 1 1 0 0 0 0 7\n",
					  "fmove_cpu 2 1 1 1 1 1 1 0 0 0 1 7\n",
					  "fmove_cpu 2 1 1 1 1 1 1 0 0 0 129 7 7\n",
					  "fmove_cpu 2 -1 1 1 1 1 1 0 0 0 0\n",
					  "fmove_cpu 2  1 1 1 1 1 1 0 0 0 0\n",
					  "fmove_cpu 2 1 1 1 1 1 1 0 0 1025 1 1 0\n",
					  "fmove_cpu 2 1 1 1 1 1 1 2 1 1 1 1 0\n",
					  "fmove_cpu 2 1 1 1 1 1 1 1 2 1 1 1 0\n",
					  "fmove_cpu 2 1 1 1 9223372036854775808 1 1 0 0 0 0\n"};
	static struct fm_cpu_time t = {1, 2, 3, 4, 7, 8, 2, 1, 2, {5, 6}, {9, 10}, 1, {{11, 12}}};
	static struct fm_cpu_time again;
	static char text[FM_CPU_TEXT_MAX];
	struct fm_cpu_used used;
	int len = fm_cpu_time_write(&t, text, sizeof(text));

	CU_ASSERT_STRING_EQUAL(text, "fmove_cpu 2 1 2 3 4 7 8 2 1 2 5 9 6 10 1 11 12\n");
	CU_ASSERT_EQUAL_FATAL(fm_cpu_time_parse(text, (size_t)len, &again), 0);
	CU_ASSERT_EQUAL(memcmp(&t, &again, sizeof(t)), 0);
	CU_ASSERT_EQUAL(fm_cpu_time_write(&t, text, 20), -EMSGSIZE);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(fm_cpu_time_parse(bad[i], strlen(bad[i]), &again), -EINVAL);
	CU_ASSERT_EQUAL(fm_cpu_time_used(&t, &t, &used), -EINVAL);
	again = t;
	again.at_ns++;
	again.cores = 1;
	CU_ASSERT_EQUAL(fm_cpu_time_used(&t, &again, &used), -EINVAL);
	t.cores = FM_CPU_CORES_MAX;
	for (unsigned i = 0; i < t.cores; i++)
		t.busy_ns[i] = t.core_softirq_ns[i] = INT64_MAX;
	t.threads = FM_CPU_THREADS_MAX;
	for (unsigned i = 0; i < t.threads; i++)
		t.thread[i] = (struct fm_cpu_thread){INT64_MAX, INT64_MAX};
	CU_ASSERT_TRUE(fm_cpu_time_write(&t, text, sizeof(text)) > 0);
}

/* Goal: this machine can be read, and a directory that is none says so. */
static void test_here(void)
{
	static struct fm_cpu_time t;
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL(fm_cpu_time_read("/proc", getpid(), &t, &err), 0);
	CU_ASSERT_TRUE(t.cores > 0);
	CU_ASSERT_TRUE(t.allowed > 0);
	CU_ASSERT_EQUAL(fm_cpu_time_read("/nothing", 1, &t, &err), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/nothing"));
}

static const struct fm_test tests[] = {
	{ "a process, its children and the kernel's threads count", test_who_counts },
	{ "a container's processes are no threads of the kernel", test_container },
	{ "which processors a process may use, and its waiting", test_allowed },
	{ "a core of softirqs", test_softirq_core },
	{ "more than processors can do is refused", test_impossible },
	{ "as text and back", test_text },
	{ "this machine can be read", test_here },
};
FM_TEST_MAIN("cpu time", tests)
