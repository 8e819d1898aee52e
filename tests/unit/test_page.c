/* SPDX-License-Identifier: MIT */
/* links: fm_base */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mover/base/page.h"
#include "tests/fm_test.h"

#define PAGES 4

/* Of PAGES pages, all in memory and on the disk, with [at, at + len) dropped: how many are still in
 * memory. -1: this file system has nothing but memory. */
static int stay(uint64_t at, uint64_t len)
{
	size_t page = fm_page_bytes(), bytes = PAGES * page;
	size_t kernels = (size_t)sysconf(_SC_PAGESIZE), count = bytes / kernels;
	char name[] = "/var/tmp/fm-page.XXXXXX", *data = calloc(1, bytes);
	unsigned char *is_there = calloc(1, count);
	int fd = mkstemp(name), n = 0;
	void *map;

	CU_ASSERT_FATAL(fd >= 0 && data && is_there);
	(void)unlink(name);
	/* one by one: newer kernels keep what was written at once together */
	for (size_t i = 0; i < count; i++)
		CU_ASSERT_EQUAL_FATAL(write(fd, data, kernels), (ssize_t)kernels);
	CU_ASSERT_EQUAL_FATAL(fsync(fd), 0);
	fm_page_drop(fd, at, len);
	map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	CU_ASSERT_PTR_NOT_EQUAL_FATAL(map, MAP_FAILED);
	CU_ASSERT_EQUAL(mincore(map, bytes, is_there), 0);
	for (size_t i = 0; i < count; i++)
		n += is_there[i] & 1;
	(void)munmap(map, bytes);
	(void)close(fd);
	free(is_there);
	free(data);
	CU_ASSERT_EQUAL(n % (int)(page / kernels), 0);
	return n / (int)(page / kernels);
}

static void test_size(void)
{
	size_t page = fm_page_bytes();

	CU_ASSERT_TRUE(page >= 4096 && (page & (page - 1)) == 0);
	CU_ASSERT_TRUE(fm_page_huge_bytes() % page == 0);
}

static void test_drop(void)
{
	size_t page = fm_page_bytes();

	if (stay(0, PAGES * page) != 0) {
		printf("(/var/tmp lies in memory: not tried) ");
		return;
	}
	CU_ASSERT_EQUAL(stay(page, 0), PAGES);
	CU_ASSERT_EQUAL(stay(page, page), PAGES - 1);
	CU_ASSERT_EQUAL(stay(page + page / 2, 1), PAGES - 1);
	CU_ASSERT_EQUAL(stay(page - 1, 2), PAGES - 2);
	CU_ASSERT_EQUAL(stay(page / 2, PAGES * page - page), 0);
}

static const struct fm_test tests[] = {
	{"a page has a power of two, and a huge one is made of them", test_size},
	{"a stretch takes the pages with it that lie partly in it", test_drop},
};
FM_TEST_MAIN("page", tests)
