/* SPDX-License-Identifier: MIT */
/*
 * sys - system calls with the errno as a value.
 */
#include "mover/store/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mover/base/component.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"

/*
 * A look-up beneath a directory that is being renamed answers EAGAIN; it is not our wait, so a few tries are
 * enough.
 */
#define BENEATH_TRIES_MAX 64

static int sys_result(long ret)
{
	return ret < 0 ? -errno : (int)ret;
}

void *fm_sys_alloc(size_t len)
{
	return FM_FAULT("store.alloc") ? NULL : calloc(1, len);
}

static int open_below(int dir, const char *path, int flags, uint64_t resolve)
{
	struct open_how how = {
		/* openat2(2) refuses flags that mean nothing for O_PATH. */
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NOCTTY)),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve,
	};
	int ret = -EAGAIN;

	if (FM_FAULT("store.open"))
		return -EMFILE;
	for (int i = 0; i < BENEATH_TRIES_MAX && (ret == -EAGAIN || ret == -EINTR); i++)
		ret = sys_result(syscall(SYS_openat2, dir, path, &how, sizeof(how)));
	return ret;
}

int fm_sys_open_beneath(int root, const char *path, int flags)
{
	return open_below(root, path, flags, 0);
}

int fm_sys_open_dir(int dir, const char *name, bool is_unmounted)
{
	return open_below(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, is_unmounted ? RESOLVE_NO_XDEV : 0);
}

int fm_sys_create(int dir, const char *name)
{
	if (FM_FAULT("store.create"))
		return -ENOSPC;
	if (!fm_is_component(name))
		return -EXDEV;
	return sys_result(openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
}

int fm_sys_fstat(int fd, struct stat *out)
{
	return FM_FAULT("store.fstat") ? -EIO : sys_result(fstat(fd, out));
}

int fm_sys_fstatat(int dir, const char *name, struct stat *out)
{
	if (!fm_is_component(name))
		return -EXDEV;
	return FM_FAULT("store.fstatat") ? -EIO : sys_result(fstatat(dir, name, out, AT_SYMLINK_NOFOLLOW));
}

int fm_sys_fstatfs(int fd, struct statfs *out)
{
	return FM_FAULT("store.fstatfs") ? -EIO : sys_result(fstatfs(fd, out));
}

int fm_sys_fallocate(int fd, uint64_t len)
{
	int ret;

	if (FM_FAULT("store.fallocate"))
		return -ENOSPC;
	do {
		ret = sys_result(fallocate(fd, 0, 0, (off_t)len));
	} while (ret == -EINTR);
	return ret;
}

int fm_sys_ftruncate(int fd, uint64_t len)
{
	int ret;

	if (FM_FAULT("store.ftruncate"))
		return -EIO;
	do {
		ret = sys_result(ftruncate(fd, (off_t)len));
	} while (ret == -EINTR);
	return ret;
}

int fm_sys_fdatasync(int fd)
{
	return FM_FAULT("store.fdatasync") ? -EIO : sys_result(fdatasync(fd));
}

int fm_sys_fsync(int fd)
{
	return FM_FAULT("store.fsync") ? -EIO : sys_result(fsync(fd));
}

int fm_sys_syncfs(int fd)
{
	return FM_FAULT("store.syncfs") ? -EIO : sys_result(syncfs(fd));
}

int fm_sys_fchmod(int fd, mode_t mode)
{
	return FM_FAULT("store.fchmod") ? -EIO : sys_result(fchmod(fd, mode));
}

int fm_sys_fchown(int fd, uid_t uid, gid_t gid)
{
	return FM_FAULT("store.fchown") ? -EPERM : sys_result(fchown(fd, uid, gid));
}

int fm_sys_set_mtime(int fd, int64_t mtime_ns)
{
	const int64_t ns_per_s = (int64_t)FM_NS_PER_S;
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { 0 } };

	times[1].tv_sec = mtime_ns / ns_per_s;
	times[1].tv_nsec = mtime_ns % ns_per_s;
	if (times[1].tv_nsec < 0) {	/* before 1970 */
		times[1].tv_sec--;
		times[1].tv_nsec += ns_per_s;
	}
	return FM_FAULT("store.futimens") ? -EIO : sys_result(futimens(fd, times));
}

int fm_sys_set_flags(int fd, int flags)
{
	return FM_FAULT("store.set_flags") ? -EIO : sys_result(fcntl(fd, F_SETFL, flags));
}

int fm_sys_mkdirat(int dir, const char *name, mode_t mode)
{
	if (!fm_is_component(name))
		return -EXDEV;
	return FM_FAULT("store.mkdir") ? -ENOSPC : sys_result(mkdirat(dir, name, mode));
}

int fm_sys_unlinkat(int dir, const char *name, int flags)
{
	if (!fm_is_component(name))
		return -EXDEV;
	return FM_FAULT("store.unlink") ? -EIO : sys_result(unlinkat(dir, name, flags));
}

int fm_sys_rename(int from_dir, const char *from, int dir, const char *name, unsigned flags)
{
	if (!fm_is_component(from) || !fm_is_component(name))
		return -EXDEV;
	if (FM_FAULT("store.rename"))
		return -EIO;
	/* For the fallbacks of file systems that know no flags. */
	if (flags && FM_FAULT("store.rename_flags"))
		return -EINVAL;
	return sys_result(renameat2(from_dir, from, dir, name, flags));
}

int fm_sys_link(int from_dir, const char *from, int dir, const char *name)
{
	if (!fm_is_component(from) || !fm_is_component(name))
		return -EXDEV;
	return FM_FAULT("store.link") ? -EIO : sys_result(linkat(from_dir, from, dir, name, 0));
}
