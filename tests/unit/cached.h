/* SPDX-License-Identifier: MIT */
/* cached - how much of a file is in memory, for tests of what should leave nothing there. */
#ifndef FM_TEST_CACHED_H
#define FM_TEST_CACHED_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/block.h"
#include "tests/fm_test.h"

/* Pages of that file, which has some bytes. */
static inline size_t cached_pages(int dir, const char *path)
{
	long page = sysconf(_SC_PAGESIZE);
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	size_t count = 0, len;
	unsigned char *pages;
	struct stat st;
	void *map;

	CU_ASSERT_TRUE_FATAL(fd >= 0 && fstat(fd, &st) == 0);
	len = ((size_t)st.st_size + (size_t)page - 1) / (size_t)page;
	pages = calloc(len, 1);
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	CU_ASSERT_TRUE_FATAL(pages && map != MAP_FAILED);
	CU_ASSERT_EQUAL(mincore(map, (size_t)st.st_size, pages), 0);
	for (size_t i = 0; i < len; i++)
		count += pages[i] & 1;
	CU_ASSERT_EQUAL(munmap(map, (size_t)st.st_size), 0);
	free(pages);
	(void)close(fd);
	return count;
}

/* Whether the file system of dir keeps nothing in memory of what is written with O_DIRECT; one that
 * is in memory itself does. */
static inline bool cached_has_none(int dir)
{
	static _Alignas(FM_BLOCK) char block[FM_BLOCK];
	int fd = openat(dir, "direct", O_CREAT | O_WRONLY | O_DIRECT | O_CLOEXEC, 0600);
	bool has = fd >= 0 && pwrite(fd, block, sizeof(block), 0) == sizeof(block) &&
		   cached_pages(dir, "direct") == 0;

	if (fd >= 0)
		(void)close(fd);
	(void)unlinkat(dir, "direct", 0);
	return has;
}

#endif
