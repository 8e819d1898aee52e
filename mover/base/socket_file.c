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

/*
 * Of two daemons that start at once, one would find the other's socket dead that does not listen
 * yet, and put its own in the place. So the directory is locked until it listens; the descriptor.
 * Negative: no lock. Somebody else may hold one there, or the file system has none: the start goes
 * on without.
 */
static int lock_directory(const char *path)
{
	const struct timespec pause = { .tv_nsec = LOCK_EVERY_NS };
	const char *slash = strrchr(path, '/');
	char directory[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int fd;

	(void)snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - path + 1) : 1,
		       slash ? path : ".");
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; fd >= 0 && i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
			break;
		(void)nanosleep(&pause, NULL);
	}
	return fd;
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
	lock = lock_directory(file->path);
	ret = serve(fd, file, address, err);
	if (lock >= 0)
		(void)close(lock);	/* which unlocks */
	return ret;
}
