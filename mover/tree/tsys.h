/* SPDX-License-Identifier: MIT */
/*
 * tsys - the system calls of a tree's sink (see base/call.h), with a fault point before each.
 *
 * No name leads out of its directory: it is one component, and what is opened is looked up beneath
 * (openat2), at the moment of use. A name that is none is -EXDEV. Links are followed by none of
 * them.
 *
 * Any thread. What is done on the way out (closing, undoing a rename) calls the system directly: it
 * has nobody to report to, and a fault there would only hide the one being tested.
 */
#ifndef FM_TREE_TSYS_H
#define FM_TREE_TSYS_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* By the modes of what is there: its owner may still change them. */
static inline bool fm_tsys_is_refused(int ret)
{
	return ret == -EACCES || ret == -EPERM;
}

/* Zeroed memory, from the budget (base/budget.h), or NULL. */
void *fm_tsys_alloc(size_t len);
void fm_tsys_free(void *at);

/* A directory below root, as O_PATH. No symbolic link is followed: -ELOOP, -ENOTDIR. */
int fm_tsys_open_below(int root, const char *path);

/* As openat(2), beneath dir. O_NOFOLLOW and O_CLOEXEC are added. */
int fm_tsys_open(int dir, const char *name, int flags, mode_t mode);

/* The same of what is there; -EXDEV if something is mounted on it, a directory of the same file
 * system too. */
int fm_tsys_open_unmounted(int dir, const char *name, int flags);

int fm_tsys_fstat(int fd, struct stat *out);
int fm_tsys_fstatat(int dir, const char *name, struct stat *out);	/* of a link itself */
int64_t fm_tsys_mtime(const struct stat *st);				/* ns since 1970 */
/* the same; nobody can set it */
uint64_t fm_tsys_ctime(const struct stat *st);

int fm_tsys_write_all(int fd, const void *buf, size_t len, uint64_t offset);
int fm_tsys_truncate(int fd, uint64_t len);
/* 0 too where it is not supported or of no use; the size is set then as well */
int fm_tsys_allocate(int fd, uint64_t len);
int fm_tsys_free_bytes(int fd, uint64_t *out);	/* UINT64_MAX: no limit, or it does not tell */
int fm_tsys_clone(int to, int from);		/* FICLONE */
int fm_tsys_is_open_to_write(int fd);		/* fm_call_is_open_to_write() */
int fm_tsys_chmod(int fd, mode_t mode);
int fm_tsys_chown(int fd, uid_t uid, gid_t gid);
int fm_tsys_set_mtime(int fd, int64_t mtime_ns);
int fm_tsys_set_times(int fd, const struct stat *st);	/* both, as there */
int fm_tsys_set_xattr(int fd, const char *name, const void *value, size_t len);
int fm_tsys_fsync(int fd);			/* 0 for a directory where there is no such thing */
int fm_tsys_syncfs(int fd);
/* of a written file: an error of it is one of writing */
int fm_tsys_close(int fd);

/* Of a symbolic link itself. */
int fm_tsys_set_link(int dir, const char *name, int64_t mtime_ns);
int fm_tsys_own_link(int dir, const char *name, uid_t uid, gid_t gid);

int fm_tsys_mkdir(int dir, const char *name);	/* 0700 */
int fm_tsys_symlink(const char *target, int dir, const char *name);
int fm_tsys_link(int from_dir, const char *from, int dir, const char *name);
int fm_tsys_unlink(int dir, const char *name, int flags);

/*
 * 1: another file system, or another part of this one, is mounted on that name; "": on dir itself.
 * 0: not, or this kernel does not tell.
 */
int fm_tsys_is_mounted_on(int dir, const char *name);

/*
 * fn for each name in dir but "." and "..", until it says something else than 0: 1 is enough. That,
 * or the error of the directory.
 */
int fm_tsys_each_name(int dir, int (*fn)(void *ctx, int dir, const char *name), void *ctx);

/* Whether only this user can have put anything into the directory. */
bool fm_tsys_is_private(const struct stat *st);

/* As renameat2(2). -EINVAL or -ENOSYS: the flag is not supported there. */
int fm_tsys_rename(int from_dir, const char *from, int dir, const char *name, unsigned flags);

/* Whether fm_tsys_rename() failed because the file system does not know the flags. */
static inline bool fm_tsys_is_unsupported(int ret)
{
	return ret == -EINVAL || ret == -ENOSYS || ret == -EOPNOTSUPP;
}

/* A file to a name that must be free, also where there is no RENAME_NOREPLACE (then looked at
 * first). */
int fm_tsys_rename_free(int from_dir, const char *from, int dir, const char *name);

/*
 * Give a directory or regular file of ours the mode by its name, without following a link and
 * without needing any right to it but that of its owner.
 */
int fm_tsys_chmod_at(int dir, const char *name, mode_t mode);

/* The same of what fd, which may be one of O_PATH, refers to. */
int fm_tsys_chmod_opened(int fd, mode_t mode);

#endif
