/* SPDX-License-Identifier: MIT */
/* call - see call.h. */
#include "mover/base/call.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mover/base/component.h"
#include "mover/base/env.h"

/*
 * A look-up beneath a directory that is being renamed answers EAGAIN. That wait is not ours, so a
 * few tries are enough.
 */
#define BELOW_TRIES_MAX 64
/* more than what comes makes for itself: a partial file and a journal, a directory's staging */
#define FEW_INODES 8

int fm_call_open_below(int root, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	struct open_how how = {
		/* openat2(2) refuses flags that mean nothing for O_PATH. */
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NOCTTY)),
		.mode = flags & O_CREAT ? mode : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve,
	};
	int ret = -EAGAIN;

	for (int i = 0; i < BELOW_TRIES_MAX && (ret == -EAGAIN || ret == -EINTR); i++)
		ret = fm_call(syscall(SYS_openat2, root, path, &how, sizeof(how)));
	return ret;
}

bool fm_call_lacks_inodes(int fd)
{
	struct statfs fs;

	/* f_files: 0 where there are as many as there is room for. What was made before the one
	 * that could not be made may have gone already. */
	return fstatfs(fd, &fs) == 0 && fs.f_files > 0 && fs.f_ffree < FEW_INODES &&
	       fs.f_bavail > 0;
}

int fm_call_fstatat(int dir, const char *name, struct stat *out)
{
	return fm_is_component(name) ? fm_call(fstatat(dir, name, out, AT_SYMLINK_NOFOLLOW))
				     : -EXDEV;
}

int fm_call_born_at(int dir, const char *name, int64_t *out_ns)
{
	struct statx st;
	int ret = fm_is_component(name)
			  ? fm_call(statx(dir, name, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &st))
			  : -EXDEV;

	if (ret < 0)
		return ret;
	*out_ns = 0;
	if (st.stx_mask & STATX_BTIME)
		*out_ns = st.stx_btime.tv_sec * (int64_t)FM_NS_PER_S + st.stx_btime.tv_nsec;
	return 0;
}

int fm_call_handle_at(int dir, const char *name, uint8_t out[static FM_CALL_HANDLE_MAX])
{
	union {
		struct file_handle handle;
		uint8_t bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} u = { .handle.handle_bytes = MAX_HANDLE_SZ };
	size_t len;
	int ret, mount;

	_Static_assert(sizeof(u) <= FM_CALL_HANDLE_MAX, "every handle fits");
	ret = fm_is_component(name) ? fm_call(name_to_handle_at(dir, name, &u.handle, &mount, 0))
				    : -EXDEV;
	if (ret < 0)
		return ret;
	len = offsetof(struct file_handle, f_handle) + u.handle.handle_bytes;
	memcpy(out, u.bytes, len);
	return (int)len;
}

int fm_call_mkdirat(int dir, const char *name, mode_t mode)
{
	return fm_is_component(name) ? fm_call(mkdirat(dir, name, mode)) : -EXDEV;
}

int fm_call_symlinkat(const char *target, int dir, const char *name)
{
	return fm_is_component(name) ? fm_call(symlinkat(target, dir, name)) : -EXDEV;
}

int fm_call_linkat(int from_dir, const char *from, int dir, const char *name)
{
	if (!fm_is_component(from) || !fm_is_component(name))
		return -EXDEV;
	return fm_call(linkat(from_dir, from, dir, name, 0));
}

int fm_call_unlinkat(int dir, const char *name, int flags)
{
	return fm_is_component(name) ? fm_call(unlinkat(dir, name, flags)) : -EXDEV;
}

int fm_call_renameat(int from_dir, const char *from, int dir, const char *name, unsigned flags)
{
	if (!fm_is_component(from) || !fm_is_component(name))
		return -EXDEV;
	return fm_call(renameat2(from_dir, from, dir, name, flags));
}

int fm_call_chown_link(int dir, const char *name, uid_t uid, gid_t gid)
{
	return fm_is_component(name) ? fm_call(fchownat(dir, name, uid, gid, AT_SYMLINK_NOFOLLOW))
				     : -EXDEV;
}

static void times_of(int64_t mtime_ns, struct timespec times[2])
{
	const int64_t ns_per_s = (int64_t)FM_NS_PER_S;

	times[0] = (struct timespec){ .tv_nsec = UTIME_OMIT };
	times[1] = (struct timespec){.tv_sec = mtime_ns / ns_per_s, .tv_nsec = mtime_ns % ns_per_s};
	if (times[1].tv_nsec < 0) {	/* before 1970 */
		times[1].tv_sec--;
		times[1].tv_nsec += ns_per_s;
	}
}

int fm_call_set_mtime(int fd, int64_t mtime_ns)
{
	struct timespec times[2];

	times_of(mtime_ns, times);
	return fm_call(futimens(fd, times));
}

int fm_call_set_link_mtime(int dir, const char *name, int64_t mtime_ns)
{
	struct timespec times[2];

	times_of(mtime_ns, times);
	return fm_is_component(name) ? fm_call(utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW))
				     : -EXDEV;
}

int fm_call_ftruncate(int fd, uint64_t len)
{
	int ret;

	do {
		ret = fm_call(ftruncate(fd, (off_t)len));
	} while (ret == -EINTR);
	return ret;
}

int fm_call_fallocate(int fd, uint64_t offset, uint64_t len)
{
	int ret;

	do {
		ret = fm_call(fallocate(fd, 0, (off_t)offset, (off_t)len));
	} while (ret == -EINTR);
	return ret;
}

int fm_call_fdatasync(int fd)
{
	int ret;

	do {
		ret = fm_call(fdatasync(fd));
	} while (ret == -EINTR);
	return ret;
}

int fm_call_write_back(int fd, uint64_t offset, uint64_t len, unsigned flags)
{
	int ret = fm_call(sync_file_range(fd, (off_t)offset, (off_t)len, flags));

	return ret == -ENOSYS || ret == -EPERM || ret == -EINVAL || ret == -ESPIPE ? 0 : ret;
}

/*
 * Asks for a lease. Whoever opens the file, in a way that the lease excludes, before it is given
 * back waits, and the kernel sends us a signal: SIGIO would end us, SIGURG is ignored unless
 * somebody handles it.
 */
static int is_refused_lease(int fd, int lease)
{
	int ret = fm_call(fcntl(fd, F_SETSIG, SIGURG));

	if (ret == 0)
		ret = fm_call(fcntl(fd, F_SETLEASE, lease));
	if (ret == 0)
		ret = fm_call(fcntl(fd, F_SETLEASE, F_UNLCK));
	return ret == -EAGAIN || ret == -EBUSY ? 1 : ret;
}

/* A lease for writing is given only where nobody else has the file open. */
int fm_call_is_open_elsewhere(int fd)
{
	return is_refused_lease(fd, F_WRLCK);
}

/* One for reading is given where nobody writes. */
int fm_call_is_open_to_write(int fd)
{
	return is_refused_lease(fd, F_RDLCK);
}

static int64_t read_once(int fd, void *buf, size_t len, uint64_t offset)
{
	ssize_t got;

	do {
		got = pread(fd, buf, len, (off_t)offset);
	} while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

int64_t fm_call_read_direct(int fd, void *buf, size_t len, uint64_t offset)
{
	int64_t got = read_once(fd, buf, len, offset);
	int flags = got == -EINVAL ? fcntl(fd, F_GETFL) : -1;

	if (flags < 0 || !(flags & O_DIRECT) || fcntl(fd, F_SETFL, flags & ~O_DIRECT) < 0)
		return got;
	return read_once(fd, buf, len, offset);
}

int64_t fm_call_read_all(int fd, void *buf, size_t len, uint64_t offset)
{
	size_t done = 0;

	while (done < len) {
		ssize_t got = pread(fd, (char *)buf + done, len - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (int64_t)done;
}

int fm_call_write_all(int fd, const void *buf, size_t len, uint64_t offset)
{
	size_t done = 0;

	while (done < len) {
		ssize_t put =
			pwrite(fd, (const char *)buf + done, len - done, (off_t)(offset + done));

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return put < 0 ? -errno : -EIO;
		done += (size_t)put;
	}
	return 0;
}

union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(sizeof(int))];
};

int fm_call_send_fd(int sock, const void *message, size_t len, int fd, int flags)
{
	union control control = { .room = { 0 } };
	struct iovec iov = { (void *)(uintptr_t)message, len };
	struct msghdr hdr = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (fd >= 0) {
		hdr.msg_control = &control;
		hdr.msg_controllen = sizeof(control);
		control.align = (struct cmsghdr){ CMSG_LEN(sizeof(fd)), SOL_SOCKET, SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	}
	do {
		n = sendmsg(sock, &hdr, flags | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int fm_call_recv_fd(int sock, void *message, size_t len, int *fd, int flags)
{
	union control control;
	struct iovec iov = { message, len };
	struct msghdr hdr = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *at;
	ssize_t n;

	do {
		n = recvmsg(sock, &hdr, flags | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	*fd = hdr.msg_flags & MSG_CTRUNC ? -EMFILE : -1;
	at = CMSG_FIRSTHDR(&hdr);
	if (at && at->cmsg_type == SCM_RIGHTS && at->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(at), sizeof(int));
	return (int)n;
}
