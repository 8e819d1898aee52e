/* SPDX-License-Identifier: MIT */
/* mount_of - which mount a path is on, without asking its file system, which may never answer. */
#ifndef FM_BASE_MOUNT_OF_H
#define FM_BASE_MOUNT_OF_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * The number of the mount that an absolute path leads to, as /proc/self/mountinfo has it; 0: none
 * is found. Links in the path are not followed, so it may be that of the mount of such a link.
 */
unsigned fm_mount_of(const char *path);

/* That of a file that is open: no other mount has it meanwhile. 0: not known. */
unsigned fm_mount_of_fd(int fd);

/* fm_mount_of() and fm_mount_len() at once. */
unsigned fm_mount_look(const char *path, size_t *out_len);

/*
 * How much of that path its mount point takes, in bytes; 0: none is found. What is to be mounted on
 * a longer part of it is not mounted now.
 */
size_t fm_mount_len(const char *path);

/*
 * Which directory an absolute path leads to, in words that only this boot knows: that of which file
 * system. It is the same however that is mounted, once more over itself, too (mount --bind), as
 * long as somebody has the file system open; but where no block device has it, what was mounted
 * (HOST:/EXPORT) is part of it: all that is mounted of one NFS server may be one file system, and
 * the kernel calls each directory of that "/". It is another one when what is bound there, or a
 * directory above that, is renamed. False: none is found, or there is too little room.
 */
#define FM_MOUNT_PLACE_MAX (3 * PATH_MAX)	/* what was mounted, its directory, and in that */
bool fm_mount_place(const char *path, char *out, size_t size);

/* These with another such text, len bytes. */
bool fm_mount_place_in(const char *text, size_t len, const char *path, char *out, size_t size);
unsigned fm_mount_in(const char *text, size_t len, const char *path, size_t *out_len);

#endif
