/* SPDX-License-Identifier: MIT */
/* socket_file - see socket_file.h. */
#include "mover/base/socket_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"

#define LOCK_TRIES	200u		/* 2 s in all */
#define LOCK_EVERY_NS	10000000L

/* One try: the descriptor; -EAGAIN: another one has it just now, or has removed the file since. */
static int try_lock(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	struct stat st;
	int ret;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		ret = -errno;
	else if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
		ret = -EPERM;
	else if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		ret = -errno;	/* EWOULDBLOCK is EAGAIN */
	else if (fstat(fd, &st) < 0 || st.st_nlink == 0)
		ret = -EAGAIN;
	else
		return fd;
	(void)close(fd);	/* nothing was written */
	return ret;
}

/*
 * Of two daemons that start at once, one would find the other's socket dead that does not listen
 * yet, and put its own in the place. So a file beside the socket is locked until it listens: one
 * that nobody but this user can open, or anybody could keep the socket from being served. Negative:
 * no lock, since somebody put another file there or the file system has none, and it goes on
 * without.
 */
static int lock_file(const char *name)
{
	const struct timespec pause = { .tv_nsec = LOCK_EVERY_NS };
	int fd = try_lock(name);

	for (unsigned i = 0; fd == -EAGAIN && i < LOCK_TRIES; i++) {
		(void)nanosleep(&pause, NULL);
		fd = try_lock(name);
	}
	return fd;
}

static void unlock_file(const char *name, int fd)
{
	if (fd < 0)
		return;
	(void)unlink(name);	/* one that stays is used by the next */
	(void)close(fd);	/* which unlocks */
}

/*
 * Whether nobody listens there any more. A listener of another type says that it is one, and is not
 * bothered.
 */
static bool is_dead(const struct sockaddr_un *address)
{
	struct stat st;
	bool is_refused;
	int fd;

	if (lstat(address->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	is_refused = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
		     errno == ECONNREFUSED;
	(void)close(fd);	/* only asked */
	return is_refused;
}

static int bind_to(int fd, const struct sockaddr_un *address, const char *daemon,
		   struct fm_err *err)
{
	int ret = bind(fd, (const struct sockaddr *)address, sizeof(*address));

	if (ret < 0 && errno == EADDRINUSE && is_dead(address)) {
		(void)unlink(address->sun_path);	/* bind() says it if it is still there */
		ret = bind(fd, (const struct sockaddr *)address, sizeof(*address));
	}
	if (ret < 0 && errno == EADDRINUSE)
		return fm_err_set(err, -EADDRINUSE,
				  "socket %s: another %s serves it, or it is no socket",
				  address->sun_path, daemon);
	return ret < 0 ? fm_err_sys(err, -errno, "socket %s", address->sun_path) : 0;
}

/*
 * Group and mode of the socket that was bound. By its descriptor: chmod() would follow a link that
 * somebody put there, and fchmod() of a socket does not change its file.
 */
static int set_access(const struct fm_socket_file *file)
{
	char self[64];
	struct stat st;
	int fd = open(file->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int ret = 0;

	if (fd < 0)
		return -errno;
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);	/* always fits */
	if (fstat(fd, &st) < 0)
		ret = -errno;
	else if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
		ret = -EPERM;
	else if ((file->gid != (gid_t)-1 &&
		  fchownat(fd, "", (uid_t)-1, file->gid, AT_EMPTY_PATH) < 0) ||
		 chmod(self, file->mode) < 0)
		ret = -errno;
	(void)close(fd);	/* only looked at */
	return ret;
}

static int serve(int fd, const struct fm_socket_file *file, const struct sockaddr_un *address,
		 struct fm_err *err)
{
	int ret = bind_to(fd, address, file->daemon, err);

	if (ret < 0)
		return ret;
	ret = FM_FAULT("packet.listen") ? -EIO : set_access(file);
	if (ret == 0 && listen(fd, file->backlog) < 0)
		ret = -errno;
	if (ret < 0) {
		(void)unlink(file->path);	/* ours; if it stays, the next start replaces it */
		ret = fm_err_sys(err, ret, "socket %s: set its group and mode, listen",
				 file->path);
	}
	return ret;
}

int fm_socket_file_listen(int fd, const struct fm_socket_file *file, struct sockaddr_un *address,
			  struct fm_err *err)
{
	char name[sizeof(address->sun_path) + sizeof(".lock")];
	size_t len = strlen(file->path);
	int ret, lock;

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (len == 0 || len >= sizeof(address->sun_path))
		return fm_err_set(err, -ENAMETOOLONG,
				  "socket %s: a path of 1 to %zu bytes is needed", file->path,
				  sizeof(address->sun_path) - 1);
	memcpy(address->sun_path, file->path, len + 1);
	/* bind() gives the file the mode of the descriptor: nobody gets in before owner and mode
	 * are right. */
	if (fchmod(fd, 0) < 0)
		return fm_err_sys(err, -errno, "socket %s: set its mode", file->path);
	(void)snprintf(name, sizeof(name), "%s.lock", file->path);
	lock = lock_file(name);
	ret = serve(fd, file, address, err);
	unlock_file(name, lock);
	return ret;
}
