/* SPDX-License-Identifier: MIT */
/*
 * tsys - see tsys.h.
 */
#include "mover/tree/tsys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/call.h"
#include "mover/base/component.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"

#define NO_LINKS RESOLVE_NO_SYMLINKS	/* nothing that a link leads to either */

void *fm_tsys_alloc(size_t len)
{
	return FM_FAULT("tree.alloc") ? NULL : fm_budget_alloc(len);
}

void fm_tsys_free(void *at)
{
	fm_budget_free(at);
}

int fm_tsys_open_below(int root, const char *path)
{
	return FM_FAULT("tree.open")
		       ? -EMFILE
		       : fm_call_open_below(root, path, O_PATH | O_DIRECTORY, 0, NO_LINKS);
}

int fm_tsys_open(int dir, const char *name, int flags, mode_t mode)
{
	if (FM_FAULT("tree.open"))
		return flags & O_CREAT ? -ENOSPC : -EMFILE;
	return fm_call_open_below(dir, name, flags | O_NOFOLLOW, mode, NO_LINKS);
}

int fm_tsys_open_unmounted(int dir, const char *name, int flags)
{
	if (FM_FAULT("tree.open"))
		return -EMFILE;
	return fm_call_open_below(dir, name, flags | O_NOFOLLOW, 0, NO_LINKS | RESOLVE_NO_XDEV);
}

int fm_tsys_fstat(int fd, struct stat *out)
{
	return FM_FAULT("tree.stat") ? -EIO : fm_call(fstat(fd, out));
}

int fm_tsys_fstatat(int dir, const char *name, struct stat *out)
{
	return FM_FAULT("tree.stat") ? -EIO : fm_call_fstatat(dir, name, out);
}

int64_t fm_tsys_mtime(const struct stat *st)
{
	return fm_time_ns(&st->st_mtim);
}

uint64_t fm_tsys_ctime(const struct stat *st)
{
	return (uint64_t)st->st_ctim.tv_sec * FM_NS_PER_S + (uint64_t)st->st_ctim.tv_nsec;
}

int fm_tsys_write_all(int fd, const void *buf, size_t len, uint64_t offset)
{
	return FM_FAULT("tree.write") ? -ENOSPC : fm_call_write_all(fd, buf, len, offset);
}

int fm_tsys_truncate(int fd, uint64_t len)
{
	return FM_FAULT("tree.truncate") ? -EIO : fm_call_ftruncate(fd, len);
}

/* Whether the file lies in memory. Reserving room there would touch each page once more. */
static bool is_memory(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 &&
	       (fs.f_type == TMPFS_MAGIC || (unsigned long)fs.f_type == RAMFS_MAGIC);
}

int fm_tsys_free_bytes(int fd, uint64_t *out)
{
	struct statfs fs;
	uint64_t block;
	int ret = FM_FAULT("tree.fstatfs") ? -EIO : fm_call(fstatfs(fd, &fs));

	if (ret < 0)
		return ret;
	block = (uint64_t)(fs.f_frsize > 0 ? fs.f_frsize : fs.f_bsize);
	*out = fs.f_blocks == 0 || block == 0 ? UINT64_MAX : fs.f_bavail * block;
	return 0;
}

int fm_tsys_allocate(int fd, uint64_t len)
{
	int ret;

	if (len == 0 || is_memory(fd))
		return fm_tsys_truncate(fd, len);
	if (FM_FAULT("tree.allocate"))
		return -ENOSPC;
	ret = fm_call_fallocate(fd, 0, len);
	if (ret == -ENOSPC || ret == -EDQUOT || ret == -EFBIG || ret == -EIO)
		return ret;
	return fm_tsys_truncate(fd, len);
}

int fm_tsys_clone(int to, int from)
{
	return FM_FAULT("tree.clone") ? -EOPNOTSUPP : fm_call(ioctl(to, FICLONE, from));
}

int fm_tsys_is_open_to_write(int fd)
{
	return FM_FAULT("tree.lease") ? -EINVAL : fm_call_is_open_to_write(fd);
}

int fm_tsys_chmod(int fd, mode_t mode)
{
	return FM_FAULT("tree.chmod") ? -EIO : fm_call(fchmod(fd, mode));
}

int fm_tsys_chown(int fd, uid_t uid, gid_t gid)
{
	return FM_FAULT("tree.chown") ? -EPERM : fm_call(fchown(fd, uid, gid));
}

int fm_tsys_set_mtime(int fd, int64_t mtime_ns)
{
	return FM_FAULT("tree.set_mtime") ? -EIO : fm_call_set_mtime(fd, mtime_ns);
}

int fm_tsys_set_times(int fd, const struct stat *st)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };

	return FM_FAULT("tree.set_mtime") ? -EIO : fm_call(futimens(fd, times));
}

int fm_tsys_set_link(int dir, const char *name, int64_t mtime_ns)
{
	return FM_FAULT("tree.set_mtime") ? -EIO : fm_call_set_link_mtime(dir, name, mtime_ns);
}

int fm_tsys_own_link(int dir, const char *name, uid_t uid, gid_t gid)
{
	return FM_FAULT("tree.chown") ? -EPERM : fm_call_chown_link(dir, name, uid, gid);
}

int fm_tsys_set_xattr(int fd, const char *name, const void *value, size_t len)
{
	return FM_FAULT("tree.set_xattr") ? -ENOSPC : fm_call(fsetxattr(fd, name, value, len, 0));
}

int fm_tsys_fsync(int fd)
{
	int ret = FM_FAULT("tree.fsync") ? -EIO : fm_call(fsync(fd));

	return ret == -EINVAL ? 0 : ret;
}

int fm_tsys_syncfs(int fd)
{
	return FM_FAULT("tree.syncfs") ? -EIO : fm_call(syncfs(fd));
}

int fm_tsys_close(int fd)
{
	int ret = fm_call(close(fd));

	if (FM_FAULT("tree.close"))
		return -EIO;
	return ret == -EINTR ? 0 : ret;
}

int fm_tsys_mkdir(int dir, const char *name)
{
	return FM_FAULT("tree.mkdir") ? -ENOSPC : fm_call_mkdirat(dir, name, 0700);
}

int fm_tsys_symlink(const char *target, int dir, const char *name)
{
	if (FM_FAULT("tree.symlink_target"))
		return -ENAMETOOLONG;
	return FM_FAULT("tree.symlink") ? -ENOSPC : fm_call_symlinkat(target, dir, name);
}

int fm_tsys_link(int from_dir, const char *from, int dir, const char *name)
{
	return FM_FAULT("tree.link") ? -EIO : fm_call_linkat(from_dir, from, dir, name);
}

int fm_tsys_is_mounted_on(int dir, const char *name)
{
	const int flags =
		AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
	struct statx stx;
	int ret;

	if (name[0] && !fm_is_component(name))
		return -EXDEV;
	ret = FM_FAULT("tree.stat") ? -EIO : fm_call(statx(dir, name, flags, 0, &stx));
	if (ret < 0)
		return ret;
	return (stx.stx_attributes_mask & stx.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

int fm_tsys_unlink(int dir, const char *name, int flags)
{
	return FM_FAULT("tree.unlink") ? -EIO : fm_call_unlinkat(dir, name, flags);
}

int fm_tsys_each_name(int dir, int (*fn)(void *ctx, int dir, const char *name), void *ctx)
{
	int fd = fm_tsys_open(dir, ".", O_RDONLY | O_DIRECTORY, 0);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	int ret = fd < 0 ? fd : d ? 0 : -errno;

	if (!d) {
		if (fd >= 0)
			(void)close(fd);	/* only read */
		return ret;
	}
	do {
		errno = 0;
		e = readdir(d);
		if (!e)
			ret = -errno;
		else if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			ret = fn(ctx, dir, e->d_name);
	} while (e && ret == 0);
	(void)closedir(d);
	return ret;
}

bool fm_tsys_is_private(const struct stat *st)
{
	return st->st_uid == geteuid() && (st->st_mode & 0022) == 0;
}

int fm_tsys_rename(int from_dir, const char *from, int dir, const char *name, unsigned flags)
{
	if (FM_FAULT("tree.rename"))
		return -EIO;
	/* For the fallbacks of file systems that know no flags. */
	if (flags && FM_FAULT("tree.rename_flags"))
		return -EINVAL;
	return fm_call_renameat(from_dir, from, dir, name, flags);
}

int fm_tsys_rename_free(int from_dir, const char *from, int dir, const char *name)
{
	struct stat st;
	int ret = fm_tsys_rename(from_dir, from, dir, name, RENAME_NOREPLACE);

	if (!fm_tsys_is_unsupported(ret))
		return ret;
	ret = fm_tsys_fstatat(dir, name, &st);
	if (ret != -ENOENT)
		return ret < 0 ? ret : -EEXIST;
	return fm_tsys_rename(from_dir, from, dir, name, 0);
}

int fm_tsys_chmod_opened(int fd, mode_t mode)
{
	char self[64];
	struct stat st;
	int ret = fm_tsys_fstat(fd, &st);

	if (ret == 0 && !S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		ret = -ELOOP;
	/* fchmod() refuses O_PATH; the name of the descriptor leads to what it refers to, whatever
	 * the name is now. */
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	if (ret == 0)
		ret = FM_FAULT("tree.chmod") ? -EIO : fm_call(chmod(self, mode));
	return ret;
}

int fm_tsys_chmod_at(int dir, const char *name, mode_t mode)
{
	int fd = fm_tsys_open(dir, name, O_PATH, 0), ret;

	if (fd < 0)
		return fd;
	ret = fm_tsys_chmod_opened(fd, mode);
	close(fd);
	return ret;
}
