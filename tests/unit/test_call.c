/* SPDX-License-Identifier: MIT */
/* test_call - system calls as values: what is short, what leads out, what is older than 1970.
 * links: fm_base */
#include "mover/base/call.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/fm_test.h"
#include "tests/unit/refused_call.h"

static char dir_path[64];
static int dir, fd;

static void begin(void)
{
	(void)snprintf(dir_path, sizeof(dir_path), "/tmp/test_call.XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir_path));
	dir = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CU_ASSERT_TRUE_FATAL(dir >= 0);
	fd = fm_call_open_below(dir, "a", O_RDWR | O_CREAT | O_EXCL, 0600, 0);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
}

static void end(void)
{
	close(fd);
	(void)unlinkat(dir, "a", 0);
	close(dir);
	CU_ASSERT_EQUAL(rmdir(dir_path), 0);
}

static int write_back(void)
{
	return fm_call_write_back(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

/* What has no pages to write back needs none written back, nor what knows no such call. */
static void test_write_back(void)
{
	static const int none[] = { ENOSYS, EPERM, EINVAL, ESPIPE }, bad[] = { EIO, ENOSPC };
	int pipes[2];

	begin();
	CU_ASSERT_EQUAL(fm_call_write_all(fd, "abc", 3, 0), 0);
	CU_ASSERT_EQUAL(fm_call_write_back(fd, 0, 0, SYNC_FILE_RANGE_WRITE), 0);
	CU_ASSERT_EQUAL_FATAL(pipe(pipes), 0);
	CU_ASSERT_EQUAL(fm_call_write_back(pipes[1], 0, 0, SYNC_FILE_RANGE_WRITE), 0);
	CU_ASSERT_EQUAL(close(pipes[0]) | close(pipes[1]), 0);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		CU_ASSERT_TRUE(with_refused_call(SYS_sync_file_range, none[i], write_back) >= 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int ret = with_refused_call(SYS_sync_file_range, bad[i], write_back);

		CU_ASSERT_TRUE(ret == -bad[i] || ret == 1);
	}
	CU_ASSERT_EQUAL(fm_call_write_back(-1, 0, 0, SYNC_FILE_RANGE_WRITE), -EBADF);
	end();
}

/* Goal: a read that meets the end of the file says how much there was; one of a closed descriptor
 * says why not. */
static void test_all_of_the_bytes(void)
{
	char buf[8] = "";

	begin();
	CU_ASSERT_EQUAL(fm_call_write_all(fd, "abcdef", 6, 2), 0);
	CU_ASSERT_EQUAL(fm_call_read_all(fd, buf, 4, 2), 4);
	CU_ASSERT_NSTRING_EQUAL(buf, "abcd", 4);
	CU_ASSERT_EQUAL(fm_call_read_all(fd, buf, sizeof(buf), 4), 4);
	CU_ASSERT_NSTRING_EQUAL(buf, "cdef", 4);
	CU_ASSERT_EQUAL(fm_call_read_all(fd, buf, sizeof(buf), 100), 0);
	CU_ASSERT_EQUAL(fm_call_read_all(-1, buf, sizeof(buf), 0), -EBADF);
	CU_ASSERT_EQUAL(fm_call_write_all(dir, "a", 1, 0), -EBADF);	/* open for reading only */
	end();
}

/* Goal: a handle stays with its file whatever that is called; the next of that name has another. */
static void test_handles(void)
{
	uint8_t was[FM_CALL_HANDLE_MAX] = { 0 }, now[FM_CALL_HANDLE_MAX] = { 0 };
	int len, next;

	begin();
	len = fm_call_handle_at(dir, "a", was);
	CU_ASSERT_TRUE(len > 0 && len <= FM_CALL_HANDLE_MAX);
	CU_ASSERT_EQUAL(fm_call_renameat(dir, "a", dir, "b", 0), 0);
	CU_ASSERT_EQUAL(fm_call_handle_at(dir, "b", now), len);
	CU_ASSERT_EQUAL(memcmp(was, now, sizeof(was)), 0);
	CU_ASSERT_EQUAL(fm_call_unlinkat(dir, "b", 0), 0);
	CU_ASSERT_EQUAL(fm_call_handle_at(dir, "b", now), -ENOENT);
	close(fd);
	next = fm_call_open_below(dir, "a", O_RDWR | O_CREAT | O_EXCL, 0600, 0);
	CU_ASSERT_TRUE(next >= 0);
	fd = next;
	CU_ASSERT_TRUE(fm_call_handle_at(dir, "a", now) > 0);
	CU_ASSERT_NOT_EQUAL(memcmp(was, now, sizeof(was)), 0);
	end();
}

/* Goal: what takes a name takes no path, and what takes a path stays below. */
static void test_no_way_out(void)
{
	static const char *const names[] = { "", ".", "..", "a/b", "/a" };
	uint8_t handle[FM_CALL_HANDLE_MAX];
	struct stat st;

	begin();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		CU_ASSERT_EQUAL(fm_call_fstatat(dir, names[i], &st), -EXDEV);
		CU_ASSERT_EQUAL(fm_call_handle_at(dir, names[i], handle), -EXDEV);
		CU_ASSERT_EQUAL(fm_call_mkdirat(dir, names[i], 0700), -EXDEV);
		CU_ASSERT_EQUAL(fm_call_symlinkat("x", dir, names[i]), -EXDEV);
		CU_ASSERT_EQUAL(fm_call_linkat(dir, "a", dir, names[i]), -EXDEV);
		CU_ASSERT_EQUAL(fm_call_linkat(dir, names[i], dir, "b"), -EXDEV);
		CU_ASSERT_EQUAL(fm_call_unlinkat(dir, names[i], 0), -EXDEV);
		CU_ASSERT_EQUAL(fm_call_renameat(dir, "a", dir, names[i], 0), -EXDEV);
		CU_ASSERT_EQUAL(fm_call_renameat(dir, names[i], dir, "b", 0), -EXDEV);
		CU_ASSERT_EQUAL(fm_call_chown_link(dir, names[i], getuid(), getgid()), -EXDEV);
		CU_ASSERT_EQUAL(fm_call_set_link_mtime(dir, names[i], 0), -EXDEV);
	}
	CU_ASSERT_EQUAL(fm_call_open_below(dir, "../a", O_PATH, 0, 0), -EXDEV);
	CU_ASSERT_EQUAL(fm_call_symlinkat("a", dir, "link"), 0);
	CU_ASSERT_EQUAL(fm_call_open_below(dir, "link", O_RDONLY, 0, RESOLVE_NO_SYMLINKS), -ELOOP);
	CU_ASSERT_EQUAL(fm_call_unlinkat(dir, "link", 0), 0);
	end();
}

/* Goal: a time before 1970 is kept to the nanosecond, and that of the last access stays. */
static void test_before_1970(void)
{
	struct stat before, st;

	begin();
	CU_ASSERT_EQUAL_FATAL(fm_call(fstat(fd, &before)), 0);
	CU_ASSERT_EQUAL(fm_call_set_mtime(fd, -1), 0);
	CU_ASSERT_EQUAL_FATAL(fm_call_fstatat(dir, "a", &st), 0);
	CU_ASSERT_EQUAL(st.st_mtim.tv_sec, -1);
	CU_ASSERT_EQUAL(st.st_mtim.tv_nsec, 999999999);
	CU_ASSERT_EQUAL(st.st_atim.tv_sec, before.st_atim.tv_sec);
	CU_ASSERT_EQUAL(st.st_atim.tv_nsec, before.st_atim.tv_nsec);
	end();
}

/* Goal: whoever else has the file open, here or elsewhere, is seen, and nobody else. */
static void test_open_elsewhere(void)
{
	int mine, other;

	begin();
	mine = fm_call_open_below(dir, "a", O_RDONLY, 0, 0);
	CU_ASSERT_EQUAL(fm_call_is_open_elsewhere(mine), 1);	/* by fd */
	CU_ASSERT_EQUAL(fm_call_is_open_to_write(mine), 1);
	CU_ASSERT_EQUAL(close(fd), 0);
	CU_ASSERT_EQUAL(fm_call_is_open_elsewhere(mine), 0);
	other = fm_call_open_below(dir, "a", O_RDONLY | O_NONBLOCK, 0, 0);
	CU_ASSERT_TRUE(other >= 0);	/* the lease was given back */
	CU_ASSERT_EQUAL(fm_call_is_open_elsewhere(mine), 1);
	CU_ASSERT_EQUAL(fm_call_is_open_to_write(mine), 0);	/* it is read */
	CU_ASSERT_EQUAL(close(other), 0);
	other = fm_call_open_below(dir, "a", O_WRONLY | O_NONBLOCK, 0, 0);
	CU_ASSERT_TRUE(other >= 0);
	CU_ASSERT_EQUAL(fm_call_is_open_to_write(mine), 1);
	CU_ASSERT_EQUAL(close(other), 0);
	CU_ASSERT_EQUAL(fm_call_is_open_elsewhere(dir), -EINVAL);
	fd = mine;
	end();
}

/* Here it is memory at an odd address that direct I/O does not take, elsewhere a small block. */
static void test_direct(void)
{
	static char buf[3 * 4096] __attribute__((aligned(4096)));
	int mine, flags;

	begin();
	memset(buf, 'x', 4096);
	CU_ASSERT_EQUAL(fm_call_write_all(fd, buf, 4096, 0), 0);
	CU_ASSERT_EQUAL(fm_call_write_all(fd, "end", 3, 4096), 0);
	mine = fm_call_open_below(dir, "a", O_RDONLY, 0, 0);
	flags = fcntl(mine, F_GETFL);
	CU_ASSERT_TRUE_FATAL(flags >= 0);
	if (fcntl(mine, F_SETFL, flags | O_DIRECT) < 0)
		printf("SKIP: no O_DIRECT here\n");
	CU_ASSERT_EQUAL(fm_call_read_direct(mine, buf + 4096, 4096, 0), 4096);
	CU_ASSERT_EQUAL(memcmp(buf, buf + 4096, 4096), 0);
	CU_ASSERT_EQUAL(fm_call_read_direct(mine, buf + 1, 8192, 4096), 3);
	CU_ASSERT_EQUAL(memcmp(buf + 1, "end", 3), 0);
	CU_ASSERT_EQUAL(close(mine), 0);
	CU_ASSERT_EQUAL(fm_call_read_direct(dir, buf, 4096, 0), -EISDIR);
	end();
}

static const struct fm_test tests[] = {
	{ "who else has a file open", test_open_elsewhere },
	{ "all of the bytes, or how many there were", test_all_of_the_bytes },
	{ "what direct I/O does not take is read through the page cache", test_direct },
	{ "what has no pages to write back", test_write_back },
	{ "no name leads out", test_no_way_out },
	{ "handles are of files, not of names", test_handles },
	{ "times before 1970", test_before_1970 },
};
FM_TEST_MAIN("call", tests)
