/* SPDX-License-Identifier: MIT */
/*
 * socket_file - the file of a UNIX socket that a daemon listens at: nobody gets in before its owner
 * and mode are right, and what a dead daemon left there is replaced, nothing else. Of two daemons
 * that start at once as the same user, one serves it and the other hears so: beside it lies
 * PATH.lock meanwhile. Where somebody else put a file of that name, nobody waits for it. Any
 * thread.
 */
#ifndef FM_BASE_SOCKET_FILE_H
#define FM_BASE_SOCKET_FILE_H

#include <sys/types.h>
#include <sys/un.h>

struct fm_err;

struct fm_socket_file {
	const char *path;	/* its directory must exist */
	mode_t mode;		/* who may connect, e.g. 0660 */
	gid_t gid;		/* owning group; (gid_t)-1: leave as it is */
	int backlog;
	const char *daemon;	/* for an error: "fmoved" */
};

/*
 * Binds fd, a UNIX socket of any type, and listens. *address is where, for unlink(). On failure
 * nothing of ours is there, and fd is still the caller's. -ENAMETOOLONG; -EADDRINUSE: another one
 * serves it, or it is no socket.
 */
int fm_socket_file_listen(int fd, const struct fm_socket_file *file, struct sockaddr_un *address,
			  struct fm_err *err);

#endif
