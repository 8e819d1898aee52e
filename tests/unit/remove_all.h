/* SPDX-License-Identifier: MIT */
/*
 * remove_all - a test's directory, with all that is in it. In this process: a test that loops over
 * every failure removes hundreds of them, and a shell and an rm for each take longer than what is
 * tested.
 */
#ifndef FM_REMOVE_ALL_H
#define FM_REMOVE_ALL_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/fm_test.h"

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

/* rm has what is left: paths may be longer than the kernel takes at once, and nftw(3) stumbles over
 * those. */
static inline void remove_all(const char *path)
{
	char command[256];

	if (nftw(path, remove_one, 50, FTW_DEPTH | FTW_PHYS) == 0)
		return;
	snprintf(command, sizeof(command), "rm -rf -- '%s'", path);
	CU_ASSERT_EQUAL(system(command), 0);
}

#endif
