/* SPDX-License-Identifier: MIT */
/* All of a file or of a pipe, up to a limit. */
#include "mover/base/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "tests/fm_test.h"

#define PIECES 300

static char path[200];

static void begin(void)
{
	const char *tmp = getenv("TMPDIR");

	(void)snprintf(path, sizeof(path), "%s/fmove-whole.XXXXXX", tmp ? tmp : "/tmp");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(path));
	strcat(path, "/f");
}

static void end(void)
{
	CU_ASSERT_EQUAL(unlink(path), 0);
	*strrchr(path, '/') = '\0';
	CU_ASSERT_EQUAL(rmdir(path), 0);
}

/* Goal: as many bytes as are allowed come, and one more is told. */
static void test_limit(void)
{
	struct fm_err err = {0};
	char *text = NULL;
	size_t len = 0;
	FILE *f;

	begin();
	CU_ASSERT_EQUAL(fm_whole_file(path, 5, &text, &len, &err), -ENOENT);
	f = fopen(path, "we");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_TRUE(fputs("12345", f) >= 0 && fclose(f) == 0);
	CU_ASSERT_EQUAL_FATAL(fm_whole_file(path, 5, &text, &len, &err), 0);
	CU_ASSERT_TRUE(len == 5 && memcmp(text, "12345", 5) == 0);
	free(text);
	CU_ASSERT_EQUAL(fm_whole_file(path, 4, &text, &len, &err), -E2BIG);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "longer than 4 bytes"));
	end();
	CU_ASSERT_EQUAL(fm_whole_file("/", 4, &text, &len, &err), -EISDIR);
}

static void *write_slowly(void *unused)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	(void)unused;
	for (int i = 0; fd >= 0 && i < PIECES; i++)
		if (write(fd, "a", 1) != 1 || sched_yield() < 0)
			break;
	(void)close(fd);
	return NULL;
}

/* Goal: what a pipe has not said yet is waited for, as of "compare <(ssh ...) B". */
static void test_pipe(void)
{
	struct fm_err err = {0};
	pthread_t writer;
	char *text = NULL;
	size_t len = 0;

	begin();
	CU_ASSERT_EQUAL_FATAL(mkfifo(path, 0600), 0);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&writer, NULL, write_slowly, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(fm_whole_file(path, 1000, &text, &len, &err), 0);
	CU_ASSERT_EQUAL(len, PIECES);
	free(text);
	CU_ASSERT_EQUAL(pthread_join(writer, NULL), 0);
	end();
}

static const struct fm_test tests[] = {
	{"a limit", test_limit},
	{"a pipe", test_pipe},
};
FM_TEST_MAIN("whole_file", tests)
