/* SPDX-License-Identifier: MIT */
/*
 * sys - the system calls of this directory: -errno instead of errno, EINTR tried again, a fault point before each.
 *
 * Any thread. What is done on the way out (closing, removing a partial file, undoing a rename) calls the system
 * directly: it has nobody to report to, and a fault there would only hide the one being tested.
 */
#ifndef FM_STORE_SYS_H
#define FM_STORE_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/types.h>

/* Zeroed memory, or NULL. */
void *fm_sys_alloc(size_t len);

/*
 * Open path below root (openat2 with RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS): a descriptor, or -EXDEV if the
 * path leads out. flags as for open(2), no O_CREAT.
 */
int fm_sys_open_beneath(int root, const char *path, int flags);

/*
 * A directory by its name in dir, to be read. No link is followed: -ELOOP, -ENOTDIR. is_unmounted:
 * -EXDEV if something is mounted on it.
 */
int fm_sys_open_dir(int dir, const char *name, bool is_unmounted);

/* A new file, mode 0600, for reading and writing. -EEXIST if the name is taken. */
int fm_sys_create(int dir, const char *name);

int fm_sys_fstat(int fd, struct stat *out);
int fm_sys_fstatat(int dir, const char *name, struct stat *out);	/* of a link itself */
int fm_sys_fstatfs(int fd, struct statfs *out);

int fm_sys_fallocate(int fd, uint64_t len);
int fm_sys_ftruncate(int fd, uint64_t len);
int fm_sys_fdatasync(int fd);
int fm_sys_fsync(int fd);
int fm_sys_syncfs(int fd);
int fm_sys_fchmod(int fd, mode_t mode);
int fm_sys_fchown(int fd, uid_t uid, gid_t gid);
int fm_sys_set_mtime(int fd, int64_t mtime_ns);
int fm_sys_set_flags(int fd, int flags);		/* of the open file description */

int fm_sys_mkdirat(int dir, const char *name, mode_t mode);
int fm_sys_unlinkat(int dir, const char *name, int flags);

/*
 * Within one directory. flags: 0, RENAME_NOREPLACE, RENAME_EXCHANGE. -EINVAL or -ENOSYS: the flag is not
 * supported there.
 */
int fm_sys_rename(int from_dir, const char *from, int dir, const char *name, unsigned flags);
int fm_sys_link(int from_dir, const char *from, int dir, const char *name);

#endif
