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
#include <sys/un.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"

static int open_socket(int family)
{
	int fd = FM_FAULT("metrics.socket") ? (errno = EMFILE, -1)
					    : socket(family, SOCK_STREAM | SOCK_CLOEXEC |
								     SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : fd;
}

/* ---- an address ---- */

static int listen_at(const struct addrinfo *at, int backlog)
{
	int yes = 1, ret = 0, fd = open_socket(at->ai_family);

	if (fd < 0)
		return fd;
	/* a daemon that starts again finds connections of the former one */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
	    bind(fd, at->ai_addr, at->ai_addrlen) < 0 || listen(fd, backlog) < 0)
		ret = -errno;
	if (ret < 0)
		(void)close(fd);	/* nothing was written to it */
	return ret < 0 ? ret : fd;
}

int fm_metrics_listen_ip(const char *host, uint16_t port, int backlog, struct fm_err *err)
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

/* ---- a UNIX socket ---- */

/* Whether nobody listens there any more. */
static bool is_dead(const struct sockaddr_un *address)
{
	bool is_refused;
	struct stat st;
	int fd;

	if (lstat(address->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	fd = open_socket(AF_UNIX);
	if (fd < 0)
		return false;
	is_refused = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
		     errno == ECONNREFUSED;
	(void)close(fd);	/* only asked */
	return is_refused;
}

static int bind_unix(int fd, const struct sockaddr_un *address)
{
	if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
		return 0;
	if (errno != EADDRINUSE || !is_dead(address))
		return -errno;
	(void)unlink(address->sun_path);	/* bind() says it if it is still there */
	return bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? -errno : 0;
}

int fm_metrics_listen_unix(const char *path, mode_t mode, gid_t gid, int backlog,
			   struct fm_err *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, ret;

	if (strlen(path) >= sizeof(address.sun_path))
		return fm_err_set(err, -ENAMETOOLONG, "socket %s: its path is too long", path);
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = open_socket(AF_UNIX);
	if (fd < 0)
		return fm_err_sys(err, fd, "socket %s", path);
	/* bind() gives the file the mode of the descriptor: nobody gets in before it is right. */
	ret = fchmod(fd, 0) < 0 ? -errno : bind_unix(fd, &address);
	if (ret == -EADDRINUSE)
		(void)fm_err_set(err, ret, "socket %s: somebody listens there, or it is no socket",
				 path);
	else if (ret < 0)
		(void)fm_err_sys(err, ret, "socket %s", path);
	if (ret == 0 && ((gid != (gid_t)-1 && lchown(path, (uid_t)-1, gid) < 0) ||
			 chmod(path, mode) < 0 || listen(fd, backlog) < 0)) {
		ret = fm_err_sys(err, -errno, "socket %s: set its group and mode, listen", path);
		(void)unlink(path);	/* ours; if it stays, the next start replaces it */
	}
	if (ret < 0)
		(void)close(fd);	/* nothing was written to it */
	return ret < 0 ? ret : fd;
}
