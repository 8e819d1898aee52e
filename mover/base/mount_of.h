/* SPDX-License-Identifier: MIT */
/* mount_of - which mount a path is on, without asking its file system, which may never answer. */
#ifndef FM_BASE_MOUNT_OF_H
#define FM_BASE_MOUNT_OF_H

#include <stdio.h>

/*
 * The number of the mount that an absolute path leads to, as /proc/self/mountinfo has it; 0: none
 * is found. Links in the path are not followed, so it may be that of the mount of such a link.
 */
unsigned fm_mount_of(const char *path);

/* The same with another such file. */
unsigned fm_mount_in(FILE *mounts, const char *path);

#endif
