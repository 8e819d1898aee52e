/* SPDX-License-Identifier: MIT */
/* mount_of - which mount a path is on, without asking its file system, which may never answer. */
#ifndef FM_BASE_MOUNT_OF_H
#define FM_BASE_MOUNT_OF_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The number of the mount that an absolute path leads to, as /proc/self/mountinfo has it; 0: none
 * is found. Links in the path are not followed, so it may be that of the mount of such a link.
 */
unsigned fm_mount_of(const char *path);

/*
 * How much of that path its mount point takes, in bytes; 0: none is found. What is to be mounted on
 * a longer part of it is not mounted now.
 */
size_t fm_mount_len(const char *path);

/*
 * Which directory an absolute path leads to, in words that only this boot knows: that of which file
 * system. It is the same however that is mounted, once more over itself, too (mount --bind), as
 * long as somebody has the file system open. False: none is found, or there is too little room.
 */
bool fm_mount_place(const char *path, char *out, size_t size);

/* These with another such text, len bytes. */
bool fm_mount_place_in(const char *text, size_t len, const char *path, char *out, size_t size);
unsigned fm_mount_in(const char *text, size_t len, const char *path, size_t *out_len);

#endif
