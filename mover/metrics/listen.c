/* SPDX-License-Identifier: MIT */
/* listen - see listen.h. */
#include "mover/metrics/listen.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/base/socket_file.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* since Linux 6.16; of arm64 and x86-64, as of most */
#endif

static int listen_at(const struct addrinfo *at, int backlog)
{
	const int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
	int yes = 1, ret = 0, fd;

	fd = FM_FAULT("metrics.socket") ? (errno = EMFILE, -1) : socket(at->ai_family, type, 0);
	if (fd < 0)
		return -errno;
	/* a daemon that starts again finds connections of the former one */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
	    bind(fd, at->ai_addr, at->ai_addrlen) < 0 || listen(fd, backlog) < 0)
		ret = -errno;
	if (ret < 0)
		(void)close(fd);	/* nothing was written to it */
	return ret < 0 ? ret : fd;
}

static int listen_at_port(const char *host, uint16_t port, int backlog, struct fm_err *err)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
	struct addrinfo *at;
	char service[8];
	int ret;

	(void)snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(host, service, &hints, &at) != 0)
		return fm_err_set(err, -EINVAL, "%s is no address", host);
	ret = listen_at(at, backlog);
	freeaddrinfo(at);
	if (ret == -EADDRINUSE)
		return fm_err_set(err, ret, "port %u of %s is taken: ss -ltnp says by whom", port,
				  host);
	return ret < 0 ? fm_err_sys(err, ret, "listen on port %u of %s", port, host) : ret;
}

/* Whether nobody can hand descriptors over to who reads from this socket. */
static bool is_closed_to_descriptors(int fd)
{
	const int no = 0;

	return !FM_FAULT("metrics.rights") &&
	       setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no)) == 0;
}

static int listen_at_path(const struct fm_metrics_at *at, int backlog, struct sockaddr_un *address,
			  struct fm_err *err)
{
	struct fm_socket_file file = {.path = at->path,
				      .mode = FM_METRICS_SOCKET_MODE,
				      .gid = (gid_t)-1,
				      .backlog = backlog,
				      .daemon = at->daemon};
	const int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
	int ret, fd;

	fd = FM_FAULT("metrics.socket") ? (errno = EMFILE, -1) : socket(AF_UNIX, type, 0);
	if (fd < 0)
		return fm_err_sys(err, -errno, "socket %s", at->path);
	if (!is_closed_to_descriptors(fd))
		file.mode = FM_METRICS_SOCKET_MODE_ALONE;
	ret = fm_socket_file_listen(fd, &file, address, err);
	if (ret == 0)
		return fd;
	address->sun_path[0] = '\0';
	(void)close(fd);	/* nothing was written to it */
	return ret;
}

int fm_metrics_listen(const struct fm_metrics_at *at, int backlog, struct sockaddr_un *file,
		      struct fm_err *err)
{
	file->sun_path[0] = '\0';
	return at->path ? listen_at_path(at, backlog, file, err)
			: listen_at_port(at->host, at->port, backlog, err);
}

void fm_metrics_log(const char *where, const char *path)
{
	struct stat st;

	if (path && stat(path, &st) == 0)	/* who may connect depends on the kernel */
		fm_log_info("metrics at %s, with mode %04o", where, st.st_mode & 0777u);
	else
		fm_log_info("metrics at %s", where);
}
