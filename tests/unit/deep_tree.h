/* SPDX-License-Identifier: MIT */
/*
 * deep_tree - directories in one another, more of them than a path can name.
 */
#ifndef DEEP_TREE_H
#define DEEP_TREE_H

#include <CUnit/Basic.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* So many below the directory of that name, with others beside the way down. The last one, open. */
static inline int deep_make(int parent, const char *name, unsigned depth)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), next;

	for (unsigned i = 0; i < depth; i++) {
		CU_ASSERT_EQUAL_FATAL(mkdirat(fd, "deeper", 0755), 0);
		if (i % 100 == 0)
			CU_ASSERT_EQUAL(mkdirat(fd, "beside", 0755), 0);
		next = openat(fd, "deeper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CU_ASSERT_TRUE_FATAL(next >= 0);
		close(fd);
		fd = next;
	}
	return fd;
}

#endif
