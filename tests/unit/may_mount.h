/* SPDX-License-Identifier: MIT */
/*
 * may_mount - for tests that mount something: a mount namespace of the process's own, from the
 * first call on.
 */
#ifndef FM_TESTS_MAY_MOUNT_H
#define FM_TESTS_MAY_MOUNT_H

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

/* Whether one is to be had; says so if not. */
static inline bool may_mount(void)
{
	if (geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
		return true;
	printf("SKIP: needs root and mount(2)\n");
	return false;
}

#endif
