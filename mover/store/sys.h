/* SPDX-License-Identifier: MIT */
/*
 * sys - the system calls of this directory (see base/call.h), with a fault point before each.
 *
 * Any thread. What is done on the way out (closing, removing a partial file, undoing a rename)
 * calls the system directly: it has nobody to report to, and a fault there would only hide the one
 * being tested.
 */
#ifndef FM_STORE_SYS_H
#define FM_STORE_SYS_H

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/types.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/fault.h"

/* Zeroed memory, or NULL. */
static inline void *fm_sys_alloc(size_t len)
{
	return FM_FAULT("store.alloc") ? NULL : calloc(1, len);
}

/* Open path below root: a descriptor, or -EXDEV if the path leads out. flags as for open(2), no
 * O_CREAT. */
static inline int fm_sys_open_beneath(int root, const char *path, int flags)
{
	return FM_FAULT("store.open") ? -EMFILE : fm_call_open_below(root, path, flags, 0, 0);
}

/*
 * A directory by its name in dir, to be read. No link is followed: -ELOOP, -ENOTDIR. is_unmounted:
 * -EXDEV if something is mounted on it.
 */
static inline int fm_sys_open_dir(int dir, const char *name, bool is_unmounted)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;

	if (FM_FAULT("store.open"))
		return -EMFILE;
	return fm_call_open_below(dir, name, flags, 0, is_unmounted ? RESOLVE_NO_XDEV : 0);
}

static inline int fm_sys_fstat(int fd, struct stat *out)
{
	return FM_FAULT("store.fstat") ? -EIO : fm_call(fstat(fd, out));
}

/* Of a link itself. */
static inline int fm_sys_fstatat(int dir, const char *name, struct stat *out)
{
	return FM_FAULT("store.fstatat") ? -EIO : fm_call_fstatat(dir, name, out);
}

static inline int fm_sys_fstatfs(int fd, struct statfs *out)
{
	return FM_FAULT("store.fstatfs") ? -EIO : fm_call(fstatfs(fd, out));
}

static inline int fm_sys_fallocate(int fd, uint64_t offset, uint64_t len)
{
	return FM_FAULT("store.fallocate") ? -ENOSPC : fm_call_fallocate(fd, offset, len);
}

static inline int fm_sys_ftruncate(int fd, uint64_t len)
{
	return FM_FAULT("store.ftruncate") ? -EIO : fm_call_ftruncate(fd, len);
}

static inline int fm_sys_fdatasync(int fd)
{
	return FM_FAULT("store.fdatasync") ? -EIO : fm_call_fdatasync(fd);
}

static inline int fm_sys_fsync(int fd)
{
	return FM_FAULT("store.fsync") ? -EIO : fm_call(fsync(fd));
}

static inline int fm_sys_syncfs(int fd)
{
	return FM_FAULT("store.syncfs") ? -EIO : fm_call(syncfs(fd));
}

static inline int fm_sys_fchmod(int fd, mode_t mode)
{
	return FM_FAULT("store.fchmod") ? -EIO : fm_call(fchmod(fd, mode));
}

static inline int fm_sys_fchown(int fd, uid_t uid, gid_t gid)
{
	return FM_FAULT("store.fchown") ? -EPERM : fm_call(fchown(fd, uid, gid));
}

static inline int fm_sys_set_mtime(int fd, int64_t mtime_ns)
{
	return FM_FAULT("store.futimens") ? -EIO : fm_call_set_mtime(fd, mtime_ns);
}

/* Of the open file description. */
static inline int fm_sys_set_flags(int fd, int flags)
{
	return FM_FAULT("store.set_flags") ? -EIO : fm_call(fcntl(fd, F_SETFL, flags));
}

static inline int fm_sys_mkdirat(int dir, const char *name, mode_t mode)
{
	return FM_FAULT("store.mkdir") ? -ENOSPC : fm_call_mkdirat(dir, name, mode);
}

static inline int fm_sys_unlinkat(int dir, const char *name, int flags)
{
	return FM_FAULT("store.unlink") ? -EIO : fm_call_unlinkat(dir, name, flags);
}

/*
 * Within one directory. flags: 0, RENAME_NOREPLACE, RENAME_EXCHANGE. -EINVAL or -ENOSYS: the flag
 * is not supported there.
 */
static inline int fm_sys_rename(int from_dir, const char *from, int dir, const char *name,
				unsigned flags)
{
	if (FM_FAULT("store.rename"))
		return -EIO;
	/* For the fallbacks of file systems that know no flags. */
	if (flags && FM_FAULT("store.rename_flags"))
		return -EINVAL;
	return fm_call_renameat(from_dir, from, dir, name, flags);
}

static inline int fm_sys_symlink(const char *target, int dir, const char *name)
{
	return FM_FAULT("store.symlink") ? -ENOSPC : fm_call_symlinkat(target, dir, name);
}

/* What an open link says; -ENAMETOOLONG: cap bytes or more. */
static inline int fm_sys_read_link(int fd, char *says, size_t cap)
{
	int len = FM_FAULT("store.read_link") ? -EIO : fm_call(readlinkat(fd, "", says, cap));

	if (len == (int)cap)
		len = -ENAMETOOLONG;
	says[len < 0 ? 0 : len] = '\0';
	return len < 0 ? len : 0;
}

static inline int fm_sys_link(int from_dir, const char *from, int dir, const char *name)
{
	return FM_FAULT("store.link") ? -EIO : fm_call_linkat(from_dir, from, dir, name);
}

#endif
