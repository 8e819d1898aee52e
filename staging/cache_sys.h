/* SPDX-License-Identifier: MIT */
/*
 * cache_sys - the system calls of a cache (see base/call.h), with a fault point before each.
 *
 * Any thread. What is done on the way out (closing, undoing a rename) calls the system directly: it
 * has nobody to report to, and a fault there would only hide the one being tested.
 */
#ifndef FM_STAGING_CACHE_SYS_H
#define FM_STAGING_CACHE_SYS_H

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/call.h"
#include "mover/base/fault.h"

#define FM_CACHE_DIR_FLAGS (O_RDONLY | O_DIRECTORY)

/* Zeroed memory, from the budget (base/budget.h), or NULL; fm_budget_free(). */
static inline void *fm_cache_alloc(size_t len)
{
	return FM_FAULT("cache.alloc") ? NULL : fm_budget_alloc(len);
}

/* A path below dir: no link is followed, nothing mounted is entered. */
static inline int fm_cache_sys_open(int dir, const char *path, int flags, mode_t mode)
{
	if (FM_FAULT("cache.open"))
		return -EMFILE;
	return fm_call_open_below(dir, path, flags | O_NOFOLLOW, mode,
				  RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

static inline int fm_cache_sys_fstat(int fd, struct stat *out)
{
	return FM_FAULT("cache.fstat") ? -EIO : fm_call(fstat(fd, out));
}

static inline int fm_cache_sys_fstatat(int dir, const char *name, struct stat *out)
{
	return FM_FAULT("cache.fstatat") ? -EIO : fm_call_fstatat(dir, name, out);
}

static inline int fm_cache_sys_statvfs(int fd, struct statvfs *out)
{
	return FM_FAULT("cache.statvfs") ? -EIO : fm_call(fstatvfs(fd, out));
}

static inline int64_t fm_cache_sys_read(int fd, void *buf, size_t len)
{
	return FM_FAULT("cache.read") ? -EIO : fm_call_read_all(fd, buf, len, 0);
}

static inline int fm_cache_sys_write(int fd, const void *buf, size_t len)
{
	int ret;

	if (!FM_FAULT("cache.write"))
		return fm_call_write_all(fd, buf, len, 0);
	ret = fm_call_write_all(fd, buf, len / 2, 0); /* as a full disk does it */
	return ret < 0 ? ret : -ENOSPC;
}

static inline int fm_cache_sys_fsync(int fd)
{
	return FM_FAULT("cache.fsync") ? -EIO : fm_call(fsync(fd));
}

static inline int fm_cache_sys_syncfs(int fd)
{
	return FM_FAULT("cache.syncfs") ? -EIO : fm_call(syncfs(fd));
}

static inline int fm_cache_sys_mkdir(int dir, const char *name, mode_t mode)
{
	return FM_FAULT("cache.mkdir") ? -ENOSPC : fm_call_mkdirat(dir, name, mode);
}

static inline int fm_cache_sys_unlink(int dir, const char *name, int flags)
{
	return FM_FAULT("cache.unlink") ? -EIO : fm_call_unlinkat(dir, name, flags);
}

static inline int fm_cache_sys_rename(int from, const char *name, int to, const char *new_name,
				      unsigned flags)
{
	return FM_FAULT("cache.rename") ? -EIO : fm_call_renameat(from, name, to, new_name, flags);
}

static inline int fm_cache_sys_link(int from, const char *name, int to, const char *new_name)
{
	return FM_FAULT("cache.link") ? -EMLINK : fm_call_linkat(from, name, to, new_name);
}

static inline int fm_cache_sys_clone(int to, int from)
{
	return FM_FAULT("cache.clone") ? -EOPNOTSUPP : fm_call(ioctl(to, FICLONE, from));
}

static inline int fm_cache_sys_chmod(int fd, mode_t mode)
{
	return FM_FAULT("cache.chmod") ? -EIO : fm_call(fchmod(fd, mode));
}

static inline int fm_cache_sys_set_mtime(int fd, int64_t mtime_ns)
{
	return FM_FAULT("cache.futimens") ? -EIO : fm_call_set_mtime(fd, mtime_ns);
}

static inline int fm_cache_sys_set_xattr(int fd, const char *name, const void *value, size_t len)
{
	return FM_FAULT("cache.xattr") ? -EIO : fm_call(fsetxattr(fd, name, value, len, 0));
}

/* Its length. */
static inline int64_t fm_cache_sys_get_xattr(int fd, const char *name, void *value, size_t max)
{
	return FM_FAULT("cache.xattr") ? -EIO : fm_call(fgetxattr(fd, name, value, max));
}

/* 0 also if it has none. */
static inline int fm_cache_sys_remove_xattr(int fd, const char *name)
{
	int ret = FM_FAULT("cache.xattr") ? -EIO : fm_call(fremovexattr(fd, name));

	return ret == -ENODATA || ret == -EOPNOTSUPP ? 0 : ret;
}

static inline int fm_cache_sys_is_open(int fd)
{
	return FM_FAULT("cache.lease") ? -EIO : fm_call_is_open_elsewhere(fd);
}

#endif
