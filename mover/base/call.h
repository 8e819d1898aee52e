/* SPDX-License-Identifier: MIT */
/*
 * call - system calls as the rest of the mover wants them: -errno instead of errno, EINTR tried
 * again, all of the bytes or an error, no name that leads out of its directory.
 *
 * The one place that says how each is called. What can fail on purpose is said by who calls: the
 * fault points of a store, a tree and a journal stand before these, in store/sys.h, tree/tsys.h and
 * journal/file.h. Any thread.
 */
#ifndef FM_BASE_CALL_H
#define FM_BASE_CALL_H

#include <errno.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* What a system call returned: its value, or -errno. */
static inline int fm_call(long ret)
{
	return ret < 0 ? -errno : (int)ret;
}

/*
 * Open path below root: a descriptor, or -EXDEV if the path leads out. flags as for open(2), and
 * O_CLOEXEC; resolve: more RESOLVE_ flags of openat2(2) than RESOLVE_BENEATH and
 * RESOLVE_NO_MAGICLINKS. -EAGAIN: directories there are being renamed without end.
 */
int fm_call_open_below(int root, const char *path, int flags, mode_t mode, uint64_t resolve);

/* Whether what could not be made in the file system of fd (-ENOSPC) lacks an inode, not bytes. */
bool fm_call_lacks_inodes(int fd);

/* As fstatat(2) and so on, of a link itself; -EXDEV: the name is not one component. */
int fm_call_fstatat(int dir, const char *name, struct stat *out);
/* The group may read and enter what its owner may. */
static inline mode_t fm_mode_for_group(mode_t mode)
{
	return mode | (mode & (S_IRUSR | S_IXUSR)) >> 3;
}

/* When it was made, ns since 1970; 0: the file system does not tell. */
int fm_call_born_at(int dir, const char *name, int64_t *out_ns);

/*
 * Its file handle, which no other file of that file system has, or will have: most count in it how
 * often an inode's number was given. The length of the handle; an error, such as -EOPNOTSUPP: the
 * file system has none.
 */
#define FM_CALL_HANDLE_MAX 160
int fm_call_handle_at(int dir, const char *name, uint8_t out[static FM_CALL_HANDLE_MAX]);

int fm_call_mkdirat(int dir, const char *name, mode_t mode);
int fm_call_symlinkat(const char *target, int dir, const char *name);
int fm_call_linkat(int from_dir, const char *from, int dir, const char *name);
int fm_call_unlinkat(int dir, const char *name, int flags);
int fm_call_renameat(int from_dir, const char *from, int dir, const char *name, unsigned flags);
int fm_call_chown_link(int dir, const char *name, uid_t uid, gid_t gid);
int fm_call_set_link_mtime(int dir, const char *name, int64_t mtime_ns);

/* ns since 1970; the time of the last access stays. */
int fm_call_set_mtime(int fd, int64_t mtime_ns);

int fm_call_ftruncate(int fd, uint64_t len);
int fm_call_fallocate(int fd, uint64_t offset, uint64_t len);
int fm_call_fdatasync(int fd);

/*
 * As sync_file_range(2), whose flags these are; len 0: to the end. 0 also where there is no such
 * thing: a file without pages to write back, a file system, an emulator or a filter of system calls
 * that does not know it. What was written is then on the disk after a sync, as without this call.
 */
int fm_call_write_back(int fd, uint64_t offset, uint64_t len, unsigned flags);

/*
 * Whether somebody else in this kernel has the open file open, or mapped: 1, 0. -EINVAL, -EACCES
 * and others: nobody can tell, since the file system has no leases, or the file is neither ours nor
 * may we lease it (CAP_LEASE). Who opens it in this moment waits, or hears EAGAIN if he does not.
 */
int fm_call_is_open_elsewhere(int fd);

/*
 * Whether somebody has the file, which is open here for reading alone, open or mapped for writing:
 * the same otherwise, but who opens it for reading in this moment does not wait.
 */
int fm_call_is_open_to_write(int fd);

/*
 * pread(2) of whole blocks (block.h). Where the file has O_DIRECT, and that needs more, as a disk
 * with larger sectors does, it is read through the page cache, now and from then on.
 */
int64_t fm_call_read_direct(int fd, void *buf, size_t len, uint64_t offset);

/* How many bytes there were, len at most: fewer only at the end of the file. */
int64_t fm_call_read_all(int fd, void *buf, size_t len, uint64_t offset);
int fm_call_write_all(int fd, const void *buf, size_t len, uint64_t offset);

/*
 * A message of a fixed size over a SOCK_SEQPACKET, with a descriptor beside it (-1: none). What is
 * sent stays the caller's, too. flags as for send(2).
 */
int fm_call_send_fd(int sock, const void *message, size_t len, int fd, int flags);

/*
 * Its length; 0: no more come. *fd is the caller's to close; -1: none was sent; -EMFILE: this
 * process has no room for it.
 */
int fm_call_recv_fd(int sock, void *message, size_t len, int *fd, int flags);

#endif
